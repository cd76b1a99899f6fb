"""Certify one run of an algorithm: run it, account for it, audit it, judge its claim.

`certified` returns all intermediate results, `certify` the certificate alone.
"""

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

from dpaudit.accountants.accounting import Accounted
from dpaudit.accountants.curves.profile_points import profile_points
from dpaudit.certificate.certificate import Certificate, judge
from dpaudit.certificate.second_opinion import SecondOpinion
from dpaudit.certificate.statement import NOTHING_STATED, Statement
from dpaudit.certificate.verdicts import Audit, Finding
from dpaudit.claims.arguments import checked
from dpaudit.claims.bounds import Bound
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.pairs import Pair
from dpaudit.curator.curator import Filter
from dpaudit.curator.running import Run, name_of, run, terms
from dpaudit.errors import CannotBound, NotCertifiable
from dpaudit.ledger.ledger import Ledger
from dpaudit.pipeline.accounting import Rigour, accounted
from dpaudit.pipeline.audit import audit, pairs_for
from dpaudit.pipeline.checking import Unconfirmed, checked_by_file, is_quick
from dpaudit.processes.host import NO_LIMITS, Limits
from dpaudit.processes.hosted import Hosted
from dpaudit.processes.hosting import hosting
from dpaudit.progress import Work
from dpaudit.registry import from_wing

#: The total is also stated as (epsilon, delta)-DP at this delta, for comparison across scales.
COMPARED = ApproxDP(epsilon=0.0, delta=1e-6)


#: The audit of a certified run, called with an algorithm, pairs, claim, seed, users and budget:
#: `dpaudit.audit`, or a `functools.partial` of it.
Auditor: TypeAlias = Callable[..., Audit]


class RunDiverged(UserWarning):
    """The run on the data diverged from its twin: its output must not be published."""


class NothingReleased(NotCertifiable):
    """The run released nothing through its curator, so there is nothing to certify."""


@dataclass(frozen=True)
class Certified:
    """One run and all results derived from it.

    `run` has the output; the audit may have changed it. `approximate` is the total on the scale of
    `COMPARED`, tightest first, empty without a bound on that scale. `divergences`, for the data holder
    alone, say where the data run diverged from its twin, and `raised` describes its error in words that may
    quote records. After a divergence nothing from the run may be published. `unconfirmed` are the answers of
    the independent checker that contradict a figure or do not know it, if the checker was asked. `utility`,
    if requested, has the algorithm's own measures of its output.
    """

    run: Run
    accounted: Accounted
    approximate: Sequence[Bound]
    certificate: Certificate
    divergences: tuple[Finding, ...] = ()
    utility: Mapping[str, float] = field(default_factory=dict)
    raised: tuple[str, ...] = ()
    unconfirmed: Unconfirmed = ()


@dataclass(frozen=True)
class RunOptions:
    """Options of the certified run; the fields are as in `certify`."""

    seed: int | None = None
    users: int | None = None
    budget: Filter | None = None
    path: str | Path | None = None
    in_process: bool | None = None
    limits: Limits = NO_LIMITS


@dataclass(frozen=True)
class AuditOptions:
    """Options of the audit; `own_pairs`: the pairs are the algorithm's own.

    Such pairs are functions of public parameters alone.
    """

    pairs: object = None
    auditor: Auditor = audit
    own_pairs: bool = False


@dataclass(frozen=True)
class FigureOptions:
    """Options of the figures; `utility` requests the algorithm's own measures of its output.

    `check` always asks the independent checker; otherwise it is asked only if it takes under a second.
    """

    rigour: Rigour = "float-pessimistic"
    curves: bool = True
    opinion: bool = False
    utility: bool = False
    check: bool = False


@dataclass(frozen=True)
class Telling:
    """The text that a certificate repeats, and the callbacks of the pipeline.

    The algorithm is run inside ``step("running it")`` and audited inside ``step("auditing it")``. `ran` is
    called between the two: the audit runs the algorithm again, which may change its output.
    """

    statement: Statement = NOTHING_STATED
    command: str | None = None
    step: Callable[[str], AbstractContextManager[object]] = Work
    ran: Callable[[Run], object] = lambda _: None


