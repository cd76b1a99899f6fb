"""Budgets for runs whose number of releases may depend on what came out before."""
