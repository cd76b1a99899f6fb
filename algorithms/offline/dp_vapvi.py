"""DP-VAPVI: differentially private variance-aware pessimistic value iteration, with linear features.

Algorithm 2 of Qiao and Wang (2023), with its line numbers. The noise is `linear_calibration`'s; without noise
it is VAPVI (`vapvi`).

Qiao, D. and Wang, Y.-X. (2023). Offline Reinforcement Learning with Differential Privacy. NeurIPS.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.environments.tabular import TabularMDP
from dpaudit.algorithms.offline.linear_calibration import (
    CalibrationName,
    LinearCalibration,
    Regression,
    RegressionNoise,
    StepNoise,
)
from dpaudit.algorithms.offline.linear_pairs import worst_linear_pairs
from dpaudit.algorithms.offline.offline import Policy, policy_utility, require_sizes
from dpaudit.algorithms.offline.vapvi import (
    LinearConstants,
    conditional_variance,
    halves,
    pessimistic_action_values,
    solved,
)
from dpaudit.algorithms.public_parameters import (
    digest,
    feature_table,
    public_size,
    require_failure_probability,
    require_word,
    set_read_only,
)
from dpaudit.claims.claims import Claim, Premise
from dpaudit.claims.guarantees import ZCDP
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.ledger.releases import Partition
from dpaudit.mechanisms import Array


@dataclass(frozen=True, eq=False)
class DPVAPVI:
    """Algorithm 2, frozen with its public parameters: a callable ``(data, curator) -> Policy``.

    Args:
        features: phi, [S, A, d], public.
        horizon: H.
        guarantee: rho-zCDP for the whole, rho positive.
        calibration: ``sound``, or the noise ``as-published``; see `linear_calibration`.
        split: variances from the second half of the records and values from the first, as the analysis
            has it; else both from all records, as in the experiments.
        constants: C, D's factor, kappa and lambda.
        failure_probability: delta of the utility theorem; no part of the privacy claim.
        mdp: the exact process, where it is known, to measure the policy's suboptimality.
    """

    features: NDArray[np.float64]
    horizon: int
    guarantee: ZCDP = field(default_factory=lambda: ZCDP(rho=1.0))
    calibration: CalibrationName = "sound"
    split: bool = False
    constants: LinearConstants = field(default_factory=LinearConstants)
    failure_probability: float = 0.1
    mdp: TabularMDP | None = None

    name = "dp-vapvi"

    def __post_init__(self) -> None:
        set_read_only(self, features=feature_table(self.features, "[S, A, d]"))
        public_size(self.horizon, "horizon")
        if self.guarantee.rho == 0:
            raise InvalidParameter("a budget of 0", where="guarantee", remedy="give a positive rho")
        require_word(self.calibration, "calibration", get_args(CalibrationName))
        if not isinstance(self.split, bool):
            raise InvalidParameter(f"split = {self.split!r}", where="split", remedy="give True or False")
        require_failure_probability(self.failure_probability)

    @property
    def claim(self) -> Claim:
        """The paper's claim (Theorem 4.1 and Lemma D.1), with what its analysis assumes of the features."""
        norm = Premise(
            name="norm(phi(s, a)) for every (s, a)",
            left=self.noise.largest_norm,
            relation="<=",
            right=self.noise.norm,
            source="Qiao and Wang (2023), section 2, and Lemma D.1",
        )
        return Claim(
            self.guarantee,
            unit="trajectory",
            neighbouring=Neighbouring.REPLACE_ONE,
            trust_model=TrustModel.CENTRAL,
            premises=(norm,),
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        n_states, n_actions, dimension = self.features.shape
        return {
            "horizon": self.horizon,
            "states": n_states,
            "actions": n_actions,
            "dimension": dimension,
            "calibration": self.calibration,
            "split": self.split,
            "failure_probability": self.failure_probability,
            "C": self.constants.bonus,
            "D_factor": self.constants.lower_order,
            "kappa": self.constants.coverage,
            "lambda": self.constants.ridge,
            "features_sha256": digest(self.features),
        }

    @cached_property
    def noise(self) -> LinearCalibration:
        """The noise of every release."""
        return LinearCalibration(
            name=self.calibration,
            rho=self.guarantee.rho,
            horizon=self.horizon,
            features=self.features.reshape(-1, self.features.shape[-1]),
            split=self.split,
        )

    def __call__(self, data: TrajectoryData, curator: Curator) -> Policy:
        """Release the noisy statistics of two regressions a step, backwards, each planned on the ones before.

        Raises `DataError` (for the data's holder) for data of other sizes than the public parameters, or too
        few to split.
        """
        require_sizes(data, (self.horizon, *self.features.shape[:2]))
        n_states, _, dimension = self.features.shape
        H, phi = self.horizon, self.features  # [S, A, d]
        # Line 1. Two data sets, D for values and D' for variances, or the same twice.
        main, auxiliary = halves(data) if self.split else (data, data)
        part, part_2 = (Partition(part="D"), Partition(part="D'")) if self.split else (None, None)
        bonus = self.constants.bonus * math.sqrt(dimension)

        # Line 2. V_{H+1} = 0; the noise is the calibration's.
        values = np.zeros((H + 1, n_states))
        actions = np.zeros((H, n_states), dtype=np.int64)
        for h in reversed(range(H)):  # Line 3; the paper's h is h + 1 here.
            noise, step, cap = self.noise.step(h), h + 1, float(H - h)

            # Lines 4 to 8: the variance of V_{h+1}.
            sigma_squared = np.ones(phi.shape[:2])  # [S, A]
            if noise.variance is not None:
                x = phi[auxiliary.states[:, h], auxiliary.actions[:, h]]  # [K, d]
                reached = values[h + 1, auxiliary.states[:, h + 1]]  # [K]
                labels = [f"Sigma_{step}", f"phi1_{step}", f"phi2_{step}"]
                records = Regression(x, np.ones(len(x)), (reached**2, reached), labels, part_2)
                Sigma, (moment_2, moment_1) = self._regression(curator, noise.variance, records)
                beta, theta = solved(Sigma, moment_2), solved(Sigma, moment_1)
                # Once for each feature: equal ones must have one weight, whatever is rounded.
                features, kind = self.noise.kinds
                sigma_squared = conditional_variance(features, beta, theta, cap)[kind].reshape(phi.shape[:2])

            # Lines 9 and 10: ridge regression weighted by it.
            cells = main.states[:, h], main.actions[:, h]
            earned = main.rewards[:, h] + values[h + 1, main.states[:, h + 1]]  # [K]
            labels = [f"Lambda_{step}", f"phi3_{step}"]
            records = Regression(phi[cells], 1.0 / sigma_squared[cells], (earned,), labels, part)
            Lambda, (target,) = self._regression(curator, noise.value, records)
            w = solved(Lambda, target)

            # Lines 11 to 14.
            Q = pessimistic_action_values(phi, w, Lambda, bonus, self._offset(noise, len(main)), cap)
            actions[h], values[h] = Q.argmax(axis=1), Q.max(axis=1)
        return Policy(actions, values)

    def worst_pairs(self) -> Sequence[Pair]:
        """Two trajectories whose public features move the releases most, and replace one another."""
        return worst_linear_pairs(self.features, self.noise)

    def utility(self, output: Policy) -> dict[str, float]:
        """The policy's suboptimality against the exact optimum, where the process is known."""
        return policy_utility(self.mdp, output)

    def _regression(
        self, curator: Curator, noise: RegressionNoise, records: Regression
    ) -> tuple[Array, list[Array]]:
        """A noisy Gram matrix that has an inverse, [d, d], and noisy vectors, [d] each."""
        gram, vectors = noise.release(curator, records)
        # Line 2 adds E/2 to the diagonal, so that the matrix is positive definite with high probability; the
        # floor makes it so always.
        shifted = gram + (self.constants.ridge + self._shift(noise) / 2) * np.eye(len(gram))
        return floored(shifted, self.constants.ridge), vectors

    def _shift(self, noise: RegressionNoise) -> float:
        """E, twice the likely largest eigenvalue of a Gram matrix's noise (Lemma D.2, with c1 = c2 = 1).

        Published as sqrt(5 H d/rho) (2 + (log(5 c1 H/delta)/(c2 d))^(2/3)); the root is sqrt(2 d) sigma.
        """
        d = self.features.shape[-1]
        tail = math.pow(math.log(5 * self.horizon / self.failure_probability) / d, 2 / 3)
        return self.constants.noise_shift * math.sqrt(2 * d) * noise.gram_sigma * (2 + tail)

    def _offset(self, noise: StepNoise, n: int) -> float:
        """D/K, where L = sqrt(2 d log(10 H d/delta)) sigma likely bounds line 10's noise (Lemma D.2)."""
        d = self.features.shape[-1]
        tail = math.log(10 * self.horizon * d / self.failure_probability)
        length = math.sqrt(2 * d * tail) * noise.value.vector_sigmas[-1]
        noise_bound = self.constants.noise_shift * length
        return self.constants.offset(self.horizon, d, noise_bound, self._shift(noise.value)) / n


def floored(matrix: Array, floor: float) -> Array:
    """The nearest symmetric matrix [d, d], in the Frobenius norm, with no eigenvalue below `floor`.

    The floor is at least 2^-40 of the largest eigenvalue, so that there is an inverse.
    """
    eigenvalues, vectors = np.linalg.eigh(matrix)  # [d], [d, d]
    floor = max(floor, 2.0**-40 * float(eigenvalues[-1]))
    if eigenvalues[0] >= floor:
        return matrix
    raised: Array = (vectors * np.maximum(eigenvalues, floor)) @ vectors.T
    return raised
