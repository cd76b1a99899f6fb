"""Linear mixture Markov decision processes on finitely many states and actions.

The kernel is linear in a public feature map over triples: P_h(s'|s,a) = <phi(s'|s,a), theta_h>, and rewards
are public (Liao, He and Gu 2023, Definition 3.1). Algorithms regress on phi_V(s,a) = sum_s' phi(s'|s,a)
V(s'); how long these vectors can get is the number on which every sensitivity rests.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.algorithms.environments.tabular import TabularMDP, random_mdp
from dpaudit.algorithms.public_parameters import Array, feature_table, public_size, set_read_only
from dpaudit.errors import InvalidParameter


@dataclass(frozen=True, eq=False, init=False)
class LinearMixtureMDP(TabularMDP):
    """A linear mixture process: the table that it spans, with its features."""

    features: Array  # phi, [S, A, S, d]; the third axis is the next state. Public.
    parameters: Array  # theta_h, [H, d]

    def __init__(
        self, features: ArrayLike, parameters: ArrayLike, rewards: ArrayLike, initial: ArrayLike
    ) -> None:
        phi, theta = triple_features(features), np.array(parameters, dtype=np.float64)
        if theta.ndim != 2 or theta.shape[1] != phi.shape[3]:
            what = f"features of shape {phi.shape}, parameters of shape {theta.shape}"
            raise InvalidParameter(what, where="LinearMixtureMDP", remedy="give [S, A, S, d] and [H, d]")
        set_read_only(self, features=phi, parameters=theta)
        kernel = np.einsum("satd,hd->hsat", phi, theta)  # [H, S, A, S]
        # What the product's rounding pushes below 0 is put back; anything more is refused there.
        kernel = np.where(np.abs(kernel) <= 1e-12, 0.0, kernel)
        super().__init__(kernel, np.asarray(rewards), np.asarray(initial))


def triple_features(features: ArrayLike) -> Array:
    """A copy of a feature map over (s, a, s') as finite doubles [S, A, S, d], not all zero."""
    table = feature_table(features, "[S, A, S, d]")
    if table.shape[0] != table.shape[2]:
        what = f"features of shape {table.shape}"
        raise InvalidParameter(what, where="features", remedy="give [S, A, S, d], s' on the third axis")
    return table


def triple_one_hot(n_states: int, n_actions: int) -> Array:
    """The features of a tabular process: each (s, a, s') its own coordinate, [S, A, S, S^2 A]."""
    size = n_states * n_states * n_actions
    return np.eye(size).reshape(n_states, n_actions, n_states, size)


def one_hot_mixture(mdp: TabularMDP) -> LinearMixtureMDP:
    """A tabular process as a linear mixture (Example 3.3): d = S^2 A, theta_h the kernel itself."""
    features = triple_one_hot(mdp.n_states, mdp.n_actions)
    return LinearMixtureMDP(features, mdp.transitions.reshape(mdp.horizon, -1), mdp.rewards, mdp.initial)


def random_linear_mixture(
    n_states: int, n_actions: int, horizon: int, dimension: int, seed: int
) -> LinearMixtureMDP:
    """Mixtures of d fixed kernels with weights that change from step to step, fixed by the seed.

    The features are scaled so that phi_V has norm at most 1 for values in [0, 1], as (3.1) asks.
    """
    dimension = public_size(dimension, "dimension")
    table = random_mdp(n_states, n_actions, horizon, seed)
    rng = np.random.default_rng([seed, 1])
    kernels = rng.dirichlet(np.ones(n_states), size=(dimension, n_states, n_actions))  # [d, S, A, S]
    weights = rng.dirichlet(np.ones(dimension), size=horizon)  # [H, d]
    features = np.moveaxis(kernels, 0, 3)
    norm = largest_value_norm(features) * (1.0 + 1e-12)  # no rounding may leave it above 1
    return LinearMixtureMDP(features / norm, weights * norm, table.rewards, table.initial)


def largest_value_norm(features: Array) -> float:
    """The largest norm of phi_V(s, a) over every (s, a) and every V with values in [0, 1].

    (3.1) asks that it be at most 1. The norm is convex in V, so that a corner of the cube attains it: all
    ones where no two features [S, A, S, d] of one (s, a) are opposed, else the best of all corners. Beyond 14
    states the corners are too many; then a bound from above, taken coordinate by coordinate.
    """
    n_states = features.shape[2]
    rows = features.reshape(-1, n_states, features.shape[3])  # [S A, S, d]
    if not opposed(features):
        return float(np.linalg.norm(rows.sum(axis=1), axis=1).max())
    if n_states > 14:
        positive, negative = (np.maximum(sign * rows, 0.0).sum(axis=1) for sign in (1.0, -1.0))
        return float(np.linalg.norm(np.maximum(positive, negative), axis=1).max())
    corners = (np.arange(2**n_states)[:, None] >> np.arange(n_states)) & 1  # [2^S, S]
    return max(float(np.linalg.norm(corners @ row, axis=1).max()) for row in rows)


def opposed(features: Array) -> bool:
    """Whether any two features have a negative inner product, so that two phi_V may point apart."""
    if (features >= 0.0).all():
        return False
    rows = np.unique(features.reshape(-1, features.shape[3]), axis=0)
    return bool((rows @ rows.T < 0.0).any())
