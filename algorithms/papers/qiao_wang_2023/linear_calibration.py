"""The releases of DP-VAPVI: how much noise each gets, what is claimed for it, and how it is made.

Each step makes two ridge regressions: for variances a Gram matrix and two vectors (lines 4 to 6), for values
a Gram matrix and one vector (lines 9 and 10). With norm(phi) <= R, values in [0, H-h] after step h and
variances of at least 1, one trajectory adds

    a matrix of Frobenius norm  R^2          to each Gram matrix (lines 4 and 9),
    a vector of norm            R (H-h)^2    to the second moment (line 5),
                                R (H-h)      to the first moment (line 6),
                                R (H-h+1)    to the regression target (line 10),

h from 1, and replacing a trajectory moves at most one such summand at each step.

``sound`` releases the matrix and the vectors of a regression together, each over its largest norm and times
the root of its share, under the exact sensitivity of them all (`linear_sensitivity`). Every regression gives
its Gram matrix the same share, so that for most maps the same two trajectories are worst for all. After
the last step nothing is earned: V = 0 is public and so is the variance 1, so that lines 4 to 6 release
nothing at h = H.
Not split, a step's variances get 3/(5H-3) of the budget and its values 2/(5H-3), as 5H-3 equal releases
would; split, 1/(H-1) and 1/H.

``as-published`` releases each by itself under rho/(5H), with R = 1, 2H^2 and 2H for the vectors, and 1 for
the Gram matrices (Lemma D.1), which is true when a trajectory is added or removed, and short by sqrt(2) when
one is replaced. What a ledger declares for these is what the norms above imply: sqrt(2) times the bound where
no two contributions are opposed - always for Gram matrices, and for vectors where no feature has a negative
entry - and twice the bound elsewhere.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.noise_calibration import zcdp_sigma
from dpaudit.algorithms.papers.qiao_wang_2023.linear_sensitivity import (
    value_sensitivity,
    variance_sensitivity,
)
from dpaudit.algorithms.public_parameters import Array
from dpaudit.certificate.verdicts import CLAIM_TOLERANCE
from dpaudit.claims.guarantees import ZCDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import L2, Basis, Frobenius
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.ledger.releases import Partition
from dpaudit.mechanisms import Gaussian, SymmetricGaussian

CalibrationName: TypeAlias = Literal["sound", "as-published"]

#: g, what Gram matrices get of each regression's budget; docs/papers/vapvi.md says why.
GRAM_SHARE = 0.4


class Regression(NamedTuple):
    """The records of one ridge regression; private."""

    x: Array  # [K, d], features of the public map
    weights: Array  # [K], in (0, 1]; the same for equal features
    targets: Sequence[Array]  # [K] for each vector
    labels: Sequence[str]  # of the matrix, then of each vector
    partition: Partition | None = None  # the part of a split that the records are


@dataclass(frozen=True)
class JointNoise:
    """One release of a Gram matrix and its vectors."""

    mechanism: Gaussian  # on all blocks together, each over its scale
    claimed: ZCDP  # of the release
    dimension: int  # d
    gram_scale: float  # R^2/sqrt(g)
    vector_scales: tuple[float, ...]  # R times the largest weight, over the root of the vector's share
    largest: tuple[float, ...]  # the largest weight that a feature gets in each vector
    least: float  # the least weight 1/sigma^2 of a record; the most is 1

    @property
    def gram_sigma(self) -> float:
        """Standard deviation of the Gram matrix's noise, isotropic in the Frobenius norm."""
        return self.gram_scale * self.mechanism.sigma

    @property
    def vector_sigmas(self) -> tuple[float, ...]:
        """Standard deviation of each vector's noise."""
        return tuple(scale * self.mechanism.sigma for scale in self.vector_scales)

    def release(self, curator: Curator, of: Regression) -> tuple[Array, list[Array]]:
        """Noisy sums of w x x', [d, d], symmetric, and of w t x for each kind of target t, [d] each."""
        # What the sensitivity's proof is about: features of the map, scalars within their ranges.
        weighted = of.x * np.clip(of.weights, self.least, 1.0)[:, None]
        targets = zip(of.targets, self.largest, strict=True)
        stacked = self.stacked(weighted.T @ of.x, [weighted.T @ np.clip(t, 0.0, most) for t, most in targets])
        said: dict[str, Any] = {"partition": of.partition, "claimed": self.claimed}
        released = curator.release(stacked, self.mechanism, label=", ".join(of.labels), **said)
        return self.unstacked(released)

    def stacked(self, gram: Array, vectors: Sequence[Array]) -> Array:
        """All coordinates in one vector: the matrix's diagonal, its entries above, then each vector [d].

        Entries above the diagonal are times sqrt 2, so that lengths are those of the Frobenius norm; each
        block is over its scale. [d (d + 1)/2 + n d] for n vectors.
        """
        above = math.sqrt(2.0) * gram[np.triu_indices(self.dimension, k=1)]
        blocks = [np.diagonal(gram) / self.gram_scale, above / self.gram_scale]
        blocks += [vector / scale for vector, scale in zip(vectors, self.vector_scales, strict=True)]
        return np.concatenate(blocks)

    def unstacked(self, coordinates: Array) -> tuple[Array, list[Array]]:
        """The matrix and the vectors that `stacked` made one of."""
        d = self.dimension
        size = d * (d + 1) // 2
        above = np.zeros((d, d))
        above[np.triu_indices(d, k=1)] = coordinates[d:size] / math.sqrt(2.0)
        gram = self.gram_scale * (np.diag(coordinates[:d]) + above + above.T)
        rows = coordinates[size:].reshape(-1, d)
        return gram, [scale * row for scale, row in zip(self.vector_scales, rows, strict=True)]


