"""What a ledger states about its run before the first release, and how its lines are chained."""

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Self

import rfc8785
from pydantic import Field, model_validator

from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import Guarantee
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.errors import InvalidParameter, NotCertifiable, TrustMismatch
from dpaudit.ledger.numbers import canonical_json
from dpaudit.mechanisms.base import BaseMechanism
from dpaudit.models import Count, Model, Parameters
from dpaudit.noise.randomness import EXACT_SAMPLER, FLOATING_POINT_SAMPLER, Sampler

SCHEMA: Final = "dpaudit.ledger/1"


class Noise(Model):
    """Where a run's noise came from."""

    #: ``live`` noise protects; ``none`` (noiseless debugging) and ``replayed`` do not.
    source: Literal["live", "none", "replayed"] = "live"
    #: ``dpaudit-exact`` rounds real-valued noise exactly, on a public grid; ``numpy-float64`` draws it in
    #: floating point, and the discrete mechanisms exactly; ``opendp-discrete`` draws all of it exactly.
    sampler: Sampler = FLOATING_POINT_SAMPLER
    seeded: bool = False  # the caller chose the seed, so whoever knows it can subtract the noise

    @property
    def on_grid(self) -> bool:
        """Whether what is released lies on the grids of its mechanisms."""
        return self.source == "live" and self.sampler == EXACT_SAMPLER

    @property
    def flaws(self) -> tuple[str, ...]:
        """Why it gives no protection; empty for live noise."""
        fates = {"none": "never drawn", "replayed": "replayed"}
        return (f"its noise was {fates[self.source]}",) if self.source in fates else ()


class Header(Model):
    """What a run is about: algorithm, whom it protects, its public parameters and its claim.

    A `schedule` is ``fixed`` if the sequence of releases is the same whatever the data; ``filtered`` if their
    number may depend on the data: then the `budget` the curator held is all that one run's ledger proves.
    Bounds and claim are about groups of `group_size` units; all may differ between neighbouring data sets.
    Under local trust the ledger describes one user's randomizer; `users` is how many it was used for.
    """

    schema_: Annotated[Literal["dpaudit.ledger/1"], Field(alias="schema")] = SCHEMA
    algorithm: Annotated[str, Field(min_length=1)]
    unit: Annotated[str, Field(min_length=1)]
    neighbouring: Neighbouring
    trust_model: TrustModel = TrustModel.CENTRAL
    schedule: Literal["fixed", "filtered"] = "fixed"
    budget: Guarantee | None = None
    group_size: Count = 1
    users: Count | None = None
    claim: Claim | None = None
    #: Tells this run from every other, so that two runs never have the same hash. A seeded run has none:
    #: repeated, it gives the same file.
    run: Annotated[str, Field(pattern="^[0-9a-f]{32}$")] | None = None
    #: Public parameters only; a copy of what was given, which cannot be changed.
    parameters: Parameters = Field(default_factory=dict, validate_default=True)
    noise: Noise = Noise()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.schedule == "filtered") != (self.budget is not None):
            what = f"a {self.schedule} schedule with budget {self.budget}"
            why = "one run's releases prove nothing about another run, unless a budget held them"
            remedy = "give a filtered schedule the budget its curator held, and a fixed one none"
            raise InvalidParameter(what, where="header.schedule", why=why, remedy=remedy)
        if self.users is not None and self.trust_model is not TrustModel.LOCAL:
            what = f"users={self.users} under {self.trust_model} trust"
            why = "only under local trust does a ledger describe one user out of many"
            remedy = "leave users out, or state trust_model local"
            raise InvalidParameter(what, where="header.users", why=why, remedy=remedy)
        if self.claim is not None:
            self.claim.about(self.unit, self.neighbouring, self.trust_model)
        return self

    @property
    def stated_trust(self) -> list[str]:
        """What the record of another library does not show, as its importer wrote it into the parameters."""
        stated: Any = self.parameters.get("taken on trust")
        return [line for line in stated if isinstance(line, str)] if isinstance(stated, tuple) else []

    def to_json(self) -> dict[str, Any]:
        """The ledger's first record, without its hash."""
        record = {"record": "header", **super().to_json()}
        if self.group_size == 1:
            del record["group_size"]
        # Unit, relation and trust model are already in the header.
        for name in ("unit", "neighbouring", "trust_model") if self.claim is not None else ():
            record["claim"].pop(name, None)
        return record


