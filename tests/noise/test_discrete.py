"""The discrete samplers: their tables, bounds and rejections against mpmath, with every branch forced."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import ctx
from mpmath import mp, mpf
from scipy import stats

from dpaudit.errors import InvalidParameter
from dpaudit.noise import continuous, discrete
from dpaudit.noise.bits import SeededBits
from dpaudit.noise.continuous import LAPLACE, Scale
from dpaudit.noise.reals import Uniform
from tests.noise.reference import Scripted
from tests.noise.test_continuous import WORDS, enumerated
from tests.sweeps import sweep

ALARM = 1e-6


def masses(sigma: float, reach: int) -> dict[int, mpf]:
    """The discrete Gaussian's probabilities up to `reach`, with a sum that goes further."""
    weight = {k: mp.exp(-mpf(k * k) / (2 * mpf(sigma) ** 2)) for k in range(-4 * reach - 50, 4 * reach + 51)}
    total = mp.fsum(weight.values())
    return {k: weight[k] / total for k in range(-reach, reach + 1)}


@pytest.mark.parametrize("sigma", [1e-200, 1e-3, 0.3, 1.0, 2.718281828, 3.99])
def test_each_table_entry_is_the_first_64_bits_of_the_distribution(sigma: float) -> None:
    first, table = discrete._table(sigma)
    with mp.workdps(80):
        p = masses(sigma, 12 * max(1, int(sigma)) + 12)
        below = mp.fsum(q for k, q in p.items() if k < first)
        for k, entry in enumerate(table.tolist(), start=first):
            # A probability so near to 1 that 80 digits do not tell is below it all the same.
            assert entry == min(int(mp.floor(below * 2**64)), 2**64 - 1)
            below += p[k]


@pytest.mark.parametrize("sigma", [4.0, 7.5, 300.0, 1e6, 2.0**70])
def test_a_rejection_keeps_exactly_the_stated_share(sigma: float) -> None:
    """a(k) in balls is density/cell up to a constant, at most 1, and at least the bound that decides."""
    with mp.workdps(140), ctx.workprec(200):
        s, root = mpf(sigma), mp.sqrt(2)
        for x in (0.0, 0.4, -1.0, 3.0, -7.5):
            k = round(x * sigma)
            low, high = (mp.erfc((abs(k) + side) / (s * root)) / 2 for side in (-mpf(0.5), mpf(0.5)))
            density = mp.exp(-(mpf(k) ** 2) / (2 * s**2)) / (s * root * mp.sqrt(mp.pi))
            a = mp.exp(-1 / (24 * s**2)) * density / (low - high)
            found = mpf(discrete._acceptance(k, sigma).mid().str(40, radius=False))
            assert abs(found / a - 1) < mpf(10) ** -12
            most = (1 + (mpf(k) / sigma) ** 2) / (24 * mpf(sigma) ** 2)
            assert 0 <= 1 - a <= most * (1 + mpf(10) ** -9)


