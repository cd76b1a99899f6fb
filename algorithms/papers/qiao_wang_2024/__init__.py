"""Qiao and Wang (2023, 2024): DP-UCBVI on tables."""
