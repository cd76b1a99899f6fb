"""Correlated noise: strategy matrices, their sensitivity, the mechanism, and strategies of least error."""
