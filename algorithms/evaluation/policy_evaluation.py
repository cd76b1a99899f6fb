"""What the algorithms for policy evaluation have in common: their public inputs, checked, and what leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.algorithms.data.episodes import Episodes, FirstVisits, first_visits
from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.evaluation.episode_pairs import worst_episode_pairs
from dpaudit.algorithms.evaluation.smooth_calibration import CalibrationName, SmoothCalibration
from dpaudit.algorithms.public_parameters import digest
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.pairs import Pair
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.mechanisms import SmoothGaussian

_Vector = NDArray[np.float64]

#: Spectral norms come out of a decomposition in floating point; they are raised by more than its error.
ROUNDING = 1.0 + 1e-10


class ValueEstimate(NamedTuple):
    """What leaves the algorithm.

    Attributes:
        theta: [d], the noisy parameters.
        values: [N], Phi theta.
    """

    theta: _Vector
    values: _Vector


@dataclass(frozen=True, eq=False)
class PolicyEvaluation:
    """The public parameters of Algorithms 1 and 2 of Balle, Gomrokchi and Precup (2016).

    Args:
        features: Phi, [N, d]; row s holds the features of state s.
        discount: gamma, in [0, 1].
        largest_return: F_max, public: every return is clipped to [0, F_max]. Left out, 1/(1 - gamma), the
            largest return of rewards in [0, 1].
        weights: w or rho, [N], at least 0; 1 where left out.
        guarantee: (epsilon, delta).
        calibration: ``lemma``, as published, or ``exact``; see `smooth_calibration`.
        values: [N], the exact values, where they are known, to measure the error.

    Raises:
        InvalidParameter: sizes that do not fit, or numbers out of range.
    """

    features: _Vector
    discount: float
    largest_return: float | None = None
    weights: _Vector | None = None
    guarantee: ApproxDP = field(default_factory=lambda: ApproxDP(epsilon=0.1, delta=0.1))
    calibration: CalibrationName = "lemma"
    values: _Vector | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", _features(self.features))
        _ = self.state_weights, self.highest_return, self.noise  # each refuses what it cannot use
        if self.values is not None and np.shape(self.values) != (len(self.features),):
            raise InvalidParameter(
                f"exact values of shape {np.shape(self.values)} for {len(self.features)} states",
                where="values",
                remedy="give one value a state, or none",
            )

    @cached_property
    def state_weights(self) -> _Vector:
        """The weights of all states, [N]."""
        return _weights(self.weights, len(self.features))

    @cached_property
    def highest_return(self) -> float:
        """The public bound on a return."""
        return _return_bound(self.discount, self.largest_return)

    @cached_property
    def smoothness(self) -> SmoothCalibration:
        """Where alpha and beta come from."""
        return SmoothCalibration(self.calibration, self.guarantee, self.features.shape[1])

    @property
    def noise(self) -> SmoothGaussian:
        """The one release's mechanism: alpha and beta, and never the scale that the data choose."""
        return self.smoothness.mechanism

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        n_states, dimension = self.features.shape
        return {
            "states": n_states,
            "dimension": dimension,
            "discount": self.discount,
            "largest_return": self.highest_return,
            "calibration": self.calibration,
            "features_sha256": digest(self.features),
            "weights_sha256": digest(self.state_weights),
        }

    def visits(self, data: Episodes | TrajectoryData) -> FirstVisits:
        """First visits and clipped returns.

        Raises:
            DataError: the episodes are over other states than the features; for the data's holder.
        """
        episodes = Episodes.of_trajectories(data) if isinstance(data, TrajectoryData) else data
        if episodes.n_states != len(self.features):
            raise DataError(
                f"episodes over {episodes.n_states} states, features over {len(self.features)}",
                where="episodes",
                remedy="give Episodes whose n_states is the number of the features' rows",
            )
        return first_visits(episodes, self.discount, self.highest_return)

    def worst_pairs(self) -> Sequence[Pair]:
        """Episodes that move the estimate most, and such as change the noise's scale most."""
        return worst_episode_pairs(self.features, self.state_weights, self.discount, self.highest_return)

    def utility(self, output: ValueEstimate) -> dict[str, float]:
        """The error over states, where the exact values are known."""
        if self.values is None:
            return {}
        return {"root mean square error": float(np.sqrt(np.square(output.values - self.values).mean()))}


def _features(features: ArrayLike) -> _Vector:
    matrix = np.array(features, dtype=np.float64)
    if matrix.ndim != 2 or not matrix.size or not np.isfinite(matrix).all() or not matrix.any():
        raise InvalidParameter(
            f"features of shape {matrix.shape}, not finite, or all 0",
            where="features",
            why="a state's value is a linear function of them",
            remedy="give a matrix of finite numbers [N, d], one row a state",
        )
    matrix.setflags(write=False)
    return matrix


def _weights(weights: ArrayLike | None, n_states: int) -> _Vector:
    vector = np.ones(n_states) if weights is None else np.array(weights, dtype=np.float64)
    if vector.shape != (n_states,) or not ((vector >= 0.0) & np.isfinite(vector)).all() or not vector.any():
        raise InvalidParameter(
            f"weights of shape {vector.shape} for {n_states} states, negative, not finite or all 0",
            where="weights",
            why="they say how much each state's error counts",
            remedy="give one finite weight of at least 0 a state, one of them positive",
        )
    vector.setflags(write=False)
    return vector


def _return_bound(discount: float, largest_return: float | None) -> float:
    if not 0.0 <= discount <= 1.0:
        raise InvalidParameter(f"discount = {discount!r}", where="discount", remedy="give one in [0, 1]")
    if largest_return is None and discount < 1.0:
        return 1.0 / (1.0 - discount)
    if largest_return is None or not 0.0 < largest_return < math.inf:
        raise InvalidParameter(
            f"largest_return = {largest_return!r}",
            where="largest_return",
            why="every return is clipped to it, and the noise is proportional to it",
            remedy="give a public, positive and finite bound",
        )
    return float(largest_return)
