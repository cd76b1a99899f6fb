"""Convert one guarantee to every other scale; each conversion has its theorem, its condition and its slack.

The slack of a figure is its relative excess over a figure below which no generally valid conversion can be:
the lower bound of a mechanism that has the guarantee (Gaussian noise for zCDP and Renyi DP, randomized
response for pure DP). If that mechanism is the worst one, the conversion is exact and its slack is rounding.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, assert_never

from dpaudit.accountants.closed_forms import conversions as closed
from dpaudit.accountants.closed_forms.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from dpaudit.accountants.closed_forms.rounding import down, sqrt_down, sqrt_up, up
from dpaudit.accountants.curves.implied import budget_for, implied_curve
from dpaudit.accountants.privacy_loss import ApproxTerm, GaussianTerm, PrivacyLoss, Term
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.claims.bounds import Rigour
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP

ALWAYS = "always"
IF_GAUSSIAN = "only if every release is Gaussian"
COMPARISON = "always; for comparison"
LARGEST = "largest that always meets the target"
LARGEST_GAUSSIAN = "largest of a Gaussian release that meets the target"

BALLE_WANG = "Balle, Wang 2018, Theorem 8"
BUN_STEINKE = "Bun, Steinke 2016, Proposition 1.3"
CANONNE = "Canonne, Kamath, Steinke 2020, Proposition 12"
DONG = "Dong, Roth, Su 2022, Corollary B.6"
KAIROUZ = "Kairouz, Oh, Viswanath 2015"
MIRONOV = "Mironov 2017, Proposition 3"


@dataclass(frozen=True)
class Conversion:
    """One guarantee that another implies, with its method, theorem and condition.

    `slack` is None if no figure for comparison is known (see the module). `target_delta` is the target's
    delta, for the largest noise parameter that meets the target.
    """

    guarantee: AnyGuarantee
    method: str
    source: str
    holds: str = ALWAYS
    slack: float | None = None
    target_delta: float | None = None
    rigour: Rigour = "float-pessimistic"

    def to_json(self) -> dict[str, Any]:
        """Return the conversion as plain JSON types; ``figure`` is the guarantee's leading figure."""
        row = {"guarantee": self.guarantee.to_json(), "figure": leading_figure(self.guarantee)}
        row |= {name: getattr(self, name) for name in ("method", "source", "holds", "slack", "rigour")}
        return row if self.target_delta is None else {**row, "target_delta": self.target_delta}


@dataclass(frozen=True)
class ConversionCurve:
    """delta(epsilon) by one method, for a plot."""

    method: str
    holds: str
    delta: Callable[[float], float]


def conversions(given: AnyGuarantee, deltas: Sequence[float], orders: Sequence[float]) -> list[Conversion]:
    """Convert a guarantee to every other scale: epsilon at each delta, divergence at each order.

    Raises `InvalidParameter`: a delta outside (0, 1), or an order not above 1; `CannotBound`: a figure past
    the largest double.
    """
    match given:
        case ZCDP(rho=rho):
            return list(_from_zcdp(rho, deltas, orders))
        case GDP(mu=mu):
            return list(_from_gdp(mu, deltas, orders))
        case PureDP(epsilon=epsilon):
            return list(_from_pure(epsilon, deltas, orders))
        case RDP(alpha=alpha, epsilon=epsilon):
            return list(_from_renyi(alpha, epsilon, deltas))
        case ApproxDP(epsilon=epsilon, delta=delta):
            return list(_from_approximate(epsilon, delta, deltas))
        case _:
            assert_never(given)


def largest(epsilon: float, delta: float) -> list[Conversion]:
    """Return the largest figures that prove (epsilon, delta), rounded down; always valid ones come first.

    They are rho, the usual scale of a budget over several runs, for anything that is rho-zCDP, and mu for
    anything that is mu-GDP. Gaussian noise alone meets the target up to rho = mu^2 / 2.
    """
    mu = gaussian_mu(epsilon, delta)
    found: tuple[tuple[AnyGuarantee, str, str, str], ...] = (
        (budget_for(ApproxDP(epsilon=epsilon, delta=delta)), "zcdp", CANONNE, LARGEST),
        (GDP(mu=mu), "gdp", BALLE_WANG, LARGEST),
        (ZCDP(rho=down(Fraction(mu) ** 2 / 2)), "gdp", BALLE_WANG, LARGEST_GAUSSIAN),
    )
    return [
        Conversion(guarantee, method, source, holds, target_delta=delta)
        for guarantee, method, source, holds in found
    ]


