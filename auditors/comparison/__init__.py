"""Whether two outputs or data sets are the same, and how neighbouring ones are found."""
