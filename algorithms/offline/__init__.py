"""Public names: offline reinforcement learning."""
