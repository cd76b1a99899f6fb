"""LDP-UCRL-VTR under its command-line name: what it runs on, and what may be set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpaudit.algorithms.data.trajectories import public_size
from dpaudit.algorithms.environments.linear_mixture import one_hot_mixture, random_linear_mixture
from dpaudit.algorithms.environments.riverswim import figure_river
from dpaudit.algorithms.online.ldp_ucrl_vtr import LDPUCRLVTR, MixtureConstants
from dpaudit.algorithms.online.online import OnlineUsers, online_users
from dpaudit.algorithms.online.value_targeted import MixtureModel
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.errors import UsageError

#: Of the users and of the random mixture, which are the same in every run.
_SEED = 20211019

#: The words that are known, the default first.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "river": ("homogeneous", "inhomogeneous"),
    "features": ("one-hot", "mixture"),
    "values": ("clipped", "unclipped"),
}
_CONSTANTS = {
    "c": "bonus",
    "lambda": "ridge",
    "shift": "shift",
    "failure_probability": "failure_probability",
}


def prepared_ldp_ucrl_vtr(path: Path | None, parameters: Mapping[str, Any]) -> tuple[LDPUCRLVTR, OnlineUsers]:
    """The algorithm on RiverSwim, or on a random mixture, with its users.

    Raises:
        UsageError: a data file, or a word that is none of those known.
        InvalidParameter: a number out of range.
    """
    if path is not None:
        raise UsageError(
            "ldp-ucrl-vtr on a file",
            where="--data",
            why="its users answer whatever action they are given; a file holds the answers to some",
            remedy="leave --data out, or call LDPUCRLVTR on OnlineUsers of your own from Python",
        )
    n_states = public_size(parameters.get("states", 3), "states")
    words = {name: parameters.get(name, known[0]) for name, known in _WORDS.items()}
    for name, word in words.items():
        if word not in _WORDS[name]:
            raise UsageError(
                f"{name} {word!r}", where=f"-P {name}", remedy=f"give {' or '.join(_WORDS[name])}"
            )
    if words["features"] == "mixture":
        mixture = random_linear_mixture(n_states, 2, 2 * n_states, 4, seed=_SEED)
    else:
        mixture = one_hot_mixture(figure_river(words["river"], n_states))
    algorithm = LDPUCRLVTR(
        MixtureModel(mixture.features, mixture.rewards, clip_below=words["values"] == "clipped"),
        ApproxDP(epsilon=parameters.get("epsilon", 1.0), delta=parameters.get("delta", 1e-5)),
        parameters.get("calibration", "exact"),
        MixtureConstants(
            **{field: parameters[name] for name, field in _CONSTANTS.items() if name in parameters}
        ),
        mdp=mixture.tabular,
    )
    return algorithm, online_users(mixture.tabular, parameters.get("K", 200), seed=_SEED)
