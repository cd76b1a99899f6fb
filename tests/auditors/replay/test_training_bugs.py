"""The classical mistakes of private training, each refuted by replay, and the correct loop, which is not.

Batches are whole, so that every density is known. A row has three features that index a shared embedding, two
of a head, and a target.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dpaudit
from dpaudit import L2, ApproxDP, Claim, Curator, Gaussian, Pair

STEPS, BOUND, SIGMA, RECORDS = 3, 1.0, 4.0, 8
CLAIM = Claim(ApproxDP(epsilon=4.0, delta=1e-5), unit="record", neighbouring="add-or-remove-one")
MANY = np.random.default_rng(0).normal(size=(8, 6))
MANY[-1] = [5.0, 0.0, 0.0, 5.0, 0.0, 100.0]
PAIR = Pair(MANY, MANY[:-1], "the last record")

Loop = Callable[[Any, Curator], Any]


def gradients(theta: Any, rows: Any) -> Any:
    """Of half the squared error, [n, 5], each row's by itself to the last digit."""
    errors = (rows[:, :5] * theta).sum(axis=1) - rows[:, 5]
    return rows[:, :5] * errors[:, None]


def clipped(rows: Any, bound: float = BOUND) -> Any:
    return rows * np.minimum(1.0, bound / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


def released(total: Any, curator: Curator, *, sigma: float = SIGMA, bound: float = BOUND) -> Any:
    """By the curator, with a sensitivity that the loop states."""
    mechanism = Gaussian(sigma=sigma, sensitivity=L2(bound * (1 + 1e-9)))
    return curator.release(total, mechanism, label="gradient")


def trained(step: Callable[[Any, Any, Curator], Any]) -> Loop:
    def train(rows: Any, curator: Curator) -> Any:
        theta = np.zeros(5)
        for _ in range(STEPS):
            theta = theta - 0.1 * step(theta, rows, curator)
        return theta

    return train


def correct(theta: Any, rows: Any, curator: Curator) -> Any:
    return released(clipped(gradients(theta, rows)).sum(axis=0), curator) / RECORDS


def wrong_batch_size(theta: Any, rows: Any, curator: Curator) -> Any:
    """The mean of 8 gets the noise of a mean of 64."""
    mean = clipped(gradients(theta, rows)).sum(axis=0) / RECORDS
    return released(mean, curator, sigma=SIGMA / 64, bound=BOUND / 64)


def clipped_after_averaging(theta: Any, rows: Any, curator: Curator) -> Any:
    """The mean gradient is clipped and scaled up again, and not each record's."""
    mean = gradients(theta, rows).mean(axis=0, keepdims=True)
    return released(clipped(mean)[0], curator)


def layer_without_noise(theta: Any, rows: Any, curator: Curator) -> Any:
    """The head's gradient is taken as it is."""
    found = clipped(gradients(theta, rows)).sum(axis=0)
    return np.append(released(found[:3], curator), found[3:]) / RECORDS


def accumulated_without_clipping(theta: Any, rows: Any, curator: Curator) -> Any:
    """Two physical batches: only the second one's gradients are clipped before they are added up."""
    first, second = gradients(theta, rows[4:]), gradients(theta, rows[:4])
    return released(first.sum(axis=0) + clipped(second).sum(axis=0), curator) / RECORDS


def private_batch_size(theta: Any, rows: Any, curator: Curator) -> Any:
    """The noisy sum is divided by how many records there are."""
    return released(clipped(gradients(theta, rows)).sum(axis=0), curator) / len(rows)


def shared_embedding_unclipped(theta: Any, rows: Any, curator: Curator) -> Any:
    """The norm is taken over the head alone, and the embedding's gradient is added with its factor."""
    found = gradients(theta, rows)
    norms = np.linalg.norm(found[:, 3:], axis=1, keepdims=True)
    return released((found * np.minimum(1.0, BOUND / norms)).sum(axis=0), curator) / RECORDS


def audited(step: Callable[[Any, Any, Curator], Any], pair: Pair = PAIR) -> Any:
    return dpaudit.replay(trained(step), [pair], claim=CLAIM, replays=3, extreme_outputs=False)


@pytest.mark.parametrize(
    ("step", "finding"),
    [
        (wrong_batch_size, "sensitivity"),
        (clipped_after_averaging, "sensitivity"),
        (layer_without_noise, "leak"),
        (accumulated_without_clipping, "sensitivity"),
        (private_batch_size, "leak"),
        (shared_embedding_unclipped, "sensitivity"),
    ],
)
def test_a_classical_mistake_is_refuted(step: Any, finding: str) -> None:
    audit = audited(step)
    assert finding in {each.kind for each in audit.findings}
    assert audit.refuted_by


@pytest.mark.parametrize("count", [1, 8])
def test_the_correct_loop_is_not(count: int) -> None:
    assert audited(correct, Pair(MANY[-count:], MANY[-count:-1], "the last record")).findings == ()
