"""A finite process, or the walk on [0, 1], as a Gymnasium environment: needs the extra ``gymnasium``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dpaudit.algorithms.environments import line_world
from dpaudit.algorithms.environments.tabular import TabularMDP, cumulative
from dpaudit.algorithms.optional_modules import optional_module
from dpaudit.algorithms.public_parameters import Array

if TYPE_CHECKING:
    import gymnasium


def gymnasium_environment(mdp: TabularMDP) -> gymnasium.Env[int, int]:
    """An episode of H steps; observations are states, and ``info["step"]`` counts the steps from 0.

    Rewards are the expected ones of (step, state, action). After H steps the episode is terminated.
    """

    def draw(row: Array, rng: np.random.Generator) -> int:
        return int((rng.random() >= cumulative(row)).sum())

    def move(h: int, state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
        return draw(mdp.transitions[h, state, action], rng), float(mdp.rewards[h, state, action])

    spaces = _gymnasium().spaces
    observations, actions = spaces.Discrete(mdp.n_states), spaces.Discrete(mdp.n_actions)
    return _environment(observations, actions, lambda rng: draw(mdp.initial, rng), move, mdp.horizon)


def line_environment(rewards: line_world.RewardFunction | None = None) -> gymnasium.Env[Any, int]:
    """The walk on [0, 1]: observations are the state, [1], from a uniform start; an episode has 50 steps.

    Rewards depend on the state that a step reaches; the default is 0.5 - |s - 0.5|.
    """
    earned = line_world.middle_rewards() if rewards is None else rewards

    def move(h: int, state: Array, action: int, rng: np.random.Generator) -> tuple[Array, float]:
        del h
        reached = line_world.moved(float(state[0]), int(action), float(rng.random()))
        return np.array([reached]), float(earned(reached))

    spaces = _gymnasium().spaces
    observations, actions = spaces.Box(0.0, 1.0, (1,), np.float64), spaces.Discrete(line_world.N_ACTIONS)
    return _environment(observations, actions, lambda rng: rng.random(1), move, line_world.HORIZON)


def _gymnasium() -> Any:
    return optional_module("gymnasium", "gymnasium", "an environment")


def _environment(
    observations: Any,
    actions: Any,
    first: Callable[[np.random.Generator], Any],
    move: Callable[[int, Any, int, np.random.Generator], tuple[Any, float]],
    horizon: int,
) -> gymnasium.Env[Any, int]:
    """An environment from its first state and, from step, state and action, the next state and reward."""

    class Environment(_gymnasium().Env):  # type: ignore[misc]
        observation_space, action_space = observations, actions

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed, options=options)
            self._step, self._state = 0, first(self.np_random)
            return self._state, {"step": 0}

        def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            self._state, reward = move(self._step, self._state, action, self.np_random)
            self._step += 1
            return self._state, reward, self._step == horizon, False, {"step": self._step}

    environment: gymnasium.Env[Any, int] = Environment()
    return environment
