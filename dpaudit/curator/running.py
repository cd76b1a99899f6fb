"""Run an algorithm through a curator and keep its output and its ledger."""

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
    """A frozen callable that touches noise only through its curator.

    Any function ``(data, curator) -> output`` is one. It may carry more: ``name``, ``claim`` (a
    `Claim`) and ``parameters`` (public, for the ledger's header).
    """

    def __call__(self, data: Any, curator: Curator, /) -> Any:
        """Compute on the data, releasing what leaves through the curator."""


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
        claim: what is claimed; left out, the algorithm's own ``claim`` attribute, if it has one.
        seed: makes the noise repeatable, and the output unfit to publish; left out, the operating
            system chooses.
        budget: a privacy filter; the ledger's schedule is then ``filtered``.
        unit: the unit of privacy; left out, the claim's, else ``"record"``.
        neighbouring: the relation; left out, the claim's, else replace-one.
        trust_model: left out, the claim's, else central.
        group_size: the claim is about groups of this many units; sensitivities stay those of one unit, and
            accounting adds what groups cost.
        users: under local trust, how many users the ledger covers; left out, the data's ``n_users``, if any.
        parameters: public parameters for the header; left out, the algorithm's ``parameters``.
        noise: another source than live noise (noiseless, replayed).
        transcript: where an auditor keeps queries and outputs.
        public_seed: seeds the public random streams.
        path: where the ledger is written as it goes; left out, it stays in memory.

    Raises:
        DpauditError: what the curator refuses; a ledger file then stays behind as ``<path>.partial``.
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
    if path is not None:  # a header that no file can hold was refused before a file is made
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
    """Unit, relation and trust model of a run for a claim: the claim's own, or else the defaults."""
    return (
        (claim and claim.unit) or "record",
        (claim and claim.neighbouring) or Neighbouring.REPLACE_ONE,
        (claim and claim.trust_model) or TrustModel.CENTRAL,
    )


def about_run(algorithm: object, claim: Claim | None) -> Claim | None:
    """A claim, left out the algorithm's own, with unit, relation and trust model as a run fills them in."""
    claim = claim if claim is not None else getattr(algorithm, "claim", None)
    return None if claim is None else claim.about(*terms(claim))


def _identifier(noise: Noise) -> str | None:
    """A random identifier; None for a seeded run, which can be repeated to the byte."""
    return uuid.uuid4().hex if noise.source == "live" and not noise.seeded else None


def name_of(algorithm: object) -> str:
    """An algorithm's own name, else its function's or class's."""
    name = getattr(algorithm, "name", None) or getattr(algorithm, "__name__", None)
    return name if isinstance(name, str) else type(algorithm).__name__
