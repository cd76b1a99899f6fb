"""Conversions: zCDP and Renyi DP to (epsilon, delta); pure DP and Laplace to zCDP and GDP.

All results are upper bounds. Every conversion from a divergence holds for any order alpha, so only the
evaluation at the chosen order must be rounded up, not the search for it. Each result is raised by a multiple
of u = 2^-53 times the sum of the magnitudes of its terms: each term takes fewer than ten roundings and calls
of log1p, expm1 or tanh (4 u each), and `ROUNDING` = 32 u covers them. Rigour: `float-pessimistic`.

Epsilon is in nats. rho, epsilon and divergences are in [0, inf), delta in (0, 1); other arguments raise
`InvalidParameter`. A result past the largest float raises `CannotBound`.
"""

import math
from collections.abc import Callable

import scipy

from dpaudit.accountants.closed_forms.ranges import above_one, nonnegative, probability
from dpaudit.errors import CannotBound

ROUNDING = 32.0 * 2.0**-53
UNDERFLOW = 1e-320  # covers the loss of a few operations among the least doubles


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the least epsilon that follows from rho-zCDP alone at `delta`, at the best order.

    Source: Canonne, Kamath and Steinke 2020, Proposition 12, at the Renyi divergence rho alpha of each order
    (Bun and Steinke 2016, Definition 1.1), minimised over real alpha > 1.

    >>> round(zcdp_epsilon(0.5, 1e-6), 5)
    5.22153
    """
    rho, delta = nonnegative("rho", rho), probability("delta", delta)
    if rho == 0.0:
        return 0.0
    target = -math.log(delta)
    # With t = alpha - 1 the bound rho (1 + t) + (log 1/delta - log(1 + t)) / t - log(1 + 1/t) has the
    # derivative rho + (log(1 + t) - log 1/delta) / t^2. Its only minimum is where
    # rho t^2 + log(1 + t) = log 1/delta.
    order = _increasing_root(lambda t: rho * t * t + math.log1p(t) - target)
    return renyi_epsilon(order, rho, rho * order, target)


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Return the least delta that follows from rho-zCDP alone at `epsilon`, at the best order.

    It is 0 only for rho = 0.

    Source: Canonne, Kamath and Steinke 2020, Proposition 12, minimised over real alpha > 1.
    """
    rho, epsilon = nonnegative("rho", rho), nonnegative("epsilon", epsilon)
    if rho == 0.0:
        return 0.0
    # log delta = t (rho (1 + t) - epsilon) - t log(1 + 1/t) - log(1 + t) is convex in t = alpha - 1, with the
    # derivative rho (1 + 2 t) - epsilon - log(1 + 1/t), which increases from minus infinity.
    t = _increasing_root(lambda t: (rho - epsilon) + 2.0 * rho * t - math.log1p(1.0 / t))
    terms = (t * (rho - epsilon), rho * t * t, -t * math.log1p(1.0 / t), -math.log1p(t))
    logarithm = sum(terms) + ROUNDING * sum(abs(term) for term in terms)
    if not logarithm < 0.0:  # also where an extreme order overflowed to NaN
        return 1.0
    return min(1.0, math.nextafter(math.exp(logarithm) * (1.0 + ROUNDING), math.inf))


def bun_steinke_epsilon(rho: float, delta: float) -> float:
    """Return epsilon by the first published zCDP conversion, rho + 2 sqrt(rho log 1/delta); for comparison.

    Source: Bun and Steinke 2016, Proposition 1.3.
    """
    rho, delta = nonnegative("rho", rho), probability("delta", delta)
    return _finite((rho + 2.0 * math.sqrt(rho) * math.sqrt(-math.log(delta))) * (1.0 + ROUNDING))


