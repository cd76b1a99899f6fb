"""Continuous noise is the real number rounded: against mpmath, by enumeration, with every branch forced."""

import functools
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from mpmath import mp, mpf
from scipy import stats

from dpaudit.errors import InvalidParameter
from dpaudit.noise import continuous
from dpaudit.noise.bits import SeededBits
from dpaudit.noise.continuous import LAPLACE, NORMAL, Law, Scale
from dpaudit.noise.grid import OnGrid, grid
from dpaudit.noise.reals import exact
from tests.noise.reference import Scripted, edge, laplace_below, normal_below
from tests.sweeps import sweep

WORDS = np.random.default_rng(1).integers(0, 2**64, 2000, dtype=np.uint64).tolist()
#: Few bits that are not zero, all of them, and the ends of the range, with either sign.
EXTREME = [sign + low for sign in (0, 2**63) for low in (0, 1, 2, 2**19, 2**40 + 1, 2**62, 2**63 - 1)]
SCALES = [1.0, 3.7, 1e-5, 2.0**40, 1.9999999999]
LAWS = {"normal": (NORMAL, normal_below), "laplace": (LAPLACE, laplace_below)}
DRAW: dict[str, Callable[..., OnGrid]] = {"normal": continuous.gaussian, "laplace": continuous.laplace}


def values(scale: float, count: int) -> Any:
    generator = np.random.default_rng(2)
    spread = generator.normal(size=count) * scale * 10.0 ** generator.integers(-12, 6, count)
    spread[:3] = 0.0, scale, -0.5 * 2.0 ** grid(scale)  # the last lies on an edge between two cells
    return spread


def in_its_cell(m: int, word: int, v: float, scale: float, below: Any) -> bool:
    """Whether a number that begins with the word leads to m: to noise within g/2 of m g - v."""
    g = Fraction(2) ** grid(scale)
    ends = [((m + side) * g - Fraction(v)) / Fraction(scale) for side in (Fraction(-1, 2), Fraction(1, 2))]
    u = [mpf(end.numerator) / end.denominator for end in edge(word)]
    if word < 2**63:  # positive noise: its upper tail has the probability u
        ends = [-end for end in reversed(ends)]
    return bool(below(ends[0]) <= u[1] and u[0] <= below(ends[1]))


@pytest.fixture(params=["together", "one by one"])
def _either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All draws as a few are made, too."""
    if request.param == "one by one":
        monkeypatch.setattr(continuous, "_FEW", 10**6)


@pytest.mark.usefixtures("_either_way")
@pytest.mark.parametrize("law", LAWS)
@sweep("scale", SCALES, everyday=(0, 3))
def test_every_draw_is_the_real_number_rounded(law: str, scale: float, nightly: bool) -> None:
    words = EXTREME + (WORDS if nightly else WORDS[:400])
    given = values(scale, len(words))
    found = DRAW[law](Scripted(words), given, scale, "x")
    assert found.exponent == grid(scale)
    with mp.workdps(60):
        for m, word, v in zip(found.integers.tolist(), words, given.tolist(), strict=True):
            assert in_its_cell(m, word, v, scale, LAWS[law][1])


def test_the_reference_sees_a_quantile_that_is_off_by_a_billionth(monkeypatch: pytest.MonkeyPatch) -> None:
    off = Law(lambda u: NORMAL.quantile(u) * (1.0 + 1e-9), NORMAL.ball, NORMAL.steepness)
    monkeypatch.setattr(continuous, "NORMAL", off)
    found = continuous.gaussian(Scripted(list(WORDS)), np.zeros(200), 1.0, "x")
    with mp.workdps(60):
        drawn = zip(found.integers.tolist(), WORDS, strict=False)
        right = [in_its_cell(m, word, 0.0, 1.0, normal_below) for m, word in drawn]
    assert sum(right) < 100


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("law", LAWS)
def test_few_draws_are_those_of_many(law: str, mirrored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    offset = np.random.default_rng(3).uniform(0.0, 1.0, len(EXTREME + WORDS))
    bits = [Scripted(EXTREME + WORDS) for _ in range(2)]
    found = []
    for few, each in zip((0, 10**6), bits, strict=True):
        monkeypatch.setattr(continuous, "_FEW", few)
        how: Any = {"exactly": lambda i: exact(float(offset[i])), "mirrored": mirrored}
        found.append(continuous.floors(each, LAWS[law][0], Scale.of(3.0, -32), offset, **how))
    assert found[0].dtype == found[1].dtype == np.int64
    assert found[0].tolist() == found[1].tolist()
    assert bits[0].taken == bits[1].taken != []


@pytest.mark.usefixtures("_either_way")
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("margin", [2.0**-36, 2.0**-30])
def test_balls_decide_as_doubles_do(law: str, margin: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a larger margin many draws, or all, are decided in balls: the same words, the same cells."""
    settled = []
    true = continuous._settle

    def counted(*args: Any, **named: Any) -> int:
        settled.append(args)
        return true(*args, **named)

    monkeypatch.setattr(continuous, "_settle", counted)
    given = values(3.0, len(WORDS))
    sharp = DRAW[law](Scripted(list(WORDS)), given, 3.0, "x").integers
    before = len(settled)
    monkeypatch.setattr(continuous, "MARGIN", margin)
    blunt = DRAW[law](Scripted(list(WORDS)), given, 3.0, "x").integers
    assert before < 5
    assert len(settled) - before > 15
    assert np.array_equal(sharp, blunt)


