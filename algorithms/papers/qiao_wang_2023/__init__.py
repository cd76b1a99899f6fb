"""Qiao and Wang, Offline Reinforcement Learning with Differential Privacy (NeurIPS 2023)."""
