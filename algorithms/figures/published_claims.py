"""A paper's statements about its figure, judged from runs: means with intervals, answers with numbers.

Every answer comes from 95% confidence intervals, never from means alone: which of two curves is better only
where the interval of their difference excludes 0 by more than rounding, and that they are close only where it
lies within what counts as close on both sides. The interval is of the differences of runs with the same seed,
and so on the same data or users.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

Appears: TypeAlias = Literal["yes", "no", "not told apart"]
Vector: TypeAlias = NDArray[np.float64]

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Estimate:
    """A mean over runs and its 95% confidence interval; of a single run the half width is NaN.

    `rounding` is by how much the runs' own rounding may have moved the mean.
    """

    mean: float
    half_width: float
    runs: int
    rounding: float = 0.0

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + ("" if math.isnan(self.half_width) else f" ± {self.half_width:.2f}")


@dataclass(frozen=True)
class Sentence:
    """A sentence of the paper, judged on some of its curves."""

    published: str  # what the paper says
    about: str  # the curves it is judged on
    appears: Appears  # whether these runs show it
    numbers: str  # from which the answer follows


class Table(Generic[K]):
    """One quantity of finished runs by curve, place and seed, every curve at the same places and seeds."""

    def __init__(self, values: Mapping[tuple[K, float, int], float]) -> None:
        self._values = values
        self.curves = list(dict.fromkeys(curve for curve, _, _ in values))
        self.places = sorted({place for _, place, _ in values})
        self.seeds = sorted({seed for _, _, seed in values})

    def at(self, curve: K, place: float | None = None) -> Vector:
        """The values of a curve at a place, by default the last; [runs]."""
        place = self.places[-1] if place is None else place
        return np.array([self._values[curve, place, seed] for seed in self.seeds])

    def over(self, curve: K) -> Vector:
        """The values of a curve; [places, runs]."""
        return np.array([self.at(curve, place) for place in self.places])

    def estimate(self, curve: K, place: float | None = None) -> Estimate:
        """The mean over the runs at a place, by default the last."""
        return estimate(self.at(curve, place))

    def gap(self, curve: K, other: K, place: float | None = None) -> Estimate:
        """How far a curve lies above another one at a place, by default the last."""
        return difference(self.at(curve, place), self.at(other, place))

    def average_gap(self, curve: K, other: K) -> Estimate:
        """How far a curve lies above another one on average over all places."""
        return difference(self.over(curve).mean(axis=0), self.over(other).mean(axis=0))


def table(points: Iterable[Any], measured: str, place: str = "episode") -> Table[Any]:
    """One number of finished points by curve, place and seed; each point has these as fields."""
    return Table({(p.curve, getattr(p, place), p.seed): getattr(p, measured) for p in points})


#: A part of a measurement, far above what its rounding changes and far below what a figure shows.
_ROUNDING: Final = 1e-9


def estimate(values: Vector, size: float = 0.0) -> Estimate:
    """Mean and Student's 95% interval of independent runs, computed from numbers up to a size."""
    n, mean = len(values), float(values.mean())
    rounding = _ROUNDING * max(size, float(np.abs(values).max()))
    if n < 2:
        return Estimate(mean, math.nan, n, rounding)
    half = float(scipy.special.stdtrit(n - 1, 0.975) * values.std(ddof=1) / math.sqrt(n))
    return Estimate(mean, half, n, rounding)


def difference(values: Vector, others: Vector) -> Estimate:
    """How far some runs' values lie above others', run by run."""
    return estimate(values - others, max(float(np.abs(values).max()), float(np.abs(others).max())))


def above(limit: float, found: Estimate) -> Appears:
    """Whether a mean is above a limit: by its whole interval, which a single run does not have."""
    if abs(found.mean - limit) > found.half_width + found.rounding:
        return "yes" if found.mean > limit else "no"
    return "not told apart"


def above_zero(found: Estimate) -> Appears:
    """Whether a difference is above 0."""
    return above(0.0, found)


def below(allowed: float, found: Estimate) -> Appears:
    """Whether a mean is below what is allowed, however far."""
    return above(-allowed, replace(found, mean=-found.mean))


def close_to_zero(allowed: float, found: Estimate) -> Appears:
    """Whether a difference is within what is allowed on both sides: neither much worse nor much better."""
    return below(allowed, replace(found, mean=abs(found.mean)))


def all_of(answers: Iterable[Appears]) -> Appears:
    """Whether several things appear together: one that does not is enough for no."""
    told = set(answers)
    return "no" if "no" in told else "not told apart" if "not told apart" in told or not told else "yes"


def most_of(answers: Sequence[Appears]) -> Appears:
    """Whether more than half of several things appear, whatever those are that are not told apart."""
    if 2 * answers.count("yes") > len(answers):
        return "yes"
    return "no" if 2 * answers.count("no") >= len(answers) else "not told apart"


def converges(allowed: float, gaps: Sequence[Estimate], first: Vector, last: Vector) -> Appears:
    """Whether a difference comes close to 0: at the last two places, and closer than where it began.

    `gaps` are the differences at all places in order; `first` and `last` are those of the runs at both ends.
    A single place shows no trend.
    """
    if len(gaps) < 2:
        return "not told apart"
    near = [close_to_zero(allowed, gap) for gap in gaps]
    if all(answer == "yes" for answer in near):  # from the beginning, and it stays so
        return "yes"
    begun, left = (math.copysign(1.0, gap.mean) * run for gap, run in ((gaps[0], first), (gaps[-1], last)))
    return all_of([*near[-2:], above_zero(difference(begun, left))])


def larger(published: str, about: str, difference: Estimate, word: str) -> Sentence:
    """The sentence that something is larger than something else, from by how much it is."""
    return Sentence(published, about, above_zero(difference), f"{difference} {word}")


def overview(judged: Sequence[Sentence]) -> str:
    """For each sentence of the paper, in how many of the places where it was judged it appears."""
    parts = []
    for published in dict.fromkeys(sentence.published for sentence in judged):
        answers = [sentence.appears for sentence in judged if sentence.published == published]
        unclear = answers.count("not told apart")
        words = f'"{published}" appears in {answers.count("yes")} of {len(answers)}'
        parts.append(words + (f", not told apart in {unclear}" if unclear else ""))
    return f"Of what the paper says: {'; '.join(parts)}."
