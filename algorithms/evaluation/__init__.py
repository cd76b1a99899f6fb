"""Policy evaluation: DP-LSW and DP-LSL."""
