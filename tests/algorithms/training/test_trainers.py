"""DP-SGD and DP-FTRL line by line, what their ledgers prove, and mistakes in them that are found."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit import ApproxDP, Claim, Curator, Experiment, NoNoise, Pair, Proof, account, audit, certify, run
from dpaudit.algorithms.catalogue import CATALOGUE
from dpaudit.algorithms.training.dp_ftrl import DPFTRL
from dpaudit.algorithms.training.dp_sgd import DPSGD
from dpaudit.algorithms.training.models import ABSENT, Network, Softmax
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.mechanisms import Array
from tests.sweeps import sweep

MODEL = Softmax(3, 2)
RANDOM = np.random.default_rng(8)
RECORDS = np.column_stack([RANDOM.normal(size=(12, 3)), RANDOM.integers(0, 2, 12)])
CLAIMED = ApproxDP(epsilon=5.0, delta=1e-5)
SGD: dict[str, Any] = {"bound": 0.3, "learning_rate": 0.7, "records": 12}


def clipped(model: Any, theta: Array, records: Array, bound: float) -> Array:
    gradients = model.gradients(theta, records)
    return np.asarray(gradients / np.maximum(1.0, np.linalg.norm(gradients, axis=1, keepdims=True) / bound))


def test_dp_sgd_without_noise_is_gradient_descent_on_clipped_gradients() -> None:
    algorithm = DPSGD(MODEL, CLAIMED, 1.0, 5, rate=1.0, **SGD)
    theta = np.zeros(MODEL.size)
    for _ in range(5):
        theta = theta - 0.7 * clipped(MODEL, theta, RECORDS, 0.3).sum(axis=0) / 12.0
    found = run(algorithm, RECORDS, noise=NoNoise()).output
    np.testing.assert_allclose(found, theta, atol=1e-9)


def test_dp_ftrl_without_noise_takes_its_batches_in_order() -> None:
    algorithm = DPFTRL(MODEL, CLAIMED, 1.0, 8, batches=4, bands=3, **SGD)
    theta = np.zeros(MODEL.size)
    for t in range(8):
        batch = RECORDS[t % 4 :: 4]
        theta = theta - 0.7 * clipped(MODEL, theta, batch, 0.3).sum(axis=0) / 3.0
    found = run(algorithm, RECORDS, noise=NoNoise()).output
    np.testing.assert_allclose(found, theta, atol=1e-9)


def test_a_blank_record_moves_nothing() -> None:
    blank = RECORDS.copy()
    blank[2:, -1] = ABSENT
    algorithm = DPSGD(MODEL, CLAIMED, 1.0, 3, rate=1.0, **SGD)
    one = run(algorithm, RECORDS[:2], noise=NoNoise()).output
    assert np.array_equal(one, run(algorithm, blank, noise=NoNoise()).output)


def test_noise_has_the_stated_multiple_of_the_clipping_norm() -> None:
    """Of one step on blank records what is left is the noise: its spread over 4,000 numbers, 6 deviations."""
    model = Softmax(1999, 2)
    blank = np.zeros((1, 2000))
    blank[0, -1] = ABSENT
    algorithm = DPSGD(model, CLAIMED, 2.5, 1, bound=0.3, rate=0.5, records=8)
    theta = run(algorithm, blank, seed=1).output
    assert np.std(theta) * 0.5 * 8 / 0.3 == pytest.approx(2.5, rel=6.0 / np.sqrt(8000.0))


@pytest.mark.parametrize(
    ("algorithm", "least", "most"),
    [
        (DPSGD(MODEL, CLAIMED, 3.0, 20, rate=0.5, **SGD), 2.5, 5.0),
        (DPFTRL(MODEL, CLAIMED, 2.0, 8, batches=4, bands=3, **SGD), 2.5, 5.0),
        (DPFTRL(MODEL, CLAIMED, 2.0, 4, batches=4, strategy="tree", **SGD), 2.5, 5.0),
        (DPFTRL(MODEL, CLAIMED, 2.0, 8, batches=4, strategy="independent", **SGD), 2.5, 5.0),
    ],
)
def test_enough_noise_is_proved_and_less_is_not(algorithm: Any, least: float, most: float) -> None:
    accounting = account(run(algorithm, RECORDS, seed=0).ledger)
    assert accounting.verdict is Proof.PROVED
    guarantee: Any = accounting.bounds[0].guarantee
    assert least < guarantee.epsilon < most
    weak = replace(algorithm, sigma=algorithm.sigma / 3)
    assert account(run(weak, RECORDS, seed=0).ledger).verdict is Proof.NOT_PROVED


@pytest.mark.parametrize("sampling", ["truncated", "fixed-size"])
def test_batches_of_bounded_size_cost_more_than_poisson_samples(sampling: Any) -> None:
    def epsilon(how: Any) -> float:
        algorithm = DPSGD(MODEL, CLAIMED, 4.0, 2, rate=0.25, sampling=how, **SGD)
        guarantee: Any = account(run(algorithm, RECORDS, seed=0).ledger).bounds[0].guarantee
        return float(guarantee.epsilon)

    assert epsilon("poisson") < epsilon(sampling) < 5.0


def test_dp_ftrl_is_certified_with_an_audit_close_to_its_proof() -> None:
    algorithm = DPFTRL(MODEL, CLAIMED, 3.0, 8, batches=4, bands=3, **SGD)
    certificate = certify(algorithm, RECORDS, seed=0, in_process=True)
    assert (certificate.proof, certificate.experiment) == (Proof.PROVED, Experiment.NOT_REFUTED)
    (found,) = certificate.audits
    proved: Any = certificate.bounds[0].guarantee
    assert found.epsilon_lower is not None
    assert 0.8 * proved.epsilon < found.epsilon_lower <= proved.epsilon


@dataclass(frozen=True, eq=False)
class ClippedAfterAveraging(DPFTRL):
    """The mean gradient is clipped, and the noise is that of clipped gradients."""

    def gradients(self, theta: Array, records: Array) -> Array:
        found = super().gradients(theta, records)
        mean = found.mean(axis=0) if len(found) else np.zeros(self.model.size)
        return np.repeat(mean[None] * self.bound / max(float(np.linalg.norm(mean)), 1e-9), len(found), axis=0)


@dataclass(frozen=True, eq=False)
class OfThePrivateSize(DPFTRL):
    """The sum is divided by how many records there really are in the batch, before noise is added."""

    def __call__(self, data: Array, curator: Curator) -> Array:
        stream = curator.stream(self.mechanism, "gradients", (self.model.size,))
        theta, public = self.model.initial(), 2
        for t in range(self.steps):
            batch = data[t % self.batches :: self.batches]
            rows = clipped(self.model, theta, batch[batch[:, -1] != ABSENT], self.bound)
            theta = self.stepped(theta, stream.add(rows.sum(axis=0) * public / max(1, len(rows))))
        return theta


@dataclass(frozen=True, eq=False)
class InTwoEpochsAtOnce(DPFTRL):
    """The records of a batch are taken again one step later."""

    def __call__(self, data: Array, curator: Curator) -> Array:
        stream = curator.stream(self.mechanism, "gradients", (self.model.size,), bound=self.bound)
        theta = self.model.initial()
        for t in range(self.steps):
            batch = data[(t // 2) % self.batches :: self.batches]
            theta = self.stepped(theta, stream.add(self.gradients(theta, batch)))
        return theta


@pytest.mark.parametrize("mistake", [ClippedAfterAveraging, OfThePrivateSize, InTwoEpochsAtOnce])
def test_the_classical_mistakes_are_refuted(mistake: Any, nightly: bool) -> None:
    algorithm = mistake(MODEL, CLAIMED, 3.0, 8, batches=4, bands=3, **SGD)
    found = audit(algorithm, algorithm.worst_pairs(), seed=0, trials=20 if nightly else 3, in_process=True)
    assert found.verdict is Experiment.REFUTED


@dataclass(frozen=True, eq=False)
class OneLayerBare(DPFTRL):
    """The second layer's gradients leave without noise, as a part of what is returned."""

    def __call__(self, data: Array, curator: Curator) -> Array:
        theta = super().__call__(data, curator)
        exact = self.model.gradients(theta, data[data[:, -1] != ABSENT]).sum(axis=0)
        return np.concatenate([theta[:-3], (theta - exact)[-3:]])


