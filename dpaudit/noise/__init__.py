"""Exact noise: fair bits, the public grid of outputs, and values as integers on that grid."""
