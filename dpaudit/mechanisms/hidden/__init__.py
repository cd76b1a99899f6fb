"""What is known of sums over secret samples by whoever sees the rows."""