@dataclass(frozen=True)
class SeparateNoise:
    """A release of the Gram matrix and one of each vector."""

    gram: SymmetricGaussian  # of the matrix
    vectors: tuple[Gaussian, ...]  # of each vector
    claimed: ZCDP  # of each release
    norm: float | None  # the norm to which features are clipped; None where they are not
    largest: tuple[float, ...]  # as in `JointNoise`
    acute: bool  # whether no two public features are opposed

    @property
    def gram_sigma(self) -> float:
        """Standard deviation of the Gram matrix's noise."""
        return self.gram.sigma

    @property
    def vector_sigmas(self) -> tuple[float, ...]:
        """Standard deviation of each vector's noise."""
        return tuple(mechanism.sigma for mechanism in self.vectors)

    def release(self, curator: Curator, of: Regression) -> tuple[Array, list[Array]]:
        """As `JointNoise.release`."""
        said: dict[str, Any] = {"partition": of.partition, "claimed": self.claimed}
        weight = of.weights[:, None]
        rows, (label, *labels), norm = of.x * np.sqrt(weight), of.labels, self.norm
        if norm is None:
            gram = rows.T @ rows
            released = curator.release((gram + gram.T) / 2, self.gram, label=label, **said)
        else:
            released = curator.release_gram(rows, bound=norm, mechanism=self.gram, label=label, **said)

        def vector(target: Array, largest: float, mechanism: Gaussian, label: str) -> Array:
            rows = of.x * weight * target[:, None]
            if norm is None or largest == 0.0:
                return curator.release(rows.sum(axis=0), mechanism, label=label, **said)
            most, acute = norm * largest, self.acute
            return curator.release_sum(
                rows, bound=most, mechanism=mechanism, label=label, nonnegative=acute, **said
            )

        parts = zip(of.targets, self.largest, self.vectors, labels, strict=True)
        return released, [vector(*part) for part in parts]


RegressionNoise: TypeAlias = JointNoise | SeparateNoise


@dataclass(frozen=True)
class StepNoise:
    """What one step releases; `variance` is None where nothing is left to estimate."""

    variance: RegressionNoise | None
    value: RegressionNoise


