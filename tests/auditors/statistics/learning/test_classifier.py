import math
from importlib import import_module

import numpy as np
import pytest

from dpaudit import Claim, Experiment, PureDP
from dpaudit.auditors.statistics.learning import classifier
from dpaudit.auditors.statistics.learning.classifier import Learner, learned_score, numbered
from dpaudit.auditors.statistics.learning.logistic import left_out, likeliest_weights, logistic_weights
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.threshold import prepared, threshold
from dpaudit.errors import InvalidParameter
from tests.sweeps import sweep


def _features(shift: float, n: int, seed: int) -> Samples:
    """Three Laplace releases, of which only the second depends on the data."""
    random = np.random.default_rng(seed)
    data, neighbour = random.laplace(size=(2, n, 3))
    return Samples(data + np.array([0.0, shift, 0.0]), neighbour, seed)


def _striped(n: int, seed: int) -> Samples:
    """One feature in [0, 1]; in its middle half every second stripe is nine times likelier on one side."""
    random = np.random.default_rng(seed)

    def side(own: float) -> np.ndarray:
        stripe = 2 * random.integers(0, 4, n) + (random.random(n) < own)
        middle = 0.25 + (stripe + random.random(n)) / 16
        outside = random.random(n) / 4 + 0.75 * (random.random(n) < 0.5)
        return np.where(random.random(n) < 0.5, middle, outside)[:, None]

    return Samples(side(0.9), side(0.1), seed)


def test_a_direction_is_learned() -> None:
    claim = Claim(PureDP(epsilon=1.0))
    verdicts = [threshold(_features(shift, 8000, 1), claim=claim).verdict for shift in (2.0, 1.0)]
    assert verdicts == [Experiment.REFUTED, Experiment.NOT_REFUTED]


def test_trees_see_what_a_line_does_not() -> None:
    # On fresh seeds a bound above the truth, log 9, has probability 1e-6.
    samples = _striped(8000, 1)
    line, trees = (
        threshold(samples, learner=learner, confidence=1 - 1e-6).epsilon_lower
        for learner in ("logistic", "boosting")
    )
    assert line < 0.5
    assert 1.5 < trees < np.log(9)


def test_what_was_learned_from_is_not_tested() -> None:
    samples = _features(1.0, 1000, 3)
    choosing, rest = prepared(samples, "logistic", attack_grid=False)
    assert (len(choosing), len(rest)) == (300, 700)
    # A tested run changes neither the score nor the runs that the event is chosen on.
    changed = samples.data.copy()
    changed[-1] += 100
    chosen, again = prepared(Samples(changed, samples.neighbour, 3), "logistic", attack_grid=False)
    assert np.array_equal(again.data[:-1], rest.data[:-1])
    assert np.array_equal(again.neighbour, rest.neighbour)
    assert np.array_equal(chosen.data, choosing.data)


@sweep("learner", ["logistic", "boosting"], everyday=(0,))
def test_runs_learned_from_are_scored_as_if_they_were_others(learner: Learner) -> None:
    """Of noise alone the score tells its own runs apart, and no others; these must look like others.

    That they do not, by five standard errors, has a probability of 6e-7.
    """
    random = np.random.default_rng(8)
    runs = Samples(*random.normal(size=(2, 400, 60)))
    score, as_others = learned_score(runs, learner)
    own = score(runs)
    assert _gap(own) > 8
    # A run that is left out moves the mean of its side away from it: below 0, if anything.
    assert _gap(as_others) < 5
    # What does tell is told of them too.
    assert _gap(learned_score(_features(1.0, 400, 4), learner)[1]) > 5


def _gap(scored: Samples) -> float:
    """By how many standard errors the scores of the data are the larger ones."""
    spread = np.sqrt((scored.data.var() + scored.neighbour.var()) / len(scored))
    return float((scored.data.mean() - scored.neighbour.mean()) / spread)


def test_equal_outcomes_that_were_learned_from_have_equal_scores() -> None:
    bits = np.random.default_rng(5).integers(0, 2, size=(2, 200, 3)).astype(float)
    scored = learned_score(Samples(*bits), "logistic")[1]
    assert len(np.unique(np.concatenate([scored.data, scored.neighbour]))) <= 8


def test_runs_are_scored_alike_however_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    score, runs = learned_score(_features(1.0, 100, 4), "logistic")[0], _features(0.5, 50, 5)
    whole = score(runs)
    monkeypatch.setattr(classifier, "_AT_ONCE", 16)
    parts = score(runs)
    assert np.allclose(parts.data, whole.data, rtol=1e-12)
    assert np.allclose(parts.neighbour, whole.neighbour, rtol=1e-12)


def _bits(share: float, seed: int) -> Samples:
    """Twenty bits, each of which is 1 as often as `share` says, and on the neighbour half of the time."""
    random = np.random.default_rng(seed)
    data, neighbour = random.random((2, 10_000, 20))
    return Samples((data < share).astype(float), (neighbour < 0.5).astype(float), seed)


