"""DP-VAPVI: differentially private variance-aware pessimistic value iteration, with linear features.

Algorithm 2 of Qiao and Wang (2023, NeurIPS), with its line numbers. The noise is `linear_calibration`'s;
without noise it is VAPVI (`vapvi`).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from dpaudit.algorithms import public_parameters as public
from dpaudit.algorithms.data.trajectories import TERMS, Trajectory, TrajectoryData
from dpaudit.algorithms.environments.tabular import TabularMDP
from dpaudit.algorithms.papers.qiao_wang_2023 import vapvi
from dpaudit.algorithms.papers.qiao_wang_2023.linear_calibration import (
    CalibrationName,
    LinearCalibration,
    Regression,
    RegressionNoise,
    StepNoise,
)
from dpaudit.algorithms.papers.qiao_wang_2023.linear_sensitivity import Cost, Furthest, furthest
from dpaudit.algorithms.papers.qiao_wang_2023.planner import Planner, Policy, require_sizes
from dpaudit.claims.claims import Claim, Premise
from dpaudit.claims.guarantees import ZCDP
from dpaudit.claims.pairs import Pair
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.ledger.releases import Partition
from dpaudit.mechanisms import Array

#: The data sets hold each of the two trajectories this often, but for the one that is replaced. The more
#: there are, the closer live runs come to the values with which the two are furthest apart; the published
#: noise is too large for any learning from as many as a replay has time for.
_COPIES = {"sound": 500, "as-published": 4}


@dataclass(frozen=True, eq=False)
class DPVAPVI(Planner):
    """Algorithm 2, frozen with its public parameters: a callable ``(data, curator) -> Policy``."""

    features: Array  # phi, [S, A, d], public
    horizon: int  # H
    guarantee: ZCDP = field(default_factory=lambda: ZCDP(rho=1.0))  # for the whole, rho positive
    calibration: CalibrationName = "sound"  # or the noise ``as-published``; see `linear_calibration`
    # variances from the second half of the records and values from the first, as the analysis has it; else
    # both from all records, as in the experiments
    split: bool = False
    # C, D's factor, kappa and lambda
    constants: vapvi.LinearConstants = field(default_factory=vapvi.LinearConstants)
    failure_probability: float = 0.1  # delta of the utility theorem; no part of the privacy claim
    mdp: TabularMDP | None = None  # the exact process, where it is known, to measure suboptimality

    name = "dp-vapvi"

    def __post_init__(self) -> None:
        public.set_read_only(self, features=public.feature_table(self.features, "[S, A, d]"))
        public.public_size(self.horizon, "horizon")
        if self.guarantee.rho == 0:
            raise InvalidParameter("a budget of 0", where="guarantee", remedy="give a positive rho")
        public.require_word(self.calibration, "calibration", get_args(CalibrationName))
        if not isinstance(self.split, bool):
            raise InvalidParameter(f"split = {self.split!r}", where="split", remedy="give True or False")
        public.require_failure_probability(self.failure_probability)

    @property
    def claim(self) -> Claim:
        """The paper's claim (Theorem 4.1 and Lemma D.1), with what its analysis assumes of the features."""
        name, source = "norm(phi(s, a)) for every (s, a)", "Qiao and Wang (2023), section 2, and Lemma D.1"
        left, right = self.noise.largest_norm, self.noise.norm
        norm = Premise(name=name, left=left, relation="<=", right=right, source=source)
        return Claim(self.guarantee, **TERMS, premises=(norm,))

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        return {
            "horizon": self.horizon,
            **dict(zip(("states", "actions", "dimension"), self.features.shape, strict=True)),
            **{name: getattr(self, name) for name in ("calibration", "split", "failure_probability")},
            "C": self.constants.bonus,
            "D_factor": self.constants.lower_order,
            "kappa": self.constants.coverage,
            "lambda": self.constants.ridge,
            "noise_shift": self.constants.noise_shift,
            "features_sha256": public.digest(self.features),
        }

    @cached_property
    def noise(self) -> LinearCalibration:
        """The noise of every release."""
        rows = self.features.reshape(-1, self.features.shape[-1])
        return LinearCalibration(self.calibration, self.guarantee.rho, self.horizon, rows, self.split)

    def __call__(self, data: TrajectoryData, curator: Curator) -> Policy:
        """Release the noisy statistics of two regressions a step, backwards, each planned on the ones before.

        Raises `DataError` (for the data's holder) for data of other sizes than the public parameters, or too
        few to split.
        """
        require_sizes(data, (self.horizon, *self.features.shape[:2]))
        n_states, _, dimension = self.features.shape
        H, phi = self.horizon, self.features  # [S, A, d]
        # Line 1. Two data sets, D for values and D' for variances, or the same twice.
        main, auxiliary = vapvi.halves(data) if self.split else (data, data)
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
                beta, theta = vapvi.solved(Sigma, moment_2), vapvi.solved(Sigma, moment_1)
                # Once for each feature: equal ones must have one weight, whatever is rounded.
                features, kind = self.noise.kinds
                variances = vapvi.conditional_variance(features, beta, theta, cap)
                sigma_squared = variances[kind].reshape(phi.shape[:2])

            # Lines 9 and 10: ridge regression weighted by it.
            cells = main.states[:, h], main.actions[:, h]
            earned = main.rewards[:, h] + values[h + 1, main.states[:, h + 1]]  # [K]
            labels = [f"Lambda_{step}", f"phi3_{step}"]
            records = Regression(phi[cells], 1.0 / sigma_squared[cells], (earned,), labels, part)
            Lambda, (target,) = self._regression(curator, noise.value, records)
            w, offset = vapvi.solved(Lambda, target), self._offset(noise, len(main))

            # Lines 11 to 14.
            Q = vapvi.pessimistic_action_values(phi, w, Lambda, bonus, offset, cap)
            actions[h], values[h] = Q.argmax(axis=1), Q.max(axis=1)
        return Policy(actions, values)

    def worst_pairs(self) -> Sequence[Pair]:
        """One pair; two where the data are split, with the replaced trajectory in either half.

        Which state and action each of two trajectories shows at step h is chosen to make the releases of that
        step cost most, all taken together, if both earn all that can be earned from there on, or one of them
        nothing. The records need not be likely, or possible, under any process: the claim protects them all
        the same.
        """
        copies = _COPIES[self.noise.name]

        def pair(unit: int, whose: str, *, variances: bool = True, values: bool = True) -> Pair:
            one, other = _trajectories(self.features, self.noise, (variances, values))
            data = TrajectoryData.of([one, other] * copies, *self.features.shape[:2]).replace(unit, one)
            description = f"{whose}, replaced by the one furthest from it"
            return Pair(data, data.replace(unit, other), description, unit=unit)

        if not self.split:
            return [pair(0, "a trajectory")]
        second = pair(2 * copies - 1, "a trajectory of the second half", values=False)
        return [pair(0, "a trajectory of the first half", variances=False), second]

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
        shift = self.constants.noise_shift * math.sqrt(2 * d) * noise.gram_sigma * (2 + tail)
        return min(shift, 1e300)  # with so much on the diagonal every weight is 0; infinity has no inverse

    def _offset(self, noise: StepNoise, n: int) -> float:
        """D/K, where L = sqrt(2 d log(10 H d/delta)) sigma likely bounds line 10's noise (Lemma D.2)."""
        d = self.features.shape[-1]
        tail = math.log(10 * self.horizon * d / self.failure_probability)
        length = self.constants.noise_shift * math.sqrt(2 * d * tail) * noise.value.vector_sigmas[-1]
        return self.constants.offset(self.horizon, d, length, self._shift(noise.value)) / n


