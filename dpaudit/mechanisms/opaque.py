"""Mechanisms known by a guarantee alone, each with a written justification.

Nothing here can be sampled or tested: what stands in `justification` is all that the figures rest on,
and what is taken on trust repeats it.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from dpaudit.errors import InvalidParameter
from dpaudit.models import Fraction, Model, NonNegative, Number, finite

#: How far a table's probabilities may be from adding up to 1.
MASS_TOLERANCE = 1e-9

Justification = Annotated[str, Field(min_length=1, pattern=r"\S")]
FiniteFloat = Annotated[Number, AfterValidator(finite)]


class OpaquePureDP(Model):
    """A mechanism of which only epsilon-DP is known.

    Obligation: the justification shows epsilon-DP under the ledger's relation, for any earlier outputs.
    """

    kind: Literal["pure-dp"] = "pure-dp"
    epsilon: NonNegative
    justification: Justification


class OpaqueApproxDP(Model):
    """A mechanism of which only (epsilon, delta)-DP is known.

    Obligation: the justification shows (epsilon, delta)-DP under the ledger's relation, for any earlier
    outputs.
    """

    kind: Literal["approx-dp"] = "approx-dp"
    epsilon: NonNegative
    delta: Fraction
    justification: Justification


class OpaqueZCDP(Model):
    """A mechanism of which only rho-zCDP is known.

    Obligation: the justification shows rho-zCDP under the ledger's relation, for any earlier outputs.
    """

    kind: Literal["zcdp"] = "zcdp"
    rho: NonNegative
    justification: Justification


class Tabulated(Model):
    """A mechanism known by a table of its privacy loss.

    Obligation: for the pair P, Q with log(P/Q) = losses[i] where P has mass probabilities[i], and Q
    none where P has the mass `infinity`, delta(epsilon) of (P, Q) is an upper bound for every pair of
    neighbouring data sets in both orders (a dominating pair: Zhu, Dong and Wang 2022, Definition 7).
    What the masses lack of 1, at most 1e-9, is to be counted as infinite loss; up to 2^-52 of it is the
    rounding of masses that do add up to 1.

    Attributes:
        losses: finite, strictly increasing.
        probabilities: one for each loss.
        infinity: the mass at infinite loss.
    """

    kind: Literal["tabulated"] = "tabulated"
    losses: Annotated[tuple[FiniteFloat, ...], Field(min_length=1)]
    probabilities: tuple[NonNegative, ...]
    infinity: Annotated[NonNegative, Field(le=1)] = 0.0
    justification: Justification

    @model_validator(mode="after")
    def _is_a_distribution(self) -> Self:
        if len(self.losses) != len(self.probabilities):
            raise InvalidParameter(
                f"{len(self.losses)} losses and {len(self.probabilities)} probabilities",
                where="Tabulated.probabilities",
                remedy="give one probability for each loss",
            )
        if any(right <= left for left, right in zip(self.losses, self.losses[1:], strict=False)):
            raise InvalidParameter("losses that do not increase", where="Tabulated.losses")
        total = math.fsum([*self.probabilities, self.infinity])
        if abs(total - 1.0) > MASS_TOLERANCE:
            raise InvalidParameter(f"probabilities that add up to {total}", where="Tabulated.probabilities")
        if self._neighbour_mass() > 1.0 + MASS_TOLERANCE:
            raise InvalidParameter(
                f"losses under which the neighbour's probabilities add up to {self._neighbour_mass()}",
                where="Tabulated.losses",
                why="sum of p e^-loss is the mass of Q, a probability",
                remedy="tabulate log(P/Q) with P's probabilities",
            )
        return self

    def _neighbour_mass(self) -> float:
        pairs = zip(self.losses, self.probabilities, strict=True)
        try:
            return math.fsum(p * math.exp(-loss) for loss, p in pairs if p > 0)
        except OverflowError:
            return math.inf
