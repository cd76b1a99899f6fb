import math
import re
from statistics import NormalDist

import numpy as np
import pytest

from dpaudit import GDP, Claim, Experiment, PureDP
from dpaudit.auditors.statistics.gdp import _largest_refutable_mu, gaussian_trade_off
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.threshold import ROUNDED
from dpaudit.errors import InvalidParameter
from tests.auditors.statistics.drawn import gaussian


def test_mu_is_bounded_closely_and_from_below(nightly: bool) -> None:
    audits = [gaussian_trade_off(gaussian(1.0, 10_000, seed)) for seed in range(10 if nightly else 3)]
    bounds = [audit.mu_lower for audit in audits]
    assert 0.93 < np.median(bounds) < 1
    assert all(audit.epsilon_lower is None for audit in audits)


def test_half_the_noise_is_found_and_the_correct_one_is_not() -> None:
    claim = Claim(GDP(mu=1.0))
    found = [gaussian_trade_off(gaussian(mu, 1000, 2), claim=claim) for mu in (2.0, 1.0)]
    assert [audit.verdict for audit in found] == [Experiment.REFUTED, Experiment.NOT_REFUTED]
    assert found[0].refuted_by == ("mu",)


def test_it_about_no_claim_but_mu() -> None:
    """Laplace noise of scale 1 is 1-DP; the Gaussian of the mu that fits it has epsilon 3.44."""
    random = np.random.default_rng(0)
    samples = Samples(1 + random.laplace(size=20_000), random.laplace(size=20_000))
    with pytest.raises(InvalidParameter, match="mu"):
        gaussian_trade_off(samples, claim=Claim(PureDP(epsilon=1.0)))
    assert gaussian_trade_off(samples, claim=Claim(GDP(mu=0.8))).verdict is Experiment.REFUTED
    # 1-DP implies mu-GDP for mu = 2 Phi^-1(e / (1 + e)) = 1.2308.
    assert gaussian_trade_off(samples, claim=Claim(GDP(mu=1.2309))).verdict is Experiment.NOT_REFUTED


def test_out_of_reach_is_inconclusive() -> None:
    audit = gaussian_trade_off(gaussian(1.0, 20, 0), claim=Claim(GDP(mu=8.0)))
    assert audit.verdict is Experiment.INCONCLUSIVE


def test_how_many_runs_it_takes_is_known_in_closed_form() -> None:
    """An event in all n runs of one side and in none of the other: p^n (1 - q)^n, the most at q = 1 - p.

    It refutes mu where Phi(mu / 2)^(2 n) <= 5 %.
    """
    audit = gaussian_trade_off(gaussian(1.0, 20, 0), claim=Claim(GDP(mu=4.0)))
    held_out = 17
    [reason] = audit.inconclusive
    tested, largest, needed, runs = (float(figure) for figure in re.findall(r"-?[\d.]+\d", reason))
    most = 2.0 * NormalDist().inv_cdf(0.05 ** (0.5 / held_out))
    least = next(n for n in range(2, 10**4) if NormalDist().cdf(2.0) ** (2 * n) <= 0.05)
    assert tested == held_out
    assert 0.99 * most < largest <= most
    assert least <= needed <= 1.03 * least
    assert runs == math.ceil(needed * 20 / held_out)
    assert f"refute mu {largest} at most" in (audit.event or "")
    assert audit.pairs == 1
    exact = _largest_refutable_mu(held_out, 1 - 0.95)
    for mu, verdict in ((exact, Experiment.INCONCLUSIVE), (0.99 * exact, Experiment.NOT_REFUTED)):
        assert gaussian_trade_off(gaussian(1.0, 20, 0), claim=Claim(GDP(mu=mu))).verdict is verdict


def test_what_no_number_of_runs_can_refute_is_told() -> None:
    audit = gaussian_trade_off(gaussian(1.0, 20, 0), claim=Claim(GDP(mu=19.0)))
    assert "no feasible number of runs" in audit.inconclusive[0]


def test_the_bound_is_the_larger_the_less_is_to_be_trusted() -> None:
    samples = gaussian(1.0, 400, 3)
    low, high = (gaussian_trade_off(samples, confidence=c).mu_lower for c in (0.5, 0.999))
    assert low is not None
    assert high is not None
    assert high < low
    assert ROUNDED in gaussian_trade_off(samples).not_checked
    assert ROUNDED not in gaussian_trade_off(samples, attack_grid=True).not_checked
