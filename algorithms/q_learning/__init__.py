"""Q-learning with functional noise, as published and corrected, and its baselines."""
