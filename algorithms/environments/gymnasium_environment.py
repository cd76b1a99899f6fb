"""A finite process, or the walk on [0, 1], as a Gymnasium environment: needs the extra ``gymnasium``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.environments.line_world import (
    HORIZON,
    N_ACTIONS,
    RewardFunction,
    middle_rewards,
    moved,
)
from dpaudit.algorithms.environments.tabular import TabularMDP, cumulative
from dpaudit.algorithms.optional_modules import optional_module

if TYPE_CHECKING:
    import gymnasium


def gymnasium_environment(mdp: TabularMDP) -> gymnasium.Env[int, int]:
    """An episode of H steps; observations are states, and ``info["step"]`` counts the steps from 0.

    Rewards are the expected ones of (step, state, action). After H steps the episode is terminated. Linear
    processes have theirs through their table: ``gymnasium_environment(linear.tabular)``.
    """
    library = optional_module("gymnasium", "gymnasium", "an environment")

    class TabularEnvironment(library.Env):  # type: ignore[name-defined,misc]
        observation_space = library.spaces.Discrete(mdp.n_states)
        action_space = library.spaces.Discrete(mdp.n_actions)

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[int, dict[str, Any]]:
            super().reset(seed=seed, options=options)
            self._step, self._state = 0, self._draw(mdp.initial)
            return self._state, {"step": 0}

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            h, state = self._step, self._state
            self._step, self._state = h + 1, self._draw(mdp.transitions[h, state, action])
            reward = float(mdp.rewards[h, state, action])
            return self._state, reward, h + 1 == mdp.horizon, False, {"step": h + 1}

        def _draw(self, row: np.ndarray[Any, np.dtype[np.float64]]) -> int:
            return int((self.np_random.random() >= cumulative(row)).sum())

    environment: gymnasium.Env[int, int] = TabularEnvironment()
    return environment


def line_environment(rewards: RewardFunction | None = None) -> gymnasium.Env[Any, int]:
    """The walk on [0, 1]: observations are the state, [1], from a uniform start; an episode has 50 steps.

    Rewards are of the state that a step reaches; left out, 0.5 - |s - 0.5|.
    """
    library = optional_module("gymnasium", "gymnasium", "an environment")
    earned = middle_rewards() if rewards is None else rewards

    class LineEnvironment(library.Env):  # type: ignore[name-defined,misc]
        observation_space = library.spaces.Box(0.0, 1.0, (1,), np.float64)
        action_space = library.spaces.Discrete(N_ACTIONS)

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[NDArray[np.float64], dict[str, Any]]:
            super().reset(seed=seed, options=options)
            self._step, self._state = 0, float(self.np_random.random())
            return np.array([self._state]), {"step": 0}

        def step(self, action: int) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
            self._step += 1
            self._state = moved(self._state, int(action), float(self.np_random.random()))
            reward = float(earned(self._state))
            return np.array([self._state]), reward, self._step == HORIZON, False, {"step": self._step}

    environment: gymnasium.Env[Any, int] = LineEnvironment()
    return environment
