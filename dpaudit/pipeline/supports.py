"""The toolkit's support for a mechanism, found without any release."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.accountants.composition.composition import compose
from dpaudit.accountants.curves.curves import ACCOUNTANTS
from dpaudit.auditors.replay.sampler_check import sampler_is_tested
from dpaudit.claims.arguments import checked
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import KINDS, AnyMechanism, BaseMechanism, kind_named


@dataclass(frozen=True)
class Support:
    """The toolkit's support for a mechanism.

    Attributes:
        parameters: the names of its fields.
        accountants: the accountants that bound it, from cheap to costly; `refused` has the others' reasons.
        drawn_by: the method of `Curator` that releases through it; None: no curator runs it.
        sampler: the source of its noise: ``exact`` (from fair bits), ``floating-point`` or ``caller``.
        audits: the audits that judge a release: ``replay`` (its queries on both data sets), ``loss`` (its
            exact privacy loss), ``sampler`` (its noise against its distribution), ``sampling`` (the run's
            output).
        package: the package that adds the mechanism, with its version; None for a mechanism of dpaudit.
    """

    kind: str
    parameters: tuple[str, ...]
    accountants: tuple[str, ...]
    refused: dict[str, str]
    drawn_by: str | None
    sampler: str | None
    audits: tuple[str, ...]
    package: str | None = None


@checked("supports", mechanism=BaseMechanism | str, neighbouring=Neighbouring)
def supports(
    mechanism: AnyMechanism | str, *, neighbouring: Neighbouring = Neighbouring.ADD_OR_REMOVE_ONE
) -> Support:
    """Say which accountants bound a mechanism, which runtime draws it and which audits judge it.

    Nothing is released. The accountants are asked about one run of the mechanism under the relation. The
    name of a kind stands for the example mechanism of that kind.

    >>> from dpaudit import L1, Laplace, supports
    >>> found = supports(Laplace(scale=2.0, sensitivity=L1(1.0)))
    >>> found.accountants, found.drawn_by, found.sampler
    (('gdp', 'zcdp', 'pure', 'rdp', 'pld'), 'release', 'exact')
    >>> found.audits
    ('replay', 'loss', 'sampler', 'sampling')

    Raises:
        InvalidParameter: the mechanism or the relation is of another type.
        UnknownKind: no mechanism has that name.
    """
    if isinstance(mechanism, str):
        named = kind_named(mechanism, "supports(mechanism=)")
        mechanism = named(**named.example)
    composition = compose([Release(label=mechanism.kind, mechanism=mechanism)], neighbouring)
    bounding: list[str] = []
    refused: dict[str, str] = {}
    for accountant in ACCOUNTANTS:
        name = accountant.__name__.removesuffix("_profile")
        try:
            accountant(composition)
        except CannotBound as error:
            refused[name] = error.what
        else:
            bounding.append(name)
    method, kind = mechanism.released_by, type(mechanism)
    knows_density = kind.log_likelihood is not BaseMechanism.log_likelihood
    tests = {"replay": True, "loss": knows_density, "sampler": sampler_is_tested(mechanism), "sampling": True}
    sampler = "exact" if mechanism.drawn_exactly else "floating-point"
    return Support(
        kind=mechanism.kind,
        parameters=tuple(name for name in kind.model_fields if name != "kind"),
        accountants=tuple(bounding),
        refused=refused,
        drawn_by=method,
        sampler=None if method is None else "caller" if mechanism.drawn_by_caller else sampler,
        audits=() if method is None else tuple(name for name, does in tests.items() if does),
        package=KINDS.package(mechanism.kind),
    )
