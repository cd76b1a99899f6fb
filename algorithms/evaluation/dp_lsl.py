"""DP-LSL: differentially private policy evaluation by least squares with a ridge.

Algorithm 2 of Balle, Gomrokchi and Precup (2016), with its line numbers. Without noise it is LSL (`lsl`).

Balle, B., Gomrokchi, M. and Precup, D. (2016). Differentially Private Policy Evaluation. ICML.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpaudit.algorithms.data.episodes import Episodes, FirstVisits
from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.evaluation.lsl import lsl
from dpaudit.algorithms.evaluation.policy_evaluation import ROUNDING, PolicyEvaluation, ValueEstimate
from dpaudit.algorithms.evaluation.smooth_bounds import lsl_bound
from dpaudit.claims.claims import Claim, Premise
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter


@dataclass(frozen=True, eq=False)
class DPLSL(PolicyEvaluation):
    """Algorithm 2, frozen with its public parameters: a callable ``(data, curator) -> ValueEstimate``.

    Args:
        ridge: lambda, above norm(Phi)^2 norm_inf(rho); left out, twice that. The other arguments are
            those of `PolicyEvaluation`.

    Raises:
        InvalidParameter: as there, or a ridge at which nothing bounds how far the parameters move.
    """

    ridge: float | None = None

    name = "dp-lsl"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.least_ridge < self.ridge_used < math.inf:
            raise InvalidParameter(
                f"lambda = {self.ridge!r}",
                where="ridge",
                why="Corollary 8 bounds how far one trajectory moves the parameters only above "
                f"norm(Phi)^2 norm_inf(rho) = {self.least_ridge:.6g}",
                remedy="give a larger one; about the root of the number of trajectories serves best",
            )

    @property
    def claim(self) -> Claim:
        """The paper's claim (Theorem 10); with ``lemma`` in the range in which Lemma 1 is proved."""
        large = Premise(
            name="norm(Phi)^2 norm_inf(rho) below lambda",
            left=self.least_ridge,
            relation="<",
            right=self.ridge_used,
            source="Balle, Gomrokchi and Precup (2016), Corollary 8",
        )
        return self.smoothness.claim(large)

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        return {**super().parameters, "lambda": self.ridge_used}

    def __call__(self, data: Episodes | TrajectoryData, curator: Curator) -> ValueEstimate:
        """Release the parameters, with noise that a smooth bound on their sensitivity chooses.

        Raises:
            DataError: the episodes are over other states than the features; for the data's holder.
        """
        visits, rho, ridge = self.visits(data), self.state_weights, self.ridge_used
        # Line 1. theta_X, equation (11).
        theta = lsl(visits, self.features, rho, ridge)
        # Line 2. alpha; beta enters the next line.
        alpha = self.noise.alpha
        # Line 3. psi_X, the smooth bound on equation (12).
        psi = self.psi(visits)
        # Line 4. sigma_X; F_max stands for R_max/(1 - gamma).
        sigma = 2.0 * alpha * self.highest_return * self.stretch * math.sqrt(psi) / (ridge - self.least_ridge)
        # Lines 5 and 6. eta ~ N(0, sigma_X^2 I) is added, and the sum returned.
        released = curator.release_smooth(theta, sigma, self.noise, label="theta", claimed=self.guarantee)
        return ValueEstimate(released, self.features @ released)

    def psi(self, visits: FirstVisits) -> float:
        """The smooth bound on equation (12), private."""
        rho, beta = self.state_weights, self.noise.beta
        return lsl_bound(visits.counts, rho, beta, self.factor, visits.episodes).psi

    @property
    def ridge_used(self) -> float:
        """Lambda."""
        return 2.0 * self.least_ridge if self.ridge is None else self.ridge

    @cached_property
    def stretch(self) -> float:
        """norm(Phi), its largest singular value."""
        return float(np.linalg.norm(self.features, 2)) * ROUNDING

    @property
    def least_ridge(self) -> float:
        """norm(Phi)^2 norm_inf(rho), which lambda must exceed."""
        return self.stretch**2 * float(self.state_weights.max())

    @property
    def factor(self) -> float:
        """c of equation (12): norm(Phi) norm_inf(rho)/sqrt(2 lambda)."""
        return self.stretch * float(self.state_weights.max()) / math.sqrt(2.0 * self.ridge_used)
