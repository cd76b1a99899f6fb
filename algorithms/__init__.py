"""Private algorithms, line by line after their papers, with their environments and data."""
