"""Policy evaluation by least squares on first-visit returns: LSW and LSL, and DP-LSW and DP-LSL.

Sections 3.1 and 3.2 and Algorithms 1 and 2 of Balle, Gomrokchi and Precup (2016). Without noise DP-LSW is LSW
and DP-LSL is LSL.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpaudit.algorithms.data.episodes import FirstVisits
from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016.policy_evaluation import PolicyEvaluation
from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016.smooth import lsl_bound, lsw_bound
from dpaudit.algorithms.public_parameters import Array
from dpaudit.claims.claims import Claim, Premise
from dpaudit.errors import InvalidParameter

#: Spectral norms come out of a decomposition in floating point; they are raised by more than its error.
_ROUNDING = 1.0 + 1e-10


def lsw(visits: FirstVisits, features: Array, weights: Array) -> Array:
    """theta_X = (Gamma^(1/2) Phi)^+ Gamma^(1/2) F_X, Gamma = diag(w) (equation 8); [d].

    Features Phi are [N, d], weights w [N] and at least 0.
    """
    root = np.sqrt(weights)
    return np.asarray(np.linalg.lstsq(root[:, None] * features, root * visits.means)[0], dtype=np.float64)


def lsw_excess(theta: Array, best: Array, features: Array, weights: Array) -> float:
    """J_X(theta) - J_X(best), by how much the empirical risk (equation 6) is above its minimum.

    J is quadratic: the difference is the weighted squared norm of Phi (theta - best).
    """
    return float(weights @ np.square(features @ (theta - best)))


def lsl(visits: FirstVisits, features: Array, weights: Array, ridge: float) -> Array:
    """theta_X = (Phi' Gamma_X Phi + lambda/(2m) I)^-1 Phi' Gamma_X F_X (equation 11); [d].

    Gamma_X = diag(rho_s |X_s|/m); features Phi are [N, d], weights rho [N] and at least 0, lambda positive.
    """
    Gamma = weights * visits.counts / visits.episodes  # [N]
    hessian = _hessian(Gamma, features, ridge, visits.episodes)
    return np.asarray(np.linalg.solve(hessian, features.T @ (Gamma * visits.means)), dtype=np.float64)


def lsl_excess(
    theta: Array, best: Array, visits: FirstVisits, features: Array, weights: Array, ridge: float
) -> float:
    """J_X(theta) - J_X(best), by how much the empirical risk (equation 10) is above its minimum."""
    Gamma = weights * visits.counts / visits.episodes
    difference = theta - best
    return float(difference @ _hessian(Gamma, features, ridge, visits.episodes) @ difference)


def _hessian(Gamma: Array, features: Array, ridge: float, episodes: int) -> Array:
    hessian: Array = features.T @ (Gamma[:, None] * features)
    return hessian + ridge / (2.0 * episodes) * np.eye(features.shape[1])


@dataclass(frozen=True, eq=False)
class DPLSW(PolicyEvaluation):
    """Algorithm 1, frozen with its public parameters, those of `PolicyEvaluation`.

    Raises `InvalidParameter` for a least-squares problem without a unique solution too.
    """

    name = "dp-lsw"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.stretch  # refuses features of too low a rank

    @property
    def claim(self) -> Claim:
        """The paper's claim (Theorem 6); with ``lemma`` in the range in which Lemma 1 is proved."""
        return self.smoothness.claim()

    def estimate(self, visits: FirstVisits) -> Array:
        """Line 1. theta_X, equation (8)."""
        return lsw(visits, self.features, self.state_weights)

    def psi(self, visits: FirstVisits) -> float:
        """Line 3. psi_X, the smooth bound on equation (9); private."""
        return lsw_bound(visits.counts, self.state_weights, self.noise.beta).psi

    def scale(self, psi: float) -> float:
        """Line 4. sigma_X = alpha F_max norm((Gamma^(1/2) Phi)^+) sqrt(psi_X)."""
        return self.noise.alpha * self.highest_return * self.stretch * math.sqrt(psi)

    @cached_property
    def stretch(self) -> float:
        """The norm of (Gamma^(1/2) Phi)^+: how far a change of weighted mean returns moves theta at most."""
        values = np.linalg.svd(np.sqrt(self.state_weights)[:, None] * self.features, compute_uv=False)
        n_states, dimension = self.features.shape
        # Nearer to dependence rounding would move the parameters by more than the noise is made for.
        if n_states < dimension or values[-1] <= 1e-8 * values[0]:
            what = f"features of rank below d = {dimension} on the states with positive weights"
            why = "the parameters are then not unique, and no noise hides which were chosen"
            remedy = "leave out features that others determine, or use dp-lsl"
            raise InvalidParameter(what, where="features", why=why, remedy=remedy)
        return float(1.0 / values[-1]) * _ROUNDING


@dataclass(frozen=True, eq=False)
class DPLSL(PolicyEvaluation):
    """Algorithm 2, frozen with its public parameters, those of `PolicyEvaluation` and one more."""

    ridge: float | None = None  # lambda, above norm(Phi)^2 norm_inf(rho); left out, twice that

    name = "dp-lsl"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.least_ridge < self.ridge_used < math.inf:
            least = f"norm(Phi)^2 norm_inf(rho) = {self.least_ridge:.6g}"
            why = f"Corollary 8 bounds how far one trajectory moves the parameters only above {least}"
            remedy = "give a larger one; about the root of the number of trajectories serves best"
            raise InvalidParameter(f"lambda = {self.ridge!r}", where="ridge", why=why, remedy=remedy)

    @property
    def claim(self) -> Claim:
        """The paper's claim (Theorem 10); with ``lemma`` in the range in which Lemma 1 is proved."""
        name, left, right = "norm(Phi)^2 norm_inf(rho) below lambda", self.least_ridge, self.ridge_used
        source = "Balle, Gomrokchi and Precup (2016), Corollary 8"
        return self.smoothness.claim(Premise(name=name, left=left, relation="<", right=right, source=source))

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        return {**super().parameters, "lambda": self.ridge_used}

    def estimate(self, visits: FirstVisits) -> Array:
        """Line 1. theta_X, equation (11)."""
        return lsl(visits, self.features, self.state_weights, self.ridge_used)

    def psi(self, visits: FirstVisits) -> float:
        """Line 3. psi_X, the smooth bound on equation (12); private."""
        rho, beta = self.state_weights, self.noise.beta
        return lsl_bound(visits.counts, rho, beta, self.factor, visits.episodes).psi

    def scale(self, psi: float) -> float:
        """Line 4. sigma_X = 2 alpha F_max norm(Phi) sqrt(psi_X) / (lambda - norm(Phi)^2 norm_inf(rho))."""
        moved = 2.0 * self.noise.alpha * self.highest_return * self.stretch * math.sqrt(psi)
        return moved / (self.ridge_used - self.least_ridge)

    @property
    def ridge_used(self) -> float:
        """The ridge parameter lambda that is used."""
        return 2.0 * self.least_ridge if self.ridge is None else self.ridge

    @cached_property
    def stretch(self) -> float:
        """norm(Phi), its largest singular value."""
        return float(np.linalg.norm(self.features, 2)) * _ROUNDING

    @property
    def least_ridge(self) -> float:
        """norm(Phi)^2 norm_inf(rho), which lambda must exceed."""
        return self.stretch**2 * float(self.state_weights.max())

    @property
    def factor(self) -> float:
        """c of equation (12): norm(Phi) norm_inf(rho)/sqrt(2 lambda)."""
        return self.stretch * float(self.state_weights.max()) / math.sqrt(2.0 * self.ridge_used)
