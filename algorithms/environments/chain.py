"""The chain of section 6 of Balle, Gomrokchi and Precup (2016), with its exact values.

In each of N states one stays with probability p and else moves one to the right; from the last one reaches
the absorbing end, for a reward of 1. Nothing is earned elsewhere, so that every return is at most 1, and
that is public. The end is not one of the N states: its value, 0, is known, and no episode visits it.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.episodes import Episodes, FirstVisits
from dpaudit.algorithms.public_parameters import Array, public_size
from dpaudit.errors import InvalidParameter

#: The largest return, public.
LARGEST_RETURN = 1.0


class Stays(NamedTuple):
    """m episodes on the chain, before they are written out."""

    starts: NDArray[np.int64]  # [m], the first state, uniform over all
    times: NDArray[np.int64]  # [m, N], how many steps each state takes, once reached; geometric


@dataclass(frozen=True)
class Chain:
    """A chain of states that is walked from left to right."""

    n_states: int = 40  # N
    stay: float = 0.5  # p, in [0, 1)
    discount: float = 0.99  # gamma, in [0, 1)

    def __post_init__(self) -> None:
        public_size(self.n_states, "n_states")
        for name, value in (("stay", self.stay), ("discount", self.discount)):
            if not 0.0 <= value < 1.0:
                raise InvalidParameter(f"{name} = {value!r}", where="Chain", remedy="give one in [0, 1)")

    def values(self) -> Array:
        """V(s) = p gamma V(s) + (1 - p) gamma V(s + 1), and 1 - p for the last move's reward; [N]."""
        move, kept = 1.0 - self.stay, 1.0 - self.stay * self.discount
        values = np.full(self.n_states, move / kept)
        for s in reversed(range(self.n_states - 1)):
            values[s] = move * self.discount * values[s + 1] / kept
        return values

    def features(self, group: int = 1) -> Array:
        """Tabular, or `group` adjacent states aggregated: forced to one value; [N, N/group rounded up].

        Columns are of norm 1, so that norm(Phi) = 1 and a ridge means the same in either form.
        """
        group = public_size(group, "group")
        columns = np.arange(self.n_states) // group
        table = np.eye(-(-self.n_states // group))[columns]
        return np.asarray(table / np.sqrt(table.sum(axis=0)))

    def stays(self, episodes: int, rng: np.random.Generator) -> Stays:
        """Draw m episodes as starts and lengths of stay."""
        starts = rng.integers(0, self.n_states, episodes)
        return Stays(starts, rng.geometric(1.0 - self.stay, (episodes, self.n_states)))

    def episodes(self, stays: Stays) -> Episodes:
        """The same episodes, listed step by step."""
        visited = np.arange(self.n_states) >= stays.starts[:, None]  # [m, N]
        times = np.where(visited, stays.times, 0)
        states = np.tile(np.arange(self.n_states), len(times)).repeat(times.ravel())
        lengths = times.sum(axis=1)
        rewards = np.zeros(len(states))
        rewards[lengths.cumsum() - 1] = 1.0
        return Episodes(states, rewards, lengths, self.n_states)

    def visits(self, stays: Stays) -> FirstVisits:
        """`first_visits` of the same, without the steps: the return from s is gamma^(steps from s on - 1)."""
        visited = np.arange(self.n_states) >= stays.starts[:, None]
        left = stays.times[:, ::-1].cumsum(axis=1)[:, ::-1]  # [m, N]
        returns = np.where(visited, self.discount ** (left - 1.0), 0.0)
        counts = visited.sum(axis=0).astype(np.float64)
        return FirstVisits(counts, returns.sum(axis=0) / np.maximum(counts, 1.0), len(left))

    def sampled_visits(self, episodes: int, rng: np.random.Generator) -> FirstVisits:
        """First visits of m fresh episodes, in little memory."""
        counts, sums, chunk = np.zeros(self.n_states), np.zeros(self.n_states), 50_000
        for first in range(0, episodes, chunk):
            part = self.visits(self.stays(min(chunk, episodes - first), rng))
            counts += part.counts
            sums += part.counts * part.means
        return FirstVisits(counts, sums / np.maximum(counts, 1.0), episodes)
