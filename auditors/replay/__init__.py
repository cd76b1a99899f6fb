"""The white-box audit: an algorithm run again on both data sets with the same noise."""
