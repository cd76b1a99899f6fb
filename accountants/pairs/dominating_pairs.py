"""Privacy-loss terms of mechanisms: the worst pair of output distributions of each, with its theorem.

A term is a dominating pair. Composed dominating pairs dominate the composition, adaptive or not (Zhu, Dong
and Wang 2022, Theorem 10). Parameters are rational quotients of the ledger's doubles, rounded up: every
family here is monotone in its parameter.
"""

from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import TypeAlias, assert_never

from dpaudit.accountants.closed_forms.rounding import sqrt_up, up
from dpaudit.accountants.composition.costs import finite, pure_epsilon, replaced_part, rho
from dpaudit.accountants.pairs.batches import as_batch, as_poisson, batch_losses, least_of, swapped, under
from dpaudit.accountants.pairs.discrete_gaussian import discrete_gaussian_term, merged_gaussian_term
from dpaudit.accountants.pairs.mixtures import mixture_term
from dpaudit.accountants.pairs.moments import log_moment
from dpaudit.accountants.pairs.shuffled import shuffled_losses
from dpaudit.accountants.pairs.smooth import smooth_delta
from dpaudit.accountants.pairs.tables import MOST_MOVES, discrete_laplace_term, response_term, table_term
from dpaudit.accountants.privacy_loss import terms
from dpaudit.accountants.privacy_loss.terms import ApproxTerm, GaussianTerm, PureTerm, Term
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import AnyMechanism, dominating

#: The terms of one run of a mechanism, each with its count.
Losses: TypeAlias = Sequence[tuple[Term, int]]

#: The exposure of one unit's data: mechanisms with their numbers of runs.
Runs: TypeAlias = Collection[tuple[AnyMechanism, int]]


_ADDED = Neighbouring.ADD_OR_REMOVE_ONE
_LARGEST_PART = 1000  # a unit's part over the noise's scale; larger parts get no table

#: Pairs whose Renyi divergences have a bound by rho that is simpler than by losses, or the only one.
_KNOWN_BY_RHO = dominating.BoundedRange | dominating.ZCDP | dominating.DiscreteGaussian


