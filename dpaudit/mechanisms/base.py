"""The base classes of mechanisms, with the defaults that most mechanisms share."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, Literal, NamedTuple, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from dpaudit.claims.relations import TrustModel
from dpaudit.claims.sensitivity import CONVERSIONS, Norm, Sensitivity
from dpaudit.errors import InvalidParameter, NormMismatch
from dpaudit.mechanisms import dominating
from dpaudit.models import Model, Scale
from dpaudit.noise.grid import OnGrid, grid
from dpaudit.noise.randomness import Randomness

Array: TypeAlias = NDArray[np.float64]

#: figure, factor -> their product, rounded up; raises `CannotBound` beyond the largest double.
Times: TypeAlias = Callable[[float, int], float]

#: A sensitivity of 1 in each norm, for examples.
ONE: Final[Mapping[Norm, Mapping[str, Any]]] = {
    norm: {"value": 1.0, "norm": norm, "basis": "clipped"} for norm in get_args(Norm)
}


def fields(**values: Any) -> Mapping[str, Any]:
    """Return the fields of an example by their names."""
    return values


class Asked(NamedTuple):
    """The private inputs of one answer on one data set; fields as in `Answer`."""

    query: Array
    scale: float | None = None
    rows: Array | None = None


#: The private inputs of each answer of a release.
Queries: TypeAlias = Sequence[Asked]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answered query of a release.

    Attributes:
        query: the private input: the value, the item, the log weights, or the function's values. Streams and
            functions begin with an answer to an empty query.
        output: the released output.
        at: the public part of the query: the step of a stream, or the points of a function.
        scale: a noise scale that depends on the data; private like the query.
        rows: the rows [n, ...] from which a secret sample was summed, if any; private like the query, which
            is the sum of all rows.
    """

    query: Array
    output: Array
    at: Array | None = None
    scale: float | None = None
    rows: Array | None = None


class Move(NamedTuple):
    """The measured and the declared change of a release's query between two data sets, and the measure."""

    measured: float
    declared: float
    measure: str


