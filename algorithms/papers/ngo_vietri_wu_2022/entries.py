"""Private LSVI-UCB as the catalogue has it: parameters and built-in users."""

from dpaudit.algorithms.form import Builtin, Parameter, Prepared, Values, no_users_file, size, words
from dpaudit.algorithms.public_parameters import public_size
from dpaudit.claims.guarantees import ZCDP

#: The seed of built-in data, the same in every run.
_SEED = 20220717


def _private_lsvi_ucb(values: Values) -> Prepared:
    from dpaudit.algorithms.environments.linear_mdp import random_linear_mdp
    from dpaudit.algorithms.environments.online_users import online_users
    from dpaudit.algorithms.papers.ngo_vietri_wu_2022.lsvi import LinearModel
    from dpaudit.algorithms.papers.ngo_vietri_wu_2022.private_lsvi_ucb import LSVIConstants, PrivateLSVIUCB

    horizon, dimension, users = (public_size(values[name], name) for name in ("horizon", "dimension", "K"))
    process = random_linear_mdp(4, 3, horizon, dimension, seed=_SEED)
    model = LinearModel(process.features, horizon, values["values"])
    noise = ZCDP(rho=values["rho"]), values["calibration"], values["counted"]
    constants = LSVIConstants(**PRIVATE_LSVI_UCB.constants(values))
    algorithm = PrivateLSVIUCB(model, users, *noise, constants, values.get("fixed_updates"), mdp=process)
    return algorithm, online_users(process, users, seed=_SEED, random_rewards=True)


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
    own=no_users_file("PrivateLSVIUCB on OnlineUsers"),
)
