"""DP-LSW and DP-LSL as the command line has them: on the chain, or on data of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.algorithms.data.episode_files import read_episodes, read_matrix
from dpaudit.algorithms.data.episodes import Episodes
from dpaudit.algorithms.data.trajectories import public_size
from dpaudit.algorithms.environments.chain import LARGEST_RETURN, Chain
from dpaudit.algorithms.evaluation.dp_lsl import DPLSL
from dpaudit.algorithms.evaluation.dp_lsw import DPLSW
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.errors import UsageError

#: Of the built-in episodes, which are the same in every run.
_SEED = 20160619


def dp_lsw(path: Path | None, parameters: Mapping[str, Any]) -> tuple[DPLSW, Episodes]:
    """DP-LSW and its data."""
    options, data = _prepared(path, parameters)
    return DPLSW(**options), data


def dp_lsl(path: Path | None, parameters: Mapping[str, Any]) -> tuple[DPLSL, Episodes]:
    """DP-LSL and its data; on the chain lambda is sqrt(m) where it may be."""
    options, data = _prepared(path, parameters)
    ridge = parameters.get("lambda")
    if ridge is None and path is None:
        ridge = max(float(np.sqrt(len(data))), 2.0)
    return DPLSL(**options, ridge=ridge), data


def _prepared(path: Path | None, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], Episodes]:
    options: dict[str, Any] = {
        "guarantee": ApproxDP(epsilon=parameters.get("epsilon", 0.1), delta=parameters.get("delta", 0.1)),
        "calibration": parameters.get("calibration", "lemma"),
    }
    if path is None:
        chain = Chain(
            parameters.get("states", 40), parameters.get("stay", 0.5), parameters.get("discount", 0.99)
        )
        episodes = public_size(parameters.get("m", 10_000), "m")
        data = chain.episodes(chain.stays(episodes, np.random.default_rng(_SEED)))
        features = chain.features(parameters.get("aggregate", 1))
        options |= {
            "features": features,
            "discount": chain.discount,
            "largest_return": parameters.get("largest_return", LARGEST_RETURN),
            "values": chain.values(),
        }
        return options, data
    n_states = public_size(parameters.get("states"), "-P states")
    if "discount" not in parameters:
        raise UsageError(
            "parameter 'discount' is missing",
            where="-P",
            why="it says which returns are estimated",
            remedy="pass -P discount=0.99, for instance",
        )
    files = {name: read_matrix(parameters[name]) for name in ("features", "weights") if name in parameters}
    options |= {
        "features": files.get("features", np.eye(n_states)),
        "weights": files["weights"].ravel() if "weights" in files else None,
        "discount": parameters["discount"],
        "largest_return": parameters.get("largest_return"),
    }
    return options, read_episodes(path, n_states)


#: What may be set, each with a line of explanation.
EVALUATION = {
    "epsilon": "of the claim; default 0.1",
    "delta": "of the claim; default 0.1",
    "calibration": "of the noise: lemma (default, as published) or exact (6 to 40 times less)",
    "discount": "gamma; on the built-in chain default 0.99",
    "largest_return": "public bound, to which returns are clipped; default 1/(1 - gamma), on the chain 1",
    "states": "N: of your own data; of the built-in chain, default 40",
    "features": "CSV of your own data's features, one row a state; default one-hot",
    "weights": "CSV of your own data's state weights, one a line; default 1",
    "stay": "probability of staying, on the built-in chain; default 0.5",
    "m": "episodes of the built-in chain; default 10000",
    "aggregate": "how many adjacent states of the built-in chain share one value; default 1",
}

#: DP-LSL's own.
RIDGE = {
    "lambda": "ridge, above norm(features)^2 times the largest weight; default twice that, "
    "on the chain sqrt(m)"
}
