"""What DP-LSW and DP-LSL have in common: public inputs, the algorithm around the regression, worst pairs.

Balle, B., Gomrokchi, M. and Precup, D. (2016). Differentially Private Policy Evaluation. ICML.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.episodes import Episodes, FirstVisits, first_visits
from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016.smooth import CalibrationName, SmoothCalibration
from dpaudit.algorithms.public_parameters import Array, digest, feature_table, set_read_only
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.pairs import Pair
from dpaudit.curator.curator import Curator
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.mechanisms import SmoothGaussian


class ValueEstimate(NamedTuple):
    """What leaves the algorithm."""

    theta: Array  # [d], the noisy parameters
    values: Array  # [N], Phi theta


@dataclass(frozen=True, eq=False)
class PolicyEvaluation(ABC):
    """Algorithms 1 and 2, which differ in three lines: a callable ``(data, curator) -> ValueEstimate``."""

    features: Array  # Phi, [N, d]; row s holds the features of state s
    discount: float  # gamma, in [0, 1]
    # F_max, public: every return is clipped to [0, F_max]. Left out, 1/(1 - gamma), the largest return of
    # rewards in [0, 1].
    largest_return: float | None = None
    weights: Array | None = None  # w or rho, [N], at least 0; 1 where left out
    guarantee: ApproxDP = field(default_factory=lambda: ApproxDP(epsilon=0.1, delta=0.1))
    calibration: CalibrationName = "lemma"  # ``lemma``, as published, or ``exact``; see `smooth`
    values: Array | None = None  # [N], the exact values, where they are known, to measure the error

    def __post_init__(self) -> None:
        set_read_only(self, features=feature_table(self.features, "[N, d]"))
        _ = self.state_weights, self.highest_return, self.noise  # each refuses what it cannot use
        if self.values is not None and np.shape(self.values) != (len(self.features),):
            what = f"exact values of shape {np.shape(self.values)} for {len(self.features)} states"
            raise InvalidParameter(what, where="values", remedy="give one value a state, or none")

    @cached_property
    def state_weights(self) -> Array:
        """The weights of all states, [N]."""
        n_states = len(self.features)
        weights = np.ones(n_states) if self.weights is None else np.array(self.weights, dtype=np.float64)
        finite = bool(((weights >= 0.0) & np.isfinite(weights)).all())
        if weights.shape != (n_states,) or not finite or not weights.any():
            what = f"weights of shape {weights.shape} for {n_states} states, negative, not finite or all 0"
            why = "they weigh the states' errors"
            remedy = "give one finite weight of at least 0 a state, one of them positive"
            raise InvalidParameter(what, where="weights", why=why, remedy=remedy)
        weights.setflags(write=False)
        return weights

    @cached_property
    def highest_return(self) -> float:
        """The public bound on a return."""
        discount, bound = self.discount, self.largest_return
        if not 0.0 <= discount <= 1.0:
            raise InvalidParameter(f"discount = {discount!r}", where="discount", remedy="give one in [0, 1]")
        if bound is None and discount < 1.0:
            return 1.0 / (1.0 - discount)
        if bound is None or not 0.0 < bound < math.inf:
            why = "every return is clipped to it, and the noise is proportional to it"
            what, remedy = f"largest_return = {bound!r}", "give a public, positive and finite bound"
            raise InvalidParameter(what, where="largest_return", why=why, remedy=remedy)
        return float(bound)

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

    def __call__(self, data: Episodes | TrajectoryData, curator: Curator) -> ValueEstimate:
        """Release the parameters, with noise that a smooth bound on their sensitivity chooses.

        Raises `DataError` (for the data's holder) if the episodes are over other states than the features.
        """
        visits = self.visits(data)
        theta = self.estimate(visits)  # Line 1.
        # Line 2. alpha and beta are the calibration's.
        sigma = self.scale(self.psi(visits))  # Lines 3 and 4; F_max stands for R_max/(1 - gamma).
        # Lines 5 and 6. eta ~ N(0, sigma_X^2 I) is added, and the sum returned.
        released = curator.release_smooth(theta, sigma, self.noise, label="theta", claimed=self.guarantee)
        return ValueEstimate(released, self.features @ released)

    @property
    @abstractmethod
    def claim(self) -> Claim:
        """The claim that the paper makes."""

    @abstractmethod
    def estimate(self, visits: FirstVisits) -> Array:
        """Line 1. The parameters theta_X, [d], without noise."""

    @abstractmethod
    def psi(self, visits: FirstVisits) -> float:
        """Line 3. The smooth bound psi_X; private."""

    @abstractmethod
    def scale(self, psi: float) -> float:
        """Line 4. The standard deviation sigma_X; private."""

    def visits(self, data: Episodes | TrajectoryData) -> FirstVisits:
        """First visits and clipped returns; raises as a call does."""
        episodes = Episodes.of_trajectories(data) if isinstance(data, TrajectoryData) else data
        if episodes.n_states != len(self.features):
            what = f"episodes over {episodes.n_states} states, features over {len(self.features)}"
            remedy = "give Episodes whose n_states is the number of the features' rows"
            raise DataError(what, where="episodes", remedy=remedy)
        return first_visits(episodes, self.discount, self.highest_return)

    def worst_pairs(self) -> Sequence[Pair]:
        """Two pairs: one moves the parameters most, the other changes the noise's scale most.

        **Returns**: one episode in all, which visits every state, once with returns of F_max and once of 0,
        or, where features mix states with either sign, with those that move the parameters further. All
        counts are 1: the bound is then at its largest, whatever beta is, and smoothing adds nothing. With
        tabular features and equal weights DP-LSW's parameters move by just what the noise is calibrated to.

        **Visits**: two episodes visit every state, and many one state alone; one of the two is replaced by
        another that visits only this state. All counts but one fall from 2 to 1, and log psi changes by beta.
        """
        n_states = len(self.features)
        high = _furthest(self.features, self.state_weights)
        everywhere = np.arange(n_states)
        full, opposite = (
            # Rewards with these returns as their discounted sums.
            (everywhere, returns - self.discount * np.append(returns[1:], 0.0))
            for returns in (self.highest_return * high, self.highest_return * ~high)
        )
        alone = Episodes.of([full], n_states)
        returns = Pair(alone, alone.replace(0, opposite), "one episode, all its returns replaced", unit=0)

        short = (np.array([np.argmin(self.state_weights)]), np.zeros(1))  # the lightest state
        empty = (everywhere, np.zeros(n_states))
        # So many episodes visit one state alone that its count does not bound the other counts.
        crowd = Episodes.of([full, empty, *[short] * 1000], n_states)
        description = "an episode that visits every state, replaced by one that visits a single state"
        return returns, Pair(crowd, crowd.replace(0, short), description, unit=0)

    def utility(self, output: ValueEstimate) -> dict[str, float]:
        """The error over states, where the exact values are known."""
        if self.values is None:
            return {}
        return {"root mean square error": float(np.sqrt(np.square(output.values - self.values).mean()))}


def _furthest(features: Array, weights: Array) -> NDArray[np.bool_]:
    """At which states a return of F_max, of 0 elsewhere, moves the parameters furthest; by local search."""
    root = np.sqrt(weights)
    moves = np.linalg.pinv(root[:, None] * features) * root  # [d, N]
    signs = np.ones(len(features))
    best = np.linalg.norm(moves @ signs)
    for start in (signs, np.sign(np.linalg.svd(moves)[2][0]) + 0.0):
        found = np.where(start >= 0.0, 1.0, -1.0)
        for _ in range(100):
            step = np.where(moves.T @ (moves @ found) >= 0.0, 1.0, -1.0)
            if (step == found).all():
                break
            found = step
        length = np.linalg.norm(moves @ found)
        if length > best * (1.0 + 1e-9):
            signs, best = found, length
    return signs > 0.0
