"""Bounds proved in ball arithmetic (rigour `interval`)."""
