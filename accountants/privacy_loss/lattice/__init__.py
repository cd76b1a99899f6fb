"""The composition of privacy losses atom by atom."""
