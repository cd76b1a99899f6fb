"""Public names of `dpaudit.algorithms.papers.he_zhou_2025.dp_policy_gradient`."""

from dpaudit.algorithms.papers.he_zhou_2025.dp_policy_gradient import DPPolicyGradient

__all__ = ["DPPolicyGradient"]
