"""`dpaudit site`: one static folder over many certificates, ledgers and books."""
