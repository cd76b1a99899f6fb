"""Bits that a test chooses, and the reals that they stand for, in arithmetic of its own (mpmath)."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

from dpaudit.noise.bits import Bits


class Scripted(Bits):
    """The given words and integers first, then those of a seed; the integers that were taken are kept."""

    def __init__(self, words: list[int], integers: Sequence[int] = (), seed: int = 0) -> None:
        self.script = np.array(words, dtype=np.uint64)
        self.integers = list(integers)
        self.later = np.random.default_rng(seed)
        self.taken: list[tuple[int, int]] = []

    def words(self, count: int) -> NDArray[np.uint64]:
        missing = max(0, count - len(self.script))
        more = self.later.integers(0, 2**64, missing, dtype=np.uint64)
        found, self.script = np.concatenate([self.script[:count], more]), self.script[count:]
        return found

    def take(self, width: int) -> int:
        drawn = int.from_bytes(self.later.bytes((width + 7) // 8), "little") >> (-width % 8)
        value = self.integers.pop(0) if self.integers else drawn
        self.taken.append((value, width))
        return value


def edge(word: int) -> list[Fraction]:
    """Both ends of the numbers u in [0, 1/2) that a word's last 63 bits begin."""
    low = word & (2**63 - 1)
    return [Fraction(low, 2**64), Fraction(low + 1, 2**64)]


def normal_below(x: Fraction) -> mpf:
    """P(Z < x), to the precision that is set."""
    return mp.erfc(-mpf(x.numerator) / x.denominator / mp.sqrt(2)) / 2


def laplace_below(x: Fraction) -> mpf:
    """P(Z < x), to the precision that is set."""
    size = mp.exp(-abs(mpf(x.numerator) / x.denominator)) / 2
    return size if x < 0 else 1 - size
