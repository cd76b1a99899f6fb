"""Finite-horizon tabular Markov decision processes: exact values, and trajectories drawn from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.public_parameters import Array, public_size, set_read_only, unit_rewards
from dpaudit.errors import InvalidParameter


@dataclass(frozen=True, eq=False)
class TabularMDP:
    """A Markov decision process; its kernel may change from step to step."""

    transitions: Array  # [H, S, A, S], the probability of each next state
    rewards: Array  # [H, S, A] in [0, 1], the expected immediate reward. Public.
    initial: Array  # [S], the distribution of the first state

    def __post_init__(self) -> None:
        transitions = _numbers(self.transitions, "transitions", 4)
        horizon, n_states, n_actions = transitions.shape[:3]
        rewards = _numbers(self.rewards, "rewards", 3)
        initial = _numbers(self.initial, "initial", 1)
        expected = ((horizon, n_states, n_actions, n_states), (horizon, n_states, n_actions), (n_states,))
        found = (transitions.shape, rewards.shape, initial.shape)
        if found != expected or min(horizon, n_states, n_actions) < 1:
            what = f"transitions, rewards, initial of shapes {found}"
            raise InvalidParameter(what, where="TabularMDP", remedy="give [H, S, A, S], [H, S, A] and [S]")
        _check_distribution(transitions, "transitions")
        _check_distribution(initial, "initial")
        rewards = unit_rewards(rewards)
        set_read_only(self, transitions=transitions, rewards=rewards, initial=initial)

    @classmethod
    def steady(cls, kernel: Array, rewards: Array, initial: Array, horizon: int) -> TabularMDP:
        """The process with one kernel [S, A, S] and one reward function [S, A] at every step."""
        kernels = np.broadcast_to(kernel, (horizon, *kernel.shape))
        return TabularMDP(kernels, np.broadcast_to(rewards, (horizon, *rewards.shape)), initial)

    @property
    def horizon(self) -> int:
        """The number of steps H."""
        return int(self.rewards.shape[0])

    @property
    def n_states(self) -> int:
        """The number of states S."""
        return int(self.rewards.shape[1])

    @property
    def n_actions(self) -> int:
        """The number of actions A."""
        return int(self.rewards.shape[2])

    def optimal_values(self) -> Array:
        """V*_h(s), [H+1, S], by backward induction; the last row is zero."""
        values = np.zeros((self.horizon + 1, self.n_states))
        for h in reversed(range(self.horizon)):
            values[h] = self._action_values(h, values[h + 1]).max(axis=1)
        return values

    def optimal_policy(self) -> NDArray[np.int64]:
        """An optimal deterministic policy, [H, S]; the lowest action where several are optimal."""
        values = self.optimal_values()
        return np.stack([self._action_values(h, values[h + 1]).argmax(axis=1) for h in range(self.horizon)])

    def evaluate(self, policy: ArrayLike) -> Array:
        """V^policy_h(s), [H+1, S], of a policy as in `action_probabilities`."""
        probabilities = self.action_probabilities(policy)
        values = np.zeros((self.horizon + 1, self.n_states))
        for h in reversed(range(self.horizon)):
            values[h] = (probabilities[h] * self._action_values(h, values[h + 1])).sum(axis=1)
        return values

    def suboptimality(self, policy: ArrayLike) -> float:
        """v* - v^policy from the initial distribution, never below zero; policy as in `evaluate`."""
        return max(0.0, float(self.initial @ (self.optimal_values()[0] - self.evaluate(policy)[0])))

    @property
    def optimum(self) -> float:
        """v*, the optimal value from the initial distribution."""
        return float(self.initial @ self.optimal_values()[0])

    def utility(self, policy: ArrayLike) -> dict[str, float]:
        """What a policy loses of the optimal value, and that value, by name."""
        return {"suboptimality": self.suboptimality(policy), "optimal value": self.optimum}

    def action_probabilities(self, policy: ArrayLike) -> Array:
        """A policy given as actions [H, S] or probabilities [H, S, A], as the latter."""
        table = np.asarray(policy)
        if table.shape == (self.horizon, self.n_states) and table.dtype.kind in "iu":
            if (table < 0).any() or (table >= self.n_actions).any():
                remedy = f"give actions 0..{self.n_actions - 1}"
                raise InvalidParameter("an action outside the range", where="policy", remedy=remedy)
            return np.asarray(np.eye(self.n_actions)[table])
        probabilities = _numbers(table, "policy", 3)
        if probabilities.shape != self.rewards.shape:
            remedy = f"give integers [H, S] or probabilities [H, S, A], here {self.rewards.shape}"
            what = f"a policy of shape {table.shape}, type {table.dtype}"
            raise InvalidParameter(what, where="policy", remedy=remedy)
        _check_distribution(probabilities, "policy")
        return probabilities

    def sample_trajectories(self, n: int, behaviour: ArrayLike, rng: np.random.Generator) -> TrajectoryData:
        """n independent trajectories of a behaviour policy; rewards are the expected ones of (h, s, a).

        The policy is as in `action_probabilities`; ``rng`` is public randomness.
        """
        n = public_size(n, "n")
        probabilities = self.action_probabilities(behaviour)
        states = np.empty((n, self.horizon + 1), dtype=np.int64)
        actions = np.empty((n, self.horizon), dtype=np.int64)
        rewards = np.empty((n, self.horizon))
        states[:, 0] = _draw(self.initial[None], np.zeros(n, dtype=np.int64), rng)
        for h in range(self.horizon):
            s = states[:, h]
            a = _draw(probabilities[h], s, rng)
            actions[:, h], rewards[:, h] = a, self.rewards[h, s, a]
            rows = self.transitions[h].reshape(-1, self.n_states)  # [S * A, S]
            states[:, h + 1] = _draw(rows, s * self.n_actions + a, rng)
        return TrajectoryData(states, actions, rewards, self.n_states, self.n_actions)

    def _action_values(self, h: int, next_values: Array) -> Array:
        """The action values r_h + P_h V, [S, A]."""
        return np.asarray(self.rewards[h] + self.transitions[h] @ next_values)


class BuiltinData(NamedTuple):
    """A data set that comes with dpaudit."""

    data: TrajectoryData  # the trajectories
    # the exact process that they were drawn from, whose rewards are the public reward function
    mdp: TabularMDP


def random_mdp(n_states: int, n_actions: int, horizon: int, seed: int) -> TabularMDP:
    """A process with uniform Dirichlet kernels and first state and uniform rewards, fixed by its seed."""
    names = {"horizon": horizon, "n_states": n_states, "n_actions": n_actions}
    sizes = [public_size(size, name) for name, size in names.items()]  # [H, S, A]
    rng = np.random.default_rng(seed)
    transitions, rewards = rng.dirichlet(np.ones(n_states), size=sizes), rng.random(sizes)
    return TabularMDP(transitions, rewards, rng.dirichlet(np.ones(n_states)))


def uniform_mdp(rewards: Array) -> TabularMDP:
    """The process with rewards [H, S, A] in which each next state is as likely as any other."""
    uniform = np.full(rewards.shape[1], 1.0 / rewards.shape[1])
    return TabularMDP(np.broadcast_to(uniform, (*rewards.shape, uniform.size)), rewards, uniform)


def cumulative(rows: Array) -> Array:
    """Cumulative probabilities along the last axis, for drawing by inversion: u >= c, summed."""
    sums = rows.cumsum(axis=-1)
    # Divided, it is exactly 1 from the last possible outcome on: none of probability 0 is drawn.
    return np.asarray(sums / sums[..., -1:])


def uniform_policy(mdp: TabularMDP) -> Array:
    """The policy [H, S, A] that takes every action with the same probability."""
    return np.full(mdp.rewards.shape, 1.0 / mdp.n_actions)


def _numbers(values: ArrayLike, where: str, dimensions: int) -> Array:
    table: NDArray[Any] = np.array(values)
    if table.ndim != dimensions or table.dtype.kind not in "iuf" or not np.isfinite(table).all():
        what = f"{table.ndim} dimensions, type {table.dtype}, or numbers that are not finite"
        raise InvalidParameter(what, where=where, remedy=f"give finite numbers in {dimensions} dimensions")
    return table.astype(np.float64)


def _check_distribution(rows: Array, where: str) -> None:
    if (rows < 0.0).any() or (np.abs(rows.sum(axis=-1) - 1.0) > 1e-9).any():
        what = "a row that is no probability distribution"
        why = "values computed from it would be meaningless"
        raise InvalidParameter(what, where=where, why=why, remedy="give non-negative rows that sum to 1")


def _draw(rows: Array, index: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """One draw from the distribution ``rows[i]`` for each i in ``index``, by inversion."""
    return np.asarray((rng.random(index.size)[:, None] >= cumulative(rows)[index]).sum(axis=1))
