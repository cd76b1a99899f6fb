"""Theorem 5 of Wang and Hegde (2019): its formulas as printed, and the premises that they need.

    v = 4 alpha (k + 1) / B,  1/beta = v,  C = (v^2 + v) L^2,
    sigma >= sqrt(2 (T/B) log(e + epsilon/delta) C) / epsilon,  2 k > 8.68 sqrt(beta) sigma

make the algorithm (epsilon, delta + J exp(-(2 k - 8.68 sqrt(beta) sigma)^2 / 2))-DP. Appendix E.3 gives half
of the delta to each summand. Its own parameters, the defaults here, meet neither inequality.

The exponent wants a sigma^2 (Borell and Tsirelson): P(max g >= 8.68 sqrt(beta) sigma + u) is at most
exp(-u^2 / (2 sigma^2)), and for sigma > 1 not at most exp(-u^2 / 2), as Lemma 8 prints it.

Wang, B. and Hegde, N. (2019). Privacy-preserving Q-Learning with Functional Noise in Continuous Spaces.
NeurIPS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from dpaudit.algorithms.online.value_targeted import require_positive
from dpaudit.claims.claims import Premise
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.sensitivity import RKHS
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import ExponentialKernel, GaussianProcess

SOURCE = "Wang and Hegde (2019)"

#: Of Lemma 8, times sqrt(beta) sigma: a bound on the expectation of a path's maximum.
MAXIMUM = 8.68


@dataclass(frozen=True)
class FunctionalCalibration:
    """The published noise and its argument; the defaults are those of appendix E.3.

    Attributes:
        guarantee: (epsilon, delta), delta for both summands together.
        sigma: the noise that is used.
        step_size: alpha.
        samples: T.
        batch: B.
        k: half the bound that a path's values are believed to keep.
        lipschitz_squared: L^2, of the network.

    Raises:
        InvalidParameter: numbers out of range.
    """

    guarantee: ApproxDP = field(default_factory=lambda: ApproxDP(epsilon=0.9, delta=1e-4))
    sigma: float = 0.32
    step_size: float = 3e-4
    samples: int = 5000
    batch: int = 64
    k: float = 2.3
    lipschitz_squared: float = 16.0

    def __post_init__(self) -> None:
        for name in ("sigma", "step_size", "k", "lipschitz_squared"):
            require_positive(getattr(self, name), name)
        if not 1 <= self.batch <= self.samples:
            raise InvalidParameter(
                f"batch {self.batch} of {self.samples} samples",
                where="batch",
                remedy="give whole numbers, 1 <= batch <= samples",
            )
        require_positive(self.guarantee.epsilon, "epsilon")

    @property
    def updates(self) -> int:
        """Whole batches, of which each makes one update."""
        return self.samples // self.batch

    @property
    def bound(self) -> float:
        """v: what one update is believed to change the values by, over L, at most."""
        return 4.0 * self.step_size * (self.k + 1.0) / self.batch

    @property
    def beta(self) -> float:
        """Of the kernel."""
        return 1.0 / self.bound

    @property
    def squared_sensitivity(self) -> float:
        """C: the square of the RKHS distance that one update is believed to make."""
        return (self.bound**2 + self.bound) * self.lipschitz_squared

    @property
    def stated_sigma(self) -> float:
        """What the theorem asks for, at half of the delta."""
        epsilon, delta = self.guarantee.epsilon, self.guarantee.delta / 2.0
        times = 2.0 * (self.samples / self.batch) * math.log(math.e + epsilon / delta)
        return math.sqrt(times * self.squared_sensitivity) / epsilon

    @property
    def premises(self) -> tuple[Premise, ...]:
        """The theorem's two inequalities."""
        return (
            Premise(
                name="2k above 8.68 sqrt(beta) sigma",
                left=2.0 * self.k,
                relation=">",
                right=MAXIMUM * math.sqrt(self.beta) * self.sigma,
                source=f"{SOURCE}, Theorem 5",
            ),
            Premise(
                name="sigma at least what the formula gives",
                left=self.sigma,
                relation=">=",
                right=self.stated_sigma,
                source=f"{SOURCE}, Theorem 5",
            ),
        )

    @property
    def mechanism(self) -> GaussianProcess:
        """The noise of one update, with the sensitivity that the paper's proof arrives at."""
        return GaussianProcess(
            sigma=self.sigma,
            kernel=ExponentialKernel(beta=self.beta),
            sensitivity=RKHS(math.sqrt(self.squared_sensitivity)),
        )


def path_tail(level: float, sigma: float, beta: float) -> float:
    """A bound on P(max over [0, 1] of a path >= level): Lemma 8 with the sigma^2 that its exponent lacks."""
    excess = level - MAXIMUM * math.sqrt(beta) * sigma
    return math.exp(-excess * excess / (2.0 * sigma * sigma)) if excess > 0.0 else 1.0
