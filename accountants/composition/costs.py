"""The cost of one run of a mechanism on each additive scale: the formulas, each with its theorem."""

import math
from fractions import Fraction
from typing import assert_never

from dpaudit.accountants.closed_forms import columns
from dpaudit.accountants.closed_forms.conversions import ROUNDING, laplace_to_zcdp, pure_to_gdp, pure_to_zcdp
from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import AnyMechanism, BaseMechanism, dominating

_REMEDIES = {
    dominating.Gaussian: "claim zCDP, GDP or (epsilon, delta)-DP, or use Laplace noise",
    dominating.ZCDP: "claim zCDP or (epsilon, delta)-DP",
    dominating.DiscreteGaussian: "claim zCDP or (epsilon, delta)-DP",
    dominating.Sampled: "use an accountant that bounds the mixture, rdp or pld, or Laplace noise",
    dominating.Batch: "use an accountant that bounds the mixture, rdp or pld, or Laplace noise",
    dominating.Mixture: "use an accountant that bounds the mixture, rdp or pld",
    dominating.Table: "use an accountant of privacy losses, which composes tables",
    dominating.Smooth: "claim (epsilon, delta)-DP, which the accountants for smooth sensitivity bound",
    dominating.SparseGaussian: "claim (epsilon, delta)-DP, or use SparseVector, whose noise is Laplace noise",
    dominating.Selected: "claim (epsilon, delta)-DP, which follows from the trials' Renyi divergences",
    dominating.Approx: "claim (epsilon, delta)-DP, and compose the guarantee as such",
}
_ADDED_REMEDY = "claim a guarantee that its package bounds: see `dpaudit list mechanisms`"


@columns.additive(columns.gaussian_pure, columns.laplace_pure)
def pure_epsilon(mechanism: AnyMechanism) -> float:
    """Return the pure epsilon; raises `CannotBound` for a mechanism that has none.

    Laplace and discrete Laplace: sensitivity/scale (Dwork, McSherry, Nissim, Smith 2006, Theorem 1;
    Ghosh, Roughgarden, Sundararajan 2009). Randomized response and bounded range: their own epsilon.
    Sampled: log(1 + rate (e^epsilon - 1)) (Balle, Barthe, Gaboardi 2018, Theorem 8). A table: its largest
    loss, if none is infinite. The best of a negative binomial number of trials: 2 + eta times a trial's
    epsilon (Papernot and Steinke 2022, Theorem 2).
    """
    return _pure(mechanism, "pure epsilon-DP")


def _pure(mechanism: AnyMechanism, scale: str) -> float:
    """Return the pure epsilon that a bound on `scale` is derived from."""
    return _pure_of(mechanism.dominating_pair(), mechanism, scale)


def _pure_of(pair: dominating.Pair, mechanism: AnyMechanism, scale: str) -> float:
    match pair:
        case dominating.Laplace() | dominating.DiscreteLaplace():
            return finite(up(pair.epsilon), mechanism)
        case dominating.Response() | dominating.BoundedRange() | dominating.Pure() | dominating.Shuffled():
            return pair.epsilon
        case dominating.Sampled(rate=rate) | dominating.Batch(rate=rate):
            # The bound holds under every relation: for a replaced unit (change) and for a removed one (own).
            both = (pair.larger,) if isinstance(pair, dominating.Sampled) else (pair.change, pair.own)
            epsilon = max(_pure_of(inner, mechanism, scale) for inner in both)
            if epsilon > 700.0:  # e^epsilon overflows, and log(1/rate) is small in comparison
                return epsilon
            amplified = math.log1p(rate * math.expm1(epsilon))
            return min(epsilon, math.nextafter(amplified * (1.0 + ROUNDING), math.inf))
        case dominating.Table() if infinite_mass(pair) == 0:
            return largest_loss(pair)
        case dominating.Added():
            stated, table = pair.epsilon(), pair.table()
            if stated is None and table is not None and infinite_mass(table) == 0:
                stated = largest_loss(table)
            if stated is not None:
                return finite(stated, mechanism)
        case dominating.Gaussian(mu=0):
            return 0.0
        case dominating.ZCDP(rho=0) | dominating.DiscreteGaussian(rho=0) | dominating.SparseGaussian(alone=0):
            return 0.0
        case dominating.Gaussian() | dominating.ZCDP() | dominating.Table() | dominating.Mixture():
            pass
        case dominating.Smooth() | dominating.Approx() | dominating.DiscreteGaussian():
            pass
        case dominating.Selected(eta=eta, trial=trial) if eta is not None:
            one = sum(Fraction(_pure_of(inner, mechanism, scale)) * count for inner, count in trial)
            return finite(up((2 + Fraction(eta)) * one), mechanism)
        case dominating.SparseGaussian() | dominating.Selected():
            pass
        case _:
            assert_never(pair)
    what = f"no bound on the {scale} of a {mechanism.kind} mechanism is known here"
    raise CannotBound(
        what,
        where=f"mechanism {mechanism.kind}",
        remedy=_REMEDIES.get(type(mechanism.dominating_pair()), _ADDED_REMEDY),
    )


