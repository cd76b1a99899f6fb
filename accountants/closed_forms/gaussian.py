"""The exact privacy curve of the Gaussian mechanism, rounded to the safe side.

A Gaussian release with noise sigma and L2 sensitivity Delta is mu-GDP, mu = Delta / sigma, with the curve

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)

(Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Corollary 2.13). In this form it cancels, overflows
and underflows. With x = epsilon/mu - mu/2, phi the normal density and R(t) = Phi(-t)/phi(t) Mills' ratio it
is

    delta = phi(x) [R(x) - R(x + mu)] = phi(x) * integral over s > 0 of e^(-x s - s^2/2) (1 - e^(-mu s)) ds,

which has one of three forms without cancellation (`_point`). Several releases compose to one: their mu^2 add.

Error analysis, in units of u = 2^-53. Assumptions about the platform: exp, expm1, log and log1p are within 4
u on scalars and 8 u in numpy, erfc within 8 u, so `_erfcx` is within 16 u (measured: 5 u). Every delta below
is then within 90 u = 1e-14, relative, of the truth, or of 1 - delta where the complement is computed
(measured: 12 u). `INFLATION` is twice that. Rigour: `float-pessimistic`.

Epsilon is in nats, in [0, inf), delta in (0, 1), mu = sensitivity / sigma in [0, 1e15]. Other arguments raise
`InvalidParameter`; a larger mu raises `CannotBound`.
"""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from dpaudit.accountants.closed_forms.ranges import nonnegative, probability
from dpaudit.accountants.closed_forms.rounding import exact_product, exact_sum
from dpaudit.errors import CannotBound

INFLATION = 2e-14
LOG_INFLATION = 1e-15  # relative, for the few roundings of a logarithm itself
LARGEST_MU = 1e15  # far above practical values; mu^2 and its error term cannot overflow
SMALLEST_MU = 1e-200  # below it products of mu would leave the normal range; see gaussian_delta
SQRT_2PI = math.sqrt(2.0 * math.pi)
_QUANTILE = NormalDist().inv_cdf

# Trapezoid rule for the integral after s = e^v / (1 + x). The integrand is analytic for |Im v| < pi/4, and on
# Im v = d its modulus integrates to at most 1/(cos d cos 2d) times the integral itself when x >= 0 (|1 -
# e^-z| <= (1 - e^-Re z) |z| / Re z, then rescale s by sqrt(cos 2d)), and to at most 7 times that when -1/3 <=
# x < 0. With d = 0.7 and step 0.1 the rule is off by 2 * 7.7 * 7 / (e^(2 pi d / step) - 1) < 1e-17, relative.
# The terms left out are below e^-40 on the left and 49^2 e^-49 on the right, relative to an integral of at
# least 0.3: again 1e-17.
STEP = 0.1
NODES = np.exp(np.arange(-200, 40) * STEP)  # [240]