class BaseMechanism(Model):
    """A mechanism: its parameters, and everything that follows from them alone.

    A subclass states its proof obligation in its docstring, and defines `kind` and `dominating_pair`. The
    defaults here suit a mechanism that is known only by its guarantee.
    """

    #: The method of `Curator` that releases through this mechanism, or None if no curator can run it.
    released_by: ClassVar[str | None] = "release_opaque"
    #: Whether `ExactRandomness` draws its output exactly; if not, certificates say so.
    drawn_exactly: ClassVar[bool] = False
    #: Whether its noise is an integer, drawn exactly from fair bits, for integer queries.
    integer_noise: ClassVar[bool] = False
    #: The field that sets the noise, if any: more noise means a larger sigma or scale, or a smaller epsilon.
    noise_field: ClassVar[Literal["sigma", "scale", "epsilon"] | None] = None
    #: The code (`certificate.conditions.Code`) of an unchecked condition of its figures, besides sensitivity.
    condition: ClassVar[str | None] = None
    #: The task of the trusted party that its figures need; None if a unit can run it on its own data.
    trusted_to: ClassVar[str | None] = None
    #: Fields of one mechanism of this kind, for `dpaudit list mechanisms` and for tests of all kinds.
    example: ClassVar[Mapping[str, Any]] = {}
    #: Default values of required fields that do not affect the cost.
    beside_cost: ClassVar[Mapping[str, Any]] = {}

    @abstractmethod
    def dominating_pair(self) -> dominating.Pair:
        """Return a pair that bounds the privacy cost of one run."""

    def lacks(self, trust: TrustModel) -> str | None:
        """Return the task of the trusted party that a trust model lacks, or None if it admits the mechanism.

        Under joint trust the party that runs the algorithm is trusted, as under central trust.
        """
        return self.trusted_to if trust is TrustModel.LOCAL else None

    def answering(self) -> Callable[..., Array]:
        """Return the sampler of one release's successive outputs: ``(*given, randomness) -> output``.

        A mechanism defines `sample`, or overrides this method and keeps a state between the outputs. If the
        caller's own sampler draws, `given` is already the output.
        """
        own: Callable[..., Array] = getattr(self, "sample", _as_drawn)
        return _as_drawn if self.drawn_by_caller else own

    @property
    def drawn_by_caller(self) -> bool:
        """Whether the algorithm's own code draws the outputs, not this library."""
        return type(self).answering is BaseMechanism.answering and not hasattr(self, "sample")

    @property
    def declared_sensitivity(self) -> Sensitivity | None:
        """The sensitivity to which the noise is calibrated, or None."""
        found: Sensitivity | None = getattr(self, "sensitivity", None)
        return found

    @property
    def noise(self) -> tuple[str, float] | None:
        """The name and the value of `noise_field`."""
        return None if self.noise_field is None else (self.noise_field, getattr(self, self.noise_field))

    def with_noise(self, value: float) -> Self:
        """Return the mechanism with another value of `noise_field`, if it has one."""
        return self if self.noise_field is None else self.model_copy(update={self.noise_field: value})

    def for_group(self, size: int, times: Times) -> tuple[Self, int] | None:
        """Return a mechanism and a number of its runs that bound the cost for groups of `size` units.

        Two data sets that differ in `size` units are the ends of a chain of neighbours, so every distance in
        the obligation grows by at most the factor `size`. None: no bound is known.
        """
        del size, times
        return None

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """Return the changes of one repetition's query between two runs with the same outputs.

        By default any change is allowed, because the guarantee covers it.
        """
        same = all(np.array_equal(a.query, b.query) for a, b in zip(one, other, strict=True))
        return [Move(float(not same), 1.0, "at all")]

    def log_likelihood(self, answers: Sequence[Answer], queries: Queries) -> float | None:
        """Return the log density of a release's outputs given other queries, or None if unknown."""
        del answers, queries
        return None

    def gaussian_share(self, answers: Sequence[Answer], differences: Sequence[Array]) -> float:
        """Return mu^2 of the Gaussian pair for these differences of queries.

        It is exact for `GaussianNoise`; for other noise it is a rough estimate from the spread, or 0.
        """
        del answers, differences
        return 0.0

    @property
    def grid(self) -> int | None:
        """The exponent e of the grid 2^e of the exact outputs, or None."""
        return None

    @property
    def typical_noise(self) -> float:
        """The size of the noise, if it does not depend on the data."""
        return 1.0

    def nearest_output(self, value: Array, query: Array) -> Array | None:
        """Return the possible output nearest to a value, or None if the possible outputs are unknown."""
        del query
        return value


def _as_drawn(drawn: Array, _: Randomness) -> Array:
    return drawn.copy()


class ValueMechanism(BaseMechanism):
    """A mechanism that answers one value: `Curator.release` accepts every subclass."""

    released_by = "release"

    @abstractmethod
    def sample(self, value: Array | OnGrid, randomness: Randomness, /) -> Array:
        """Return the noisy value, of the same shape."""

    @abstractmethod
    def log_density(self, output: Array, query: Array) -> float:
        """Return the log density or probability of `output` given the query, summed over entries."""

    def require_fits(self, query: Array, where: str) -> None:
        """Raise `InvalidParameter` if the mechanism's theorem does not cover such a value."""

    def require_single(self, query: Array, count: int, where: str) -> None:
        """Under local trust, raise `InvalidParameter` if one user's value is more than `count` answers."""

    def log_likelihood(self, answers: Sequence[Answer], queries: Queries) -> float:
        """Return `log_density` of the only answer."""
        return self.log_density(answers[0].output, queries[0].query)