def chained(previous: str, canonical: bytes) -> str:
    """SHA-256 over the previous line's hash and this record's canonical JSON (RFC 8785)."""
    return hashlib.sha256(previous.encode() + canonical).hexdigest()


class LedgerFacts:
    """What a ledger holds beside its releases, whether these are kept in memory or not."""

    def __init__(self, header: Header, *, hashed: bool = True) -> None:
        self.header = header
        self.complete = False  # whether the footer was written, or read
        self.hashed = hashed  # False for a file written without hashes: accounted for, never certified
        self._hash = ""

    @property
    def by_curator(self) -> bool:
        """Whether curators of this process wrote all releases; never of a file, which anybody can write."""
        return False

    @property
    def claim(self) -> Claim | None:
        """The header's claim, about the header's unit, relation and trust model."""
        header = self.header
        if header.claim is None:
            return None
        return header.claim.about(header.unit, header.neighbouring, header.trust_model)

    @property
    def place(self) -> str:
        """Where an error about the whole ledger occurred."""
        return f"ledger of {self.header.algorithm!r}"

    @property
    def hash(self) -> str:
        """The hash of the last line, which depends on every line before it."""
        return self._hash

    def require_admits(self, mechanism: object, where: str) -> None:
        """Raise `TrustMismatch` unless the header's trust model admits a mechanism."""
        trust = self.header.trust_model
        lacked = mechanism.lacks(trust) if isinstance(mechanism, BaseMechanism) else None
        if lacked is None:  # what is no mechanism is refused elsewhere
            return
        kind = getattr(mechanism, "kind", type(mechanism).__name__)
        own = getattr(mechanism, "mechanism", getattr(mechanism, "local", None))
        alone = "the mechanism" if own is None else f"the {own.kind} mechanism"
        why = f"nobody is trusted to {lacked}"
        remedy = f"state trust_model central if somebody is, or record {alone} that a user runs alone"
        raise TrustMismatch(f"a {kind} mechanism under {trust} trust", where=where, why=why, remedy=remedy)

    def require_certifiable(self) -> None:
        """Raise `NotCertifiable` with the reasons, unless this ledger may carry a certificate."""
        cut_short = () if self.complete else ("it has no footer: the run was cut short",)
        unhashed = () if self.hashed else ("it was written without its hash chain",)
        self._refuse(cut_short + unhashed + self.header.noise.flaws)

    def require_live_noise(self) -> None:
        """As `require_certifiable`, for the noise only, which is in the first line."""
        self._refuse(self.header.noise.flaws)

    def _refuse(self, reasons: Sequence[str]) -> None:
        if reasons:
            what = f"this ledger can never be certified: {'; '.join(reasons)}"
            why = "the mechanisms it names did not protect anything, or releases may be missing"
            raise NotCertifiable(what, where=self.place, why=why)


def encode(previous: str, canonical: bytes) -> tuple[bytes, str]:
    """One line of the file and its hash: a record's canonical JSON with the hash as last field."""
    digest = chained(previous, canonical)
    return canonical[:-1] + f',"hash":"{digest}"}}\n'.encode(), digest


def canonical_bytes(record: dict[str, Any]) -> bytes:
    """A record's canonical JSON; raises `InvalidParameter` for what JSON cannot hold."""
    try:
        return canonical_json(record)
    except (rfc8785.CanonicalizationError, ValueError, RecursionError) as error:
        what, label = f"a record that JSON cannot hold: {error}", record.get("label", record["record"])
        remedy = "public parameters are strings, booleans, finite numbers, lists and objects of them"
        raise InvalidParameter(what, where=f"ledger record {label!r}", remedy=remedy) from None
