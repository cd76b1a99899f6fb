"""The best of a random number of private trials: private selection, for example of hyper-parameters."""

import math
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field

from dpaudit.claims.relations import TrustModel
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.additive import Gaussian, Laplace, SymmetricGaussian
from dpaudit.mechanisms.base import ONE, Array, BaseMechanism, Times, fields
from dpaudit.mechanisms.correlated.amplified import SampledMatrix
from dpaudit.mechanisms.correlated.matrix import MatrixMechanism
from dpaudit.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaudit.mechanisms.opaque import OpaquePureDP, OpaqueZCDP
from dpaudit.mechanisms.samples.batches import FixedSizeSampled, TruncatedPoissonSampled
from dpaudit.mechanisms.samples.mixtures import RandomAllocation, SampledRecords
from dpaudit.mechanisms.samples.sampled import PoissonSampled
from dpaudit.mechanisms.selecting.noisy_max import ReportNoisyMax
from dpaudit.mechanisms.selecting.sparse_vector import GaussianSparseVector, SparseVector
from dpaudit.mechanisms.selection import Exponential, RandomizedResponse
from dpaudit.mechanisms.streams import TreeAggregation
from dpaudit.models import Count, Fraction, Model, Number, Positive, finite
from dpaudit.noise.randomness import Randomness

#: The mechanisms that a trial may use.
Inner = Annotated[
    Gaussian
    | Laplace
    | DiscreteGaussian
    | DiscreteLaplace
    | SymmetricGaussian
    | TreeAggregation
    | MatrixMechanism
    | RandomizedResponse
    | Exponential
    | ReportNoisyMax
    | SparseVector
    | GaussianSparseVector
    | PoissonSampled
    | FixedSizeSampled
    | TruncatedPoissonSampled
    | SampledMatrix
    | SampledRecords
    | RandomAllocation
    | OpaquePureDP
    | OpaqueZCDP,
    Field(discriminator="kind"),
]


class TrialRelease(Model):
    """A release that every trial makes, repeated `count` times."""

    mechanism: Inner
    count: Count = 1


class NegativeBinomial(Model):
    """A number of trials K >= 1, P(K = k) proportional to (1 - gamma)^k prod over i < k of (eta + i)/(i + 1).

    eta = 1 is the geometric distribution with mean 1/gamma, eta = 0 the logarithmic distribution.
    """

    kind: Literal["negative-binomial"] = "negative-binomial"
    eta: Annotated[Number, AfterValidator(finite), Field(gt=-1)]
    gamma: Fraction

    @property
    def mean(self) -> float:
        """The expected number of trials, up to rounding."""
        eta, log_gamma = self.eta, math.log(self.gamma)
        odds = (1.0 - self.gamma) / self.gamma
        return odds / -log_gamma if eta == 0.0 else odds * (eta / -math.expm1(eta * log_gamma))

    def draw(self, randomness: Randomness) -> int:
        """Draw the number of trials."""
        return randomness.negative_binomial(self.eta, self.gamma)


class Poisson(Model):
    """A Poisson number of trials; with no trial, the output is a public default."""

    kind: Literal["poisson"] = "poisson"
    mean: Annotated[Positive, Field(ge=1)]

    def draw(self, randomness: Randomness) -> int:
        """A random number of trials."""
        return randomness.poisson(self.mean)


Repetitions: TypeAlias = Annotated[NegativeBinomial | Poisson, Field(discriminator="kind")]


class PrivateSelection(BaseMechanism):
    """The best of a secret random number of independent trials; every trial makes the same `releases`.

    Obligation: the trials are independent and identically distributed; each draws a new candidate. A trial's
    score and output depend on its releases only. Nothing else is released, in particular not the number of
    trials or the other outputs. `repetitions` is the distribution of the number K of trials.
    Let epsilon(alpha) be the Renyi divergence of a trial. For K negative binomial, the divergence of the
    selection is at most epsilon(alpha) + (1 + eta) ((1 - 1/beta) epsilon(beta) + log(1/gamma)/beta) +
    log(E K)/(alpha - 1), for any order beta (Papernot and Steinke 2022, Theorem 2); for pure epsilon it is
    (2 + eta) epsilon, which is 3 epsilon for geometric K (Liu and Talwar 2019, Theorem 3.2). For Poisson K
    with mean m and a trial that is also (log(1 + 1/(alpha - 1)), delta)-DP, it is at most epsilon(alpha) +
    m delta + log(m)/(alpha - 1) (their Theorem 6), plus a term for the probability e^-m of no trial, which
    that theorem leaves out.
    """

    released_by = "select_best"
    condition = "independent-trials"
    drawn_exactly = True

    example = fields(
        releases=[{"mechanism": {"kind": "laplace", "scale": 2.0, "sensitivity": ONE["l1"]}, "count": 1}],
        repetitions={"kind": "negative-binomial", "eta": 1.0, "gamma": 0.1},
    )

    kind: Literal["private-selection"] = "private-selection"
    releases: Annotated[tuple[TrialRelease, ...], Field(min_length=1)]
    repetitions: Repetitions

    def dominating_pair(self) -> dominating.Selected:
        """Return the pair of the selection, from the pairs of one trial."""
        trial = tuple((one.mechanism.dominating_pair(), one.count) for one in self.releases)
        eta = self.repetitions.eta if isinstance(self.repetitions, NegativeBinomial) else None
        return dominating.Selected(trial, eta)

    def lacks(self, trust: TrustModel) -> str | None:
        """As `BaseMechanism.lacks`, for the mechanisms of a trial."""
        found = (one.mechanism.lacks(trust) for one in self.releases)
        return next((lacked for lacked in found if lacked is not None), None)

    def for_group(self, size: int, times: Times) -> tuple[Self, int] | None:
        """Return the selection over the trial's group mechanisms: the theorems hold for any two data sets."""
        found = [(one.mechanism.for_group(size, times), one.count) for one in self.releases]
        grouped = [TrialRelease(mechanism=one[0], count=one[1] * n) for one, n in found if one is not None]
        if len(grouped) < len(found):
            return None
        return self.model_copy(update={"releases": tuple(grouped)}), 1

    def nearest_output(self, value: Array, query: Array) -> None:
        """Return None: the possible outputs are unknown."""