def test_many_numbers_that_each_tell_little_are_heard_together() -> None:
    """The score is nearly as good as the likelihood ratio, which is the number of ones."""
    learned, known = [], []
    for seed in range(7):
        runs = _bits(0.52, seed)
        count = Samples(runs.data.sum(axis=1), runs.neighbour.sum(axis=1), seed)
        for found, samples in ((learned, runs), (known, count)):
            found.append(threshold(samples, delta=0.0).epsilon_lower)
    assert np.median(learned) > 0.85 * np.median(known) > 0.1
    # On fresh seeds a bound above the truth, 0, has probability 1e-6.
    assert threshold(_bits(0.5, 7), delta=0.0, confidence=1 - 1e-6).epsilon_lower == 0


@pytest.mark.parametrize("learner", ["logistic", "boosting"])
def test_both_sides_are_scored_by_one_function(learner: Learner) -> None:
    """A run's score does not depend on the side that it is on, nor on the runs beside it."""
    score, _ = learned_score(_features(2.0, 400, 4), learner)
    runs = _features(0.5, 60, 5)
    one, other = score(runs), score(Samples(runs.neighbour, runs.data))
    assert np.array_equal(one.data, other.neighbour)
    assert np.array_equal(one.neighbour, other.data)
    assert np.array_equal(score(runs.part(7, 9)).data, one.data[7:9])
    assert not np.array_equal(one.data, one.neighbour)


def test_a_number_is_its_own_score_and_another_outcome_the_largest() -> None:
    nan = math.nan
    data = np.array([[2.5, nan], [nan, nan], [1.0, 3.0], [-4.0, nan], [7.0, nan]])
    neighbour = np.array([[0.5, nan], [6.0, nan], [nan, 1.0], [1.5, nan], [8.0, nan]])
    kinds = np.array([[3, 3, 3, 3, 4], [3, 2, 3, 3, 3]])
    scored = numbered(Samples(data[:2], neighbour[:2], kinds=np.array([[3, 4], [5, 6]])))(
        Samples(data, neighbour, 9, kinds)
    )
    assert scored.data.tolist() == [2.5, math.inf, math.inf, -4.0, math.inf]
    assert scored.neighbour.tolist() == [0.5, math.inf, math.inf, 1.5, 8.0]
    three = np.array([[2.5, 1.0, nan], [1.5, nan, 3.0], [0.5, nan, nan]])
    plain = numbered(Samples(three[2:].repeat(2, axis=0), three[2:].repeat(2, axis=0)))(Samples(three, three))
    assert plain.data.tolist() == [math.inf, math.inf, 0.5]


def test_a_learner_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        learned_score(Samples(np.zeros(10), np.zeros(10)), "linear")  # type: ignore[arg-type]


def test_logistic_regression_is_the_one_of_a_library() -> None:
    linear_model = import_module("sklearn.linear_model")
    random = np.random.default_rng(3)
    features = random.normal(size=(300, 4))
    data = (random.random(300) < 1 / (1 + np.exp(-features[:, 0] + 0.5))).astype(float)
    ones = np.column_stack([np.ones(300), features])
    found = logistic_weights(ones, data, 1 - data, np.append(1e-9, np.ones(4)))
    expected = linear_model.LogisticRegression(C=1.0, tol=1e-10, solver="newton-cholesky").fit(features, data)
    assert np.allclose(found, [expected.intercept_[0], *expected.coef_[0]], atol=1e-5)


def test_a_group_of_features_is_believed_as_far_as_the_runs_bear_it_out() -> None:
    """Ten weights of one spread have its precision as their ridge; ten that tell nothing all but vanish."""
    random = np.random.default_rng(11)
    rows = random.normal(size=(40_000, 20))
    true = np.append(0.2 * random.normal(size=10), np.zeros(10))
    data = (random.random(40_000) < 1 / (1 + np.exp(-rows @ true))).astype(float)
    of = np.repeat([-1, 0, 1], [1, 10, 10])
    weights, ridge = likeliest_weights(np.column_stack([np.ones(40_000), rows]), data, 1 - data, of)
    # The sum of ten squares over its mean lies between 0.1 and 5 but for a probability of 1e-6.
    assert 1 / 5 < ridge[1] * 0.2**2 < 1 / 0.1
    assert np.ptp(ridge[1:11]) == np.ptp(ridge[11:]) == 0
    assert ridge[11] > 100 * ridge[1]
    assert np.abs(weights[1:11] - true[:10]).max() < 0.1
    assert np.abs(weights[11:]).max() < 0.01


def test_a_run_left_out_is_scored_by_the_weights_of_the_others() -> None:
    random = np.random.default_rng(4)
    rows = np.column_stack([np.ones(600), random.normal(size=(600, 5))])
    data = (random.random(600) < 1 / (1 + np.exp(-rows[:, 1]))).astype(float)
    ridge, parts = np.append(1e-9, np.full(5, 2.0)), np.arange(600) % 3
    whole = logistic_weights(rows, data, 1 - data, ridge)
    found = left_out(rows, data, whole, ridge, parts)
    for part in range(3):
        of, rest = parts == part, parts != part
        expected = rows[of] @ logistic_weights(rows[rest], data[rest], 1 - data[rest], ridge)
        # One step of Newton's method is that near; the weights of all runs are not.
        assert np.abs(found[of] - expected).max() < 0.03 < np.abs(rows[of] @ whole - expected).max()
