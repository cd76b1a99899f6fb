"""Mechanisms on samples whose size is bounded: of one size always, or Poisson samples that are cut."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.base import ONE, Array, fields
from dpaudit.mechanisms.samples import subsets
from dpaudit.mechanisms.samples.sampled import OnSample
from dpaudit.models import Count, Share
from dpaudit.noise.randomness import Randomness


class FixedSizeSampled(OnSample):
    """`mechanism` on a sum over `size` of the units, every choice of so many of them equally likely.

    Obligation: who was sampled stays secret; the inner sensitivity bounds the change of the sum when one
    sampled unit is replaced by any other, under every relation: rows of norm at most C move it by 2 C. An
    inner mechanism that adds no noise to a sum has its guarantee for that change. `units` is the number of
    units; where the relation adds or removes one, no data set that is considered has fewer. A replaced unit:
    the curve delta'(log(1 + q (e^epsilon - 1))) = q delta(epsilon), q = size/units (Balle, Barthe and
    Gaboardi 2018, Theorem 9). A unit added or removed: the mixture with weight q (Zhu, Dong and Wang 2022,
    Theorem 11). A unit that leaves the sample makes room for another, so that its cost does not depend on
    `contribution`, the norm of a unit's own part; but one that is zeroed keeps its place: then the larger of
    both counts.
    """

    swaps = True
    beside_cost: ClassVar[Mapping[str, Any]] = {"contribution": None}

    example = fields(
        size=10, units=1000, mechanism={"kind": "gaussian", "sigma": 2.0, "sensitivity": ONE["l2"]}
    )

    kind: Literal["fixed-size-sampled"] = "fixed-size-sampled"
    size: Count
    units: Count

    @property
    def most_likely(self) -> float:
        """The next double above size/units, at most 1."""
        return float(np.nextafter(self.size / self.units, 1.0))

    def dominating_pair(self) -> dominating.Batch:
        """The inner pair of a replaced unit, sampled."""
        return dominating.Batch(*self.inner_pairs(), self.most_likely, fixed=True)

    def chosen(self, count: int, randomness: Randomness) -> NDArray[np.bool_]:
        """A random subset of the fixed size."""
        return randomness.subset(count, self.size)

    def sizes(self, count: int) -> Array:
        """The fixed size has probability 1, every other size 0."""
        return np.where(np.arange(count + 1) == self.size, 0.0, -np.inf)

    def require_units(self, count: int, where: str, *, known: bool) -> None:
        """As many units as `units`, or more where neighbours differ in their number."""
        if count < self.units or (known and count > self.units):
            raise _wrong_number(fewer=count < self.units, units=self.units, where=where)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.size > self.units:
            what = f"samples of {self.size} out of {self.units} units"
            raise InvalidParameter(what, where="FixedSizeSampled.size", remedy="give a size up to `units`")
        return self


class TruncatedPoissonSampled(OnSample):
    """`mechanism` on a sum over a Poisson sample, of which `most` are kept where there are more.

    Each unit is in the Poisson sample with probability `rate`, and every choice of those who are kept is
    equally likely.

    Obligation: who was sampled stays secret; the inner sensitivity bounds the change of the sum when one
    sampled unit is replaced by any other, under every relation, and `contribution` that when one is taken
    out. Neither bounds the other: rows between 1 and 2 have the sensitivity 1 and the contribution 2, rows of
    norm at most 1 have 2 and 1. A unit that is zeroed keeps its place: then the larger of both counts. Where
    `contribution` is left out, the sensitivity bounds both. An inner mechanism that adds no noise to a sum
    has its guarantee for both changes. `units` is the number of units;
    where the relation adds or removes one, no data set that is considered has more. However many others are
    drawn, the sample is a Poisson sample or one of fixed size (Balle, Barthe and Gaboardi 2018; the mechanism
    is that of Chua et al. 2024).
    """

    swaps = True

    example = fields(
        rate=0.01, most=30, units=1000, mechanism={"kind": "gaussian", "sigma": 2.0, "sensitivity": ONE["l2"]}
    )

    kind: Literal["truncated-poisson-sampled"] = "truncated-poisson-sampled"
    rate: Share
    most: Count
    units: Count

    @property
    def most_likely(self) -> float:
        """The sampling rate, which truncating never raises."""
        return self.rate

    def dominating_pair(self) -> dominating.Batch:
        """The inner pairs, sampled."""
        most = None if self.most >= self.units else self.most
        return dominating.Batch(*self.inner_pairs(), self.rate, most=most, units=self.units)

    def chosen(self, count: int, randomness: Randomness) -> NDArray[np.bool_]:
        """Independent coins, then a subset of those that they chose."""
        chosen = randomness.coins(count, self.rate)
        drawn = np.flatnonzero(chosen)
        if len(drawn) > self.most:
            chosen[drawn[~randomness.subset(len(drawn), self.most)]] = False
        return chosen

    def sizes(self, count: int) -> Array:
        """Binomial, and what exceeds the largest size counts there."""
        found = subsets.log_binomial(count, self.rate)
        if count > self.most:
            found[self.most] = np.logaddexp.reduce(found[self.most :])
            found[self.most + 1 :] = -np.inf
        return found

    def require_units(self, count: int, where: str, *, known: bool) -> None:
        """As many units as `units`, or fewer where neighbours differ in their number."""
        if count > self.units or (known and count < self.units):
            raise _wrong_number(fewer=count < self.units, units=self.units, where=where)


def _wrong_number(*, fewer: bool, units: int, where: str) -> InvalidParameter:
    what = f"{'fewer' if fewer else 'more'} units than the {units} that the mechanism states"
    return InvalidParameter(what, where=where, remedy="state the number of units, or a bound, in `units`")