def floored(matrix: Array, floor: float) -> Array:
    """The nearest symmetric matrix [d, d], in the Frobenius norm, with no eigenvalue below `floor`.

    The floor is at least 2^-40 of the largest eigenvalue, so that there is an inverse.
    """
    eigenvalues, vectors = np.linalg.eigh(matrix)  # [d], [d, d]
    floor = max(floor, 2.0**-40 * float(eigenvalues[-1]))
    if eigenvalues[0] >= floor:
        return matrix
    return np.asarray((vectors * np.maximum(eigenvalues, floor)) @ vectors.T)


def costliest(noise: LinearCalibration, h: int, halves: tuple[bool, bool] = (True, True)) -> Furthest:
    """Return the costliest exchange of two features at step h, over all its releases, and its cost in rho.

    Each release costs its squared movement over 2 sigma^2 (Bun and Steinke 2016, Proposition 1.6); the
    rewards and values behind the two are the largest possible, the variances 1. With sound noise the other
    one earns nothing, or its variance is the largest, where that is more. Features are counted among
    `noise.kinds`; `halves` says whether the trajectory counts for the variances, and for the values.
    """
    step, costs = noise.step(h), []
    for counts, of in zip(halves, (step.variance, step.value), strict=True):
        cost = Cost(0.0, 0.0)
        if counts and of is not None:
            weights = zip(of.largest, of.vector_sigmas, strict=True)
            cost = Cost(0.5 / of.gram_sigma**2, sum(0.5 * (w / sigma) ** 2 for w, sigma in weights))
        costs.append(cost)
    sound = noise.name == "sound"
    return furthest(noise.kinds[0], *costs, least=noise.least_weight(h) if sound else 1.0, alone=sound)


