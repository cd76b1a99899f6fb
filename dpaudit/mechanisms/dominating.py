"""Dominating pairs: everything that an accountant needs to know about one run of a mechanism.

A pair names two output distributions that dominate those of every two neighbouring data sets (Zhu, Dong and
Wang 2022, Definition 7), or a guarantee instead. Parameters are the ledger's doubles and exact quotients of
them; accountants do the rounding. A field of type float also accepts an exact quotient, for example
``Pure(Fraction(1, 3))``, and rounds it up; ``float`` could round it down. A new mechanism with one of these
pairs needs no change of any accountant.
"""

import math
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TypeAlias

from dpaudit.models import as_double, up


class _RoundedUp:
    """A pair that dominates pairs of its kind with smaller figures, so exact figures are rounded up."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # each is a dataclass
            value = getattr(self, field.name)
            if field.type is float and not isinstance(value, float):
                object.__setattr__(self, field.name, as_double(value, up))


@dataclass(frozen=True, slots=True)
class Gaussian:
    """N(mu, 1) against N(0, 1), composed `times` times."""

    mu: Fraction
    times: int = 1

    @property
    def size(self) -> Fraction:
        """The distance of the two means in standard deviations."""
        return self.mu

    @property
    def mu_squared(self) -> Fraction:
        """The squared GDP parameter of all `times` runs together (Dong, Roth, Su 2022, Corollary 3.3)."""
        return self.mu**2 * self.times


@dataclass(frozen=True, slots=True)
class Laplace:
    """Laplace noise of scale 1, shifted by epsilon."""

    epsilon: Fraction

    @property
    def size(self) -> Fraction:
        """The distance of the two means in scales."""
        return self.epsilon


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """Discrete Laplace noise, shifted by an integer of at most `sensitivity`: the query is an integer."""

    sensitivity: Fraction
    scale: Fraction

    @property
    def epsilon(self) -> Fraction:
        """The epsilon of pure differential privacy."""
        return self.sensitivity / self.scale

    @property
    def moves(self) -> int:
        """The largest integer change of the query."""
        return math.floor(self.sensitivity)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Discrete Gaussian noise on integers; the squares of their changes add up to at most `squared`."""

    sigma: Fraction
    squared: int
    rho: Fraction


@dataclass(frozen=True, slots=True)
class Response(_RoundedUp):
    """Randomized response among `categories`."""

    epsilon: float
    categories: int


@dataclass(frozen=True, slots=True)
class BoundedRange(_RoundedUp):
    """Every pair with losses in one interval of length epsilon (Durfee and Rogers 2019)."""

    epsilon: float


@dataclass(frozen=True, slots=True)
class Pure(_RoundedUp):
    """A pair that dominates every epsilon-DP pair."""

    epsilon: float


@dataclass(frozen=True, slots=True)
class Approx(_RoundedUp):
    """Every (epsilon, delta)-DP pair."""

    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True)
class ZCDP:
    """Every rho-zCDP pair: the Renyi divergences are bounded, the privacy loss is not."""

    rho: Fraction


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the privacy loss; see `dpaudit.mechanisms.Tabulated`."""

    losses: tuple[float, ...]
    probabilities: tuple[float, ...]
    infinity: float


@dataclass(frozen=True, slots=True)
class Smooth:
    """Gaussian noise with a data-dependent scale; see `dpaudit.mechanisms.SmoothGaussian`."""

    alpha: float
    beta: float
    dimension: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class Sampled(_RoundedUp):
    """Noise on the sum over a Poisson sample, composed `times` times.

    `inner` dominates two samples that differ in one replaced unit. `contribution` bounds a unit's own part of
    the sum, as a multiple of the noise scale; None if it is not stated.
    """

    inner: Gaussian | Laplace
    rate: float
    contribution: Fraction | None = None
    times: int = 1

    @property
    def own(self) -> Gaussian | Laplace:
        """The pair (P, Q) of a sample with and without the unit: from `contribution`, or `inner` if None.

        For a unit that is added or removed, the pair of the release is (1 - rate) Q + rate P against Q.
        """
        if self.contribution is None:
            return self.inner
        return type(self.inner)(self.contribution)

    @property
    def larger(self) -> Gaussian | Laplace:
        """The pair that dominates both `inner` and `own`."""
        return max(self.inner, self.own, key=lambda pair: pair.size)


#: The pairs of mechanisms that may run on a sample.
Inner: TypeAlias = (
    Gaussian
    | Laplace
    | DiscreteLaplace
    | DiscreteGaussian
    | Response
    | BoundedRange
    | Pure
    | Approx
    | ZCDP
    | Table
    | Smooth
)


@dataclass(frozen=True, slots=True)
class Batch(_RoundedUp):
    """A mechanism on a secret sample that contains a given unit with probability at most `rate`.

    `change` dominates two samples that differ in one replaced unit, `own` two samples that differ in one
    missing unit; each in both orders. If `fixed`, all samples have one size. If `most` is given, a Poisson
    sample of `units` units is cut to at most `most` units.
    """

    change: Inner
    own: Inner
    rate: float
    fixed: bool = False
    most: int | None = None
    units: int = 0


@dataclass(frozen=True, slots=True)
class SparseGaussian:
    """Sparse vector with Gaussian noise; see `dpaudit.mechanisms.GaussianSparseVector`.

    Changes divided by the noise's sigma: of the threshold, of a value relative to it, and of a value alone.
    """

    threshold: Fraction
    against: Fraction
    alone: Fraction
    answers: int
    steps: int


@dataclass(frozen=True, slots=True)
class Mixture:
    """N(0, 1) noise on `steps` answers, one uniformly chosen answer shifted at random, against no shift.

    `shifts` are at least 0; their probabilities `weights` add up to 1.
    """

    shifts: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]
    steps: int = 1


@dataclass(frozen=True, slots=True)
class Selected:
    """The best of several trials; only its Renyi divergences are known.

    `trial` lists the pairs of one trial with their numbers of runs. `eta` belongs to a negative binomial
    number of trials; None means a Poisson number.
    """

    trial: tuple[tuple[Inner | Sampled | Batch | Mixture | SparseGaussian, int], ...]
    eta: float | None


@dataclass(frozen=True, slots=True)
class Shuffled(_RoundedUp):
    """The answers of `users` users in random order, each epsilon-DP for its user.

    `categories` is given for randomized response, which has a tighter pair than other epsilon-DP answers.
    """

    epsilon: float
    users: int
    categories: int | None


class Added:
    """A pair of another package, given by bounds that the package proves.

    Each bound holds for every two neighbouring data sets in either order, and is rounded up. None, the
    default, means unknown. An accountant refuses the pair if all bounds that it could use are None.
    """

    def epsilon(self) -> float | None:
        """Return the epsilon of pure differential privacy."""
        return None

    def rho(self) -> Fraction | None:
        """Return the rho of zero-concentrated differential privacy."""
        return None

    def log_moment(self, t: float) -> float | None:
        """Return t times the Renyi divergence of order 1 + t, for any t > 0."""
        del t
        return None

    def table(self) -> Table | None:
        """Return a table of privacy losses that dominates the pair in both orders."""
        return None


Pair: TypeAlias = Added | Inner | Sampled | Batch | Mixture | SparseGaussian | Selected | Shuffled
