"""Episodes of any length under one fixed policy, and the first-visit returns that they give.

The neighbouring relation is replace-one with unit ``trajectory``: two data sets are neighbours when they have
the same number m of episodes and states N, and differ in at most one episode, of whatever length. N and m are
public. What a record may say is bounded by `first_visits`, which clips every return, never by refusing it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.algorithms.data.trajectories import Records, TrajectoryData
from dpaudit.algorithms.public_parameters import Array, public_size, set_read_only
from dpaudit.errors import DataError, InvalidParameter


class Episode(NamedTuple):
    """The record of one person."""

    states: NDArray[np.int64]  # [T] int, T >= 1
    rewards: Array  # [T] float; rewards[t] is what followed states[t]


@dataclass(frozen=True, eq=False)
class Episodes(Records):
    """m episodes over N states, one after the other; read-only once built.

    Raises `DataError`, for the data's holder alone, if the records are not of that shape.
    """

    states: NDArray[np.int64]  # [steps] int in 0..N-1, of all episodes
    rewards: Array  # [steps] finite floats
    lengths: NDArray[np.int64]  # [m] int >= 1, how many steps each episode has
    n_states: int  # N, public

    def __post_init__(self) -> None:
        n_states = public_size(self.n_states, "n_states")
        states, rewards, lengths = map(np.asarray, (self.states, self.rewards, self.lengths))
        if not (states.ndim == rewards.ndim == lengths.ndim == 1 and len(states) == len(rewards)):
            _refuse("states, rewards and lengths that are not vectors, or of different lengths")
        if any(array.dtype.kind not in kinds for array, kinds in ((states, "iu"), (rewards, "iuf"))):
            _refuse(f"states of type {states.dtype}, rewards of type {rewards.dtype}")
        if not lengths.size or lengths.dtype.kind not in "iu" or lengths.min() < 1:
            _refuse("no episodes, or one without steps")
        if int(lengths.sum()) != len(states):
            _refuse(f"{len(states)} steps, where the episodes' lengths add up to {lengths.sum()}")
        for name, wrong in (
            (f"a state that is not in 0..{n_states - 1}", (states < 0) | (states >= n_states)),
            ("a reward that is not a finite number", ~np.isfinite(rewards)),
        ):
            if wrong.any():
                step = int(wrong.argmax())
                _refuse(name, where=f"episode {int(np.searchsorted(lengths.cumsum(), step, side='right'))}")
        set_read_only(self, states=np.array(states, np.int64), rewards=np.array(rewards, np.float64))
        set_read_only(self, lengths=np.array(lengths, np.int64))
        object.__setattr__(self, "n_states", n_states)

    @classmethod
    def of(cls, episodes: Sequence[tuple[ArrayLike, ArrayLike]], n_states: int) -> Episodes:
        """From a list of (states [T], rewards [T])."""
        parts = [(np.asarray(states), np.asarray(rewards)) for states, rewards in episodes]
        if not parts or any(s.ndim != 1 or s.shape != r.shape for s, r in parts):
            _refuse("no episodes, or one whose states and rewards are not vectors of one length")
        states, rewards = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(states, rewards, np.array([len(s) for s, _ in parts]), n_states)

    @classmethod
    def of_trajectories(cls, data: TrajectoryData) -> Episodes:
        """Whole trajectories of one length; the state after the last action is no visit."""
        lengths = np.full(len(data), data.horizon)
        return cls(data.states[:, :-1].ravel(), data.rewards.ravel(), lengths, data.n_states)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Episode:
        begin, end = self._bounds(index)
        return Episode(self.states[begin:end], self.rewards[begin:end])

    def __iter__(self) -> Iterator[Episode]:
        ends = self.lengths.cumsum().tolist()
        for begin, end in itertools.pairwise([0, *ends]):
            yield Episode(self.states[begin:end], self.rewards[begin:end])

    def __repr__(self) -> str:
        # Public sizes only: how long the episodes are is private.
        return f"Episodes(m={len(self)}, n_states={self.n_states})"

    def replace(self, index: int, episode: tuple[ArrayLike, ArrayLike]) -> Episodes:
        """Return the neighbouring data set with another episode ``index``.

        Raises `InvalidParameter` if there is no such episode, `DataError` if the new one is none over these
        states.
        """
        begin, end = self._bounds(index)
        whole = Episodes.of([episode], self.n_states)
        lengths = self.lengths.copy()
        lengths[index] = len(whole.states)
        states = np.concatenate([self.states[:begin], whole.states, self.states[end:]])
        rewards = np.concatenate([self.rewards[:begin], whole.rewards, self.rewards[end:]])
        return Episodes(states, rewards, lengths, self.n_states)

    def _bounds(self, index: int) -> tuple[int, int]:
        if not 0 <= index < len(self):
            what, remedy = f"episode {index} of {len(self)}", f"give an index in 0..{len(self) - 1}"
            raise InvalidParameter(what, where="Episodes", why="there is no such record", remedy=remedy)
        end = int(self.lengths[: index + 1].sum())
        return end - int(self.lengths[index]), end


class FirstVisits(NamedTuple):
    """All that least squares needs of a data set; private."""

    counts: Array  # [N], |X_s|, how many episodes visit each state
    means: Array  # [N], F_X, the mean return from the first visits; 0 where there is none
    episodes: int  # m


def first_visits(data: Episodes, discount: float, largest_return: float) -> FirstVisits:
    """The first-visit Monte Carlo estimate (equation 4), with discount gamma in [0, 1].

    Every episode's return is clipped to [0, F_max], where F_max, the largest return, is public.
    """
    returns = _returns(data, discount)
    cells = np.repeat(np.arange(len(data)) * data.n_states, data.lengths) + data.states
    _, first = np.unique(cells, return_index=True)  # of each episode and state the earliest step
    visited = data.states[first]
    clipped = np.clip(returns[first], 0.0, largest_return)
    counts = np.bincount(visited, minlength=data.n_states).astype(np.float64)
    sums = np.bincount(visited, weights=clipped, minlength=data.n_states)
    # A mean of numbers in [0, F_max] is in it too, whatever rounding says.
    means = np.minimum(sums / np.maximum(counts, 1.0), largest_return)
    return FirstVisits(counts, means, len(data))


def _returns(data: Episodes, discount: float) -> Array:
    """The discounted sum of rewards from each step to its episode's end, [steps]."""
    returns = data.rewards.copy()
    ends = data.lengths.cumsum()  # [m], one past the last step
    longest_first = np.argsort(-data.lengths, kind="stable")
    ends, lengths = ends[longest_first], data.lengths[longest_first]
    # How many episodes are longer than j steps, for j = 0, 1, ...
    longer = len(lengths) - np.searchsorted(lengths[::-1], np.arange(int(lengths[0])), side="right")
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite return is clipped like any other
        for j, count in enumerate(longer.tolist()[1:], start=1):
            steps = ends[:count] - 1 - j
            returns[steps] += discount * returns[steps + 1]
    # Rewards of either sign past every double: no number, and no return above 0.
    return np.nan_to_num(returns, copy=False, nan=0.0, posinf=np.inf, neginf=-np.inf)


def _refuse(what: str, *, where: str = "episodes") -> None:
    remedy = "give one state and one finite reward a step, at least one step an episode, states 0..N-1"
    raise DataError(what, where=where, remedy=remedy)
