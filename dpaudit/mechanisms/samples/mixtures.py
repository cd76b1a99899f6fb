"""Gaussian noise on random contributions: mixtures, sampled records of a unit, random allocation."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.additive import Gaussian
from dpaudit.mechanisms.base import ONE, Answer, Array, Move, fields
from dpaudit.mechanisms.samples import subsets
from dpaudit.mechanisms.samples.sampled import HiddenSample, InTurns, SampledSum
from dpaudit.models import Count, NonNegative, Scale, Share
from dpaudit.noise.randomness import Randomness

_MOST_RECORDS = 1000


class MixtureOfGaussians(HiddenSample):
    """Gaussian noise `sigma` on a query that a unit shifts at random, by at most sensitivities[i].

    Obligation: without the unit the query is fixed; the unit shifts it by a random vector with L2 norm at
    most sensitivities[i] with probability probabilities[i], for any other units and earlier outputs; the draw
    stays secret. The pair with all shifts in one direction dominates in both orders (Choquette-Choo, Ganesh,
    Haque, Steinke and Thakurta 2024: mixtures of Gaussians). There is no bound under replace-one. Probability
    missing from 1, at most 1e-9, counts as the largest sensitivity.

    No curator runs it, because values and rows do not reveal the probabilities. It is for ledgers of runs
    elsewhere. dpaudit draws two special cases itself: `poisson-sampled` and `sampled-records`.
    """

    released_by = None
    noise_field = "sigma"

    example = fields(sigma=2.0, sensitivities=[0.0, 1.0, 2.0], probabilities=[0.9, 0.07, 0.03])

    kind: Literal["mixture-of-gaussians"] = "mixture-of-gaussians"
    sigma: Scale
    sensitivities: Annotated[tuple[NonNegative, ...], Field(min_length=1, max_length=4096)]
    probabilities: Annotated[tuple[NonNegative, ...], Field(min_length=1, max_length=4096)]

    @model_validator(mode="after")
    def _probabilities_fit(self) -> Self:
        given, total = len(self.probabilities), math.fsum(self.probabilities)
        if given != len(self.sensitivities) or abs(total - 1.0) > 1e-9:
            what = (
                f"{given} probabilities, which add up to {total}, for {len(self.sensitivities)} sensitivities"
            )
            remedy = "give one probability for each sensitivity, which add up to 1"
            raise InvalidParameter(what, where="MixtureOfGaussians", remedy=remedy)
        return self

    def dominating_pair(self) -> dominating.Mixture:
        """Return the shifts over sigma with their probabilities; an excess over 1 reduces small shifts."""
        rows: list[tuple[Fraction, Fraction]] = []
        left = Fraction(1)
        for value, probability in sorted(
            zip(self.sensitivities, self.probabilities, strict=True), reverse=True
        ):
            share = min(left, Fraction(probability))
            rows.append((Fraction(value) / Fraction(self.sigma), share))
            left -= share
        rows[0] = rows[0][0], rows[0][1] + left
        shifts, weights = zip(*rows, strict=True)
        return dominating.Mixture(shifts, weights)

    @property
    def most_likely(self) -> float:
        """The probability of a shift above 0."""
        pairs = zip(self.sensitivities, self.probabilities, strict=True)
        return min(1.0, math.fsum(p for value, p in pairs if value > 0.0))


class SampledRecords(SampledSum):
    """`mechanism` on a sum over sampled records; one unit has up to `records` records.

    Obligation: every record is drawn with probability `rate`, independently, and the sample stays secret; one
    record changes the sum by at most the sensitivity, in L2. A unit that is added or removed has a binomial
    number of drawn records, and the pair is the one of `mixture-of-gaussians` (Choquette-Choo, Ganesh, Haque,
    Steinke and Thakurta 2024). Fewer records cost less. There is no bound under replace-one.
    """

    example = fields(
        rate=0.01, records=3, mechanism={"kind": "gaussian", "sigma": 2.0, "sensitivity": ONE["l2"]}
    )

    kind: Literal["sampled-records"] = "sampled-records"
    mechanism: Gaussian
    rate: Share
    records: Annotated[Count, Field(le=_MOST_RECORDS)]

    def dominating_pair(self) -> dominating.Mixture:
        """Return the shifts of 0 .. `records` drawn records with binomial probabilities."""
        mu, q, k = self.mechanism.dominating_pair().mu, Fraction(self.rate), self.records
        weights = tuple(math.comb(k, j) * q**j * (1 - q) ** (k - j) for j in range(k + 1))
        return dominating.Mixture(tuple(j * mu for j in range(k + 1)), weights)

    @property
    def most_likely(self) -> float:
        """The probability that at least one record of a unit is drawn."""
        return -math.expm1(self.records * math.log1p(-self.rate)) if self.rate < 1.0 else 1.0

    @property
    def expected_share(self) -> float:
        """The sampling rate."""
        return self.rate

    def chosen(self, count: int, randomness: Randomness) -> NDArray[np.bool_]:
        """Draw an independent coin for each record."""
        return randomness.coins(count, self.rate)

    def sizes(self, count: int) -> Array:
        """Return the logarithms of binomial probabilities."""
        return subsets.log_binomial(count, self.rate)

    @property
    def rows_of_one(self) -> int:
        """The largest number of records of a unit."""
        return self.records

    def rows(self, contributions: Array, where: str) -> Array:
        """Return the records [n m, ...] of the units' contributions [n, m, ...], m at most `records`."""
        if contributions.ndim < 2 or contributions.shape[1] > self.records:
            what = (
                f"contributions of shape {contributions.shape} of up to {self.records} records of each unit"
            )
            remedy = "give [n, m, ...], a unit's records along the second axis, and zeros where it has fewer"
            raise InvalidParameter(what, where=where, remedy=remedy)
        return contributions.reshape(-1, *contributions.shape[2:])

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """Return the distance of the sums over all records, at most `records` times the sensitivity."""
        return [move._replace(declared=move.declared * self.records) for move in super().moves(one, other)]


class RandomAllocation(InTurns):
    """`steps` answers of `mechanism`; each unit is in one uniformly chosen answer (balls in bins).

    Obligation: each unit is allocated to a uniformly chosen answer, independently of other units, and the
    allocation stays secret; the unit changes its answer by at most the sensitivity, in L2; an answer may
    depend on earlier answers. The pair of the even mixture of N(mu e_i, I) and of N(0, I) dominates in both
    orders (Chua et al. 2024, "Balls-and-bins sampling"; Feldman and Shenfeld 2025, random allocation).
    Several epochs with new allocations are several runs. There is no bound under replace-one.
    """

    example = fields(steps=4, mechanism={"kind": "gaussian", "sigma": 2.0, "sensitivity": ONE["l2"]})

    kind: Literal["random-allocation"] = "random-allocation"
    mechanism: Gaussian
    steps: Count

    def dominating_pair(self) -> dominating.Mixture:
        """Return the pair of one shift in one of `steps` answers."""
        return dominating.Mixture((self.mechanism.dominating_pair().mu,), (Fraction(1),), self.steps)

    @property
    def most_likely(self) -> float:
        """The probability that an answer contains the unit."""
        return 1.0 / self.steps

    @property
    def length(self) -> int:
        """The number of answers in a stream."""
        return self.steps

    @property
    def turns(self) -> int:
        """The number of groups: one for each answer."""
        return self.steps