def rdp_epsilon(alpha: float, rdp: float, delta: float) -> float:
    """Return epsilon that (alpha, rdp)-Renyi DP implies at `delta`; rdp is in nats, alpha in (1, inf).

    Source: Canonne, Kamath and Steinke 2020, Proposition 12.
    """
    alpha, rdp, delta = above_one("alpha", alpha), nonnegative("rdp", rdp), probability("delta", delta)
    if rdp == 0.0:  # the divergence is zero only between equal distributions
        return 0.0
    return renyi_epsilon(alpha - 1.0, rdp, 0.0, -math.log(delta))


def rdp_delta(alpha: float, rdp: float, epsilon: float) -> float:
    """Return delta that (alpha, rdp)-Renyi DP implies at `epsilon`: `rdp_epsilon`, solved for delta."""
    alpha, rdp = above_one("alpha", alpha), nonnegative("rdp", rdp)
    t = alpha - 1.0
    terms = (t * rdp, -t * nonnegative("epsilon", epsilon), t * math.log1p(-1.0 / alpha), -math.log(alpha))
    logarithm = sum(terms) + ROUNDING * sum(map(abs, terms))
    if not logarithm < 0.0:
        return 1.0
    return min(1.0, math.nextafter(math.exp(logarithm) * (1.0 + ROUNDING), 2.0))


def response_epsilon(pure: float, delta: float) -> float:
    """Return epsilon that pure DP implies at `delta`, by the curve of randomized response.

    Source: Kairouz, Oh and Viswanath 2015: log(e^pure - delta (1 + e^pure)), written as pure + log1p(...).
    """
    inside = probability("delta", delta) * (1.0 + math.exp(-pure)) * (1.0 - 1e-15)
    if inside >= 1.0:
        return 0.0
    return min(pure, max(0.0, (pure + math.log1p(-inside)) + 1e-15 * (1.0 + pure)))


def response_delta(pure: float, epsilon: float) -> float:
    """Return delta from pure DP at `epsilon`: (1 - e^(epsilon - pure)) / (1 + e^-pure), or 0 above `pure`."""
    if nonnegative("epsilon", epsilon) >= pure:
        return 0.0
    gap = (pure - epsilon) * (1.0 + 1e-15)
    return min(1.0, math.nextafter(-math.expm1(-gap) / (1.0 + math.exp(-pure)) * (1.0 + 1e-14), math.inf))


def pure_to_zcdp(epsilon: float) -> float:
    """Return the least rho such that every epsilon-DP mechanism is rho-zCDP: epsilon tanh(epsilon / 2).

    Except for rounding it is at most epsilon^2 / 2. Randomized response reaches it.
    Source: sharper than epsilon^2 / 2 (Bun and Steinke 2016, Proposition 1.4). Proof: every epsilon-DP pair
    is a post-processing of randomized response (Kairouz, Oh and Viswanath 2015), whose log moment is log
    cosh(epsilon sqrt w) - log cosh(epsilon / 2) with w = (alpha - 1/2)^2. It is concave in w and vanishes at
    w = 1/4, so over w - 1/4 = alpha (alpha - 1) it is at most its slope there.
    """
    epsilon = nonnegative("epsilon", epsilon)
    return _finite(_up(epsilon * math.tanh(0.5 * epsilon)) if epsilon > 0.0 else 0.0)


def laplace_to_zcdp(epsilon: float) -> float:
    """Return the least rho of a Laplace release with sensitivity / scale = epsilon: epsilon + e^-epsilon - 1.

    That is the Kullback-Leibler divergence of the worst pair. The bound holds for vectors too: it is convex
    and 0 at 0, so an L1 sensitivity spread over coordinates costs at most as much as in one coordinate.
    Source: Harrison and Manurangsi 2025 (conjectured by Wang 2022). A short proof: with w = (alpha - 1/2)^2
    the moment (Mironov 2017, Table II) is e^(-epsilon/2) [cosh(epsilon sqrt w) + sinh(epsilon sqrt w) / (2
    sqrt w)], an entire function of w of order 1/2. Its zeros are minus the eigenvalues of -y'' = lambda y,
    y'(0) = y(0)/2, y(epsilon) = 0, hence real and negative, so its logarithm is concave for w > 0 (Hadamard's
    product); it vanishes at w = 1/4 and has this slope there.
    """
    epsilon = nonnegative("epsilon", epsilon)
    if epsilon == 0.0:
        return 0.0
    if epsilon >= 1.0:  # e^-epsilon - 1 cancels at most two thirds of epsilon: 5 times the rounding
        return _finite(_up(epsilon + math.expm1(-epsilon)))
    # The Taylor series alternates and its terms fall: cut after a positive term (18), it exceeds its limit.
    series = 0.0
    for order in range(18, 2, -1):
        series = (1.0 - series) * epsilon / order  # Horner: 1 - epsilon/3 (1 - ...), inside out
    return _up(0.5 * epsilon * epsilon * (1.0 - series))


