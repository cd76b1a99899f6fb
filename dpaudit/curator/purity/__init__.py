"""Whether a function's result can depend on anything besides its argument, read from its source."""
