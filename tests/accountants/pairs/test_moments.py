"""Log moments of one run against sums and integrals at high precision."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.special import logsumexp

from dpaudit import RDP, Neighbouring, account
from dpaudit.accountants.pairs.moments import (
    bounded_range_log_moment,
    failure,
    failure_cost,
    laplace_log_moment,
    log_moment,
    response_log_moment,
    whole_log_moment,
)
from dpaudit.claims.claims import Claim
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import (
    FixedSizeSampled,
    OpaqueApproxDP,
    OpaqueZCDP,
    RandomAllocation,
    SampledRecords,
    Tabulated,
    TruncatedPoissonSampled,
)
from tests import make, oracles
from tests.sweeps import sweep

ORDERS = [1e-9, 1e-3, 0.5, 1.0, 2.7, 30.0, 1e3, 1e6]
EPSILONS = [1e-9, 1e-4, 0.1, 1.0, 5.0, 40.0]


def near(found: float, exact: Any, slack: float) -> None:
    assert exact <= mpf(found)
    assert mpf(found) <= exact * (1 + mpf("1e-12")) + mpf(slack)


@pytest.mark.parametrize("t", ORDERS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_closed_forms_are_rounded_up_and_sharp(t: float, epsilon: float) -> None:
    with mp.workdps(80):
        s, e = mpf(t), mpf(epsilon)
        for categories in (2, 3, 50):
            total = mp.exp(e) + categories - 1
            moment = (mp.exp((s + 1) * e) + categories - 2 + mp.exp(-s * e)) / total
            near(
                response_log_moment(t, epsilon, categories), mp.log(moment), 0.0 if t * epsilon < 9 else 1e-9
            )
        near(laplace_log_moment(t, epsilon), oracles.laplace_log_moment(e, s), 0.0)


@sweep("t", [1e-3, 0.5, 1.0, 2.7, 30.0, 1e3], everyday=(0, 2, -1))
@sweep("epsilon", [1e-4, 0.1, 1.0, 5.0, 40.0], everyday=(0, 2, 4))
def test_bounded_range_is_the_worst_of_all_two_point_pairs(t: float, epsilon: float) -> None:
    found = bounded_range_log_moment(t, epsilon)
    best = mpf(0)
    with mp.workdps(60):
        s, e = mpf(t), mpf(epsilon)
        for k in range(1, 400):
            h = e * k / 400
            p = (mp.exp(e) - mp.exp(h)) / mp.expm1(e)  # p e^-h + (1 - p) e^(e - h) = 1
            moment = p * mp.exp(s * h) + (1 - p) * mp.exp(s * (h - e))
            best = max(best, mp.log(moment))
    assert best <= mpf(found)
    assert float(best) == pytest.approx(found, rel=2e-2, abs=1e-12)
    assert found <= response_log_moment(t, epsilon)
    assert found <= epsilon**2 / 8.0 * t * (t + 1.0) * (1.0 + 1e-12)


def mixture_moment(inner: str, parameter: float, rate: float, t: float, *, mixture_first: bool) -> Any:
    """E of the ratio's power, by integration over the unsampled density."""
    with mp.workdps(30):
        m, q, s = mpf(parameter), mpf(rate), mpf(t)
        power = s + 1 if mixture_first else -s

        def integrand(x: Any) -> Any:
            if inner == "gaussian":
                ratio, density = mp.exp(m * x - m * m / 2), mp.npdf(x)
            else:
                ratio, density = mp.exp(abs(x) - abs(x - m)), mp.exp(-abs(x)) / 2
            return density * (1 - q + q * ratio) ** power

        return mp.log(mp.quad(integrand, [-mp.inf, -8, -2, 0, m, m + 3, m * (s + 1) + 8, mp.inf]))


