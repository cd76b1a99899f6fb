"""Public names: online reinforcement learning."""
