"""What a mechanism states about itself, and the defaults that most mechanisms share."""

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

#: figure, factor -> their product, rounded up; raises `CannotBound` past the largest double.
Times: TypeAlias = Callable[[float, int], float]

#: A sensitivity of 1 in each norm, for examples.
ONE: Final[Mapping[Norm, Mapping[str, Any]]] = {
    norm: {"value": 1.0, "norm": norm, "basis": "clipped"} for norm in get_args(Norm)
}


def fields(**values: Any) -> Mapping[str, Any]:
    """Return the fields of an example by their names."""
    return values


class Asked(NamedTuple):
    """What one side's data say for one answer of a release: as the fields of `Answer` of the same names."""

    query: Array
    scale: float | None = None
    rows: Array | None = None


#: For each answer of a release, what was asked.
Queries: TypeAlias = Sequence[Asked]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answered query of a release.

    Attributes:
        query: what the data say: the value, the item, the log weights, the function's values. Streams and
            functions begin with an answer to an empty query.
        output: what was released.
        at: what is public about the query: the step of a stream, the points of a function.
        scale: a noise scale that the data chose; private like the query.
        rows: the rows [n, ...] of which a secret sample was summed, where it was; private like the query,
            which is the sum of all of them.
    """

    query: Array
    output: Array
    at: Array | None = None
    scale: float | None = None
    rows: Array | None = None


class Move(NamedTuple):
    """How far a release's query moved between two data sets, how far it may, and what was measured."""

    measured: float
    declared: float
    measure: str


class BaseMechanism(Model):
    """A mechanism: its parameters, and all that follows from them alone.

    A subclass states its proof obligation in its docstring, and defines `kind` and `dominating_pair`. The
    defaults here are those of a mechanism known by its guarantee alone.
    """

    #: The method of `Curator` that releases through this mechanism; None: no curator can run it.
    released_by: ClassVar[str | None] = "release_opaque"
    #: Whether `ExactRandomness` draws its output exactly; where not, certificates say so.
    drawn_exactly: ClassVar[bool] = False
    #: Whether its noise is an integer, drawn exactly from fair bits, for queries that are integers.
    integer_noise: ClassVar[bool] = False
    #: The field that sets the noise, where it may be chosen: more noise is a larger sigma or scale, or a
    #: smaller epsilon.
    noise_field: ClassVar[Literal["sigma", "scale", "epsilon"] | None] = None
    #: The code (`certificate.conditions.Code`) of what its figures take on trust, beside a sensitivity.
    condition: ClassVar[str | None] = None
    #: What somebody is trusted to do, so that its figures hold; None: a unit may run it on its own data.
    trusted_to: ClassVar[str | None] = None
    #: Fields of one mechanism of this kind, for `dpaudit list mechanisms` and for tests of all kinds.
    example: ClassVar[Mapping[str, Any]] = {}
    #: Values of fields without which there is no mechanism, but on which its cost does not depend.
    beside_cost: ClassVar[Mapping[str, Any]] = {}

    @abstractmethod
    def dominating_pair(self) -> dominating.Pair:
        """What one run costs at most."""

    def lacks(self, trust: TrustModel) -> str | None:
        """Return what nobody is trusted to do under a trust model, so that it does not admit the mechanism.

        None: it does. Under joint trust whoever runs the algorithm is trusted, as under central trust.
        """
        return self.trusted_to if trust is TrustModel.LOCAL else None

    def answering(self) -> Callable[..., Array]:
        """What draws the outputs of one release, question after question: ``(*given, randomness) -> output``.

        A mechanism that draws defines `sample`, or keeps a state of its own between the questions. Of one
        that is known by its guarantee alone, what is given is the output that the caller's sampler drew.
        """
        own: Callable[..., Array] = getattr(self, "sample", _as_drawn)
        return _as_drawn if self.drawn_by_caller else own

    @property
    def drawn_by_caller(self) -> bool:
        """Whether its outputs are drawn by an algorithm's own code, and not by the library."""
        return type(self).answering is BaseMechanism.answering and not hasattr(self, "sample")

    @property
    def declared_sensitivity(self) -> Sensitivity | None:
        """The sensitivity that the noise is calibrated to; None where there is none."""
        found: Sensitivity | None = getattr(self, "sensitivity", None)
        return found

    @property
    def noise(self) -> tuple[str, float] | None:
        """Name and value of `noise_field`."""
        return None if self.noise_field is None else (self.noise_field, getattr(self, self.noise_field))

    def with_noise(self, value: float) -> Self:
        """The mechanism with another value of `noise_field`, if it has one."""
        return self if self.noise_field is None else self.model_copy(update={self.noise_field: value})

    def for_group(self, size: int, times: Times) -> tuple[Self, int] | None:
        """What the mechanism is to data sets that differ in `size` units, and how many runs of it.

        Two such data sets are the ends of a chain of neighbours, so every distance that the obligation
        bounds grows at most `size` times. None: no bound is known.
        """
        del size, times
        return None

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """How far one repetition's query moved between two runs with the same outputs.

        By default any move is allowed: the guarantee covers it.
        """
        same = all(np.array_equal(a.query, b.query) for a, b in zip(one, other, strict=True))
        return [Move(float(not same), 1.0, "at all")]

    def log_likelihood(self, answers: Sequence[Answer], queries: Queries) -> float | None:
        """Log density of a release's outputs had `queries` been asked; None: not known."""
        del answers, queries
        return None

    def gaussian_share(self, answers: Sequence[Answer], differences: Sequence[Array]) -> float:
        """The mu^2 of the Gaussian pair for these differences of queries.

        It is exact for `GaussianNoise`; for other noise it is a rough guide, by the spread, or 0.
        """
        del answers, differences
        return 0.0

    @property
    def grid(self) -> int | None:
        """The exponent e of the grid 2^e on which exact noise comes out; None where there is no such grid."""
        return None

    @property
    def typical_noise(self) -> float:
        """The size of the noise, where the data do not choose it."""
        return 1.0

    def nearest_output(self, value: Array, query: Array) -> Array | None:
        """The possible output that is nearest to a value; None where the possible outputs are not known."""
        del query
        return value


