"""Mechanisms on samples of bounded size: samples of fixed size, and truncated Poisson samples."""

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
    """`mechanism` on a sum over a uniform random subset of `size` units.

    Obligation: the sample stays secret; the inner sensitivity bounds the change of the sum when one sampled
    unit is replaced by any other, under every relation: rows of norm at most C change it by up to 2 C. An
    inner mechanism that adds no noise to a sum must have its guarantee for that change. `units` is the number
    of units; if the relation adds or removes a unit, it is the least number of units of any data set.
    With q = size/units, a replaced unit has the curve delta'(log(1 + q (e^epsilon - 1))) = q delta(epsilon)
    (Balle, Barthe and Gaboardi 2018, Theorem 9). A unit that is added or removed has the mixture with weight
    q (Zhu, Dong and Wang 2022, Theorem 11). Another unit takes the place of a unit that leaves the sample, so
    the cost does not depend on `contribution`, the norm of a unit's own part. A zeroed unit keeps its place;
    the larger of sensitivity and contribution then counts.
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
        """The next double above size/units, or 1."""
        return float(np.nextafter(self.size / self.units, 1.0))

    def dominating_pair(self) -> dominating.Batch:
        """Return the inner pairs on a sample of fixed size."""
        return dominating.Batch(*self.inner_pairs(), self.most_likely, fixed=True)

    def chosen(self, count: int, randomness: Randomness) -> NDArray[np.bool_]:
        """Draw a random subset of the fixed size."""
        return randomness.subset(count, self.size)

    def sizes(self, count: int) -> Array:
        """Return log probability 0 for the fixed size, and -inf for every other size."""
        return np.where(np.arange(count + 1) == self.size, 0.0, -np.inf)

    def require_units(self, count: int, where: str, *, known: bool) -> None:
        """Require `units` units, or more if neighbours differ in their number of units."""
        if count < self.units or (known and count > self.units):
            raise _wrong_number(fewer=count < self.units, units=self.units, where=where)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.size > self.units:
            what = f"samples of {self.size} out of {self.units} units"
            raise InvalidParameter(what, where="FixedSizeSampled.size", remedy="give a size up to `units`")
        return self


class TruncatedPoissonSampled(OnSample):
    """`mechanism` on a sum over a Poisson sample, truncated to at most `most` units.

    Each unit is in the Poisson sample with probability `rate`; a larger sample is reduced to a uniform random
    subset of `most` units.

    Obligation: the sample stays secret; the inner sensitivity bounds the change of the sum when one sampled
    unit is replaced by any other, under every relation, and `contribution` bounds the change when one is
    removed. Neither bounds the other: rows between 1 and 2 have sensitivity 1 and contribution 2, rows of
    norm at most 1 have sensitivity 2 and contribution 1. A zeroed unit keeps its place; the larger of both
    then counts. Without `contribution` the sensitivity bounds both. An inner mechanism that adds no noise to
    a sum must have its guarantee for both changes. `units` is the number of units; if the relation adds or
    removes a unit, it is the largest number of units of any data set.
    For any number of other drawn units, the sample is a Poisson sample or a sample of fixed size (Balle,
    Barthe and Gaboardi 2018; Chua et al. 2024 define the mechanism).
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
        """The sampling rate, which truncation never raises."""
        return self.rate

    def dominating_pair(self) -> dominating.Batch:
        """Return the inner pairs on a truncated Poisson sample."""
        most = None if self.most >= self.units else self.most
        return dominating.Batch(*self.inner_pairs(), self.rate, most=most, units=self.units)

    def chosen(self, count: int, randomness: Randomness) -> NDArray[np.bool_]:
        """Draw independent coins, then a random subset of the chosen units if there are too many."""
        chosen = randomness.coins(count, self.rate)
        drawn = np.flatnonzero(chosen)
        if len(drawn) > self.most:
            chosen[drawn[~randomness.subset(len(drawn), self.most)]] = False
        return chosen

    def sizes(self, count: int) -> Array:
        """Return binomial log probabilities, with all larger sizes counted at `most`."""
        found = subsets.log_binomial(count, self.rate)
        if count > self.most:
            found[self.most] = np.logaddexp.reduce(found[self.most :])
            found[self.most + 1 :] = -np.inf
        return found

    def require_units(self, count: int, where: str, *, known: bool) -> None:
        """Require `units` units, or fewer if neighbours differ in their number of units."""
        if count > self.units or (known and count < self.units):
            raise _wrong_number(fewer=count < self.units, units=self.units, where=where)


def _wrong_number(*, fewer: bool, units: int, where: str) -> InvalidParameter:
    what = f"{'fewer' if fewer else 'more'} units than the {units} that the mechanism states"
    return InvalidParameter(what, where=where, remedy="state the number of units, or a bound, in `units`")
