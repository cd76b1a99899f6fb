"""What `dpaudit gate` is made of: configuration, checks, policy, report, and the formats of the report."""
