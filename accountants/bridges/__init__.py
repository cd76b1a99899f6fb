"""Import ledgers from other libraries' records, and export ledgers to them."""
