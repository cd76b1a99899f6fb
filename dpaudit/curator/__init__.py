"""The curator: the only way by which private data leaves an algorithm."""
