"""The algorithms that come with dpaudit, each with the data it runs on when none are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.datasets import builtin_data
from dpaudit.algorithms.dp_apvi import DPAPVI
from dpaudit.algorithms.loaders import read_trajectories
from dpaudit.algorithms.pessimism import PenaltyConstants
from dpaudit.algorithms.reward_table import read_rewards
from dpaudit.errors import UsageError
from dpaudit.guarantees import ZCDP, PureDP

#: An algorithm ready to run, and data of the shape it takes.
Prepared = tuple[Any, Any]


@dataclass(frozen=True)
class Builtin:
    """One algorithm under its command-line name.

    Attributes:
        summary: one line.
        parameters: what may be set, each with a line of explanation.
        prepare: from a data file (or None for the built-in data) and parameters to algorithm and data.
    """

    summary: str
    parameters: Mapping[str, str]
    prepare: Callable[[Path | None, Mapping[str, Any]], Prepared]

    def example(self, **parameters: Any) -> Prepared:
        """The algorithm on its built-in data."""
        self._check(parameters)
        return self.prepare(None, parameters)

    def fit(self, path: Path, **parameters: Any) -> Prepared:
        """The algorithm on a user's data file."""
        self._check(parameters)
        return self.prepare(path, parameters)

    def _check(self, parameters: Mapping[str, Any]) -> None:
        for name in parameters:
            if name not in self.parameters:
                raise UsageError(
                    f"unknown parameter {name!r}",
                    where="-P",
                    why="a parameter that does nothing would look like one that was honoured",
                    remedy="known are "
                    + ", ".join(f"{known} ({what})" for known, what in self.parameters.items()),
                )


def _dp_apvi(path: Path | None, parameters: Mapping[str, Any]) -> Prepared:
    rho, epsilon = parameters.get("rho"), parameters.get("epsilon")
    if rho is not None and epsilon is not None:
        raise UsageError(
            "rho and epsilon at once", where="-P", remedy="rho for Gaussian noise, epsilon for Laplace noise"
        )
    options: dict[str, Any] = {
        "guarantee": PureDP(epsilon=epsilon)
        if epsilon is not None
        else ZCDP(rho=1.0 if rho is None else rho),
        "failure_probability": parameters.get("failure_probability", 0.1),
        "constants": PenaltyConstants(
            **{field: parameters[name] for name, field in _CONSTANTS.items() if name in parameters}
        ),
    }
    if path is None:
        # The published C2 = 16 learns nothing here from fewer than 10^6 patients; see docs/algorithms.md.
        options["constants"] = replace(options["constants"], privacy=parameters.get("C2", 0.1))
        data, mdp = builtin_data(parameters.get("dataset", "treatment"))
        return DPAPVI(mdp.rewards, mdp=mdp, **options), data
    rewards: NDArray[np.float64] = read_rewards(_required(parameters, "rewards"))
    horizon, n_states, n_actions = rewards.shape
    data = read_trajectories(path, n_states=n_states, n_actions=n_actions, horizon=horizon)
    return DPAPVI(rewards, **options), data


def _required(parameters: Mapping[str, Any], name: str) -> Any:
    if name not in parameters:
        raise UsageError(
            f"parameter {name!r} is missing",
            where="-P",
            why="the reward function is public: taken from the private records it would leak them",
            remedy=f"pass -P {name}=FILE, a CSV with the columns step, state, action, reward",
        )
    return parameters[name]


_CONSTANTS = {"C1": "variance", "C2": "privacy", "C": "unvisited"}

CATALOGUE: Mapping[str, Builtin] = {
    "dp-apvi": Builtin(
        summary="offline reinforcement learning on tabular trajectories (Qiao and Wang 2023, Algorithm 1)",
        parameters={
            "rho": "zCDP budget, Gaussian noise; default 1",
            "epsilon": "pure budget, Laplace noise",
            "dataset": "built-in data: treatment or frozen-lake",
            "rewards": "CSV of the public reward function, for your own data",
            "failure_probability": "of the utility theorem; default 0.1",
            "C1": "Bernstein constant of line 5",
            "C2": "noise constant of line 5; published 16, on built-in data 0.1",
            "C": "penalty of unvisited pairs over H",
        },
        prepare=_dp_apvi,
    ),
}
