"""The linear mixture process of a lower bound on regret: actions that matter can hardly be told apart.

States are x_1 to x_H, one for each step, and two that are never left: x_{H+1}, which earns nothing, and
x_{H+2}, which earns 1 a step. Actions are the corners of the cube {-1, 1}^(d-1). From x_i action a leads to
x_{H+2} with probability delta + <mu_h, a>, else to x_{i+1}; delta = 1/H, and every coordinate of the unknown
mu_h is gap or -gap. The best action has the signs of mu_h. The instance is that of Zhou, Gu and Szepesvari
(2021, COLT), on which Theorem 5.6 of Liao, He and Gu (2023), a lower bound, rests; written here after the
published code of the latter's experiments.
"""

import itertools
import math

import numpy as np

from dpaudit.algorithms.environments.linear_mixture import LinearMixtureMDP
from dpaudit.algorithms.public_parameters import public_size
from dpaudit.errors import InvalidParameter


def hard_mixture(dimension: int, horizon: int, gap: float, seed: int) -> LinearMixtureMDP:
    """The process over H + 2 states and 2^(d-1) actions, from x_1; the seed fixes the signs of mu_h.

    With D = (d - 1) gap, alpha^2 = 1/(1 + D) and beta^2 = gap/(1 + D), the features of x_i are
    (alpha (1 - delta), -beta a) to x_{i+1} and (alpha delta, beta a) to x_{H+2}, those of the last two
    (alpha, 0) to themselves, and theta_h = (1/alpha, mu_h/beta). They fit (3.1): phi_V has norm at most 1 for
    values in [0, 1]; that of theta_h is 1 + D.

    Raises `InvalidParameter` for fewer than 2 dimensions or steps, and for a gap that is not positive or is
    above delta/(d - 1), where probabilities would be negative.
    """
    horizon, free = public_size(horizon, "horizon"), public_size(dimension, "dimension") - 1
    if min(horizon - 1, free) < 1:
        what = f"horizon = {horizon}, dimension = {dimension}"
        raise InvalidParameter(what, where="hard_mixture", remedy="give at least 2 of each")
    most = 1.0 / (horizon * free)
    if not 0.0 < gap <= most:
        what, why = f"gap = {gap!r}", "delta + <mu_h, a> is a probability for every action"
        remedy = f"give a positive number, {most:.6g} at most; or more users, where it follows from them"
        raise InvalidParameter(what, where="gap", why=why, remedy=remedy)
    delta, spread = 1.0 / horizon, free * gap
    whole = (1.0 + spread) * (1.0 + 1e-12)  # no rounding may leave a norm above 1
    alpha, beta = math.sqrt(1.0 / whole), math.sqrt(gap / whole)
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=free)))  # [A, d - 1]
    poor, rich = horizon, horizon + 1
    features = np.zeros((horizon + 2, len(corners), horizon + 2, free + 1))
    for state in range(horizon):
        features[state, :, state + 1, 0] = alpha * (1.0 - delta)
        features[state, :, state + 1, 1:] = -beta * corners
        features[state, :, rich, 0] = alpha * delta
        features[state, :, rich, 1:] = beta * corners
    features[poor, :, poor, 0] = features[rich, :, rich, 0] = alpha
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), size=(horizon, free))
    parameters = np.column_stack([np.full(horizon, 1.0 / alpha), signs * (gap / beta)])  # [H, d]
    rewards = np.zeros((horizon, horizon + 2, len(corners)))
    rewards[:, rich] = 1.0
    return LinearMixtureMDP(features, parameters, rewards, initial=np.eye(horizon + 2)[0])


def experiment_gap(horizon: int, users: int) -> float:
    """sqrt(delta/K)/(4 sqrt 2), as the published code has it; Theorem 5.6 has another, of epsilon and K H."""
    return math.sqrt(1.0 / (horizon * public_size(users, "users"))) / (4.0 * math.sqrt(2.0))