class _Point(NamedTuple):
    """delta (or 1 - delta, if `complement`) = exp(exponent + correction) * factor, to nearest."""

    exponent: float
    correction: float
    factor: float
    complement: bool

    def value(self, inflation: float) -> float:
        """Return the value times 1 + inflation: as a bound, it still needs one step to the next float."""
        # Two halves, so that only the last product underflows: relative accuracy holds down to 2.2e-308, and
        # below that the absolute error is under 5e-324. A correction matters only where the exponential is
        # not zero; there it is below 1e-12, so its square is below u.
        half = math.exp(0.5 * self.exponent)
        factor = self.factor * (1.0 + self.correction) * (1.0 + inflation)
        return half * factor * half if half > 0.0 else 0.0


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return an upper bound on delta of the mu-GDP Gaussian at `epsilon`, within 1e-13 relative.

    The absolute error is at most 5e-324 where delta is subnormal. The bound is 0 only for mu = 0. Source:
    Balle and Wang 2018, Theorem 8.

    >>> f"{gaussian_delta(4.886554117462212, 1.0):.9e}"
    '1.000000000e-06'
    """
    epsilon, mu = nonnegative("epsilon", epsilon), _checked_mu(mu)
    if mu < SMALLEST_MU:
        # delta grows with mu, and is at most delta(0) = erf(mu / sqrt 8) <= mu / sqrt(2 pi).
        at_zero = math.nextafter(mu * (1.0 + INFLATION) / SQRT_2PI, math.inf)
        return 0.0 if mu == 0.0 else min(at_zero, gaussian_delta(epsilon, SMALLEST_MU))
    point = _point(epsilon, mu)
    if point.complement:
        return min(1.0, math.nextafter(1.0 - point.value(-INFLATION), math.inf))
    return min(1.0, math.nextafter(point.value(INFLATION), math.inf))


def gaussian_log_delta(epsilon: float, mu: float) -> float:
    """Return an upper bound on log delta of the mu-GDP Gaussian at `epsilon`, even if delta underflows.

    It is within 1e-13 + 2e-15 |log delta| of the truth for mu >= 1e-200 and epsilon <= 1e20 mu. It is minus
    infinity only for mu = 0.
    """
    epsilon, mu = nonnegative("epsilon", epsilon), _checked_mu(mu)
    if mu == 0.0:
        return -math.inf
    return _log_delta(_point(epsilon, max(mu, SMALLEST_MU)))  # delta grows with mu


def gaussian_epsilon(delta: float, mu: float) -> float:
    """Return an upper bound on epsilon of the mu-GDP Gaussian: `gaussian_delta` there is at most delta.

    The answer for a subnormal delta is sound but coarse.

    >>> f"{gaussian_epsilon(1e-6, 1.0):.9f}"
    '4.886554117'
    """
    delta, mu = probability("delta", delta), _checked_mu(mu)
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    mu = max(mu, SMALLEST_MU)
    # delta(epsilon) <= Phi(-x), so x = -Phi^-1(delta) is enough. The factor covers the quantile's own
    # rounding, and the loop verifies the bracket.
    enough = max(0.5 * mu * mu - mu * _QUANTILE(delta), mu) * (1.0 + 1e-9)
    while gaussian_delta(enough, mu) > delta:
        enough *= 2.0

    def log_delta_and_slope(epsilon: float) -> tuple[float, float]:
        point = _point(epsilon, mu)
        # d delta / d epsilon = -e^epsilon Phi(-y) = -phi(x) R(y), with y = x + mu.
        return _log_delta(point), -_density_over_delta(point) * _mills(epsilon / mu + 0.5 * mu)

    return _nearest_safe(log_delta_and_slope, lambda e: gaussian_delta(e, mu) <= delta, delta, enough, 0.0)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return a lower bound on the largest mu that meets (epsilon, delta); sigma is then sensitivity / mu.

    `gaussian_delta(epsilon, mu)` <= delta there. The division sensitivity / mu rounds, so round it up.
    Source: Balle and Wang 2018, section 3 (the analytic Gaussian mechanism), without their bisection's
    cancellation.

    >>> f"{1.0 / gaussian_mu(1.0, 1e-6):.9f}"
    '4.224678889'
    """
    delta = probability("delta", delta)
    epsilon = min(nonnegative("epsilon", epsilon), 1e29)  # above: a smaller mu than necessary, still sound
    # Two values of mu that always suffice: delta(epsilon) <= delta(0) <= mu / sqrt(2 pi), and delta <=
    # Phi(-x).
    flat = SQRT_2PI * delta * (1.0 - 1e-13)
    quantile = -_QUANTILE(delta)
    root = math.hypot(quantile, math.sqrt(2.0 * epsilon))
    tail = 2.0 * epsilon / (quantile + root) if quantile > 0.0 else root - quantile
    safe = max(flat, tail * (1.0 - 1e-9))
    if safe < SMALLEST_MU:
        if gaussian_delta(epsilon, SMALLEST_MU) > delta:
            return math.nextafter(flat, 0.0)
        safe = SMALLEST_MU
    while gaussian_delta(epsilon, safe) > delta:
        safe *= 0.5
    unsafe = 2.0 * safe
    while gaussian_delta(epsilon, unsafe) <= delta:
        safe, unsafe = unsafe, 2.0 * unsafe

    def log_delta_and_slope(mu: float) -> tuple[float, float]:
        point = _point(epsilon, mu)
        return _log_delta(point), _density_over_delta(point)  # d delta / d mu = phi(x)

    return _nearest_safe(
        log_delta_and_slope, lambda m: gaussian_delta(epsilon, m) <= delta, delta, safe, unsafe
    )


def _checked_mu(mu: float) -> float:
    mu = nonnegative("mu", mu)
    if mu > LARGEST_MU:
        raise CannotBound(f"mu = {mu!r} exceeds {LARGEST_MU:g}", where="mu", remedy="add noise")
    return mu


def _point(epsilon: float, mu: float) -> _Point:
    """Return the curve at epsilon >= 0 and mu in [1e-200, 1e15], in the form that does not cancel."""
    epsilon = min(epsilon, 1e20 * mu)  # delta falls with epsilon, so this reports a larger delta, e^(-5e39)
    x, x_low = _offset(epsilon, mu)
    square, square_low = exact_product(x, x)
    exponent, correction = -0.5 * square, -(0.5 * square_low + x * x_low)
    y = epsilon / mu + 0.5 * mu  # x + mu, a sum of positive terms: 3 u
    if mu <= 1.0 + x:
        # Here x >= -1/3, since x >= -mu/2. All terms are positive. Roundings, averaged under the integrand:
        # the exponent's average is at most 2, times 3 u; the nodes' 4 u times an average logarithmic slope of
        # at most 3; exp and expm1 8 u each; products 5 u; pairwise summation 20 u; x without x_low 3 u.
        s = NODES / (1.0 + x)  # [240]
        terms = np.exp(-s * (x + 0.5 * s)) * np.expm1(-mu * s) * s
        return _Point(exponent, correction, -STEP * float(terms.sum()) / SQRT_2PI, complement=False)
    if x >= 0.0:
        # R(x + mu) <= R(2 x + 1) <= 0.53 R(x), so the difference magnifies the 18 u of each term by less than
        # 3.4 times.
        return _Point(exponent, correction, (_mills(x) - _mills(y)) / SQRT_2PI, complement=False)
    # 1 - delta = Phi(x) + phi(x) R(y) has positive terms, so delta is accurate near 1 too. In this region
    # delta > 0.23 (the least is at x = 0, mu = 1), so relative to delta the error grows less than fourfold.
    return _Point(exponent, correction, (_mills(-x) + _mills(y)) / SQRT_2PI, complement=True)


