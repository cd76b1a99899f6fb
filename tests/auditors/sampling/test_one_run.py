import functools
import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from dpaudit import L1, Laplace
from dpaudit.accountants.curves.implied import implied_curve
from dpaudit.auditors.sampling import one_run as coins_and_ties
from dpaudit.auditors.sampling.curatorless import Plain
from dpaudit.auditors.sampling.one_run import Canaries, audit_in_one_run, one_run
from dpaudit.auditors.sampling.trial import repeat_trial
from dpaudit.auditors.statistics.claim_points import claimed_points
from dpaudit.auditors.statistics.right_guesses import (
    Family,
    Hypothesis,
    best_count,
    curve_floor,
    largest_parameter,
    one_run_p_value,
    planned,
)
from dpaudit.certificate.verdicts import Experiment
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.errors import DataError, InvalidParameter


def lower_bound(canaries: int, guesses: int, correct: int, delta: float) -> float:
    family = Family(delta)
    return largest_parameter(family, lambda _: guesses, canaries, lambda _: correct, 0.05)[0]


def test_published_vectors() -> None:
    assert one_run_p_value(1000, 100, 90, 1.0, 0.0) == pytest.approx(2.7358e-5, rel=1e-4)
    assert lower_bound(1000, 100, 90, 0.0) == pytest.approx(1.63082, abs=5e-6)


@pytest.mark.parametrize(
    ("m", "r", "v", "epsilon", "delta"),
    [(1000, 100, 90, 1.0, 1e-5), (50, 20, 18, 0.5, 1e-3), (10, 4, 4, 0.1, 0.01), (200, 200, 130, 0.2, 1e-6)],
)
def test_theorem_with_delta(m: int, r: int, v: int, epsilon: float, delta: float) -> None:
    with mpmath.workdps(60):
        right = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        mass = [mpmath.binomial(r, k) * right**k * (1 - right) ** (r - k) for k in range(r + 1)]
        beyond = mpmath.fsum(mass[v:])
        steepest = max(mpmath.fsum(mass[:k]) / (k * mass[k]) for k in range(1, v + 1))
        exact = min(mpmath.mpf(1), beyond + m * mpmath.mpf(delta) * beyond * steepest)
    value = one_run_p_value(m, r, v, epsilon, delta)
    assert exact <= value <= exact * (1 + mpmath.mpf("1e-8"))


def test_bound_falls_with_canaries_times_delta() -> None:
    bounds = [lower_bound(m, 100, 90, 1e-5) for m in (100, 10_000, 1_000_000)]
    assert bounds[0] > bounds[1] > bounds[2] == 0.0