def pure_to_gdp(epsilon: float) -> float:
    """Return the least mu such that every epsilon-DP mechanism is mu-GDP: -2 Phi^-1(1 / (1 + e^epsilon)).

    The evaluation is accurate to 1e-14 and raised by 1e-13, relative. Source: Dong, Roth and Su 2022: the
    trade-off curve of epsilon-DP is two chords that meet on the diagonal at type I error 1 / (1 + e^epsilon)
    (their Proposition 2.4). The curve of mu-GDP is convex and passes through their three ends, so it lies
    below.
    """
    epsilon = nonnegative("epsilon", epsilon)
    if epsilon == 0.0:
        return 0.0
    if epsilon < 1e-150:  # linear far beyond 1e-13; avoids digits lost to underflow
        return math.nextafter(math.sqrt(0.5 * math.pi) * epsilon * (1.0 + 1e-13), math.inf)
    if epsilon < 1.0:
        # -Phi^-1(1/2 - h/2) = sqrt 2 erfinv(h) with h = tanh(epsilon / 2): no cancellation near 1/2.
        half = math.sqrt(2.0) * float(scipy.special.erfinv(math.tanh(0.5 * epsilon)))
        return math.nextafter(2.0 * half * (1.0 + 1e-13), math.inf)
    # log Phi(-z) = -z^2/2 + log(erfcx(z / sqrt 2) / 2); two Newton steps polish scipy's quantile. The slope
    # of the logarithm is at least max(z, 0.8), so its rounding, 8 u (1 + epsilon), moves z by less than 30 u
    # relative.
    logarithm = -(epsilon + math.log1p(math.exp(-epsilon)))
    z = -float(scipy.special.ndtri_exp(logarithm))
    for _ in range(2):
        scaled = 0.5 * float(scipy.special.erfcx(z / math.sqrt(2.0)))
        z += (math.log(scaled) - 0.5 * z * z - logarithm) * scaled * math.sqrt(2.0 * math.pi)
    return 2.0 * z * (1.0 + 1e-13)


def renyi_epsilon(t: float, base: float, rest: float, target: float) -> float:
    """Evaluate Proposition 12 at order 1 + t: divergence base + rest, both >= 0; target = log(1 / delta)."""
    terms = (base, rest, target / t, -math.log1p(t) / t, -math.log1p(1.0 / t))
    bound = sum(terms) + ROUNDING * sum(abs(term) for term in terms)
    # A negative epsilon with this delta implies epsilon = 0 with it.
    return max(0.0, _finite(bound))


def _increasing_root(function: Callable[[float], float]) -> float:
    """Return approximately where an increasing function on (0, inf) crosses zero, by logarithmic bisection.

    Any positive number is a sound answer for the callers; a close one makes the bound tight.
    """
    low, high = -350.0, 350.0  # powers of two, so that t^2 neither overflows nor underflows
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if function(2.0**middle) < 0.0 else (low, middle)
    return float(2.0**high)


def _up(value: float) -> float:
    return math.nextafter(value * (1.0 + ROUNDING), math.inf)


def _finite(bound: float) -> float:
    if not math.isfinite(bound):
        raise CannotBound("the bound is past the largest float")
    return bound
