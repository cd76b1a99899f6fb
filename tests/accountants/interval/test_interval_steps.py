"""Each step of an enclosure by itself, with arguments by hand that make what it allows for large.

In practice most of these terms are below 1e-12 of delta, and a test of a whole enclosure cannot see them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from dpaudit.accountants.interval import interval
from dpaudit.accountants.interval.ball_arithmetic import ball, flint
from dpaudit.accountants.interval.ball_factors import BallFactors
from dpaudit.accountants.interval.interval import Enclosure, Line, enclose_delta, enclose_epsilon, line
from dpaudit.accountants.privacy_loss import (
    GaussianTerm,
    RandomizedResponseTerm,
    SampledGaussianTerm,
    SampledLaplaceTerm,
    Term,
)
from tests import oracles

Real = Any  # mpmath's numbers carry no types
LAST = 40  # aliases that count


@pytest.fixture(autouse=True)
def _precise() -> Any:
    with flint().ctx.workprec(160), mp.workdps(40):
        yield


def real(number: Any) -> Real:
    """The middle of a ball."""
    return mpf(number.mid().str(45, radius=False))


def ends(found: Any) -> tuple[Real, Real]:
    return real(found.lower()), real(found.upper())


def arb(number: Real) -> Any:
    return flint().arb(mp.nstr(number, 45))


@dataclass(frozen=True)
class Atoms:
    """Losses with their probabilities under P, plus the loss of Gaussian noise of variance v = mu^2."""

    rows: tuple[tuple[float, float], ...]
    v: float

    def delta(self, x: Real) -> Real:
        """By the closed forms of an atom and of Gaussian noise, at any real x."""
        if self.v == 0:
            return sum(p * max(mpf(0), -mp.expm1(x - loss)) for loss, p in self.rows)
        return sum(p * oracles.gaussian_delta(mp.sqrt(self.v), x - loss) for loss, p in self.rows)

    def density(self, x: Real) -> Real:
        return sum(p * mp.npdf(x, loss + mpf(self.v) / 2, mp.sqrt(self.v)) for loss, p in self.rows)

    def moment(self, s: Any) -> Any:
        atoms = sum((ball(p) * (s * ball(loss)).exp() for loss, p in self.rows), flint().arb(0))
        return atoms * (ball(self.v) * s * (s + 1) / 2).exp()

    def tangent(self, x: Real) -> tuple[Real, Real]:
        """a and B of delta <= e^(B - a .) with equality at x: log delta is concave for one atom."""
        a = -mp.diff(lambda at: mp.log(self.delta(at)), x)
        return a, mp.log(self.delta(x)) + a * x


def aliased(curve: Callable[[Real], Real], epsilon: float, c: float, period: Real) -> Real:
    """What the complete sum of the nodes is, by Poisson's summation formula."""
    return sum(mp.exp(c * j * period) * curve(epsilon + j * period) for j in range(-LAST, LAST + 1))


def drawn(law: Atoms, c: float, step: float, nodes: int, **kinds: Any) -> Line:
    """A line that cuts nothing off unless told to."""
    values = []
    for k in range(nodes):
        s = flint().acb(ball(c), ball(step) * k)
        values.append(law.moment(s) / (s * (s + 1)))
    whole: dict[str, Any] = {"tail": flint().arb(0), "ceiling": None, "smoothing": Fraction(0)}
    whole |= {"density_tail": flint().arb(0), "anchors": [], **kinds}
    return Line(ball(c), ball(step), values, **whole)


def anchored(*tangents: tuple[Real, Real], wide: float = 0.0) -> list[tuple[Any, Any]]:
    """Anchors, whose constants are known only to within `wide` below."""
    return [(arb(a), flint().arb(arb(b - wide / 2), wide / 2)) for a, b in tangents]


