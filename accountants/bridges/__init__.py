"""Ledgers from and to other libraries' records."""
