"""DP-UCBVI as the catalogue has it: parameters and built-in users."""

from typing import Any

from dpaudit.algorithms.form import Builtin, Parameter, Prepared, Values, no_users_file, size, words
from dpaudit.algorithms.public_parameters import public_size
from dpaudit.claims.guarantees import ZCDP, PureDP

#: The seed of built-in data, the same in every run.
_SEED = 20240612


def _ucbvi(values: Values) -> Prepared:
    from dpaudit.algorithms.environments.online_users import online_users
    from dpaudit.algorithms.environments.riverswim import figure_river
    from dpaudit.algorithms.papers.qiao_wang_2024.dp_ucbvi import DPUCBVI, UCBVIConstants

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
    own=no_users_file("DPUCBVI on OnlineUsers"),
)
