"""Public names: Q-learning."""