def test_an_undecided_word_draws_more_bits_until_the_cell_is_known() -> None:
    """A word that begins a number near an edge: each of two continuations leads to its own side."""
    with mp.workdps(60):
        at = normal_below(Fraction(-5, 2))  # the edge between the cells -3 and -2, at scale 1 on the integers
        first = int(mp.floor(at * 2**64))
        rest = int(mp.floor((at * 2**64 - first) * 2**64))
    word = first + 2**63  # negative noise
    for more, m in ((rest - 1000, -3), (rest + 1000, -2)):
        bits = Scripted([], [more])
        half = functools.partial(exact, 0.5)
        assert continuous._settle(bits, NORMAL, Scale.of(1.0, 0), word, half, mirrored=False) == m
        assert bits.taken == [(more, 64)]


def enumerated(
    law: Law, scale: Scale, offset: Callable[[], Any], *, mirrored: bool = False
) -> dict[int, Fraction]:
    """The probability of each outcome: all beginnings of a number, longer and longer until they decide."""
    found: dict[int, Fraction] = defaultdict(Fraction)
    for sign in (1, -1):
        decide = continuous.cell(law, scale, 1 if mirrored else sign, offset)
        undecided = [(0, 1)]
        while undecided:
            known, width = undecided.pop()
            with ctx.workprec(160):
                m = decide((arb(known) + arb(0.5, 0.5)) * arb(2) ** -width)
            if m is not None:
                found[sign * m if mirrored else m] += Fraction(1, 2**width)
            elif width < 72:
                undecided += [(2 * known, width + 1), (2 * known + 1, width + 1)]
    return found


@functools.cache
def enumerated_at(law: str, steps: float, rest: float) -> dict[int, Fraction]:
    """Of so many steps of noise about a value that lies this far from a grid point."""
    return enumerated(LAWS[law][0], Scale.of(steps, 0), functools.partial(exact, 0.5 + rest))


@pytest.mark.parametrize("law", LAWS)
@sweep("steps, rest", [(1.0, 0.0), (0.3, 0.25), (2.5, -0.49)], everyday=(0, 1))
def test_enumerated_on_a_coarse_grid_each_cell_has_its_probability(
    law: str, steps: float, rest: float
) -> None:
    found = enumerated_at(law, steps, rest)
    assert abs(1 - sum(found.values())) < Fraction(1, 2**60)
    below = LAWS[law][1]
    with mp.workdps(60):
        for m in range(-12, 13):
            high, low = (
                below((m + side - Fraction(rest)) / Fraction(steps))
                for side in (Fraction(1, 2), -Fraction(1, 2))
            )
            p = found.get(m, Fraction(0))
            assert abs(mpf(p.numerator) / p.denominator - (high - low)) < mpf(2) ** -60


