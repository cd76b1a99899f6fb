from __future__ import annotations

import math
from importlib import import_module

import numpy as np
import pytest

from dpaudit.auditors.statistics.learning.classifier import Learner, learned, learned_score, numbered
from dpaudit.auditors.statistics.learning.logistic import logistic_weights
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.threshold import threshold
from dpaudit.certificate.verdicts import Experiment
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import PureDP
from dpaudit.errors import InvalidParameter


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
    rest = learned(samples, "logistic", 0.3)
    assert len(rest) == 700
    # Other runs in the first share change the score; other runs in the rest leave each other alone.
    changed = samples.data.copy()
    changed[-1] += 100
    again = learned(Samples(changed, samples.neighbour, 3), "logistic", 0.3)
    assert np.array_equal(again.data[:-1], rest.data[:-1])


@pytest.mark.parametrize("learner", ["logistic", "boosting"])
def test_both_sides_are_scored_by_one_function(learner: Learner) -> None:
    """A run's score does not depend on the side that it is on, nor on the runs beside it."""
    score = learned_score(_features(2.0, 400, 4), learner)
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
        learned(Samples(np.zeros(10), np.zeros(10)), "linear", 0.3)  # type: ignore[arg-type]


def test_logistic_regression_is_the_one_of_a_library() -> None:
    linear_model = import_module("sklearn.linear_model")
    random = np.random.default_rng(3)
    features = random.normal(size=(300, 4))
    data = (random.random(300) < 1 / (1 + np.exp(-features[:, 0] + 0.5))).astype(float)
    ones = np.column_stack([np.ones(300), features])
    found = logistic_weights(ones, data, 1 - data, np.append(1e-9, np.ones(4)))
    expected = linear_model.LogisticRegression(C=1.0, tol=1e-10, solver="newton-cholesky").fit(features, data)
    assert np.allclose(found, [expected.intercept_[0], *expected.coef_[0]], atol=1e-5)
