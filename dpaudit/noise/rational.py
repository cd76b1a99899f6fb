"""Integer noise from fair bits in rational arithmetic, one draw at a time.

These are Algorithms 1 to 3 of Canonne, Kamath and Steinke 2020. Seeded runs use them;
`dpaudit.noise.discrete` draws many numbers at once from the same distributions.
"""

import math
from fractions import Fraction

from dpaudit.noise.bits import Bits


def discrete_laplace(scale: Fraction, bits: Bits) -> int:
    """Draw an integer k with probability exactly proportional to exp(-|k|/scale) (Algorithm 2)."""
    t, s = scale.numerator, scale.denominator
    while True:
        low = bits.below(t)
        if not _bernoulli_exp(low, t, bits):
            continue
        high = 0
        while _bernoulli_exp(1, 1, bits):
            high += 1
        magnitude = (low + t * high) // s
        negative = bits.below(2) == 1
        if negative and magnitude == 0:
            continue
        return -magnitude if negative else magnitude


def discrete_gaussian(variance: Fraction, bits: Bits) -> int:
    """Draw an integer k with probability exactly proportional to exp(-k^2/(2 variance)) (Algorithm 3)."""
    n, d = variance.numerator, variance.denominator
    t = math.isqrt(n // d) + 1  # floor(sigma) + 1
    while True:
        proposal = discrete_laplace(Fraction(t), bits)
        # (|Y| - variance/t)^2 / (2 variance), as one fraction.
        if _bernoulli_exp((abs(proposal) * d * t - n) ** 2, 2 * n * d * t * t, bits):
            return proposal


def _bernoulli_exp(numerator: int, denominator: int, bits: Bits) -> bool:
    """Return True with probability exactly exp(-gamma), gamma = numerator/denominator >= 0 (Algorithm 1)."""
    whole, rest = divmod(numerator, denominator)
    for _ in range(whole):
        if not _bernoulli_exp_fraction(1, 1, bits):
            return False
    return _bernoulli_exp_fraction(rest, denominator, bits)


def _bernoulli_exp_fraction(numerator: int, denominator: int, bits: Bits) -> bool:
    """Return whether the first failure of Bernoulli(gamma/k), k = 1, 2, ..., is at an odd k; gamma <= 1."""
    k = 1
    while bits.below(denominator * k) < numerator:
        k += 1
    return k % 2 == 1
