"""What a paper says of its figure, judged on runs: a mean with its interval, an answer with its numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Appears: TypeAlias = Literal["yes", "no", "not told apart"]


@dataclass(frozen=True)
class Estimate:
    """A mean over runs and its 95% confidence interval; without an interval for a single run."""

    mean: float
    half_width: float
    runs: int

    def __str__(self) -> str:
        """With its half width where there is one."""
        return (
            f"{self.mean:.2f}" if math.isnan(self.half_width) else f"{self.mean:.2f} ± {self.half_width:.2f}"
        )


@dataclass(frozen=True)
class Sentence:
    """One sentence of the paper's, whether the data have it, and the numbers.

    Attributes:
        published: what the paper says.
        about: the curves it is judged on.
        appears: the answer.
        numbers: what it follows from.
    """

    published: str
    about: str
    appears: Appears
    numbers: str


def estimate(values: NDArray[np.float64]) -> Estimate:
    """Mean and Student's 95% interval of independent runs."""
    n = len(values)
    if n < 2:
        return Estimate(float(values.mean()), math.nan, n)
    half_width = float(stdtrit(n - 1, 0.975) * values.std(ddof=1) / math.sqrt(n))
    return Estimate(float(values.mean()), half_width, n)


def above_zero(difference: Estimate) -> Appears:
    """Whether a difference is above 0; of a single run nobody can tell."""
    if abs(difference.mean) > difference.half_width:
        return "yes" if difference.mean > 0.0 else "no"
    return "not told apart"
