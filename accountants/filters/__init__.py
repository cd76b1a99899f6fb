"""Budgets for runs whose number of releases may depend on earlier outputs."""
