"""Exact comparison of noisy values with a secret noisy threshold.

Neither noise is rounded: the proof is about real-valued noise, and a threshold on a grid would need another
one. Doubles decide if their error allows it; otherwise ball arithmetic uses more bits of both numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, TypeAlias

import numpy as np

from dpaudit.noise.bits import Bits
from dpaudit.noise.continuous import LAPLACE, MARGIN, NORMAL, Law
from dpaudit.noise.reals import GUARD, WORD, Ball, Uniform, exact, flint

#: The distribution of the noise on the threshold and on the values.
LawName: TypeAlias = Literal["laplace", "normal"]
_LAWS: dict[LawName, Law] = {"laplace": LAPLACE, "normal": NORMAL}


class Level(ABC):
    """A threshold's noise, drawn once."""

    @abstractmethod
    def reached(self, value: float, threshold: float, scale: float) -> bool:
        """Return whether value plus new noise of this scale is at least threshold plus its noise."""


class FloatLevel(Level):
    """A threshold's noise drawn in floating point."""

    def __init__(self, generator: np.random.Generator, law: LawName, scale: float) -> None:
        self._draw = generator.laplace if law == "laplace" else generator.normal
        self._level = float(self._draw(0.0, scale))

    def reached(self, value: float, threshold: float, scale: float) -> bool:
        """As `Level.reached`."""
        return bool(value + self._draw(0.0, scale) >= threshold + self._level)


class ExactLevel(Level):
    """A threshold's real-valued noise, compared exactly."""

    def __init__(self, bits: Bits, law: LawName, scale: float) -> None:
        self._bits = bits
        self._law = _LAWS[law]
        self._level = _Noise(bits, self._law, scale)

    def reached(self, value: float, threshold: float, scale: float) -> bool:
        """As `Level.reached`."""
        noise, level = _Noise(self._bits, self._law, scale), self._level
        ahead = value - threshold
        size = abs(ahead) + abs(noise.near) + abs(level.near)
        over = ahead + noise.near - level.near
        if abs(over) > noise.error + level.error + 2.0**-50 * size:
            return over > 0.0
        width = WORD
        while True:
            width *= 2
            with flint().ctx.workprec(width + GUARD):
                left = exact(value) - exact(threshold) + noise.ball(width) - level.ball(width)
                if left >= 0:
                    return True
                if left < 0:
                    return False


class _Noise:
    """A real random number: a double `near`, at most `error` away, and a ball at any precision."""

    def __init__(self, bits: Bits, law: Law, scale: float) -> None:
        # A sign and the first 63 bits of a number in [0, 1/2).
        word = bits.take(WORD)
        self._sign = -1 if word >> (WORD - 1) else 1
        known = word & (2 ** (WORD - 1) - 1)
        self._uniform = Uniform(bits, known)
        self._law, self._scale = law, scale
        u = max(known, 1) * 2.0**-WORD
        away = -float(law.quantile(np.array(u)))
        self.near = self._sign * scale * away
        # As in `continuous.floors`: the missing bits and the error of the quantile.
        self.error = scale * (law.steepness * (2.0**-WORD / u + 2.0**-52) + MARGIN * away)
        if u < 2.0**-44:
            self.error = np.inf

    def ball(self, width: int) -> Ball:
        """Return an enclosure of the number from `width` bits of its uniform number."""
        self._uniform.extend(width)
        return -self._sign * exact(self._scale) * self._law.ball(self._uniform.ball())
