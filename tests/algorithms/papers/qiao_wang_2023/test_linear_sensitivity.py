import itertools
from typing import Any

import numpy as np
import pytest

from dpaudit import NoNoise, Transcript, run
from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.environments.linear_mdp import appendix_f_features, one_hot_features
from dpaudit.algorithms.papers.qiao_wang_2023 import linear_sensitivity
from dpaudit.algorithms.papers.qiao_wang_2023.dp_vapvi import DPVAPVI
from dpaudit.algorithms.papers.qiao_wang_2023.linear_calibration import JointNoise, LinearCalibration
from dpaudit.algorithms.papers.qiao_wang_2023.linear_sensitivity import (
    Cost,
    furthest,
    value_sensitivity,
    variance_sensitivity,
)
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Array
from tests.sweeps import sweep

UNIT = np.linspace(0.0, 1.0, 9)


def rows_of(kind: str) -> Array:
    rng = np.random.default_rng(len(kind))
    found = {
        "either sign": rng.normal(size=(5, 3)),
        "no sign": rng.random((5, 3)),
        "close": 1.0 + 0.1 * rng.random((4, 3)),
        "opposed": np.array([[1.0, 0.0], [-0.9, 0.1], [0.2, 0.2]]),
        "at an angle": np.array([[1.0, 0.0], [0.6, 0.8]]),
        "alone": np.array([[0.6, 0.8]]),
        "very close": np.array([[0.6, 0.8], [0.61, 0.79], [0.3, 0.4]]),
        "with zero": np.array([[0.0, 0.0], [1.0, 1.0]]),
        "line": rng.normal(size=(5, 1)),
    }[kind]
    return np.asarray(found / np.linalg.norm(found, axis=1).max())


KINDS = [
    "either sign",
    "no sign",
    "close",
    "very close",
    "opposed",
    "at an angle",
    "alone",
    "with zero",
    "line",
]


def of_values(x: Array, w: float, e: float, share: float) -> Array:
    """A record's summand by definition, the matrix written out in full."""
    return np.concatenate([(share**0.5 * w * np.outer(x, x)).ravel(), (1 - share) ** 0.5 * w * e * x])


def of_variances(x: Array, v: float, share: float) -> Array:
    half = ((1 - share) / 2) ** 0.5
    return np.concatenate([(share**0.5 * np.outer(x, x)).ravel(), half * v * v * x, half * v * x])


def spread(summands: list[Array]) -> float:
    """The largest distance between two of them."""
    table = np.stack(summands)
    return max(float(np.linalg.norm(table - row, axis=1).max()) for row in table)


@pytest.mark.parametrize("share", [0.4, 0.5, 0.1])
@pytest.mark.parametrize("kind", KINDS)
def test_the_sensitivity_is_the_largest_movement_over_a_grid_of_all_records(kind: str, share: float) -> None:
    rows = rows_of(kind)
    equal = variance_sensitivity(rows, share)
    variances = spread([of_variances(x, v, share) for x in rows for v in UNIT])
    last_step = spread([of_values(x, 1.0, e, share) for x in rows for e in UNIT])
    for largest, bound in ((variances, equal), (last_step, equal)):
        assert largest <= bound
        assert bound == pytest.approx(largest, rel=1e-12)


@sweep("least", [1.0, 0.6, 0.25, 1 / 9, 1 / 400], everyday=(0, 2, -1))
@pytest.mark.parametrize("kind", KINDS)
def test_weights_down_to_the_least_move_values_by_the_sensitivity_and_no_more(
    kind: str, least: float
) -> None:
    # Records of one feature have one weight, whatever it is; those of two may have any two.
    rows = rows_of(kind)
    table = [
        (i, w, of_values(x, w, e, 0.4))
        for i, x in enumerate(rows)
        for w in np.linspace(least, 1.0, 9)
        for e in UNIT
    ]
    which = np.array([i for i, _, _ in table])
    weights = np.array([w for _, w, _ in table])
    summands = np.stack([summand for _, _, summand in table])
    largest = 0.0
    for i, w, summand in table:
        possible = (which != i) | (weights == w)
        largest = max(largest, float(np.linalg.norm(summands[possible] - summand, axis=1).max()))
    bound = value_sensitivity(rows, 0.4, least)
    assert largest <= bound
    assert bound == pytest.approx(largest, rel=1e-12)
    if variance_sensitivity(rows, 0.4) >= 1.0:
        assert bound == variance_sensitivity(rows, 0.4)


