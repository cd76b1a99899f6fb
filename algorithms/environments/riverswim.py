"""RiverSwim: a chain where a small reward is easy to have and a large one lies up the river.

States 0 (down the river) to S - 1; actions 0 left, with the current, and 1 right, against it. Left always
moves one state down. Right moves up, stays, or is swept one state down. Left in state 0 earns 5/1000, right
in state S - 1 earns 1, everything else nothing (Strehl and Littman 2008, Journal of Computer and System
Sciences 74(8)).
"""

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.algorithms.environments.tabular import TabularMDP
from dpaudit.algorithms.public_parameters import Array, public_size
from dpaudit.errors import InvalidParameter

LEFT, RIGHT = 0, 1
SMALL, LARGE = 5.0 / 1000.0, 1.0


def riverswim_mdp(
    n_states: int, horizon: int, *, success: ArrayLike | None = None, normalised: bool = True
) -> TabularMDP:
    """RiverSwim over S states, at least 2, and H steps, from state 0, with two actions.

    Success is the chance that swimming right succeeds: a number, or [H] of them for a kernel that changes
    from step to step. Otherwise the swimmer stays or is swept down, as 12 : 1. The default is the classical
    kernel: 0.6 from state 0 and in the last state, 0.35 between them. Normalised rewards are divided by H, so
    that no episode earns more than 1, as Liao, He and Gu (2023) have them.
    """
    if public_size(n_states, "n_states") < 2:
        why = "a river has two ends"
        raise InvalidParameter("1 state", where="n_states", why=why, remedy="give at least 2")
    horizon = public_size(horizon, "horizon")
    kernels = np.stack([_kernel(n_states, chance) for chance in _chances(success, horizon)])
    rewards = np.zeros((horizon, n_states, 2))
    rewards[:, 0, LEFT], rewards[:, -1, RIGHT] = SMALL, LARGE
    return TabularMDP(kernels, rewards / horizon if normalised else rewards, initial=np.eye(n_states)[0])


def figure_river(kind: str, n_states: int) -> TabularMDP:
    """The rivers on which figure 2 of Liao, He and Gu (2023) is drawn again: H = 2S, rewards divided by H.

    The chance that swimming right succeeds is uniform on [0.8, 1] at each step, or its mean 0.9 at all of
    them, which is our choice: the paper states neither S nor the homogeneous kernel.
    """
    horizon = 2 * public_size(n_states, "n_states")
    changing = inhomogeneous_success(horizon, seed=0)
    success: dict[str, ArrayLike] = {"homogeneous": 0.9, "inhomogeneous": changing}
    return riverswim_mdp(n_states, horizon, success=success[kind])


def inhomogeneous_success(horizon: int, seed: int) -> Array:
    """Chances for each step, [H], uniform on [0.8, 1] (Liao, He and Gu 2023, section 6.1)."""
    return np.random.default_rng(seed).uniform(0.8, 1.0, public_size(horizon, "horizon"))


def _chances(success: ArrayLike | None, horizon: int) -> list[float | None]:
    if success is None:
        return [None] * horizon
    chances = np.asarray(success, dtype=np.float64)
    if chances.shape not in {(), (horizon,)} or not ((chances >= 0.0) & (chances <= 1.0)).all():
        what, why = f"success of shape {chances.shape}", "it is the chance of moving up at each step"
        remedy = f"give one number in [0, 1], or {horizon}"
        raise InvalidParameter(what, where="success", why=why, remedy=remedy)
    return [float(chance) for chance in np.broadcast_to(chances, (horizon,))]


def _kernel(n_states: int, success: float | None) -> Array:
    """The transition probabilities of one step, [S, A, S]."""
    ends, between = (0.6, 0.35) if success is None else (success, success)
    kernel = np.zeros((n_states, 2, n_states))
    for state in range(n_states):
        kernel[state, LEFT, max(state - 1, 0)] = 1.0
        if state == 0:
            kernel[state, RIGHT, :2] = 1.0 - ends, ends
        elif state == n_states - 1:
            kernel[state, RIGHT, state - 1 :] = 1.0 - ends, ends
        else:
            # Where swimming right does not move up, of 0.65, 0.6 stay and 0.05 are swept down.
            stays = (1.0 - between) * (0.6 / 0.65)
            kernel[state, RIGHT, state - 1 : state + 2] = 1.0 - between - stays, stays, between
    return kernel
