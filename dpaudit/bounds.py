"""Upper bounds from accounting and lower bounds from audits, each with its method and rigour."""

from __future__ import annotations

from typing import Any, Literal

from dpaudit.guarantees import Guarantee, figures
from dpaudit.models import Fraction, Model

#: interval: enclosed in ball arithmetic; float-pessimistic: every rounding goes the safe way or is
#: covered by a stated slack; float: ordinary rounding.
Rigour = Literal["interval", "float-pessimistic", "float"]


class Bound(Model):
    """A guarantee that holds (upper) or a smaller one that does not (lower).

    Attributes:
        direction: ``upper`` from an accountant, ``lower`` from an audit.
        guarantee: the bound's figures.
        method: the accountant or auditor.
        rigour: how far rounding is controlled.
        confidence: for lower bounds, the probability with which it holds.
    """

    direction: Literal["upper", "lower"] = "upper"
    guarantee: Guarantee
    method: str
    rigour: Rigour = "float-pessimistic"
    confidence: Fraction | None = None

    def row(self) -> dict[str, Any]:
        """The bound as one flat row of a table."""
        return {"accountant": self.method, **figures(self.guarantee), "rigour": self.rigour}
