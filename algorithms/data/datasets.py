"""The data sets that come with dpaudit: both public, each with the exact process behind it."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import NamedTuple

import numpy as np

from dpaudit.algorithms.data.loaders import read_csv
from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.environments.frozen_lake import HORIZON, frozen_lake_mdp
from dpaudit.algorithms.environments.tabular import TabularMDP, uniform_policy
from dpaudit.algorithms.environments.treatment import treatment_mdp
from dpaudit.errors import UsageError

BUILTIN_DATA = ("treatment", "frozen-lake")

_TREATMENT_SEED = 20230611
_TREATMENT_SIZE = 20_000


class BuiltinData(NamedTuple):
    """A data set and the process that it was drawn from.

    Attributes:
        data: the trajectories.
        mdp: the exact process, whose rewards are the public reward function; it measures suboptimality.
    """

    data: TrajectoryData
    mdp: TabularMDP


def builtin_data(name: str) -> BuiltinData:
    """``treatment`` (20 000 simulated patients) or ``frozen-lake`` (800 recorded episodes).

    Raises:
        UsageError: for another name.
    """
    if name == "treatment":
        return treatment_data()
    if name == "frozen-lake":
        return frozen_lake_data()
    raise UsageError(
        f"no built-in data set {name!r}",
        where="builtin_data",
        why="only these come with dpaudit",
        remedy=f"give one of {', '.join(BUILTIN_DATA)}, or read your own with read_trajectories",
    )


def treatment_data(n_trajectories: int = _TREATMENT_SIZE, *, seed: int = _TREATMENT_SEED) -> BuiltinData:
    """Patients of `treatment_mdp`, each treated or not by the toss of a coin; the same for the same seed."""
    mdp = treatment_mdp()
    data = mdp.sample_trajectories(n_trajectories, uniform_policy(mdp), np.random.default_rng(seed))
    return BuiltinData(data, mdp)


def frozen_lake_data() -> BuiltinData:
    """Episodes recorded from Gymnasium's FrozenLake-v1; see ``data/README.md``."""
    mdp = frozen_lake_mdp()
    with as_file(files("dpaudit.algorithms") / "data" / "frozen-lake.csv") as path:
        data = read_csv(path, n_states=mdp.n_states, n_actions=mdp.n_actions, horizon=HORIZON)
    return BuiltinData(data, mdp)
