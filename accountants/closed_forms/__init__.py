"""Closed formulas, each rounded so that no bound is on the wrong side."""