def test_a_proposal_is_kept_below_its_share_and_rejected_above(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound decides far below; near the share, bits of the uniform number do, and more are drawn."""
    middle = 2**62  # u = 1/4 and positive: |Z| = 0.67, which is rounded to 3 at sigma = 4
    with ctx.workprec(256):
        share = discrete._acceptance(3, 4.0) * 2**64
        first = int(share.floor().unique_fmpz())
        rest = int(((share - first) * 2**64).floor().unique_fmpz())
    settled = []
    true = Uniform.below
    monkeypatch.setattr(Uniform, "below", lambda self, bound: (settled.append(self), true(self, bound))[1])
    for word, more, kept, decided in (
        (2**63, [], 1, 0),
        (first - 2, [], 1, 1),
        (first + 1, [], 0, 1),
        (first, [rest - 9], 1, 1),
        (first, [rest + 9], 0, 1),
    ):
        settled.clear()
        bits = Scripted([middle, word], more)
        assert discrete._proposals(bits, 1, 4.0).tolist() == [3] * kept
        assert len(settled) == decided
        assert len(bits.taken) == len(more)


def test_a_word_that_equals_an_entry_is_decided_by_more_bits() -> None:
    first, table = discrete._table(1.0)
    place = 9
    with ctx.workprec(256):
        at = discrete._below(first + place, 1.0) * 2**64
        rest = int(((at - int(table[place])) * 2**64).floor().unique_fmpz())
    for more, k in ((rest - 9, first + place - 1), (rest + 9, first + place)):
        bits = Scripted([int(table[place])], [more])
        assert discrete.discrete_gaussian(bits, 1, 1.0).tolist() == [k]
        assert bits.taken == [(more, 64)]


def test_words_beyond_a_table_are_decided_too() -> None:
    first, table = discrete._table(1.0)
    found = discrete.discrete_gaussian(Scripted([0, 2**64 - 1], [1, 2**64 - 2]), 2, 1.0).tolist()
    with mp.workdps(60):
        p = masses(1.0, 40)
        for k, u in zip(found, (Fraction(3, 2**129), 1 - Fraction(3, 2**129)), strict=True):
            low = mp.fsum(q for at, q in p.items() if at < k)
            assert low <= mpf(u.numerator) / u.denominator < low + p[k]
    assert found[0] < first
    assert found[1] > first + len(table) - 2


@sweep("scale", [0.2, 1.0, 2.5], everyday=(0, 1))
def test_discrete_laplace_enumerated(scale: float) -> None:
    """The law of its rounding, over all beginnings of a number, is that of two-sided geometric noise."""
    offset = []
    true = continuous.floors
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discrete, "floors", lambda *a, **n: (offset.append(a[4]), true(*a, **n))[1])
        discrete.discrete_laplace(Scripted(list(WORDS)), 1, scale)
    with mp.workdps(60):
        q = mp.exp(-1 / mpf(scale))
        found = enumerated(LAPLACE, Scale.of(scale, 0), lambda: offset[0](0), mirrored=True)
        for k in range(-20, 21):
            p = found.get(k, Fraction(0))
            expected = (1 - q) / (1 + q) * q ** abs(k)
            assert abs(mpf(p.numerator) / p.denominator - expected) < mpf(2) ** -60


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.9, 4.0, 6.0, 50.0])
def test_discrete_gaussian_counts(sigma: float) -> None:
    """Chi-square at a false-alarm rate of 1e-6; a sigma that is 3% off is rejected."""
    drawn = discrete.discrete_gaussian(SeededBits(np.random.default_rng(7)), 300_000, sigma)
    for assumed, accepted in ((sigma, True), (1.03 * sigma, False)):
        assert (chi_square(drawn, gaussian_masses(assumed)) > ALARM) is accepted


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0, 20.0])
def test_discrete_laplace_counts(scale: float) -> None:
    drawn = discrete.discrete_laplace(SeededBits(np.random.default_rng(8)), 300_000, scale)
    for assumed, accepted in ((scale, True), (1.03 * scale, False)):
        k = np.arange(-400, 401)
        p = np.tanh(0.5 / assumed) * np.exp(-np.abs(k) / assumed)
        assert (chi_square(drawn, p) > ALARM) is accepted


def gaussian_masses(sigma: float) -> Any:
    weights = np.exp(-0.5 * (np.arange(-400, 401) / sigma) ** 2)
    return weights / weights.sum()


def chi_square(drawn: Any, p: Any) -> float:
    counts = np.bincount(drawn + 400, minlength=801)
    expected = p * len(drawn)
    frequent = expected > 50.0
    observed = [*counts[frequent], counts[~frequent].sum()]
    wanted = [*expected[frequent], max(expected[~frequent].sum(), 1e-9)]
    if wanted[-1] < 5.0:
        observed, wanted = observed[:-1], wanted[:-1]
    statistic = sum((o - w) ** 2 / w for o, w in zip(observed, wanted, strict=True))
    return float(stats.chi2.sf(statistic, max(1, len(observed) - 1)))


@pytest.mark.parametrize("size", [2.0**52, 1e30])
def test_scales_beyond_doubles_are_drawn_as_integers(size: float) -> None:
    """Their last digits are as random as the first: among 400 draws both parities, about evenly."""
    for draw, spread in ((discrete.discrete_gaussian, 1.0), (discrete.discrete_laplace, 2.0**0.5)):
        drawn = draw(SeededBits(np.random.default_rng(9)), 400, size).tolist()
        odd = sum(int(k) % 2 for k in drawn)
        assert stats.binomtest(odd, 400, 0.5).pvalue > ALARM
        moment = sum((k / size) ** 2 for k in drawn) / 400
        assert 0.5 < moment / spread**2 < 2.0


def test_no_draws_are_no_draws() -> None:
    for sigma in (1.0, 9.0):
        assert discrete.discrete_gaussian(Scripted([]), 0, sigma).shape == (0,)
        assert discrete.discrete_laplace(Scripted([]), 0, sigma).shape == (0,)


@pytest.mark.parametrize("seed", range(5))
def test_noise_that_may_exceed_every_double_is_refused_and_the_widest_is_drawn(seed: int) -> None:
    bits = SeededBits(np.random.default_rng(seed))
    with pytest.raises(InvalidParameter, match="exceed every double"):
        discrete.discrete_gaussian(bits, 3, 1.7e308)
    assert len(discrete.discrete_gaussian(bits, 3, 2.0**1000)) == 3
