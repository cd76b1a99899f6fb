"""Statistically valid lower bounds from scores of runs."""
