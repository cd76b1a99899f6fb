"""Enclosures of Poisson-sampled releases hold what quadrature, closed forms and other accountants give."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from dpaudit import ZCDP, Claim, Gaussian, Laplace, Ledger, account
from dpaudit.accountants.composition.composition import compose_ledger
from dpaudit.accountants.curves.rdp import RenyiProfile
from dpaudit.accountants.interval import sampled_gaussian_balls, sampled_laplace_balls
from dpaudit.accountants.interval.ball_arithmetic import ball, flint, least_versine
from dpaudit.accountants.interval.ball_factors import BallFactors
from dpaudit.accountants.interval.interval import enclose_delta, enclose_divergence, enclose_epsilon, line
from dpaudit.accountants.interval.sampled_balls import SampledBalls
from dpaudit.accountants.interval.sampled_gaussian_balls import SampledGaussianBalls
from dpaudit.accountants.interval.sampled_laplace_balls import SampledLaplaceBalls
from dpaudit.accountants.privacy_loss import (
    ApproxTerm,
    GaussianTerm,
    LaplaceTerm,
    PrivacyLoss,
    RandomizedResponseTerm,
    SampledGaussianTerm,
    SampledLaplaceTerm,
    Term,
)
from dpaudit.accountants.privacy_loss.factors_from_terms import collect
from dpaudit.certificate.verdicts import Proof, leading_figure
from dpaudit.claims.guarantees import GDP, RDP, ApproxDP, PureDP
from dpaudit.errors import CannotBound, InvalidParameter
from tests import make, oracles
from tests.sweeps import sweep

Real = Any  # mpmath's numbers carry no types
Releases = list[tuple[Term, int]]


def sampled_law(term: Any, *kinks: Real) -> Callable[[Callable[[Real], Real]], Real]:
    """The integral over the law without the unit of a function of r, smooth but where log r is a kink."""
    q = mpf(term.rate)
    inside = [mp.log((mp.exp(kink) - 1 + q) / q) for kink in kinks if mp.exp(kink) > 1 - q]
    if isinstance(term, SampledGaussianTerm):
        mu = mpf(term.mu)
        cuts = [*mp.linspace(-14, 14 + 8 * mu, 12), *((v + mu**2 / 2) / mu for v in inside)]

        def normal(f: Callable[[Real], Real]) -> Real:
            return mp.quad(lambda x: mp.npdf(x) * f(1 + q * mp.expm1(mu * x - mu**2 / 2)), sorted(cuts))

        return normal
    e = mpf(term.epsilon)
    cuts = [*mp.linspace(0, e, 5), *((v + e) / 2 for v in inside if -e < v < e)]

    def laplace(f: Callable[[Real], Real]) -> Real:
        between = mp.quad(lambda x: mp.exp(-x) / 2 * f(1 + q * mp.expm1(2 * x - e)), sorted(cuts))
        ends = f(1 + q * mp.expm1(-e)) / 2 + mp.exp(-e) / 2 * f(1 + q * mp.expm1(e))
        return ends + between

    return laplace


def both_orders(term: Any, other: GaussianTerm | LaplaceTerm, epsilon: float) -> tuple[Real, Real]:
    """delta of one sampled release beside another, in both orders."""
    if isinstance(other, GaussianTerm):
        rest, kinks = partial(oracles.gaussian_delta, other.mu), []
    else:
        rest, kinks = (
            partial(oracles.laplace_delta, other.epsilon),
            [epsilon - other.epsilon, epsilon + other.epsilon],
        )
    first = sampled_law(term, *kinks)(lambda r: r * rest(epsilon - mp.log(r)))
    return first, sampled_law(term, *(-k for k in kinks))(lambda r: rest(epsilon + mp.log(r)))


def lines(releases: Releases, epsilon: float) -> list[Any]:
    """delta on the contour, in both orders."""
    with flint().ctx.workprec(128):
        orders = zip(BallFactors.orders(releases), collect(releases).directions(), strict=True)
        return [line(factors, chosen, epsilon)(epsilon) for factors, chosen in orders]


def balls_of(term: Term, count: int) -> tuple[SampledBalls, ...]:
    return tuple(factors.sampled[0] for factors in BallFactors.orders([(term, count)]))


@pytest.mark.parametrize("mu", [1e-3, 0.5, 1.0, 10.0])
@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.5, 0.9999])
@pytest.mark.parametrize("share", [0.0, 0.3, 3.0])
def test_one_sampled_gaussian(mu: float, rate: float, share: float) -> None:
    epsilon = share * math.log1p(rate * math.expm1(mu))
    with mp.workdps(60):
        e, q, m = (mpf(x) for x in (epsilon, rate, mu))
        # Mixture first: x above z tells; second: x below.
        z = mp.log1p(mp.expm1(e) / q) / m + m / 2
        first = (1 - q - mp.exp(e)) * mp.ncdf(-z) + q * mp.ncdf(m - z)
        least = mp.expm1(-e) + q
        z = mp.log(least / q) / m + m / 2 if least > 0 else -mp.inf
        second = (1 - (1 - q) * mp.exp(e)) * mp.ncdf(z) - q * mp.exp(e) * mp.ncdf(z - m)
        exact = max(first, second)
    assert oracles.encloses(enclose_delta([(SampledGaussianTerm(mu, rate), 1)], epsilon), exact, 1e-15)


@pytest.mark.parametrize("loss", [1e-3, 1.0, 8.0])
@sweep("rate", [1e-6, 0.01, 0.5, 0.9999], everyday=(0, -1))
@sweep("share", [0.0, 0.3, 0.9], everyday=(0, 2))
def test_one_sampled_laplace(loss: float, rate: float, share: float) -> None:
    epsilon = share * math.log1p(rate * math.expm1(loss))
    term = SampledLaplaceTerm(loss, rate)
    with mp.workdps(50):
        e = mpf(epsilon)
        first = sampled_law(term, e)(lambda r: max(mpf(0), r - mp.exp(e)))
        second = sampled_law(term, -e)(lambda r: max(mpf(0), 1 - mp.exp(e) * r))
    assert oracles.encloses(enclose_delta([(term, 1)], epsilon), max(first, second), 1e-15)


@sweep(
    "term, other, epsilon, width",
    [
        (SampledGaussianTerm(1.0, 0.01), GaussianTerm(0.5), 1.0, 1e-12),
        (SampledGaussianTerm(1.0, 0.5), GaussianTerm(0.3), 4.0, 1e-12),
        (SampledGaussianTerm(0.5, 0.5), LaplaceTerm(0.5), 0.1, 1e-6),
        (SampledLaplaceTerm(1.0, 0.01), GaussianTerm(0.5), 1.0, 1e-12),
        (SampledLaplaceTerm(0.5, 0.9), GaussianTerm(0.3), 0.2, 1e-12),
    ],
    everyday=(3, 4),
)
def test_beside_one_other_release_by_quadrature(
    term: Any, other: GaussianTerm | LaplaceTerm, epsilon: float, width: float
) -> None:
    with mp.workdps(30):
        exact = both_orders(term, other, epsilon)
        found = enclose_delta([(term, 1), (other, 1)], epsilon)
        assert found.method == "contour"
        assert oracles.encloses(found, max(exact), width)
        for enclosed, truth in zip(lines([(term, 1), (other, 1)], epsilon), exact, strict=True):
            assert float(abs(enclosed.mid() - ball(float(truth)))) <= float(enclosed.rad()) + 1e-15


@sweep("term", [SampledGaussianTerm(1.0, 0.05), SampledLaplaceTerm(1.5, 0.05)], everyday=(1,))
@sweep("order", [0, 1], everyday=(0,))
@sweep("c", [0.3, 5.0], everyday=(0,))
def test_moments_by_quadrature(term: Any, order: int, c: float) -> None:
    (mine, count), step, nodes = (balls_of(term, 3)[order], 3), Fraction(5, 4), 12
    with flint().ctx.workprec(128):
        found = mine.along(ball(c), step, nodes)
        assert found[0].real.overlaps(mine.moment(ball(c)))
    law = sampled_law(term)
    with mp.workdps(40):
        for k in (0, 1, 5, 11):
            s = mp.mpc(c, float(step * k))
            exact = law(lambda r, s=s: r ** (s + 1 if order == 0 else -s)) ** count
            for part, truth in ((found[k].real, exact.real), (found[k].imag, exact.imag)):
                assert abs(mpf(str(part.mid().str(40, radius=False))) - truth) <= mpf(
                    float(part.rad())
                ) + mpf("1e-30")
            assert float(found[k].real.rad()) <= 1e-20 * abs(complex(exact))


def arb_moment(term: Any, order: int, s: Any) -> Any:
    """M(s) by Arb's own adaptive quadrature (Petras' algorithm), whose bounds are independent of ours."""
    acb, q, p = flint().acb, ball(term.rate), s + 1 if order == 0 else -s
    if isinstance(term, SampledGaussianTerm):
        mu, a = ball(term.mu), float(p.real.mid())

        def normal(z: Any, analytic: bool) -> Any:
            r = 1 - q + q * (mu * z - mu * mu / 2).exp()
            return (p * r.log(analytic=analytic) - z * z / 2).exp() / (2 * flint().arb.pi()).sqrt()

        edges = [4 * k for k in range(-5 - int(max(0, -a * term.mu) / 4), 6 + int(max(0, a * term.mu) / 4))]
        return sum((acb.integral(normal, x, x + 4) for x in edges), acb(0))
    e = ball(term.epsilon)

    def laplace(z: Any, analytic: bool) -> Any:
        return (p * (1 - q + q * (2 * z - e).exp()).log(analytic=analytic) - z).exp() / 2

    low, high = (p * (1 - q + q * (-e).exp()).log()).exp(), (p * (1 - q + q * e.exp()).log()).exp()
    return acb.integral(laplace, 0, e) + low / 2 + (-e).exp() * high / 2


@settings(max_examples=12, deadline=None)
@given(
    st.one_of(
        st.builds(SampledGaussianTerm, st.floats(1e-3, 3.0), st.sampled_from([1e-5, 0.01, 0.3, 0.999])),
        st.builds(SampledLaplaceTerm, st.floats(1e-3, 8.0), st.sampled_from([1e-5, 0.01, 0.3, 0.999])),
    ),
    st.sampled_from([0, 1]),
    st.floats(0.05, 60.0),
    st.sampled_from([0.125, 1.0, 16.0]),
)
def test_moments_overlap_those_of_another_quadrature(term: Any, order: int, c: float, step: float) -> None:
    mine = balls_of(term, 1)[order]
    with flint().ctx.workprec(128):
        found = mine.along(ball(c), Fraction(step), 4)
        assert float(found[0].real.rad()) <= 1e-24 * float(found[0].real.mid())
        for k in (0, 3):
            other = arb_moment(term, order, flint().acb(ball(c), ball(step * k)))
            assert found[k].overlaps(other)
            assert float(other.real.rad()) <= 1e-15 * float(found[0].real.mid())


@pytest.mark.parametrize(
    ("module", "term"),
    [
        (sampled_gaussian_balls, SampledGaussianTerm(1.0, 0.05)),
        (sampled_laplace_balls, SampledLaplaceTerm(1.5, 0.05)),
    ],
)
@pytest.mark.parametrize("order", [0, 1])
def test_a_coarse_rule_widens_and_never_excludes(
    monkeypatch: pytest.MonkeyPatch, module: Any, term: Any, order: int
) -> None:
    mine, c, step = balls_of(term, 1)[order], 4.0, Fraction(3)
    with flint().ctx.workprec(128):
        sharp = mine.along(ball(c), step, 8)
        monkeypatch.setattr(module, "DIGITS", 1.0)
        coarse = mine.along(ball(c), step, 8)
        assert all(one.contains(other) for one, other in zip(coarse, sharp, strict=True))
        assert coarse[0].real.rad() > sharp[0].real.rad() * 1e15
        # The twin without the rule's own error: its balls miss the truth.
        whole = type(mine).rule

        def careless(self: Any, at: Any, end: float) -> Any:
            found = whole(self, at, end)
            return type(found)(found.log_ratio, found.weight, flint().arb(0), lambda t: flint().arb(0) * t)

        monkeypatch.setattr(type(mine), "rule", careless)
        wrong = mine.along(ball(c), step, 8)
        assert not all(one.overlaps(other) for one, other in zip(wrong, sharp, strict=True))


@sweep(
    "term",
    [
        SampledGaussianTerm(1.0, 0.05),
        SampledGaussianTerm(0.05, 0.3),
        SampledGaussianTerm(4.0, 0.01),
        SampledLaplaceTerm(1.5, 0.05),
        SampledLaplaceTerm(6.0, 0.5),
    ],
    everyday=(0, 4),
)
@pytest.mark.parametrize("order", [0, 1])
@sweep("c", [0.3, 8.0], everyday=(0,))
def test_no_modulus_exceeds_its_decay(term: Any, order: int, c: float) -> None:
    mine = balls_of(term, 1)[order]
    with flint().ctx.workprec(128):
        decay, step = mine.decay(ball(c)), Fraction(1, 2)
        moments = mine.along(ball(c), step, 400)
        for k in range(1, 400, 39):
            t = ball(step * k)
            modulus = abs(moments[k]) / mine.moment(ball(c))
            for first, last in ((t, t), (t * ball(0.93), t * ball(1.02)), (t, None), (t / 3, None)):
                assert not decay(first, last) < modulus.lower()
            if isinstance(term, SampledGaussianTerm) and term.mu <= 1.0:  # it says something
                assert 1 - decay(t, t) > (1 - modulus) / 10


@sweep(
    "mu, rate, count, delta, epsilon",
    [
        (1.0, 0.01, 10**3, 1e-6, 2.12451517112),
        (1.0, 0.01, 10**4, 1e-6, 6.907384495045),
        (1.0, 0.01, 10**4, 1e-12, 10.34668984),
        (1.0, 0.01, 10**5, 1e-6, 27.67259768978),
        (1.0, 1e-4, 10**6, 1e-6, 0.5324211555),
    ],
    everyday=(0,),
)
def test_known_compositions(mu: float, rate: float, count: int, delta: float, epsilon: float) -> None:
    found = enclose_epsilon([(SampledGaussianTerm(mu, rate), count)], delta)
    assert found.upper == pytest.approx(epsilon, rel=1e-9)
    assert found.lower <= found.upper <= found.lower * (1 + 1e-12)


@sweep(
    "releases",
    [
        [(SampledGaussianTerm(1.0, 0.01), 1000)],
        [(SampledGaussianTerm(0.1, 0.5), 1000)],
        [(SampledGaussianTerm(1.0, 0.9), 100)],
        [(SampledLaplaceTerm(1.0, 0.01), 1000)],
        [(SampledLaplaceTerm(0.1, 0.1), 10000)],
        [
            (SampledLaplaceTerm(1.0, 0.01), 500),
            (SampledGaussianTerm(1.0, 0.01), 500),
            (GaussianTerm(0.3), 3),
            (LaplaceTerm(0.3), 5),
            (RandomizedResponseTerm(0.2), 4),
        ],
        [(SampledGaussianTerm(1.0, 0.01), 1000), (ApproxTerm(0.1, 1e-30), 2)],
    ],
    ids=["sgd", "weak", "often", "laplace", "weak-laplace", "mix", "approximate"],
    everyday=(0, 3, 4, 5),
)
@sweep("delta", [1e-5, 1e-20], everyday=(0,))
def test_it_agrees_with_floating_point(releases: Releases, delta: float) -> None:
    bracket, found = PrivacyLoss.compose(releases).epsilon(delta), enclose_epsilon(releases, delta)
    assert bracket.lower <= found.upper <= bracket.upper * (1 + 1e-15)
    assert bracket.lower * (1 - 1e-15) <= found.lower <= found.upper
    assert found.upper <= found.lower * (1 + 1e-9)


@pytest.mark.nightly
def test_a_tiny_delta_at_a_tiny_rate() -> None:
    releases: Releases = [(SampledGaussianTerm(1.0, 1e-4), 10**6)]
    found = enclose_epsilon(releases, 1e-20)
    bracket = PrivacyLoss.compose(releases).epsilon(1e-20)
    assert bracket.lower <= found.lower <= found.upper <= bracket.upper
    assert found.upper - found.lower <= 1e-12 < bracket.upper - bracket.lower


@sweep(
    "releases, epsilon, decides",
    [
        ([(SampledGaussianTerm(1.0, 0.01), 1000)], 2.0, 0),
        ([(SampledLaplaceTerm(1.0, 0.01), 1000)], 1.2, 0),
        ([(SampledLaplaceTerm(0.3, 0.9), 10), (GaussianTerm(0.1), 1)], 0.085, 1),
        ([(SampledGaussianTerm(0.3, 0.1), 30), (LaplaceTerm(0.5), 5), (GaussianTerm(0.2), 1)], 0.1, 1),
    ],
    everyday=(2, 3),
)
def test_either_order_may_decide(releases: Releases, epsilon: float, decides: int) -> None:
    deltas = lines(releases, epsilon)
    assert deltas[decides] > deltas[1 - decides]
    found = enclose_delta(releases, epsilon)
    assert found.lower <= float(deltas[decides].mid()) <= found.upper
    assert found.lower > float(deltas[1 - decides].upper())


def test_the_second_order_has_a_ceiling_of_its_own() -> None:
    releases: Releases = [(SampledGaussianTerm(1.0, 0.01), 1000)]
    first, second = BallFactors.orders(releases)
    assert first.ceiling() is None
    assert float(second.ceiling() or 0) == pytest.approx(-1000 * math.log1p(-0.01))
    laplace = BallFactors.orders([(SampledLaplaceTerm(1.0, 0.01), 2)])
    found = [float(factors.ceiling() or 0) for factors in laplace]
    expected = [2 * math.log1p(0.01 * math.expm1(1)), -2 * math.log1p(0.01 * math.expm1(-1))]
    assert found == pytest.approx(expected)
    assert enclose_delta([(SampledLaplaceTerm(1.0, 0.01), 2)], math.nextafter(found[0], 1)).upper == 0.0


def test_a_certain_sample_is_no_sample() -> None:
    gaussians = ([(term, 4)] for term in (SampledGaussianTerm(0.5, 1.0), GaussianTerm(0.5)))
    sampled, whole = (enclose_epsilon(releases, 1e-6) for releases in gaussians)
    assert sampled == whole
    laplace = ([(term, 1)] for term in (SampledLaplaceTerm(1.0, 1.0), LaplaceTerm(1.0)))
    sampled, whole = (enclose_delta(releases, 0.5) for releases in laplace)
    assert sampled == whole
    for idle in (SampledGaussianTerm(1.0, 0.0), SampledGaussianTerm(0.0, 0.5), SampledLaplaceTerm(0.0, 0.5)):
        assert enclose_epsilon([(idle, 10)], 1e-9).upper == 0.0


@pytest.mark.nightly
@settings(max_examples=2, deadline=None)
@given(st.floats(0.3, 1.5), st.floats(0.005, 0.2), st.integers(200, 2000), st.sampled_from([1e-4, 1e-12]))
def test_more_rate_and_more_runs_cost_more(mu: float, rate: float, count: int, delta: float) -> None:
    found = enclose_epsilon([(SampledGaussianTerm(mu, rate), count)], delta)
    assert enclose_epsilon([(SampledGaussianTerm(mu, rate * 1.01), count)], delta).upper > found.lower
    assert enclose_epsilon([(SampledGaussianTerm(mu, rate), count + 1)], delta).upper > found.lower
    assert enclose_epsilon([(GaussianTerm(mu), count)], delta).upper > found.lower
    for alpha in (2.0, 8.0):
        renyi = enclose_divergence([(SampledGaussianTerm(mu, rate), count)], alpha)
        assert found.lower <= renyi.upper + math.log(1 / delta) / (alpha - 1)


@pytest.mark.parametrize("alpha", [2, 3, 12])
def test_divergences_of_whole_orders(alpha: int) -> None:
    mu, rate, count = 0.8, 0.03, 50
    with mp.workdps(50):
        exact = count * oracles.sampled_log_moment(mu, rate, alpha) / (alpha - 1)
    assert oracles.encloses(enclose_divergence([(SampledGaussianTerm(mu, rate), count)], alpha), exact, 1e-15)


def test_divergences_refused() -> None:
    for alpha in (1.0, 0.0, math.nan, math.inf):
        with pytest.raises(InvalidParameter):
            enclose_divergence([(SampledGaussianTerm(1.0, 0.1), 1)], alpha)
    with pytest.raises(CannotBound, match="reveal"):
        enclose_divergence([(ApproxTerm(1.0, 1e-9), 1)], 2.0)


def sampled_ledger(*inner: Gaussian | Laplace, rate: float, count: int) -> Ledger:
    return make.ledger(*((make.poisson(one, rate), count) for one in inner))


def test_a_sampled_ledger_on_every_scale() -> None:
    gaussian = sampled_ledger(make.gaussian(1.0), rate=0.01, count=1000)
    laplace = sampled_ledger(make.laplace(1.0), rate=0.01, count=10)
    pure = mp.log1p(mpf(0.01) * mp.expm1(1))
    found = {}
    for ledger, guarantee in (
        (gaussian, ApproxDP(epsilon=3.0, delta=1e-6)),
        (gaussian, RDP(alpha=2.5, epsilon=1.0)),
        (laplace, PureDP(epsilon=1.0)),
        (laplace, ZCDP(rho=1.0)),
        (laplace, RDP(alpha=2.5, epsilon=1.0)),
    ):
        answer = account(ledger, Claim(guarantee), rigour="interval")
        assert answer.verdict is Proof.PROVED
        (bound,) = answer.bounds
        assert bound.rigour == "interval"
        found[ledger is gaussian, guarantee.kind] = leading_figure(bound.guarantee)
    assert found[True, "approx-dp"] == pytest.approx(2.12451517112, rel=1e-11)
    assert 10 * pure <= found[False, "pure-dp"] <= 10 * pure * (1 + 1e-15)
    assert found[False, "zcdp"] == pytest.approx(float(10 * pure * mp.tanh(pure / 2)), rel=1e-14)
    float_rdp = RenyiProfile.of(compose_ledger(gaussian)).divergence(2.5)
    assert found[True, "rdp"] <= float_rdp <= found[True, "rdp"] * (1 + 1e-9)
    assert found[False, "rdp"] <= 2.5 * found[False, "zcdp"]


def test_scales_without_an_enclosure_say_so() -> None:
    gaussian = sampled_ledger(make.gaussian(1.0), rate=0.01, count=1000)
    for guarantee in (ZCDP(rho=1.0), PureDP(epsilon=1.0), GDP(mu=1.0)):
        with pytest.raises(CannotBound):
            account(gaussian, Claim(guarantee), rigour="interval")


def test_what_would_take_too_long_is_refused_with_a_remedy() -> None:
    for term in (SampledGaussianBalls(1000.0, 0.5, 100, True), SampledLaplaceBalls(400.0, 0.5, 100, True)):
        with pytest.raises(CannotBound, match="points in balls") as caught:
            term.rule(1e4, 1e6)
        assert "float-pessimistic" in str(caught.value)


@given(st.floats(0.0, 1e3), st.floats(0.0, 10.0), st.floats(0.0, 1.0))
def test_least_versine_is_the_least(lowest: float, width: float, at: float) -> None:
    highest = lowest + width
    between = min(highest, lowest + at * width)
    with flint().ctx.workprec(64):
        least = least_versine(ball(lowest), ball(highest))
    assert least <= 1 - ball(between).cos() + ball(1e-12)
