"""Real random numbers, computed to as many digits as a decision needs.

A uniform number is an unlimited sequence of fair bits, drawn as needed. Functions of it are enclosures in
ball arithmetic. A decision is made only if it is the same for all numbers in the enclosure; otherwise more
bits are drawn. So every decision is correct for the real number. python-flint is imported at the first such
decision.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

from dpaudit.noise.bits import Bits

#: An enclosure at the current precision; a `flint.arb`.
Ball: TypeAlias = Any

WORD = 64
#: Working precision in bits, beyond the number of known random bits.
GUARD = 64


def flint() -> Any:
    """Import the module `flint` late and return it: most processes never need it."""
    import flint

    return flint


def exact(number: float | Fraction) -> Ball:
    """Return a double or a fraction as a ball at the current precision."""
    ratio = Fraction(number)
    return flint().arb(flint().fmpq(ratio.numerator, ratio.denominator))


class Uniform:
    """A uniform real number in [0, 1), given by its first bits; further bits are drawn on demand.

    Args:
        bits: the source of further bits.
        known: the first bits, as an integer; drawn by default.
        width: the number of bits in `known`.
    """

    def __init__(self, bits: Bits, known: int | None = None, width: int = WORD) -> None:
        self._bits = bits
        self._known = bits.take(width) if known is None else known
        self.width = width

    def extend(self, width: int) -> None:
        """Draw bits until `width` are known."""
        if width > self.width:
            self._known = self._known << (width - self.width) | self._bits.take(width - self.width)
            self.width = width

    def __float__(self) -> float:
        """Return a double at most 2^-52 away."""
        return self._known / (1 << self.width)

    def ball(self) -> Ball:
        """Return the enclosure of all numbers with the known bits, at the current precision."""
        arb = flint().arb
        return (arb(self._known) + arb(0.5, 0.5)) * arb(2) ** -self.width

    def decide(self, decision: Callable[[Ball], Any]) -> Any:
        """Call `decision` with more and more bits of this number, and return its first answer.

        `decision` receives an enclosure of the number, and returns None if the enclosure does not decide.
        """
        while True:
            with flint().ctx.workprec(self.width + GUARD):
                found = decision(self.ball())
            if found is not None:
                return found
            self.extend(2 * self.width)

    def below(self, bound: Callable[[], Ball]) -> bool:
        """Return whether the number is below `bound`, computed again at each precision."""
        return bool(self.decide(lambda u: order(u, bound())))


def order(one: Ball, other: Ball) -> bool | None:
    """Return whether one number is below another, or None if their enclosures do not decide."""
    if one <= other:
        return True
    return False if one >= other else None


def floor(number: Ball) -> int | None:
    """Return the number's floor, or None if its enclosure does not decide."""
    found = number.floor().unique_fmpz()
    return None if found is None else int(found)
