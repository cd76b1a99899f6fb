"""What exact noise costs a draw, beside numpy's, OpenDP's, and draws in rational arithmetic, in one run.

`pytest benchmarks/bench_noise.py -n 0 -s` prints both times of each pair and their ratio, which has a bar.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from dpaudit.noise import continuous, discrete, rational
from dpaudit.noise.bits import OperatingSystemBits

N, FEW = 1_000_000, 2_000
SCALE = 3.0
BITS, GENERATOR = OperatingSystemBits(), np.random.default_rng(1)
VALUES = GENERATOR.normal(size=N)
NUMPYS: dict[str, Any] = {"gaussian": GENERATOR.normal, "laplace": GENERATOR.laplace}


def ratio(name: str, ours: Callable[[], Any], other: Callable[[], Any], other_draws: int = N) -> float:
    """A draw's processor time over that of the other way: the least of five of each, taken in turn."""
    times: dict[Callable[[], Any], list[float]] = {ours: [], other: []}
    for _ in range(5):
        for call, taken in times.items():
            started = time.process_time()
            call()
            taken.append(time.process_time() - started)
    one, two = 1e9 * min(times[ours]) / N, 1e9 * min(times[other]) / other_draws
    sys.stdout.write(f"{name}: {one:.1f} ns a draw, beside {two:.1f} ns: ratio {one / two:.4f}\n")
    return one / two


def exactly(noise: str) -> Callable[[], Any]:
    draw = getattr(continuous, noise)
    return lambda: draw(BITS, VALUES, SCALE, "x").to_doubles()


@pytest.mark.parametrize("noise", NUMPYS)
def test_at_most_ten_times_numpys(noise: str) -> None:
    found = ratio(f"{noise} beside numpy", exactly(noise), lambda: VALUES + NUMPYS[noise](0.0, SCALE, N))
    assert found <= 10.0


@pytest.mark.parametrize("noise", NUMPYS)
def test_at_least_twenty_times_as_fast_as_opendp(noise: str) -> None:
    dp = import_module("opendp.prelude")
    dp.enable_features("contrib")
    distance = dp.l2_distance(T=float) if noise == "gaussian" else dp.l1_distance(T=float)
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), distance
    mechanism = getattr(dp.m, f"make_{noise}")(*space, scale=SCALE)
    values = [0.0] * FEW
    assert ratio(f"{noise} beside OpenDP", exactly(noise), lambda: mechanism(values), FEW) <= 1.0 / 20.0


@pytest.mark.parametrize("noise", ["discrete_gaussian", "discrete_laplace"])
@pytest.mark.parametrize("scale", [0.7, 3.0, 20.0, 1e4])
def test_discrete_noise_is_at_least_ten_times_as_fast_as_one_by_one(noise: str, scale: float) -> None:
    quick, slow = getattr(discrete, noise), getattr(rational, noise)
    of = Fraction(scale) ** (2 if noise == "discrete_gaussian" else 1)
    found = ratio(
        f"{noise} of scale {scale:g} beside rational arithmetic",
        lambda: quick(BITS, N, scale),
        lambda: [slow(of, BITS) for _ in range(FEW)],
        FEW,
    )
    assert found <= 1.0 / 10.0
