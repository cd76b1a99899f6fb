"""The dominating pair of output distributions of each mechanism."""
