"""DP-PG as the catalogue has it: parameters and built-in users."""

from dpaudit.algorithms.form import Builtin, Parameter, Prepared, Values, no_users_file, size, words
from dpaudit.algorithms.public_parameters import public_size
from dpaudit.claims.guarantees import ApproxDP

#: The seed of built-in data, the same in every run.
_SEED = 20240612


def _policy_gradient(values: Values) -> Prepared:
    from dpaudit.algorithms.environments.linear_mdp import one_hot_features
    from dpaudit.algorithms.environments.online_users import online_users
    from dpaudit.algorithms.environments.tabular import random_mdp
    from dpaudit.algorithms.papers.he_zhou_2025.dp_policy_gradient import DPPolicyGradient

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
    own=no_users_file("DPPolicyGradient on OnlineUsers"),
)
