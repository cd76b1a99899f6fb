"""Upper bounds from accounting and lower bounds from audits, each with its method and rigour."""

from typing import Any, Final, Literal, Self, get_args

from pydantic import model_validator

from dpaudit.claims.guarantees import Guarantee, figures, leading_figure
from dpaudit.errors import InvalidParameter
from dpaudit.models import Fraction, Model, NonNegative

#: interval: enclosed in ball arithmetic; float-pessimistic: every rounding is in the safe direction or
#: covered by a stated slack; float: ordinary rounding.
Rigour = Literal["interval", "float-pessimistic", "float"]

_STRICTEST_FIRST: Final = get_args(Rigour)


def as_rigorous(found: Rigour, stated: Rigour) -> bool:
    """Return whether the rigour `found` is at least the rigour `stated`."""
    return _STRICTEST_FIRST.index(found) <= _STRICTEST_FIRST.index(stated)


class Bound(Model):
    """An upper bound: a guarantee that holds; or a lower bound: a guarantee that does not hold.

    Attributes:
        direction: ``upper`` from an accountant, ``lower`` from an audit.
        guarantee: the bound's figures.
        method: the accountant or auditor.
        rigour: the control of rounding errors.
        confidence: for lower bounds, the probability that the bound holds.
        at_least: for upper bounds, a lower bound of the same method on the leading figure: the exact
            composition of the dominating pairs lies between the two. The mechanism itself may be more
            private than its pair. None if the method does not enclose the pairs.
    """

    direction: Literal["upper", "lower"] = "upper"
    guarantee: Guarantee
    method: str
    rigour: Rigour = "float-pessimistic"
    confidence: Fraction | None = None
    at_least: NonNegative | None = None

    @model_validator(mode="after")
    def _encloses(self) -> Self:
        if self.at_least is None:
            return self
        if self.direction != "upper" or self.at_least > leading_figure(self.guarantee):
            what = f"{self.guarantee} as an {self.direction} bound, and at_least {self.at_least!r}"
            why = "the exact figure lies between at_least and an upper bound"
            remedy = "leave at_least out, or give what the same method found"
            raise InvalidParameter(what, where="Bound.at_least", why=why, remedy=remedy)
        return self

    def row(self) -> dict[str, Any]:
        """Return the bound as a flat row of a table."""
        row = {"accountant": self.method, **figures(self.guarantee), "rigour": self.rigour}
        return row if self.at_least is None else {**row, "at_least": self.at_least}
