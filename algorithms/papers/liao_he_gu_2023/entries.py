"""LDP-UCRL-VTR as the catalogue has it: parameters and built-in users."""

from dpaudit.algorithms.form import Builtin, Parameter, Prepared, Values, no_users_file, size, words
from dpaudit.algorithms.public_parameters import public_size
from dpaudit.claims.guarantees import ApproxDP

#: The seed of built-in data, the same in every run.
_SEED = 20211019


def _ldp_ucrl_vtr(values: Values) -> Prepared:
    from dpaudit.algorithms.environments.hard_mixture import experiment_gap, hard_mixture
    from dpaudit.algorithms.environments.linear_mixture import one_hot_mixture, random_linear_mixture
    from dpaudit.algorithms.environments.online_users import online_users
    from dpaudit.algorithms.environments.riverswim import figure_river
    from dpaudit.algorithms.papers.liao_he_gu_2023.ldp_ucrl_vtr import LDPUCRLVTR, MixtureConstants
    from dpaudit.algorithms.papers.liao_he_gu_2023.value_targeted import MixtureModel

    n_states = public_size(values["states"], "states")
    if values["features"] == "mixture":
        mixture = random_linear_mixture(n_states, 2, 2 * n_states, 4, seed=_SEED)
    elif values["features"] == "hard":
        horizon = 2 * n_states
        mixture = hard_mixture(5, horizon, experiment_gap(horizon, values["K"]), seed=_SEED)
    else:
        mixture = one_hot_mixture(figure_river(values["river"], n_states))
    model = MixtureModel(mixture.features, mixture.rewards, clip_below=values["values"] == "clipped")
    guarantee = ApproxDP(epsilon=values["epsilon"], delta=values["delta"])
    constants = MixtureConstants(**LDP_UCRL_VTR.constants(values))
    algorithm = LDPUCRLVTR(model, guarantee, values["calibration"], constants, mdp=mixture)
    return algorithm, online_users(mixture, values["K"], seed=_SEED)


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
    own=no_users_file("LDPUCRLVTR on OnlineUsers"),
)
