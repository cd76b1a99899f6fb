"""Balle, Gomrokchi and Precup, Differentially Private Policy Evaluation (ICML 2016): DP-LSW and DP-LSL."""
