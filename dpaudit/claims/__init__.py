"""Claims: guarantees, neighbouring relations, sensitivities and bounds."""
