"""Mechanisms that release a choice, comparisons or counts, without the noisy numbers."""