class Calibrated(BaseMechanism):
    """A mechanism with noise calibrated to the largest change of its query."""

    #: The norms in which the mechanism's theorem measures sensitivity.
    norms: ClassVar[tuple[Norm, ...]]

    sensitivity: Sensitivity

    @property
    def norm(self) -> Norm:
        """The norm of this mechanism's sensitivity, one of `norms`."""
        return self.sensitivity.norm

    @property
    def spread(self) -> float:
        """The standard deviation of the noise on one entry, possibly approximate."""
        return self.typical_noise

    def with_sensitivity(self, sensitivity: Sensitivity) -> Self:
        """Return the mechanism with another sensitivity."""
        return self.model_copy(update={"sensitivity": sensitivity})

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """Return the distance of the queries in the sensitivity's norm."""
        measured = distance(self.norm, one[0].query - other[0].query)
        return [Move(measured, self.sensitivity.value, f"in {self.norm}")]

    def gaussian_share(self, answers: Sequence[Answer], differences: Sequence[Array]) -> float:
        """Return the sum of the squares of the differences divided by the spread."""
        del answers
        return sum_of_squares(differences[0] / self.spread)

    @property
    def typical_noise(self) -> float:
        """Sigma or the scale; with a free epsilon, sensitivity/epsilon."""
        name, value = self.noise or ("", 1.0)
        return self.sensitivity.value / value if name == "epsilon" else value

    @model_validator(mode="after")
    def _norm_fits(self) -> Self:
        given = self.sensitivity.norm
        if given not in self.norms:
            needed = " or ".join(repr(norm) for norm in self.norms)
            known = [CONVERSIONS[given, norm] for norm in self.norms if (given, norm) in CONVERSIONS]
            conversion = known[0] if known else "no sound conversion is known"
            what = f"a {type(self).__name__} mechanism needs its sensitivity in norm {needed}, got {given!r}"
            remedy = f"{conversion}; or derive the sensitivity in norm {needed}"
            raise NormMismatch(what, where=f"{type(self).__name__}.sensitivity", remedy=remedy)
        return self


class FixedNoise(Calibrated):
    """Calibrated noise with a distribution that does not depend on the sensitivity; only the cost does."""

    def ratio(self, scale: float) -> Fraction:
        """Return sensitivity/scale, exactly."""
        return Fraction(self.sensitivity.value) / Fraction(scale)

    def for_group(self, size: int, times: Times) -> tuple[Self, int]:
        """Return the mechanism with `size` times the sensitivity."""
        value = times(self.sensitivity.value, size)
        return self.with_sensitivity(self.sensitivity.model_copy(update={"value": value})), 1


class GaussianNoise(FixedNoise):
    """Gaussian noise, isotropic with variance sigma^2 in the coordinates of the sensitivity's norm."""

    noise_field = "sigma"

    sigma: Scale

    @property
    def grid(self) -> int:
        """The grid's exponent, computed from sigma."""
        return grid(self.sigma)

    def dominating_pair(self) -> dominating.Gaussian:
        """Return the Gaussian pair with mu = sensitivity/sigma (Dong, Roth, Su 2022, Theorem 2.7)."""
        return dominating.Gaussian(self.ratio(self.sigma))


def sum_of_squares(values: Array) -> float:
    """Return the sum of all entries' squares; infinite beyond the largest double."""
    with np.errstate(over="ignore"):
        return float(np.square(values).sum())


def distance(norm: Norm, difference: Array) -> float:
    """Return the size of a difference of queries in a mechanism's norm, at most the largest double.

    For ``"rkhs"`` see `ExponentialKernel.squared_norm`.
    """
    limit = np.finfo(np.float64).max
    entries = np.minimum(np.abs(difference).ravel(), limit)
    largest = float(entries.max(initial=0.0))
    if largest == 0.0:
        return 0.0
    # Divide by the largest entry first, so that squares neither overflow nor underflow.
    entries = entries / largest
    length = float(entries.sum() if norm == "l1" else np.linalg.norm(entries))
    return min(length * largest, float(limit))


def residual(output: Array, query: Array) -> Array:
    """Return `output` minus `query`, entry by entry, without broadcasting.

    Raises:
        InvalidParameter: their shapes differ.
    """
    if output.shape != query.shape:
        what = f"an output of shape {output.shape} for a query of shape {query.shape}"
        raise InvalidParameter(what, where="log_density", remedy="give the output of this query")
    return output - query
