"""The privacy profile of a composition: delta(epsilon) and epsilon(delta), each between proved bounds."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

from dpaudit.accountants.closed_forms import conversions
from dpaudit.accountants.closed_forms.gaussian import gaussian_epsilon, gaussian_log_delta
from dpaudit.accountants.closed_forms.ranges import nonnegative, probability
from dpaudit.accountants.privacy_loss.contour.contour import CurvePoint
from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Factor, safe_log
from dpaudit.accountants.privacy_loss.factors_from_terms import Collected, Composed, columns_of
from dpaudit.accountants.privacy_loss.lattice import splitting
from dpaudit.accountants.privacy_loss.lattice.lattice import MOST_ATOMS, Lattice, atoms, lattice
from dpaudit.accountants.privacy_loss.lattice.splitting import Part
from dpaudit.accountants.privacy_loss.solve import (
    FINAL,
    SEARCH,
    Bracket,
    chernoff_epsilon,
    chernoff_log_delta,
    contour_epsilon,
    contour_log_delta,
    curve_epsilon,
    verified,
)
from dpaudit.accountants.privacy_loss.terms import Term
from dpaudit.errors import CannotBound

_SPREAD = 64.0 * UNIT  # relative, of mu; from rounding of the sum of squares


@dataclass(frozen=True)
class GaussianCurve:
    """The composition of Gaussian releases whose mu^2 add up to mu^2."""

    mu: float

    def curve(self, epsilon: float) -> CurvePoint:
        """Return bounds; the accountant's log delta is at most 1e-13 + 2e-15 |log delta| above the truth."""
        if self.mu == 0.0:
            return CurvePoint(-math.inf, -math.inf, -math.inf, 1.0)
        upper = gaussian_log_delta(epsilon, self.mu * (1.0 + _SPREAD))
        lower = gaussian_log_delta(epsilon, self.mu * (1.0 - _SPREAD))
        trusted = self.mu >= 1e-190 and epsilon <= 1e19 * self.mu
        lower -= (2e-13 + 4e-15 * abs(lower)) if trusted else math.inf
        # -d log delta / d epsilon is about (epsilon / mu - mu / 2) / mu, and at least of order 1 / mu.
        return CurvePoint(lower, upper, upper, max(epsilon / self.mu - 0.5 * self.mu, 0.5) / self.mu)

    def epsilon(self, log_delta: float) -> Bracket:
        """Return bounds on the least epsilon >= 0 with delta(epsilon) <= exp(log_delta)."""
        if self.mu == 0.0 or self.curve(0.0).log_upper <= log_delta:
            return Bracket(0.0, 0.0)
        guess = gaussian_epsilon(max(math.exp(log_delta), 5e-324), self.mu)
        bracket = verified(self, guess, log_delta)
        return bracket if math.isfinite(bracket.upper) else Bracket(0.0, 2.0 * guess + 1e3)


