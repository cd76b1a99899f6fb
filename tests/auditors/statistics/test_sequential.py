import io
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from dpaudit import GDP, ApproxDP, Audit, Claim, Experiment, PureDP
from dpaudit.accountants.closed_forms.gaussian import gaussian_delta
from dpaudit.auditors.statistics import sequential as sequential_module
from dpaudit.auditors.statistics.betting import FIRST_BLOCK, pairs_needed
from dpaudit.auditors.statistics.claim_points import ClaimedPoints, PrivacyCurve
from dpaudit.auditors.statistics.learning import classifier
from dpaudit.auditors.statistics.learning.classifier import Learner, Scoring
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.sequential import Sequential, SequentialFeed, begin, sequential
from dpaudit.errors import DataError
from tests.auditors.statistics.drawn import gaussian, laplace
from tests.sweeps import sweep


@pytest.fixture
def few_epsilons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequential_module, "_GRID", np.array([0.0, 0.5, 1.0]))


@pytest.mark.nightly
def test_yardstick() -> None:
    bounds = [sequential(gaussian(1.0, 10_000, seed), delta=1e-5).epsilon_lower for seed in range(20)]
    assert np.median(bounds) >= 2.2
    assert max(bounds) < 4.377


def test_yardstick_on_one() -> None:
    bound = sequential(gaussian(1.0, 10_000, 0), delta=1e-5).epsilon_lower
    assert bound is not None
    assert 2.15 <= bound < 4.377


CLAIMS = [
    (Claim(PureDP(epsilon=1.0)), None, laplace, 2000),
    (Claim(ApproxDP(epsilon=0.5, delta=0.2389)), None, gaussian, 3000),
    (Claim(GDP(mu=1.0)), lambda epsilon: gaussian_delta(epsilon, 1.0), gaussian, 3000),
]


@pytest.mark.usefixtures("few_epsilons")
@sweep("claim, curve, mechanism, size", CLAIMS, everyday=(0, 1))
def test_twice_as_revealing_is_found_and_the_correct_one_is_not(
    claim: Claim, curve: PrivacyCurve | None, mechanism: Callable[[float, int, int], Samples], size: int
) -> None:
    found = [sequential(mechanism(shift, size, 1), claim=claim, curve=curve) for shift in (2.0, 1.0)]
    assert [audit.verdict for audit in found] == [Experiment.REFUTED, Experiment.NOT_REFUTED]
    assert found[0].p_value < 0.05 < found[1].p_value


@pytest.mark.usefixtures("few_epsilons")
def test_stopped_written_read_and_resumed_is_the_same_audit() -> None:
    samples = laplace(2.0, 1200, 4)
    claim = Claim(PureDP(epsilon=0.8))
    whole = parts = begin(claim=claim, seed=4)
    ends = [0, 30, 64, 65, 500, 1200]
    for start, end in pairwise(ends):
        whole = whole.update(samples.data[start:end], samples.neighbour[start:end])
        parts = Sequential.from_bytes(parts.to_bytes())
        parts = parts.update(samples.data[start:end], samples.neighbour[start:end])
    assert parts.audit() == whole.audit()
    assert np.array_equal(parts.wealth, whole.wealth)
    # The bets depend on the runs alone, not on when somebody looked.
    at_once = begin(claim=claim).update(samples.data, samples.neighbour)
    assert np.allclose(at_once.wealth, whole.wealth)
    assert at_once.begun == whole.begun


@pytest.mark.usefixtures("few_epsilons")
def test_the_wealth_counts_after_fixed_numbers_of_pairs_whenever_somebody_looks() -> None:
    samples = gaussian(0.6, 308, 3)
    at_once = begin().update(samples.data, samples.neighbour)
    state, between = begin().update(samples.data[:268], samples.neighbour[:268]), False
    assert state.begun == 268
    for at in range(268, 308):
        state = state.update(samples.data[at : at + 1], samples.neighbour[at : at + 1])
        between = between or bool(
            (np.log(np.array([0.75, 0.25]) @ np.exp(state.held)) > state.peak + 1e-6).any()
        )
    assert np.array_equal(state.peak, at_once.peak)
    assert between  # it was larger when nobody was to look


def test_a_state_that_would_run_code_is_not_read() -> None:
    with np.load(io.BytesIO(begin().to_bytes())) as archive:
        parts = dict(archive)
    file = io.BytesIO()
    np.savez(file, **parts | {"data": np.array([Samples], dtype=object)})
    with pytest.raises(ValueError, match="allow_pickle"):
        Sequential.from_bytes(file.getvalue())


