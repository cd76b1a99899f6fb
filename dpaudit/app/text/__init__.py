"""How answers read at a terminal."""
