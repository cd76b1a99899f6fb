"""Mechanisms known only by a guarantee, each with a written justification.

dpaudit cannot sample or test them: their figures rest on the `justification` alone, and the certificate
repeats it.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction as Exact
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from dpaudit.claims.sensitivity import Sensitivity
from dpaudit.errors import CannotBound, InvalidParameter, NormMismatch
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.base import Answer, Array, BaseMechanism, Move, Times, distance, fields
from dpaudit.models import Enlarged, Fraction, NonNegative, Number, finite

#: The largest allowed difference between 1 and the sum of a table's probabilities.
MASS_TOLERANCE = 1e-9

Justification = Annotated[str, Field(min_length=1, pattern=r"\S")]
FiniteFloat = Annotated[Number, AfterValidator(finite)]


class Opaque(BaseMechanism):
    """A mechanism known only by a guarantee.

    Attributes:
        sensitivity: the largest change of its query, if the justification assumes one; replay measures it.
            None: the guarantee holds for any two queries.
    """

    condition = "justified-guarantee"
    beside_cost: ClassVar[Mapping[str, Any]] = {"justification": "none was given"}

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """Return the distance of the queries in the sensitivity's norm, if one is stated."""
        stated = self.declared_sensitivity
        if stated is None:
            return super().moves(one, other)
        measured = distance(stated.norm, one[0].query - other[0].query)
        return [Move(measured, stated.value, f"in {stated.norm}")]

    def _moved_by(self, size: int, times: Times) -> dict[str, Sensitivity | None]:
        """Return the field `sensitivity` for a group of `size` units."""
        given = self.declared_sensitivity
        grown = given and given.model_copy(update={"value": times(given.value, size)})
        return {"sensitivity": grown}

    def nearest_output(self, value: Array, query: Array) -> None:
        """Return None: the possible outputs are unknown."""

    @model_validator(mode="after")
    def _norm_is_measured(self) -> Self:
        stated = self.declared_sensitivity
        if stated is not None and stated.norm == "rkhs":
            remedy = "give it in the norm l1, l2 or frobenius of the released values"
            what = f"a {type(self).__name__} mechanism with a sensitivity in a function space's norm"
            raise NormMismatch(what, where=f"{type(self).__name__}.sensitivity", remedy=remedy)
        return self


class OpaquePureDP(Opaque):
    """A mechanism known only to be epsilon-DP.

    Obligation: the `justification` shows epsilon-DP under the ledger's relation, for any earlier outputs. It
    may assume a `sensitivity`, which replay measures.
    """

    example = fields(epsilon=0.5, justification="the manual, Theorem 3")

    kind: Literal["pure-dp"] = "pure-dp"
    epsilon: Annotated[NonNegative, Enlarged]
    justification: Justification
    sensitivity: Sensitivity | None = None

    def dominating_pair(self) -> dominating.Pure:
        """Return the pair of the declared pure guarantee."""
        return dominating.Pure(self.epsilon)

    def for_group(self, size: int, times: Times) -> tuple[Self, int]:
        """Return `size` times epsilon (Dwork, Kenthapadi, McSherry, Mironov and Naor 2006)."""
        update = {"epsilon": times(self.epsilon, size), **self._moved_by(size, times)}
        return self.model_copy(update=update), 1


class OpaqueApproxDP(Opaque):
    """A mechanism known only to be (epsilon, delta)-DP.

    Obligation: the `justification` shows (epsilon, delta)-DP under the ledger's relation, for any earlier
    outputs. It may assume a `sensitivity`, which replay measures.
    """

    example = fields(epsilon=0.5, delta=1e-7, justification="the manual, Theorem 3")

    kind: Literal["approx-dp"] = "approx-dp"
    epsilon: Annotated[NonNegative, Enlarged]
    delta: Annotated[Fraction, Enlarged]
    justification: Justification
    sensitivity: Sensitivity | None = None

    def dominating_pair(self) -> dominating.Approx:
        """Return the pair of the declared (epsilon, delta) guarantee."""
        return dominating.Approx(self.epsilon, self.delta)

    def for_group(self, size: int, times: Times) -> tuple[Self, int]:
        """Return (k epsilon, delta (1 + e^epsilon + ... + e^((k-1) epsilon))) (Vadhan 2017, Lemma 2.2)."""
        # The sum is at most k e^((k-1) epsilon).
        exponent = (size - 1) * self.epsilon
        delta = math.inf if exponent > 700.0 else self.delta * size * math.exp(exponent) * (1.0 + 1e-12)
        if not delta < 1.0:
            what = f"a group of {size} is not protected by ({self.epsilon}, {self.delta})-DP"
            raise CannotBound(what, where="header.group_size", remedy="use a mechanism with a smaller delta")
        update = {"epsilon": times(self.epsilon, size), "delta": delta, **self._moved_by(size, times)}
        return self.model_copy(update=update), 1


