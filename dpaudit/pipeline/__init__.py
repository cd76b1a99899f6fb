"""Run, account, audit and judge: each written once, for the command line, the gate, pytest and Python."""
