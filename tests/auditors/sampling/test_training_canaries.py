"""Canaries that a model remembers: training without noise is refuted, and the same with noise is not."""

from typing import Any

import numpy as np
import pytest

import dpaudit
from dpaudit import GDP, ApproxDP, Claim
from dpaudit.algorithms.training.models import Softmax
from dpaudit.auditors.sampling.curatorless import Plain
from dpaudit.auditors.sampling.one_run import Canaries
from dpaudit.auditors.sampling.training_canaries import Crafted, training_canaries
from dpaudit.certificate.verdicts import Experiment
from dpaudit.errors import DataError, InvalidParameter

MODEL = Softmax(features=100, classes=4)
RNG = np.random.default_rng(0)
ROWS = np.column_stack([RNG.normal(size=(200, 100)), RNG.integers(4, size=200)])
CLAIM = Claim(ApproxDP(epsilon=0.5, delta=1e-5), unit="record", neighbouring="add-or-remove-one")


def trained(rows: Any, sigma: float, rng: np.random.Generator, steps: int = 20, model: Any = MODEL) -> Any:
    theta = MODEL.initial()
    for _ in range(steps):
        found = model.gradients(theta, rows)
        found *= np.minimum(1.0, 1.0 / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12))
        theta = theta - 4.0 * (found.sum(axis=0) + rng.normal(0.0, sigma, MODEL.size)) / 200
    return theta


def trains(sigma: float) -> Plain:
    """Claims the epsilon that noise of 60 times the clipping norm has, and adds `sigma`."""
    return Plain(lambda rows, rng: trained(rows, sigma, rng), claim=CLAIM)


REFERENCES = [trained(ROWS[part::2], 0.0, np.random.default_rng(part)) for part in range(2)] + [
    trained(ROWS, 0.0, np.random.default_rng(9), steps) for steps in (15, 25)
]


@pytest.mark.parametrize(
    ("kind", "score"),
    [
        ("one-feature", "gradient"),
        ("one-feature", "loss"),
        ("out-of-distribution", "gradient"),
        ("out-of-distribution", "ratio"),
        ("mislabelled", "ratio"),
        ("mislabelled", "gradient"),
    ],
)
def test_training_without_noise_is_refuted_and_with_it_is_not(kind: Any, score: Any) -> None:
    """Fixed seeds; the innocent twin is refuted with a probability of at most 1e-6."""
    canaries = training_canaries(MODEL, ROWS, 100, kind=kind, score=score, references=REFERENCES)
    faulty = dpaudit.one_run(trains(0.0), canaries, seed=1)
    fine = dpaudit.one_run(trains(60.0), canaries, seed=1, confidence=1 - 1e-6)
    assert faulty.verdict is Experiment.REFUTED
    assert faulty.epsilon_lower is not None
    assert faulty.epsilon_lower > 0.5
    assert fine.verdict is not Experiment.REFUTED


def test_crafted_gradients_bound_more_than_mislabelled_records_do() -> None:
    """Of the same training with the same noise; seeds are fixed, and both bounds far below the truth."""
    steps, sigma, model = 20, 2.0, Crafted(MODEL, 400)
    claim = Claim(GDP(mu=np.sqrt(steps) / sigma), unit="record", neighbouring="add-or-remove-one")
    train = Plain(lambda rows, rng: trained(rows, sigma, rng, steps, model), claim=claim)
    found = {}
    kinds: list[Any] = ["mislabelled", "gradient"]
    for kind in kinds:
        canaries = training_canaries(model, ROWS, 400, kind=kind, score="gradient")
        found[kind] = dpaudit.one_run(train, canaries, seed=1).mu_lower or 0.0
    assert 0.1 < 2.0 * found["mislabelled"] < found["gradient"] < np.sqrt(steps) / sigma