class OpaqueZCDP(Opaque):
    """A mechanism known only to be rho-zCDP.

    Obligation: the `justification` shows rho-zCDP under the ledger's relation, for any earlier outputs. It
    may assume a `sensitivity`, which replay measures.
    """

    example = fields(rho=0.125, justification="the manual, Theorem 3")

    kind: Literal["zcdp"] = "zcdp"
    rho: NonNegative
    justification: Justification
    sensitivity: Sensitivity | None = None

    def dominating_pair(self) -> dominating.ZCDP:
        """Return the pair of the declared zCDP guarantee."""
        return dominating.ZCDP(Exact(self.rho))

    def for_group(self, size: int, times: Times) -> tuple[Self, int]:
        """Return the squared size times rho (Bun and Steinke 2016, Proposition 1.9)."""
        update = {"rho": times(self.rho, size**2), **self._moved_by(size, times)}
        return self.model_copy(update=update), 1


class Tabulated(Opaque):
    """A mechanism known by a table of its privacy loss.

    The table describes two distributions P and Q: with probability probabilities[i] under P the loss log(P/Q)
    is losses[i], and with probability `infinity` the outcome is impossible under Q.

    Obligation: delta(epsilon) of (P, Q) is an upper bound for every pair of neighbouring data sets in both
    orders (a dominating pair: Zhu, Dong and Wang 2022, Definition 7). The `justification` shows that; it may
    assume a `sensitivity`, which replay measures. Mass missing from 1, at most 1e-9, counts as infinite loss,
    except up to 2^-52, which is the rounding error of masses that add up to 1.

    Attributes:
        losses: finite, strictly increasing.
        probabilities: one for each loss.
        infinity: the mass at infinite loss.
    """

    example = fields(
        losses=[-0.5, 0.5], probabilities=[0.375, 0.625], infinity=0.0, justification="the manual, Theorem 3"
    )

    kind: Literal["tabulated"] = "tabulated"
    losses: Annotated[tuple[FiniteFloat, ...], Field(min_length=1)]
    probabilities: tuple[NonNegative, ...]
    infinity: Annotated[NonNegative, Field(le=1)] = 0.0
    justification: Justification
    sensitivity: Sensitivity | None = None

    def dominating_pair(self) -> dominating.Table:
        """Return the pair in the table."""
        return dominating.Table(self.losses, self.probabilities, self.infinity)

    @model_validator(mode="after")
    def _is_a_distribution(self) -> Self:
        if len(self.losses) != len(self.probabilities):
            what = f"{len(self.losses)} losses and {len(self.probabilities)} probabilities"
            where = "Tabulated.probabilities"
            raise InvalidParameter(what, where=where, remedy="give one probability for each loss")
        if any(right <= left for left, right in zip(self.losses, self.losses[1:], strict=False)):
            raise InvalidParameter("losses that do not increase", where="Tabulated.losses")
        total = math.fsum([*self.probabilities, self.infinity])
        if abs(total - 1.0) > MASS_TOLERANCE:
            raise InvalidParameter(f"probabilities that add up to {total}", where="Tabulated.probabilities")
        if self._neighbour_mass() > 1.0 + MASS_TOLERANCE:
            what = f"losses under which the neighbour's probabilities add up to {self._neighbour_mass()}"
            why = "sum of p e^-loss is the mass of Q, a probability"
            remedy = "tabulate log(P/Q) with P's probabilities"
            raise InvalidParameter(what, where="Tabulated.losses", why=why, remedy=remedy)
        return self

    def _neighbour_mass(self) -> float:
        pairs = zip(self.losses, self.probabilities, strict=True)
        try:
            return math.fsum(p * math.exp(-loss) for loss, p in pairs if p > 0)
        except OverflowError:
            return math.inf
