"""The algorithms that come with dpaudit, with their parameters and built-in data.

Each algorithm is imported when it is made: a run of one does not wait for what only the others need.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.algorithms.data.loaders import read_episodes, read_trajectories
from dpaudit.algorithms.data.tables import read_matrix, read_rewards
from dpaudit.algorithms.environments.frozen_lake import frozen_lake_data
from dpaudit.algorithms.environments.tabular import BuiltinData
from dpaudit.algorithms.environments.treatment import treatment_data
from dpaudit.algorithms.form import Builtin, Parameter, Prepared, Values, no_file, own_size, size, words
from dpaudit.algorithms.offline.dp_apvi import DPAPVI, PenaltyConstants
from dpaudit.algorithms.online.entries import DP_POLICY_GRADIENT, DP_UCBVI
from dpaudit.algorithms.public_parameters import public_size
from dpaudit.algorithms.training.entries import DP_FTRL, DP_SGD
from dpaudit.claims.guarantees import ZCDP, ApproxDP, PureDP
from dpaudit.errors import UsageError

#: Seeds of built-in data, which are the same in every run.
_EVALUATION_SEED, _LINEAR_SEED, _LSVI_SEED, _MIXTURE_SEED = 20160619, 20230611, 20220717, 20211019

BUILTIN_DATA: Mapping[str, Callable[[], BuiltinData]] = {
    "treatment": treatment_data,
    "frozen-lake": frozen_lake_data,
}


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
    from dpaudit.algorithms.offline.vapvi import LinearConstants

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
    from dpaudit.algorithms.offline.dp_vapvi import DPVAPVI

    horizon, normalised = values.get("horizon", linear_mdp.HORIZON), values["features"] == "normalised"
    mdp = linear_mdp.appendix_f_mdp(values["instance"], horizon=horizon, normalised=normalised)
    behaviour = linear_mdp.appendix_f_behaviour(horizon)
    data = mdp.sample_trajectories(values["K"], behaviour, np.random.default_rng(_LINEAR_SEED))
    return DPVAPVI(mdp.features, horizon, mdp=mdp, **_vapvi_options(values)), data


def _vapvi_fit(path: Path, values: Values) -> Prepared:
    from dpaudit.algorithms.environments.linear_mdp import one_hot_features
    from dpaudit.algorithms.offline.dp_vapvi import DPVAPVI

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


def _evaluation_options(given: Values) -> dict[str, Any]:
    return {
        "guarantee": ApproxDP(epsilon=given["epsilon"], delta=given["delta"]),
        "calibration": given["calibration"],
        **({"ridge": given["lambda"]} if "lambda" in given else {}),
    }


def _evaluation_example(name: str, values: Values) -> Prepared:
    from dpaudit.algorithms.environments.chain import LARGEST_RETURN, Chain
    from dpaudit.algorithms.evaluation import least_squares

    chain = Chain(values.get("states", 40), values["stay"], values.get("discount", 0.99))
    episodes = public_size(values["m"], "m")
    if name == "DPLSL":
        values = {"lambda": max(float(np.sqrt(episodes)), 2.0), **values}
    features, most = chain.features(values["aggregate"]), values.get("largest_return", LARGEST_RETURN)
    make = getattr(least_squares, name)
    algorithm = make(features, chain.discount, most, values=chain.values(), **_evaluation_options(values))
    return algorithm, chain.episodes(chain.stays(episodes, np.random.default_rng(_EVALUATION_SEED)))


def _evaluation_fit(name: str, path: Path, values: Values) -> Prepared:
    from dpaudit.algorithms.evaluation import least_squares

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


_USERS_ANSWER = "its users answer whatever action they are given; a file holds the answers to some"


def _ldp_ucrl_vtr(values: Values) -> Prepared:
    from dpaudit.algorithms.environments.hard_mixture import experiment_gap, hard_mixture
    from dpaudit.algorithms.environments.linear_mixture import one_hot_mixture, random_linear_mixture
    from dpaudit.algorithms.environments.riverswim import figure_river
    from dpaudit.algorithms.online.ldp_ucrl_vtr import LDPUCRLVTR, MixtureConstants
    from dpaudit.algorithms.online.online import online_users
    from dpaudit.algorithms.online.value_targeted import MixtureModel

    n_states = public_size(values["states"], "states")
    if values["features"] == "mixture":
        mixture = random_linear_mixture(n_states, 2, 2 * n_states, 4, seed=_MIXTURE_SEED)
    elif values["features"] == "hard":
        horizon = 2 * n_states
        mixture = hard_mixture(5, horizon, experiment_gap(horizon, values["K"]), seed=_MIXTURE_SEED)
    else:
        mixture = one_hot_mixture(figure_river(values["river"], n_states))
    model = MixtureModel(mixture.features, mixture.rewards, clip_below=values["values"] == "clipped")
    guarantee = ApproxDP(epsilon=values["epsilon"], delta=values["delta"])
    constants = MixtureConstants(**LDP_UCRL_VTR.constants(values))
    algorithm = LDPUCRLVTR(model, guarantee, values["calibration"], constants, mdp=mixture)
    return algorithm, online_users(mixture, values["K"], seed=_MIXTURE_SEED)


LDP_UCRL_VTR = Builtin(
    summary="online reinforcement learning under local trust, linear mixtures (Liao, He and Gu 2023)",
    takes={
        "epsilon": Parameter("epsilon of what one user sends", 1.0),
        "delta": Parameter("delta of what one user sends", 1e-5),
        "calibration": words(
            "calibration of the noise", "exact", "published-noise", "as-published", "experiment"
        ),
        "values": words("values, at 0 from below (the paper prints unclipped)", "clipped", "unclipped"),
        "river": words("kernel of RiverSwim", "homogeneous", "inhomogeneous", data="built-in"),
        "features": words(
            "one-hot on RiverSwim, mixture of 4 random kernels, hard instance of the lower bound (d = 5)",
            *("one-hot", "mixture", "hard"),
            data="built-in",
        ),
        "states": size("S, and H = 2S; the hard instance has H + 2 states", 3, data="built-in"),
        "K": size("users", 200, data="built-in"),
        "c": Parameter("bonus constant", 0.05, constant="bonus"),
        "lambda": Parameter("ridge", 1.0, constant="ridge"),
        "shift": Parameter("factor of r in line 19", 1.0, constant="shift"),
        "failure_probability": Parameter("alpha, in r", 0.01, constant="failure_probability"),
    },
    built_in=_ldp_ucrl_vtr,
    own=partial(no_file, _USERS_ANSWER, "LDPUCRLVTR on OnlineUsers"),
)


def _private_lsvi_ucb(values: Values) -> Prepared:
    from dpaudit.algorithms.environments.linear_mdp import random_linear_mdp
    from dpaudit.algorithms.online.lsvi import LinearModel
    from dpaudit.algorithms.online.online import online_users
    from dpaudit.algorithms.online.private_lsvi_ucb import LSVIConstants, PrivateLSVIUCB

    horizon, dimension, users = (public_size(values[name], name) for name in ("horizon", "dimension", "K"))
    process = random_linear_mdp(4, 3, horizon, dimension, seed=_LSVI_SEED)
    model = LinearModel(process.features, horizon, values["values"])
    noise = ZCDP(rho=values["rho"]), values["calibration"], values["counted"]
    constants = LSVIConstants(**PRIVATE_LSVI_UCB.constants(values))
    algorithm = PrivateLSVIUCB(model, users, *noise, constants, values.get("fixed_updates"), mdp=process)
    return algorithm, online_users(process, users, seed=_LSVI_SEED, random_rewards=True)


PRIVATE_LSVI_UCB = Builtin(
    summary="online reinforcement learning under joint trust, linear processes (Ngo, Vietri and Wu 2022)",
    takes={
        "rho": Parameter("zCDP budget of all releases", 1.0),
        "calibration": words("calibration of the noise", "sound", "as-published"),
        "counted": words("what its counter counts, as analysed or as printed", "episodes", "steps"),
        "values": words(
            "V_h in [0, H-h+1], in [0, H], or, as printed, at most H", "to-go", "horizon", "unclipped"
        ),
        "fixed_updates": size("number of updates at fixed times; left out, where a determinant has grown"),
        "K": size("users", 2000, data="built-in"),
        "horizon": size("H", 3, data="built-in"),
        "dimension": size("d", 3, data="built-in"),
        # With the published beta every value is at its bound here, and nothing is learnt.
        "bonus": Parameter("factor of the published beta", 1e-3, constant="bonus"),
        "ridge": Parameter("factor of the published lambda", 1.0, constant="ridge"),
        "growth": Parameter("C", 2.0, constant="growth"),
        "failure_probability": Parameter("p", 0.05, constant="failure_probability"),
    },
    built_in=_private_lsvi_ucb,
    own=partial(no_file, _USERS_ANSWER, "PrivateLSVIUCB on OnlineUsers"),
)


_PUBLISHED = frozenset({"sigma", "resets", "view", "k", "lipschitz_squared", "nodes"})
#: The parameters that each form of Q-learning takes beside those of all.
_Q_FORMS: Mapping[str, frozenset[str]] = {
    "corrected": frozenset({"clip", "beta", "nodes"}),
    "as-printed": _PUBLISHED,
    "as-coded": _PUBLISHED,
    "noisy-rewards": frozenset(),
    "noisy-gradients": frozenset({"clip"}),
}
_Q_COMMON = frozenset({"epsilon", "delta", "updates", "batch", "step_size", "discount", "exploration"})


def _q_learning(values: Values) -> Prepared:
    from dpaudit.algorithms.environments.line_world import middle_rewards
    from dpaudit.algorithms.q_learning.dp_q_learning import DPQLearning
    from dpaudit.algorithms.q_learning.functional_q import (
        CodedCalibration,
        CodedQLearning,
        FunctionalCalibration,
        FunctionalQLearning,
    )
    from dpaudit.algorithms.q_learning.perturbed_q import PerturbedQLearning

    form = values.pop("form")
    taken = _Q_COMMON | _Q_FORMS[form]
    for name in values:
        if name not in taken:
            why = "a parameter that has no effect would look as if it had been used"
            remedy = f"leave it out; this form takes {', '.join(sorted(taken))}"
            what = f"parameter {name!r} for form {form}"
            raise UsageError(what, where=f"-P {name}", why=why, remedy=remedy)
    guarantee = ApproxDP(epsilon=values.pop("epsilon"), delta=values.pop("delta"))
    updates, batch = (public_size(values.pop(name), name) for name in ("updates", "batch"))
    algorithm: DPQLearning | FunctionalQLearning | PerturbedQLearning
    if form == "corrected":
        algorithm = DPQLearning(guarantee, updates=updates, batch=batch, **{"nodes": 9, **values})
    elif form.startswith("as-"):
        names = values.keys() & {"sigma", "step_size", "k", "lipschitz_squared"}
        noise = {"batch": batch, **{name: values.pop(name) for name in names}}
        if form == "as-printed":
            calibration = FunctionalCalibration(guarantee, samples=updates * batch, **noise)
            algorithm = FunctionalQLearning(calibration, **values)
        else:
            coded = CodedCalibration(guarantee, samples=updates + batch - 1, **noise)
            algorithm = CodedQLearning(coded, **values)
    else:
        perturbed: Any = form.removeprefix("noisy-")
        algorithm = PerturbedQLearning(perturbed, guarantee, updates + batch - 1, batch, **values)
    return algorithm, middle_rewards()


DP_Q_LEARNING = Builtin(
    summary="Q-learning with functional noise on [0, 1] (Wang and Hegde 2019), corrected or as published",
    takes={
        "form": words("which algorithm", *_Q_FORMS),
        "epsilon": Parameter("epsilon of the claim", 0.9),
        "delta": Parameter("delta of the claim", 1e-4),
        "updates": size("N", 4),
        "batch": size("B, steps between two updates; as-coded and noisy: transitions of one update", 10),
        "step_size": Parameter("corrected: default 5; as-printed: alpha, default 3e-4; others: default 0.01"),
        "discount": Parameter("gamma; corrected: default 0.5; others: default 0.999"),
        "exploration": Parameter(
            "share of random actions at the beginning; corrected: default 1; as-printed: 0; others: 0.9"
        ),
        "nodes": size("states at which values are kept (corrected, default 9) or shown (as-..., 17)"),
        "clip": Parameter("c, of each step's RKHS norm (corrected, default 0.05) or of each gradient (0.5)"),
        "beta": Parameter("beta of the kernel, corrected; default 5"),
        "sigma": Parameter("sigma of the noise, as-...; default 0.32"),
        "resets": size("J, how many paths, as-...; default one for each update, as-coded for each episode"),
        "view": Parameter("as-...: raw (default, line 24), fresh or iterates", kind="text"),
        "k": Parameter("k of Theorem 5, as-...; default 2.3"),
        "lipschitz_squared": Parameter("L^2 of Theorem 5, as-...; default 16"),
    },
    built_in=_q_learning,
    own=partial(
        no_file,
        "its data are a reward function, which answers wherever the agent goes",
        "DPQLearning on a RewardFunction",
    ),
)


CATALOGUE: Mapping[str, Builtin] = {
    "dp-apvi": DP_APVI,
    "dp-vapvi": DP_VAPVI,
    "dp-lsw": DP_LSW,
    "dp-lsl": DP_LSL,
    "ldp-ucrl-vtr": LDP_UCRL_VTR,
    "private-lsvi-ucb": PRIVATE_LSVI_UCB,
    "dp-q-learning": DP_Q_LEARNING,
    "dp-ucbvi": DP_UCBVI,
    "dp-policy-gradient": DP_POLICY_GRADIENT,
    "dp-sgd": DP_SGD,
    "dp-ftrl": DP_FTRL,
}
