"""The share of a run's budget that some of its releases cost."""

from collections.abc import Sequence

from dpaudit.accountants.accounting import bounds, on_some_scale
from dpaudit.accountants.composition.composition import compose
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound
from dpaudit.ledger.releases import Release


def budget_share(
    part: Sequence[Release], rest: Sequence[Release], neighbouring: Neighbouring, group_size: int = 1
) -> tuple[float, str] | None:
    """Return the cost of part of a recording as a share of the total cost, in [0, 1], and its scale.

    The scale is rho, which adds up, or epsilon at a small delta if there is no rho. None: no bound is known.
    """
    try:
        composition = compose([*part, *rest], neighbouring, group_size)
        total = on_some_scale(composition)[0].guarantee
        for release in rest:
            composition.remove(release)
        alone = bounds(composition, total)
    except CannotBound:
        return None
    if not alone or leading_figure(total) <= 0.0:
        return None
    scale = f"epsilon at delta {total.delta:g}" if isinstance(total, ApproxDP) else "rho"
    return min(1.0, leading_figure(alone[0].guarantee) / leading_figure(total)), scale
