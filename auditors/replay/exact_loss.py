"""The exact privacy loss of a pair, from replays: bounds on epsilon, and tests of a claim.

The loss of a transcript is L = sum over releases of ln p(output | query on the data) / p(output | query on
the neighbour), and delta(epsilon) of the pair is E[(1 - e^(epsilon - L))_+] over recordings on the data.
A bound on the transcript's loss is a bound for the pair only.

Every claim implies E[f] <= 1 for some f(recording) >= 0. With importance weights w, for recordings from
another distribution: w (1 - e^(epsilon - L))_+ / delta for a point (epsilon, delta), w e^((alpha - 1) (L -
alpha rho)) for zCDP (Bun and Steinke 2016, Definition 1.1). Then the product of 1 + c (f - 1) over
independent recordings, averaged over several stakes c in (0, 1), is an e-value: by Markov's inequality it
passes 1/a with probability at most a if the claim is true (Waudby-Smith and Ramdas 2024, section 4; for one
side it suffices that f is bounded from below). This holds for any number of recordings, and no variance has
to be known. f falls with epsilon, so the epsilons rejected at one delta form an interval from 0. Its end is
the bound.

The loss is known in closed form for releases whose queries differ by the same amount after any earlier
outputs. That holds for a run's first question, which no output precedes. For later questions the caller must
state it: outputs with a large loss are rare, so no number of recordings can show it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpaudit.auditors.replay.likelihood import gaussian_share, releases_of
from dpaudit.auditors.replay.recording import off_by
from dpaudit.auditors.statistics import gaussian_pair
from dpaudit.auditors.statistics.gaussian_pair import LARGEST_EPSILON, epsilon_below
from dpaudit.certificate.verdicts import CLAIM_TOLERANCE
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.claims.relations import View
from dpaudit.curator.noise import Entry
from dpaudit.mechanisms import Array, Choice, DiscreteLaplace, Laplace, RandomizedResponse

#: Where a bound on epsilon is stated if the claim names no delta.
DEFAULT_DELTA = 1e-5
#: A loss is a difference of large numbers: it is lowered by this much, relative, to allow for rounding.
_LOSS_MARGIN = 1e-9
_STAKES = np.concatenate([np.geomspace(1e-3, 0.1, 6), np.linspace(0.15, 0.95, 17), [0.98, 0.995]])


@dataclass(frozen=True)
class Losses:
    """The losses [n] of recordings on one side of a pair; infinite if the other side cannot produce one.

    `log_weights` [n] are their importance weights, zeros for recordings with ordinary noise; `order`
    is a Renyi order above 1 for which the recordings are informative.
    """

    losses: Array
    log_weights: Array
    order: float = 2.0

    def __post_init__(self) -> None:
        lowered = self.losses - _LOSS_MARGIN * (1.0 + np.abs(np.minimum(self.losses, 1e300)))
        object.__setattr__(self, "losses", lowered)
        object.__setattr__(self, "log_weights", self.log_weights - _LOSS_MARGIN)

    def epsilon_lower(self, delta: float, error: float) -> float:
        """Return a lower bound on the pair's epsilon at `delta`, wrong with probability at most `error`.

        At delta = 0 it cannot be wrong: an observed loss has positive probability.
        """
        if delta == 0.0:
            return min(LARGEST_EPSILON, max(0.0, float(self.losses.max(initial=0.0))))
        needed = math.log(1.0 / error)
        return gaussian_pair.largest_rejected(
            lambda epsilon: _log_evidence([self._point(epsilon, delta)]) >= needed
        )

    def p_value(self, guarantee: AnyGuarantee) -> float:
        """Return the p-value of the hypothesis that the guarantee holds for this side of the pair."""
        if isinstance(guarantee, PureDP):
            return 0.0 if self.epsilon_lower(0.0, 0.5) > guarantee.epsilon else 1.0
        return float(np.exp(min(0.0, -self.evidence(guarantee))))

    def evidence(self, guarantee: AnyGuarantee) -> float:
        """Return the log of the e-value against a guarantee that is not pure.

        The e-value is a martingale over the recordings. So the bound and the p-value are valid whenever the
        recordings end (Ville 1939).
        """
        return _log_evidence(self._functionals(guarantee))

    def _functionals(self, guarantee: AnyGuarantee) -> list[Array]:
        """Return log f of each recording, for every f that is tried: [n] each."""
        match guarantee:
            case ApproxDP():
                return [self._point(guarantee.epsilon, guarantee.delta)]
            case GDP():
                mu = guarantee.mu
                at = [epsilon_below(delta, mu) for delta in (0.1, 1e-3, DEFAULT_DELTA)] if mu > 0.0 else [0.0]
                curve = [(epsilon, gaussian_pair.delta_above(epsilon, mu)) for epsilon in at]
                return [self._point(epsilon, delta) for epsilon, delta in curve if delta > 0.0]
            case ZCDP():
                orders = [1.0 + share * (self.order - 1.0) for share in (0.1, 0.25, 0.5, 1.0)]
                return [self._moment(order, guarantee.rho * order) for order in orders]
            case RDP():
                return [self._moment(guarantee.alpha, guarantee.epsilon)]
            case PureDP():
                raise AssertionError
        raise AssertionError

    def _point(self, epsilon: float, delta: float) -> Array:
        with np.errstate(divide="ignore"):
            excess = np.log(-np.expm1(np.minimum(epsilon - self.losses, 0.0)))
        return np.asarray(self.log_weights + excess - math.log(delta))

    def _moment(self, order: float, divergence: float) -> Array:
        return np.asarray(self.log_weights + (order - 1.0) * (self.losses - divergence))


def _log_evidence(functionals: Sequence[Array]) -> float:
    """Return the log of the e-value against E[f] <= 1 for each f, given log f of each recording."""
    if not functionals:
        return -math.inf
    table = np.stack(functionals)[:, None, :]  # [f, 1, n]
    stakes = _STAKES[None, :, None]
    wealth = np.logaddexp(np.log1p(-stakes), np.log(stakes) + table).sum(axis=-1)  # [f, stakes]
    return float(np.logaddexp.reduce(wealth, axis=None)) - math.log(wealth.size)


def number_of_tests(directions: int, guarantee: AnyGuarantee | None, delta: float | None) -> int:
    """Return the number of tests that share the error evenly."""
    own, at = _deltas(guarantee, delta)
    # At the claim's own delta the p-value and the bound come from one test.
    return directions * (1 if guarantee is None or at == own else 2)


def _deltas(guarantee: AnyGuarantee | None, delta: float | None) -> tuple[float | None, float]:
    """Return the claim's own delta, if it has one, and the delta at which epsilon is bounded."""
    own = 0.0 if isinstance(guarantee, PureDP) else getattr(guarantee, "delta", None)
    return own, delta if delta is not None else DEFAULT_DELTA if own is None else own


