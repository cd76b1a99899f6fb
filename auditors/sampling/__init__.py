"""Audits by many runs on either side of a pair: made, scored, stored and resumed."""
