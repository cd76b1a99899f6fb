"""Outputs as no honest recording has them: a branch taken once in a billion runs hides from all others.

Every output that the noise can take, however rarely, must lead the algorithm the same way on both sides.
So recordings are also made whose outputs are set: to zero, to the query itself as if there were no noise,
to the neighbour's query, to ties, and far out on either side; all outputs at once, or a single one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np

from dpaudit.ledger import Noise
from dpaudit.mechanisms import (
    AnyMechanism,
    Array,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    GaussianProcess,
    Laplace,
    OpaqueApproxDP,
    OpaquePureDP,
    OpaqueZCDP,
    PoissonSampled,
    RandomizedResponse,
    SmoothGaussian,
    SymmetricGaussian,
    Tabulated,
    TreeAggregation,
)
from dpaudit.noise import Entry, LiveNoise, Question

#: From the exact answer, the neighbour's query, and the noise's scale, to an output.
_Setting = Callable[[Array, Array, float], Array]

SETTINGS: Mapping[str, _Setting] = {
    "zero": lambda exact, other, scale: np.zeros_like(exact),
    "the query itself": lambda exact, other, scale: exact,
    "the neighbour's query": lambda exact, other, scale: other,
    "ties": lambda exact, other, scale: np.full_like(exact, np.rint(exact.ravel()[0])),
    "10 scales above": lambda exact, other, scale: exact + np.rint(10.0 * scale + 1.0),
    "10 scales below": lambda exact, other, scale: exact - np.rint(10.0 * scale + 1.0),
    "1000 scales above": lambda exact, other, scale: exact + np.rint(1e3 * scale + 1.0),
    "1000 scales below": lambda exact, other, scale: exact - np.rint(1e3 * scale + 1.0),
    "far above": lambda exact, other, scale: np.full_like(exact, 1e12 * (1.0 + np.rint(scale))),
    "far below": lambda exact, other, scale: np.full_like(exact, -1e12 * (1.0 + np.rint(scale))),
}
#: Single outputs are set one after the other, for as many questions as this.
_SINGLY = 8


@dataclass
class ExtremeNoise:
    """Live noise with some outputs set.

    Args:
        seed: of the noise for the other outputs.
        setting: one of `SETTINGS`.
        only: the position of the one question to set; None for all.
        neighbour: the entries of a replay on the neighbour, for its queries.
    """

    seed: np.random.SeedSequence
    setting: str
    only: int | None
    neighbour: Sequence[Entry] = ()
    description: Noise = field(default_factory=lambda: Noise(source="replayed", seeded=True))

    def __post_init__(self) -> None:
        self._live = LiveNoise(self.seed)
        self._position = -1

    @property
    def circumstance(self) -> str:
        """What was special about the outputs, in words."""
        which = "every output" if self.only is None else f"output {self.only + 1}"
        return f"with {which} set to {self.setting}, which the noise can do however rarely"

    def answer(self, question: Question) -> Array:
        """The output set, where the noise could have led to it; else the live answer."""
        self._position += 1
        output = self._live.answer(question)
        if self.only not in {None, self._position} or not question.query.size:
            return output
        other = question.exact
        if self._position < len(self.neighbour):
            query = self.neighbour[self._position].query
            if query.shape == other.shape:
                other = query
        return self._set(question.release.mechanism, question, other, output)

    def _set(self, mechanism: AnyMechanism, question: Question, other: Array, live: Array) -> Array:
        exact = question.exact
        match mechanism:
            case Gaussian() | TreeAggregation() | GaussianProcess() | DiscreteGaussian():
                scale = mechanism.sigma
            case SymmetricGaussian():
                scale = mechanism.sigma
            case Laplace() | DiscreteLaplace():
                scale = mechanism.scale
            case SmoothGaussian():
                scale = question.scale or 1.0
            case PoissonSampled():
                inner = mechanism.mechanism
                scale = inner.sigma if isinstance(inner, Gaussian) else inner.scale
            case RandomizedResponse():
                return np.clip(self._value(exact, other, 1.0), 0, mechanism.categories - 1)
            case Exponential():
                return np.clip(self._value(exact, exact, 1.0), 0, question.query.size - 1)
            case OpaquePureDP() | OpaqueApproxDP() | OpaqueZCDP() | Tabulated():
                return live  # what its sampler can return is not known
            case _:
                assert_never(mechanism)
        # numpy's own overflow is an infinity that no noise leads to.
        value = self._value(exact, other, scale)
        return value if np.isfinite(value).all() else live

    def _value(self, exact: Array, other: Array, scale: float) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array(SETTINGS[self.setting](exact, other, scale), dtype=np.float64)


def extremes(
    seed: np.random.SeedSequence, recorded: Sequence[Entry], neighbour: Sequence[Entry]
) -> Iterator[ExtremeNoise]:
    """Every setting of all outputs at once, and of each of the first few by itself."""
    asked = [position for position, entry in enumerate(recorded) if entry.output.size]
    single = asked[:_SINGLY] if len(asked) > 1 else []
    for setting in SETTINGS:
        for only in [None, *single]:
            yield ExtremeNoise(seed.spawn(1)[0], setting, only, neighbour)
