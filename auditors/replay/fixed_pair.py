"""The loss in closed form, for releases whose queries differ by the same amount after any earlier outputs.

That holds for a run's first question, which no output precedes. For later ones no number of recordings can
show it, since the outputs at which the loss is large are rare: the caller must state it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpaudit.auditors.replay.likelihood import gaussian_share, releases_of
from dpaudit.auditors.statistics.gaussian_pair import LARGEST_EPSILON, MARGIN, epsilon_below
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.curator.noise import Entry
from dpaudit.mechanisms import Array, DiscreteLaplace, Exponential, Laplace, RandomizedResponse


@dataclass(frozen=True)
class FixedPair:
    """Releases of a pair that are independent of each other, whose loss is known without sampling.

    Attributes:
        mu: their Gaussian releases are a Gaussian pair this far apart, rounded down; others add to the loss.
        largest: the largest loss that any outputs have, rounded down.
    """

    mu: float
    largest: float

    @classmethod
    def of(cls, recorded: Sequence[Entry], other: Sequence[Entry], *, whole: bool) -> FixedPair:
        """The pair of the first question alone, or of all of them where `whole`.

        Args:
            recorded: the entries of a run on the data.
            other: of its replay on the neighbour, as many.
            whole: whether the caller states that no query depends on an earlier output.
        """
        count = len(recorded) if whole else _until_first_answer(recorded)
        entries, twins = recorded[:count], other[:count]
        shares = gaussian_share(entries, query_differences(entries, twins))
        # Leaving a release out is post-processing: what is left bounds the pair from below.
        square = math.fsum(share for share, exact in shares if exact)
        largest = (
            math.inf
            if square > 0.0
            else math.fsum(
                _largest_loss(entries[group[0]], twins[group[0]]) for group in releases_of(entries)
            )
        )
        mu = math.sqrt(min(square, 1e300)) * (1.0 - MARGIN)
        return cls(mu, largest * (1.0 - MARGIN))

    def epsilon(self, delta: float) -> float:
        """A lower bound on epsilon at `delta`, in [0, 1)."""
        if delta == 0.0:
            return min(LARGEST_EPSILON, self.largest)
        return epsilon_below(delta, min(self.mu, 1e3))

    def contradicts(self, guarantee: AnyGuarantee, tolerance: float) -> bool:
        """Whether the guarantee's figure, raised by a relative tolerance, is smaller than the pair's."""
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
    """The data's queries minus the neighbour's."""
    with np.errstate(over="ignore"):
        return [one.query - two.query for one, two in zip(recorded, other, strict=True)]


def _until_first_answer(entries: Sequence[Entry]) -> int:
    """How many entries the first question takes, with the openings before it, which have no output."""
    return next((at + 1 for at, entry in enumerate(entries) if entry.output.size), len(entries))


def _largest_loss(entry: Entry, twin: Entry) -> float:
    """The largest loss of a release by itself; 0 where it is not known."""
    mechanism = entry.release.mechanism
    match mechanism:
        case Laplace() | DiscreteLaplace():
            with np.errstate(over="ignore"):  # what no double holds is infinite
                return float(np.abs((entry.query - twin.query) / mechanism.scale).sum())
        case RandomizedResponse():
            return float(np.count_nonzero(entry.query - twin.query)) * mechanism.epsilon
        case Exponential():
            indices = [np.array(float(index)) for index in range(entry.query.size)]
            return max(
                mechanism.log_density(index, entry.query) - mechanism.log_density(index, twin.query)
                for index in indices
            )
        case _:
            return 0.0
