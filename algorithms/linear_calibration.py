"""How much noise each release of DP-VAPVI gets, and what is claimed for it.

With norm(phi) <= R, values in [0, H-h] after step h and variances of at least 1, one trajectory adds
to step h

    a matrix of Frobenius norm  R^2          to each Gram matrix (lines 4 and 9),
    a vector of norm            R (H-h)^2    to the second moment (line 5),
                                R (H-h)      to the first moment (line 6),
                                R (H-h+1)    to the regression target (line 10),

h from 1. Replacing a trajectory moves a sum by sqrt(2) times that where no two contributions are opposed -
always for Gram matrices, and for the vectors where no two public features are - and by twice that elsewhere.

``sound`` calibrates every release to this, and shares the budget equally among the releases that one
trajectory meets. After the last step nothing is earned: V = 0 is public and so is the variance 1, so that
lines 4 to 6 release nothing at h = H. Not split, a trajectory meets 5H - 3 releases; split, 3(H - 1) or 2H.

``as-published`` takes rho/(5H) for each, R = 1, 2H^2 and 2H for the vectors, and 1 for the Gram matrices
(Lemma D.1), which is true when a trajectory is added or removed, and short by sqrt(2) when one is replaced.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dpaudit.guarantees import ZCDP
from dpaudit.mechanisms import Gaussian, SymmetricGaussian
from dpaudit.relations import Neighbouring
from dpaudit.sensitivity import L2, Sensitivity

CalibrationName: TypeAlias = Literal["sound", "as-published"]


@dataclass(frozen=True)
class VectorNoise:
    """One regression target's release: `bound` is the largest norm of a trajectory's contribution."""

    bound: float
    mechanism: Gaussian
    claimed: ZCDP


@dataclass(frozen=True)
class GramNoise:
    """One Gram matrix's release: `bound` is the largest norm of a feature."""

    bound: float
    mechanism: SymmetricGaussian
    claimed: ZCDP


@dataclass(frozen=True)
class VarianceNoise:
    """What lines 4, 5 and 6 release at one step."""

    gram: GramNoise
    second_moment: VectorNoise
    first_moment: VectorNoise


@dataclass(frozen=True)
class StepNoise:
    """What one step releases; `variance` is None where nothing is left to estimate."""

    variance: VarianceNoise | None
    gram: GramNoise
    target: VectorNoise


@dataclass(frozen=True)
class LinearCalibration:
    """The noise of all steps.

    Attributes:
        name: which calibration.
        rho: the whole budget.
        horizon: H.
        dimension: d.
        norm: R, the largest norm of a feature that the releases are calibrated to.
        acute: whether no two public features are opposed.
        split: whether variances and values are estimated on different halves.
    """

    name: CalibrationName
    rho: float
    horizon: int
    dimension: int
    norm: float
    acute: bool
    split: bool

    @property
    def variance_share(self) -> float:
        """What each release of lines 4 to 6 may cost."""
        H = self.horizon
        if self.name == "as-published":
            return self.rho / (5 * H)
        return self.rho / (max(3 * (H - 1), 1) if self.split else 5 * H - 3)

    @property
    def value_share(self) -> float:
        """What each release of lines 9 and 10 may cost."""
        H = self.horizon
        if self.name == "as-published":
            return self.rho / (5 * H)
        return self.rho / (2 * H if self.split else 5 * H - 3)

    def step(self, h: int) -> StepNoise:
        """The noise at step h, counted from 0."""
        left = self.horizon - h - 1  # the most that V_{h+1} can be
        H = self.horizon
        variance = None
        if left or self.name == "as-published":
            share = self.variance_share
            variance = VarianceNoise(
                gram=self._gram(share),
                second_moment=self._vector(self.norm * left**2, 2.0 * H**2, share),
                first_moment=self._vector(self.norm * left, 2.0 * H, share),
            )
        share = self.value_share
        return StepNoise(
            variance=variance,
            gram=self._gram(share),
            target=self._vector(self.norm * (left + 1), 2.0 * H, share),
        )

    def _gram(self, share: float) -> GramNoise:
        bound = self.norm * self.norm
        sensitivity = Neighbouring.REPLACE_ONE.sum_sensitivity(bound, "frobenius", acute=True)
        published = 1.0  # Z_ij of variance 1/(4 rho0) in (Z + Z')/sqrt 2: sigma^2 = 1/(2 rho0)
        moved = sensitivity if self.name == "sound" else published
        return GramNoise(
            self.norm,
            SymmetricGaussian(
                sigma=_sigma(moved, share),
                dimension=self.dimension,
                sensitivity=Sensitivity(value=sensitivity, norm="frobenius"),
            ),
            ZCDP(rho=share),
        )

    def _vector(self, bound: float, published: float, share: float) -> VectorNoise:
        sensitivity = Neighbouring.REPLACE_ONE.sum_sensitivity(bound, "l2", acute=self.acute)
        moved = sensitivity if self.name == "sound" else published
        # After the last step the sum is zero whatever the records say.
        declared = L2(sensitivity, "declared" if bound else "proved")
        return VectorNoise(bound, Gaussian(sigma=_sigma(moved, share), sensitivity=declared), ZCDP(rho=share))


def _sigma(sensitivity: float, rho: float) -> float:
    """Gaussian noise that makes a release of that sensitivity rho-zCDP (Bun and Steinke 2016, Prop. 1.6)."""
    return sensitivity / math.sqrt(2.0 * rho)