def losses(
    mechanism: AnyMechanism, neighbouring: Neighbouring, *, mixture_first: bool | None = None
) -> Losses:
    """Return the dominating pairs of one run of a mechanism, in either order.

    A batch's pairs are tables. If its two orders differ, `mixture_first` names one of them; None gives a pair
    that dominates both.

    Gaussian noise: N(mu, 1) against N(0, 1), in a tree once for each node of an item.
    Laplace: the pair of one coordinate moved by the whole L1 sensitivity e. It dominates every split of
    it over coordinates. Proof for a split e = a + b, a <= b; the rest by induction, since domination
    survives composition. Clamp a coordinate's output to [0, a]: a sufficient statistic x with dP/dQ =
    e^(a - 2x) and P(x > t) = e^-t/2 for 0 <= t < a. Both the pair's w = x + y and the single
    coordinate's z have the ratio e^(e - 2 .), so delta(epsilon) is E_P[(u0 - u)_+] times a constant, for
    u = e^(2w) or e^(2z), u0 = e^(e - epsilon): the claim is that u(w) precedes u(z) in the convex order.
    Their means are equal, as Q is a probability; and P(w > t)/P(z > t) is 3/2 + t/2 for t < a, 1 + a/2
    for a <= t < b and 1/2 + (e - t)/2 for b <= t < e, hence crosses 1 once, from above. That is the cut
    criterion (Shaked and Shanthikumar 2007, Theorem 3.A.44). The other order of the pair is its mirror
    image; a smaller total is a split with one part dropped.

    Integer noise, randomized response, a table: see `dpaudit.accountants.pairs.tables`. Exponential: the
    supremum over all choices of its bounded range. Sampled: see `_sampled`. Smooth noise: its exact delta at
    its own epsilon. Raises `CannotBound`: the mechanism has no known dominating pair.
    """
    pair = mechanism.dominating_pair()
    match pair:
        case dominating.Gaussian(mu=mu, times=times):
            return [(GaussianTerm(finite(up(mu), mechanism)), times)]
        case dominating.Laplace(epsilon=epsilon):
            return [(terms.LaplaceTerm(finite(up(epsilon), mechanism)), 1)]
        case dominating.DiscreteLaplace():
            return [(term, 1) for term in discrete_laplace_term(pair)]
        case dominating.DiscreteGaussian(squared=squared) if squared <= 3:
            # At most `squared` entries move, each by one; that many dominate fewer. From 4 on one entry
            # may move by 2 instead, and no case is the worst.
            return [(discrete_gaussian_term(pair), squared)] if squared else []
        case dominating.Response():
            return [(response_term(pair), 1)]
        case dominating.BoundedRange(epsilon=range_):
            return [(terms.BoundedRangeTerm(range_), 1)]
        case dominating.SparseGaussian(alone=alone, steps=steps):
            # As if all noisy values were released.
            return [(GaussianTerm(finite(up(alone), mechanism)), steps)] if alone else []
        case dominating.Pure(epsilon=pure):
            return [(PureTerm(pure), 1)]
        case dominating.Sampled():
            return [(_sampled(pair, mechanism, neighbouring), pair.times)]
        case dominating.Batch():
            batch, replaced = under(pair, neighbouring), swapped(pair, neighbouring)
            sampled = as_poisson(batch, replaced=replaced)
            if sampled is not None:
                return [(_sampled(sampled, mechanism, Neighbouring.REPLACE_ONE if replaced else _ADDED), 1)]
            return [(batch_losses(batch, replaced=replaced, mixture_first=mixture_first).term, 1)]
        case dominating.Mixture():
            return [(mixture_term(pair, mechanism.kind, neighbouring, mixture_first=mixture_first), 1)]
        case dominating.Approx(epsilon=approximate, delta=delta):
            return [(ApproxTerm(approximate, delta), 1)]
        case dominating.Table():
            return [(table_term(pair), 1)]
        case dominating.Added():
            table = pair.table()
            return [(PureTerm(pure_epsilon(mechanism)) if table is None else table_term(table), 1)]
        case dominating.Smooth():
            delta = smooth_delta(pair.epsilon, pair.alpha, pair.beta, pair.dimension)
            return [(ApproxTerm(pair.epsilon, delta), 1)]
        case dominating.Shuffled():
            return [(shuffled_losses(pair).term, 1)]
        case dominating.Selected():
            try:
                return [(PureTerm(pure_epsilon(mechanism)), 1)]
            except CannotBound:
                log_moment(mechanism, neighbouring, mixture_first=True)  # says why divergences are no help
                raise _no_pair(mechanism) from None
        case dominating.ZCDP(rho=cost) | dominating.DiscreteGaussian(rho=cost):
            if cost == 0:
                return []
            raise _no_pair(mechanism)
        case _:
            assert_never(pair)


def _no_pair(mechanism: AnyMechanism) -> CannotBound:
    what = f"no dominating pair of a {mechanism.kind} mechanism is known"
    why = "its Renyi divergences are bounded, not its privacy loss"
    remedy = "use the accountant of Renyi divergences, or claim zCDP"
    return CannotBound(what, where=f"mechanism {mechanism.kind}", why=why, remedy=remedy)


def closer_by_divergences(mechanism: AnyMechanism) -> bool:
    """Return whether Renyi divergences (`log_moment`) may bound a mechanism better than its pair does.

    For smooth noise they use its own curve. For the exponential mechanism they use the one worst choice of
    its range for each order; its pair dominates all choices at once, with a variance larger by a third. (For
    many equal choices `adaptive_ranges` nearly closes that gap.) For sparse vector they use that its noisy
    values stay secret.
    """
    known = dominating.BoundedRange | dominating.Smooth | dominating.SparseGaussian | dominating.Selected
    return isinstance(mechanism.dominating_pair(), known | dominating.Added)


def loss_terms(
    runs: Runs, neighbouring: Neighbouring, *, mixture_first: bool | None = None
) -> list[tuple[Term, int]]:
    """Return the dominating pairs of all mechanisms with their counts; orders and errors as in `losses`."""
    found = ((losses(one, neighbouring, mixture_first=mixture_first), count) for one, count in runs)
    return [(term, times * count) for terms, count in found for term, times in terms]


