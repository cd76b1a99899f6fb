"""What is claimed: guarantees, the data sets they compare, sensitivities and bounds."""
