"""The exact privacy loss of a pair, from replays: what the claim says of it, and bounds on epsilon.

The loss of a transcript is L = sum over releases of ln p(output | query on the data) / p(output | query on
the neighbour), and delta(epsilon) of the pair is E[(1 - e^(epsilon - L))_+] over recordings on the data.
A bound on the transcript's loss is a bound for the pair, never more than that.

Every claim says of some f(recording) >= 0 that E[f] <= 1. With importance weights w, for recordings drawn
otherwise: w (1 - e^(epsilon - L))_+ / delta for a point (epsilon, delta), w e^((alpha - 1) (L - alpha rho))
for zCDP (Bun and Steinke 2016, Definition 1.1). Then the product of 1 + c (f - 1) over independent
recordings, averaged over several stakes c in (0, 1), is an e-value: by Markov's inequality it passes 1/a
with probability at most a if the claim is true (Waudby-Smith and Ramdas 2024, section 4; that f is
bounded from below alone suffices for one side). It holds for any number of recordings, and no variance
has to be known. Epsilons at one delta are rejected up to some point and no further, since f falls with
epsilon: inverting the test gives the bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from dpaudit.auditors.statistics.gaussian_pair import LARGEST_EPSILON, delta_above, epsilon_below
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.mechanisms import Array

#: Where a bound on epsilon is stated if the claim names no delta.
DEFAULT_DELTA = 1e-5
#: A loss is a difference of large numbers: it is taken to be less than computed by this, relative.
_LOSS_MARGIN = 1e-9
_STAKES = np.concatenate([np.geomspace(1e-3, 0.1, 6), np.linspace(0.15, 0.95, 17), [0.98, 0.995]])


@dataclass(frozen=True)
class Losses:
    """The losses of recordings on one side of a pair.

    Attributes:
        losses: [n]; infinite where the output is impossible on the other side.
        log_weights: [n], importance weights; zeros for recordings drawn as the mechanisms draw.
        order: a Renyi order at which the recordings say much, above 1.
    """

    losses: Array
    log_weights: Array
    order: float = 2.0

    def __post_init__(self) -> None:
        lowered = self.losses - _LOSS_MARGIN * (1.0 + np.abs(np.minimum(self.losses, 1e300)))
        object.__setattr__(self, "losses", lowered)
        object.__setattr__(self, "log_weights", self.log_weights - _LOSS_MARGIN)

    def epsilon_lower(self, delta: float, error: float) -> float:
        """A lower bound on the pair's epsilon at `delta`, wrong with probability at most `error`.

        At delta = 0 it cannot be wrong: a loss that was seen has positive probability.
        """
        if delta == 0.0:
            return min(LARGEST_EPSILON, max(0.0, float(self.losses.max(initial=0.0))))
        needed = math.log(1.0 / error)

        def rejected(epsilon: float) -> bool:
            return _log_evidence([self._point(epsilon, delta)]) >= needed

        if not rejected(0.0):
            return 0.0
        low, high = 0.0, 1.0
        while rejected(high):
            low, high = high, 2.0 * high
            if high > LARGEST_EPSILON:
                return low
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if rejected(middle) else (low, middle)
        return low

    def p_value(self, guarantee: AnyGuarantee) -> float:
        """Of the hypothesis that the guarantee holds for this side of the pair."""
        if isinstance(guarantee, PureDP):
            return 0.0 if self.epsilon_lower(0.0, 0.5) > guarantee.epsilon else 1.0
        return float(np.exp(min(0.0, -_log_evidence(self._functionals(guarantee)))))

    def _functionals(self, guarantee: AnyGuarantee) -> list[Array]:
        """log f of each recording, for every f that is tried: [n] each."""
        match guarantee:
            case ApproxDP():
                return [self._point(guarantee.epsilon, guarantee.delta)]
            case GDP():
                curve = [
                    (epsilon, delta_above(epsilon, guarantee.mu))
                    for epsilon in self._epsilons_of(guarantee.mu)
                ]
                return [self._point(epsilon, delta) for epsilon, delta in curve if delta > 0.0]
            case ZCDP():
                orders = [1.0 + share * (self.order - 1.0) for share in (0.1, 0.25, 0.5, 1.0)]
                return [self._moment(order, guarantee.rho * order) for order in orders]
            case RDP():
                return [self._moment(guarantee.alpha, guarantee.epsilon)]
            case PureDP():
                raise AssertionError
        raise AssertionError

    @staticmethod
    def _epsilons_of(mu: float) -> list[float]:
        return [epsilon_below(delta, mu) for delta in (0.1, 1e-3, DEFAULT_DELTA)] if mu > 0.0 else [0.0]

    def _point(self, epsilon: float, delta: float) -> Array:
        with np.errstate(divide="ignore"):
            excess = np.log(-np.expm1(np.minimum(epsilon - self.losses, 0.0)))
        return np.asarray(self.log_weights + excess - math.log(delta))

    def _moment(self, order: float, divergence: float) -> Array:
        return np.asarray(self.log_weights + (order - 1.0) * (self.losses - divergence))


def _log_evidence(functionals: Sequence[Array]) -> float:
    """Log of the e-value against E[f] <= 1 for all of some f, given log f of each recording."""
    if not functionals:
        return -math.inf
    table = np.stack(functionals)[:, None, :]  # [f, 1, n]
    stakes = _STAKES[None, :, None]
    wealth = np.logaddexp(np.log1p(-stakes), np.log(stakes) + table).sum(axis=-1)  # [f, stakes]
    return float(logsumexp(wealth)) - math.log(wealth.size)
