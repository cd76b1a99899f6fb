"""Mechanisms that compare noisy numbers and release only which is larger."""
