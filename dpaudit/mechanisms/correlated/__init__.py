"""Correlated noise: strategy matrices, their sensitivity, the mechanism, and least-error strategies."""
