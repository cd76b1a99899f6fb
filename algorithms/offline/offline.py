"""What offline reinforcement learning algorithms have in common: their output."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.environments.tabular import TabularMDP


class Policy(NamedTuple):
    """What leaves the algorithm.

    Attributes:
        actions: [H, S] int, the action of each state at each step.
        values: [H+1, S], pessimistic values.
    """

    actions: NDArray[np.int64]
    values: NDArray[np.float64]


def policy_utility(mdp: TabularMDP | None, output: Policy) -> dict[str, float]:
    """The policy's suboptimality against the exact optimum, where the process is known; else empty."""
    if mdp is None:
        return {}
    return {
        "suboptimality": mdp.suboptimality(output.actions),
        "optimal value": float(mdp.initial @ mdp.optimal_values()[0]),
    }