def _as_drawn(drawn: Array, _: Randomness) -> Array:
    return drawn.copy()


class ValueMechanism(BaseMechanism):
    """A mechanism that answers one value: `Curator.release` accepts every subclass."""

    released_by = "release"

    @abstractmethod
    def sample(self, value: Array | OnGrid, randomness: Randomness, /) -> Array:
        """The noisy value, of the same shape."""

    @abstractmethod
    def log_density(self, output: Array, query: Array) -> float:
        """Log density or probability of `output` given the query, summed over entries; same shapes."""

    def require_fits(self, query: Array, where: str) -> None:
        """Raise `InvalidParameter` where the mechanism's theorem does not cover such a value."""

    def require_single(self, query: Array, count: int, where: str) -> None:
        """Under local trust, raise `InvalidParameter` where one user's value is more than `count` answers."""

    def log_likelihood(self, answers: Sequence[Answer], queries: Queries) -> float:
        """`log_density` of the only answer."""
        return self.log_density(answers[0].output, queries[0].query)


class Calibrated(BaseMechanism):
    """A mechanism whose noise is calibrated to the largest change of its query."""

    #: The norms in which the mechanism's theorem measures sensitivity.
    norms: ClassVar[tuple[Norm, ...]]

    sensitivity: Sensitivity

    @property
    def norm(self) -> Norm:
        """The norm of this mechanism's sensitivity, one of `norms`."""
        return self.sensitivity.norm

    @property
    def spread(self) -> float:
        """The standard deviation of the noise on one entry, at least roughly."""
        return self.typical_noise

    def with_sensitivity(self, sensitivity: Sensitivity) -> Self:
        """The mechanism with another sensitivity."""
        return self.model_copy(update={"sensitivity": sensitivity})

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """The distance in the sensitivity's norm."""
        measured = distance(self.norm, one[0].query - other[0].query)
        return [Move(measured, self.sensitivity.value, f"in {self.norm}")]

    def gaussian_share(self, answers: Sequence[Answer], differences: Sequence[Array]) -> float:
        """The sum of the squares of the differences over the spread."""
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
    """Calibrated noise whose distribution does not depend on the sensitivity, only its cost does."""

    def ratio(self, scale: float) -> Fraction:
        """sensitivity/scale, exactly."""
        return Fraction(self.sensitivity.value) / Fraction(scale)

    def for_group(self, size: int, times: Times) -> tuple[Self, int]:
        """The sensitivity times the size."""
        value = times(self.sensitivity.value, size)
        return self.with_sensitivity(self.sensitivity.model_copy(update={"value": value})), 1


class GaussianNoise(FixedNoise):
    """Gaussian noise, isotropic with variance sigma^2 in coordinates in which the sensitivity is measured."""

    noise_field = "sigma"

    sigma: Scale

    @property
    def grid(self) -> int:
        """The grid's exponent, which follows from sigma."""
        return grid(self.sigma)

    def dominating_pair(self) -> dominating.Gaussian:
        """mu = sensitivity/sigma (Dong, Roth, Su 2022, Theorem 2.7)."""
        return dominating.Gaussian(self.ratio(self.sigma))


def sum_of_squares(values: Array) -> float:
    """The sum of all entries' squares; infinite past the largest double."""
    with np.errstate(over="ignore"):
        return float(np.square(values).sum())


def distance(norm: Norm, difference: Array) -> float:
    """The size of a difference of queries in a mechanism's norm; at most the largest double.

    For ``"rkhs"`` see `ExponentialKernel.squared_norm`.
    """
    limit = np.finfo(np.float64).max
    entries = np.minimum(np.abs(difference).ravel(), limit)
    largest = float(entries.max(initial=0.0))
    if largest == 0.0:
        return 0.0
    # Scaled to the largest entry first, so that squares neither overflow nor vanish.
    entries = entries / largest
    length = float(entries.sum() if norm == "l1" else np.linalg.norm(entries))
    return min(length * largest, float(limit))


def residual(output: Array, query: Array) -> Array:
    """`output` minus `query`, entry by entry; never broadcast.

    Raises:
        InvalidParameter: their shapes differ.
    """
    if output.shape != query.shape:
        what = f"an output of shape {output.shape} for a query of shape {query.shape}"
        raise InvalidParameter(what, where="log_density", remedy="give the output of this query")
    return output - query
