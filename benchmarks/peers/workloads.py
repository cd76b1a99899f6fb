"""What every accountant is asked to compose: parameters in memory, one epsilon at delta = 1e-6."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

DELTA = 1e-6


def _none() -> Vector:
    return np.zeros(0)


@dataclass(frozen=True)
class Workload:
    """Releases of four kinds, each with its own parameters; arrays [releases].

    Attributes:
        name: W1 to W5, with what its size is.
        about: one sentence.
        bar: how many times faster than the peer's PLD an answer has to be, if anything is asked.
        sigma: noise of Gaussian releases of sensitivity 1.
        scale: noise of Laplace releases of sensitivity 1.
        response: epsilon of binary randomized responses.
        phases: noise, rate and steps of Poisson-subsampled Gaussians of sensitivity 1; [phases, 3].
    """

    name: str
    about: str
    bar: float | None = None
    sigma: Vector = field(default_factory=_none)
    scale: Vector = field(default_factory=_none)
    response: Vector = field(default_factory=_none)
    phases: Vector = field(default_factory=lambda: np.zeros((0, 3)))


def _gaussians(number: int, bar: float | None = None) -> Workload:
    """All different, with a total mu of 1."""
    spread = 1.0 + np.arange(number) / number
    sigma = spread * np.sqrt((1.0 / spread**2).sum())
    return Workload(f"W1, n = {number:.0e}", f"{number} distinct Gaussians", bar, sigma=sigma)


def _mix() -> Workload:
    noise = 40.0 + 40.0 * np.arange(300) / 300
    response = 0.02 + 0.02 * np.arange(50) / 50
    about = "300 Gaussian, 300 Laplace and 50 randomized-response releases, all distinct"
    return Workload("W2", about, 20.0, sigma=noise, scale=noise, response=response)


def _subsampled(steps: int) -> Workload:
    about = f"Poisson-subsampled Gaussian, rate 0.01, sigma 1, {steps} steps"
    return Workload(f"W3, T = {steps:.0e}", about, 10.0, phases=np.array([[1.0, 0.01, steps]]))


def _phases() -> Workload:
    k = np.arange(50)
    phases = np.stack([0.8 + 0.02 * k, 0.005 + 0.0002 * k, 100.0 + 10.0 * k], axis=1)
    return Workload("W4", "50 phases of distinct noise, rate and number of steps", 8.0, phases=phases)


def _laplaces(number: int) -> Workload:
    scale = 1000.0 / (1.0 + np.arange(number) / number)
    return Workload("W5", f"{number} distinct Laplace releases", scale=scale)


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "W1-1e2": lambda: _gaussians(100),
    "W1-1e4": lambda: _gaussians(10**4, 1000.0),
    "W1-1e6": lambda: _gaussians(10**6),
    "W2": _mix,
    "W3-1e3": lambda: _subsampled(10**3),
    "W3-1e4": lambda: _subsampled(10**4),
    "W3-1e5": lambda: _subsampled(10**5),
    "W4": _phases,
    "W5": lambda: _laplaces(10**6),
}


@dataclass(frozen=True)
class Calibration:
    """The least noise with which `steps` runs, sampled at `rate`, are (epsilon, DELTA)-DP."""

    name: str
    about: str
    epsilon: float
    rate: float = 1.0
    steps: int = 1


CALIBRATIONS = {
    "W6-one": Calibration("W6, one", "noise of one Gaussian for (1, 1e-6)", 1.0),
    "W6-sampled": Calibration(
        "W6, sampled", "noise of 1000 steps at rate 0.01 for (2, 1e-6)", 2.0, 0.01, 1000
    ),
}
