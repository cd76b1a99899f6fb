"""Noisy prefix sums of a stream, by a binary tree of noisy partial sums."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, Protocol

import numpy as np

from dpaudit.claims.sensitivity import Norm
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.additive import normal_log_density, symmetric_log_density
from dpaudit.mechanisms.base import (
    ONE,
    Answer,
    Array,
    GaussianNoise,
    Move,
    Queries,
    distance,
    fields,
    residual,
    sum_of_squares,
)
from dpaudit.models import Count
from dpaudit.noise.grid import OnGrid, to_doubles
from dpaudit.noise.randomness import OF_NOISE, Randomness


class RunningSums(Protocol):
    """A running stream: its items so far, and their sums with and without noise."""

    taken: int

    def push(self, item: Array | OnGrid) -> None:
        """Add the next item; raises `InvalidParameter` if all steps are used."""

    def exact(self) -> Array:
        """Return the sum of the items so far."""

    def noisy(self, randomness: Randomness) -> Array:
        """Return the noisy sum of the items so far; call it once after each `push`."""


class StreamMechanism(GaussianNoise):
    """Noisy prefix sums of up to `steps` items: `Curator.stream` accepts every subclass."""

    released_by = "stream"
    drawn_exactly = True

    steps: Count

    @abstractmethod
    def running(self, shape: tuple[int, ...]) -> RunningSums:
        """Return an empty stream for items of this shape."""

    def answering(self) -> Callable[..., Array]:
        """Return the sampler of one release; it keeps one stream and adds each item to it."""
        streams: list[RunningSums] = []

        def answer(item: Array | OnGrid, randomness: Randomness) -> Array:
            sums = streams[0] if streams else self.running(item.shape)
            streams[:] = [sums]
            sums.push(item)
            return sums.noisy(randomness)

        return answer

    @abstractmethod
    def noise_in(self, outputs: Array, items: Array) -> Array:
        """Return the independent noise in the noisy sums after 1, ..., t items [t, ...], given the items."""

    @abstractmethod
    def log_density(self, outputs: Array, items: Array) -> float:
        """Return the log density of the noisy prefix sums [t, ...] of items 1, ..., t, given the items."""

    def log_likelihood(self, answers: Sequence[Answer], queries: Queries) -> float:
        """Return the joint log density of all prefix sums."""
        if len(answers) == 1:  # a stream without items
            return 0.0
        return self.log_density(
            np.stack([answer.output for answer in answers[1:]]),
            np.stack([asked.query for asked in queries[1:]]),
        )


class TreeAggregation(StreamMechanism):
    """Every prefix sum of up to `steps` items, with Gaussian noise `sigma` on each node of a tree.

    With an ``l2`` sensitivity a node's noise is independent on every entry. With a ``frobenius``
    sensitivity the items are symmetric matrices and a node's noise is the noise of `SymmetricGaussian`.

    Obligation: between neighbouring data sets the items' changes, each measured in the sensitivity's
    norm, add up to at most the sensitivity (if only one item differs, its change is at most the sensitivity).
    An item is in at most floor(log2 steps) + 1 nodes, so the release is GDP with
    mu^2 = (floor(log2 steps) + 1) (sensitivity/sigma)^2, also if items depend on earlier outputs (Dwork,
    Naor, Pitassi and Rothblum 2010; Chan, Shi and Song 2011; Gaussian composition: Dong, Roth, Su 2022,
    Corollary 3.3).
    """

    condition = "stream-places"
    norms: ClassVar[tuple[Norm, ...]] = ("l2", "frobenius")

    example = fields(sigma=2.0, steps=100, sensitivity=ONE["l2"])

    kind: Literal["tree-aggregation"] = "tree-aggregation"

    @property
    def levels(self) -> int:
        """The largest number of nodes that contain one item: floor(log2 steps) + 1."""
        return self.steps.bit_length()

    def dominating_pair(self) -> dominating.Gaussian:
        """Return one Gaussian pair for each node that contains an item."""
        return dominating.Gaussian(self.ratio(self.sigma), self.levels)

    def sample_node(self, node: Array | OnGrid, randomness: Randomness) -> Array:
        """Return a node's sum, of an item's shape, plus its noise."""
        return (randomness.symmetric if self.norm == "frobenius" else randomness.gaussian)(node, self.sigma)

    def running(self, shape: tuple[int, ...]) -> "Tree":
        """Return an empty stream for items of this shape."""
        return Tree(self, shape)

    def noise_in(self, outputs: Array, items: Array) -> Array:
        """Return the noise of each item's new node."""
        return _new_nodes(residual(outputs, np.cumsum(items, axis=0)))

    def log_density(self, outputs: Array, items: Array) -> float:
        """As `StreamMechanism.log_density`."""
        nodes = self.noise_in(outputs, items)
        if self.norm == "frobenius":
            return symmetric_log_density(nodes, self.sigma)
        return normal_log_density(nodes, self.sigma)

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """Return the sum of the items' distances."""
        items = zip(one[1:], other[1:], strict=True)
        moved = sum(distance(self.norm, a.query - b.query) for a, b in items)
        return [Move(moved, self.sensitivity.value, f"in {self.norm}, over its items")]

    def gaussian_share(self, answers: Sequence[Answer], differences: Sequence[Array]) -> float:
        """Return the sum of the shares of all nodes."""
        if len(answers) == 1:
            return 0.0
        return sum_of_squares(_new_nodes(np.cumsum(np.stack(differences[1:]), axis=0)) / self.sigma)


