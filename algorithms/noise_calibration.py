"""The least Gaussian noise of one release that meets a guarantee."""

import math

import scipy

from dpaudit.claims.guarantees import ApproxDP


def zcdp_sigma(sensitivity: float, rho: float) -> float:
    """Gaussian noise that makes a release of that sensitivity rho-zCDP (Bun and Steinke 2016, Prop. 1.6)."""
    return sensitivity / math.sqrt(2.0 * rho)


def sufficient_sigma(guarantee: ApproxDP, sensitivity: float) -> float:
    """The least noise that makes one Gaussian release (epsilon, delta)-DP, up to a part in 10^8.

    With mu = sensitivity / sigma it needs Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) <= delta
    (Balle and Wang 2018, Theorem 8). What a ledger proves of it is an accountant's own computation; the
    margin keeps this one on the right side of that.
    """
    epsilon, log_delta = guarantee.epsilon, math.log(guarantee.delta)

    def meets(mu: float) -> bool:
        first = float(scipy.special.log_ndtr(mu / 2 - epsilon / mu))
        second = epsilon + float(scipy.special.log_ndtr(-mu / 2 - epsilon / mu))
        # At equality rounding may put the second term above the first: delta is then 0 to this accuracy.
        return second >= first or first + math.log1p(-math.exp(second - first)) <= log_delta - 1e-9

    low, high = 0.0, 1.0
    while meets(high):
        low, high = high, 2.0 * high
    for _ in range(200):
        middle = (low + high) / 2.0
        low, high = (middle, high) if meets(middle) else (low, middle)
    return (sensitivity / low) * (1.0 + 1e-9)
