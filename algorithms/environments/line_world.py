"""A walk on [0, 1] with private rewards: Wang and Hegde (2019, NeurIPS), appendix E.1.

The unit of privacy is the whole reward function: two of them are neighbours when they differ by at most 1
at every state. What the states do is public.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.algorithms.public_parameters import Array, set_read_only
from dpaudit.errors import DataError

#: From states [n] to the values of the actions, [n, 2].
Values = Callable[[Array], Array]

UNIT = "reward function"
#: The assumption about a pair of reward functions that no computation checks.
NEIGHBOURS = "two reward functions are neighbours when they differ by at most 1 at every state"

#: Left and right.
N_ACTIONS = 2
#: The largest move of one step.
REACH = 0.25
#: Steps of an episode, and episodes of the paper's runs.
HORIZON, EPISODES = 50, 100


@dataclass(frozen=True, eq=False)
class RewardFunction:
    """What a step earns by the state that it reaches: straight between evenly spaced states. Private.

    The values [n], n >= 2, are those at 0, 1/(n-1), ..., 1; others raise `DataError` (for the data's holder).
    """

    values: Array

    def __post_init__(self) -> None:
        try:
            values = np.array(self.values, dtype=np.float64)
        except (TypeError, ValueError):
            values = np.empty(0)
        if values.ndim != 1 or values.size < 2 or not np.isfinite(values).all():
            what = "a reward function that is no list of finite numbers"
            remedy = "give [n] values at evenly spaced states, from 0 to 1"
            raise DataError(what, where="RewardFunction.values", remedy=remedy)
        set_read_only(self, values=values)

    def __call__(self, states: ArrayLike) -> Array:
        """Rewards of states of any shape: of the same shape."""
        places = np.linspace(0.0, 1.0, self.values.size)
        return np.interp(np.asarray(states, dtype=np.float64), places, self.values)

    def plus(self, amount: float) -> RewardFunction:
        """The function with `amount` added to every reward."""
        return RewardFunction(self.values + amount)


def middle_rewards() -> RewardFunction:
    """The reward function 0.5 - |s - 0.5|."""
    return RewardFunction(np.array([0.0, 0.5, 0.0]))


def moved(state: float, action: int, uniform: float) -> float:
    """Where an action leads: left for 0, right for 1, by ``uniform`` in [0, 1] of the reach, clamped."""
    step = REACH * uniform if action else -REACH * uniform
    return min(1.0, max(0.0, state + step))


class Walk:
    """Episodes of 50 steps, each from a uniform state; all of its randomness is that of a public stream."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        self._steps = 0
        self.state = float(generator.random())

    def explore(
        self, values: Values, steps: int, exploration: float = 0.0
    ) -> tuple[Array, NDArray[np.int64], Array]:
        """Act greedily or, with the probability `exploration`, at random.

        Returns the states [steps], the actions [steps] and the states reached [steps]. Values are functions
        from states [n] to [n, actions].
        """
        states, reached = np.empty(steps), np.empty(steps)
        actions = np.empty(steps, dtype=np.int64)
        for b in range(steps):
            states[b] = self.state
            action = int(values(states[b : b + 1])[0].argmax())
            if exploration != 0.0:
                random = self._generator.random(2)
                action = int(random[1] * N_ACTIONS) if random[0] < exploration else action
            actions[b], reached[b] = action, self.step(action)
        return states, actions, reached

    def step(self, action: int) -> float:
        """Act, and return the state that this reaches; after the episode's last step the next one begins."""
        reached = moved(self.state, action, float(self._generator.random()))
        self._steps += 1
        self.state = float(self._generator.random()) if self._steps % HORIZON == 0 else reached
        return reached


def episode_returns(reached: Array, rewards: RewardFunction) -> Array:
    """The sum of rewards of each whole episode of a walk, from the states [n] that its steps reached."""
    whole = len(reached) // HORIZON * HORIZON
    return np.asarray(rewards(reached[:whole]).reshape(-1, HORIZON).sum(axis=1))


def greedy_return(values: Values, rewards: RewardFunction, episodes: int, seed: int) -> float:
    """The mean return of the greedy policy over episodes of one seed."""
    generator = np.random.default_rng(seed)
    states = generator.random(episodes)
    total = 0.0
    for _ in range(HORIZON):
        right = values(states).argmax(axis=1) == 1
        steps = REACH * generator.random(episodes)
        states = np.clip(states + np.where(right, steps, -steps), 0.0, 1.0)
        total += float(rewards(states).mean())
    return total
