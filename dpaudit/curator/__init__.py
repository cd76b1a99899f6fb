"""The curator: the only object through which private data leave an algorithm."""
