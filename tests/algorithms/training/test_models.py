"""Gradients against differences of losses, and records that are none."""

import numpy as np
import pytest

from dpaudit.algorithms.training.models import ABSENT, Model, Network, Softmax, require_records
from dpaudit.errors import DataError, InvalidParameter
from tests.sweeps import sweep

RECORDS = np.column_stack([np.random.default_rng(3).normal(size=(6, 4)), [0, 1, 2, 2, 0, 1]])
MODELS: list[Model] = [Softmax(4, 3), Network(4, 3, hidden=5)]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_gradient_is_how_fast_the_loss_grows(model: Model) -> None:
    theta = model.initial() + np.random.default_rng(4).normal(size=model.size)
    found, step = model.gradients(theta, RECORDS), 1e-6
    assert found.shape == (6, model.size)
    assert model.gradients(theta, RECORDS[:0]).shape == (0, model.size)
    for place in range(model.size):
        moved = np.zeros(model.size)
        moved[place] = step
        grown = model.losses(theta + moved, RECORDS) - model.losses(theta - moved, RECORDS)
        np.testing.assert_allclose(found[:, place], grown / (2.0 * step), atol=1e-7)


@pytest.mark.parametrize("model", [Softmax(64, 10), Network(64, 10)], ids=lambda model: type(model).__name__)
def test_no_other_record_has_a_part_in_a_gradient_not_even_in_its_last_bit(model: Model) -> None:
    random = np.random.default_rng(7)
    theta = model.initial() + random.normal(size=model.size)
    records = np.column_stack([random.normal(size=(300, 64)), random.integers(0, 10, 300)])
    alone = np.vstack([model.gradients(theta, records[i : i + 1]) for i in range(300)])
    for count in (2, 3, 5, 8, 17, 64, 129, 300):
        assert np.array_equal(model.gradients(theta, records[:count]), alone[:count])


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_prediction_is_the_label_with_the_least_loss(model: Model) -> None:
    theta = model.initial() + np.random.default_rng(5).normal(size=model.size)
    alternatives = []
    for label in range(3):
        asked = RECORDS.copy()
        asked[:, -1] = label
        alternatives.append(model.losses(theta, asked))
    assert np.exp(-np.array(alternatives)).sum(axis=0) == pytest.approx(np.ones(6))  # probabilities
    assert (model.predictions(theta, RECORDS) == np.argmin(alternatives, axis=0)).all()


def test_softmax_gradients_have_at_most_the_norm_that_is_said() -> None:
    model, random = Softmax(4, 3), np.random.default_rng(6)
    for _ in range(50):
        theta = random.normal(size=model.size) * 10.0 ** random.integers(-2, 3)
        assert np.linalg.norm(model.gradients(theta, RECORDS), axis=1).max() <= 2.0**0.5 * (1.0 + 1e-12)


@sweep(
    "records",
    [
        np.zeros((3, 4)),
        np.zeros(5),
        [[0.0, 0.0, 0.0, 0.0, 3.0]],
        [[0.0, 0.0, 0.0, 0.0, 0.5]],
        [[0.0, 0.0, 0.0, 0.0, -2.0]],
        [[0.0, 0.0, 0.0, np.nan, 1.0]],
        [[0.0, np.inf, 0.0, 0.0, 1.0]],
    ],
    everyday=range(7),
)
def test_what_is_no_record_is_refused(records: object) -> None:
    with pytest.raises(DataError, match="records"):
        require_records(records, MODELS[0])  # type: ignore[arg-type]
    assert require_records([[0.0, 0.0, 0.0, 0.0, ABSENT]], MODELS[0]).shape == (1, 5)  # type: ignore[arg-type]


def test_sizes_of_models_are_checked() -> None:
    for make in (lambda: Softmax(0, 2), lambda: Softmax(3, 0), lambda: Network(3, 2, hidden=0)):
        with pytest.raises(InvalidParameter):
            make()