def _canaries(epsilon: float, m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Randomized response about each coin: epsilon-DP per canary, exactly."""
    random = np.random.default_rng(seed)
    coins = random.random(m) < 0.5
    told = np.where(random.random(m) < 1 / (1 + np.exp(-epsilon)), coins, ~coins)
    return told + 1e-3 * random.random(m), coins


def test_twice_as_revealing_is_found_and_the_correct_one_is_not() -> None:
    found = [
        one_run(*_canaries(epsilon, 1000, 3), guesses=800, claim=Claim(PureDP(epsilon=1.0)))
        for epsilon in (2.0, 1.0)
    ]
    assert [audit.verdict for audit in found] == [Experiment.REFUTED, Experiment.NOT_REFUTED]
    assert found[0].refuted_by == ("epsilon", "p-value")
    assert 1.6 < found[0].epsilon_lower < 2.0
    assert found[1].epsilon_lower < 1.0


def test_too_few_guesses_are_inconclusive() -> None:
    audit = one_run(*_canaries(3.0, 20, 1), guesses=6, claim=Claim(ApproxDP(epsilon=1.0, delta=1e-5)))
    assert audit.verdict is Experiment.INCONCLUSIVE
    assert audit.largest_refutable_epsilon < 1.0


def gaussian(mu: float, m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Each canary beside noise of its own: mu-GDP for each coin, exactly."""
    random = np.random.default_rng([31, seed])
    coins = random.random(m) < 0.5
    return random.normal(size=m) + mu * coins, coins


@functools.cache
def mu_claim(mu: float) -> dict[str, Any]:
    return {"claim": Claim(GDP(mu=mu)), "curve": implied_curve(GDP(mu=mu))}


@pytest.mark.parametrize("guarantee", [GDP(mu=0.4), ZCDP(rho=0.08), ApproxDP(epsilon=1.5, delta=1e-4)])
def test_a_leak_is_found_under_any_curve_and_its_innocent_twin_is_not(guarantee: Any) -> None:
    """The claims hold at mu = 0.4; at mu = 3 none does."""
    for mu, verdict in ((3.0, Experiment.REFUTED), (0.4, Experiment.NOT_REFUTED)):
        audit = one_run(*gaussian(mu, 1000, 1), claim=Claim(guarantee), curve=implied_curve(guarantee))
        assert audit.verdict is verdict
        assert audit.p_value is not None
        assert (audit.p_value <= 0.05) is (verdict is Experiment.REFUTED)


def test_a_claim_of_gdp_and_the_bound_on_mu_are_one_test() -> None:
    both = {True: 0, False: 0}
    for seed in range(16):
        claimed = float(np.random.default_rng(seed).uniform(0.2, 0.7))
        audit = one_run(*gaussian(1.0, 400, seed), **mu_claim(claimed))
        assert audit.mu_lower is not None
        assert audit.p_value is not None
        assert (audit.mu_lower > claimed) is (audit.p_value <= 0.05)
        assert set(audit.refuted_by) in (set(), {"mu", "p-value"})
        both[audit.mu_lower > claimed] += 1
    assert min(both.values()) >= 3


def test_a_claim_of_epsilon_and_its_bound_are_one_test() -> None:
    both = {True: 0, False: 0}
    for seed in range(16):
        claimed = float(np.random.default_rng(seed).uniform(0.3, 2.5))
        claim = Claim(ApproxDP(epsilon=claimed, delta=1e-6))
        audit = one_run(*gaussian(1.5, 400, seed), claim=claim, delta=1e-6 if seed % 2 else 1e-5)
        assert audit.epsilon_lower is not None
        assert audit.p_value is not None
        if audit.epsilon_lower > claimed:
            assert audit.p_value <= 0.05
        if seed % 2:
            assert (audit.epsilon_lower > claimed) is (audit.p_value <= 0.05)
        both[audit.p_value <= 0.05] += 1
    assert min(both.values()) >= 3


def failures(mechanism: Callable[[int], Any], audits: int, **judged: Any) -> int:
    return sum(one_run(*mechanism(seed), **judged).verdict is Experiment.REFUTED for seed in range(audits))


def test_true_claims_are_refuted_no_more_often_than_stated() -> None:
    """False alarms at most once in a million: the numbers allowed are binomial quantiles."""
    for error in (0.05, 0.4):
        judged = {**mu_claim(1.0), "confidence": 1 - error}
        assert failures(lambda seed: gaussian(1.0, 100, seed), 20, **judged) <= binom.ppf(1 - 1e-6, 20, error)


def test_the_best_of_many_counts_chosen_afterwards_would_err_too_often() -> None:
    """A planted fault on randomized response, where one count errs as often as stated and no more."""
    best = fixed = 0
    for seed in range(300):
        told, coins = _canaries(1.0, 120, seed)
        right = np.cumsum((told > 0.5) == coins)  # in any order: all guesses are equally sure
        p_values = [one_run_p_value(120, r, int(right[r - 1]), 1.0, 0.0) for r in range(10, 121, 5)]
        best += min(p_values) <= 0.05
        fixed += p_values[-1] <= 0.05
    allowed = binom.ppf(1 - 1e-6, 300, 0.05)
    assert fixed <= allowed < best


def all_or_nothing(m: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """With probability `share` every coin is published, else noise: (0, share)-DP."""
    random = np.random.default_rng([32, seed])
    coins = random.random(m) < 0.5
    return (coins + 0.0 if random.random() < share else random.random(m)), coins


def test_coins_that_act_together_are_allowed_for() -> None:
    claim = Claim(ApproxDP(epsilon=1e-9, delta=0.04))
    refuted = failures(lambda seed: all_or_nothing(60, 0.04, seed), 60, claim=claim)
    assert refuted <= binom.ppf(1 - 1e-6, 60, 0.05)
    told = Claim(ApproxDP(epsilon=1e-9, delta=1e-6))
    assert one_run(*all_or_nothing(60, 1.0, 0), claim=told).verdict is Experiment.REFUTED


@pytest.mark.nightly
@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_true_claims_are_refuted_no_more_often_than_stated_at_length(mu: float) -> None:
    allowed = binom.ppf(1 - 1e-6, 2000, 0.05)
    assert failures(lambda seed: gaussian(mu, 300, seed), 2000, **mu_claim(mu)) <= allowed
    assert failures(lambda seed: _canaries(mu, 300, seed), 2000, claim=Claim(PureDP(epsilon=mu))) <= allowed


def medians(mu: float, audits: int) -> float:
    found = [one_run(*gaussian(mu, 1000, seed), **mu_claim(mu)).epsilon_if_gaussian for seed in range(audits)]
    return float(np.median(np.array(found, dtype=float)))


@pytest.mark.parametrize(("mu", "least"), [(1.0, 2.2), (2.0, 5.3), (4.0, 8.7)])
def test_the_bound_on_epsilon_of_a_gaussian_curve_is_as_large_as_published(mu: float, least: float) -> None:
    assert medians(mu, 7) >= least


@pytest.mark.nightly
@pytest.mark.parametrize(("mu", "least"), [(1.0, 2.4), (2.0, 5.5), (4.0, 10.0)])
def test_the_same_at_length(mu: float, least: float) -> None:
    assert medians(mu, 200) >= least


def test_several_runs_are_pooled_by_rank() -> None:
    runs = [gaussian(1.0, 300, seed) for seed in range(4)]
    scores, coins = [run[0] for run in runs], [run[1] for run in runs]
    pooled = one_run(scores, coins, **mu_claim(0.3))
    assert pooled.trials == 1200
    assert pooled.verdict is Experiment.REFUTED
    # Each run has a scale of its own, and none hides another.
    scaled = [score * 10.0**k + 1000 * k for k, score in enumerate(scores)]
    assert one_run(scaled, coins, **mu_claim(0.3)) == pooled
    assert one_run([scores[0]], [coins[0]], **mu_claim(0.3)) == one_run(scores[0], coins[0], **mu_claim(0.3))


def three_runs(seed: int) -> tuple[Any, ...]:
    return tuple(zip(*(gaussian(1.0, 40, 9 * seed + k) for k in range(3)), strict=True))


def test_true_claims_about_several_runs_are_refuted_no_more_often_than_stated() -> None:
    judged = {**mu_claim(1.0), "confidence": 0.6}
    assert failures(three_runs, 20, **judged) <= binom.ppf(1 - 1e-6, 20, 0.4)


def test_equal_scores_tell_nothing_however_the_canaries_are_sorted() -> None:
    """Given sorted by their coins, equal scores must not be guessed by their places."""
    for coins in (np.arange(400) < 200, np.arange(400) >= 200):
        audit = one_run(np.zeros(400), coins, **mu_claim(0.01))
        assert (audit.verdict, audit.mu_lower) == (Experiment.NOT_REFUTED, 0.0)
    sharp = np.arange(400) % 2 == 0
    assert one_run(sharp, sharp, **mu_claim(0.5)).verdict is Experiment.REFUTED
    assert one_run(np.where(sharp, np.inf, -np.inf), sharp, **mu_claim(0.5)).verdict is Experiment.REFUTED


def test_coins_ties_and_noise_have_streams_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one stream, the order of equal scores could tell how the coins fell; (6, 0) seeds the noise."""
    seeds: list[tuple[int, ...]] = []
    whole = np.random.SeedSequence

    def seen(words: tuple[int, ...]) -> Any:
        seeds.append(words)
        return whole(words)

    monkeypatch.setattr(coins_and_ties, "SeedSequence", seen)
    canaries = Canaries(9, lambda coins: coins.astype(float), lambda output: output)
    audit_in_one_run(Plain(lambda data, _: data), canaries, seed=6)
    assert len(seeds) == 2
    assert len({*seeds, (6, 0), (6, 1)}) == 4


def test_without_a_claim_epsilon_is_bounded_and_nothing_is_supposed() -> None:
    audit = one_run(*gaussian(2.0, 1000, 2))
    assert (audit.claim, audit.p_value, audit.mu_lower) == (None, None, None)
    assert 2.5 < (audit.epsilon_lower or 0.0) < 5
    assert [condition.code for condition in audit.not_checked] == [
        "independent-canaries",
        "canaries-times-delta",
    ]
    assert one_run(*gaussian(2.0, 1000, 2), delta=0.0).not_checked == audit.not_checked[:1]


@pytest.mark.parametrize("guesses", [1, 2, 3, 7, 40])
def test_the_clearest_on_either_end_are_guessed_equally_many(guesses: int) -> None:
    """The highest in, one more of them where the number is odd; counted by looking at each."""
    scores, coins = gaussian(1.0, 40, 4)
    order = np.argsort(-scores)
    tops, bottoms = (guesses + 1) // 2, guesses // 2
    right = int(coins[order[:tops]].sum()) + int((~coins[order[len(order) - bottoms :]]).sum())
    audit = one_run(scores, coins, guesses=guesses, claim=Claim(PureDP(epsilon=0.5)))
    assert f"{right} of {guesses} guesses about 40 canaries are right" in audit.event
    assert audit.p_value == Family(0.0).member(0.5).p_value(40, guesses, right)
    assert (audit.pairs, audit.trials) == (0, 40)


@pytest.mark.parametrize(
    ("guarantee", "delta"),
    [
        (PureDP(epsilon=0.6), None),
        (PureDP(epsilon=0.6), 1e-3),
        (ApproxDP(epsilon=0.6, delta=1e-4), None),
        (ApproxDP(epsilon=0.6, delta=1e-4), 1e-3),
        (GDP(mu=0.5), None),
        (ZCDP(rho=0.1), None),
        (None, 1e-3),
    ],
)
@pytest.mark.parametrize("guesses", [None, 50])
def test_bound_and_verdict_count_the_guesses_that_were_planned_for_them(
    guarantee: Any, delta: float | None, guesses: int | None
) -> None:
    scores, coins = gaussian(2.0, 300, 5)
    curve = None if guarantee is None else implied_curve(guarantee)
    claim = None if guarantee is None else Claim(guarantee)
    audit = one_run(scores, coins, claim=claim, curve=curve, delta=delta, guesses=guesses)
    order = np.argsort(scores)
    inside, outside = np.cumsum(coins[order[::-1]]), np.cumsum(~coins[order])

    def correct(count: int) -> int:
        return int(inside[(count + 1) // 2 - 1]) + (int(outside[count // 2 - 1]) if count > 1 else 0)

    error = 1 - 0.95
    reported = delta if delta is not None else 1e-4 if isinstance(guarantee, ApproxDP) else 1e-5
    reported = 0.0 if guarantee == PureDP(epsilon=0.6) and delta is None else reported
    family = Family() if isinstance(guarantee, GDP) else Family(reported)
    own = family
    if isinstance(guarantee, PureDP | ApproxDP):
        own = Family(getattr(guarantee, "delta", 0.0))
    if isinstance(guarantee, ZCDP):
        hypothesis = Hypothesis(curve_floor(claimed_points(claim, curve, delta).pairs))
        counts = best_count(hypothesis, 300, error) if guesses is None else guesses
        plan: Any = lambda _: counts  # noqa: E731
    else:
        hypothesis = own.member(getattr(guarantee, "epsilon", getattr(guarantee, "mu", 0.0)))
        plan = planned(own, 300, error) if guesses is None else lambda _: guesses
    bound, count = largest_parameter(family, plan, 300, correct, error)
    assert (audit.mu_lower if isinstance(guarantee, GDP) else audit.epsilon_lower) == bound > 0.0
    if guarantee is None:
        assert audit.p_value is None
        assert f"{correct(count)} of {count} guesses" in audit.event
        return
    if not isinstance(guarantee, ZCDP):
        count = plan(getattr(guarantee, "epsilon", getattr(guarantee, "mu", 0.0)))
    else:
        count = plan(0.0)
    assert f"{correct(count)} of {count} guesses" in audit.event
    assert audit.p_value == hypothesis.p_value(300, count, correct(count))
    most, _ = largest_parameter(family, plan, 300, lambda all_of_them: all_of_them, error)
    if isinstance(guarantee, GDP):
        assert f"mu {most:.4g} could be refuted at most" in audit.event
    else:
        assert audit.largest_refutable_epsilon == most


def test_how_many_guesses_it_takes_is_told() -> None:
    """Of pure DP r right guesses of r have the probability (e^epsilon / (1 + e^epsilon))^r."""
    scores, coins = gaussian(1.0, 30, 6)
    for epsilon, guesses in ((1.0, 9), (2.0, 23)):
        least = math.ceil(math.log(0.05) / -math.log1p(math.exp(-epsilon)))
        for given in (guesses, guesses + 1):
            audit = one_run(scores, coins, guesses=given, claim=Claim(PureDP(epsilon=epsilon)))
            assert bool(audit.inconclusive) is (given < least)
            if audit.inconclusive:
                needed = math.ceil(30 / given * least - 0.5)
                assert f"it takes at least {least} guesses about {needed}" in audit.inconclusive[0]
    never = one_run(scores, coins, guesses=3, claim=Claim(ApproxDP(epsilon=1.0, delta=0.2)))
    assert "nor can 16384 guesses about 163840" in never.inconclusive[0]


def test_coins_that_fell_too_unevenly_are_refused() -> None:
    """Both sides together fall so with a probability below 1e-9."""
    for heads, fits in ((20, True), (19, False), (80, True), (81, False)):
        assert bool(2 * binom.cdf(min(heads, 100 - heads), 100, 0.5) >= 1e-9) is fits
        coins = np.arange(100) < heads
        if fits:
            one_run(np.zeros(100), coins)
        else:
            with pytest.raises(DataError, match=f"{heads} of 100 canaries"):
                one_run(np.zeros(100), coins)


BAD: list[tuple[Any, Any]] = [
    (np.zeros(3), np.zeros(4, dtype=bool)),
    (np.array([0.0, np.nan]), np.array([True, False])),
    (np.zeros((2, 2)), np.zeros((2, 2), dtype=bool)),
    (np.zeros(0), np.zeros(0, dtype=bool)),
    (np.zeros(2), np.array([0, 1])),
    (np.array(["a", "b"]), np.array([True, False])),
    (np.array([1j, 2j]), np.array([True, False])),
    (5.0, True),
    ([np.zeros(3), np.zeros(3)], [np.zeros(3, dtype=bool)]),
    ([np.zeros(3), np.zeros(2)], [np.zeros(3, dtype=bool), np.zeros(3, dtype=bool)]),
    ([np.zeros(3), 5.0], [np.zeros(3, dtype=bool), True]),
    ([np.zeros(3)], np.zeros(3, dtype=bool)),
    ([], []),
    (np.zeros(200), np.ones(200, dtype=bool)),
    (np.zeros(200), np.zeros(200, dtype=bool)),
]


@pytest.mark.parametrize(("scores", "included"), BAD)
def test_scores_and_coins_that_do_not_fit_are_refused(scores: Any, included: Any) -> None:
    with pytest.raises(DataError) as caught:
        one_run(scores, included)
    assert caught.value.remedy


def test_nonsense_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        one_run_p_value(10, 11, 5, 1.0, 0.0)
    with pytest.raises(InvalidParameter):
        one_run(np.zeros(4), np.ones(4, dtype=bool), guesses=5)
    with pytest.raises(DataError):
        one_run(np.array([0.0, np.nan]), np.ones(2, dtype=bool), guesses=1)
    with pytest.raises(DataError):
        one_run(np.zeros(2), np.ones(2), guesses=1)


def test_one_run_tosses_fair_coins_that_the_noise_does_not_know() -> None:
    inserted: list[Any] = []

    def insert(coins: Any) -> Any:
        inserted.append(coins)
        return coins.astype(float)

    def noisy(data: Any, generator: np.random.Generator) -> Any:
        return data + generator.normal(size=data.shape)

    audit = audit_in_one_run(Plain(noisy), Canaries(4000, insert, lambda output: output), seed=6)
    (coins,) = inserted
    assert abs(int(coins.sum()) - 2000) < 155  # once in a million
    noise = repeat_trial(Plain(noisy), coins.astype(float), seed=6, side=0, index=0) - coins
    assert abs(float(np.corrcoef(noise, coins)[0, 1])) < 0.08
    assert (audit.trials, audit.pairs) == (4000, 0)
    with pytest.raises(DataError):
        audit_in_one_run(Plain(noisy), Canaries(50, insert, lambda output: output[:9]))
    with pytest.raises(InvalidParameter):
        audit_in_one_run(Plain(noisy), Canaries(0, insert, lambda output: output))
    assert audit_in_one_run(Plain(noisy), Canaries(1, insert, lambda output: output)).trials == 1
    assert one_run(np.zeros(1), np.ones(1, dtype=bool)).trials == 1


def test_a_run_has_the_relation_of_its_claim_and_what_else_it_is_told() -> None:
    """A claim is the algorithm's own where none is given; a coin adds or removes a unit if none says else."""
    told: list[Any] = []

    class Claimed:
        claim: Claim | None = Claim(PureDP(epsilon=1.0), neighbouring="replace-one")

        def __call__(self, data: Any, curator: Any) -> Any:
            told.append((curator.ledger.header.neighbouring, curator.ledger.header.unit))
            return curator.release(data, Laplace(scale=1.0, sensitivity=L1(1.0)), label="x")

    def audited(**more: Any) -> Any:
        canaries = Canaries(6, lambda coins: coins.astype(float), lambda output: output)
        return audit_in_one_run(own, canaries, **more)

    own = Claimed()
    assert audited(run_options={"unit": "visit"}).claim == Claimed.claim
    own.claim = None
    claimed = audited(claim=Claim(PureDP(epsilon=1.0))).claim
    assert claimed is not None
    assert claimed.neighbouring == "add-or-remove-one"
    assert audited().claim is None
    unit = told[1][1]
    assert told == [("replace-one", "visit"), ("add-or-remove-one", unit), ("add-or-remove-one", unit)]
    assert unit != "visit"