def test_a_layer_without_noise_is_refuted_and_the_same_with_noise_is_not(nightly: bool) -> None:
    made = (Network(3, 2, hidden=2), CLAIMED, 3.0, 4)
    more: dict[str, Any] = {"batches": 4, "bands": 3, **SGD}
    trials = 20 if nightly else 3
    for kind, verdict in ((OneLayerBare, Experiment.REFUTED), (DPFTRL, Experiment.NOT_REFUTED)):
        algorithm = kind(*made, **more)
        found = audit(algorithm, algorithm.worst_pairs(), seed=0, trials=trials, in_process=True)
        assert found.verdict is verdict


@sweep(
    "options",
    [
        {"sigma": 0.0},
        {"steps": 0},
        {"bound": -1.0},
        {"learning_rate": float("inf")},
        {"rate": 0.0},
        {"rate": 1.5},
        {"records": 0},
        {"sampling": "shuffled"},
        {"most": 0.5},
    ],
    everyday=range(9),
)
def test_parameters_of_dp_sgd_are_checked(options: dict[str, Any]) -> None:
    stated = {"model": MODEL, "guarantee": CLAIMED, "sigma": 1.0, "steps": 2, **options}
    with pytest.raises(InvalidParameter):
        DPSGD(**stated)


@sweep(
    "options",
    [{"steps": 6}, {"bands": 5}, {"strategy": "tree"}, {"strategy": "trees"}, {"batches": 0}],
    everyday=range(5),
)
def test_parameters_of_dp_ftrl_are_checked(options: dict[str, Any]) -> None:
    stated = {"model": MODEL, "guarantee": CLAIMED, "sigma": 1.0, "steps": 8, "batches": 4, "bands": 3}
    with pytest.raises(InvalidParameter):
        DPFTRL(**{**stated, **options})


