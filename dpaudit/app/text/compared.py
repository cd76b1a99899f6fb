"""What changed in privacy between two runs: terms, claim, total, and each release's share in it."""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from dpaudit.app.text.tables import bound_figure, figure
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.verdicts import Accounting, ReleaseAccount, leading_figure, within
from dpaudit.claims.bounds import Bound
from dpaudit.claims.guarantees import RDP, AnyGuarantee, ApproxDP
from dpaudit.claims.relations import View
from dpaudit.ledger.ledger import Header
from dpaudit.ledger.releases import Release

#: Whether a cost grew; None where the two cannot be compared.
Grew = bool | None

Status = Literal["new", "costlier", "changed", "cheaper", "gone"]


@dataclass(frozen=True)
class Side:
    """One of the two runs, with its tightest bound; figures under different terms are not compared."""

    terms: Mapping[str, str]
    claim: AnyGuarantee | None
    total: Bound | None
    releases: Sequence[ReleaseAccount]

    @classmethod
    def of_certificate(cls, certificate: Certificate) -> Self:
        """The side that a certificate describes."""
        total = next(iter(certificate.bounds), None)
        terms = _terms(certificate, certificate.view)
        return cls(terms, certificate.claim.guarantee, total, certificate.releases)

    @classmethod
    def of_ledger(cls, header: Header, accounting: Accounting) -> Self:
        """Return the side that a ledger's accounting gives."""
        claimed = None if header.claim is None else header.claim.guarantee
        view = View.ALL_RELEASES if accounting.claim is None else accounting.claim.view
        total = next(iter(accounting.bounds), None)
        return cls(_terms(header, view), claimed, total, accounting.releases)


@dataclass(frozen=True)
class Change:
    """One release that changed; `growth`, of its own cost, is None across different scales."""

    label: str
    status: Status
    base: str
    head: str
    growth: float | None
    why: str

    def to_json(self) -> dict[str, Any]:
        """The change as plain JSON types."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Comparison:
    """Everything that differs between two runs."""

    base: Side
    head: Side

    @property
    def terms(self) -> list[tuple[str, str, str]]:
        """Name, before and after, of each term that changed."""
        names = self.base.terms
        return [(n, names[n], self.head.terms[n]) for n in names if names[n] != self.head.terms[n]]

    @property
    def claim_grew(self) -> Grew:
        """Return whether the claim promises less; a withdrawn claim promises nothing."""
        base, head = self.base.claim, self.head.claim
        if base is None or head is None:
            return base is not None
        return _grew(base, head)

    @property
    def total_grew(self) -> Grew:
        """Whether the proved total is larger."""
        base, head = self.base.total, self.head.total
        if base is None or head is None:
            return None if head is base else head is None
        return _grew(base.guarantee, head.guarantee)

    @property
    def grew(self) -> Grew:
        """Whether the budget grew, claimed or proved; None where terms or scales differ."""
        if self.terms:
            return None
        answers = {self.claim_grew, self.total_grew}
        return True in answers or (None if None in answers else False)

    def changes(self) -> list[Change]:
        """The releases that changed, those that grew most first."""
        base, head = _by_label(self.base.releases), _by_label(self.head.releases)
        found = [_only(head[key], "new") for key in head if key not in base]
        found += [_only(base[key], "gone") for key in base if key not in head]
        both = (_change(base[key], head[key]) for key in head if key in base)
        found += (change for change in both if change is not None)
        # What cannot be compared comes first.
        return sorted(found, key=lambda change: (change.growth is not None, -(change.growth or 0.0)))


def _terms(of: Certificate | Header, view: View) -> dict[str, str]:
    terms = {name: str(getattr(of, name)) for name in ("unit", "neighbouring", "trust_model", "group_size")}
    budget = of.budget
    schedule = "fixed" if budget is None else f"filtered, held to a {budget.kind} budget"
    return {**terms, "view": str(view), "schedule": schedule}


def _grew(base: AnyGuarantee, head: AnyGuarantee) -> Grew:
    """Whether a guarantee is weaker than another, beyond the tolerance of claims."""
    orders = [one.alpha for one in (base, head) if isinstance(one, RDP)]
    if base.kind != head.kind or len(set(orders)) > 1:
        return None
    pairs = [(leading_figure(base), leading_figure(head))]
    if isinstance(base, ApproxDP) and isinstance(head, ApproxDP):
        pairs.append((base.delta, head.delta))
    more = [not within(after, before) for before, after in pairs]
    less = [not within(before, after) for before, after in pairs]
    return None if any(more) and any(less) else any(more)


def _by_label(releases: Sequence[ReleaseAccount]) -> dict[tuple[str, int], ReleaseAccount]:
    """Releases by label; those that share one are matched by their order."""
    places: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
    return {(release.label, next(places[release.label])): release for release in releases}


def _only(release: ReleaseAccount, status: Literal["new", "gone"]) -> Change:
    """A release that only one of the two runs has."""
    cost, figure_ = _cost(release), leading_figure(release.proved)
    facts = ", ".join(f"{name} {value}" for name, value in _facts(release).items())
    before, after, growth = ("", cost, figure_) if status == "new" else (cost, "", -figure_)
    return Change(release.label, status, before, after, growth, facts)


def _change(base: ReleaseAccount, head: ReleaseAccount) -> Change | None:
    grew, shrank = _grew(base.proved, head.proved), _grew(head.proved, base.proved)
    before, after = _facts(base), _facts(head)
    why = ", ".join(
        f"{name} {before.get(name, 'none')} -> {after.get(name, 'none')}"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    )
    if grew is False and not shrank and not why:
        return None
    growth = None if grew is None else leading_figure(head.proved) - leading_figure(base.proved)
    status: Status = "costlier" if grew else "cheaper" if shrank else "changed"
    return Change(head.label, status, _cost(base), _cost(head), growth, why)


def _cost(release: ReleaseAccount) -> str:
    return figure(release.proved, proved=True)


#: A release's fields that are compared. Its grid follows from the mechanism where noise is drawn exactly.
_STATED: Final = Release.model_fields.keys() - {"label", "grid"}


def _facts(release: ReleaseAccount) -> dict[str, str]:
    stated = {name: value for name, value in release.to_json().items() if name in _STATED}
    mechanism = dict(_flat("", stated.pop("mechanism")))
    kind = mechanism.pop("kind")
    facts = {**mechanism, "mechanism": kind, **dict(_flat("", stated))}
    return {"count": facts.pop("count"), **facts}


def _flat(prefix: str, fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in fields.items():
        place = f"{prefix} {name}".strip()
        if isinstance(value, Mapping):
            yield from _flat(place, value)
        elif isinstance(value, list):
            yield place, f"[{len(value)}]"
        else:
            yield place, f"{value:.6g}" if isinstance(value, float) else str(value)


def total_words(side: Side) -> str:
    """The proved total of a side, in words."""
    return "none known" if side.total is None else bound_figure(side.total)


def claim_words(side: Side) -> str:
    """The claim of a side, in words."""
    return "none" if side.claim is None else figure(side.claim)
