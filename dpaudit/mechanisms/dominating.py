"""Dominating pairs: all that an accountant needs to know about one run of a mechanism.

A pair names two output distributions whose trade-off bounds that of every two neighbouring data sets (Zhu,
Dong and Wang 2022, Definition 7), or the guarantee that is known in their place. Parameters are the ledger's
doubles and exact quotients of them: accountants round. Where a figure is a double, a quotient is given as it
is, as in ``Pure(Fraction(1, 3))``: it is rounded up, where ``float`` could round it down. A new mechanism
with one of these pairs needs no change of any accountant.
"""

import math
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TypeAlias

from dpaudit.models import as_double, up


class _RoundedUp:
    """A pair that dominates those of its kind with smaller figures: exact figures are rounded up."""

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
        """The distance of the two means, in standard deviations."""
        return self.mu

    @property
    def mu_squared(self) -> Fraction:
        """The square of the GDP parameter of all `times` together (Dong, Roth, Su 2022, Corollary 3.3)."""
        return self.mu**2 * self.times


@dataclass(frozen=True, slots=True)
class Laplace:
    """Laplace noise of scale 1, moved by epsilon."""

    epsilon: Fraction

    @property
    def size(self) -> Fraction:
        """The distance of the two means, in scales."""
        return self.epsilon


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """Discrete Laplace noise, moved by at most `sensitivity`: by an integer, since the query is one."""

    sensitivity: Fraction
    scale: Fraction

    @property
    def epsilon(self) -> Fraction:
        """The epsilon of pure differential privacy."""
        return self.sensitivity / self.scale

    @property
    def moves(self) -> int:
        """The largest integer that the query can move by."""
        return math.floor(self.sensitivity)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Discrete Gaussian noise on integers whose moves, squared, add up to at most `squared`."""

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
    """Every pair whose losses lie in one interval of length epsilon (Durfee and Rogers 2019)."""

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
    """Every rho-zCDP pair: its Renyi divergences are bounded, its privacy loss is not."""

    rho: Fraction


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the privacy loss; see `dpaudit.mechanisms.Tabulated`."""

    losses: tuple[float, ...]
    probabilities: tuple[float, ...]
    infinity: float


@dataclass(frozen=True, slots=True)
class Smooth:
    """Gaussian noise whose scale depends on the data; see `dpaudit.mechanisms.SmoothGaussian`."""

    alpha: float
    beta: float
    dimension: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class Sampled(_RoundedUp):
    """Noise on the sum over a Poisson sample: one run, of `times` composed.

    `inner` dominates two samples that differ in one replaced unit. `contribution` bounds a unit's own part of
    the sum, as a multiple of the noise's scale; None: it is not stated.
    """

    inner: Gaussian | Laplace
    rate: float
    contribution: Fraction | None = None
    times: int = 1

    @property
    def own(self) -> Gaussian | Laplace:
        """The pair of two samples, one without the unit: from `contribution`, or `inner` if it is None.

        A unit that is added or removed has the mixture (1 - rate) Q + rate P against Q, for its P and Q.
        """
        if self.contribution is None:
            return self.inner
        return type(self.inner)(self.contribution)

    @property
    def larger(self) -> Gaussian | Laplace:
        """The pair that dominates both `inner` and `own`."""
        return max(self.inner, self.own, key=lambda pair: pair.size)


#: Pairs of mechanisms that may run on a sample.
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
    """A mechanism on a secret sample that holds a given unit with probability `rate` at most.

    `change` dominates two samples of which one holds another unit in a unit's place, `own` those of which
    one lacks it; each in both orders. Where `fixed`, all samples are of one size. Where `most` is given, a
    Poisson sample of `units` is cut to so many.
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

    Moves over the noise's sigma: of the threshold, of a value against it, and of a value alone.
    """

    threshold: Fraction
    against: Fraction
    alone: Fraction
    answers: int
    steps: int


@dataclass(frozen=True, slots=True)
class Mixture:
    """Noise N(0, 1) on `steps` answers of which one, each as likely, is moved by a random shift, or on none.

    `shifts` are at least 0, with `weights` that add up to 1.
    """

    shifts: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]
    steps: int = 1


@dataclass(frozen=True, slots=True)
class Selected:
    """The best of several trials, each of these pairs so many times; known by its Renyi divergences.

    `eta` is that of a negative binomial number of trials, None of a Poisson one.
    """

    trial: tuple[tuple[Inner | Sampled | Batch | Mixture | SparseGaussian, int], ...]
    eta: float | None


@dataclass(frozen=True, slots=True)
class Shuffled(_RoundedUp):
    """Answers of so many users in random order, each epsilon-DP for its user.

    `categories` is given for randomized response, whose pair is another than that of any epsilon-DP answer.
    """

    epsilon: float
    users: int
    categories: int | None


class Added:
    """A pair of another package, by the bounds that the package proves of it.

    Each bound holds for every two neighbouring data sets in either order, and is rounded up. None, the
    default: it is not known. An accountant refuses the pair if all that it could use is None.
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
