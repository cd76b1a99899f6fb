"""Public names of `dpaudit.algorithms.papers.qiao_wang_2023.dp_apvi`."""

from dpaudit.algorithms.papers.qiao_wang_2023.dp_apvi import DPAPVI, PenaltyConstants, apvi

__all__ = ["DPAPVI", "PenaltyConstants", "apvi"]
