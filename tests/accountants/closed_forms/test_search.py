"""Brent's two methods find what scipy's find, to the last digit."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.optimize import brentq, minimize_scalar

from dpaudit.accountants.closed_forms import gaussian
from dpaudit.accountants.closed_forms.search import minimum, root

UNIT = 2.0**-53
CROSSING: dict[str, Callable[[float], float]] = {
    "smooth": lambda x: math.exp(x) - 2.0,
    "flat": lambda x: x**3 - 1e-9,
    "cut off": lambda x: max(math.log(x + 1e-3), -5.0) + 3.0,
    "a step": lambda x: -1.0 if x < 0.3 else 1.0,
    "at an end": lambda x: x - 20.0,
}
HOLLOW: dict[str, Callable[[float], float]] = {
    "square": lambda x: (x - 1.3) ** 2,
    "kink": lambda x: abs(x - 100.0) + 1e-3 * x,
    "wall": lambda x: 1e290 * (1200.0 + x) if x > 0.5 else (x + 29.0) ** 2,
    "at an end": lambda x: x,
}


@pytest.mark.parametrize("absolute", [1e-300, 1e-9])
@pytest.mark.parametrize("name", CROSSING)
def test_roots_are_scipys(name: str, absolute: float) -> None:
    function = CROSSING[name]
    found = root(function, 0.0, 20.0, absolute, 1e-13)
    assert found == brentq(function, 0.0, 20.0, xtol=absolute, rtol=1e-13, maxiter=4000)


@pytest.mark.parametrize("name", HOLLOW)
def test_minima_are_scipys(name: str) -> None:
    function = HOLLOW[name]
    with np.errstate(over="ignore", invalid="ignore"):
        known = minimize_scalar(function, bounds=(-300.0, 300.0), method="bounded", options={"xatol": 2e-6})
    assert minimum(function, -300.0, 300.0, 2e-6) == known.x


def test_the_scaled_complement_is_within_its_allowance() -> None:
    """exp(t^2) erfc(t) on both sides of 7, where its two forms meet."""
    for t in [0.0, *np.linspace(0.01, 9.0, 400), *np.geomspace(9.0, 30.0, 30), math.nextafter(7.0, 0.0), 7.0]:
        with mp.workdps(60 + int(t * t)):
            true = mp.exp(mpf(float(t)) ** 2) * mp.erfc(mpf(float(t)))
            assert abs(mpf(gaussian._erfcx(float(t))) - true) <= 12 * UNIT * true
    far = 1e9  # 1 / (t sqrt pi), to 1e-18
    assert gaussian._erfcx(far) == pytest.approx(1.0 / (far * math.sqrt(math.pi)), rel=4 * UNIT)
