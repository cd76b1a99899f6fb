"""From an algorithm and neighbouring data to findings and statistically valid lower bounds."""
