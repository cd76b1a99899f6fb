"""Finite linear Markov decision processes, and that of appendix F of Qiao and Wang (2023, NeurIPS).

In a linear process both kernel and rewards are linear in a public feature map (Jin, Yang, Wang, Jordan 2020):
P_h(s'|s,a) = <phi(s,a), nu_h(s')>,  r_h(s,a) = <phi(s,a), theta_h>.  With finitely many states and
actions the exact optimum and any policy's exact value follow by dynamic programming on the table that
these span.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.algorithms.environments.tabular import TabularMDP
from dpaudit.algorithms.public_parameters import Array, feature_table, public_size, set_read_only
from dpaudit.errors import InvalidParameter

#: Appendix F's example: its sizes, and the probability of action 0 under its behaviour policy.
N_STATES, N_ACTIONS, DIMENSION, HORIZON = 2, 100, 10, 20
BEHAVIOUR_PROBABILITY = 0.6

#: The largest norm of a raw feature of appendix F: six bits of an action below 100, and delta or 1 - delta.
LARGEST_RAW_NORM = math.sqrt(7.0)


@dataclass(frozen=True, eq=False, init=False)
class LinearMDP(TabularMDP):
    """A linear process on finitely many states and actions: the table that it spans, with its features."""

    features: Array  # phi, [S, A, d]. Public.
    measures: Array  # nu_h(s'), [H, d, S]
    weights: Array  # theta_h, [H, d]

    def __init__(
        self, features: ArrayLike, measures: ArrayLike, weights: ArrayLike, initial: ArrayLike
    ) -> None:
        phi = feature_table(features, "[S, A, d]")
        nu, theta = np.array(measures, float), np.array(weights, float)
        horizon = theta.shape[0] if theta.ndim == 2 else 0
        n_states, _, dimension = phi.shape
        if theta.shape != (horizon, dimension) or nu.shape != (horizon, dimension, n_states):
            what = f"features, measures, weights of shapes {phi.shape}, {nu.shape}, {theta.shape}"
            raise InvalidParameter(what, where="LinearMDP", remedy="give [S, A, d], [H, d, S] and [H, d]")
        set_read_only(self, features=phi, measures=nu, weights=theta)
        kernel = np.einsum("sad,hdt->hsat", phi, nu)  # [H, S, A, S]
        rewards = np.einsum("sad,hd->hsa", phi, theta)  # [H, S, A]
        # What the products' rounding pushes past 0 or 1 is put back; anything more is refused there.
        super().__init__(_rounded_into_unit(kernel), _rounded_into_unit(rewards), np.asarray(initial))

    @property
    def dimension(self) -> int:
        """The features' dimension d."""
        return int(self.weights.shape[1])


def one_hot_features(n_states: int, n_actions: int) -> Array:
    """The features of a tabular process: each (s, a) its own coordinate, [S, A, S A]."""
    size = n_states * n_actions
    return np.eye(size).reshape(n_states, n_actions, size)


def random_linear_mdp(n_states: int, n_actions: int, horizon: int, dimension: int, seed: int) -> LinearMDP:
    """A small linear process, fixed by its seed: every phi(s, a) is a mixture of d anchors.

    The features are probability vectors, of norm at most 1; each anchor has its own measure and reward at
    each step.
    """
    sizes = {"n_states": n_states, "n_actions": n_actions, "horizon": horizon, "dimension": dimension}
    n_states, n_actions, horizon, dimension = (public_size(size, name) for name, size in sizes.items())
    rng = np.random.default_rng(seed)
    # Concentrated near the anchors: evenly mixed, all actions would lead to nearly the same place.
    return LinearMDP(
        features=rng.dirichlet(np.full(dimension, 0.3), size=(n_states, n_actions)),
        measures=rng.dirichlet(np.full(n_states, 0.5), size=(horizon, dimension)),
        weights=rng.random((horizon, dimension)),
        initial=rng.dirichlet(np.ones(n_states)),
    )


def appendix_f_features(*, normalised: bool = True) -> Array:
    """The feature map of appendix F: (8 bits of a, delta, 1 - delta), [2, 100, 10].

    delta(s, a) is 1 where s = 0 and a = 0 hold both or neither. Bits are read from the most significant one;
    the paper leaves their order open. Normalised, they are divided by sqrt 7, so that the longest has norm 1,
    as the paper's analysis assumes; its experiment uses the raw ones, with squared norms up to 7.
    """
    actions = np.arange(N_ACTIONS)
    bits = (actions[:, None] >> np.arange(7, -1, -1)) & 1  # [A, 8]
    delta = (np.arange(N_STATES)[:, None] == 0) == (actions == 0)  # [S, A]
    parts = np.broadcast_to(bits, (N_STATES, N_ACTIONS, 8)), np.stack([delta, ~delta], axis=2)
    features = np.concatenate(parts, axis=2).astype(np.float64)
    return features / LARGEST_RAW_NORM if normalised else features


def appendix_f_mdp(instance: int = 0, *, horizon: int = HORIZON, normalised: bool = True) -> LinearMDP:
    """One instance of the example of appendix F: S = 2, A = 100, d = 10.

    The instance seeds alpha_h1, alpha_h2 and r_h, each uniform on [0, 1]. With normalised features nu and
    theta grow by sqrt 7; the process stays the same.
    """
    alpha_1, alpha_2, r = np.random.default_rng(instance).random((3, horizon))
    measures = np.zeros((horizon, DIMENSION, N_STATES))
    measures[:, 8, 0], measures[:, 9, 0] = alpha_1, alpha_2
    measures[:, 8, 1], measures[:, 9, 1] = 1.0 - alpha_1, 1.0 - alpha_2
    zero, rest = np.zeros(horizon), 0.5 - r / 2
    weights = np.stack([r / 8, zero, r / 8, rest, r / 8, zero, r / 8, zero, r / 2, rest], axis=1)  # [H, d]
    scale, features = LARGEST_RAW_NORM if normalised else 1.0, appendix_f_features(normalised=normalised)
    return LinearMDP(features, scale * measures, scale * weights, np.full(N_STATES, 1.0 / N_STATES))


def appendix_f_behaviour(horizon: int = HORIZON) -> Array:
    """Its behaviour policy, [H, S, A]: action 0 with probability 0.6, the others alike."""
    policy = np.full((horizon, N_STATES, N_ACTIONS), (1.0 - BEHAVIOUR_PROBABILITY) / (N_ACTIONS - 1))
    policy[..., 0] = BEHAVIOUR_PROBABILITY
    return policy


def _rounded_into_unit(values: Array) -> Array:
    inside = np.clip(values, 0.0, 1.0)
    return np.where(np.abs(values - inside) <= 1e-12, inside, values)
