"""State one guarantee on every other scale."""

import numbers
from collections.abc import Sequence
from typing import Final

from dpaudit.accountants.curves.conversion_table import Conversion, conversions
from dpaudit.claims.arguments import checked
from dpaudit.claims.guarantees import DELTAS, RDP, AnyGuarantee, ApproxDP
from dpaudit.errors import CannotBound, InvalidParameter

ORDERS: Final = (2.0, 32.0)


@checked("convert", guarantee=AnyGuarantee, deltas=[numbers.Real], orders=[numbers.Real])
def convert(
    guarantee: AnyGuarantee, *, deltas: Sequence[float] = DELTAS, orders: Sequence[float] = ORDERS
) -> list[Conversion]:
    """Return the implied guarantee on every other scale, each with its theorem, rigour and slack.

    Epsilon is computed at each of `deltas`, the Renyi divergence at each of `orders`.

    >>> from dpaudit import ZCDP, convert
    >>> row = next(row for row in convert(ZCDP(rho=0.5), deltas=[1e-6]) if row.guarantee.kind == "approx-dp")
    >>> str(row.guarantee)
    '(5.22153, 1e-06)-DP'

    Raises `InvalidParameter`: a delta or an order outside its range; `CannotBound`: no bound is known for so
    large a figure.
    """
    require_points(deltas, orders)
    try:
        return conversions(guarantee, deltas, orders)
    except (CannotBound, InvalidParameter) as error:
        what = f"{guarantee} on every other scale: {error.what}"
        remedy = "convert a smaller figure: no bound is known for one as large"
        raise CannotBound(what, where="dpaudit convert", remedy=remedy) from None


def require_points(deltas: Sequence[float], orders: Sequence[float]) -> None:
    """Raise `InvalidParameter` for a delta that is not a probability, or an order out of range."""
    for delta in deltas:
        ApproxDP(epsilon=0.0, delta=delta)
    for order in orders:
        RDP(alpha=order, epsilon=0.0)
