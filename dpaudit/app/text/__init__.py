"""The text of answers at a terminal."""
