from __future__ import annotations

import numpy as np
import pytest

from dpaudit.auditors.statistics.gdp import gaussian_trade_off
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.certificate.verdicts import Experiment
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import GDP, PureDP
from dpaudit.errors import InvalidParameter


def _gaussian(mu: float, n: int, seed: int) -> Samples:
    random = np.random.default_rng(seed)
    return Samples(random.normal(mu, 1, n), random.normal(0, 1, n), seed)


def test_mu_is_bounded_closely_and_from_below(nightly: bool) -> None:
    audits = [gaussian_trade_off(_gaussian(1.0, 10_000, seed)) for seed in range(10 if nightly else 3)]
    bounds = [audit.mu_lower for audit in audits]
    assert 0.93 < np.median(bounds) < 1
    assert all(audit.epsilon_lower is None for audit in audits)


def test_half_the_noise_is_found_and_the_correct_one_is_not() -> None:
    claim = Claim(GDP(mu=1.0))
    found = [gaussian_trade_off(_gaussian(mu, 1000, 2), claim=claim) for mu in (2.0, 1.0)]
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
    audit = gaussian_trade_off(_gaussian(1.0, 20, 0), claim=Claim(GDP(mu=8.0)))
    assert audit.verdict is Experiment.INCONCLUSIVE
