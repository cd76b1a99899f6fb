"""Releases of other shapes than a value: a choice, a stream, a function, noise that follows the data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.curator.admission import Door, as_query, new_release
from dpaudit.curator.noise import Question
from dpaudit.curator.streams import NoisyFunction, Stream
from dpaudit.errors import InvalidParameter
from dpaudit.ledger.releases import Partition, Release
from dpaudit.mechanisms import (
    Array,
    Exponential,
    GaussianProcess,
    OpaqueMechanism,
    SmoothGaussian,
    TreeAggregation,
)
from dpaudit.mechanisms.randomness import Randomness


class Shapes(Door):
    """The part of a curator that answers in other shapes than a value."""

    def select(
        self,
        scores: ArrayLike,
        mechanism: Exponential,
        *,
        label: str,
        score_sensitivity: float,
        partition: Partition | str | None = None,
        claimed: AnyGuarantee | None = None,
    ) -> int:
        """Choose one of finitely many candidates, better scores more likely.

        Args:
            scores: [k], private; larger is better. Who the k candidates are is public.
            mechanism: the exponential mechanism.
            label: what this is, in the ledger.
            score_sensitivity: the largest change of any one score between neighbours, as declared.
            partition: as in `release`.
            claimed: as in `release`.

        Returns:
            The index of the chosen candidate.
        """
        weights = mechanism.log_weights(as_query(scores, label), score_sensitivity)
        release = new_release(label, mechanism, partition, claimed)
        best = np.array(float(np.argmax(weights)))
        chosen = self._answer(
            release, weights, lambda randomness: mechanism.sample(weights, randomness.generator), exact=best
        )
        return int(chosen)

    def stream(
        self,
        mechanism: TreeAggregation,
        label: str,
        shape: tuple[int, ...] = (),
        *,
        partition: Partition | str | None = None,
        claimed: AnyGuarantee | None = None,
    ) -> Stream:
        """Open a stream of items of one shape, whose prefix sums come out noisy."""
        return Stream(self, new_release(label, mechanism, partition, claimed), mechanism, shape)

    def function(
        self,
        mechanism: GaussianProcess,
        mean: Callable[[float], ArrayLike],
        label: str,
        shape: tuple[int, ...] = (),
        *,
        partition: Partition | str | None = None,
        claimed: AnyGuarantee | None = None,
    ) -> NoisyFunction:
        """Open a function on the line, with values of one shape, that is noisy wherever it is called."""
        return NoisyFunction(self, new_release(label, mechanism, partition, claimed), mechanism, mean, shape)

    def release_smooth(
        self,
        value: ArrayLike,
        local_scale: float,
        mechanism: SmoothGaussian,
        *,
        label: str,
        partition: Partition | str | None = None,
        claimed: AnyGuarantee | None = None,
    ) -> Array:
        """Release a vector with noise whose scale the data chose; the scale never enters the ledger.

        Args:
            value: the query's answer, with `dimension` entries.
            local_scale: the noise's standard deviation: alpha times a smooth bound on how far the query
                moves from these very data to a neighbour (the root of one on the square). Private.
            mechanism: alpha, beta, dimension and the target.
            label: what this is, in the ledger.
            partition: as in `release`.
            claimed: as in `release`.

        Raises:
            InvalidParameter: the scale is not positive and finite, or the value has other than
                `dimension` entries.
        """
        query = as_query(value, label)
        if query.size != mechanism.dimension or not 0.0 < local_scale < np.inf:
            raise InvalidParameter(
                f"a value of {query.size} entries for dimension {mechanism.dimension}, "
                "or a local scale that is not positive and finite",
                where=f"release {label!r}",
            )
        return self._answer(
            new_release(label, mechanism, partition, claimed),
            query,
            lambda randomness: mechanism.sample(query, local_scale, randomness.generator),
            scale=float(local_scale),
        )

    def release_opaque(
        self,
        value: ArrayLike,
        sampler: Callable[[Array, np.random.Generator], ArrayLike],
        mechanism: OpaqueMechanism,
        *,
        label: str,
        partition: Partition | str | None = None,
        claimed: AnyGuarantee | None = None,
    ) -> Array:
        """Release what a sampler of one's own makes of a value, under a guarantee justified in writing.

        Args:
            value: the query's answer.
            sampler: draws the output from the value and the curator's generator, and from nothing else.
            mechanism: the guarantee and why it holds.
            label: what this is, in the ledger.
            partition: as in `release`.
            claimed: as in `release`.
        """
        query = as_query(value, label)
        return self._answer(
            new_release(label, mechanism, partition, claimed),
            query,
            lambda randomness: np.array(sampler(query.copy(), randomness.generator), dtype=np.float64),
        )

    def _answer(
        self,
        release: Release,
        query: Array,
        draw: Callable[[Randomness], Array],
        *,
        exact: Array | None = None,
        scale: float | None = None,
    ) -> Array:
        number = self.admit(release)
        return self.ask(
            Question(release, number, query, query if exact is None else exact, draw, scale=scale)
        )