def test_a_crafted_model_treats_other_records_as_its_own() -> None:
    model, theta = Crafted(MODEL, 3, length=2.0, seed=5), RNG.normal(size=MODEL.size)
    canaries = np.zeros((3, 101))
    canaries[:, -1] = [6, 4, 5]  # of four labels of its own
    rows = np.vstack([ROWS[:2], canaries, ROWS[2:4]])
    found, own = model.gradients(theta, rows), [0, 1, 5, 6]
    assert np.array_equal(found[own], MODEL.gradients(theta, ROWS[:4]))
    assert np.array_equal(model.losses(theta, rows)[own], MODEL.losses(theta, ROWS[:4]))
    assert (np.sort(found[2:5], axis=1)[:, -2:] == [0.0, 2.0]).all()
    assert len(set(found[2:5].argmax(axis=1))) == 3
    assert (model.size, model.classes) == (MODEL.size, MODEL.classes)
    assert training_canaries(model, ROWS, 2, kind="gradient").insert(np.ones(2, dtype=bool))[-1, -1] == 5


def test_canaries_are_what_they_are_called() -> None:
    coins = np.arange(60) % 3 == 0
    for kind in ("mislabelled", "out-of-distribution", "one-feature"):
        made = training_canaries(MODEL, ROWS, 60, kind=kind)
        assert isinstance(made, Canaries)
        assert made.number == 60
        whole, some = made.insert(np.ones(60, dtype=bool)), made.insert(coins)
        assert whole[:200].tolist() == some[:200].tolist() == ROWS.tolist()
        assert some[200:].tolist() == whole[200:][coins].tolist()
        assert set(whole[:, -1]) <= {0.0, 1.0, 2.0, 3.0}
        rows = whole[200:]
        if kind == "mislabelled":
            labels = {row[:-1].tobytes(): row[-1] for row in ROWS}
            assert all(labels[row[:-1].tobytes()] != row[-1] for row in rows)
        elif kind == "one-feature":
            assert (rows[:, :-1].sum(axis=1) == 1.0).all()
            assert len({row.tobytes() for row in rows}) == 60
        else:
            assert set(np.abs(rows[:, :-1]).ravel()) == {1.0}


def test_scores_are_losses_and_dot_products() -> None:
    theta = RNG.normal(size=MODEL.size)
    for score in ("loss", "gradient", "ratio"):
        made = training_canaries(MODEL, ROWS, 5, score=score, references=REFERENCES)
        rows = made.insert(np.ones(5, dtype=bool))[200:]
        for i, row in enumerate(rows):

            def seen(parameters: Any, row: Any = row, score: str = score) -> float:
                if score != "gradient":
                    return -float(MODEL.losses(parameters, row[None])[0])
                gradient = MODEL.gradients(MODEL.initial(), row[None])[0]
                return -float(parameters @ gradient) / float(np.sqrt((gradient**2).sum()))

            usual = [seen(each) for each in REFERENCES]
            expected = seen(theta) - float(np.mean(usual))
            if score == "ratio":
                expected /= float(np.std(usual, ddof=1))
            assert made.score(theta)[i] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "odd"},
        {"kind": "gradient"},
        {"kind": "gradient", "model": Crafted(MODEL, 4)},
        {"score": "odd"},
        {"number": 0},
        {"score": "ratio"},
        {"score": "ratio", "references": REFERENCES[:1]},
        {"score": "loss", "references": REFERENCES[:1]},
        {"score": "ratio", "references": [np.zeros(3), np.zeros(3)]},
    ],
)
def test_what_is_not_known_is_refused(options: Any) -> None:
    with pytest.raises(InvalidParameter):
        training_canaries(**{"model": MODEL, "records": ROWS, "number": 5, **options})


def test_more_crafted_gradients_than_parameters_are_refused() -> None:
    for number in (0, MODEL.size + 1):
        with pytest.raises(InvalidParameter, match="crafted gradients"):
            Crafted(MODEL, number)


def test_records_and_outputs_of_another_form_are_refused() -> None:
    for rows in (ROWS[:0], ROWS[0], ROWS * np.nan, np.zeros((3, 1))):
        with pytest.raises(DataError):
            training_canaries(MODEL, rows, 5)
    with pytest.raises(DataError, match="one vector"):
        training_canaries(MODEL, ROWS, 5).score(np.zeros(3))
