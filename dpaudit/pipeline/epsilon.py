"""The cost of noise before any run; `calibrate` answers the inverse question."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dpaudit.accountants.accounting import bounds
from dpaudit.accountants.composition.composition import Composition, compose
from dpaudit.accountants.conditions import TrustedConditions
from dpaudit.certificate.conditions import Condition
from dpaudit.certificate.curve_points import CurvePoints
from dpaudit.claims.arguments import checked, require_kind
from dpaudit.claims.bounds import Bound
from dpaudit.claims.guarantees import AnyGuarantee, ApproxDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import AnyMechanism, BaseMechanism
from dpaudit.progress import Work


@checked("epsilon", neighbouring=Neighbouring)
def epsilon(
    releases: AnyMechanism | Sequence[Release],
    delta: float,
    *,
    count: int = 1,
    neighbouring: Neighbouring = Neighbouring.ADD_OR_REMOVE_ONE,
) -> Bound:
    """Return the least proved epsilon at `delta` of `count` runs of a mechanism, or of releases together.

    Releases have their own counts. Amplification by Poisson sampling depends on the relation.

    >>> from dpaudit import L1, Laplace, epsilon
    >>> round(epsilon(Laplace(scale=20.0, sensitivity=L1(1.0)), 1e-6, count=100).guarantee.epsilon, 4)
    2.1933

    Raises `InvalidParameter`: no releases, a count below 1, a count given with releases, a delta outside (0,
    1); `CannotBound`: no accountant has a bound.
    """
    if isinstance(releases, BaseMechanism):
        releases, count = [Release(label=releases.kind, mechanism=releases, count=count)], 1
    require_kind(releases, [Release], "epsilon(releases=)")
    if count != 1:
        why, remedy = "each release has a count of its own", "leave count out"
        raise InvalidParameter("count beside releases", where="epsilon(count=)", why=why, remedy=remedy)
    with Work("computing epsilon"):
        return Cost(releases, neighbouring).bound(ApproxDP(epsilon=0.0, delta=delta))


@dataclass(frozen=True, eq=False)
class Cost:
    """The joint cost of releases under a relation, for any algorithm."""

    releases: Sequence[Release]
    neighbouring: Neighbouring

    @cached_property
    def composition(self) -> Composition:
        """The releases, composed once for all questions; raises `InvalidParameter` where there are none."""
        if not self.releases:
            why, remedy = "nothing would be spent", "give at least one release"
            raise InvalidParameter("no releases", where="epsilon(releases=)", why=why, remedy=remedy)
        return compose(self.releases, self.neighbouring)

    def bound(self, scale: AnyGuarantee) -> Bound:
        """Return the tightest bound on a guarantee's scale, at its delta; raise `CannotBound` without one."""
        found = bounds(self.composition, scale)
        if not found:
            what, remedy = f"no bound on the scale of {scale} is known", "ask for epsilon at a delta"
            raise CannotBound(what, where="epsilon", remedy=remedy)
        return found[0]

    def curves(self) -> tuple[CurvePoints, ...]:
        """Return delta(epsilon) as points, by every accountant that has a curve."""
        from dpaudit.accountants.curves.curves import profiles
        from dpaudit.accountants.curves.profile_points import points_of

        return points_of(profiles(self.composition))

    def not_checked(self) -> list[Condition]:
        """Return the conditions that the figures take on trust."""
        trusted = TrustedConditions()
        for release in self.releases:
            trusted.add(release)
        return trusted.found()
