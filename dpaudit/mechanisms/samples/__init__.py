"""Mechanisms on secret samples, and the densities of sums over them for given rows."""
