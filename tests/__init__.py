"""The tests, so that no other package of this name comes first."""
