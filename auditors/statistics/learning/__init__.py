"""Scores and features that are learned from runs."""
