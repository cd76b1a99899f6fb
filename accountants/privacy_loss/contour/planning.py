"""How to lay a line: its period and its length, so that nothing above `CUT` of delta is lost or added.

The alias bounds rest on delta(x) <= e^(K(a) - a x) a^a / (1 + a)^(1 + a) for every a > 0 (Canonne, Kamath and
Steinke 2020, Proposition 12) and on delta(x) <= 1 (a = 0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Factor, Vector
from dpaudit.accountants.privacy_loss.contour.saddle import total_cumulant
from dpaudit.accountants.privacy_loss.contour.tails import Tail, tail

#: Relative size at which aliases and the tail are cut.
CUT = 3e-12


class Anchors(NamedTuple):
    """Chernoff's bound at other abscissae: log delta(x) <= constant - a x; both [anchors]."""

    a: Vector
    constant: Vector


class Plan(NamedTuple):
    """An abscissa, the period W = 2 pi / h, the number of nodes, the tail bound and the alias bounds."""

    c: float
    period: float
    nodes: int
    ending: Tail
    anchors: Anchors


def plan_line(
    factors: Sequence[Factor],
    c: float,
    epsilon: float,
    ceiling: float,
    log_delta: float,
    variance: float = 0.0,
) -> Plan:
    """How many nodes, and the period W, to cut everything at `CUT` of delta."""
    cumulant = total_cumulant(factors, c)
    sigma = math.sqrt(cumulant.curvature + 1.0 / (c * c) + 1.0 / (c + 1.0) ** 2)
    ending = tail(factors, c, 0.5 / sigma, variance)
    anchors = anchors_about(factors, c, sigma)
    scale = log_scale(factors, c, epsilon)
    log_cut = min(log_delta - scale, -math.log(sigma)) + math.log(CUT)
    excess = anchors.constant - anchors.a * epsilon - scale - log_cut
    needed = excess / np.abs(anchors.a - c)
    right = anchors.a > c
    above = min(float(needed[right].min()), (ceiling - epsilon) * 1.00001)
    period = max(above, float(needed[~right].min()), 1.0 / c)
    enough = np.flatnonzero(ending.weighted * (c * (c + 1.0)) <= math.exp(log_cut))
    end = ending.start[enough[0]] if len(enough) else math.inf
    nodes = 1.00001 * end * period / (2.0 * math.pi)  # the step will be rounded
    return Plan(c, period, int(min(nodes, 1e15)) + 2, ending, anchors)


def log_scale(factors: Sequence[Factor], c: float, epsilon: float) -> float:
    """Log of the magnitude at the crossing: K(c) - c epsilon - log c (c + 1)."""
    return total_cumulant(factors, c).value - c * epsilon - math.log(c) - math.log1p(c)


def anchors_about(factors: Sequence[Factor], c: float, sigma: float) -> Anchors:
    """Chernoff bounds at abscissae left and right of c, for the aliases below and above epsilon."""
    left = [c * share for share in (0.02, 0.1, 0.25, 0.45, 0.65, 0.8)]
    right = [c + width / sigma for width in (2.0, 4.0, 7.0)] + [1.1 * c, 1.3 * c, 1.6 * c, 2.0 * c, 5.0 * c]
    a, constant = [0.0], [0.0]
    for other in left + right:
        if abs(other - c) <= 1e-6 * c:  # the peak is too narrow to tell them apart
            continue
        cumulant = total_cumulant(factors, other)
        a.append(other)
        constant.append(chernoff_constant(cumulant.value + cumulant.error, other))
    return Anchors(np.array(a), np.array(constant))


def chernoff_constant(cumulant: float, a: float) -> float:
    """An upper bound on the B of log delta(x) <= B - a x: K(a) + a log a - (1 + a) log(1 + a), rounded up."""
    terms = (cumulant, -a * math.log1p(1.0 / a), -math.log1p(a))
    return sum(terms) + 16.0 * UNIT * sum(abs(term) for term in terms)