@dataclass(frozen=True)
class SampledRun:
    """One run of Gaussian or Laplace noise at a rate below 1, in one order of its pair.

    If the noise alone has the curve delta1, and P = (1 - q) Q + q P1 at rate q,

        delta(epsilon) = w delta1(log(1 + (e^epsilon - 1) / w)),    w = q;

    with Q = (1 - q) P + q Q1 the same holds for w = q - (1 - q) (e^epsilon - 1) > 0, and delta is 0
    otherwise. Both grow with w.
    """

    part: Part
    mixture_first: bool
    ceiling: float

    def curve(self, epsilon: float) -> CurvePoint:
        """Return bounds on log delta(epsilon), epsilon >= 0."""
        lower, estimate, upper = (self._log_delta(epsilon, sign) for sign in (-1.0, 0.0, 1.0))
        step = 1e-9 * epsilon
        rise = self._log_delta(epsilon - step, 0.0) - estimate if estimate > -math.inf else 0.0
        return CurvePoint(lower, estimate, min(0.0, upper), rise / step if step > 0.0 else 1.0)

    def epsilon(self, log_delta: float) -> Bracket:
        """Return bounds on the least epsilon >= 0 with delta(epsilon) <= exp(log_delta)."""
        return curve_epsilon(self, log_delta, self.ceiling)

    def _log_delta(self, epsilon: float, sign: float) -> float:
        """Return an upper bound if the sign is 1, a lower bound if it is -1, an estimate if it is 0."""
        weight, grown = self.part.rate, math.expm1(min(epsilon, 700.0))
        if not self.mixture_first:
            rest = (1.0 - weight) * grown
            weight += sign * (8.0 * UNIT * (weight + rest) + 1e-320) - rest
        if weight <= 0.0:
            return -math.inf
        if epsilon <= 700.0 and grown / weight < math.inf:
            alone = math.log1p(grown / weight)
        else:  # past every double, where 1 is negligible
            alone = (math.log(grown) if epsilon <= 700.0 else epsilon) - math.log(weight)
        alone *= 1.0 - sign * _SPREAD
        if self.part.family == "gaussian":
            bounds = GaussianCurve(self.part.parameter).curve(alone)
            log = bounds.log_lower if sign < 0.0 else bounds.log_upper
        else:  # delta1(x) = 1 - e^((x - e) / 2)
            gap = self.part.parameter * (1.0 + sign * 8.0 * UNIT) - alone
            log = safe_log(-math.expm1(-0.5 * max(gap, 0.0)))
        log += math.log(weight)
        return log + sign * 16.0 * UNIT * (1.0 + abs(log) + abs(math.log(weight))) if log > -math.inf else log


RESOLVED = 1e-6  # a contour with bounds closer than this, relative, is not compared with a lattice
_LONG_TABLES = 1 << 14
LOOSE = 1e-2  # a lattice with bounds farther apart than this is compared with the contour

Method = Literal["gaussian", "single", "lattice", "contour"]