@checked("certify")
def certified(
    algorithm: Callable[..., Any],
    data: Any,
    claim: Claim | None = None,
    *,
    running: RunOptions = RunOptions(),
    auditing: AuditOptions = AuditOptions(),
    figures: FigureOptions = FigureOptions(),
    telling: Telling = Telling(),
) -> Certified:
    """Certify as `certify` does, with the same errors, and return all intermediate results."""
    if claim is None and getattr(algorithm, "claim", None) is None:
        what, why = "nothing is claimed", "a certificate states whether a claim is proved"
        remedy = "pass claim=, or give the algorithm a `claim` attribute"
        raise NotCertifiable(what, where=f"certify({name_of(algorithm)})", why=why, remedy=remedy)
    pairs, step = auditing.pairs, telling.step
    own_pairs = auditing.own_pairs or pairs is None
    if pairs is None and not hasattr(algorithm, "worst_pairs"):
        with step("opening its data"):
            pairs = tuple(from_wing("frame-pairs")(data, claim or getattr(algorithm, "claim", None)))
    chosen: Sequence[Pair] = ()
    if not (isinstance(pairs, tuple) and not pairs):
        with step("making its worst pairs"):
            chosen = pairs_for(algorithm, pairs)
    # Each run spends its own copy of the budget.
    spare = copy.deepcopy(running.budget)
    audits: list[Audit] = []
    _, relation, trust = terms(claim or getattr(algorithm, "claim", None))
    with hosting(
        algorithm,
        data,
        chosen,
        own_pairs=own_pairs,
        utility=figures.utility,
        neighbouring=relation,
        trust_model=trust,
        in_process=running.in_process,
        limits=running.limits,
    ) as target:
        with step("running it"):
            made = run(
                target.algorithm,
                target.data,
                claim=claim,
                seed=running.seed,
                users=running.users,
                budget=running.budget,
                path=running.path,
            )
        found = accounted(made.ledger, None, figures.rigour)
        if not found.accounting.overview.total:
            what = f"{name_of(algorithm)} released nothing through its curator"
            why, remedy = "its output is unaccounted for", "release through the curator"
            raise NothingReleased(what, where="the run's ledger", why=why, remedy=remedy)
        utility: Mapping[str, float] = {}
        if isinstance(target.algorithm, Hosted):
            utility = target.algorithm.measured
        elif figures.utility and hasattr(algorithm, "utility"):
            with step("measuring its utility"):
                utility = {str(name): float(value) for name, value in algorithm.utility(made.output).items()}
        telling.ran(made)
        if target.pairs:
            with step("auditing it"):
                about = {"claim": claim, "seed": running.seed or 0, "users": running.users, "budget": spare}
                here = {"in_process": True} if target.process.kind == "in-process" else {}
                audits = [auditing.auditor(target.replayed, target.pairs, **about, **here)]
    apart = target.algorithm if isinstance(target.algorithm, Hosted) else None
    divergences, raised = (tuple(apart.findings), tuple(apart.raised)) if apart else ((), ())
    approximate: Sequence[Bound] = ()
    if figures.curves or figures.opinion:
        with suppress(CannotBound):
            approximate = tuple(found.bounds(COMPARED))
    if running.path is not None:
        made.ledger.require_kept()  # the audit has run the algorithm again, which may have written to it
    certificate = judge(
        made.ledger,
        found.accounting,
        audits,
        command=telling.command or f"dpaudit.certify({name_of(algorithm)}, ...)",
        statement=telling.statement,
        profile=profile_points(made.ledger, found.accounting, found.composition) if figures.curves else (),
        second_opinion=_opinion(found, made.ledger, approximate) if figures.opinion else None,
        process=target.process,
        diverged=bool(divergences),
    )
    unconfirmed: Unconfirmed = ()
    if figures.check or is_quick(certificate):
        with step("checking it"):
            certificate, unconfirmed = checked_by_file(certificate, made.ledger)
    return Certified(made, found, approximate, certificate, divergences, utility, raised, unconfirmed)


