"""Exact noise: fair bits, the public grid of outputs, and integers that stand for values on it."""
