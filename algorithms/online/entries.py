"""DP-UCBVI and DP-PG as the catalogue has them: parameters and built-in users."""

from functools import partial
from typing import Any

from dpaudit.algorithms.form import Builtin, Parameter, Prepared, Values, no_file, size, words
from dpaudit.algorithms.public_parameters import public_size
from dpaudit.claims.guarantees import ZCDP, ApproxDP, PureDP

_USERS_ANSWER = "its users answer whatever action they are given; a file holds the answers to some"
#: The seed of built-in users and processes, the same in every run.
_SEED = 20240612


def _ucbvi(values: Values) -> Prepared:
    from dpaudit.algorithms.environments.riverswim import figure_river
    from dpaudit.algorithms.online.dp_ucbvi import DPUCBVI, UCBVIConstants
    from dpaudit.algorithms.online.online import online_users

    users, states = (public_size(values[name], name) for name in ("K", "states"))
    river = figure_river("homogeneous", states)
    constants = UCBVIConstants(**DP_UCBVI.constants(values))
    joint = values["trust"] == "joint"
    guarantee: Any = ZCDP(rho=values["rho"]) if joint else PureDP(epsilon=values["epsilon"])
    algorithm = DPUCBVI(river.rewards, users, guarantee, values["calibration"], constants, mdp=river)
    return algorithm, online_users(river, users, seed=_SEED)


DP_UCBVI = Builtin(
    summary="online reinforcement learning on tables, joint or local trust (Qiao and Wang 2023, 2024)",
    takes={
        "trust": words("whom users trust: the server, or nobody", "joint", "local"),
        "rho": Parameter("zCDP budget of all releases, under joint trust", 1.0),
        "epsilon": Parameter("epsilon of what one user sends, under local trust", 1.0),
        "calibration": words("calibration of the noise under local trust", "sound", "as-published"),
        "states": size("S of RiverSwim, and H = 2S", 3, data="built-in"),
        "K": size("users", 500, data="built-in"),
        "C1": Parameter("C1 of line 8", 0.0, constant="gap"),
        "C2": Parameter("C2 of line 9, published without a value", 3e-4, constant="bonus"),
        "noise": Parameter("factor of E, what is added for the noise; published 1", 0.1, constant="noise"),
        "failure_probability": Parameter("beta, in E", 0.05, constant="failure_probability"),
    },
    built_in=_ucbvi,
    own=partial(no_file, _USERS_ANSWER, "DPUCBVI on OnlineUsers"),
)


def _policy_gradient(values: Values) -> Prepared:
    from dpaudit.algorithms.environments.linear_mdp import one_hot_features
    from dpaudit.algorithms.environments.tabular import random_mdp
    from dpaudit.algorithms.online.dp_policy_gradient import DPPolicyGradient
    from dpaudit.algorithms.online.online import online_users

    names = "states", "actions", "batch", "updates"
    n_states, n_actions, batch, updates = (public_size(values[name], name) for name in names)
    mdp = random_mdp(n_states, n_actions, 1, seed=_SEED)
    guarantee = ApproxDP(epsilon=values["epsilon"], delta=values["delta"])
    stated = guarantee, values["calibration"], values["step_size"]
    algorithm = DPPolicyGradient(one_hot_features(n_states, n_actions), batch, updates, *stated, mdp=mdp)
    return algorithm, online_users(mdp, batch * updates, seed=_SEED, random_rewards=True)


DP_POLICY_GRADIENT = Builtin(
    summary="private policy gradient for contextual bandits, each user in one batch (He and Zhou 2025)",
    takes={
        "epsilon": Parameter("epsilon of the claim", 1.0),
        "delta": Parameter("delta of the claim", 1e-5),
        "calibration": words("calibration of the noise", "exact", "as-published"),
        "batch": size("m, users of one update", 20),
        "updates": size("T", 3),
        "step_size": Parameter("eta", 5.0),
        "states": size("S, of the built-in bandit", 3, data="built-in"),
        "actions": size("A, of the built-in bandit", 4, data="built-in"),
    },
    built_in=_policy_gradient,
    own=partial(no_file, _USERS_ANSWER, "DPPolicyGradient on OnlineUsers"),
)
