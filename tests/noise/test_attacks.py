"""Published attacks on floating-point noise: each separates neighbours under numpy's noise, none under ours.

Mironov, I. (2012). On significance of the least significant bits for differential privacy. CCS.
Haney, S., Desfontaines, D., Hartman, L., Shrestha, R. and Hay, M. (2022). Precision-based attacks and
interval refining: how to break, then fix, differential privacy on finite computers.
Jin, J., McMurtry, E., Rubinstein, B. and Ohrimenko, O. (2022). Are we there yet? Timing and floating-point
attacks on differential privacy systems. IEEE S&P.
"""

from typing import Any

import numpy as np
import pytest

from dpaudit.noise.bits import SeededBits
from dpaudit.noise.grid import grid
from dpaudit.noise.randomness import ExactRandomness, Randomness, SeededRandomness

N = 1_000_000


def numpys() -> Randomness:
    return SeededRandomness(np.random.default_rng(1))


def ours() -> Randomness:
    return ExactRandomness(SeededBits(np.random.default_rng(1)))


def on_lattice(values: Any, exponent: int) -> Any:
    """Which values are multiples of 2^exponent."""
    scaled = np.ldexp(values, -exponent)
    return scaled == np.rint(scaled)


def advantage(one: Any, other: Any) -> float:
    """How much likelier an event is on one side: at most delta, for (0, delta)-DP."""
    return abs(float(np.mean(one)) - float(np.mean(other)))


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_mironov_the_last_bits_near_zero(noise: str) -> None:
    """f = 1 leaves multiples of 2^-54 around 0, f = 0 finer ones: an impossible output tells the data.

    The noise has scale 10, so that honest outputs differ by a few per cent at most.
    """
    for source, fooled in ((numpys(), True), (ours(), False)):
        outputs = [getattr(source, noise)(np.full(N, f), 10.0) for f in (0.0, 1.0)]
        near = [y[np.abs(y) < 0.25] for y in outputs]
        assert min(map(len, near)) > 10_000
        seen = advantage(*(on_lattice(y, -54) for y in near))
        assert (seen > 0.4) is fooled
        assert (seen == 0.0) is not fooled


def test_haney_the_precision_of_a_large_value() -> None:
    """Of v = 2^20 only multiples of 2^-33 are left near 0, of v = 0 finer ones, at a sigma of 2^20."""
    for source, fooled in ((numpys(), True), (ours(), False)):
        outputs = [source.gaussian(np.full(N, v), 2.0**20) for v in (0.0, 2.0**20)]
        near = [y[np.abs(y) < 2.0**12] for y in outputs]
        assert min(map(len, near)) > 500
        seen = advantage(*(on_lattice(y, -34) for y in near))
        assert (seen > 0.5) is fooled
        assert (seen == 0.0) is not fooled


def ziggurat_widths() -> Any:
    """numpy's table, found from draws: a normal number is an integer of 52 bits times one of 256 widths."""
    generator = np.random.default_rng(2)
    start = generator.bit_generator.state
    words = generator.bit_generator.random_raw(60_000)
    place, sizes = words & 0xFF, ((words >> np.uint64(9)) & np.uint64(2**52 - 1)).astype(np.float64)
    drawn = np.empty(len(words))
    for i in range(len(words)):  # each from one word of its own, unless the word is rejected
        generator.bit_generator.state = start
        generator.bit_generator.advance(i)
        drawn[i] = generator.standard_normal()
    widths = np.zeros(256)
    for index in range(256):
        x, r = np.abs(drawn[place == index]), sizes[place == index]
        candidates = np.median(x / r) * (1.0 + 2.0**-52 * np.arange(-3, 4))
        fits = [(w * r == x).mean() for w in candidates]
        widths[index] = candidates[int(np.argmax(fits))] if max(fits) > 0.5 else 0.0
    return widths


def reachable(outputs: Any, widths: Any) -> Any:
    """Whether each output is an integer times a width, rounded: what the sampler adds to 0."""
    y = np.abs(outputs)[:, np.newaxis]
    steps = np.rint(y / widths)
    return (steps * widths == y).any(axis=1)


def test_jin_the_feasible_outputs_of_a_normal_sampler() -> None:
    """Small outputs of f = 0 are products of the sampler's table; those of f = 1 are so by chance only."""
    widths = ziggurat_widths()
    assert (widths > 0.0).sum() > 250  # the first ones are rarely accepted at once
    widths = widths[widths > 0.0]
    for source, fooled in ((numpys(), True), (ours(), False)):
        outputs = [source.gaussian(np.full(N, f), 1.0) for f in (0.0, 1.0)]
        near = [y[(np.abs(y) < 2.0**-10)] for y in outputs]
        assert min(map(len, near)) > 200
        seen = advantage(*(reachable(y, widths) for y in near))
        assert (seen > 0.5) is fooled
        assert seen < 0.15 or fooled


def test_every_output_of_ours_is_on_the_public_grid() -> None:
    for sigma in (1e-3, 1.0, 2.0**20):
        y = ours().gaussian(np.linspace(-1e3, 1e3, 10_000) * sigma, sigma)
        assert on_lattice(y, grid(sigma)).all()