@pytest.mark.parametrize("mixture_first", [True, False])
@sweep(
    "inner, t", [("gaussian", 0.7), ("gaussian", 5.0), ("laplace", 0.7), ("laplace", 5.0)], everyday=(0, 3)
)
def test_sampled_moments_are_the_integral(inner: str, t: float, mixture_first: bool) -> None:
    mechanism = make.poisson((make.laplace if inner == "laplace" else make.gaussian)(1.0, 0.8), 0.05)
    moment = log_moment(mechanism, Neighbouring.ADD_OR_REMOVE_ONE, mixture_first=mixture_first)
    exact = float(mixture_moment(inner, 0.8, 0.05, t, mixture_first=mixture_first))
    assert exact * (1 - 1e-9) <= moment(t) <= exact * (1 + 1e-6) + 1e-13
    # Under replace-one nothing is amplified for Gaussian noise.
    replaced = log_moment(mechanism, Neighbouring.REPLACE_ONE, mixture_first=mixture_first)
    assert replaced(t) > moment(t)


def test_a_table_is_summed_outside_what_it_reveals() -> None:
    table = Tabulated(
        losses=(-1.0, 0.0, 2.0), probabilities=(0.1, 0.5, 0.35), infinity=0.05, justification="x"
    )
    moment = log_moment(table, Neighbouring.REPLACE_ONE, mixture_first=True)
    exact = mp.log(mpf(0.1) * mp.exp(-3) + mpf(0.5) + mpf(0.35) * mp.exp(6))
    near(moment(3.0), exact, 1e-14)
    assert failure(table) == pytest.approx(0.05, rel=1e-12)
    assert moment(1e308) == math.inf


def test_failures_add_up_and_a_certain_one_is_refused() -> None:
    mechanism = OpaqueApproxDP(epsilon=0.1, delta=1e-9, justification="x")
    assert failure(mechanism) == 1e-9
    assert failure_cost(mechanism) >= 1e-9
    certain = Tabulated(losses=(0.0,), probabilities=(0.0,), infinity=1.0, justification="x")
    with pytest.raises(CannotBound):
        failure_cost(certain)


def test_more_categories_than_a_double_can_count_cost_no_more_than_fewer() -> None:
    assert 0.0 <= response_log_moment(2.0, 1.0, 10**400) <= response_log_moment(2.0, 1.0, 10**6)


# What a table leaves open past its last loss, against the divergences of real outputs by quadrature.

LINE = np.linspace(-150.0, 150.0, 300_001)
UNIT = make.gaussian(1.0)
ADD, REPLACE = Neighbouring.ADD_OR_REMOVE_ONE, Neighbouring.REPLACE_ONE


def log_law(sums: Sequence[float], weights: Sequence[float]) -> Any:
    """Log density on the line of a sum that is each of these by chance, under normal noise."""
    parts = [
        math.log(w) - 0.5 * (LINE - c) ** 2 - 0.5 * math.log(2.0 * math.pi)
        for c, w in zip(sums, weights, strict=True)
    ]
    return logsumexp(parts, axis=0)


def log_truth(p: Any, q: Any, t: float) -> float:
    return float(logsumexp((1.0 + t) * p - t * q) + math.log(LINE[1] - LINE[0]))


def of_samples(values: Sequence[float], sizes: dict[int, float]) -> Any:
    """Of samples whose size has these probabilities, every choice of so many equally likely."""
    sums, weights = [], []
    for size, share in sizes.items():
        each = [sum(one) for one in itertools.combinations(values, size)]
        sums += each
        weights += [share / len(each)] * len(each)
    return log_law(sums, weights)


def cut_poisson(units: int, rate: float, most: int) -> dict[int, float]:
    found = dict.fromkeys(range(most + 1), 0.0)
    for k in range(units + 1):
        found[min(k, most)] += math.comb(units, k) * rate**k * (1.0 - rate) ** (units - k)
    return found


