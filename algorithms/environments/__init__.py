"""The decision processes that data are drawn from."""
