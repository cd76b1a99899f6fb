"""A sampling audit from beginning to end: its scores, its evaluations, and the results of several pairs."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpaudit import GDP, L1, L2, ZCDP, Claim, Curator, Gaussian, Laplace, PureDP
from dpaudit.auditors.sampling.curatorless import Plain
from dpaudit.auditors.sampling.exact_ratio import exact_ratio
from dpaudit.auditors.sampling.sampling import SamplingPlan, SoFar, audit_by_sampling, combine_pairs
from dpaudit.auditors.sampling.trials import run_trials
from dpaudit.auditors.statistics.gdp import gaussian_trade_off
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.sequential import SequentialFeed, begin, sequential
from dpaudit.auditors.statistics.threshold import threshold
from dpaudit.certificate.verdicts import Audit, Experiment
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import View
from dpaudit.errors import CannotBound, InvalidParameter, ScoreShape, TrialFailed, UsageError
from dpaudit.mechanisms import OpaquePureDP
from tests.sweeps import sweep

PAIR = Pair(np.array([0.0, 0.0]), np.array([0.0, 1.0]))
SAME = Pair(np.array([0.0, 0.0]), np.array([0.0, 0.0]))
CLAIM = Claim(PureDP(epsilon=1.0))


def rows(scale: float) -> Plain:
    def single(data: Any, generator: np.random.Generator) -> Any:
        return data.sum() + generator.laplace(scale=scale)

    def many(data: Any, generator: np.random.Generator, trials: int) -> Any:
        return data.sum() + generator.laplace(scale=scale, size=trials)

    return Plain(single, rows=many)


def two_releases(data: Any, curator: Curator) -> Any:
    first = curator.release(data.sum(), Gaussian(sigma=1.0, sensitivity=L2(1.0)), label="first")
    # The second query depends on the first output, and the output keeps neither.
    second = curator.release(
        data.sum() * float(first > 0), Laplace(scale=2.0, sensitivity=L1(1.0)), label="second"
    )
    return float(second > 1e9)


def test_the_exact_ratio_is_the_log_likelihood_ratio_of_the_trials_own_releases() -> None:
    scores = run_trials(exact_ratio(two_releases, PAIR, seed=5), PAIR, 20, seed=5)
    for side, sums, found in ((0, 0.0, scores.data), (1, 1.0, scores.neighbour)):
        for index, score in enumerate(found):
            # The same draws as the curator's, from the trial's own seed.
            generator = np.random.default_rng(np.random.SeedSequence((5, side, index)))
            first = sums + generator.normal(0.0, 1.0)
            second = sums * float(first > 0) + generator.laplace(0.0, 2.0)
            moved = float(first > 0)
            ratio = stats.norm.logpdf(first) - stats.norm.logpdf(first - 1.0)
            ratio += (abs(second - moved) - abs(second)) / 2.0
            assert score == pytest.approx(ratio, rel=1e-9, abs=1e-12)


def test_the_exact_ratio_does_not_see_which_side_a_run_was_on() -> None:
    # Hidden randomness is in no release: a score that took it over from the run would refute an innocent.
    def hidden(data: Any, curator: Curator) -> Any:
        query = data.sum() * 0.0 + np.random.normal()  # noqa: NPY002  (the fault)
        return curator.release(query, Laplace(scale=1.0, sensitivity=L1(1.0)), label="hidden")

    scores = run_trials(exact_ratio(hidden, PAIR), PAIR, 20)
    assert not scores.data.any()
    assert not scores.neighbour.any()


def test_the_exact_ratio_needs_densities() -> None:
    def opaque(data: Any, curator: Curator) -> Any:
        mechanism = OpaquePureDP(epsilon=1.0, justification="elsewhere")
        return curator.release_opaque(
            data.sum(), lambda value, generator: value + generator.laplace(), mechanism, label="opaque"
        )

    with pytest.raises(CannotBound, match="densities of all releases"):
        exact_ratio(opaque, PAIR)


def test_the_exact_ratio_is_refused_for_a_claim_about_less() -> None:
    claim = Claim(PureDP(epsilon=1.0), view=View.FINAL_OUTPUT)
    with pytest.raises(UsageError, match="may reveal more"):
        audit_by_sampling(two_releases, [PAIR], SamplingPlan(20), score="exact", claim=claim)


def test_an_algorithm_that_fails_is_named_by_its_trial_with_an_exact_ratio_too() -> None:
    def fails(data: Any, curator: Curator) -> Any:
        raise ZeroDivisionError

    with pytest.raises(TrialFailed, match=r"seed 3, side 0, trial 0"):
        audit_by_sampling(fails, [PAIR], SamplingPlan(20, seed=3), score="exact")


@sweep("method", ["threshold", "sequential", "gdp"], everyday=(0, 2))
def test_it_is_the_test_of_the_trials_scores(method: Any, nightly: bool) -> None:
    runs = 3000 if nightly else 400
    claim = Claim(GDP(mu=3.0)) if method == "gdp" else CLAIM
    audit = audit_by_sampling(
        rows(0.5), [PAIR], SamplingPlan(runs, seed=4), method=method, claim=claim, delta=None
    )
    trials = run_trials(rows(0.5), PAIR, runs, seed=4)
    samples = Samples(trials.data, trials.neighbour, 4)
    tests: dict[str, Any] = {"threshold": threshold, "sequential": sequential, "gdp": gaussian_trade_off}
    if method == "gdp":
        with pytest.raises(InvalidParameter):
            audit_by_sampling(rows(0.5), [PAIR], SamplingPlan(20), method="gdp", claim=CLAIM)
    assert audit == tests[method](samples, claim=claim)


def test_a_score_is_learned_of_all_the_outputs_numbers(nightly: bool) -> None:
    runs = 2000 if nightly else 200

    def vector(data: Any, generator: np.random.Generator, trials: int) -> Any:
        return data + generator.laplace(scale=0.5, size=(trials, 2))

    mechanism = Plain(lambda data, generator: vector(data, generator, 1)[0], rows=vector)
    plan = SamplingPlan(runs, seed=1)
    audit = audit_by_sampling(mechanism, [PAIR], plan, claim=CLAIM)
    trials = run_trials(mechanism, PAIR, runs, seed=1)
    expected = sequential(Samples(trials.data, trials.neighbour, 1), claim=CLAIM)
    assert (audit.epsilon_lower, audit.p_value) == (expected.epsilon_lower, expected.p_value)
    assert audit.trials == expected.trials == runs


@sweep("method", ["threshold", "sequential", "gdp"], everyday=(0, 2))
def test_an_array_of_one_number_is_that_number(method: Any, nightly: bool) -> None:
    def column(data: Any, generator: np.random.Generator, trials: int = 1) -> Any:
        return data.sum() + generator.laplace(scale=0.5, size=(trials, 1))

    one_number = Plain(lambda data, generator: column(data, generator)[0], rows=column)
    claim = Claim(GDP(mu=3.0)) if method == "gdp" else CLAIM
    found, expected = (
        audit_by_sampling(which, [PAIR], SamplingPlan(runs, seed=4), method=method, claim=claim, delta=None)
        for runs in (3000 if nightly else 400,)
        for which in (one_number, rows(0.5))
    )
    assert found == expected


@pytest.mark.nightly
def test_looks_come_at_the_same_moments_however_the_runs_come() -> None:
    generator = np.random.default_rng(0)
    data, neighbour = generator.laplace(size=3000), 1.5 + generator.laplace(size=3000)

    def audits(step: int) -> list[Any]:
        looks = SequentialFeed(begin(claim=CLAIM), "logistic")
        ends = range(step, 3001, step)
        found = [looks.so_far(Samples(data[:end], neighbour[:end])) for end in ends]
        return [*found, looks.of_all(Samples(data, neighbour))]

    fine, again = audits(100), audits(100)
    assert fine == again
    assert fine[-1].verdict is Experiment.REFUTED
    # A bound that held once is never taken back.
    bounds = [audit.epsilon_lower for audit in fine if audit is not None]
    assert bounds == sorted(bounds)


def _keeps_half(size: int, seed: int) -> Samples:
    """A bit told truly with odds e^0.5, all that a claim of 0.5 allows, beside a column of noise."""
    random = np.random.default_rng(seed)
    told = random.random((2, size)) < math.exp(0.5) / (1 + math.exp(0.5))
    columns = [np.where(told[0], 0.0, 1.0), np.where(told[1], 1.0, 0.0)]
    return Samples(*(np.stack([bit, random.normal(size=size)], axis=1) for bit in columns), seed)


@pytest.mark.parametrize("learner", ["logistic", "boosting"])
def test_evidence_of_a_learned_score_never_shrinks_when_an_audit_is_extended(
    learner: Any, nightly: bool
) -> None:
    """Each size is judged anew from its first run, as by --resume --trials N."""
    claim = Claim(PureDP(epsilon=0.5))
    for seed in range(3 if learner == "logistic" and nightly else 1):
        runs = _keeps_half(700, seed)
        sizes = (30, 65, 128, 150, 300, 513, 700) if learner == "logistic" else (128, 150, 300)
        sizes = sizes if nightly else (65, 150, 300)
        found = [
            sequential(Samples(runs.data[:size], runs.neighbour[:size]), claim=claim, learner=learner)
            for size in sizes
        ]
        p_values = [audit.p_value for audit in found]
        assert p_values == sorted(p_values, reverse=True)
        bounds = [audit.epsilon_lower for audit in found]
        assert bounds == sorted(bounds)


@pytest.mark.nightly
def test_an_audit_with_a_learned_score_says_the_same_extended_or_not(tmp_path: Any) -> None:
    def told(data: Any, generator: np.random.Generator, trials: int) -> Any:
        return data + generator.laplace(scale=0.9, size=(trials, 2))

    mechanism = Plain(lambda data, generator: told(data, generator, 1)[0], rows=told)
    kept = [
        audit_by_sampling(
            mechanism, [PAIR], SamplingPlan(size, seed=3, chunk=70, resume=tmp_path / "kept"), claim=CLAIM
        )
        for size in (70, 210, 350, 980, 1400)
    ]
    whole = audit_by_sampling(
        mechanism, [PAIR], SamplingPlan(1400, seed=3, chunk=70, resume=tmp_path / "whole"), claim=CLAIM
    )
    assert kept[-1] == whole
    p_values = [audit.p_value for audit in kept]
    assert p_values == sorted(p_values, reverse=True)
    assert 1e-3 < p_values[-1] < 1


@pytest.mark.nightly
def test_false_alarms_of_a_learned_score_over_all_extensions_are_no_more_than_stated() -> None:
    """400 true claims, each judged at 5 sizes; more than 45 refuted has probability below 1e-6 at 5%."""
    claim = Claim(PureDP(epsilon=0.5))
    refuted = 0
    for seed in range(400):
        runs = _keeps_half(4000, 1000 + seed)
        sizes = (250, 500, 1000, 2000, 4000)
        audits = (sequential(Samples(runs.data[:n], runs.neighbour[:n]), claim=claim) for n in sizes)
        refuted += any(audit.verdict is Experiment.REFUTED for audit in audits)
    assert refuted <= 45


def test_several_pairs_share_one_error(nightly: bool) -> None:
    runs = 5000 if nightly else 1000
    seen: list[SoFar] = []
    audit = audit_by_sampling(
        rows(0.5),
        [SAME, PAIR],
        SamplingPlan(runs, chunk=runs // 2),
        claim=CLAIM,
        method="threshold",
        progress=seen.append,
    )
    assert (audit.pairs, audit.verdict, audit.confidence) == (2, Experiment.REFUTED, 0.95)
    assert [(so_far.pair, so_far.done, so_far.audit) for so_far in seen] == [
        (0, runs // 2, None),
        (0, runs, None),
        (1, runs // 2, None),
        (1, runs, None),
    ]
    plan = SamplingPlan(runs, chunk=runs // 2)
    alone = audit_by_sampling(rows(0.5), [PAIR], plan, claim=CLAIM, method="threshold", confidence=0.975)
    assert audit.epsilon_lower == alone.epsilon_lower
    assert alone.p_value is not None
    assert audit.p_value == pytest.approx(2 * alone.p_value)
    innocent = audit_by_sampling(rows(1.0), [SAME, PAIR], SamplingPlan(200), claim=CLAIM, confidence=0.999999)
    assert innocent.verdict is Experiment.NOT_REFUTED


def test_ctrl_c_on_the_second_pair_leaves_no_verdict_but_a_refutation() -> None:
    def interrupted(scale: float) -> Plain:
        calls = 0

        def mechanism(data: Any, generator: np.random.Generator) -> Any:
            nonlocal calls
            calls += 1
            if calls == 2 * 150 + 125:  # in the second chunk of the second pair
                raise KeyboardInterrupt
            return data.sum() + generator.laplace(scale=scale)

        return Plain(mechanism)

    plan = SamplingPlan(150, chunk=50)
    audit = audit_by_sampling(interrupted(1.0), [SAME, PAIR], plan, claim=CLAIM, confidence=0.999999)
    assert audit.verdict is Experiment.INCONCLUSIVE
    assert audit.inconclusive == ("interrupted by Ctrl-C after 50 of 150 runs a side, on pair 2 of 2",)
    audit = audit_by_sampling(interrupted(0.2), [PAIR, SAME], plan, claim=CLAIM)
    assert (audit.verdict, audit.inconclusive) == (Experiment.REFUTED, ())


def test_an_algorithm_that_exits_is_a_trial_that_failed() -> None:
    def leaves(data: Any, generator: np.random.Generator) -> Any:
        raise SystemExit(0)

    with pytest.raises(TrialFailed, match="raised SystemExit"):
        audit_by_sampling(Plain(leaves), [PAIR], SamplingPlan(20))


def test_combined_pairs_are_inconclusive_only_if_none_could_refute() -> None:
    generator = np.random.default_rng(1)
    samples = Samples(generator.normal(size=200), generator.normal(size=200))
    could = threshold(samples, claim=CLAIM, confidence=0.975)
    could_not = threshold(samples, claim=Claim(PureDP(epsilon=9.0)), confidence=0.975)
    assert combine_pairs([could, could_not], planned=2, confidence=0.95).inconclusive == ()
    assert (
        combine_pairs([could_not, could_not], planned=2, confidence=0.95).verdict is Experiment.INCONCLUSIVE
    )


def test_of_several_pairs_the_largest_bounds_and_the_least_p_value_count() -> None:
    random = np.random.default_rng(1)
    samples = Samples(random.normal(size=200), random.normal(size=200))
    one = threshold(samples, claim=CLAIM, confidence=0.975)

    def bounded(epsilon: float | None, mu: float | None, p_value: float | None, **more: Any) -> Audit:
        figures = {"epsilon_lower": epsilon, "mu_lower": mu, "p_value": p_value, **more}
        return one.model_copy(update=figures)

    audits = [
        bounded(0.2, 0.5, 0.3, event="first", trials=90),
        bounded(0.9, None, 0.02, event="second", largest_refutable_epsilon=3.0),
        bounded(None, 0.7, None, event="third", largest_refutable_epsilon=2.0, not_checked=()),
    ]
    whole = combine_pairs(audits, planned=4, confidence=0.9)
    assert (whole.epsilon_lower, whole.mu_lower, whole.p_value) == (0.9, 0.7, 0.08)
    assert (whole.event, whole.pairs, whole.trials, whole.confidence) == ("second", 3, 90, 0.9)
    assert whole.largest_refutable_epsilon == one.largest_refutable_epsilon > 3.0
    assert whole.not_checked == one.not_checked
    # Of equal epsilons the larger mu; and no p-value is above 1.
    equal = [bounded(None, mu, 0.6, event=str(mu)) for mu in (0.3, 0.9, None)]
    whole = combine_pairs(equal, planned=3, confidence=0.9)
    assert (whole.epsilon_lower, whole.mu_lower, whole.p_value, whole.event) == (None, 0.9, 1.0, "0.9")
    assert combine_pairs(equal[2:], planned=3, confidence=0.9).mu_lower is None
    assert combine_pairs(audits[:1], planned=1, confidence=0.9) == audits[0]


def test_two_sides_that_are_the_same_bound_nothing(nightly: bool) -> None:
    # Any bound above 0 would be a false alarm, once in a million.
    for seed in range(3 if nightly else 1):
        plan = SamplingPlan(300 if nightly else 150, seed=seed)
        audit = audit_by_sampling(rows(1.0), [SAME, SAME], plan, confidence=0.999999)
        assert audit.epsilon_lower == 0.0


@pytest.mark.nightly
def test_false_alarms_over_two_pairs_are_no_more_than_stated() -> None:
    # The claim holds with equality on both pairs. 100 audits at a nominal 0.2: more than 41 alarms have
    # probability 1e-6 or less if each has at most 0.2.
    claim = Claim(PureDP(epsilon=1.0))
    alarms = sum(
        audit_by_sampling(
            rows(1.0),
            [PAIR, PAIR],
            SamplingPlan(400, seed=2 * seed),
            method="threshold",
            claim=claim,
            confidence=0.8,
        ).verdict
        is Experiment.REFUTED
        for seed in range(100)
    )
    assert stats.binom.sf(41, 100, 0.2) < 1e-6
    assert alarms <= 41


@pytest.mark.parametrize(
    ("plan", "pairs"),
    [(SamplingPlan(9), [PAIR]), (SamplingPlan(20), []), (SamplingPlan(20, time_limit=math.nan), [PAIR])],
)
def test_wrong_plans_are_refused(plan: SamplingPlan, pairs: list[Pair]) -> None:
    with pytest.raises(InvalidParameter):
        audit_by_sampling(rows(1.0), pairs, plan)


@pytest.mark.parametrize("claim", [Claim(GDP(mu=1e9)), Claim(ZCDP(rho=1e9)), Claim(GDP(mu=1e3))])
@pytest.mark.parametrize("method", ["sequential", "threshold"])
def test_a_claim_of_delta_one_everywhere_is_refused(claim: Claim, method: Any) -> None:
    with pytest.raises(InvalidParameter, match="delta = 1 at every epsilon"):
        audit_by_sampling(
            rows(1.0), [PAIR], SamplingPlan(20), method=method, claim=claim, curve=lambda epsilon: 1.0
        )


@pytest.mark.parametrize("method", ["sequential", "threshold", "gdp"])
def test_an_output_without_numbers_is_nothing_to_compare(method: Any) -> None:
    empty: list[Any] = [[], {}, np.zeros((0, 3)), ([], {"a": ()})]
    for output in empty:
        with pytest.raises(ScoreShape, match="nothing to compare"):
            audit_by_sampling(
                Plain(lambda data, generator, output=output: output), [PAIR], SamplingPlan(20), method=method
            )


def test_too_little_time_is_an_error_not_an_audit() -> None:
    single = Plain(rows(1.0).function)
    with pytest.raises(UsageError, match="before the time was up"):
        audit_by_sampling(single, [PAIR], SamplingPlan(100, chunk=2, time_limit=1e-9))


def test_a_second_pair_keeps_its_runs_in_a_file_of_its_own(tmp_path: Any) -> None:
    plan = SamplingPlan(20, resume=tmp_path / "audit.sqlite")
    first = audit_by_sampling(two_releases, [PAIR, SAME], plan)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit-pair-2.sqlite", "audit.sqlite"]
    assert audit_by_sampling(two_releases, [PAIR, SAME], plan) == first
