"""The program of the mutation run is no test: pytest is called by it."""

collect_ignore = ["session.py"]
