"""The algorithms that come with dpaudit, each with the data it runs on when none are given."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.datasets import builtin_data
from dpaudit.algorithms.data.loaders import read_trajectories
from dpaudit.algorithms.data.reward_table import read_rewards
from dpaudit.algorithms.data.trajectories import public_size
from dpaudit.algorithms.environments.linear_mdp import (
    HORIZON,
    LinearMDP,
    appendix_f_behaviour,
    appendix_f_mdp,
    one_hot_features,
)
from dpaudit.algorithms.evaluation.evaluation_setup import EVALUATION, RIDGE, dp_lsl, dp_lsw
from dpaudit.algorithms.offline.dp_apvi import DPAPVI
from dpaudit.algorithms.offline.dp_vapvi import DPVAPVI
from dpaudit.algorithms.offline.pessimism import PenaltyConstants
from dpaudit.algorithms.offline.vapvi import LinearConstants
from dpaudit.algorithms.online.ldp_ucrl_vtr_builtin import prepared_ldp_ucrl_vtr
from dpaudit.algorithms.online.private_lsvi_ucb_builtin import prepared_private_lsvi_ucb
from dpaudit.algorithms.q_learning.dp_q_learning_builtin import PARAMETERS as Q_LEARNING
from dpaudit.algorithms.q_learning.dp_q_learning_builtin import prepared_dp_q_learning
from dpaudit.claims.guarantees import ZCDP, PureDP
from dpaudit.errors import InvalidParameter, UsageError

#: An algorithm ready to run, and data of the shape it takes.
Prepared = tuple[Any, Any]


@dataclass(frozen=True)
class Builtin:
    """One algorithm under its command-line name.

    Attributes:
        summary: one line.
        parameters: what may be set, each with a line of explanation; numbers, unless said otherwise.
        words: those that are no numbers.
        whole: those that are whole numbers.
        own_data: those that say something of a data file, and nothing without one.
        built_in_data: those that choose the built-in data.
        prepare: from a data file (or None for the built-in data) and parameters to algorithm and data.
    """

    summary: str
    parameters: Mapping[str, str]
    prepare: Callable[[Path | None, Mapping[str, Any]], Prepared]
    words: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    own_data: frozenset[str] = frozenset()
    built_in_data: frozenset[str] = frozenset()

    def example(self, **parameters: Any) -> Prepared:
        """The algorithm on its built-in data."""
        self._check(parameters, unused=self.own_data, remedy="add --data FILE, or leave it out")
        return self.prepare(None, parameters)

    def fit(self, path: Path, **parameters: Any) -> Prepared:
        """The algorithm on a user's data file."""
        self._check(parameters, unused=self.built_in_data, remedy="leave it out, or leave --data out")
        return self.prepare(path, parameters)

    def _check(self, parameters: Mapping[str, Any], *, unused: frozenset[str], remedy: str) -> None:
        for name, value in parameters.items():
            if name not in self.parameters:
                raise UsageError(
                    f"unknown parameter {name!r}",
                    where="-P",
                    why="a parameter that does nothing would look like one that was honoured",
                    remedy="known are "
                    + ", ".join(f"{known} ({what})" for known, what in self.parameters.items()),
                )
            if name in unused:
                data = "one's own" if name in self.own_data else "the built-in"
                raise UsageError(
                    f"parameter {name!r} is about {data} data, on which this does not run",
                    where=f"-P {name}",
                    why="a parameter that does nothing would look like one that was honoured",
                    remedy=remedy,
                )
            if name not in self.words:
                _require_number(value, name, whole=name in self.whole)


