"""The options that state a claim, shared by all verbs that judge claims."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from dpaudit.app.options.option import COUNT, PATH, option
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import GDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.errors import ClaimMismatch, UsageError
from dpaudit.models import named_by

if TYPE_CHECKING:
    from dpaudit.certificate.statement import Statement
    from dpaudit.curator.curator import Filter

Verb: TypeAlias = Callable[..., None]


@dataclass(frozen=True)
class StatedClaim:
    """The command line's options about the claim to judge; None for the options left out."""

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    mu: float | None = None
    unit: str | None = None
    neighbouring: str | None = None
    trust_model: str | None = None

    def guarantee(self, prefix: str = "--") -> AnyGuarantee | None:
        """Return the stated guarantee, or None; errors put `prefix` before each figure's name.

        Raises `UsageError` for more than one, or a delta without its epsilon; `InvalidParameter` for a figure
        outside its range.
        """
        stated = {"epsilon": self.epsilon, "rho": self.rho, "mu": self.mu}
        names = [name for name, value in stated.items() if value is not None]
        given = [prefix + name for name in names]
        if len(given) > 1:
            why = "they state different guarantees, and one claim has one"
            remedy = f"give one of them; `dpaudit convert --{names[0]} ...` states it on the other scales"
            raise UsageError(f"{' and '.join(given)} at once", where=" ".join(given), why=why, remedy=remedy)
        if self.delta is not None and self.epsilon is None:
            what = f"{prefix}delta " + (f"with {given[0]}" if given else f"without {prefix}epsilon")
            why = "delta belongs to (epsilon, delta)-DP"
            remedy = f"leave {prefix}delta out" if given else f"add {prefix}epsilon"
            raise UsageError(what, where=f"{prefix}delta", why=why, remedy=remedy)
        with named_by(prefix.__add__):
            if self.rho is not None:
                return ZCDP(rho=self.rho)
            if self.mu is not None:
                return GDP(mu=self.mu)
            if self.epsilon is None:
                return None
            if self.delta is None:
                return PureDP(epsilon=self.epsilon)
            return ApproxDP(epsilon=self.epsilon, delta=self.delta)

    def required(self) -> AnyGuarantee:
        """Return the guarantee of a claim that no option states; raise also `UsageError` if it has none."""
        found = self.guarantee(prefix="")
        if found is None:
            remedy = "give one of rho, mu and epsilon, and delta beside epsilon where it is meant"
            why = "a claim is one guarantee"
            raise UsageError("it states no guarantee", where="the claim", why=why, remedy=remedy)
        return found

    def claim(self, own: Claim | None) -> Claim | None:
        """Return the claim to judge: the options' claim, completed from the own claim of algorithm or ledger.

        The own claim keeps its premises and assumptions: another figure does not make them true.

        Raises `UsageError`, and `ClaimMismatch` where the options name another unit, relation or trust model.
        """
        guarantee = self.guarantee()
        about = {"unit": self.unit, "neighbouring": self.neighbouring, "trust_model": self.trust_model}
        named = {name: value for name, value in about.items() if value is not None}
        if guarantee is None and own is None:
            if named:
                option = "--" + next(iter(named)).replace("_", "-")
                why = "there is no claim that it could be part of"
                remedy = "add --rho, --mu or --epsilon with --delta"
                raise UsageError(f"{option} without a guarantee", where=option, why=why, remedy=remedy)
            return None
        if own is None:
            return Claim(guarantee, **named)
        for name, value in named.items():
            meant = getattr(own, name)
            if meant is not None and value != meant:
                what = f"{name} {value!r} was asked for, its own claim is about {str(meant)!r}"
                remedy = f"claim {name} {str(meant)!r}"
                raise ClaimMismatch(what, where="--" + name.replace("_", "-"), remedy=remedy)
        fields = {name: getattr(own, name) for name in type(own).model_fields}
        return Claim(**{**fields, **named, "guarantee": guarantee or own.guarantee})


NEIGHBOURING = click.Choice([str(relation) for relation in Neighbouring])
TRUST_MODEL = click.Choice([str(model) for model in TrustModel])

_OPTIONS = (
    option("--epsilon", float, "Claim epsilon-DP; with --delta, (epsilon, delta)-DP."),
    option("--delta", float, "The delta of (epsilon, delta)-DP, with --epsilon."),
    option("--rho", float, "Claim rho-zCDP."),
    option("--mu", float, "Claim mu-GDP."),
    option("--unit", str, "Unit of privacy: trajectory, user, row, ..."),
    option(
        "--neighbouring",
        NEIGHBOURING,
        "How neighbouring data sets differ: a unit added or removed, replaced, or set to zero.",
    ),
    option(
        "--trust-model",
        TRUST_MODEL,
        "Who sees private data: a central curator; each user alone (local); or a curator, where each "
        "user sees the curator's answers and their own (joint).",
    ),
)

users_option = option(
    "--users",
    COUNT,
    "Number of users under local trust; the ledger describes any one of them.",
    metavar="N",
)
rigour_option = option(
    "--rigour",
    ["float-pessimistic", "interval"],
    "interval: judge the total only by a proved enclosure.",
    default="float-pessimistic",
)


def _statement(_context: click.Context, _option: click.Parameter, path: Path | None) -> Statement:
    from dpaudit.certificate.statement import NOTHING_STATED, Statement

    return NOTHING_STATED if path is None else Statement.read(path)


#: Read at once: what cannot be followed stops the verb before anything runs.
statement_option = option(
    "--statement",
    PATH,
    "TOML file with your statements about the deployment; see docs/publishing/certificate.md.",
    metavar="FILE",
    callback=_statement,
)


def grouped(verb: Verb, options: Sequence[Callable[[Verb], Verb]], kind: type[Any], name: str) -> Verb:
    """Add options to a verb, which receives them together as one dataclass."""

    @functools.wraps(verb)
    def with_them(*args: Any, **given: Any) -> None:
        names = [field.name for field in dataclasses.fields(kind)]
        fields = {name: given.pop(name) for name in names if name in given}
        verb(*args, **{name: kind(**fields)}, **given)

    decorated: Verb = with_them
    for each in reversed(options):
        decorated = each(decorated)
    return decorated


#: Gives a verb the claim options; it receives them together, as ``stated``.
claim_options = functools.partial(grouped, options=_OPTIONS, kind=StatedClaim, name="stated")


def figure_options(**words: str) -> Callable[[Verb], Verb]:
    """Add the options for a guarantee's figures to a verb as ``stated``, with these help texts."""
    options = [option(f"--{name}", float, line) for name, line in words.items()]
    return functools.partial(grouped, options=options, kind=StatedClaim, name="stated")


def stated_budget(rho: float | None, mu: float | None, claim: Claim) -> Filter | None:
    """Return one run's whole budget under the claim's relation."""
    from dpaudit.accountants.filters.filters import GDPFilter, ZCDPFilter

    neighbouring = claim.neighbouring or Neighbouring.REPLACE_ONE
    if rho is not None and mu is not None:
        why, remedy = "a curator has one budget", "give one of them"
        raise UsageError("--budget-rho and --budget-mu at once", where="--budget-rho", why=why, remedy=remedy)
    with named_by("--budget-".__add__):
        if mu is not None:
            return GDPFilter(mu, neighbouring)
        return None if rho is None else ZCDPFilter(rho, neighbouring)
