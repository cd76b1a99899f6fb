"""Mechanisms with known faults, and innocent ones, to hold auditors against."""
