"""Mechanisms with finitely many losses as tables: their own worst pairs, loss by loss."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.accountants.composition.costs import infinite_mass, largest_loss
from dpaudit.accountants.privacy_loss.terms import ApproxTerm, DiscreteTerm, PureTerm, RandomizedResponseTerm
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import dominating

MOST_MOVES = 1024  # noise that moves further uses the worst pair of the same epsilon
LEAST = 1e-300  # least probability; smaller ones are raised to it, so that none vanishes


def response_term(pair: dominating.Response) -> RandomizedResponseTerm | DiscreteTerm:
    """Return the pair of two inputs' answers: either input or, with loss 0, one of the other categories.

    For any two inputs the law is the same, so it is the worst pair in either order.
    """
    epsilon, others = pair.epsilon, pair.categories - 2
    if not others:
        return RandomizedResponseTerm(epsilon)
    shrunk = math.exp(-epsilon)
    # A float cannot be multiplied by a number of categories past every double.
    among = min(others, 10**300)
    total = 1.0 + (among + 1) * shrunk
    probabilities = (shrunk / total, among * shrunk / total, 1.0 / total)
    return DiscreteTerm((-epsilon, 0.0, epsilon), tuple(max(p, LEAST) for p in probabilities))


def discrete_laplace_term(pair: dominating.DiscreteLaplace) -> tuple[PureTerm | DiscreteTerm, ...]:
    """Return the pair of one coordinate moved by the whole sensitivity d, an integer; no pair for d = 0.

    Clamp the output to [0, d], a sufficient statistic x with dP/dQ = e^((d - 2 x) q), q = 1 / scale, r = e^-q
    and P(x >= t) = r^t / (1 + r) for 1 <= t <= d. It dominates every split over coordinates, as in
    `dpaudit.accountants.pairs.dominating_pairs` for continuous noise: for a split d = a + b, 1 <= a <= b, P(x
    + y >= t) / P(z >= t) is (2 + (t - 1)(1 - r)) / (1 + r) for 1 <= t <= a, (2 + (a - 1)(1 - r)) / (1 + r)
    for a < t <= b and (1 + (d - t)(1 - r)) / (1 + r) for b < t <= d: it crosses 1 once, from above.
    """
    moves = pair.moves
    if moves == 0:
        return ()
    step = _finite(1 / pair.scale)
    if moves == 1:
        return (PureTerm(step),)
    if moves > MOST_MOVES:  # the worst pair of this epsilon
        return (PureTerm(_finite(moves / pair.scale)),)
    # Rounded up to few enough bits that all multiples are exact.
    bits = 53 - moves.bit_length()
    mantissa, power = math.frexp(step)
    step = math.ldexp(math.ceil(math.ldexp(mantissa, bits)), power - bits)
    ratio = math.exp(-step)
    between = [-math.expm1(-step) / (1.0 + ratio) * math.exp(-step * k) for k in range(1, moves)]
    probabilities = [1.0 / (1.0 + ratio), *between, math.exp(-step * moves) / (1.0 + ratio)]
    losses = [(moves - 2 * k) * step for k in range(moves + 1)]
    return (DiscreteTerm(tuple(losses[::-1]), tuple(max(p, LEAST) for p in reversed(probabilities))),)


def table_term(table: dominating.Table) -> ApproxTerm | DiscreteTerm:
    """Return the table's rows; the table dominates both orders of every pair, so one order is enough.

    A mechanism with largest loss e in both orders, except with probability delta, is (e, delta)-DP. If the
    table implies no more than that (Q may have mass where P has none), the pair of (e, delta)-DP is better.
    """
    infinite = min(1.0, infinite_mass(table))
    # If masses add up to more than 1 beyond rounding, the excess counts as infinite loss.
    total = sum(map(Fraction, table.probabilities)) + Fraction(table.infinity)
    if total > 1 + len(table.losses) * Fraction(1, 2**52):
        infinite = min(1.0, up(Fraction(infinite) + total - 1))
    crude = ApproxTerm(largest_loss(table), infinite)
    rows = [(loss, p) for loss, p in zip(table.losses, table.probabilities, strict=True) if p > 0.0]
    if infinite == 1.0 or crude.epsilon == 0.0 or _no_sharper(rows, crude):
        return crude
    losses, probabilities = zip(*rows, strict=True)
    return DiscreteTerm(losses, probabilities, infinite)


def _finite(exact: Fraction) -> float:
    loss, place = up(exact), "mechanism discrete-laplace"
    if not math.isfinite(loss):
        raise CannotBound("its privacy loss exceeds every double", where=place, remedy="add noise")
    return loss


def _no_sharper(rows: Sequence[tuple[float, float]], crude: ApproxTerm) -> bool:
    """Return whether delta by the rows is nowhere below (1 - y e^-e) / (1 + e^-e), y = e^x.

    Both answers give a bound. For |x| <= e that is a line in y, at y = e^-e never above the rows' curve,
    which is convex in y: its kinks decide.
    """
    loss, probability = np.array(rows).T
    above = np.cumsum(probability[::-1])[::-1]
    neighbour = np.cumsum((probability * np.exp(-loss))[::-1])[::-1]
    inside = np.abs(loss) <= crude.epsilon
    delta = (above - np.exp(np.minimum(loss, 700.0)) * neighbour)[inside] / probability.sum()
    line = -np.expm1(loss[inside] - crude.epsilon) / (1.0 + math.exp(-crude.epsilon))
    return bool(np.all(delta >= line - 1e-9))