def _offset(epsilon: float, mu: float) -> tuple[float, float]:
    """Return x = (2 epsilon - mu^2) / (2 mu) as an unevaluated sum of two floats, within a few u^2 relative.

    One float is not enough: at mu = 1e4 and delta = 1e-300 its rounding alone moves phi(x) by 1e-11. If mu^2
    underflows (mu < 1e-146), x is off by less than mu absolutely, which has no effect on later steps.
    """
    square, square_low = exact_product(mu, mu)
    difference, difference_low = exact_sum(2.0 * epsilon, -square)
    numerator, numerator_low = exact_sum(difference, difference_low - square_low)
    quotient = numerator / (2.0 * mu)
    back, back_low = exact_product(quotient, 2.0 * mu)
    remainder = ((numerator - back) - back_low) + numerator_low
    return exact_sum(quotient, remainder / (2.0 * mu))


def log_normal_tail(t: float) -> float:
    """Return log Phi(-t), to nearest: within 4e-15 (1 + |log|) of the truth.

    >>> f"{log_normal_tail(40.0):.9f}"
    '-804.608442014'
    """
    if t <= 0.0:
        return math.log1p(-0.5 * math.erfc(-t / math.sqrt(2.0)))
    return math.log(0.5 * _erfcx(t / math.sqrt(2.0))) - 0.5 * t * t


def _mills(t: float) -> float:
    """Return Mills' ratio Phi(-t) / phi(t), t >= 0; |t R'/R| <= 1, so rounding of t is not magnified."""
    return math.sqrt(0.5 * math.pi) * _erfcx(t / math.sqrt(2.0))


def _erfcx(t: float) -> float:
    """Return exp(t^2) erfc(t), t >= 0, from its factors or by the asymptotic series, cut off below u / 8."""
    if t < 7.0:
        square, square_low = exact_product(t, t)
        return math.exp(square) * (1.0 + square_low) * math.erfc(t)
    total = term = 1.0
    odd, ratio = 1.0, 0.5 / t / t
    while abs(term) > 2.0**-56:  # the terms alternate; from t = 7 on at most 22 are needed
        term *= -odd * ratio
        total, odd = total + term, odd + 2.0
    return total / (t * math.sqrt(math.pi))


def _log_delta(point: _Point) -> float:
    if point.complement:
        logarithm = math.log1p(-point.value(-INFLATION))
        return min(0.0, logarithm * (1.0 - LOG_INFLATION))
    logarithm = point.exponent + (point.correction + math.log(point.factor))
    return min(0.0, logarithm + INFLATION + LOG_INFLATION * (abs(point.exponent) + abs(logarithm)))


def _density_over_delta(point: _Point) -> float:
    """Return phi(x) / delta; it only steers the solvers."""
    if point.complement:
        return math.exp(point.exponent) / SQRT_2PI / (1.0 - point.value(0.0))
    return 1.0 / (SQRT_2PI * point.factor)


def _nearest_safe(
    log_delta_and_slope: Callable[[float], tuple[float, float]],
    is_safe: Callable[[float], bool],
    delta: float,
    safe: float,
    unsafe: float,
) -> float:
    """Return the safe argument nearest to the crossing of `delta`; `is_safe` decides what is safe.

    log delta is concave in epsilon and nearly concave in mu: Newton's steps from the safe end stay on the
    safe side. If one leaves the bracket, the bracket is halved instead.
    """
    target, best, candidate, slope = math.log(delta), safe, safe, math.inf
    for _ in range(200):
        logarithm, slope = log_delta_and_slope(candidate)
        if logarithm <= target:
            safe = candidate
        else:
            unsafe = candidate
        proposal = candidate - (logarithm - target) / slope if slope != 0.0 else math.nan
        if abs(proposal - candidate) <= 4e-16 * abs(candidate):
            break
        if not min(safe, unsafe) < proposal < max(safe, unsafe):
            proposal = 0.5 * (safe + unsafe)
            if proposal in {safe, unsafe}:
                break
        candidate = proposal
    # Newton's steps are down to rounding noise: double the step until an argument is verified.
    direction = math.copysign(1.0, best - unsafe)
    step = direction * max(math.ulp(candidate), 1e-16 / abs(slope) if slope != 0.0 else 0.0)
    while not is_safe(candidate):
        candidate, step = candidate + step, 2.0 * step
        if (best - candidate) * direction <= 0.0:
            return best
    return candidate
