"""Mechanisms that release a choice, comparisons or counts, and no noisy numbers behind them."""