@pytest.mark.usefixtures("few_epsilons")
def test_evidence_never_shrinks() -> None:
    samples = laplace(2.0, 900, 2)
    state, bounds, p_values = begin(claim=Claim(PureDP(epsilon=1.0))), [], []
    for start in range(0, 900, 300):
        state = state.update(samples.data[start : start + 300], samples.neighbour[start : start + 300])
        bounds.append(state.audit().epsilon_lower)
        p_values.append(state.audit().p_value)
    assert bounds == sorted(bounds)
    assert p_values == sorted(p_values, reverse=True)


def test_bets_come_from_the_past_alone() -> None:
    """Two futures that differ utterly leave the wealth at their common past the same."""
    one, other = gaussian(1.0, 120, 0), gaussian(-3.0, 120, 1)
    first = begin().update(one.data[:100], one.neighbour[:100])
    at = first.begun
    assert FIRST_BLOCK < at < 100
    past = begin().update(one.data[:at], one.neighbour[:at])
    mixed = begin().update(
        np.append(one.data[:at], other.data[at:100]), np.append(one.neighbour[:at], other.neighbour[at:100])
    )
    assert np.array_equal(first.wealth, mixed.wealth)
    assert np.array_equal(first.wealth, past.wealth)
    # The block itself does pay differently.
    longer = [
        state.update(side.data[100:], side.neighbour[100:]) for state, side in ((first, one), (mixed, other))
    ]
    assert longer[0].begun == longer[1].begun > at
    assert not np.allclose(longer[0].wealth, longer[1].wealth)


def test_before_the_first_bet_nothing_can_be_said() -> None:
    claim = Claim(PureDP(epsilon=1.0))
    needed = pairs_needed(1.0, 0.0, 0.95)
    assert FIRST_BLOCK < needed < FIRST_BLOCK + 12
    apart = Samples(np.full(needed - 1, 1.0), np.zeros(needed - 1))
    audit = sequential(apart, claim=claim)
    assert audit.verdict is Experiment.INCONCLUSIVE
    assert str(needed) in audit.inconclusive[0]
    assert begin(claim=claim).audit().verdict is Experiment.INCONCLUSIVE
    assert not sequential(Samples(np.full(needed, 1.0), np.zeros(needed)), claim=claim).inconclusive


def test_distributions_that_do_not_overlap_are_told_apart_soon() -> None:
    apart = Samples(np.full(1000, math.inf), np.full(1000, -math.inf))
    audit = sequential(apart)
    assert 3.5 < audit.epsilon_lower <= audit.largest_refutable_epsilon


def test_scores_come_in_pairs() -> None:
    with pytest.raises(DataError):
        begin().update(np.zeros(3), np.zeros(2))
    with pytest.raises(DataError):
        begin().update(np.array([math.nan, 1.0]), np.zeros(2))
    with pytest.raises(DataError):
        begin().update(np.zeros(2), np.array([1.0, math.nan]))


def test_what_is_refuted_follows_from_the_largest_wealth_of_each_claim() -> None:
    """A wealth of 1/(1 - confidence) refutes, one just below it does not, and a gap ends the bound."""
    empty = begin(claim=Claim(PureDP(epsilon=1.0)), confidence=0.9)
    claims = len(empty.bank)
    assert empty.bank[50] == 1.0

    def judged(*richest: float) -> Audit:
        peak = np.zeros(claims)
        peak[: len(richest)] = richest
        return replace(empty, peak=peak).audit()

    goal = -math.log(1 - 0.9)
    assert [judged(*[goal] * n).epsilon_lower for n in (0, 1, 2, 51, claims)] == [0.0, 0.0, 0.02, 1.0, 11.98]
    assert judged(goal, goal - 1e-9, goal).epsilon_lower == 0.0
    assert judged(goal, goal, 0.0, goal).epsilon_lower == 0.02
    assert [judged(*[0.0] * 50, wealth).p_value for wealth in (-1.0, 0.0, 2.0)] == [1.0, 1.0, math.exp(-2.0)]
    assert judged(*[9.0] * 50).p_value == 1.0


@pytest.mark.usefixtures("few_epsilons")
def test_blocks_grow_by_a_share_and_bets_are_counted_after_the_first() -> None:
    samples = gaussian(1.0, 120, 5)
    begun = []
    for n in (10, 63, 64, 73, 74, 85, 86, 99, 120):
        state = begin().update(samples.data[:n], samples.neighbour[:n])
        begun.append((state.begun, state.bets))
    assert begun == [*((0, 0), (0, 0), (64, 0), (64, 9), (74, 10), (74, 21), (86, 22), (99, 35), (114, 56))]
    apart = begin().update(samples.data[:70], samples.neighbour[:70])
    assert apart.update(samples.data[70:90], samples.neighbour[70:90]).bets == 26


