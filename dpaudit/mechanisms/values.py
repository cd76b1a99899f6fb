"""Mechanisms that answer one value at once: which they are, what they accept and how they answer."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms.additive import Gaussian, Laplace
from dpaudit.mechanisms.calibrated import Array
from dpaudit.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace, require_integers
from dpaudit.mechanisms.matrices import SymmetricGaussian
from dpaudit.mechanisms.randomness import Randomness
from dpaudit.mechanisms.selection import RandomizedResponse

ValueMechanism: TypeAlias = (
    Gaussian | Laplace | DiscreteGaussian | DiscreteLaplace | RandomizedResponse | SymmetricGaussian
)

_DOORS = {
    "exponential": "curator.select",
    "tree-aggregation": "curator.stream",
    "gaussian-process": "curator.function",
    "smooth-gaussian": "curator.release_smooth",
    "poisson-sampled": "curator.release_sum",
}


def require_value_mechanism(mechanism: object, where: str) -> ValueMechanism:
    """The mechanism, if it is one that answers a value.

    Raises:
        InvalidParameter: it answers something else; the error names the door.
    """
    if isinstance(mechanism, ValueMechanism):
        return mechanism
    kind = getattr(mechanism, "kind", type(mechanism).__name__)
    door = _DOORS.get(str(kind), "curator.release_opaque")
    raise InvalidParameter(
        f"a {kind} mechanism for a value",
        where=where,
        why="it cannot answer a value by itself",
        remedy=f"release through {door}, or use a mechanism that adds noise to values",
    )


def require_fits(mechanism: ValueMechanism, query: Array, where: str) -> None:
    """Raise `InvalidParameter` where the mechanism's theorem does not speak of such a value."""
    match mechanism:
        case DiscreteGaussian() | DiscreteLaplace():
            require_integers(query, where)
        case RandomizedResponse():
            mechanism.require_categories(query, where)
        case SymmetricGaussian():
            mechanism.require_symmetric(query, where)
        case Gaussian() | Laplace():
            pass
        case _:
            assert_never(mechanism)


def noisy(mechanism: ValueMechanism, query: Array, randomness: Randomness) -> Array:
    """The mechanism's answer: discrete noise from fair bits, all else in floating point."""
    match mechanism:
        case DiscreteGaussian() | DiscreteLaplace():
            return mechanism.sample(query, randomness.bits)
        case Gaussian() | Laplace() | RandomizedResponse() | SymmetricGaussian():
            return mechanism.sample(query, randomness.generator)
        case _:
            assert_never(mechanism)
