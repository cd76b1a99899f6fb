"""What a package adds to dpaudit: one file for each kind of entry."""