@pytest.mark.parametrize("seed", range(3))
def test_no_record_between_the_corners_moves_further(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for d in (1, 2, 5):
        rows = rng.normal(size=(2, d)) + rng.normal(size=d)
        rows /= np.linalg.norm(rows, axis=1).max()
        least = rng.random()
        equal, weighted = variance_sensitivity(rows, 0.4), value_sensitivity(rows, 0.4, least)
        for _ in range(300):
            x, y = rows[rng.integers(2)], rows[rng.integers(2)]
            w, e, v, other_w, other_e, other_v = rng.random(6)
            w, other_w = least + (1 - least) * w, least + (1 - least) * other_w
            other_w = w if x is y or np.array_equal(x, y) else other_w
            assert np.linalg.norm(of_variances(x, v, 0.4) - of_variances(y, other_v, 0.4)) <= equal
            assert np.linalg.norm(of_values(x, w, e, 0.4) - of_values(y, other_w, other_e, 0.4)) <= weighted


@pytest.mark.parametrize("block", [1, 7, 2**22])
@pytest.mark.parametrize("kind", [*KINDS, "appendix F", "one-hot"])
def test_the_search_finds_the_furthest_of_all_pairs(
    kind: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"appendix F": appendix_f_features().reshape(-1, 10)[::7], "one-hot": np.eye(6)}
    rows = known[kind] if kind in known else rows_of(kind)
    monkeypatch.setattr(linear_sensitivity, "_BLOCK", block * len(rows))

    def square(x: Array, y: Array) -> float:
        matrices = np.linalg.norm(np.outer(x, x) - np.outer(y, y)) ** 2
        return float(0.7 * matrices + 1.3 * np.linalg.norm(x - y) ** 2)

    found = furthest(rows, Cost(0.7, 1.0), Cost(0.0, 0.3), alone=False)
    assert not found.alone
    assert found.square == pytest.approx(square(rows[found.one], rows[found.other]), abs=1e-12)
    largest = max(square(x, y) for x, y in itertools.product(rows, rows))
    assert found.square == pytest.approx(largest, abs=1e-12)


def test_many_cells_with_few_features_and_many_one_hot_features_are_quick(python_calls: Any) -> None:
    few = np.tile(rows_of("either sign"), (20_000, 1))

    def work() -> None:
        moved = LinearCalibration("sound", 1.0, 20, few, split=False).moved
        assert moved == LinearCalibration("sound", 1.0, 20, few[:5], split=False).moved
        assert variance_sensitivity(np.eye(1500), 0.4) == pytest.approx(2**0.5, rel=1e-9)

    assert python_calls(work) < 5_000


# ---- Stacking.


def noise(step: int = 0) -> JointNoise:
    found = LinearCalibration("sound", 1.0, 3, appendix_f_features().reshape(-1, 10), split=False).step(step)
    assert isinstance(found.variance, JointNoise)
    return found.variance


def test_what_is_stacked_is_unstacked() -> None:
    rng = np.random.default_rng(0)
    gram = rng.normal(size=(10, 10))
    gram = gram + gram.T
    vectors = [rng.normal(size=10), rng.normal(size=10)]
    coordinates = noise().stacked(gram, vectors)
    assert coordinates.shape == (75,)
    back, again = noise().unstacked(coordinates)
    np.testing.assert_allclose(back, gram, rtol=1e-14)
    assert np.array_equal(back, back.T)
    np.testing.assert_allclose(again, vectors, rtol=1e-14)


def test_unstacked_noise_is_isotropic_in_each_block() -> None:
    # The images of the coordinate axes are orthogonal, and of one length in each block: independent noise of
    # one scale on the coordinates is isotropic there, in the matrix under the Frobenius inner product.
    of = noise()
    images = []
    for axis in np.eye(75):
        gram, vectors = of.unstacked(axis)
        images.append(np.concatenate([gram.ravel(), *vectors]))
    inner = np.stack(images) @ np.stack(images).T
    first, second = of.vector_scales
    lengths = np.repeat([of.gram_scale, first, second], [55, 10, 10])
    np.testing.assert_allclose(inner, np.diag(lengths**2), rtol=1e-13, atol=1e-13)
    assert of.gram_sigma == pytest.approx(of.gram_scale * of.mechanism.sigma, rel=1e-15)
    assert of.vector_sigmas == pytest.approx([first * of.mechanism.sigma, second * of.mechanism.sigma])


def test_what_is_released_is_the_stated_sums_over_their_scales() -> None:
    # V = 0 after the last step, so that its weights and targets are known: 1 and the rewards.
    phi = np.random.default_rng(4).normal(size=(2, 3, 2))
    rng = np.random.default_rng(0)
    states, actions, rewards = rng.integers(0, 2, (9, 3)), rng.integers(0, 3, (9, 2)), rng.random((9, 2))
    transcript = Transcript()
    data = TrajectoryData(states, actions, rewards, 2, 3)
    run(DPVAPVI(phi, 2), data, noise=NoNoise(), transcript=transcript)
    first = transcript.entries[0]
    assert first.release.label == "Lambda_2, phi3_2"
    x = phi[states[:, 1], actions[:, 1]]
    gram, vector = x.T @ x, rewards[:, 1] @ x
    largest = np.linalg.norm(phi, axis=2).max()
    expected = [
        *(0.4**0.5 / largest**2 * np.array([gram[0, 0], gram[1, 1], 2**0.5 * gram[0, 1]])),
        *(0.6**0.5 / largest * vector),
    ]
    np.testing.assert_allclose(first.query, expected, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-80, 1e80])
def test_features_whose_fourth_power_is_no_double_are_refused(scale: float) -> None:
    algorithm = DPVAPVI(scale * one_hot_features(1, 2), 2)
    data = TrajectoryData(np.zeros((2, 3), int), np.zeros((2, 2), int), np.zeros((2, 2)), 1, 2)
    with pytest.raises(InvalidParameter, match="features of norm"):
        run(algorithm, data, seed=0)
