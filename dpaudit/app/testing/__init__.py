"""The pytest plugin, and what it does without pytest."""
