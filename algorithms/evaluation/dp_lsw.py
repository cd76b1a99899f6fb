"""DP-LSW: differentially private policy evaluation by weighted least squares.

Algorithm 1 of Balle, Gomrokchi and Precup (2016), with its line numbers. Without noise it is LSW (`lsw`).

Balle, B., Gomrokchi, M. and Precup, D. (2016). Differentially Private Policy Evaluation. ICML.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpaudit.algorithms.data.episodes import Episodes, FirstVisits
from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.evaluation.lsw import lsw
from dpaudit.algorithms.evaluation.policy_evaluation import ROUNDING, PolicyEvaluation, ValueEstimate
from dpaudit.algorithms.evaluation.smooth_bounds import lsw_bound
from dpaudit.claims.claims import Claim
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter


@dataclass(frozen=True, eq=False)
class DPLSW(PolicyEvaluation):
    """Algorithm 1, frozen with its public parameters: a callable ``(data, curator) -> ValueEstimate``.

    The arguments are those of `PolicyEvaluation`.

    Raises:
        InvalidParameter: as there, or a least-squares problem without a unique solution.
    """

    name = "dp-lsw"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.stretch

    @property
    def claim(self) -> Claim:
        """The paper's claim (Theorem 6); with ``lemma`` in the range in which Lemma 1 is proved."""
        return self.smoothness.claim()

    def __call__(self, data: Episodes | TrajectoryData, curator: Curator) -> ValueEstimate:
        """Release the parameters, with noise that a smooth bound on their sensitivity chooses.

        Raises:
            DataError: the episodes are over other states than the features; for the data's holder.
        """
        visits, w = self.visits(data), self.state_weights
        # Line 1. theta_X, equation (8).
        theta = lsw(visits, self.features, w)
        # Line 2. alpha; beta enters the next line.
        alpha = self.noise.alpha
        # Line 3. psi_X, the smooth bound on equation (9).
        psi = self.psi(visits)
        # Line 4. sigma_X; F_max stands for R_max/(1 - gamma).
        sigma = alpha * self.highest_return * self.stretch * math.sqrt(psi)
        # Lines 5 and 6. eta ~ N(0, sigma_X^2 I) is added, and the sum returned.
        released = curator.release_smooth(theta, sigma, self.noise, label="theta", claimed=self.guarantee)
        return ValueEstimate(released, self.features @ released)

    def psi(self, visits: FirstVisits) -> float:
        """The smooth bound on equation (9), private."""
        return lsw_bound(visits.counts, self.state_weights, self.noise.beta).psi

    @cached_property
    def stretch(self) -> float:
        """The norm of (Gamma^(1/2) Phi)^+: how far a change of weighted mean returns moves theta at most."""
        values = np.linalg.svd(np.sqrt(self.state_weights)[:, None] * self.features, compute_uv=False)
        n_states, dimension = self.features.shape
        # Nearer to dependence rounding would move the parameters by more than the noise is made for.
        if n_states < dimension or values[-1] <= 1e-8 * values[0]:
            raise InvalidParameter(
                f"features of rank below d = {dimension} on the states with positive weights",
                where="features",
                why="the parameters are then not unique, and no noise hides which were chosen",
                remedy="leave out features that others determine, or use dp-lsl",
            )
        return float(1.0 / values[-1]) * ROUNDING