@dataclass(frozen=True)
class Direction:
    """One pair in one direction: its sampled losses, and its releases with a loss in closed form."""

    losses: Losses
    fixed: FixedPair

    def size(self) -> tuple[float, float]:
        """Return the size of the loss: in closed form, then from recordings."""
        return max(self.fixed.mu, min(self.fixed.largest, LARGEST_EPSILON)), float(
            self.losses.losses.max(initial=0.0)
        )


def loss_figures(
    directions: Sequence[Direction], claim: Claim | None, delta: float | None, confidence: float
) -> dict[str, Any]:
    """Return the fields of an `Audit` about the exact loss in one or more directions.

    The error is split evenly over the directions, and between the bound on epsilon and the p-value if these
    are two tests. Results in closed form cost no error.
    """
    guarantee = None if claim is None else claim.guarantee
    own, at = _deltas(guarantee, delta)
    tests = number_of_tests(len(directions), guarantee, delta)
    error = (1.0 - confidence) / tests
    figures: dict[str, Any] = {
        "epsilon_lower": max(max(d.fixed.epsilon(at), d.losses.epsilon_lower(at, error)) for d in directions),
        "delta": at,
        "confidence": confidence,
        # The number of replays sets no limit: a certain or an observed loss may be of any size.
        "largest_refutable_epsilon": LARGEST_EPSILON,
    }
    mu = max(d.fixed.mu for d in directions)
    counts = [len(d.losses.losses) for d in directions]
    count = str(max(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    closed = f"; in closed form at least mu = {mu:.6g}" if mu > 0.0 else ""
    figures["event"] = f"the exact loss of {count} replays in each of {len(directions)} directions{closed}"
    if claim is None or guarantee is None:
        return figures | {"mu_lower": mu}
    if claim.view is not View.ALL_RELEASES:
        reason = (
            f"the claim is about the view {str(claim.view)!r}, the exact loss about all releases, "
            "which may reveal more"
        )
        return figures | {"inconclusive": [reason]}
    if isinstance(guarantee, PureDP | ApproxDP) and own is not None and at >= own:
        # (epsilon, delta)-DP implies nothing at a smaller delta.
        figures["epsilon_claimed"] = guarantee.epsilon
    certain = any(d.fixed.contradicts(guarantee, CLAIM_TOLERANCE) for d in directions)
    p_value = min(1.0, tests * min(d.losses.p_value(guarantee) for d in directions))
    return figures | {"mu_lower": mu, "p_value": 0.0 if certain else p_value}


@dataclass(frozen=True)
class FixedPair:
    """Independent releases of a pair, with their loss in closed form.

    `mu` is the distance of the Gaussian pair that the Gaussian releases form; other releases add to the
    loss. `largest` is the largest loss of any outputs. Both are rounded down.
    """

    mu: float
    largest: float

    @classmethod
    def of(cls, recorded: Sequence[Entry], other: Sequence[Entry], *, whole: bool) -> FixedPair:
        """Return the pair of the first question alone, or of all questions if `whole`.

        `recorded` are the entries of a run on the data, `other` the entries of its replay on the neighbour,
        equally many. `whole`: the caller states that no query depends on an earlier output.
        """
        # The first question includes the openings before it, which have no output.
        answered = (at + 1 for at, entry in enumerate(recorded) if entry.output.size)
        count = len(recorded) if whole else next(answered, len(recorded))
        entries, twins = recorded[:count], other[:count]
        shares = gaussian_share(entries, query_differences(entries, twins))
        # Leaving a release out is post-processing: the remaining releases bound the pair from below.
        square = math.fsum(share for share, exact in shares if exact)
        groups = [] if square > 0.0 else releases_of(entries)
        single = math.fsum(_largest_loss(entries[group[0]], twins[group[0]]) for group in groups)
        largest = math.inf if square > 0.0 else single
        down = 1.0 - gaussian_pair.MARGIN
        return cls(math.sqrt(min(square, 1e300)) * down, largest * down)

    def epsilon(self, delta: float) -> float:
        """Return a lower bound on epsilon at `delta`, in [0, 1)."""
        if delta == 0.0:
            return min(LARGEST_EPSILON, self.largest)
        return epsilon_below(delta, min(self.mu, 1e3))

    def contradicts(self, guarantee: AnyGuarantee, tolerance: float) -> bool:
        """Return whether the guarantee's figure, raised by a relative tolerance, is below the pair's."""
        mu, slack = self.mu, 1.0 + tolerance
        match guarantee:
            case PureDP():
                return self.epsilon(0.0) > guarantee.epsilon * slack
            case ApproxDP():
                return self.epsilon(guarantee.delta) > guarantee.epsilon * slack
            case ZCDP():
                return 0.5 * mu * mu > guarantee.rho * slack
            case RDP():
                return 0.5 * guarantee.alpha * mu * mu > guarantee.epsilon * slack
            case GDP():
                return mu > guarantee.mu * slack


def query_differences(recorded: Sequence[Entry], other: Sequence[Entry]) -> list[Array]:
    """Return the data's queries minus the neighbour's, rounded towards zero.

    A query may be the double nearest to an exact sum.
    """
    with np.errstate(over="ignore"):
        found = [one.query - two.query for one, two in zip(recorded, other, strict=True)]
    off = [off_by(one.query) + off_by(two.query) for one, two in zip(recorded, other, strict=True)]
    return [np.copysign(np.maximum(np.abs(x) - most, 0.0), x) for x, most in zip(found, off, strict=True)]


def _largest_loss(entry: Entry, twin: Entry) -> float:
    """Return the largest loss of a single release; 0 if it is not known."""
    mechanism = entry.release.mechanism
    match mechanism:
        case Laplace() | DiscreteLaplace():
            with np.errstate(over="ignore"):  # infinite beyond the largest double
                return float(np.abs(query_differences([entry], [twin])[0] / mechanism.scale).sum())
        case RandomizedResponse():
            return float(np.count_nonzero(entry.query - twin.query)) * mechanism.epsilon
        case Choice():
            # The candidate that gains most; another candidate may have a larger loss.
            index = np.array(float(np.argmax(entry.query - twin.query)))
            sides = [mechanism.log_density(index, one.query) for one in (entry, twin)]
            return 0.0 if sides[0] is None or sides[1] is None else sides[0] - sides[1]
        case _:
            return 0.0
