"""Public names of `dpaudit.algorithms.papers.qiao_wang_2023.dp_vapvi`."""

from dpaudit.algorithms.papers.qiao_wang_2023.dp_vapvi import DPVAPVI

__all__ = ["DPVAPVI"]
