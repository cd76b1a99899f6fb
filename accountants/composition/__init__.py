"""The mechanisms that one unit of privacy is exposed to, and their additive costs."""