def test_neighbouring_values_reach_the_same_grid_points() -> None:
    """Both of two values lead to every point of a small range with positive probability."""
    small = range(-3, 5)
    for rest in (0.0, 0.4):
        found = enumerated_at("normal", 1.0, rest)
        assert all(found[m] > 0 for m in small)


@pytest.mark.parametrize("law", LAWS)
def test_quantiles_keep_their_assumed_error(law: str, nightly: bool) -> None:
    """On a dense and a random set, with the tails as far as doubles decide; a day takes a quarter of them."""
    generator = np.random.default_rng(3)
    dense = np.concatenate([np.linspace(2.0**-44, 0.5, 4001)[:-1], 0.5 - np.geomspace(1e-16, 0.4, 2000)])
    tails = np.exp2(-generator.uniform(1.0, 44.0, 6000))
    u = np.concatenate([dense, tails, generator.random(6000) / 2.0])
    u = u[(u > 0.0) & (u < 0.5)][:: 1 if nightly else 4]
    with ctx.workprec(160):
        true = [LAWS[law][0].ball(arb(fmpq(*x.as_integer_ratio()))) for x in u.tolist()]
        worst = max(
            abs(float((exact(x) - t) / t))
            for x, t in zip(LAWS[law][0].quantile(u).tolist(), true, strict=True)
        )
    # Half of the margin at most: a library that comes near to it shows here first.
    assert 0.0 < worst < 2.0**-48
    assert worst < continuous.MARGIN / 2.0


@pytest.mark.parametrize("law", LAWS)
def test_a_quantile_changes_no_faster_than_stated(law: str) -> None:
    """By numerical differentiation of the balls' quantile, which is that of mpmath's distribution."""
    found = LAWS[law][0]
    with ctx.workprec(200):
        for u in (0.5, 0.4999, 0.3, 0.1, 1e-3, 1e-9, 2.0**-44):
            near = found.ball(exact(u) * (1 - exact(2.0**-60)))
            change = float((found.ball(exact(u)) - near) * arb(2) ** 60)
            assert 0.0 < change < found.steepness * (1.0 + 1e-9)
            with mp.workdps(40):
                x = mpf(near.mid().str(40, radius=False))
                there = LAWS[law][1](Fraction(int(mp.floor(x * 2**120)), 2**120))
                assert abs(there / (u * (1 - mpf(2) ** -60)) - 1) < mpf(10) ** -25


def test_the_distribution_of_many_draws() -> None:
    """Kolmogorov and Smirnov's test at a false-alarm rate of 1e-6; a scale that is 4% off is rejected."""
    for draw, law in ((continuous.gaussian, stats.norm), (continuous.laplace, stats.laplace)):
        noise = (
            draw(SeededBits(np.random.default_rng(4)), np.full(200_000, 7.25), 3.0, "x").to_doubles() - 7.25
        )
        assert stats.kstest(noise / 3.0, law.cdf).pvalue > 1e-6
        assert stats.kstest(noise / 3.12, law.cdf).pvalue < 1e-6


def test_symmetric_matrices_stay_symmetric_and_isotropic() -> None:
    value = np.arange(9.0).reshape(3, 3)
    value = value + value.T
    bits = SeededBits(np.random.default_rng(5))
    noisy = continuous.symmetric(bits, np.repeat(value[np.newaxis], 60_000, axis=0), 2.0, "x")
    assert np.array_equal(noisy.integers, np.swapaxes(noisy.integers, 1, 2))
    noise = noisy.to_doubles() - value
    for i in range(3):
        for j in range(i, 3):
            sigma = 2.0 if i == j else 2.0 / np.sqrt(2.0)
            assert stats.kstest(noise[:, i, j] / sigma, stats.norm.cdf).pvalue > 1e-6
            assert stats.kstest(noise[:, i, j] / (1.05 * sigma), stats.norm.cdf).pvalue < 1e-6
    flat = noise[:, *np.triu_indices(3)]
    assert np.abs(np.corrcoef(flat.T) - np.eye(6)).max() < 0.025


