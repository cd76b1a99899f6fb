"""Public names of `dpaudit.algorithms.papers.balle_gomrokchi_precup_2016.least_squares`."""

from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016.least_squares import DPLSL, DPLSW, lsl, lsw

__all__ = ["DPLSL", "DPLSW", "lsl", "lsw"]
