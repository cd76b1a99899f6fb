"""The parts of `dpaudit gate`: configuration, checks, policy, report, and report formats."""
