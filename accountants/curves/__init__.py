"""Privacy curves: delta(epsilon) and epsilon(delta) of all releases that one unit is exposed to."""
