"""Online users: who answers an algorithm's actions, one user an episode, one user the unit of privacy.

A user is a tree of responses, fixed by the user's own seed: the next state and the reward for every step,
state and action, whether or not the algorithm ever takes it. Two sequences of users are neighbours when they
have the same length and one user's tree differs. A replay on a neighbour therefore changes one user only: all
others respond to every action as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.trajectories import Trajectory
from dpaudit.algorithms.environments.tabular import TabularMDP, cumulative
from dpaudit.algorithms.public_parameters import public_size, set_read_only
from dpaudit.errors import DataError, InvalidParameter

#: Whom a claim on users protects.
TERMS = {"unit": "user", "neighbouring": "replace-one"}


class User(NamedTuple):
    """One user's tree of responses; private."""

    first_state: int  # where the user's episode begins
    next_states: NDArray[np.int64]  # [H, S, A] int, the answer to each action in each state
    rewards: NDArray[np.float64]  # [H, S, A] in [0, 1], what it earns

    def episode(self, act: Callable[[int, int], int]) -> Trajectory:
        """Walk the tree from its first state, taking the action ``act(step, state)``, steps from 0."""
        states, actions, rewards = [self.first_state], [], []
        for step in range(len(self.next_states)):
            action = act(step, states[-1])
            at = step, states[-1], action
            actions.append(action)
            rewards.append(self.rewards.item(*at))
            states.append(self.next_states.item(*at))
        return Trajectory(np.array(states), np.array(actions), np.array(rewards))


@dataclass(frozen=True, eq=False)
class OnlineUsers:
    """A sequence of users of one process, each drawn from the user's own seed when asked for."""

    mdp: TabularMDP  # the process; its sizes and its rewards are public
    seeds: NDArray[np.uint64]  # [n] whole numbers, one a user. Private, and all that is kept of most users.
    # users that answer by other trees of the process's sizes, by position
    replaced: Mapping[int, User] = field(default_factory=dict)
    # whether a user's reward is 1 with the expected reward as its chance, else 0; left out, it is the
    # expected reward itself, the same for all
    random_rewards: bool = False

    def __post_init__(self) -> None:
        seeds = np.array(self.seeds)
        if seeds.ndim != 1 or seeds.dtype.kind not in "iu" or (seeds < 0).any():
            what = "seeds that are no list of whole numbers"
            raise DataError(what, where="seeds", remedy="give [n] whole numbers >= 0")
        for index, user in self.replaced.items():
            if not 0 <= index < seeds.size or not _fits(user, self.mdp):
                what = f"user {index} does not answer as users of this process do"
                why = "sensitivities rest on the ranges of states and rewards"
                states, shape = f"states 0..{self.mdp.n_states - 1}", self.mdp.rewards.shape
                ranges = f"{states}, rewards in [0, 1], both of shape {shape}"
                remedy = f"replace one of {seeds.size} users; {ranges}"
                raise DataError(what, where="replaced", why=why, remedy=remedy)
        set_read_only(self, seeds=seeds.astype(np.uint64))

    def __len__(self) -> int:
        return int(self.seeds.size)

    @property
    def n_users(self) -> int:
        """How many there are; public."""
        return len(self)

    def __iter__(self) -> Iterator[User]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> User:
        """The user at a position, with the whole tree, the same each time; else `IndexError`."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        if index in self.replaced:
            return self.replaced[index]
        mdp = self.mdp
        rng = np.random.default_rng(int(self.seeds[index]))
        initial, transitions = self._chances
        first = int((rng.random() >= initial).sum())
        following = (rng.random(mdp.rewards.shape)[..., None] >= transitions).sum(axis=-1)  # [H, S, A]
        if not self.random_rewards:
            return User(first, following, mdp.rewards)
        return User(first, following, (rng.random(mdp.rewards.shape) < mdp.rewards).astype(np.float64))

    def replace(self, index: int, user: User) -> OnlineUsers:
        """The neighbour in which one user answers by another tree."""
        return replace(self, replaced={**self.replaced, index: user})

    @cached_property
    def _chances(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return cumulative(self.mdp.initial), cumulative(self.mdp.transitions)  # [S], [H, S, A, S]


def online_users(mdp: TabularMDP, n: int, seed: int, *, random_rewards: bool = False) -> OnlineUsers:
    """``n`` users of a process, their seeds drawn from one; fewer users are the first of more."""
    n = public_size(n, "n")
    try:
        seeds = np.random.SeedSequence(seed).generate_state(n, np.uint64)
    except (TypeError, ValueError) as error:
        what = f"seed {seed!r}: {error}"
        raise InvalidParameter(what, where="seed", remedy="give a whole number >= 0") from None
    return OnlineUsers(mdp, seeds.astype(np.uint64), random_rewards=random_rewards)


def constant_user(mdp: TabularMDP, state: int, *, reward: float | None = None) -> User:
    """A user who is in one state always, whatever is done; rewards are the public ones, or all alike."""
    shape = mdp.rewards.shape
    return User(state, np.full(shape, state), mdp.rewards if reward is None else np.full(shape, reward))


def _fits(user: User, mdp: TabularMDP) -> bool:
    first, following, rewards = user
    if following.shape != mdp.rewards.shape or rewards.shape != mdp.rewards.shape:
        return False
    states = np.append(following, first)
    in_range = (states >= 0).all() and (states < mdp.n_states).all()
    return bool(states.dtype.kind in "iu" and in_range and ((rewards >= 0.0) & (rewards <= 1.0)).all())
