"""What `dpaudit gate` is made of: its configuration, its checks, its policy, its report and the formats of it."""
