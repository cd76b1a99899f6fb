"""Training with differential privacy: models, DP-SGD and DP-FTRL."""