def _require_number(value: object, name: str, *, whole: bool) -> None:
    kind = numbers.Integral if whole else numbers.Real
    if isinstance(value, bool) or not isinstance(value, kind) or (whole and value < 0):
        raise InvalidParameter(
            f"{name} = {value!r}",
            where=f"-P {name}",
            why=f"it is a {'whole number' if whole else 'number'}, and nothing else is guessed at",
            remedy=f"write -P {name}={'3' if whole else '0.5'}, for instance",
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


def _dp_vapvi(path: Path | None, parameters: Mapping[str, Any]) -> Prepared:
    options: dict[str, Any] = {
        "guarantee": ZCDP(rho=parameters.get("rho", 1.0)),
        "calibration": parameters.get("calibration", "sound"),
        "split": _flag(parameters, "split"),
        "failure_probability": parameters.get("failure_probability", 0.1),
        "constants": LinearConstants(
            **{field: parameters[name] for name, field in _LINEAR_CONSTANTS.items() if name in parameters}
        ),
    }
    if path is not None:
        sizes = [_size(parameters, name) for name in ("states", "actions", "horizon")]
        n_states, n_actions, horizon = sizes
        data = read_trajectories(path, n_states=n_states, n_actions=n_actions, horizon=horizon)
        return DPVAPVI(one_hot_features(n_states, n_actions), horizon, **options), data
    kind, horizon = parameters.get("features", "normalised"), parameters.get("horizon", HORIZON)
    if kind not in {"normalised", "raw"}:
        raise UsageError(f"features {kind!r}", where="-P", remedy="give normalised or raw")
    mdp: LinearMDP = appendix_f_mdp(
        parameters.get("instance", 0), horizon=horizon, normalised=kind == "normalised"
    )
    rng = np.random.default_rng(_LINEAR_SEED)
    data = mdp.sample_trajectories(parameters.get("K", 1000), appendix_f_behaviour(horizon), rng)
    return DPVAPVI(mdp.features, horizon, mdp=mdp, **options), data


def _flag(parameters: Mapping[str, Any], name: str) -> bool:
    value = parameters.get(name, False)
    words = {"true": True, "false": False, "1": True, "0": False}
    known = words.get(str(value).lower())
    if known is None:
        raise UsageError(f"{name} = {value!r}", where="-P", remedy="give true or false")
    return known


def _size(parameters: Mapping[str, Any], name: str) -> int:
    if name not in parameters:
        raise UsageError(
            f"parameter {name!r} is missing",
            where="-P",
            why="sizes are public: read off the records they would leak the largest value that occurs",
            remedy=f"pass -P {name}=N",
        )
    return public_size(parameters[name], name)


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
_LINEAR_CONSTANTS = {"C": "bonus", "D": "lower_order", "kappa": "coverage", "lambda": "ridge"}

_EVALUATION_KINDS: Mapping[str, frozenset[str]] = {
    "words": frozenset({"calibration", "features", "weights"}),
    "whole": frozenset({"states", "m", "aggregate"}),
    "own_data": frozenset({"features", "weights"}),
    "built_in_data": frozenset({"stay", "m", "aggregate"}),
}

#: Of the built-in episodes of the linear example, which are the same in every run.
_LINEAR_SEED = 20230611

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
        words=frozenset({"dataset", "rewards"}),
        own_data=frozenset({"rewards"}),
        built_in_data=frozenset({"dataset"}),
    ),
    "dp-vapvi": Builtin(
        summary="offline reinforcement learning with linear features (Qiao and Wang 2023, Algorithm 2)",
        parameters={
            "rho": "zCDP budget; default 1",
            "calibration": "of the noise: sound (default) or as-published",
            "split": "variances from one half of the records, values from the other: true or false (default)",
            "features": "of the built-in example: normalised (default) or raw; your own data get one-hot",
            "K": "episodes of the built-in example; default 1000",
            "instance": "which of the example's random processes; default 0",
            "horizon": "H: of your own data; of the built-in example, default 20",
            "states": "S of your own data",
            "actions": "A of your own data",
            "failure_probability": "of the utility theorem; default 0.1",
            "C": "bonus constant of line 11; default 0.1",
            "D": "multiplies D of line 11; default 0",
            "kappa": "least eigenvalue of the feature covariance, in D; default 0.1",
            "lambda": "ridge; default 1",
        },
        prepare=_dp_vapvi,
        words=frozenset({"calibration", "split", "features"}),
        whole=frozenset({"K", "instance", "horizon", "states", "actions"}),
        own_data=frozenset({"states", "actions"}),
        built_in_data=frozenset({"features", "K", "instance"}),
    ),
    "dp-lsw": Builtin(
        summary="policy evaluation by weighted least squares (Balle, Gomrokchi, Precup 2016, Algorithm 1)",
        parameters=EVALUATION,
        prepare=dp_lsw,
        **_EVALUATION_KINDS,
    ),
    "dp-lsl": Builtin(
        summary="policy evaluation by ridge regression (Balle, Gomrokchi, Precup 2016, Algorithm 2)",
        parameters={**EVALUATION, **RIDGE},
        prepare=dp_lsl,
        **_EVALUATION_KINDS,
    ),
    "ldp-ucrl-vtr": Builtin(
        summary="online reinforcement learning under local trust, linear mixtures (Liao, He and Gu 2023)",
        parameters={
            "epsilon": "of what one user sends; default 1",
            "delta": "of what one user sends; default 1e-5",
            "calibration": "of the noise: exact (default), published-noise, as-published or experiment",
            "values": "clipped at 0 from below (default), or unclipped, as the paper prints it",
            "river": "RiverSwim: homogeneous (default) or inhomogeneous",
            "features": "one-hot on RiverSwim (default), or a random mixture of 4 kernels",
            "states": "S; default 3; H = 2S",
            "K": "users; default 200",
            "c": "bonus constant; default 0.05",
            "lambda": "ridge; default 1",
            "shift": "multiplies r of line 19; default 1",
            "failure_probability": "alpha, in r; default 0.01",
        },
        prepare=prepared_ldp_ucrl_vtr,
        words=frozenset({"calibration", "values", "river", "features"}),
        whole=frozenset({"states", "K"}),
        built_in_data=frozenset({"river", "features", "states", "K"}),
    ),
    "private-lsvi-ucb": Builtin(
        summary="online reinforcement learning under joint trust, linear processes (Ngo, Vietri and Wu 2022)",
        parameters={
            "rho": "zCDP budget of all releases; default 1",
            "calibration": "of the noise: sound (default) or as-published",
            "counted": "what its counter counts: episodes (default), as analysed, or steps, as printed",
            "values": "V_h in [0, H-h+1]: to-go (default); in [0, H]: horizon; or unclipped, as printed",
            "fixed_updates": "so many updates at fixed times; left out, where a determinant has grown",
            "K": "users; default 2000",
            "horizon": "H; default 3",
            "dimension": "d; default 3",
            "bonus": "multiplies the published beta; default 0.001",
            "ridge": "multiplies the published lambda; default 1",
            "growth": "C; default 2",
            "failure_probability": "p; default 0.05",
        },
        prepare=prepared_private_lsvi_ucb,
        words=frozenset({"calibration", "counted", "values"}),
        whole=frozenset({"fixed_updates", "K", "horizon", "dimension"}),
        built_in_data=frozenset({"K", "horizon", "dimension"}),
    ),
    "dp-q-learning": Builtin(
        summary="Q-learning with functional noise on [0, 1] (Wang and Hegde 2019), corrected or as published",
        parameters=Q_LEARNING,
        prepare=prepared_dp_q_learning,
        words=frozenset({"form", "view"}),
        whole=frozenset({"updates", "batch", "nodes", "resets"}),
    ),
}
