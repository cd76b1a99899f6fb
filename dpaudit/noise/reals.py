"""Real numbers that random bits determine, known to as many digits as a decision needs.

A uniform number is a row of fair bits, of which more are drawn as they are needed. What is computed from it
is an enclosure in ball arithmetic: a decision is made only where every number of the enclosure agrees on it,
and otherwise on more bits. So every decision is that of the real number. python-flint is imported when the
first such decision is made.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

from dpaudit.noise.bits import Bits

#: A number that is computed anew for every precision; a `flint.arb`.
Ball: TypeAlias = Any

WORD = 64
#: Digits of an enclosure beyond those of the bits that it is computed from.
GUARD = 64


def flint() -> Any:
    """The module, imported late: most processes never need it."""
    import flint

    return flint


def exact(number: float | Fraction) -> Ball:
    """A double or a quotient as a ball, as sharp as the precision allows."""
    ratio = Fraction(number)
    return flint().arb(flint().fmpq(ratio.numerator, ratio.denominator))


class Uniform:
    """A uniform real number in [0, 1), given by its first bits; further ones are drawn when it is asked.

    Args:
        bits: where further bits come from.
        known: the first bits, as an integer; left out, they are drawn.
        width: how many bits `known` has.
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
        """A number at most 2^-52 away."""
        return self._known / (1 << self.width)

    def ball(self) -> Ball:
        """All numbers that begin with the known bits, at the current precision."""
        arb = flint().arb
        return (arb(self._known) + arb(0.5, 0.5)) * arb(2) ** -self.width

    def decide(self, decision: Callable[[Ball], Any]) -> Any:
        """The first answer that is not None, at more and more bits of this number.

        `decision` takes an enclosure of the number, computes at its precision, and answers None where that
        decides nothing.
        """
        while True:
            with flint().ctx.workprec(self.width + GUARD):
                found = decision(self.ball())
            if found is not None:
                return found
            self.extend(2 * self.width)

    def below(self, bound: Callable[[], Ball]) -> bool:
        """Whether the number is below `bound`, computed anew for every precision."""
        return bool(self.decide(lambda u: order(u, bound())))


def order(one: Ball, other: Ball) -> bool | None:
    """Whether one number is below another; None where their enclosures do not tell."""
    if one <= other:
        return True
    return False if one >= other else None


def floor(number: Ball) -> int | None:
    """The number's floor; None where its enclosure does not tell."""
    found = number.floor().unique_fmpz()
    return None if found is None else int(found)
