"""Offline reinforcement learning: DP-APVI, DP-VAPVI and what they are compared with."""
