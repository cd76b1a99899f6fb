"""A privacy curve as points, readable without an accountant, and the trade-off that it implies."""

import itertools
import math
from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import Field, model_validator

from dpaudit.certificate.verdicts import Probability
from dpaudit.claims.bounds import Rigour
from dpaudit.errors import InvalidParameter
from dpaudit.models import Model, NonNegative

#: The least number of points of a curve.
LEAST_POINTS = 20


class CurvePoints(Model):
    """Points (epsilon, delta) of one accountant's upper bound, by increasing epsilon; delta never grows."""

    method: str
    rigour: Rigour
    points: Annotated[tuple[tuple[NonNegative, Probability], ...], Field(min_length=LEAST_POINTS)]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for (epsilon, delta), (further, less) in itertools.pairwise(self.points):
            if further <= epsilon or less > delta:
                what = f"({further!r}, {less!r}) after ({epsilon!r}, {delta!r})"
                where, why = f"curve by {self.method}", "delta never grows with epsilon"
                raise InvalidParameter(what, where=where, why=why, remedy="order the points by epsilon")
        return self


def trade_off(points: Iterable[tuple[float, float]], alpha: float) -> float:
    """Return the least rate of misses of a test with rate of false alarms `alpha`, given the curve.

    It is the largest of 1 - delta - e^epsilon alpha and e^-epsilon (1 - delta - alpha) over the points, and 0
    (Kairouz, Oh and Viswanath 2015; Dong, Roth and Su 2022, equation (5)).

    >>> trade_off([(0.0, 0.25)], 0.25)
    0.5
    """
    best = 0.0
    for epsilon, delta in points:
        if epsilon <= 700.0:  # beyond it e^epsilon overflows
            factor = math.exp(epsilon)
            best = max(best, 1.0 - delta - factor * alpha, (1.0 - delta - alpha) / factor)
    return best
