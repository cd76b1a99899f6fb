"""Check from its source that a function's result depends on its argument alone."""
