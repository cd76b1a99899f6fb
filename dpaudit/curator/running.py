"""Run an algorithm through a curator, and return its output and its ledger."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from dpaudit.claims.arguments import checked
from dpaudit.claims.claims import Claim
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.curator.curator import Curator, Filter
from dpaudit.curator.deferred import at_hand
from dpaudit.curator.noise import LiveNoise, NoiseSource, Transcript
from dpaudit.ledger.files import LedgerSink
from dpaudit.ledger.ledger import Header, Ledger, Noise


@runtime_checkable
class Algorithm(Protocol):
    """A callable that draws noise only through its curator.

    Every function ``(data, curator) -> output`` is one. Optional attributes are ``name``, ``claim`` (a
    `Claim`) and ``parameters`` (public, for the ledger's header).
    """

    def __call__(self, data: Any, curator: Curator, /) -> Any:
        """Compute on the data, and release every output through the curator."""


@dataclass(frozen=True)
class Run:
    """A finished run: the algorithm's output and the ledger."""

    output: Any
    ledger: Ledger


@checked("run")
def run(
    algorithm: Callable[[Any, Curator], Any],
    data: Any,
    *,
    claim: Claim | None = None,
    seed: int | None = None,
    budget: Filter | None = None,
    unit: str | None = None,
    neighbouring: Neighbouring | str | None = None,
    trust_model: TrustModel | str | None = None,
    group_size: int = 1,
    users: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    noise: NoiseSource | None = None,
    transcript: Transcript | None = None,
    public_seed: int = 0,
    path: str | Path | None = None,
) -> Run:
    """Run `algorithm` on `data` and return its output with a finished ledger.

    >>> from dpaudit import L1, Laplace, run
    >>> def count(rows, curator):
    ...     return curator.release(len(rows), Laplace(scale=2.0, sensitivity=L1(1.0)), label="count")
    >>> made = run(count, ["a", "b"], seed=7)
    >>> [release.label for release in made.ledger], made.ledger.complete
    (['count'], True)

    Args:
        algorithm: any callable ``(data, curator) -> output``.
        data: the private records.
        claim: the claim; by default the algorithm's ``claim`` attribute, if it has one.
        seed: makes the noise repeatable, and the output unfit to publish; by default the operating system
            provides the randomness.
        budget: a privacy filter; the ledger's schedule is then ``filtered``.
        unit: the unit of privacy; by default the claim's, or ``"record"``.
        neighbouring: the relation; by default the claim's, or replace-one.
        trust_model: the trust model; by default the claim's, or central.
        group_size: the claim is about groups of this many units; sensitivities remain those of one unit, and
            the accountants convert to groups.
        users: under local trust, the number of users that the ledger covers; by default the data's
            ``n_users``, if any.
        parameters: public parameters for the header; by default the algorithm's ``parameters``.
        noise: a source other than live noise (noiseless, replayed).
        transcript: where an auditor keeps queries and outputs.
        public_seed: seeds the public random streams.
        path: the ledger's file, written during the run; by default the ledger stays in memory.

    Raises:
        DpauditError: the curator refuses a release; a ledger file then remains as ``<path>.partial``.
    """
    claim = claim if claim is not None else getattr(algorithm, "claim", None)
    stated = parameters if parameters is not None else getattr(algorithm, "parameters", {})
    source = noise if noise is not None else LiveNoise(seed)
    own_unit, own_relation, own_trust = terms(claim)
    trust = TrustModel(trust_model or own_trust)
    if users is None and trust is TrustModel.LOCAL:
        users = getattr(data, "n_users", None)
    header = Header(
        algorithm=name_of(algorithm),
        unit=unit or own_unit,
        neighbouring=Neighbouring(neighbouring or own_relation),
        trust_model=trust,
        schedule="fixed" if budget is None else "filtered",
        budget=None if budget is None else budget.budget,
        group_size=group_size,
        users=users,
        claim=claim,
        run=_identifier(source.description),
        parameters=dict(stated),
        noise=source.description,
    )
    ledger = Ledger(header)
    if path is not None:  # `Ledger` above refuses an unwritable header before a file exists
        ledger = Ledger(header, LedgerSink(path))
    try:
        curator = Curator(ledger, source, budget=budget, transcript=transcript, public_seed=public_seed)
        output = algorithm(at_hand(data), curator)
        curator.end()
        ledger.finish()
    except BaseException:
        ledger.abandon()
        raise
    return Run(output, ledger)


def terms(claim: Claim | None) -> tuple[str, Neighbouring, TrustModel]:
    """Return unit, relation and trust model of a run: those of the claim, or the defaults."""
    return (
        (claim and claim.unit) or "record",
        (claim and claim.neighbouring) or Neighbouring.REPLACE_ONE,
        (claim and claim.trust_model) or TrustModel.CENTRAL,
    )


def about_run(algorithm: object, claim: Claim | None) -> Claim | None:
    """Return the claim, by default the algorithm's, with unit, relation and trust model filled in."""
    claim = claim if claim is not None else getattr(algorithm, "claim", None)
    return None if claim is None else claim.about(*terms(claim))


def _identifier(noise: Noise) -> str | None:
    """Return a random identifier, or None for a seeded run, whose ledger must be repeatable."""
    return uuid.uuid4().hex if noise.source == "live" and not noise.seeded else None


def name_of(algorithm: object) -> str:
    """Return the algorithm's `name`, or the name of its function or class."""
    name = getattr(algorithm, "name", None) or getattr(algorithm, "__name__", None)
    return name if isinstance(name, str) else type(algorithm).__name__
