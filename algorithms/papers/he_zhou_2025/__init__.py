"""He and Zhou (2025): private policy gradient for contextual bandits."""
