"""Qiao and Wang (2023, 2024): DP-UCBVI on tables."""

FIGURES = {
    "qiao-wang-2024-regret": "regret of DP-UCBVI, joint and local; not in the paper",
}
