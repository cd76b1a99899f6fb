"""Qiao and Wang, Offline Reinforcement Learning with Differential Privacy (NeurIPS 2023)."""

FIGURES = {
    "qiao-wang-2023-figure-1a": "offline policies: DP-VAPVI against PEVI and VAPVI",
    "qiao-wang-2023-figure-1b": "the same for more budgets",
}
EARLIER = {
    "000-figure-1a": "qiao-wang-2023-figure-1a",
    "000-figure-1b": "qiao-wang-2023-figure-1b",
}
