"""Privacy curves: delta(epsilon) and epsilon(delta) of everything that one unit is exposed to."""
