"""DP-LSW and DP-LSL as the catalogue has them: parameters, built-in data, and how a file is read."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.algorithms.data.loaders import read_episodes
from dpaudit.algorithms.data.tables import read_matrix
from dpaudit.algorithms.form import Builtin, Parameter, Prepared, Values, own_size, size, words
from dpaudit.algorithms.public_parameters import public_size
from dpaudit.claims.guarantees import ApproxDP

#: The seed of built-in data, the same in every run.
_SEED = 20160619


def _evaluation_options(given: Values) -> dict[str, Any]:
    return {
        "guarantee": ApproxDP(epsilon=given["epsilon"], delta=given["delta"]),
        "calibration": given["calibration"],
        **({"ridge": given["lambda"]} if "lambda" in given else {}),
    }


def _evaluation_example(name: str, values: Values) -> Prepared:
    from dpaudit.algorithms.environments.chain import LARGEST_RETURN, Chain
    from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016 import least_squares

    chain = Chain(values.get("states", 40), values["stay"], values.get("discount", 0.99))
    episodes = public_size(values["m"], "m")
    if name == "DPLSL":
        values = {"lambda": max(float(np.sqrt(episodes)), 2.0), **values}
    features, most = chain.features(values["aggregate"]), values.get("largest_return", LARGEST_RETURN)
    make = getattr(least_squares, name)
    algorithm = make(features, chain.discount, most, values=chain.values(), **_evaluation_options(values))
    return algorithm, chain.episodes(chain.stays(episodes, np.random.default_rng(_SEED)))


def _evaluation_fit(name: str, path: Path, values: Values) -> Prepared:
    from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016 import least_squares

    n_states = public_size(values["states"], "-P states")
    features = read_matrix(values["features"]) if "features" in values else np.eye(n_states)
    weights = read_matrix(values["weights"]).ravel() if "weights" in values else None
    public = values["discount"], values.get("largest_return"), weights
    algorithm = getattr(least_squares, name)(features, *public, **_evaluation_options(values))
    return algorithm, read_episodes(path, n_states)


_EVALUATION = {
    "epsilon": Parameter("epsilon of the claim", 0.1),
    "delta": Parameter("delta of the claim", 0.1),
    "calibration": words("calibration of the noise (exact adds 6 to 40 times less)", "lemma", "exact"),
    "discount": Parameter(
        "gamma, such as 0.99, which is the built-in chain's default",
        needed="it determines which returns are estimated",
    ),
    "largest_return": Parameter("public bound on returns; default 1/(1 - gamma), on the chain 1"),
    "states": own_size("N of your own data, or of the built-in chain (default 40)"),
    "features": Parameter("CSV of features, one row a state; default one-hot", kind="text", data="own"),
    "weights": Parameter("CSV of state weights, one a line; default 1", kind="text", data="own"),
    "stay": Parameter("probability of staying, on the built-in chain", 0.5, data="built-in"),
    "m": size("episodes of the built-in chain", 10_000, data="built-in"),
    "aggregate": size("how many adjacent states of the built-in chain share one value", 1, data="built-in"),
}

DP_LSW = Builtin(
    summary="policy evaluation by weighted least squares (Balle, Gomrokchi, Precup 2016, Algorithm 1)",
    takes=_EVALUATION,
    built_in=partial(_evaluation_example, "DPLSW"),
    own=partial(_evaluation_fit, "DPLSW"),
)

DP_LSL = Builtin(
    summary="policy evaluation by ridge regression (Balle, Gomrokchi, Precup 2016, Algorithm 2)",
    takes=_EVALUATION
    | {
        "lambda": Parameter(
            "ridge, above norm(features)^2 times the largest weight; default twice that, on the chain sqrt(m)"
        )
    },
    built_in=partial(_evaluation_example, "DPLSL"),
    own=partial(_evaluation_fit, "DPLSL"),
)
