"""A paper's statements about its figure, judged from runs: means with intervals, answers with numbers.

Which of two curves is better is answered only where a 95% confidence interval excludes 0. The interval is of
the differences of runs with the same seed, and so on the same data or users.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

Appears: TypeAlias = Literal["yes", "no", "not told apart"]
Vector: TypeAlias = NDArray[np.float64]

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Estimate:
    """A mean over runs and its 95% confidence interval; of a single run the half width is NaN."""

    mean: float
    half_width: float
    runs: int

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
        return estimate(self.at(curve, place) - self.at(other, place))


def table(points: Iterable[Any], measured: str, place: str = "episode") -> Table[Any]:
    """One number of finished points by curve, place and seed; each point has these as fields."""
    return Table({(p.curve, getattr(p, place), p.seed): getattr(p, measured) for p in points})


def estimate(values: Vector) -> Estimate:
    """Mean and Student's 95% interval of independent runs."""
    n, mean = len(values), float(values.mean())
    if n < 2:
        return Estimate(mean, math.nan, n)
    return Estimate(mean, float(scipy.special.stdtrit(n - 1, 0.975) * values.std(ddof=1) / math.sqrt(n)), n)


def above_zero(difference: Estimate) -> Appears:
    """Whether a difference is above 0, which a single run cannot tell."""
    if abs(difference.mean) > difference.half_width:
        return "yes" if difference.mean > 0.0 else "no"
    return "not told apart"


def below(allowed: float, found: Estimate) -> Appears:
    """Whether a mean is below what is allowed."""
    return above_zero(replace(found, mean=allowed - found.mean))


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