FIXED = FixedSizeSampled(size=1, units=4, mechanism=UNIT)
CUT = TruncatedPoissonSampled(rate=0.3, most=2, units=4, mechanism=UNIT)
THREE = SampledRecords(rate=0.1, records=3, mechanism=UNIT)
TIMES = [math.comb(3, j) * 0.1**j * 0.9 ** (3 - j) for j in range(4)]
OTHERS = (0.0, 0.0, 0.0)
ALONE = log_law([0.0], [1.0])
LAWS = {
    "fixed size, replaced": (FIXED, REPLACE, (of_samples((1.0, *OTHERS), {1: 1.0}), ALONE)),
    "truncated Poisson, replaced": (
        CUT,
        REPLACE,
        (of_samples((1.0, *OTHERS), cut_poisson(4, 0.3, 2)), ALONE),
    ),
    "records, added": (THREE, ADD, (log_law(range(4), TIMES), ALONE)),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_whole_moment_is_above_the_truth_at_every_order(name: str) -> None:
    mechanism, relation, sides = LAWS[name]
    for first in (True, False):
        part = log_moment(mechanism, relation, mixture_first=first)
        whole = whole_log_moment(mechanism, relation, mixture_first=first)
        p, q = sides if first else sides[::-1]
        for t in (0.1, 0.5, 2.0, 10.0, 25.0, 60.0):
            assert log_truth(p, q, t) <= whole(t) + 1e-12
        assert whole(1.0) <= part(1.0) * 1.001, "little is left"
    assert log_moment(mechanism, relation, mixture_first=True)(60.0) < log_truth(*sides, 60.0), "but some is"


def test_a_weight_below_every_double_has_a_whole_moment() -> None:
    """All 200 records of a unit are drawn with probability 1e-600."""
    many = SampledRecords(rate=0.001, records=200, mechanism=make.gaussian(12.0))
    law = [math.comb(200, j) * 0.001**j * 0.999 ** (200 - j) for j in range(8)]  # and less than 1e-11 more
    sides = log_law([j / 12.0 for j in range(8)], law), log_law([0.0], [1.0])
    for first in (True, False):
        p, q = sides if first else sides[::-1]
        whole = whole_log_moment(many, ADD, mixture_first=first)
        truth = log_truth(p, q, 2.0)
        assert truth - 1e-9 <= whole(2.0) <= truth * 1.01
        assert log_truth(p, q, 10.0) - 1e-9 <= whole(10.0) < math.inf


def test_an_rdp_claim_of_a_high_order_is_held_to_the_whole_moment() -> None:
    """What is left past the last loss is below every double here, and matters at this order."""
    ledger = make.ledger(FIXED, neighbouring="replace-one")
    truth = log_truth(*LAWS["fixed size, replaced"][2], 60.0) / 60.0
    found = account(ledger, Claim(RDP(alpha=61.0, epsilon=truth * 0.999), unit="row"))
    (bound,) = [one for one in found.bounds if isinstance(one.guarantee, RDP)]
    assert truth <= bound.guarantee.epsilon <= 1.1 * truth
    assert str(found.verdict) != "proved"


def test_what_is_sampled_decides_whether_there_is_a_moment() -> None:
    def sampled(inner: Any) -> FixedSizeSampled:
        return FixedSizeSampled(size=1, units=100, mechanism=inner)

    for inner in (OpaqueZCDP(rho=0.5, justification="x"), make.discrete_gaussian(1.0), make.laplace(1.0)):
        whole = whole_log_moment(sampled(inner), REPLACE, mixture_first=True)
        assert 0.0 < whole(1.0) < log_moment(inner, REPLACE, mixture_first=True)(1.0) / 5
        assert math.isfinite(whole(1e6))
    for inner in (
        OpaqueApproxDP(epsilon=1.0, delta=1e-9, justification="x"),
        Tabulated(losses=(0.0,), probabilities=(1.0 - 1e-9,), infinity=1e-9, justification="x"),
    ):
        for mechanism in (inner, sampled(inner)):
            with pytest.raises(CannotBound, match="may reveal everything"):
                whole_log_moment(mechanism, REPLACE, mixture_first=True)
    nothing = RandomAllocation(steps=3, mechanism=make.gaussian(1.0, 0.0))
    assert whole_log_moment(nothing, ADD, mixture_first=True)(5.0) == pytest.approx(0.0, abs=1e-12)