def curves(given: AnyGuarantee) -> list[ConversionCurve]:
    """Return delta(epsilon) by every method known for a guarantee; the first one always holds."""
    method = {"pure-dp": "pure", "approx-dp": "approximate"}.get(given.kind, given.kind)
    found = [ConversionCurve(method, ALWAYS, implied_curve(given))]
    match given:
        case ZCDP(rho=rho):
            found.append(ConversionCurve("bun-steinke", COMPARISON, lambda e: _bun_steinke_delta(rho, e)))
            found.append(_of_gaussian(sqrt_up(2 * Fraction(rho)), IF_GAUSSIAN))
        case RDP(alpha=alpha, epsilon=epsilon):
            mironov = ConversionCurve("mironov", COMPARISON, lambda e: _exp((alpha - 1.0) * (epsilon - e)))
            mu = sqrt_up(2 * Fraction(epsilon) / Fraction(alpha))
            found += [mironov, _of_gaussian(mu, IF_GAUSSIAN)]
        case ApproxDP(epsilon=epsilon, delta=delta):
            found.append(_of_gaussian(gaussian_mu(epsilon, delta), LARGEST_GAUSSIAN))
        case GDP() | PureDP():
            pass
        case _:
            assert_never(given)
    return found


def _of_gaussian(mu: float, holds: str) -> ConversionCurve:
    return ConversionCurve("gdp", holds, lambda epsilon: gaussian_delta(epsilon, mu))


def _from_zcdp(rho: float, deltas: Sequence[float], orders: Sequence[float]) -> Iterator[Conversion]:
    mu, least_mu = sqrt_up(2 * Fraction(rho)), sqrt_down(2 * Fraction(rho))
    for delta in deltas:
        at = _Epsilons(GaussianTerm(least_mu), delta)
        yield at.row(closed.zcdp_epsilon(rho, delta), "zcdp", CANONNE)
        yield at.row(closed.bun_steinke_epsilon(rho, delta), "bun-steinke", BUN_STEINKE, COMPARISON)
        yield at.row(gaussian_epsilon(delta, mu), "gdp", BALLE_WANG, IF_GAUSSIAN)
    source = "mu = sqrt(2 rho) of Gaussian noise"
    yield Conversion(GDP(mu=mu), "gdp", source, IF_GAUSSIAN, _slack(mu, least_mu))
    for alpha in orders:
        yield _exactly(alpha, Fraction(rho) * Fraction(alpha), "zcdp", "Bun, Steinke 2016, Definition 1.1")


def _from_gdp(mu: float, deltas: Sequence[float], orders: Sequence[float]) -> Iterator[Conversion]:
    for delta in deltas:
        yield _Epsilons(GaussianTerm(mu), delta).row(gaussian_epsilon(delta, mu), "gdp", BALLE_WANG)
    half = Fraction(mu) ** 2 / 2
    yield Conversion(ZCDP(rho=up(half)), "gdp", DONG, slack=_slack(up(half), down(half)))
    for alpha in orders:
        yield _exactly(alpha, half * Fraction(alpha), "gdp", DONG)


def _from_pure(epsilon: float, deltas: Sequence[float], orders: Sequence[float]) -> Iterator[Conversion]:
    for delta in deltas:
        figure = closed.response_epsilon(epsilon, delta)
        yield _Epsilons(ApproxTerm(epsilon, 0.0), delta).row(figure, "pure", KAIROUZ)
    rho, first = closed.pure_to_zcdp(epsilon), up(Fraction(epsilon) ** 2 / 2)
    least = epsilon * math.tanh(0.5 * epsilon) * (1.0 - 1e-15)
    source = "Bun, Steinke 2016, Proposition 1.4"
    yield Conversion(ZCDP(rho=rho), "pure", f"sharpens {source}", slack=_slack(rho, least))
    yield Conversion(ZCDP(rho=first), "bun-steinke", source, COMPARISON, _slack(first, least))
    mu, source = closed.pure_to_gdp(epsilon), "Dong, Roth, Su 2022, Proposition 2.4"
    yield Conversion(GDP(mu=mu), "pure", source, slack=_slack(mu, mu * (1.0 - 2e-13)))
    for alpha in orders:
        figure = min(epsilon, _response_renyi(epsilon, alpha))
        source = "randomized response (Kairouz, Oh, Viswanath 2015)"
        guarantee = RDP(alpha=alpha, epsilon=figure)
        yield Conversion(guarantee, "pure", source, slack=_slack(figure, figure * (1.0 - 1e-12)))


