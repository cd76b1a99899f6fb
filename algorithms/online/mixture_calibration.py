"""How much noise a user of LDP-UCRL-VTR adds, and what it is believed to hide.

At step h a user sends the upper triangle of x x' + W, and x y + xi, where x = phi_V(s, a), y = V(s') and
V = V_{h+1}. Let rewards be at most R, so that V lies in [0, v] v = R (H - h), and let B be the largest
norm of phi_V for values in [0, 1]: then |x| <= B v and y <= v. Two trajectories with (x, y) and (z, w) at a
step, of norms p and q and with the cosine t between x and z, are apart by

    |x x' - z z'|_F^2 = p^4 + q^4 - 2 p^2 q^2 t^2             in the matrix,
    |x y - z w|^2     = p^2 y^2 + q^2 w^2 - 2 p q y w t       in the vector.

Alone, the matrix moves by 2 B^4 v^4 at most, and the vector by 2 B^2 v^4 where t >= 0, else 4 B^2 v^4.
Together their last terms add at most 2 v^2 s - 2 s^2 for s = -p q t <= B^2 v^2: v^4 / 2 at s = v^2 / 2, less
where B^2 < 1/2, and nothing where no two features are opposed. So the largest sum is

    (2 B^4 + 2 B^2 + 1/2) v^4, which is 4.5 v^4 for B = 1;   4 B^2 v^4 if B^2 < 1/2;
    (2 B^4 + 2 B^2) v^4 if t >= 0.

A triangle's norm is at most the Frobenius norm of the whole matrix. A trajectory has H steps, all of which
may differ: the squares add up over h.

``exact``: the whole message as one Gaussian release, with the least noise that meets (epsilon, delta) at this
sensitivity. ``published-noise``: the same release, accounted for in the same way, with the paper's noise
sigma = 4 H (R H)^2 sqrt(2 log(2.5 H / delta)) / epsilon. ``as-published``: the paper's noise and its
argument, 2 H releases with a share (epsilon / 2H, delta / 2H) each, triangles of sensitivity sqrt(2) (R H)^2
and vectors of 2 (R H)^2, for B = 1. ``experiment``: the same noise as section 6 argues for it, sensitivity 1.

Liao, C., He, J. and Gu, Q. (2023). Locally Differentially Private Reinforcement Learning for Linear Mixture
Markov Decision Processes. ACML. Algorithm 1, Lemma 3.8 and section 6.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.noise_calibration import sufficient_sigma
from dpaudit.algorithms.public_parameters import require_word
from dpaudit.claims.claims import Premise
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.sensitivity import L2
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Gaussian

MixtureCalibrationName: TypeAlias = Literal["exact", "published-noise", "as-published", "experiment"]

_SOURCE = "Liao, He and Gu (2023)"


@dataclass(frozen=True)
class MixtureCalibration:
    """The noise of one user's message.

    Attributes:
        name: which calibration.
        guarantee: (epsilon, delta), of the whole message.
        horizon: H.
        reward_bound: R, the largest reward.
        norm: B, the largest norm of phi_V for values in [0, 1].
        opposed: whether two features may have a negative inner product.

    Raises:
        InvalidParameter: an unknown calibration, or an epsilon of 0.
    """

    name: MixtureCalibrationName
    guarantee: ApproxDP
    horizon: int
    reward_bound: float
    norm: float
    opposed: bool

    def __post_init__(self) -> None:
        require_word(self.name, "calibration", get_args(MixtureCalibrationName))
        if self.guarantee.epsilon == 0.0:
            raise InvalidParameter(
                "epsilon = 0",
                where="guarantee",
                why="no finite noise gives it",
                remedy="give a positive epsilon",
            )

    @cached_property
    def sigma(self) -> float:
        """The standard deviation of every number of the message."""
        if self.name == "exact":
            return sufficient_sigma(self.guarantee, self.sensitivity)
        return published_sigma(self.guarantee, self.horizon, self.reward_bound)

    @property
    def sensitivity(self) -> float:
        """The largest L2 distance between two whole messages."""
        ranges = [self.reward_bound * left for left in range(self.horizon)]
        return message_sensitivity(self.norm, ranges, opposed=self.opposed)

    @property
    def vector_sensitivity(self) -> float:
        """The largest L2 distance between two x y of one step, V in [0, R H] as the paper bounds it."""
        span = self.reward_bound * self.horizon
        return (2.0 if self.opposed else math.sqrt(2.0)) * self.norm * span * span

    @cached_property
    def mechanisms(self) -> tuple[Gaussian, ...]:
        """Of the whole message, or of its triangles and of its vectors."""
        if self.name in {"exact", "published-noise"}:
            return (Gaussian(sigma=self.sigma, sensitivity=L2(self.sensitivity, "proved")),)
        span = self.reward_bound * self.horizon
        stated = (1.0, 1.0) if self.name == "experiment" else (math.sqrt(2.0) * span**2, 2.0 * span**2)
        return tuple(Gaussian(sigma=self.sigma, sensitivity=L2(value)) for value in stated)

    @property
    def premises(self) -> tuple[Premise, ...]:
        """What the calibration assumes of the features and the budget."""
        if self.name in {"exact", "published-noise"}:
            return ()
        share = Premise(
            name="epsilon of one release",
            left=self.guarantee.epsilon / (2 * self.horizon),
            relation="<",
            right=1.0,
            source=f"{_SOURCE}, Lemma 3.8",
        )
        if self.name == "experiment":
            stated = Premise(
                name="L2 sensitivity of u",
                left=self.vector_sensitivity,
                relation="<=",
                right=1.0,
                source=f"{_SOURCE}, section 6.2",
            )
            return share, stated
        norm = Premise(
            name="norm(phi_V(s, a)) for values in [0, 1]",
            left=self.norm,
            relation="<=",
            right=1.0,
            source=f"{_SOURCE}, (3.1)",
        )
        return share, norm

    def release(
        self, local: Curator, triangles: NDArray[np.float64], vectors: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lines 12 to 15: one user's message, with noise.

        Args:
            local: the user's own curator.
            triangles: [H, d (d + 1) / 2], the upper triangles of x x'.
            vectors: [H, d], x y.

        Returns:
            Both with noise.
        """
        width = triangles.shape[1]
        if len(self.mechanisms) == 1:
            whole = np.concatenate([triangles, vectors], axis=1)
            noisy = local.release(whole, self.mechanisms[0], label="message", claimed=self.guarantee)
            return noisy[:, :width], noisy[:, width:]
        half = ApproxDP(epsilon=self.guarantee.epsilon / 2, delta=self.guarantee.delta / 2)
        of_triangle, of_vector = self.mechanisms
        return (
            local.release(triangles, of_triangle, label="Lambda", count=self.horizon, claimed=half),
            local.release(vectors, of_vector, label="u", count=self.horizon, claimed=half),
        )


def message_sensitivity(norm: float, ranges: Sequence[float], *, opposed: bool) -> float:
    """The largest L2 distance between two users' messages.

    Args:
        norm: B.
        ranges: the largest value V_{h+1} of each step.
        opposed: whether two features may have a negative inner product.
    """
    square = norm * norm
    if not opposed:
        factor = 2.0 * square * square + 2.0 * square
    elif square < 0.5:
        factor = 4.0 * square
    else:
        factor = 2.0 * square * square + 2.0 * square + 0.5
    # What is computed from features in floating point may lie a few roundings beside the truth.
    return math.sqrt(factor * math.fsum(value**4 for value in ranges)) * (1.0 + 1e-12)


def published_sigma(guarantee: ApproxDP, horizon: int, reward_bound: float = 1.0) -> float:
    """4 H (R H)^2 sqrt(2 log(2.5 H / delta)) / epsilon: line 1, and section 6.2 for R = 1/H."""
    span = reward_bound * horizon
    logarithm = math.log(2.5 * horizon / guarantee.delta)
    return 4.0 * horizon * span * span * math.sqrt(2.0 * logarithm) / guarantee.epsilon
