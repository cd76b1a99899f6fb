"""Closed formulas, each rounded to the safe side."""