@checked("certify")
def certify(
    algorithm: Callable[..., Any],
    data: Any,
    *,
    claim: Claim | None = None,
    pairs: object = None,
    seed: int | None = None,
    users: int | None = None,
    budget: Filter | None = None,
    rigour: Rigour = "float-pessimistic",
    auditor: Auditor = audit,
    statement: Statement = NOTHING_STATED,
    path: str | Path | None = None,
    command: str | None = None,
    curves: bool = True,
    opinion: bool = False,
    in_process: bool | None = None,
    limits: Limits = NO_LIMITS,
) -> Certificate:
    """Run an algorithm on data, account for every release, audit it and judge its claim.

    >>> from dpaudit import L1, Claim, Laplace, PureDP, certify
    >>> def count(rows, curator):
    ...     return curator.release(len(rows), Laplace(scale=2.0, sensitivity=L1(1.0)), label="count")
    >>> claim = Claim(PureDP(epsilon=0.5), unit="row", neighbouring="add-or-remove-one")
    >>> found = certify(count, ["a", "b"], claim=claim, pairs=(["a", "b"], ["a"]), seed=7)
    >>> str(found.proof), str(found.experiment), found.publishable  # a seeded run is not to be published
    ('PROVED', 'NOT_REFUTED', False)

    Args:
        algorithm: any callable ``(data, curator) -> output``.
        data: the private records.
        claim: the claim to judge; default: the algorithm's own ``claim``.
        pairs: neighbouring data for the audit, as in `dpaudit.audit`. Default: the algorithm's own worst
            pairs, or those of a data frame with the claim's unit as a column; otherwise there is no audit.
        seed: makes the noise repeatable, so the output must not be published; also the audit's seed (default
            0).
        users: the number of users under local trust.
        budget: a privacy filter that holds the run to a budget.
        rigour: the rigour of the accounting, as in `dpaudit.account`.
        auditor: the audit to make; default: a replay.
        statement: the author's statements about the deployment.
        path: the file to which the run writes its ledger; by default the ledger stays in memory.
        command: the command that reproduces the certificate; default: a call of `dpaudit.certify`.
        curves: whether to compute the curve delta(epsilon).
        opinion: whether to ask dp-accounting for its figure for the same releases, which takes a second.
        in_process: whether to run the algorithm in this process, as a debugger needs. By default the run and
            each replay have their own processes, and the run has a twin if it has pairs or a ``stand_in()``.
        limits: limits on the time and memory of every run in its own process.

    Raises:
        NothingReleased: the ledger has no releases; the audit is not begun.
        NotCertifiable: nothing is claimed; the algorithm is not run.
        DpauditError: any error of `dpaudit.run`, `dpaudit.account` or `dpaudit.audit`.
        Exception: any error of the algorithm.

    Warns:
        RunDiverged: the run on the data diverged from its twin, and the certificate is not publishable.
    """
    found = certified(
        algorithm,
        data,
        claim,
        running=RunOptions(seed, users, budget, path, in_process, limits),
        auditing=AuditOptions(pairs, auditor),
        figures=FigureOptions(rigour, curves, opinion),
        telling=Telling(statement, command),
    )
    for each in found.divergences:
        warnings.warn(f"for the data's holder alone: {each.detail}", RunDiverged, stacklevel=3)
    return found.certificate


def _opinion(found: Accounted, ledger: Ledger, approximate: Sequence[Bound]) -> SecondOpinion:
    """Return another library's figure for the same composition."""
    accounting = found.accounting
    guarantee = accounting.claim.guarantee if accounting.claim is not None else None
    compared = accounting.bounds if isinstance(guarantee, ApproxDP) else approximate
    return cast("SecondOpinion", from_wing("second-opinion")(ledger, compared, found.composition))