@pytest.mark.parametrize("wide", [0.0, 0.5])
def test_a_coarse_step_is_corrected_for_its_aliases(wide: float) -> None:
    """The first alias on either side is bounded with equality, so that nothing may be left out."""
    law, c, step, epsilon = Atoms(((0.0, 1.0),), 1.0), 2.0, 2.0, 1.0
    period, exact = 2 * mp.pi / step, law.delta(1)
    right, left = law.tangent(epsilon + period), law.tangent(epsilon - period)
    assert left[0] < c < right[0]
    lower, upper = ends(drawn(law, c, step, 10, anchors=anchored(right, left, wide=wide))(epsilon))
    assert abs(upper / aliased(law.delta, epsilon, c, period) - 1) < 1e-8
    assert upper > exact * 1.05
    assert exact * 0.999 < lower <= exact


@pytest.mark.parametrize("constant", [-60.0, 10.0])
def test_no_alias_lies_above_the_largest_loss(constant: float) -> None:
    """Above 2.2 nothing is left, at either constant that bounds it; below, all counts."""
    law, c, step, epsilon = Atoms(((1.0, 1.0),), 0.01), 1.0, 2.75, 0.5
    period, exact = 2 * mp.pi / step, law.delta(0.5)
    left = law.tangent(epsilon - period)
    anchors = anchored((mpf(3), mpf(constant)), left)
    laid = drawn(law, c, step, 50, anchors=anchors, ceiling=Fraction(22, 10))
    lower, upper = ends(laid(epsilon))
    assert exact - 0.02 < lower <= exact < upper - 0.05


def test_aliases_below_the_largest_loss_count() -> None:
    law, c, step = Atoms(((1.0, 1.0),), 0.01), 1.0, 2 * math.pi
    anchors = anchored(law.tangent(mpf(1)), law.tangent(mpf(-1)))
    lower, upper = ends(drawn(law, c, step, 30, anchors=anchors, ceiling=Fraction(22, 10))(0.0))
    exact = law.delta(0)
    assert exact - 0.05 < lower <= exact < upper - 0.5


def test_an_imprecise_period_may_end_below_the_largest_loss() -> None:
    """The step is known to a part in a thousand, and the loss is half of that above the first alias."""
    c, step, loss = 4.0, 2 * math.pi / 3, 3.0 * (1 + 5e-4)
    constant = 40 * loss + 40 * mp.log(40) - 41 * mp.log(41)
    anchors = anchored((mpf(40), constant), (mpf(0), mpf(0)))
    law = Atoms(((loss, 1.0),), 0.0)
    laid = drawn(law, c, step, 400, anchors=anchors, ceiling=Fraction(loss))
    tail = law.moment(ball(c)) / (ball(step) * 399 * flint().arb.pi())
    lower, upper = ends(replace(laid, tail=tail, step=ball(step) * (1 + flint().arb(0, 1e-3)))(0.0))
    assert lower <= law.delta(0) <= upper
    assert upper > 200


@pytest.mark.parametrize("nodes", [2, 3, 4, 10])
def test_what_is_cut_off_is_allowed_for_on_both_sides(nodes: int) -> None:
    """The remainder is positive after two nodes, negative after more."""
    law, c, step, epsilon = Atoms(((0.0, 1.0),), 1.0), 1.0, 0.25, 2.0
    exact, anchors = law.delta(2), anchored((mpf(9), mpf(-99)), (mpf(0), mpf(0)))
    short = drawn(law, c, step, nodes, anchors=anchors)
    rest = exact - ends(short(epsilon))[1]
    laid = replace(short, tail=arb(abs(rest) * mp.exp(c * epsilon) * (1 + mpf("1e-9"))))
    lower, upper = ends(laid(epsilon))
    assert lower <= exact <= upper
    assert upper - lower == pytest.approx(2 * abs(rest), rel=1e-3)
    assert abs(rest) > 1e-3 * exact


