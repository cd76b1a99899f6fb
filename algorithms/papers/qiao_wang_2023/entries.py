"""DP-APVI and DP-VAPVI as the catalogue has them: parameters, built-in data, and how a file is read."""

from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.algorithms.data.loaders import read_trajectories
from dpaudit.algorithms.data.tables import read_rewards
from dpaudit.algorithms.environments.builtin_data import BUILTIN_DATA
from dpaudit.algorithms.form import Builtin, Parameter, Prepared, Values, own_size, size, words
from dpaudit.algorithms.papers.qiao_wang_2023.dp_apvi import DPAPVI, PenaltyConstants
from dpaudit.algorithms.public_parameters import public_size
from dpaudit.claims.guarantees import ZCDP, PureDP
from dpaudit.errors import UsageError

#: The seed of built-in data, the same in every run.
_SEED = 20230611


def _apvi_options(values: Values) -> dict[str, Any]:
    rho, epsilon = values.get("rho"), values.get("epsilon")
    if rho is not None and epsilon is not None:
        remedy = "rho for Gaussian noise, epsilon for Laplace noise"
        raise UsageError("rho and epsilon at once", where="-P", remedy=remedy)
    return {
        "guarantee": ZCDP(rho=1.0 if rho is None else rho) if epsilon is None else PureDP(epsilon=epsilon),
        "failure_probability": values["failure_probability"],
        "constants": PenaltyConstants(**DP_APVI.constants(values)),
    }


def _apvi_example(values: Values) -> Prepared:
    # The published C2 = 16 learns nothing here from fewer than 10^6 patients; see docs/papers/algorithms.md.
    data, mdp = BUILTIN_DATA[values["dataset"]]()
    return DPAPVI(mdp.rewards, mdp=mdp, **_apvi_options({"C2": 0.1, **values})), data


def _apvi_fit(path: Path, values: Values) -> Prepared:
    rewards = read_rewards(values["rewards"])
    horizon, n_states, n_actions = rewards.shape
    data = read_trajectories(path, n_states=n_states, n_actions=n_actions, horizon=horizon)
    return DPAPVI(rewards, **_apvi_options(values)), data


DP_APVI = Builtin(
    summary="offline reinforcement learning on tabular trajectories (Qiao and Wang 2023, Algorithm 1)",
    takes={
        "rho": Parameter("zCDP budget, Gaussian noise; default 1"),
        "epsilon": Parameter("pure DP budget, Laplace noise"),
        "dataset": words("built-in data", *BUILTIN_DATA, data="built-in"),
        "rewards": Parameter(
            "CSV of your own data's public rewards, with the columns step, state, action, reward",
            kind="text",
            data="own",
            needed="the reward function is public: taken from the private records it would leak them",
        ),
        "failure_probability": Parameter("failure probability of the utility theorem", 0.1),
        "penalty": words("form of line 5's penalty", "bernstein", "hoeffding", constant="form"),
        "C1": Parameter("constant of the first term of line 5", constant="variance"),
        "C2": Parameter("noise constant of line 5; published 16, on built-in data 0.1", constant="privacy"),
        "C": Parameter("penalty of unvisited pairs over H", constant="unvisited"),
    },
    built_in=_apvi_example,
    own=_apvi_fit,
)


def _vapvi_options(values: Values) -> dict[str, Any]:
    from dpaudit.algorithms.papers.qiao_wang_2023.vapvi import LinearConstants

    given = values.get("split", False)
    split = {"true": True, "false": False, "1": True, "0": False}.get(str(given).lower())
    if split is None:
        raise UsageError(f"split = {given!r}", where="-P split", remedy="give true or false")
    return {
        "guarantee": ZCDP(rho=values["rho"]),
        "calibration": values["calibration"],
        "split": split,
        "failure_probability": values["failure_probability"],
        "constants": LinearConstants(**DP_VAPVI.constants(values)),
    }


def _vapvi_example(values: Values) -> Prepared:
    from dpaudit.algorithms.environments import linear_mdp
    from dpaudit.algorithms.papers.qiao_wang_2023.dp_vapvi import DPVAPVI

    horizon, normalised = values.get("horizon", linear_mdp.HORIZON), values["features"] == "normalised"
    mdp = linear_mdp.appendix_f_mdp(values["instance"], horizon=horizon, normalised=normalised)
    behaviour = linear_mdp.appendix_f_behaviour(horizon)
    data = mdp.sample_trajectories(values["K"], behaviour, np.random.default_rng(_SEED))
    return DPVAPVI(mdp.features, horizon, mdp=mdp, **_vapvi_options(values)), data


def _vapvi_fit(path: Path, values: Values) -> Prepared:
    from dpaudit.algorithms.environments.linear_mdp import one_hot_features
    from dpaudit.algorithms.papers.qiao_wang_2023.dp_vapvi import DPVAPVI

    names = "states", "actions", "horizon"
    n_states, n_actions, horizon = (public_size(values[name], name) for name in names)
    data = read_trajectories(path, n_states=n_states, n_actions=n_actions, horizon=horizon)
    return DPVAPVI(one_hot_features(n_states, n_actions), horizon, **_vapvi_options(values)), data


DP_VAPVI = Builtin(
    summary="offline reinforcement learning with linear features (Qiao and Wang 2023, Algorithm 2)",
    takes={
        "rho": Parameter("zCDP budget", 1.0),
        "calibration": words("calibration of the noise", "sound", "as-published"),
        "split": Parameter("variances and values from separate halves: true or false (default)", kind="text"),
        "features": words("features of the built-in example", "normalised", "raw", data="built-in"),
        "K": size("episodes of the built-in example", 1000, data="built-in"),
        "instance": size("which of the example's random processes", 0, data="built-in"),
        "horizon": own_size("H of your own data, or of the built-in example (default 20)"),
        "states": own_size("S of your own data", data="own"),
        "actions": own_size("A of your own data", data="own"),
        "failure_probability": Parameter("failure probability of the utility theorem", 0.1),
        "C": Parameter("bonus constant of line 11", 0.1, constant="bonus"),
        "D": Parameter("factor of D in line 11", 0.0, constant="lower_order"),
        "kappa": Parameter("least eigenvalue of the feature covariance, in D", 0.1, constant="coverage"),
        "lambda": Parameter("ridge", 1.0, constant="ridge"),
        "noise_shift": Parameter("factor of E and L, added for the noise", 1.0, constant="noise_shift"),
    },
    built_in=_vapvi_example,
    own=_vapvi_fit,
)
