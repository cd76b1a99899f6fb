"""The report about a certificate: one self-contained page with pictures."""
