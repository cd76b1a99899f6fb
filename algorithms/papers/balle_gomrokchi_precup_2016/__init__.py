"""Balle, Gomrokchi and Precup, Differentially Private Policy Evaluation (ICML 2016): DP-LSW and DP-LSL."""

FIGURES = {
    "balle-gomrokchi-precup-2016-figure-1": "private policy evaluation on a chain",
}
EARLIER = {"001-figure-1": "balle-gomrokchi-precup-2016-figure-1"}
