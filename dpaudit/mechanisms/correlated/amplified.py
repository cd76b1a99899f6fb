"""Correlated noise over sampled items: banded strategies with Poisson samples."""

from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import model_validator

from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.base import ONE, fields
from dpaudit.mechanisms.correlated.matrix import MatrixMechanism
from dpaudit.mechanisms.correlated.sensitivity import reach
from dpaudit.mechanisms.samples.sampled import InTurns
from dpaudit.models import Enlarged, Positive, Share


class SampledMatrix(InTurns):
    """`mechanism` on sums of sampled units; each unit is scheduled every `separation` steps.

    Obligation: the units are split into `separation` groups, and a change of one unit moves no other unit to
    another group. Item t is the sum of rows of group t mod `separation`, each included with probability
    `rate`, independently of everything else; the sample stays secret. A row's change is at most the
    sensitivity, and its norm at most `contribution`; without `contribution` the sensitivity bounds both, as
    in `PoissonSampled`. The strategy has at most `separation` bands, so a unit's participations affect
    different rows of C x. The release is then dominated by ceil(steps/separation) runs of a Poisson-sampled
    Gaussian, with sensitivity and contribution multiplied by the largest column norm of C (Choquette-Choo et
    al. 2023, "(Amplified) Banded Matrix Factorization", Theorems 4 and 5). Under replace-one the sample
    amplifies only if `contribution` is stated. The schedule determines the number of participations, so
    `participations` is not used.
    """

    example = fields(
        rate=0.01,
        mechanism={
            "kind": "matrix",
            "sigma": 2.0,
            "steps": 100,
            "strategy": {"kind": "toeplitz", "coefficients": [1.0, 0.5, 0.375, 0.3125]},
            "separation": 25,
            "sensitivity": ONE["l2"],
        },
    )

    kind: Literal["sampled-matrix"] = "sampled-matrix"
    rate: Share
    mechanism: MatrixMechanism
    contribution: Annotated[Positive, Enlarged] | None = None

    @model_validator(mode="after")
    def _turns_do_not_overlap(self) -> Self:
        inner = self.mechanism
        bands = inner.strategy.bands(inner.steps)
        if bands > inner.separation:
            what = f"{bands} bands for a separation of {inner.separation} steps"
            why = "the theorem does not cover two participations of one unit that affect the same rows"
            remedy = "use at most as many bands as the separation"
            raise InvalidParameter(what, where="SampledMatrix.mechanism", why=why, remedy=remedy)
        return self

    @property
    def most_likely(self) -> float:
        """The probability that a unit is in a sample of its group."""
        return self.rate

    @property
    def expected_share(self) -> float:
        """The rate divided by the number of groups."""
        return self.rate / self.turns

    @property
    def length(self) -> int:
        """The number of steps of the stream."""
        return self.mechanism.steps

    @property
    def turns(self) -> int:
        """The number of groups: the separation of a unit's participations."""
        return self.mechanism.separation

    @property
    def taking_part(self) -> float:
        """The sampling rate."""
        return self.rate

    def dominating_pair(self) -> dominating.Sampled:
        """Return one sampled Gaussian pair for each possible participation of a unit."""
        inner = self.mechanism
        column = Fraction(reach(inner.strategy, inner.steps, 1, 1).value)
        unit = column / Fraction(inner.sigma)
        own = None if self.contribution is None else unit * Fraction(self.contribution)
        turns = -(-inner.steps // inner.separation)
        one = dominating.Gaussian(column * inner.ratio(inner.sigma))
        return dominating.Sampled(one, self.rate, own, turns)
