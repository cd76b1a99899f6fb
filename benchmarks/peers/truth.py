"""The exact epsilon of every workload, by a computation that shares nothing with the package.

delta(epsilon) = 1/(2 pi) * integral over t of M(s) e^(-s epsilon) / (s (s + 1)), s = c + it: the plain
trapezoid rule on the line through the saddle, its step shortened until the figure stands still. Gaussian
noise alone has a closed form, solved at 40 digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from workloads import DELTA, Calibration, Vector, Workload

Line = NDArray[np.complex128]

#: How far a truth by quadrature may be off, relative; one in closed form is not.
ACCURACY = 1e-12
_DIGITS = 40


def in_closed_form(asked: Workload | Calibration) -> bool:
    """Whether there is nothing but Gaussian noise in it."""
    if isinstance(asked, Calibration):
        return asked.rate == 1.0
    return not (len(asked.scale) or len(asked.response) or len(asked.phases))


def exact_epsilon(workload: Workload, delta: float = DELTA) -> mp.mpf:
    """The larger of the epsilons of both orders of the pair."""
    if in_closed_form(workload):
        with mp.workdps(_DIGITS):
            mu = mp.sqrt(mp.fsum(mp.mpf(sigma) ** -2 for sigma in workload.sigma.tolist()))
            about = _epsilon(_log_transform(workload, mixture_first=True), delta)
            return mp.findroot(lambda e: _log_gaussian_delta(e, mu) - mp.log(mp.mpf(delta)), about)
    return mp.mpf(_by_quadrature(workload, delta))


def _log_gaussian_delta(epsilon: mp.mpf, mu: mp.mpf) -> mp.mpf:
    """Balle and Wang 2018, Theorem 8."""
    right, left = mp.ncdf(mu / 2 - epsilon / mu), mp.ncdf(-mu / 2 - epsilon / mu)
    return mp.log(right - mp.exp(epsilon) * left)


def _by_quadrature(workload: Workload, delta: float = DELTA) -> float:
    orders = (True, False) if len(workload.phases) else (True,)
    return max(_epsilon(_log_transform(workload, mixture_first=order), delta) for order in orders)


def exact_noise(wanted: Calibration) -> mp.mpf:
    """The noise at which the exact epsilon is the wanted one."""
    about = _noise_by_quadrature(wanted)
    if not in_closed_form(wanted):
        return mp.mpf(about)
    with mp.workdps(_DIGITS):
        runs, epsilon, goal = mp.sqrt(wanted.steps), mp.mpf(wanted.epsilon), mp.log(mp.mpf(DELTA))
        return mp.findroot(lambda sigma: _log_gaussian_delta(epsilon, runs / sigma) - goal, about)


def _noise_by_quadrature(wanted: Calibration) -> float:

    def excess(sigma: float) -> float:
        if wanted.rate == 1.0:
            workload = Workload("", "", sigma=np.full(wanted.steps, sigma))
        else:
            workload = Workload("", "", phases=np.array([[sigma, wanted.rate, wanted.steps]]))
        return _by_quadrature(workload) - wanted.epsilon

    return float(brentq(excess, 0.5, 10.0, xtol=1e-12, rtol=1e-12))


def _log_transform(workload: Workload, *, mixture_first: bool) -> Callable[[Line], Line]:
    variance = float((1.0 / workload.sigma**2).sum())
    losses = _few(1.0 / workload.scale)

    def log_m(s: Line) -> Line:
        total = 0.5 * variance * s * (s + 1.0)
        for e, times in losses:
            one = np.log1p(((s + 1) * np.expm1(s * e) + s * np.expm1(-(s + 1) * e)) / (2 * s + 1))
            total = total + times * one
        for e in workload.response:
            total = total + np.log1p(2 * np.sinh((s + 1) * e / 2) * np.sinh(s * e / 2) / math.cosh(e / 2))
        for sigma, rate, steps in workload.phases:
            total = total + steps * _sampled(1.0 / sigma, rate, s if mixture_first else -1.0 - s)
        return total

    return log_m


def _few(values: Vector) -> list[tuple[float, float]]:
    """Values with weights; of very many, evenly spaced, the Euler-Maclaurin sum up to 1 / (12 n^2)."""
    number = len(values)
    if number < 10**5:
        return [(value, 1.0) for value in values.tolist()]
    step = (values[-1] - values[0]) / (number - 1)
    assert np.allclose(np.diff(values), step, rtol=1e-3)
    first, end = float(values[0]), float(values[-1] + step)
    node, weight = np.polynomial.legendre.leggauss(40)
    inside = zip(first + (end - first) * (node + 1.0) / 2.0, number * weight / 2.0, strict=True)
    return [*inside, (first, 0.5), (end, -0.5)]


def _sampled(mu: float, rate: float, s: Line) -> Line:
    """log E over N(0, 1) of ratio^(s + 1), as log1p of a mean of expm1."""
    reach = 12.0 + mu * (1.0 + float(np.abs(s.real).max()))
    x = np.linspace(-reach, reach, 4001)
    weight = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) * (x[1] - x[0])
    with np.errstate(all="ignore"):  # trial abscissae far too large become infinite, and are not chosen
        loss = np.log1p(rate * np.expm1(mu * x - 0.5 * mu * mu))
        means = [complex(weight @ np.expm1((one + 1.0) * loss)) for one in s.tolist()]
    return np.log1p(np.array(means))


def _epsilon(log_m: Callable[[Line], Line], delta: float) -> float:
    def chernoff(epsilon: float) -> tuple[float, float]:
        def at(log_c: float) -> float:
            c = math.exp(log_c)
            value = float(log_m(np.array([c + 0j]))[0].real) - c * epsilon - math.log(c * (c + 1.0))
            return value if math.isfinite(value) else 1e300

        found = minimize_scalar(at, bounds=(-3.0, 7.0), method="bounded", options={"xatol": 1e-3})
        return float(found.fun), math.exp(float(found.x))

    guess = float(brentq(lambda e: chernoff(e)[0] - math.log(delta), 1e-3, 200.0, xtol=1e-3))
    c = chernoff(guess)[1]
    last, step = math.inf, 0.4
    while True:
        found = _on_line(log_m, c, step, guess, delta)
        if abs(found - last) <= 1e-12 * found:
            return found
        last, step = found, 0.7 * step


def _on_line(log_m: Callable[[Line], Line], c: float, step: float, guess: float, delta: float) -> float:
    pieces: list[Vector] = []
    lines: list[Line] = []
    top = float(log_m(np.array([c + 0j]))[0].real)
    start = 0
    while True:  # until the integrand has fallen by 1e-17
        t = step * np.arange(start, start + 64)
        s = c + 1j * t
        line = log_m(s) - np.log(s) - np.log(s + 1.0)
        pieces.append(t)
        lines.append(line)
        if float(line.real.max()) < top - math.log(c * (c + 1.0)) - 40.0:
            break
        start += 64
    t, line = np.concatenate(pieces), np.concatenate(lines)
    weight = np.where(t == 0.0, 1.0, 2.0) * step / (2.0 * math.pi)

    def excess(epsilon: float) -> float:
        moved = np.exp(line - (c + 1j * t) * epsilon - math.log(delta))
        return float((weight * moved).real.sum()) - 1.0

    return float(brentq(excess, 0.5 * guess, 1.5 * guess, xtol=1e-13, rtol=1e-13))
