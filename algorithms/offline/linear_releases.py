"""The statistics of one ridge regression, released: a Gram matrix and vectors, together or one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.offline.linear_calibration import JointNoise, RegressionNoise, SeparateNoise
from dpaudit.curator.curator import Curator
from dpaudit.ledger.releases import Partition
from dpaudit.mechanisms import Array


def regression_statistics(
    curator: Curator,
    x: Array,
    weights: Array,
    targets: Sequence[Array],
    noise: RegressionNoise,
    labels: Sequence[str],
    partition: Partition | None = None,
) -> tuple[Array, list[Array]]:
    """Noisy sums of w x x', and of w t x for each kind of target t, over the records.

    Args:
        curator: through which they are released.
        x: [K, d], features of the public map.
        weights: [K], in (0, 1]; the same for equal features.
        targets: [K] each.
        noise: of this regression.
        labels: of the matrix, then of each vector.
        partition: the part of a split that the records are.

    Returns:
        [d, d], symmetric, and [d] each.
    """
    if isinstance(noise, SeparateNoise):
        return _apart(curator, x, weights, targets, noise, labels, partition)
    return _together(curator, x, weights, targets, noise, labels, partition)


def _together(
    curator: Curator,
    x: Array,
    weights: Array,
    targets: Sequence[Array],
    noise: JointNoise,
    labels: Sequence[str],
    partition: Partition | None,
) -> tuple[Array, list[Array]]:
    # What the sensitivity's proof is about: features of the map, scalars within their ranges.
    weighted = x * np.clip(weights, noise.least, 1.0)[:, None]
    sums = [
        weighted.T @ np.clip(target, 0.0, largest)
        for target, largest in zip(targets, noise.largest, strict=True)
    ]
    released = curator.release(
        stacked(weighted.T @ x, sums, noise),
        noise.mechanism,
        label=", ".join(labels),
        partition=partition,
        claimed=noise.claimed,
    )
    return unstacked(released, noise)


def stacked(gram: Array, vectors: Sequence[Array], noise: JointNoise) -> Array:
    """All coordinates in one vector: the matrix's diagonal, its entries above, then each of the vectors.

    Entries above the diagonal are times sqrt 2, so that lengths are those of the Frobenius norm; each block
    is over its scale.

    Args:
        gram: [d, d], symmetric.
        vectors: [d] each.
        noise: its scales.

    Returns:
        [d (d + 1)/2 + n d] for n vectors.
    """
    above = math.sqrt(2.0) * gram[_above(noise.dimension)]
    blocks = [np.diagonal(gram) / noise.gram_scale, above / noise.gram_scale]
    blocks += [vector / scale for vector, scale in zip(vectors, noise.vector_scales, strict=True)]
    return np.concatenate(blocks)


def unstacked(coordinates: Array, noise: JointNoise) -> tuple[Array, list[Array]]:
    """The matrix and the vectors that `stacked` made one of."""
    d = noise.dimension
    size = d * (d + 1) // 2
    above = np.zeros((d, d))
    above[_above(d)] = coordinates[d:size] / math.sqrt(2.0)
    gram = noise.gram_scale * (np.diag(coordinates[:d]) + above + above.T)
    rows = coordinates[size:].reshape(-1, d)
    return gram, [scale * row for scale, row in zip(noise.vector_scales, rows, strict=True)]


@cache
def _above(dimension: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    rows, columns = np.triu_indices(dimension, k=1)
    return rows, columns


def _apart(
    curator: Curator,
    x: Array,
    weights: Array,
    targets: Sequence[Array],
    noise: SeparateNoise,
    labels: Sequence[str],
    partition: Partition | None,
) -> tuple[Array, list[Array]]:
    weight = weights[:, None]
    rows = x * np.sqrt(weight)
    if noise.norm is None:
        gram = rows.T @ rows
        released = curator.release(
            (gram + gram.T) / 2, noise.gram, label=labels[0], partition=partition, claimed=noise.claimed
        )
    else:
        released = curator.release_gram(
            rows,
            bound=noise.norm,
            mechanism=noise.gram,
            label=labels[0],
            partition=partition,
            claimed=noise.claimed,
        )
    vectors = []
    for target, largest, mechanism, label in zip(
        targets, noise.largest, noise.vectors, labels[1:], strict=True
    ):
        rows = x * weight * target[:, None]
        if noise.norm is None or largest == 0.0:
            vector = curator.release(
                rows.sum(axis=0), mechanism, label=label, partition=partition, claimed=noise.claimed
            )
        else:
            vector = curator.release_sum(
                rows,
                bound=noise.norm * largest,
                mechanism=mechanism,
                label=label,
                nonnegative=noise.acute,
                partition=partition,
                claimed=noise.claimed,
            )
        vectors.append(vector)
    return released, vectors
