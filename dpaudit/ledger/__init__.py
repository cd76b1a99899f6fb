"""The ledger: every release of a run, written, hashed and read back."""