def test_the_scale_off_the_diagonal_is_irrational_and_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it decided in balls: the cells are those of sigma/sqrt(2), to 2^-60 of a step."""
    value = np.zeros((200, 2, 2))
    monkeypatch.setattr(continuous, "MARGIN", 1.0)
    m = continuous.symmetric(Scripted(list(WORDS)), value, 1.0, "x").integers[:, 0, 1]
    words = WORDS[400:600]  # the diagonals come first
    with mp.workdps(60):
        g = mpf(2) ** grid(1.0)
        for cell, word in zip(m.tolist(), words, strict=True):
            u = [mpf(end.numerator) / end.denominator for end in edge(word)]
            ends = [(cell + side) * g for side in (mpf(-0.5), mpf(0.5))]
            if word < 2**63:
                ends = [-end for end in reversed(ends)]
            low, high = (mp.erfc(-end) / 2 for end in ends)  # z = sqrt(2) noise, and erfc takes z/sqrt(2)
            assert low <= u[1]
            assert u[0] <= high


def test_values_on_another_grid_are_added_exactly() -> None:
    """A finer grid keeps its rest, however small; a coarser one has none."""
    e = grid(1.0)
    for below in (-3, 0, 5, 52, 200):
        integers = np.array([3, -7, (1 << max(0, below)) // 2, 1], dtype=object)
        given = OnGrid(integers, e - below)
        found = continuous.gaussian(Scripted(list(WORDS)), given, 1.0, "x").integers
        with mp.workdps(120):
            for m, n, word in zip(found.tolist(), integers.tolist(), WORDS, strict=False):
                v = Fraction(n) * Fraction(2) ** (e - below)
                ends = [((m + side) * Fraction(2) ** e - v) for side in (Fraction(-1, 2), Fraction(1, 2))]
                ends = [-end for end in reversed(ends)] if word < 2**63 else ends
                u = [mpf(end.numerator) / end.denominator for end in edge(word)]
                assert normal_below(ends[0]) <= u[1]
                assert u[0] <= normal_below(ends[1])


@pytest.mark.parametrize("draw", DRAW.values())
def test_a_value_far_below_a_coarse_grid_is_no_error(draw: Callable[..., OnGrid]) -> None:
    """An error would tell it from 0, which it moves to another cell in 2^-1000 of all draws."""
    for value, scale in ((5e-324, 2.0**34), (-1e-310, 1e11), (1e-290, 1e30), (1e-300, 1e300)):
        near, zero = (draw(Scripted(list(WORDS)), np.array([v]), scale, "x") for v in (value, 0.0))
        assert near.integers == zero.integers


def test_a_private_scale_is_rounded_to_the_nearest_double() -> None:
    bits = Scripted([], seed=6)
    found = continuous.nearest_doubles(bits, np.array([0.1, -1e5, 1e-300]), 0.7)
    for v, out in zip((0.1, -1e5, 1e-300), found.tolist(), strict=True):
        word, width = bits.taken.pop(0)
        assert width == 128
        sign, first = word >> 127, word & (2**127 - 1)
        with mp.workdps(80):
            z = mp.sqrt(2) * mp.erfinv(2 * mpf(first) / 2**128 - 1)
            real = v + (z if sign else -z) * mpf(0.7)
            assert abs(real - out) <= min(abs(real - np.nextafter(out, side)) for side in (-np.inf, np.inf))


@pytest.mark.parametrize("draw", DRAW.values())
def test_what_does_not_fit_the_grid_is_refused_before_a_bit_is_drawn(draw: Callable[..., OnGrid]) -> None:
    for value, scale in ((np.array([1e10]), 1.0), (np.zeros(1), 1e-300), (np.array([1.0]), 1e-15)):
        bits = Scripted(list(WORDS))
        with pytest.raises(InvalidParameter):
            draw(bits, value, scale, "release 'x'")
        assert len(bits.script) == len(WORDS)
        assert bits.taken == []