def _new_nodes(prefixes: Array) -> Array:
    """Return, for each prefix sum [t, ...], the node that its last item completed."""
    # Prefix t is prefix t - lowbit(t) plus one new node.
    steps = np.arange(1, len(prefixes) + 1)
    padded = np.concatenate([np.zeros_like(prefixes[:1]), prefixes])
    return np.asarray(padded[1:] - padded[steps - (steps & -steps)])


class Tree:
    """The nodes of the next prefix sum: one per level, so memory grows with log steps."""

    def __init__(self, mechanism: TreeAggregation, shape: tuple[int, ...]) -> None:
        self._mechanism = mechanism
        self._shape = shape
        self._sums: list[Array] = []
        #: The same sums, exact if the noise is exact; and the noisy sums.
        self._totals: list[Array | OnGrid] = []
        self._noisy: list[Array] = []
        self._item: Array | OnGrid = np.zeros(shape)
        self._answered = 0
        self.taken = 0

    def push(self, item: Array | OnGrid) -> None:
        """Add the next item; it completes one node together with the full nodes below.

        Raises:
            InvalidParameter: all steps are used.
        """
        if self.taken == self._mechanism.steps:
            raise InvalidParameter(f"item {self.taken + 1} of {self.taken}", where="steps")
        self.taken += 1
        self._item = item
        level = self._closed_level()
        node = to_doubles(item) + sum(self._sums[:level], np.zeros(self._shape))
        if level == len(self._sums):
            self._sums.append(node)
        else:
            self._sums[level] = node

    def exact(self) -> Array:
        """Return the sum of the items so far."""
        return sum((self._sums[level] for level in self._levels()), np.zeros(self._shape))

    def noisy(self, randomness: Randomness) -> Array:
        """Return the noisy sum of the items so far: new noise for the completed node, old noise for others.

        Call it once after each `push`. The sum is a function of the noisy nodes only.

        Raises:
            InvalidParameter: the item is too large for the noise, or an earlier item got no noise.
        """
        if self._answered != self.taken - 1:
            why = "a later sum needs a node that was never drawn"
            what, remedy = f"item {self.taken} after one without an answer", "start another stream"
            raise InvalidParameter(what, where=OF_NOISE, why=why, remedy=remedy)
        level = self._closed_level()
        total = randomness.total(self._item, *self._totals[:level])
        self._totals[level : level + 1] = [total]
        self._noisy[level : level + 1] = [self._mechanism.sample_node(total, randomness)]
        self._answered += 1
        return sum((self._noisy[level] for level in self._levels()), np.zeros(self._shape))

    def _closed_level(self) -> int:
        return (self.taken & -self.taken).bit_length() - 1

    def _levels(self) -> list[int]:
        """Return the levels of the nodes in the current prefix: the binary digits of its length."""
        return [level for level in range(self.taken.bit_length()) if self.taken >> level & 1]
