"""Two sampled runs against the integral of one run's closed form; brackets of up to thirty."""

from functools import partial

import pytest
from mpmath import mp, mpf

from dpaudit.accountants.privacy_loss import PrivacyLoss, SampledGaussianTerm, SampledLaplaceTerm
from dpaudit.accountants.privacy_loss.lattice.splitting import Split
from tests import oracles
from tests.sweeps import sweep

Sampled = SampledGaussianTerm | SampledLaplaceTerm


def one_run(term: Sampled, x: mpf, *, mixture_first: bool) -> mpf:
    """One sampled run's curve at any real x."""
    alone = (
        partial(oracles.laplace_delta, term.epsilon)
        if isinstance(term, SampledLaplaceTerm)
        else partial(oracles.gaussian_delta, term.mu)
    )
    return oracles.sampled_delta(alone, term.rate, x, mixture_first=mixture_first)


def two_runs(term: Sampled, epsilon: float, *, mixture_first: bool) -> mpf:
    """The first run's loss is integrated over; u is the noise's own loss, `bare` its law without the unit."""
    q, e = mpf(term.rate), mpf(epsilon)

    def rest(u: mpf) -> mpf:
        ratio = 1 - q + q * mp.exp(u)
        sign = 1 if mixture_first else -1
        share = ratio if mixture_first else mpf(1)
        return share * one_run(term, e - sign * mp.log(ratio), mixture_first=mixture_first)

    if isinstance(term, SampledLaplaceTerm):
        m, sign = mpf(term.epsilon), 1 if mixture_first else -1
        # The other run's curve has kinks at its own extreme losses.
        odds = [(mp.exp(sign * e) / (1 - q + q * mp.exp(u)) - 1 + q) / q for u in (-m, m)]
        kinks = [mp.log(one) for one in odds if mp.exp(-m) < one < mp.exp(m)]
        breaks = sorted([*mp.linspace(-m, m, 3), *kinks])
        between = mp.quad(lambda u: rest(u) * mp.exp(-(u + m) / 2) / 4, breaks)
        return rest(-m) / 2 + rest(m) * mp.exp(-m) / 2 + between
    mu = mpf(term.mu)
    # Where the first run's loss leaves the other that of a likely u, the integrand changes within rate.
    odds = [(mp.exp(e) / (1 - q + q * mp.exp(u)) - 1 + q) / q for u in range(-9, 10, 3)]
    turns = [mp.log(one) / mu + mu / 2 for one in odds if one > 0]
    panels = sorted(x for x in [*mp.linspace(-10, 12, 12), *turns] if abs(x) <= 12)
    return mp.quad(lambda x: rest(mu * x - mu**2 / 2) * mp.npdf(x), panels)


TERMS: list[Sampled] = [
    SampledGaussianTerm(1.0, 0.01),
    SampledGaussianTerm(0.5, 0.3),
    SampledLaplaceTerm(1.0, 0.01),
    SampledLaplaceTerm(2.0, 0.4),
]


def misses(term: Sampled, delta: float, *, epsilons_too: bool = True) -> list[str]:
    """Which ends of the brackets at one delta are on the wrong side of two runs' truth."""

    def truth_at(x: float) -> mpf:
        return max(two_runs(term, x, mixture_first=order) for order in (True, False))

    loss = PrivacyLoss.compose([(term, 2)])
    lower, upper = loss.epsilon(delta)
    epsilon = 0.5 * (lower + upper)
    found = loss.delta(epsilon)
    with mp.workdps(20):
        truth = truth_at(epsilon)
        wrong = {"delta's lower end": found.lower > truth, "delta's upper end": found.upper < truth}
        if epsilons_too:
            wrong["lower end"] = lower > 0.0 and truth_at(lower) < delta
            wrong["upper end"] = truth_at(upper) > delta
    return [name for name, is_wrong in wrong.items() if is_wrong]


@sweep("term", TERMS, everyday=(2,))
@sweep("delta", [1e-3, 1e-10], everyday=(0,))
def test_two_runs_lie_in_the_bracket(term: Sampled, delta: float) -> None:
    assert not misses(term, delta)


def test_a_lower_end_that_forgets_what_splitting_adds_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Split, "_added", lambda *_: 0.0)
    assert "delta's lower end" in misses(SampledGaussianTerm(1.0, 0.01), 1e-3, epsilons_too=False)


@pytest.mark.parametrize("term", [SampledGaussianTerm(1.0, 0.01), SampledLaplaceTerm(1.0, 0.01)])
@sweep("count", [1, 2, 3, 10, 30], everyday=(0, 1, -1))
@sweep("delta", [1e-3, 1e-6, 1e-12], everyday=(-1,))
def test_up_to_thirty_runs_are_enclosed_within_a_millionth(term: Sampled, count: int, delta: float) -> None:
    lower, upper = PrivacyLoss.compose([(term, count)]).epsilon(delta)
    assert 0.0 < upper - lower <= (1e-6 if delta > 1e-9 else 3e-5)