def test_digits_are_learnt_within_the_budget() -> None:
    """Chance is right on one picture in ten; without noise the same steps are right on 94 in 100."""
    algorithm, data = CATALOGUE["dp-ftrl"].example()
    made = run(algorithm, data, seed=0)
    assert account(made.ledger).verdict is Proof.PROVED
    assert algorithm.utility(made.output)["accuracy on test records"] > 0.85
    assert algorithm.utility(run(algorithm, data, noise=NoNoise()).output)["accuracy on test records"] > 0.9


@pytest.mark.nightly
def test_digits_are_learnt_from_samples_within_the_budget() -> None:
    algorithm, data = CATALOGUE["dp-sgd"].example()
    made = run(algorithm, data, seed=0)
    assert account(made.ledger).verdict is Proof.PROVED
    assert algorithm.utility(made.output)["accuracy on test records"] > 0.88


def test_records_are_read_from_a_file_by_the_names_of_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("label,x2,x1\n1,0.5,0.25\n0,0.0,1.0\n")
    sizes = {"features": 2, "classes": 2, "records": 2}
    algorithm, data = CATALOGUE["dp-sgd"].fit(path, steps=2, **sizes)
    assert data.tolist() == [[0.25, 0.5, 1.0], [1.0, 0.0, 0.0]]
    assert run(algorithm, data, seed=0).output.shape == (6,)
    path.write_text("label,x2\n1,0.5\n")
    with pytest.raises(DataError, match="x1"):
        CATALOGUE["dp-sgd"].fit(path, **sizes)


def test_the_claims_relation_is_what_the_batches_allow() -> None:
    relations = {
        name: CATALOGUE[name].example(steps=10)[0].claim.neighbouring for name in ("dp-sgd", "dp-ftrl")
    }
    assert relations == {"dp-sgd": "add-or-remove-one", "dp-ftrl": "zero-out"}


def test_pairs_differ_in_one_record() -> None:
    for algorithm in (
        DPSGD(MODEL, CLAIMED, 1.0, 2, **SGD),
        DPFTRL(MODEL, CLAIMED, 1.0, 4, batches=4, bands=2, **SGD),
    ):
        pairs: Sequence[Pair] = algorithm.worst_pairs()
        for pair in pairs:
            assert len(pair.data) - len(pair.neighbour) == (1 if isinstance(algorithm, DPSGD) else 0)
            assert isinstance(algorithm.claim, Claim)


class OfAll(Softmax):
    """The mistake: one gradient, the mean over all records, in the place of theirs."""

    def gradients(self, theta: Array, records: Array) -> Array:
        return np.asarray(super().gradients(theta, records).mean(axis=0))


def test_one_gradient_for_all_records_is_refused() -> None:
    for model in (MODEL, OfAll(3, 2)):
        trainer = DPSGD(model, CLAIMED, 1.0, 1, rate=1.0, **SGD)
        if model is MODEL:
            assert run(trainer, RECORDS, seed=1).output.shape == (MODEL.size,)
            continue
        with pytest.raises(InvalidParameter, match="a row for each record"):
            run(trainer, RECORDS, seed=1)
