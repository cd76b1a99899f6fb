"""A page of words, tables and pictures, and how it is drawn."""