def _cells(features: Array, noise: LinearCalibration, found: Furthest) -> tuple[int, int] | None:
    """A cell for either feature, in states that can have the values it takes; None if there are none.

    Where the other earns nothing, one state can have a value while the other has none; of two features of
    one length either may be the other.
    """
    if not found.alone:
        return _first_cells(noise, found)
    distinct, kind = noise.kinds
    one, other = (np.flatnonzero(kind == which) for which in (found.one, found.other))
    orders = [(one, other)]
    lengths = np.linalg.norm(distinct[[found.one, found.other]], axis=1)
    if lengths[1] >= lengths[0] * (1 - 1e-12):
        orders.append((other, one))
    n_actions = features.shape[1]

    def tried(cells: NDArray[np.intp]) -> list[int]:
        """One cell of each state, of 20 states at most."""
        _, first = np.unique(cells // n_actions, return_index=True)
        return [int(cell) for cell in cells[first][:20]]

    for first, second in orders:
        for i, j in itertools.product(tried(first), tried(second)):
            if _worth_more(features[i // n_actions], features[j // n_actions]):
                return i, j
    return None


def _first_cells(noise: LinearCalibration, found: Furthest) -> tuple[int, int]:
    one, other = (int(np.argmax(noise.kinds[1] == which)) for which in (found.one, found.other))
    return one, other


def _worth_more(one: Array, other: Array) -> bool:
    """Whether some weights give a feature of one state, [A, d], a value, and none of the other's.

    By Farkas' lemma, unless all features of the one are sums of the other's, times numbers not negative.
    """
    return any(nnls(other.T, x)[1] > 1e-9 * np.linalg.norm(x) for x in one)


def _trajectories(
    features: Array, noise: LinearCalibration, halves: tuple[bool, bool]
) -> tuple[Trajectory, Trajectory]:
    # Sound noise weighs matrices and vectors alike at every step; least weights matter to close features.
    same = noise.name == "sound" and noise.moved[0] >= 1.0
    found = [costliest(noise, h, halves) for h in range(1 if same else noise.horizon)]
    shown = {pair: _cells(features, noise, pair) for pair in set(found) if pair.square > 0.0}
    possible = [cells for pair in reversed(found) if (cells := shown.get(pair)) is not None]
    # Where none is, the values cannot be what the ledger allows for.
    last = possible[0] if possible else _first_cells(noise, found[0])
    ends = []
    for pair in reversed(found):
        last = shown.get(pair) or last  # a step whose own pair cannot be shown takes the next step's
        ends.append(last)
    shown_cells = np.array(ends[::-1] * (noise.horizon // len(found))).T  # [2, H]
    states, actions = np.divmod(shown_cells, features.shape[1])  # [2, H]
    states = np.concatenate([states, np.zeros((2, 1), dtype=np.int64)], axis=1)  # [2, H+1]
    earned = 1.0, 0.0 if any(pair.alone for pair in found) else 1.0
    one, other = (Trajectory(states[i], actions[i], np.full(noise.horizon, earned[i])) for i in range(2))
    return one, other