def lower_terms(runs: Runs, neighbouring: Neighbouring) -> list[tuple[Term, int]] | None:
    """Return terms that cost at most as much as the mechanisms' pairs; None if `loss_terms` are exact.

    A mechanism without a known lower bound is left out, which only lowers the result.
    """
    found: list[tuple[Term, int]] = []
    inexact = False
    for mechanism, count in runs:
        own = losses(mechanism, neighbouring)
        if _only_upper_bound(mechanism.dominating_pair(), count) or any(map(_pessimistic, own)):
            inexact, own = True, _lower_bound(mechanism)
        found += [(term, times * count) for term, times in own]
    return found if inexact else None


def _only_upper_bound(pair: dominating.Pair, count: int) -> bool:
    """Return whether the terms of `count` runs are only an upper bound: single choices, long moves."""
    wide = isinstance(pair, dominating.DiscreteLaplace) and pair.moves > MOST_MOVES
    single = isinstance(pair, dominating.BoundedRange) and count > 1
    return wide or single or isinstance(pair, dominating.Added)


def _pessimistic(row: tuple[Term, int]) -> bool:
    return isinstance(row[0], terms.DiscreteTerm) and row[0].pessimistic


def _lower_bound(mechanism: AnyMechanism) -> Losses:
    """Return terms that cost no more than one run of a mechanism whose pair has only an upper bound."""
    match pair := mechanism.dominating_pair():
        case dominating.DiscreteGaussian():
            return [(merged_gaussian_term(pair), pair.squared)]
        case dominating.BoundedRange(epsilon=range_):
            return [(PureTerm(0.5 * range_), 1)]  # losses of half the range, up and down
        case dominating.Sampled() | dominating.Batch():
            least = least_of(as_batch(pair) if isinstance(pair, dominating.Sampled) else pair)
            return [] if least is None else [(_sampled(least, mechanism, _ADDED), 1)]
        case _:
            return []


def renyi_terms(runs: Runs, neighbouring: Neighbouring) -> list[tuple[Term, int]]:
    """Return terms like `loss_terms` that dominate only in every Renyi divergence.

    These include zCDP guarantees, the exponential mechanism by its bounded range (Cesar and Rogers 2021), and
    the discrete Gaussian, whose divergences are at most the continuous one's (Canonne, Kamath and Steinke
    2020, Theorem 4). Raises `CannotBound`: a mechanism has no zCDP.
    """
    found: list[tuple[Term, int]] = []
    for mechanism, count in runs:
        if isinstance(mechanism.dominating_pair(), _KNOWN_BY_RHO):
            found.append((GaussianTerm(sqrt_up(2 * Fraction(rho(mechanism)))), count))
        else:
            found += loss_terms([(mechanism, count)], neighbouring)
    return found


def _sampled(pair: dominating.Sampled, mechanism: AnyMechanism, neighbouring: Neighbouring) -> Term:
    """Return the pair of a Poisson sample.

    If a unit is added, removed or zeroed, the output is the inner mechanism's on the sum with or without the
    unit's row: the mixture (1 - rate) P0 + rate P1 against P0, for any sample of the others, by joint
    convexity. The inner dominating pair carries over (Zhu, Dong and Wang 2022, Theorem 11).

    If a unit is replaced, both outputs are mixtures with the same P0. With Gaussian noise and a bound on each
    unit's own part, the pair is `ReplacedGaussianTerm` (the same pair as in Schuchardt et al. 2024); it also
    covers a unit that enters or leaves. Without the bound, the sampled parts are within the inner sensitivity
    of each other, so the inner pair dominates, without amplification. For Laplace noise, and for parts that
    are longer than their change, see `batches`.
    """
    replaced = neighbouring is Neighbouring.REPLACE_ONE
    match moved := pair.inner if replaced else pair.own:
        case dominating.Gaussian(mu=exact):
            mu = finite(up(exact), mechanism)
            if not replaced:
                return terms.SampledGaussianTerm(mu, pair.rate)
            own = replaced_part(pair)
            if own is not None:
                return terms.ReplacedGaussianTerm(own, pair.rate)
            if exact < pair.own.size <= _LARGEST_PART and pair.rate < 1.0:
                return batch_losses(as_batch(pair), replaced=True, mixture_first=None).term
            return GaussianTerm(mu)
        case dominating.Laplace(epsilon=epsilon):
            if replaced and pair.rate < 1.0:
                return batch_losses(as_batch(pair), replaced=True, mixture_first=None).term
            return terms.SampledLaplaceTerm(finite(up(epsilon), mechanism), pair.rate)
        case _:
            assert_never(moved)
