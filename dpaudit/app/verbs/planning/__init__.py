"""Verbs that need no run: from noise to what it proves, from a target to its noise, between scales."""
