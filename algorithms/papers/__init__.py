"""One room a paper: its algorithms line by line, their entries in the catalogue, and its figures."""
