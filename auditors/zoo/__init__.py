"""Mechanisms with known faults, and correct ones, to test auditors on."""