def test_imprecise_nodes_give_what_any_of_them_may() -> None:
    law, step, error = Atoms(((0.0, 1.0),), 1.0), 0.5, ball(0.125)
    laid = drawn(law, 1.0, step, 20, anchors=anchored((mpf(0), mpf(0)), law.tangent(mpf(13))))
    first, *others = laid.nodes
    found = replace(laid, nodes=[first + flint().acb(flint().arb(0, error)), *others])(1.0)
    for moved in (first - error, first + error):
        lower, upper = ends(replace(laid, nodes=[moved, *others])(1.0))
        assert 0 < ends(found)[0] <= lower * (1 + mpf("1e-8"))
        assert ends(found)[1] >= upper


LITTLE = Atoms(((-1.0, 0.2), (1.0, 0.5), (3.0, 0.3)), 0.0), 0.04, 1.0, 0.1
MUCH = Atoms(((1.0, 0.01), (401.0, 0.99)), 0.0), 144.0, 0.05, 0.006


@pytest.mark.parametrize(
    ("law", "v", "c", "step", "cut"),
    [(*LITTLE, False), (*LITTLE, True), (*MUCH, False)],
    ids=["little", "little-cut-short", "much"],
)
def test_what_smoothing_adds_is_taken_off(law: Atoms, v: float, c: float, step: float, cut: bool) -> None:
    """By the closed forms of the smoothed law, delta and density, at a loss, where smoothing adds most.

    Little smoothing adds 99.8 % of what is taken off. At v = 144 the factor e^(v/8) is needed; for delta to
    stay above what is taken off, only one loss in a hundred lies at epsilon and the others far above.
    """
    epsilon, smooth, period = 1.0, replace(law, v=v), 2 * mp.pi / step
    anchors = anchored((mpf(9), mpf(-9999)), (mpf(0), mpf(0)))
    more = {"anchors": anchors, "smoothing": Fraction(v)}
    end = (1.8 if cut else 12.0) / math.sqrt(v)
    laid = drawn(smooth, c, step, int(end / step), **more)
    growth = mp.exp(v / mpf(8)) * v
    whole, density = aliased(smooth.delta, epsilon, c, period), aliased(smooth.density, epsilon, c, period)
    if cut:  # the rests of both sums, from the closed forms; of the second only an upper end is known
        partial = ends(laid(epsilon))[1]
        s = [flint().acb(laid.c, laid.step * k) for k in range(len(laid.nodes))]
        sums = [
            (node * at * (at + 1) * (-at * epsilon).exp()).real
            for node, at in zip(laid.nodes, s, strict=True)
        ]
        rest = density - real((2 * sum(sums[1:], sums[0] / 2)) * laid.step / (2 * flint().arb.pi()))
        assert rest > density / 100
        half, back = arb(rest / 2), (laid.c * epsilon).exp()
        tail = arb(abs(whole - partial)) * back
        laid = replace(laid, tail=tail, density_tail=flint().arb(half, half) * back)
        whole = partial - abs(whole - partial)
    lower, upper = ends(laid(epsilon))
    exact = law.delta(epsilon)
    assert exact < smooth.delta(epsilon) <= upper
    assert lower == pytest.approx(whole - growth * density, rel=1e-7)
    assert lower <= exact


def planned(monkeypatch: pytest.MonkeyPatch, releases: list[tuple[Term, int]], **plan: Any) -> Line:
    """A line that is laid after a plan by hand: any is sound."""
    (factors,) = BallFactors.orders(releases)
    step, nodes = plan.pop("step"), plan.pop("nodes")
    whole = {
        "t": step * np.arange(nodes),
        "period": 2 * math.pi / step,
        "smoothing": 0.0,
        "cut_off": 1e9,
        **plan,
    }
    monkeypatch.setattr(interval, "_plan", lambda *_: SimpleNamespace(**whole))
    return line(factors, (), 1.0)


