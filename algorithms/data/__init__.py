"""Data sets: trajectories and episodes, where they are read from, and which ones are built in."""
