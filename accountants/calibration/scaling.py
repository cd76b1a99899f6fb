"""The same mechanisms with more or less noise."""

from __future__ import annotations

import math
from fractions import Fraction

from dpaudit.accountants.closed_forms.rounding import down, up
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import AnyMechanism


def scaled(mechanism: AnyMechanism, factor: float) -> AnyMechanism:
    """A mechanism whose noise is `factor` times as large, rounded towards more noise.

    A sigma or scale is multiplied, an epsilon divided. A mechanism whose noise is not free to choose stays
    as it is.

    Raises:
        CannotBound: the noise is past the largest double, or the epsilon below the smallest.
    """
    if mechanism.noise is None:
        return mechanism
    name, value = mechanism.noise
    if name != "epsilon":
        product = up(Fraction(value) * Fraction(factor))
        if not math.isfinite(product):
            raise CannotBound(f"noise {value!r} times {factor!r} exceeds every double", where="factor")
        return mechanism.with_noise(product)
    quotient = down(Fraction(value) / Fraction(factor))
    if not 0.0 < quotient < math.inf:
        raise CannotBound(f"epsilon {value!r} over {factor!r} is not a positive double", where="factor")
    return mechanism.with_noise(quotient)
