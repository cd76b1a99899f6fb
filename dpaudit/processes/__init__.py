"""Targets in processes of their own: what runs in them, what is sent, and the holder's side of a run."""