@dataclass(frozen=True, eq=False)
class PrivacyLoss:
    """The privacy loss of independent releases, composed; build it with `compose` or `from_arrays`.

    Both bounds hold for the exact composition of the terms' worst pairs, in either order of the pair. Rigour:
    `float-pessimistic`. `method` is `gaussian` (the exact curve), `single` (one sampled run's exact curve),
    `lattice` (every atom listed) or `contour`.
    """

    method: Method
    _collected: Collected = field(repr=False)
    _exact: Sequence[GaussianCurve | SampledRun | Lattice] = field(repr=False)  # for each order, or none
    _directions: tuple[tuple[Factor, ...], ...] = field(repr=False)
    _parts: tuple[splitting.Part, ...] = field(repr=False)

    @classmethod
    def compose(cls, releases: Iterable[tuple[Term, int]], beside: Composed | None = None) -> Self:
        """Compose terms with their counts, and arrays of parameters `beside` them.

        >>> from dpaudit.accountants.privacy_loss.terms import LaplaceTerm
        >>> round(PrivacyLoss.compose([(LaplaceTerm(1.0), 10)]).epsilon(1e-6).upper, 6)
        9.998978
        """
        composed = columns_of(releases)
        return cls.from_arrays(composed if beside is None else composed + beside)

    @classmethod
    def from_arrays(cls, composed: Composed) -> Self:
        """Compose arrays of parameters and counts; raises as `Composed.checked` does."""
        collected = composed.checked()
        response, tables, single = collected.response, collected.tables, collected.single_run
        if collected.only_gaussian:
            return cls("gaussian", collected, [GaussianCurve(math.sqrt(collected.variance))], (), ())
        if single is not None:
            orders = zip(collected.orders, collected.ceilings, strict=True)
            return cls("single", collected, [SampledRun(single, *order) for order in orders], (), ())
        if collected.only_atoms and atoms(response.counts, tables) <= MOST_ATOMS:
            listed = [lattice(response.parameters, response.counts, tables)]
            return cls("lattice", collected, listed, (), ())
        collected = collected.lifted()
        return cls("contour", collected, (), collected.directions(), collected.parts())

    @property
    def ceiling(self) -> float:
        """The sum of the pure epsilons, rounded up; infinite if some release has none."""
        return self._collected.ceiling

    @property
    def least_delta(self) -> Bracket:
        """Bounds on the probability that `ApproxTerm`s reveal everything: no delta is below it."""
        return self._collected.least_delta

    def delta(self, epsilon: float) -> Bracket:
        """Return lower and upper bounds on the least delta at `epsilon` (nats, in [0, inf))."""
        epsilon = nonnegative("epsilon", epsilon)
        lower, upper = 0.0, 0.0
        if epsilon < self.ceiling:
            log_delta = self._log_delta(epsilon)
            lower = math.nextafter(math.exp(log_delta.lower) * (1.0 - 16.0 * UNIT), 0.0)
            upper = math.nextafter(math.exp(log_delta.upper) * (1.0 + 16.0 * UNIT), 2.0)
            upper = min(upper, self._collected.most_delta)
            if self._collected.both_ways_pure:
                upper = min(upper, conversions.response_delta(self.ceiling, epsilon))
            lower = 0.0 if self._collected.raised else min(lower, upper)
        if self.least_delta.upper == 0.0:
            return Bracket(lower, upper)
        # 1 - (1 - delta_0) (1 - delta)
        low, high = self.least_delta
        least = max(low, lower, (low + (1.0 - low) * lower) * (1.0 - 8.0 * UNIT))
        most = min(1.0, (high + (1.0 - high) * upper) * (1.0 + 8.0 * UNIT))
        return Bracket(least, most if upper > 0.0 else high)

    def epsilon(self, delta: float) -> Bracket:
        """Return bounds on the least epsilon >= 0 at `delta` in (0, 1); `CannotBound` below `least_delta`."""
        delta = probability("delta", delta)
        low, high = self.least_delta
        # delta = delta_0 + (1 - delta_0) rest. At delta = delta_0 only the ceiling remains.
        if delta < high or (delta == high > 0.0 and not math.isfinite(self.ceiling)):
            what = f"delta = {delta!r} is not above {high!r}, the probability that everything is revealed"
            remedy = "ask for a larger delta, or lower the delta of the approximate releases"
            raise CannotBound(what, where="delta", remedy=remedy)
        if delta == high > 0.0:
            return Bracket(0.0, self.ceiling)
        if high == 0.0:
            return self._epsilon(delta)
        upper = self._epsilon((delta - high) / (1.0 - high) * (1.0 - 8.0 * UNIT)).upper
        if self._collected.raised:
            return Bracket(0.0, upper)
        lower = self._epsilon(min((delta - low) / (1.0 - low) * (1.0 + 8.0 * UNIT), 1.0)).lower
        return Bracket(min(lower, upper), upper)

    def _log_delta(self, epsilon: float) -> Bracket:
        ceilings = self._collected.ceilings
        found = [self._order_log_delta(at, epsilon) for at, most in enumerate(ceilings) if epsilon < most]
        lower, upper = max(b.lower for b in found), max(b.upper for b in found)
        whole = self._unsampled()
        if whole is not None and not upper - lower <= LOOSE:
            upper = min(upper, whole.curve(epsilon).log_upper)
        return Bracket(min(lower, upper), upper)

    def _order_log_delta(self, order: int, epsilon: float) -> Bracket:
        if self._exact:
            point = self._exact[order].curve(epsilon)
            return Bracket(point.log_lower, min(0.0, point.log_upper))
        factors, ceiling = self._directions[order], self._collected.ceilings[order]
        if not self._parts:
            return self._clipped(contour_log_delta(factors, epsilon, ceiling), factors, epsilon)
        found = Bracket(-math.inf, 0.0)
        if not self._contour_is_long:
            found = contour_log_delta(factors, epsilon, ceiling, SEARCH)
        if found.upper - found.lower > RESOLVED:
            lattices = splitting.split_log_delta(self._parts, epsilon, mixture_first=order == 0)
            found = _intersection(found, lattices)
        if found.upper - found.lower > 1e-3:
            found = _intersection(found, contour_log_delta(factors, epsilon, ceiling, SEARCH))
        return self._clipped(found, factors, epsilon)

    @staticmethod
    def _clipped(found: Bracket, factors: Sequence[Factor], epsilon: float) -> Bracket:
        """Return loose bounds on log delta, the upper one at most the bound by Renyi divergences."""
        if found.upper - found.lower <= 1e-3:
            return found
        return _intersection(found, Bracket(-math.inf, chernoff_log_delta(factors, epsilon)))

    def _epsilon(self, delta: float) -> Bracket:
        if delta >= 1.0 or delta >= self._collected.most_delta:
            return Bracket(0.0, 0.0)
        if delta <= 0.0:
            return Bracket(0.0, self.ceiling)
        log_delta = math.log(delta)
        found: list[Bracket] = []
        for order, ceiling in enumerate(self._collected.ceilings):
            # An order with a largest loss below the other's epsilon cannot be the larger one.
            idle = any(ceiling <= other.lower for other in found)
            found.append(Bracket(0.0, ceiling) if idle else self._order_epsilon(order, log_delta))
        least = max(b.lower for b in found)
        for order, factors in enumerate(self._directions):
            # A loose bracket is compared with other bounds, in orders that may be the larger one.
            if not _is_loose(found[order], RESOLVED) or found[order].upper <= least:
                continue
            found[order] = _intersection(found[order], Bracket(0.0, chernoff_epsilon(factors, log_delta)))
            if self._parts and _is_loose(found[order], LOOSE):
                contour = contour_epsilon(factors, log_delta, self._collected.ceilings[order])
                found[order] = _intersection(found[order], contour)
        lower, upper = max(b.lower for b in found), max(b.upper for b in found)
        upper, whole = min(self.ceiling, upper), self._unsampled()
        if self._collected.both_ways_pure:
            upper = min(upper, conversions.response_epsilon(self.ceiling, delta))
        if whole is not None and _is_loose(Bracket(lower, upper), LOOSE):
            upper = min(upper, whole.epsilon(log_delta).upper)
        if not math.isfinite(upper):
            raise CannotBound("no finite epsilon could be proved", where=f"delta = {delta!r}")
        return Bracket(0.0 if self._collected.raised else min(upper, lower), upper)

    def _order_epsilon(self, order: int, log_delta: float) -> Bracket:
        if self._exact:
            return self._exact[order].epsilon(log_delta)
        factors, ceiling = self._directions[order], self._collected.ceilings[order]
        if ceiling <= math.exp(log_delta):  # delta(0) <= 1 - e^-ceiling
            return Bracket(0.0, 0.0)
        if not self._parts or log_delta < splitting.LEAST_LOG_DELTA:
            return contour_epsilon(factors, log_delta, ceiling)
        found = Bracket(0.0, ceiling)
        if not self._contour_is_long:
            efforts = (SEARCH, FINAL) if self._collected.tables else (SEARCH,)
            found = contour_epsilon(factors, log_delta, ceiling, efforts)
        if _is_loose(found, RESOLVED):
            law = splitting.split(self._parts, log_delta, mixture_first=order == 0)
            found = found if law is None else _intersection(found, curve_epsilon(law, log_delta, found.upper))
        return found

    @property
    def _contour_is_long(self) -> bool:
        """Whether the contour would be long: a node costs one formula for each loss of a table.

        For a table that is an upper bound only the upper end counts, and the lattice's is smaller.
        """
        tables = self._collected.tables
        if (tables and self._collected.raised) or sum(len(table.losses) for table in tables) > _LONG_TABLES:
            return bool(self._parts)
        return not tables and 0 < sum(part.count for part in self._parts) <= splitting.FEW_RUNS

    def _unsampled(self) -> GaussianCurve | None:
        """Return the curve without sampling, which dominates, if all noise is Gaussian."""
        variance = self._collected.whole_variance
        return None if variance is None or self._exact else GaussianCurve(math.sqrt(variance))


def _is_loose(bounds: Bracket, share: float) -> bool:
    """Return whether the bounds differ by more than a share of the upper one."""
    return math.isinf(bounds.upper) or bounds.upper - bounds.lower > share * bounds.upper


def _intersection(one: Bracket, other: Bracket) -> Bracket:
    return Bracket(max(one.lower, other.lower), min(one.upper, other.upper))
