"""Private LSVI-UCB under its command-line name: what it runs on, and what may be set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpaudit.algorithms.data.trajectories import public_size
from dpaudit.algorithms.environments.linear_mdp import random_linear_mdp
from dpaudit.algorithms.online.lsvi import LinearModel
from dpaudit.algorithms.online.online import OnlineUsers, online_users
from dpaudit.algorithms.online.private_lsvi_ucb import LSVIConstants, PrivateLSVIUCB
from dpaudit.claims.guarantees import ZCDP
from dpaudit.errors import UsageError

#: Of the users and of the process, which are the same in every run.
_SEED = 20220717

#: Sizes of the built-in process.
_STATES, _ACTIONS = 4, 3

#: With the published beta every value is at its bound here, and nothing is learnt.
_BONUS = 1e-3

_CONSTANTS = {
    "bonus": "bonus",
    "ridge": "ridge",
    "growth": "growth",
    "failure_probability": "failure_probability",
}


def prepared_private_lsvi_ucb(
    path: Path | None, parameters: Mapping[str, Any]
) -> tuple[PrivateLSVIUCB, OnlineUsers]:
    """The algorithm on a random linear process, with its users.

    Raises:
        UsageError: a data file.
        InvalidParameter: a word that is none of those known, or a number out of range.
    """
    if path is not None:
        raise UsageError(
            "private-lsvi-ucb on a file",
            where="--data",
            why="its users answer whatever action they are given; a file holds the answers to some",
            remedy="leave --data out, or call PrivateLSVIUCB on OnlineUsers of your own from Python",
        )
    horizon, dimension = (public_size(parameters.get(name, 3), name) for name in ("horizon", "dimension"))
    users = public_size(parameters.get("K", 2000), "K")
    process = random_linear_mdp(_STATES, _ACTIONS, horizon, dimension, seed=_SEED)
    constants = {field: parameters[name] for name, field in _CONSTANTS.items() if name in parameters}
    algorithm = PrivateLSVIUCB(
        LinearModel(process.features, horizon, parameters.get("values", "to-go")),
        users,
        ZCDP(rho=parameters.get("rho", 1.0)),
        parameters.get("calibration", "sound"),
        parameters.get("counted", "episodes"),
        LSVIConstants(**{"bonus": _BONUS, **constants}),
        parameters.get("fixed_updates"),
        mdp=process.tabular,
    )
    return algorithm, online_users(process.tabular, users, seed=_SEED, random_rewards=True)
