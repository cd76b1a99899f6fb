"""Public names of `dpaudit.algorithms.papers.wang_hegde_2019.dp_q_learning`."""

from dpaudit.algorithms.papers.wang_hegde_2019.dp_q_learning import DPQLearning

__all__ = ["DPQLearning"]
