"""Public names of `dpaudit.algorithms.papers.qiao_wang_2024.dp_ucbvi`."""

from dpaudit.algorithms.papers.qiao_wang_2024.dp_ucbvi import DPUCBVI, ucbvi

__all__ = ["DPUCBVI", "ucbvi"]
