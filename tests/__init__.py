"""What tests share; imported before anything of theirs."""

import sys

# The bytecode of tests and of pytest's plugins, whose assertions are rewritten, is kept from run to run: to
# rewrite them takes longer than to import them. Once all are collected, no more is written.
sys.dont_write_bytecode = False
