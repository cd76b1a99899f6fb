"""Shuffled answers: the bound against enumerated laws, of the coins and of mechanisms that are shuffled."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import flint
import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import special

from dpaudit import ApproxDP, Neighbouring
from dpaudit.accountants.accounting import bounds
from dpaudit.accountants.composition.composition import compose
from dpaudit.accountants.composition.costs import pure_epsilon
from dpaudit.accountants.pairs import shuffled
from dpaudit.accountants.pairs.moments import log_moment
from dpaudit.accountants.pairs.shuffled import shuffled_losses
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import OpaquePureDP, RandomizedResponse, Shuffled, dominating
from tests import make, oracles
from tests.sweeps import sweep

REPLACE = Neighbouring.REPLACE_ONE
AT = (0.0, 0.02, 0.1, 0.3, 0.7)  # parts of epsilon0 at which profiles are compared


def profile(epsilon: float, users: int, categories: int | None, at: Iterable[float]) -> list[float]:
    losses = shuffled_losses(dominating.Shuffled(epsilon, users, categories))
    return losses.delta(np.array(list(at))).tolist()


def coins(epsilon0: float, others: int, chance: mpf, epsilon: float) -> mpf:
    """The profile of the theorem, outcome by outcome."""
    e, total = mp.exp(epsilon0), mpf(0)
    for c in range(others + 1):
        weight = mp.binomial(others, c) * chance**c * (1 - chance) ** (others - c)
        for heads in range(c + 2):
            a, b = (mp.binomial(c, k) / mpf(2) ** c if 0 <= k <= c else mpf(0) for k in (heads - 1, heads))
            p, q = (e * a + b) / (e + 1), (a + e * b) / (e + 1)
            total += weight * max(mpf(0), p - mp.exp(epsilon) * q)
    return total


@sweep("users", [1, 2, 9, 40], everyday=(0, 1, 2))
@pytest.mark.parametrize("epsilon0", [0.01, 1.0, 5.0])
def test_the_profile_is_that_of_the_theorem_and_hardly_more(epsilon0: float, users: int) -> None:
    at = [part * epsilon0 for part in AT]
    with mp.workdps(30):
        truth = [coins(epsilon0, users - 1, mp.exp(-mpf(epsilon0)), x) for x in at]
    for found, exact in zip(profile(epsilon0, users, None, at), truth, strict=True):
        assert exact * (1 - mpf(10) ** -15) <= found <= exact * (1 + mpf(2) / 100)


Law: TypeAlias = dict[tuple[int, ...], float]


def law(rows: Sequence[Sequence[float]]) -> Law:
    """How often each answer is given by users with these rows of probabilities."""
    found: Law = {(0,) * len(rows[0]): 1.0}
    for row in rows:
        more: Law = defaultdict(float)
        for counts, p in found.items():
            for answer, chance in enumerate(row):
                more[(*counts[:answer], counts[answer] + 1, *counts[answer + 1 :])] += p * chance
        found = more
    return found


def hockey_stick(
    one: dict[tuple[int, ...], float], other: dict[tuple[int, ...], float], epsilon: float
) -> float:
    return math.fsum(max(0.0, p - math.exp(epsilon) * other.get(counts, 0.0)) for counts, p in one.items())


@sweep("epsilon0", [0.3, 1.0, 3.0], everyday=(0, -1))
@pytest.mark.parametrize(("users", "k"), [(2, 2), (9, 2), (30, 2), (5, 3), (7, 3), (5, 4)])
def test_shuffled_randomized_response_is_never_above(epsilon0: float, users: int, k: int) -> None:
    """All data of the others; for two categories their most revealing ones come within a quarter."""
    rows, at = oracles.response(epsilon0, k), [part * epsilon0 for part in AT]
    worst = np.zeros(len(at))
    for others in itertools.combinations_with_replacement(range(k), users - 1):
        one, other = (law([rows[own], *(rows[i] for i in others)]) for own in (0, 1))
        for first, second in ((one, other), (other, one)):
            worst = np.maximum(worst, [hockey_stick(first, second, x) for x in at])
        if k == 2 and users > 20 and len(set(others)) > 1:
            continue
    found, general = (np.array(profile(epsilon0, users, given, at)) for given in (k, None))
    assert np.all(worst <= found + 1e-13)
    assert np.all(found <= general * (1 + 1e-9))
    if k == 2:
        assert found[0] <= worst[0] * 1.25


def test_any_mechanism_is_never_above_what_epsilon_alone_gives() -> None:
    """Random mechanisms of pure epsilon0 among three inputs, and random data of the others."""
    generator, tight = np.random.default_rng(8), 0.0
    for _ in range(60):
        epsilon0 = float(generator.choice([0.5, 1.5, 3.0]))
        corners = generator.integers(0, 2, (3, 4))
        rows = np.exp(epsilon0 * corners) + 0.0
        rows /= rows.sum(axis=1, keepdims=True)
        own = float(np.log(rows.max(axis=0) / rows.min(axis=0)).max())
        if own == 0.0:
            continue
        others = generator.integers(0, 3, 4)
        one, other = (law([rows[i].tolist(), *(rows[j].tolist() for j in others)]) for i in (0, 1))
        at = [part * own for part in AT]
        for x, found in zip(at, profile(own, 5, None, at), strict=True):
            truth = hockey_stick(one, other, x)
            assert truth <= found + 1e-13
            tight = max(tight, truth / found if found > 0.0 else 0.0)
    assert tight > 0.5


def test_the_bound_for_more_users_than_there_are_is_too_little() -> None:
    """Planted: five times the users."""
    epsilon0, users = 3.0, 9
    rows = oracles.response(epsilon0, 2)
    one, other = (law([rows[own], *[rows[0]] * (users - 1)]) for own in (0, 1))
    at = [0.1 * epsilon0, 0.3 * epsilon0]
    worst = [max(hockey_stick(one, other, x), hockey_stick(other, one, x)) for x in at]
    assert all(truth > wrong for truth, wrong in zip(worst, profile(epsilon0, 5 * users, 2, at), strict=True))


def test_incomplete_beta_functions_are_as_exact_as_is_assumed() -> None:
    """To a quarter of the margin, from the middle to 35 deviations away."""
    worst = 0.0
    with flint.ctx.workprec(200):
        for fair, deviations in itertools.product(
            (70, 10**3, 10**5, 10**7, 10**9), (0.0, 1.0, 6.0, 20.0, 35.0)
        ):
            a = math.ceil(fair / 2 + deviations * math.sqrt(fair) / 2)
            if a <= fair:
                exact = flint.arb(0.5).beta_lower(a, fair - a + 1, 1)
                found = float(special.betainc(a, fair - a + 1, 0.5))
                worst = max(worst, abs(float(found / exact - 1)))
    assert worst < 0.25 * shuffled._ASSUMED


@pytest.mark.parametrize("users", [2_000, 10**8])
@sweep("epsilon0", [0.1, 1.0, 3.0], everyday=(0, -1))
def test_never_above_the_closed_form(epsilon0: float, users: int) -> None:
    """Feldman, McMillan and Talwar 2021, Theorem 3.1, where its condition holds."""
    delta, e = 1e-6, math.exp(epsilon0)
    if epsilon0 > math.log(users / (16 * math.log(2 / delta))):
        return
    root = math.sqrt(e * math.log(4 / delta) / users)
    closed = math.log1p((e - 1) / (e + 1) * (8 * root + 8 * e / users))
    mechanism = Shuffled(local=OpaquePureDP(epsilon=epsilon0, justification="x"), users=users)
    losses = shuffled_losses(mechanism.dominating_pair())
    assert losses.delta(np.array([closed]))[0] <= 1e-12
    assert losses.delta(np.array([0.4 * closed]))[0] <= delta


def test_more_users_and_less_epsilon_protect_more() -> None:
    at = [0.05, 0.2]
    grown = [profile(1.0, users, None, at) for users in (5, 600, 10**6, 10**15)]
    assert all(np.all(np.array(b) <= a) for a, b in itertools.pairwise(grown))
    assert np.all(np.array(profile(0.5, 600, None, at)) <= profile(1.0, 600, None, at))


def test_it_composes_and_costs_at_most_its_answers() -> None:
    mechanism = Shuffled(local=RandomizedResponse(epsilon=1.0), users=2000)
    assert pure_epsilon(mechanism) == 1.0
    moment = log_moment(mechanism, REPLACE, mixture_first=True)
    assert all(0.0 <= moment(t) <= t for t in (0.1, 1.0, 100.0))
    figures = []
    for count in (1, 10):
        release = make.release(mechanism, count)
        found = bounds(compose([release], REPLACE), ApproxDP(epsilon=0.0, delta=1e-6))
        figures.append(found[0].guarantee.epsilon)  # type: ignore[union-attr]
        assert found[0].method == "pld"
        assert found[0].at_least is None or found[0].at_least <= figures[-1]
    assert figures[0] < figures[1] < 4.0 * figures[0], "ten runs cost about the root of ten"


@sweep("epsilon0", [1e-300, 1e-9, 50.0, 800.0, 1e5], everyday=(0, 2, -1))
def test_extreme_epsilons(epsilon0: float) -> None:
    for categories in (None, 2, 10**6):
        for users in (1, 1000):
            found = profile(epsilon0, users, categories, [0.0, 0.5 * epsilon0])
            assert 0.0 <= found[1] <= found[0] <= 1.0 + 1e-9


def test_what_is_past_computing_is_refused() -> None:
    with pytest.raises(CannotBound):
        shuffled_losses(dominating.Shuffled(1e7, 10, None))