@dataclass(frozen=True, eq=False)
class LinearCalibration:
    """The noise of all steps together."""

    name: CalibrationName  # which calibration
    rho: float  # the whole budget
    horizon: int  # H
    features: Array  # the rows of the public feature map, [S A, d]
    split: bool  # whether variances and values are estimated on different halves

    @cached_property
    def largest_norm(self) -> float:
        """The largest norm of a public feature."""
        return float(np.linalg.norm(self.features, axis=1).max())

    @property
    def norm(self) -> float:
        """R, the largest norm of a feature that the releases' sensitivities are for.

        As published 1, or a norm that rounding put above 1: sensitivities are that much larger then.
        """
        if self.name == "sound" or 1.0 < self.largest_norm <= 1.0 + CLAIM_TOLERANCE:
            return self.largest_norm
        return 1.0

    @cached_property
    def kinds(self) -> tuple[Array, NDArray[np.intp]]:
        """The distinct features, [n, d], and which of them each row of `features` is, [S A]."""
        distinct, kind = np.unique(self.features, axis=0, return_inverse=True)
        return distinct, kind.reshape(-1)

    @cached_property
    def moved(self) -> tuple[float, tuple[float, ...]]:
        """The sensitivity of a joint release for variances, and of one for values at each step."""
        if not 1e-70 < self.norm < 1e70:
            why = "how far a Gram matrix moves is computed from their fourth power"
            what, remedy = f"features of norm {self.norm:g}", "give features with a norm nearer to 1"
            raise InvalidParameter(what, where="features", why=why, remedy=remedy)
        features = self.kinds[0] / self.norm
        variances = variance_sensitivity(features, GRAM_SHARE)
        values = [
            # At the last step all weights are 1; and elsewhere no others move more if that is 1 or more.
            variances if least == 1.0 or variances >= 1.0 else value_sensitivity(features, GRAM_SHARE, least)
            for least in map(self.least_weight, range(self.horizon))
        ]
        return variances, tuple(values)

    def least_weight(self, h: int) -> float:
        """1/sigma^2 for the largest variance that lines 7 and 8 allow at step h, counted from 0."""
        return 1.0 / float(self.horizon - h) ** 2

    def step(self, h: int) -> StepNoise:
        """The noise at step h, counted from 0."""
        H, left = self.horizon, float(self.horizon - h - 1)  # the most that V_{h+1} can be
        moments, earned = (left**2, left), (left + 1.0,)
        if self.name == "as-published":
            return StepNoise(self._apart(moments, (2.0 * H**2, 2.0 * H)), self._apart(earned, (2.0 * H,)))
        rest = 5 * H - 3
        variance_share = 1 / max(H - 1, 1) if self.split else 3 / rest
        value_share = 1 / H if self.split else 2 / rest
        variances, values = self.moved
        value = self._joint(earned, self.rho * value_share, values[h], self.least_weight(h))
        variance = self._joint(moments, self.rho * variance_share, variances, 1.0) if left else None
        return StepNoise(variance, value)

    def _joint(self, largest: tuple[float, ...], rho: float, moved: float, least: float) -> JointNoise:
        share = (1.0 - GRAM_SHARE) / len(largest)
        return JointNoise(
            mechanism=Gaussian(sigma=zcdp_sigma(moved, rho), sensitivity=L2(moved, "proved")),
            claimed=ZCDP(rho=rho),
            dimension=self.features.shape[1],
            gram_scale=self.norm**2 / math.sqrt(GRAM_SHARE),
            vector_scales=tuple(self.norm * weight / math.sqrt(share) for weight in largest),
            largest=largest,
            least=least,
        )

    def _apart(self, largest: tuple[float, ...], published: tuple[float, ...]) -> SeparateNoise:
        rho, dimension = self.rho / (5 * self.horizon), self.features.shape[1]
        moved = Neighbouring.REPLACE_ONE.sum_sensitivity
        acute = bool((self.features >= 0.0).all())

        def vector(weight: float, published: float) -> Gaussian:
            # After the last step the sum is zero whatever the records say.
            basis: Basis = "declared" if weight else "proved"
            sensitivity = L2(moved(self.norm * weight, "l2", acute=acute), basis)
            return Gaussian(sigma=zcdp_sigma(published, rho), sensitivity=sensitivity)

        # Z_ij of variance 1/(4 rho0) in (Z + Z')/sqrt 2: sigma^2 = 1/(2 rho0)
        sigma, frobenius = zcdp_sigma(1.0, rho), Frobenius(moved(self.norm**2, "frobenius", acute=True))
        return SeparateNoise(
            gram=SymmetricGaussian(sigma=sigma, dimension=dimension, sensitivity=frobenius),
            vectors=tuple(map(vector, largest, published)),
            claimed=ZCDP(rho=rho),
            # The published algorithm does not clip longer features: what it assumes is all it rests on.
            norm=self.norm if self.largest_norm <= self.norm else None,
            largest=largest,
            acute=acute,
        )
