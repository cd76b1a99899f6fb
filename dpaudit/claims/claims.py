"""A claim: a guarantee with its unit, neighbouring relation, trust model, view and premises."""

import operator
from typing import Literal, Self

from dpaudit.claims.guarantees import AnyGuarantee, Guarantee
from dpaudit.claims.relations import Neighbouring, TrustModel, View
from dpaudit.errors import ClaimMismatch
from dpaudit.models import Model, Number

_RELATIONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class Premise(Model):
    """A named condition of a claim's theorem: an inequality between two public numbers."""

    name: str
    left: Number
    relation: Literal["<", "<=", ">", ">="]
    right: Number
    source: str = ""

    @property
    def holds(self) -> bool:
        """Whether the inequality is true; a NaN on either side makes it false."""
        return bool(_RELATIONS[self.relation](self.left, self.right))

    def __str__(self) -> str:
        return f"{self.name}: {self.left:.6g} {self.relation} {self.right:.6g}"


class Claim(Model):
    """A statement about an algorithm that dpaudit proves or tries to refute.

    Args:
        guarantee: the claimed guarantee.
        unit: the unit of privacy (``"row"``, ``"trajectory"``, ``"user"``); by default the ledger's.
        neighbouring: the neighbouring relation; by default the ledger's.
        trust_model: central, local or joint; by default the ledger's.
        view: the outputs that the adversary sees.
        premises: conditions of the claim's theorem; dpaudit checks each.
        assumptions: conditions that dpaudit cannot check; the certificate repeats them.
    """

    guarantee: Guarantee
    unit: str | None = None
    neighbouring: Neighbouring | None = None
    trust_model: TrustModel | None = None
    view: View = View.ALL_RELEASES
    premises: tuple[Premise, ...] = ()
    assumptions: tuple[str, ...] = ()

    def __init__(self, guarantee: AnyGuarantee | None = None, /, **fields: object) -> None:
        if guarantee is not None:
            fields["guarantee"] = guarantee
        super().__init__(**fields)

    def about(self, unit: str, neighbouring: Neighbouring, trust_model: TrustModel) -> Self:
        """Return this claim with a ledger's unit, relation and trust model filled in.

        Raises `ClaimMismatch` if the claim names another unit, relation or trust model.
        """
        stated = {"unit": self.unit, "neighbouring": self.neighbouring, "trust_model": self.trust_model}
        meant = {"unit": unit, "neighbouring": neighbouring, "trust_model": trust_model}
        for name, value in stated.items():
            if value is not None and value != meant[name]:
                own = f"{str(meant[name])!r}"
                what = f"the claim is about {name} {str(value)!r}, the ledger about {own}"
                remedy = f"claim {name} {own}, or run the algorithm for the claim's {name}"
                raise ClaimMismatch(what, where=f"claim.{name}", remedy=remedy)
        return self.model_copy(update=meant)

    def __str__(self) -> str:
        words = [str(self.guarantee)]
        if self.unit:
            words.append(f"per {self.unit}")
        if self.neighbouring:
            words.append(f"({self.neighbouring}, {self.trust_model})")
        return " ".join(words)


def left_out(claim: Claim, own: Claim | None) -> str:
    """Describe the premises, assumptions and view of the ledger's own claim that `claim` omits, if any."""
    if own is None:
        return ""
    words = [f"the premise {premise}" for premise in own.premises if premise not in claim.premises]
    words += [f"the assumption {line!r}" for line in own.assumptions if line not in claim.assumptions]
    words += [f"the view {str(own.view)!r}"] if own.view is not claim.view else []
    return f"its claim omits from its ledger's own claim: {', '.join(words)}" if words else ""