def test_the_tail_of_the_density_by_its_integral(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two variances dampen it; the bound is hardly above the integral."""
    anchors = np.array([0.0, 0.5, 2.0]), np.zeros(3)
    v, c, step, loss = 0.25 + 0.5, mpf(0.75), 0.5, mpf(2)
    releases: list[tuple[Term, int]] = [(RandomizedResponseTerm(2.0), 1), (GaussianTerm(0.5), 1)]
    laid = planned(monkeypatch, releases, c=0.75, step=step, nodes=13, smoothing=0.5, anchors=anchors)
    moment = mp.cosh((c + 0.5) * loss) / mp.cosh(loss / 2) * mp.exp(v * c * (c + 1) / 2)
    last = mpf(step) * (len(laid.nodes) - 1)
    exact = mp.quad(lambda t: mp.exp(-v * t * t / 2), [last, last + 2, last + 9]) * moment / mp.pi
    assert exact <= real(laid.density_tail) <= 1.04 * exact


def test_each_anchor_bounds_delta_and_touches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly all at one loss: Chernoff's bound is then met at that loss + log a / (1 + a)."""
    loss, shares = mpf(12), (0.25, 3.0)
    low = 1 / (1 + mp.exp(loss))
    curve = Atoms(((12.0, 1 - low), (-12.0, low)), 0.0).delta
    anchors = np.array([0.0, *shares]), np.zeros(3)
    laid = planned(
        monkeypatch, [(RandomizedResponseTerm(12.0), 1)], c=1.0, step=0.25, nodes=9, anchors=anchors
    )
    found = [(real(a), real(b)) for a, b in laid.anchors]
    assert sorted(a for a, _ in found) == [0, *shares]
    assert found[0] == (0, 0)
    for a, b in found:
        touching = [loss + mp.log(a / (1 + a))] if a else [mpf(-60)]
        for x in (*touching, -20, -1, 0, 3, 11):
            assert curve(x) <= mp.exp(b - a * x) * (1 + mpf("1e-30"))
        assert curve(touching[0]) == pytest.approx(mp.exp(b - a * touching[0]), rel=1e-4)


@pytest.mark.parametrize(
    ("least", "tolerance"), [(1.0, 1e-30), (0.0, 1e-6)], ids=["a number", "no more than a number"]
)
@pytest.mark.parametrize(("nodes", "rung"), [(1001, 0), (1001, 3), (12, 2), (1000572, 3)])
def test_where_nothing_falls_what_is_cut_off_is_one_over_pi_t(
    nodes: int, rung: int, least: float, tolerance: float
) -> None:
    step, known = Fraction(1, 8), flint().arb((1 + least) / 2, (1 - least) / 2)
    first = mpf(nodes - 1) / 8
    wanted = float(1 / (mp.pi * first * mpf("1.1") ** rung)) * (1 + 1e-6)
    count, tail = interval._ending(lambda _, __: known, step, nodes, wanted)
    last, found = mpf(count - 1) / 8, real(tail)
    assert 1 / (mp.pi * last) <= found
    assert abs(found * mp.pi * first * mpf("1.1") ** rung - 1) < tolerance
    assert last <= first * mpf("1.1") ** rung * (1 + mpf("2e-9")) + mpf(1) / 8


@pytest.mark.parametrize("start", [1.5, 3.0, 50.0])
def test_what_rises_later_counts_from_the_beginning(start: float) -> None:
    """The sum over the nodes of a bound that is 1 between two numbers and small elsewhere."""

    def decay(first: Any, last: Any | None) -> Any:
        meets = float(first) <= 2 * start and (last is None or float(last) >= start)
        return flint().arb(1) if meets else ball(1e-9)

    count, tail = interval._ending(decay, Fraction(1, 4), 5, 1e-3)
    t = [mpf(k) / 4 for k in range(count, 401)]
    assert sum(1 / at**2 for at in t if start <= at <= 2 * start) / 4 / mp.pi <= real(tail)


def test_what_never_falls_enough_ends_the_ladder() -> None:
    count, tail = interval._ending(lambda _, __: flint().arb(1), Fraction(1, 8), 9, 0.0)
    assert mp.pi * real(tail) * mpf("1.1") ** interval._LONGER == pytest.approx(1)
    assert (count - 1) / 8 >= 1.1**interval._LONGER


def guessed(
    monkeypatch: pytest.MonkeyPatch, releases: list[tuple[Term, int]], delta: float, *guess: float
) -> Enclosure:
    """The enclosure where floating point guesses anything."""
    bracket = SimpleNamespace(lower=guess[0], upper=guess[1])
    loss = SimpleNamespace(compose=lambda _: SimpleNamespace(epsilon=lambda _: bracket))
    monkeypatch.setattr(interval, "PrivacyLoss", loss)
    return enclose_epsilon(releases, delta)


GUESSES = [(0.0, 0.0), (0.03, 0.05), (0.08, 0.2), (0.1055, 0.1055), (0.5, 0.75), (0.0, 1.0)]


@pytest.mark.parametrize("width", [0.0, 0.01])
@pytest.mark.parametrize("guess", GUESSES)
def test_no_guess_excludes_the_truth(
    monkeypatch: pytest.MonkeyPatch, guess: tuple[float, float], width: float
) -> None:
    """delta(epsilon) = e^-epsilon is known to within a share: epsilon may be anything that this leaves."""
    known = 1 + flint().arb(0, ball(width))
    monkeypatch.setattr(interval, "_curve", lambda *_: (lambda e: (-ball(e)).exp() * known, "by hand"))
    found = guessed(monkeypatch, [(GaussianTerm(1.0), 1)], 0.9, *guess)
    least, most = (mp.log((1 + sign * mpf(width)) / mpf(0.9)) for sign in (-1, 1))
    out = max((most - least) / 16, mpf("2e-16"))
    assert least - out <= found.lower <= least
    assert most <= found.upper <= most + out


@pytest.mark.parametrize("guess", [(0.0, 0.0), (0.0, 0.5), (0.3, 0.4), (1.0, 1.0)])
@pytest.mark.parametrize("width", [0.0, 0.01])
def test_where_none_is_spent(
    monkeypatch: pytest.MonkeyPatch, guess: tuple[float, float], width: float
) -> None:
    """delta(0) is below the wanted one, or may be."""
    known = ball(0.5) * (1 + flint().arb(0, ball(width)))
    monkeypatch.setattr(interval, "_curve", lambda *_: (lambda e: (-ball(e)).exp() * known, "by hand"))
    found = guessed(monkeypatch, [(GaussianTerm(1.0), 1)], 0.5, *guess)
    most = math.log1p(width)
    assert found.lower == 0.0
    assert most <= found.upper <= most * 17 / 16 + 1e-30


def test_the_larger_of_two_ceilings_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """delta of the mixture first, q (1 - e^((x - 1) / 2)) with e^epsilon = 1 + q (e^x - 1), decides."""
    q, delta = mpf(0.01), mpf(1e-12)
    exact = mp.log1p(q * mp.expm1(1 + 2 * mp.log1p(-delta / q)))
    found = guessed(monkeypatch, [(SampledLaplaceTerm(1.0, 0.01), 1)], 1e-12, 1.0, 1.0)
    assert found.lower <= exact <= found.upper <= exact * (1 + mpf("1e-15"))


def test_nothing_and_everything() -> None:
    idle: list[tuple[Term, int]] = [(SampledGaussianTerm(1.0, 0.0), 10)]
    assert enclose_delta(idle, 0.0)[:2] == (0.0, 0.0)
    assert enclose_epsilon(idle, 1e-9)[:2] == (0.0, 0.0)
    assert enclose_delta([(GaussianTerm(1000.0), 1)], 0.0).upper == 1.0
