"""What a person touches: the command line, its verbs and the reports they write."""
