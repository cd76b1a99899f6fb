"""Mechanisms on samples that stay secret, and what is known of sums over them by whoever sees the rows."""