def pair_of(mechanism: BaseMechanism) -> dominating.Pair:
    """Return a mechanism's dominating pair; it is an `Added` one if another package defines the mechanism."""
    return mechanism.dominating_pair()


def rho_of(pair: dominating.Pair) -> Fraction | None:
    """Return the exact rho of a pair whose Renyi divergences are at most rho alpha; None for another pair."""
    match pair:
        case dominating.Gaussian():
            return pair.mu_squared / 2
        case dominating.ZCDP() | dominating.DiscreteGaussian():
            return pair.rho
        case dominating.Added():
            stated = pair.rho()
            return None if stated is None else Fraction(stated)
        case _:
            return None


@columns.additive(columns.gaussian_rho, columns.laplace_rho)
def rho(mechanism: AnyMechanism) -> float:
    """Return zCDP's rho.

    Gaussian noise: mu^2/2 (Bun and Steinke 2016, Proposition 1.6). Discrete Gaussian: sensitivity^2 /
    (2 sigma^2) (Canonne, Kamath, Steinke 2020, Theorem 4). Laplace: eps + e^-eps - 1 with eps =
    sensitivity/scale (Harrison and Manurangsi 2025). This does not hold for the discrete Laplace, whose loss
    at sensitivity 1 equals that of randomized response. Bounded range: eps^2/8 (Cesar and Rogers 2021, after
    Dong, Durfee, Rogers 2020). Sparse vector with Gaussian noise: the rho of releasing all noisy values. All
    other mechanisms with a pure epsilon: eps tanh(eps/2).
    """
    pair = mechanism.dominating_pair()
    known = rho_of(pair)
    if known is not None:
        return finite(up(known), mechanism)
    match pair:
        case dominating.Laplace():
            return laplace_to_zcdp(pure_epsilon(mechanism))
        case dominating.BoundedRange(epsilon=epsilon):
            return min(up(Fraction(epsilon) ** 2 / 8), pure_to_zcdp(epsilon))
        case dominating.SparseGaussian(alone=alone, steps=steps):
            return finite(up(alone**2 * steps / 2), mechanism)
        case _:
            return pure_to_zcdp(_pure(mechanism, "zCDP"))


@columns.additive(columns.gaussian_mu_squared, columns.laplace_mu_squared)
def mu_squared(mechanism: AnyMechanism) -> float:
    """Return the square of GDP's mu, which adds up (Dong, Roth, Su 2022, Corollary 3.3).

    Gaussian noise: sensitivity/sigma (Theorem 2.7). A symmetric matrix: in the orthonormal coordinates of
    the Frobenius inner product the noise is isotropic. A tree: once for each of the floor(log2 steps) + 1
    nodes that contain an item (Chan, Shi, Song 2011). A Gaussian process: on any points the change of the
    function has at most its RKHS norm (Hall, Rinaldo, Wasserman 2013, section 4). All other mechanisms with a
    pure epsilon: by a Gaussian trade-off curve that dominates.
    """
    pair = mechanism.dominating_pair()
    if isinstance(pair, dominating.Gaussian):
        return finite(up(pair.mu_squared), mechanism)
    if isinstance(pair, dominating.SparseGaussian):
        return finite(up(pair.alone**2 * pair.steps), mechanism)
    return finite(up(Fraction(pure_to_gdp(_pure(mechanism, "GDP"))) ** 2), mechanism)


def replaced_part(pair: dominating.Sampled) -> float | None:
    """Return the bound on a replaced unit's own part over the scale of Gaussian noise; None if it is no help.

    Two such parts may be twice the bound apart. If the sensitivity bounds their distance more tightly, and
    most units are sampled or the parts are long, the noise alone may protect more.
    """
    own, rate, moved = pair.contribution, pair.rate, pair.inner
    if own is None or not isinstance(moved, dominating.Gaussian) or not 0 < rate < 1 or moved.mu == 0:
        return None
    if own > moved.mu:
        return None
    far = moved.mu >= 2 * own * (1 - Fraction(1, 10**9))
    part = up(own)
    return part if (far or rate <= 0.5) and 1e-150 <= part <= 1e3 else None


def infinite_mass(table: dominating.Table) -> float:
    """Return a table's mass at infinite loss, plus any mass missing from 1 beyond rounding.

    Masses that add up to 1, each rounded to the nearest double, lack at most 2^-53 together.
    """
    missing = 1 - sum(map(Fraction, table.probabilities)) - Fraction(table.infinity)
    return up(Fraction(table.infinity) + missing) if missing > Fraction(1, 2**52) else table.infinity


def largest_loss(table: dominating.Table) -> float:
    """Return the largest finite loss with positive mass; at least 0."""
    pairs = zip(table.losses, table.probabilities, strict=True)
    return max([0.0, *(loss for loss, probability in pairs if probability > 0)])


def finite(cost: float, mechanism: AnyMechanism) -> float:
    """Return the cost; raises `CannotBound` if rounding made it infinite."""
    if not math.isfinite(cost):
        what = f"the cost of {mechanism.kind} noise exceeds every double"
        raise CannotBound(what, where=f"mechanism {mechanism.kind}", remedy="add noise")
    return cost