@pytest.mark.usefixtures("few_epsilons")
def test_wealth_is_carried_to_another_score() -> None:
    """The next bets follow from the new scores; what was won stays, and refutes what it did."""
    samples = laplace(3.0, 400, 6)
    state = begin(claim=Claim(PureDP(epsilon=0.5))).update(samples.data, samples.neighbour)
    other = state.rescored(-samples.data[200:], -samples.neighbour[200:])
    assert (other.begun, other.bets) == (200, state.bets)
    assert np.array_equal(other.wealth, state.held)
    assert np.array_equal(other.settled, state.peak)
    assert other.audit().epsilon_lower == state.audit().epsilon_lower == 1.0
    further = other.update(-samples.data[:30], -samples.neighbour[:30])
    assert further.bets == state.bets + 30
    assert (further.peak >= state.peak).all()


@pytest.mark.usefixtures("few_epsilons")
def test_the_wealth_now_is_that_of_the_last_pair() -> None:
    """Of the two strategies' wealth one had 3/4 to begin with; where every pair wins the last is the most."""
    state = begin().update(np.full(70, 1.0), np.zeros(70))
    assert (state.begun, state.bets) == (64, 6)
    assert np.all(state.held[:, 0] > 0.1)
    both = np.array([0.75, 0.25]) @ np.exp(state.held)
    assert state.peak == pytest.approx(np.log(both), rel=1e-9)
    assert state.audit().largest_refutable_epsilon == 1.0


CURVE = (Claim(GDP(mu=1.0)), lambda epsilon: gaussian_delta(epsilon, 1.0), 1e-5)


@pytest.mark.usefixtures("few_epsilons")
@pytest.mark.parametrize(
    ("claim", "curve", "delta"),
    [CURVE, (Claim(ApproxDP(epsilon=1.5, delta=0.01)), None, 0.02), (Claim(PureDP(epsilon=0.5)), None, 0.0)],
)
def test_a_claim_does_not_move_the_bound(claim: Claim, curve: PrivacyCurve | None, delta: float) -> None:
    """The epsilons at the reported delta have the wealth that they have without any claim."""
    samples = gaussian(3.0, 200, 1)
    told, alone = (
        begin(claim=claim, curve=curve, delta=delta).update(samples.data, samples.neighbour),
        begin(delta=delta).update(samples.data, samples.neighbour),
    )
    assert np.array_equal(told.wealth[:, :3], alone.wealth)
    assert np.array_equal(told.peak[:3], alone.peak)


@pytest.mark.usefixtures("few_epsilons")
def test_a_claim_is_bet_on_after_every_epsilon_is_refuted() -> None:
    """At delta = 0.1 all epsilons are refuted long before the claim; from then on only it has bets."""
    samples, claim = gaussian(6.0, 600, 1), Claim(ApproxDP(epsilon=4.0, delta=1e-3))
    state = begin(claim=claim, delta=0.1, confidence=1 - 1e-4)
    early = state.update(samples.data[:100], samples.neighbour[:100])
    assert early.audit().epsilon_lower == 1.0
    assert early.audit().verdict is not Experiment.REFUTED
    assert state.update(samples.data, samples.neighbour).audit().verdict is Experiment.REFUTED


@pytest.mark.usefixtures("few_epsilons")
@pytest.mark.parametrize("mu", [1.0, 4.0])
def test_a_claimed_curve_has_a_wealth_of_its_own(mu: float) -> None:
    claim = Claim(GDP(mu=1.0))
    samples = gaussian(mu, 300, 1)
    state = begin(claim=claim, curve=lambda epsilon: gaussian_delta(epsilon, 1.0))
    for start in range(0, 300, 100):
        state = state.update(samples.data[start : start + 100], samples.neighbour[start : start + 100])
    audit = state.audit()
    assert state.separate
    assert state.peak.shape == (len(state.bank) + 1,) == (4,)
    assert audit.p_value == min(1.0, math.exp(-state.peak[-1]))
    assert audit.verdict is (Experiment.REFUTED if mu > 1.0 else Experiment.NOT_REFUTED)
    # At the claim's own delta the bank has it, at another one it has not.
    stated = Claim(ApproxDP(epsilon=0.7, delta=0.1))
    assert [begin(claim=stated, delta=delta).separate for delta in (None, 0.2)] == [False, True]
    assert begin(claim=stated).bank.tolist() == [0.0, 0.5, 0.7, 1.0]
    assert not begin(delta=0.2).separate
    two = ClaimedPoints(np.array([0.0, 1.0]), np.array([0.1, 0.01]), 0.1, 0.0)
    assert replace(begin(claim=stated), points=two).separate


