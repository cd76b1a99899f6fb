"""How much Gaussian noise a smooth bound on the local sensitivity asks for: alpha and beta.

``lemma`` is Lemma 1 of Balle, Gomrokchi and Precup (2016), as their algorithms have it. ``exact`` keeps
the lemma's beta and takes the least alpha at which the worst pair of Gaussians meets (epsilon, delta):
6 to 40 times less noise. Neither is believed: the ledger holds alpha and beta, and accounting proves what
they give.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias

from dpaudit.claims.claims import Claim, Premise
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import SmoothGaussian
from dpaudit.mechanisms.smooth import lemma_loss, lemma_parameters

CalibrationName: TypeAlias = Literal["lemma", "exact"]

#: By so much the least alpha is raised, so that accounting, which rounds up, proves it.
_MARGIN = 4e-5


@dataclass(frozen=True)
class SmoothCalibration:
    """The noise of one smooth release.

    Args:
        name: ``lemma`` or ``exact``.
        guarantee: epsilon > 0 and delta in (0, 1).
        dimension: d.

    Raises:
        InvalidParameter: an unknown calibration, or a target that no Gaussian noise can meet.
    """

    name: CalibrationName
    guarantee: ApproxDP
    dimension: int

    def __post_init__(self) -> None:
        if self.name not in {"lemma", "exact"}:
            raise InvalidParameter(
                f"calibration {self.name!r}", where="calibration", remedy="give lemma or exact"
            )
        lemma_parameters(*self._target)  # refuses an epsilon or delta of 0

    @cached_property
    def mechanism(self) -> SmoothGaussian:
        """What stands in the ledger: public numbers alone, never the scale that the data chose."""
        epsilon, delta, dimension = self._target
        alpha, beta = lemma_parameters(epsilon, delta, dimension)
        if self.name == "exact":
            alpha = least_alpha(epsilon, delta, dimension, beta)
        return SmoothGaussian(alpha=alpha, beta=beta, dimension=dimension, epsilon=epsilon, delta=delta)

    def claim(self, *premises: Premise) -> Claim:
        """(epsilon, delta)-DP for a trajectory, and with ``lemma`` the range in which the lemma is proved."""
        noise = self.mechanism
        if self.name == "lemma":
            proved = Premise(
                name="largest loss outside probability delta",
                left=min(lemma_loss(noise.alpha, noise.beta, noise.dimension, noise.delta), 1e300),
                relation="<=",
                right=noise.epsilon,
                source="Balle, Gomrokchi and Precup (2016), Lemma 1, whose proof needs it",
            )
            premises = (*premises, proved)
        return Claim(
            self.guarantee,
            unit="trajectory",
            neighbouring=Neighbouring.REPLACE_ONE,
            trust_model=TrustModel.CENTRAL,
            premises=premises,
        )

    @property
    def _target(self) -> tuple[float, float, int]:
        return self.guarantee.epsilon, self.guarantee.delta, self.dimension


@lru_cache(maxsize=256)
def least_alpha(epsilon: float, delta: float, dimension: int, beta: float) -> float:
    """The least alpha at which the worst pair meets (epsilon, delta), raised by `_MARGIN`.

    The worst pair has the larger variance first, by e^beta, and means apart by the smaller scale over
    alpha.

    Args:
        epsilon: positive, nats.
        delta: in (0, 1).
        dimension: d.
        beta: positive, the change of the log variance.

    Raises:
        InvalidParameter: with this beta no alpha does: the change of scale alone shows too much.
    """
    from scipy.optimize import brentq

    def excess(log_alpha: float) -> float:
        return worst_delta(epsilon, math.exp(log_alpha), dimension, beta) - delta

    low, high = -1.0, 0.0
    while excess(low) <= 0.0:  # towards alpha = 0 everything shows, and delta is 1
        low -= 1.0
    while excess(high) > 0.0:
        high += 1.0
        if high > 40.0:
            raise InvalidParameter(
                f"beta = {beta} for ({epsilon}, {delta}) in {dimension} dimensions",
                where="the exact calibration",
                why="a change of the noise's variance by e^beta alone shows more than that",
                remedy="give a smaller beta",
            )
    return float(math.exp(brentq(excess, low, high, xtol=1e-9))) * (1.0 + _MARGIN)


def worst_delta(epsilon: float, alpha: float, dimension: int, beta: float) -> float:
    """delta(epsilon) of N(q, e^beta I) against N(0, I), |q| = 1/alpha, in floating point.

    Their log ratio exceeds epsilon outside a ball around -q/k, k = e^beta - 1, of squared radius

        (1 + k) (2 (epsilon + (d/2) log(1 + k))/k + |q|^2/k^2),

    and the squared distance from its centre is noncentral chi-square on either side.
    """
    from scipy.stats import ncx2

    growth = math.exp(beta)
    k, squared_shift = math.expm1(beta), alpha**-2.0
    squared_radius = growth * (2.0 * (epsilon + 0.5 * dimension * beta) / k + squared_shift / (k * k))
    first = ncx2.sf(squared_radius / growth, dimension, squared_shift * growth / (k * k))
    second = ncx2.sf(squared_radius, dimension, squared_shift / (k * k))
    delta = float(first - math.exp(epsilon) * second) if second > 0.0 else float(first)
    return 1.0 if math.isnan(delta) else delta  # so far apart that the distribution overflows
