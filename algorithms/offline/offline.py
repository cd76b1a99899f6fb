"""What offline reinforcement learning algorithms have in common: their interface and output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.environments.tabular import TabularMDP
from dpaudit.claims.claims import Claim
from dpaudit.claims.pairs import Pair
from dpaudit.curator.curator import Curator


class Policy(NamedTuple):
    """What leaves the algorithm.

    Attributes:
        actions: [H, S] int, the action of each state at each step.
        values: [H+1, S], pessimistic values.
    """

    actions: NDArray[np.int64]
    values: NDArray[np.float64]


@runtime_checkable
class OfflineAlgorithm(Protocol):
    """From recorded trajectories to a policy, through a curator; frozen with its public parameters."""

    @property
    def name(self) -> str:
        """The name in ledgers and on the command line."""

    @property
    def claim(self) -> Claim:
        """What its authors claim, with the premises that the claim's theorem needs."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Public parameters, for the ledger's header."""

    def __call__(self, data: TrajectoryData, curator: Curator, /) -> Policy:
        """Release through the curator, and plan on what was released."""

    def worst_pairs(self) -> Sequence[Pair]:
        """Neighbouring pairs that move the releases as far as public knowledge lets one say."""

    def utility(self, output: Policy, /) -> dict[str, float]:
        """The policy's suboptimality, where the process is known; else empty."""


def policy_utility(mdp: TabularMDP | None, output: Policy) -> dict[str, float]:
    """The policy's suboptimality against the exact optimum, where the process is known; else empty."""
    if mdp is None:
        return {}
    return {
        "suboptimality": mdp.suboptimality(output.actions),
        "optimal value": float(mdp.initial @ mdp.optimal_values()[0]),
    }
