"""He and Zhou (2025): private policy gradient for contextual bandits."""

FIGURES = {
    "he-zhou-2025-users": "what private policy gradient loses; not in the paper",
}