def _from_renyi(alpha: float, epsilon: float, deltas: Sequence[float]) -> Iterator[Conversion]:
    # Gaussian noise with this divergence at this order has the guarantee.
    square = 2 * Fraction(epsilon) / Fraction(alpha)
    for delta in deltas:
        at = _Epsilons(GaussianTerm(sqrt_down(square)), delta)
        first = math.nextafter((epsilon - math.log(delta) / (alpha - 1.0)) * (1.0 + 1e-15), math.inf)
        yield at.row(closed.rdp_epsilon(alpha, epsilon, delta), "rdp", CANONNE)
        yield at.row(first if epsilon > 0.0 else 0.0, "mironov", MIRONOV, COMPARISON)
        yield at.row(gaussian_epsilon(delta, sqrt_up(square)), "gdp", BALLE_WANG, IF_GAUSSIAN)


def _from_approximate(epsilon: float, delta: float, deltas: Sequence[float]) -> Iterator[Conversion]:
    """Convert to other deltas; scales that bound every moment have no figure."""
    loss = PrivacyLoss.compose([(ApproxTerm(epsilon, delta), 1)])
    for other in deltas:
        if other < delta:
            continue
        lower, upper = loss.epsilon(other) if other > loss.least_delta.upper else (epsilon, epsilon)
        guarantee = ApproxDP(epsilon=upper, delta=other)
        yield Conversion(guarantee, "approximate", KAIROUZ, slack=_slack(upper, lower))


class _Epsilons:
    """Figures at one delta, with their slack over the epsilon of a pair that has the guarantee."""

    def __init__(self, term: Term, delta: float) -> None:
        self._delta = delta
        self._least = PrivacyLoss.compose([(term, 1)]).epsilon(delta).lower

    def row(self, epsilon: float, method: str, source: str, holds: str = ALWAYS) -> Conversion:
        guarantee = ApproxDP(epsilon=epsilon, delta=self._delta)
        return Conversion(guarantee, method, source, holds, _slack(epsilon, self._least))


def _exactly(alpha: float, divergence: Fraction, method: str, source: str) -> Conversion:
    guarantee = RDP(alpha=alpha, epsilon=up(divergence))
    return Conversion(guarantee, method, source, slack=_slack(up(divergence), down(divergence)))


def _slack(figure: float, least: float) -> float | None:
    if figure <= least:
        return 0.0
    return figure / least - 1.0 if least > 0.0 else None


def _response_renyi(epsilon: float, alpha: float) -> float:
    """Return randomized response's divergence [log cosh((2a - 1) e / 2) - log cosh(e / 2)] / (a - 1).

    It is rounded up. The quotient of the two cosh is 1 + 2 sinh(a e / 2) sinh((a - 1) e / 2) / cosh(e / 2),
    without cancellation.
    """
    t = alpha - 1.0
    if alpha * epsilon <= 600.0:
        growth = 2.0 * math.sinh(0.5 * alpha * epsilon) * math.sinh(0.5 * t * epsilon)
        figure = math.log1p(growth / math.cosh(0.5 * epsilon)) / t
        if growth < 1e-290:  # some digits underflow: use alpha times the rho of any epsilon-DP instead
            figure = 0.5 * alpha * epsilon * epsilon
    else:  # log cosh x = x + log1p(e^-2x) - log 2; the linear parts differ by t e, the first log1p vanishes
        figure = epsilon - math.log1p(math.exp(-epsilon)) / t + 1e-300
    # The largest argument, 600, magnifies its own rounding in sinh.
    return math.nextafter(figure * (1.0 + 4e-13), math.inf)


def _bun_steinke_delta(rho: float, epsilon: float) -> float:
    gap = epsilon - rho
    return 1.0 if gap <= 0.0 else _exp(-gap / rho * 0.25 * gap) if rho > 0.0 else 0.0


def _exp(logarithm: float) -> float:
    """Return e to a logarithm known up to a few roundings, at most 1, rounded up."""
    raised = math.exp(min(logarithm * (1.0 - closed.ROUNDING), 0.0)) * (1.0 + closed.ROUNDING)
    return min(1.0, math.nextafter(raised, 2.0))
