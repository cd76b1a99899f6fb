"""Ngo, Vietri and Wu (2022): Private LSVI-UCB for linear processes."""