def _features(n: int, seed: int) -> Samples:
    random = np.random.default_rng(seed)
    return Samples(random.normal([[3.0, 0.0]], 1, (n, 2)), random.normal(0, 1, (n, 2)), seed)


@pytest.mark.usefixtures("few_epsilons")
def test_a_score_is_learned_from_runs_that_are_past() -> None:
    """However the runs are handed in, and whatever follows them; 64 teach, as many more place first bets."""
    runs, claim = _features(300, 3), Claim(PureDP(epsilon=0.5))

    def fed(runs: Samples, *ends: int) -> list[Audit]:
        feed = SequentialFeed(begin(claim=claim), "logistic")
        return [feed.of_all(runs.part(0, end)) for end in ends]

    *begun, last = fed(runs, 1, 40, 64, 65, 128, 129, 200, 256, 257, 300)
    assert last == fed(runs, 300)[0] == sequential(Samples(runs.data, runs.neighbour, 0), claim=claim)
    assert (last.pairs, last.trials, last.verdict) == (1, 300, Experiment.REFUTED)
    assert "172 pairs" in last.event
    assert "1 pairs" in begun[5].event
    assert len(begun[2].inconclusive) == len(begun[4].inconclusive) == 2
    other = _features(300, 4)
    mixed = Samples(
        *(
            np.concatenate([one[:256], two[256:]])
            for one, two in zip((runs.data, runs.neighbour), (other.data, other.neighbour), strict=True)
        )
    )
    assert fed(mixed, 256) == [begun[7]]
    assert last.inconclusive == ()


@pytest.fixture
def taught(monkeypatch: pytest.MonkeyPatch) -> list[Samples]:
    """All the runs that a score is learned from, each time that one is."""
    told: list[Samples] = []

    def learned_score(runs: Samples, learner: Learner) -> tuple[Scoring, Samples]:
        told.append(runs)
        return classifier.learned_score(runs, learner)

    monkeypatch.setattr(sequential_module, "learned_score", learned_score)
    return told


@pytest.mark.usefixtures("few_epsilons")
def test_a_score_is_learned_from_the_first_half_of_64_128_256_runs(taught: list[Samples]) -> None:
    """Never from a run that is bet on later, and the bets to come are placed on the other half."""
    runs = _features(300, 3)
    SequentialFeed(begin(), "logistic").of_all(runs)
    assert [len(each) for each in taught] == [64, 64, 128]
    assert all(np.array_equal(each.data, runs.data[: len(each)]) for each in taught)


@pytest.mark.usefixtures("few_epsilons")
def test_numbers_are_scores_until_the_runs_that_may_teach_hold_something_else(taught: list[Samples]) -> None:
    """An outcome that is no number scores infinity; from the first half that has one a score is learned."""
    runs = gaussian(1.0, 600, 2)
    runs.data[100] = math.nan
    feed = SequentialFeed(begin(claim=Claim(PureDP(epsilon=20.0))), "logistic")
    for end in (1, 64, 128, 129, 256):
        assert len(feed.of_all(runs.part(0, end)).inconclusive) == 1
        assert not taught
    assert len(feed.of_all(runs).inconclusive) == 2
    assert [len(each) for each in taught] == [128, 256]


@pytest.mark.usefixtures("few_epsilons")
def test_the_result_is_computed_anew_with_so_many_more_runs() -> None:
    runs = gaussian(1.0, 300, 2)
    feed = SequentialFeed(begin(), "logistic")
    assert feed.so_far(runs.part(0, 1)) is None
    assert SequentialFeed(begin(), "logistic").so_far(runs.part(0, 2)) is not None
    first = feed.so_far(runs.part(0, 100))
    assert first is not None
    assert feed.so_far(runs.part(0, 139)) is first
    assert feed.so_far(runs.part(0, 140)).trials == 140
    # Numbers are scores as they are: bets begin after the first block.
    assert "76 pairs" in feed.so_far(runs.part(0, 140)).event
    assert feed.of_all(runs) == sequential(Samples(runs.data, runs.neighbour, 0))


@pytest.mark.usefixtures("few_epsilons")
def test_scores_are_rounded_unless_the_grid_is_attacked() -> None:
    leak = np.full(200, 1.0 + 2.0**-50), np.ones(200)
    seen, told = (begin(attack_grid=attack).update(*leak).peak[0] for attack in (False, True))
    assert seen == pytest.approx(0.0, abs=1e-9)
    assert told > 10.0
