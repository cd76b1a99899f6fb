"""Audit an algorithm by experiment; each method's modules are imported when it is used."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from dpaudit.accountants.curves.implied import implied_curve
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.verdicts import Audit, Experiment
from dpaudit.claims.arguments import checked, require_kind
from dpaudit.claims.claims import Claim
from dpaudit.claims.pairs import Pair
from dpaudit.curator.curator import Filter
from dpaudit.curator.running import about_run, name_of, terms
from dpaudit.errors import UsageError
from dpaudit.models import did_you_mean
from dpaudit.pipeline.shares import budget_share
from dpaudit.processes.host import NO_LIMITS, Limits
from dpaudit.processes.hosting import conditions_of, hosting
from dpaudit.progress import Work
from dpaudit.registry import Registry

if TYPE_CHECKING:
    from dpaudit.auditors.sampling.one_run import Canaries, Coins, Scores
    from dpaudit.auditors.sampling.sampling import SoFar
    from dpaudit.auditors.sampling.scores import Score
    from dpaudit.auditors.sampling.trial import Auditable
    from dpaudit.auditors.statistics.claim_points import Judged, PrivacyCurve
    from dpaudit.auditors.statistics.learning.classifier import Learner
    from dpaudit.auditors.statistics.samples import Samples

Method: TypeAlias = Literal["replay", "sequential", "threshold", "gdp"]

METHODS: Final[Registry[Callable[..., Audit]]] = Registry(
    "auditors",
    Callable,
    {
        "replay": "dpaudit.auditors.replay.replay:replay",
        "sequential": "dpaudit.auditors.statistics.sequential:begin",
        "threshold": "dpaudit.auditors.statistics.threshold:threshold",
        "gdp": "dpaudit.auditors.statistics.gdp:gaussian_trade_off",
    },
)
SCORES: Final = (None, "exact", "logistic", "boosting")

#: The default runs on each side of a pair, or canaries; a replay adapts its number.
TRIALS: Final = {"sequential": 5_000, "threshold": 5_000, "gdp": 5_000, "one-run": 1_000}


@checked("audit", resume=str | Path)
def audit(
    algorithm: Auditable,
    pairs: object = None,
    *,
    claim: Claim | None = None,
    method: Method | str | None = None,
    trials: int | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    users: int | None = None,
    budget: Filter | None = None,
    score: Score | Learner | Literal["exact"] | None = None,
    chunk: int | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    resume: Path | None = None,
    time_limit: float | None = None,
    stop_when_refuted: bool = False,
    progress: Callable[[SoFar], None] | None = None,
    search_pairs: bool | None = None,
    search_seconds: float | None = None,
    keep_pair: Callable[[str], object] | None = None,
    in_process: bool | None = None,
    limits: Limits = NO_LIMITS,
    **run_options: Any,
) -> Audit:
    """Try to refute a claim on neighbouring data.

    >>> from dpaudit import L1, Claim, Laplace, PureDP, audit
    >>> def count(rows, curator):
    ...     return curator.release(len(rows), Laplace(scale=2.0, sensitivity=L1(1.0)), label="count")
    >>> claim = Claim(PureDP(epsilon=0.5), unit="row", neighbouring="add-or-remove-one")
    >>> found = audit(count, (["a", "b"], ["a"]), claim=claim)
    >>> found.method, str(found.verdict)
    ('replay', 'NOT_REFUTED')
    >>> halved = Claim(PureDP(epsilon=0.25), unit="row", neighbouring="add-or-remove-one")
    >>> str(audit(count, (["a", "b"], ["a"]), claim=halved).verdict)
    'REFUTED'

    Args:
        algorithm: any callable ``(data, curator) -> output``, or a `Plain`, which draws its own noise.
        pairs: a `Pair`, a tuple ``(data, neighbour)``, several pairs, or None for the algorithm's own.
        claim: default: the algorithm's own; parts that it leaves open are as in `dpaudit.run`.
        method: ``replay`` forces the same noise on both data sets; the others sample: ``sequential``,
            ``threshold``, ``gdp``, or a method from an installed package. Default: replay, or sequential for
            a `Plain`.
        trials: recordings in each direction of a replay, or runs on each side of a sampling audit. Default:
            `TRIALS`; for a replay 6, and up to 100 if these may decide.
        delta: the delta at which to bound epsilon; default: the claim's, or 1e-5.
        confidence: the confidence of the bound and of the verdict.
        seed: the seed of all noise.
        users: the number of users under local trust.
        budget: an unspent privacy filter; each run starts with a copy.
        score: the number compared between outputs, see `audit_by_sampling`; this and the options to
            `stop_when_refuted` are for sampling audits.
        chunk: runs between two reports.
        workers: processes on this machine; default 1.
        cluster: the address of a `distributed` scheduler.
        resume: a file that keeps finished runs.
        time_limit: seconds after which no further chunk begins.
        stop_when_refuted: whether a sequential audit ends as soon as the claim is refuted.
        progress: called after each chunk of a sampling audit; by default a terminal or notebook shows it.
        search_pairs: whether a replay searches for other pairs, see `replay`; this option, `search_seconds`
            and `keep_pair` are for replays.
        search_seconds: seconds after which that search begins no further run.
        keep_pair: called with the source of a module that makes the smallest pair that still refutes.
        in_process: whether to run the algorithm in this process, as a debugger needs. By default each run of
            a replay and each chunk of a sampling audit has its own process.
        limits: limits on the time and memory of each run in its own process.
        run_options: further arguments of `dpaudit.run`.

    Raises:
        UsageError: there are no pairs, the method or the score is unknown, or a given option does not apply
            to the method.
        Exception: any error of `replay` or `audit_by_sampling`.
    """
    found = pairs_for(algorithm, pairs)
    method = method or ("sequential" if getattr(algorithm, "plain", False) else "replay")
    for name, value, known in (("method", method, METHODS), ("score", score, SCORES)):
        if not callable(value) and value not in known:
            words = [str(one) for one in known if one is not None]
            remedy = f"{did_you_mean(str(value), words)}give one of {', '.join(words)}"
            why = "another audit than the one that was meant would be made"
            raise UsageError(f"no {name} {value!r}", where=name, why=why, remedy=remedy)
    claim = about_run(algorithm, claim)
    run_options = {"users": users, **({} if budget is None else {"budget": budget}), **run_options}
    if method != "replay" and search_pairs:
        why, remedy = "a search compares queries, which only a replay sees", "use the method replay"
        what = f"search_pairs with the method {method}"
        raise UsageError(what, where="search_pairs", why=why, remedy=remedy)
    if method == "replay":
        unused: dict[str, object] = {
            "chunk": chunk,
            "cluster": cluster,
            "resume": resume,
            "time_limit": time_limit,
        }
        unused |= {"score": score, "workers": workers, "stop_when_refuted": stop_when_refuted or None}
        for name in [name for name, value in unused.items() if value is not None]:
            why = "an option that is ignored would look as if it had an effect"
            remedy = "leave it out, or use a sampling method: sequential, threshold or gdp"
            raise UsageError(f"{name} with the method replay", where=name, why=why, remedy=remedy)
        from dpaudit.auditors.replay.replay import replay

        return replay(
            algorithm,
            found,
            claim=claim,
            seed=seed,
            run_options=run_options,
            replays=trials,
            delta=delta,
            confidence=confidence,
            in_process=in_process,
            limits=limits,
            search_pairs=search_pairs,
            search_seconds=search_seconds,
            keep_pair=keep_pair,
            budget_share=budget_share,
        )
    from dpaudit.auditors.sampling.sampling import SamplingPlan, audit_by_sampling

    plan = SamplingPlan(
        TRIALS.get(method, TRIALS["threshold"]) if trials is None else trials,
        seed,
        chunk=chunk,
        workers=1 if workers is None else workers,
        cluster=cluster,
        resume=resume,
        time_limit=time_limit,
        stop_when_refuted=stop_when_refuted,
    )
    judged: Judged = {"claim": claim, "curve": _curve(claim), "delta": delta, "confidence": confidence}
    here = in_process if cluster is None else True  # a cluster's workers are processes of their own
    kept = {"score": score} if callable(score) else {}
    work = Work("runs a side", plan.trials * len(found), lasting=True)
    with work, hosting(algorithm, None, found, kept=kept, in_process=here, limits=limits) as target:
        audited = audit_by_sampling(
            target.replayed,
            target.pairs,
            plan,
            method=_added(method)
            if METHODS.package(method)
            else cast("Literal['sequential', 'threshold', 'gdp']", method),
            score=target.kept.get("score", score),
            run_options=_run_options(algorithm, claim, run_options),
            progress=progress or functools.partial(_tell, work),
            **judged,
        )
        return _besides(algorithm, audited)


@checked("one_run", algorithm=Callable | Collection)
def one_run(
    algorithm: Auditable | Scores,
    canaries: Canaries | Coins,
    *,
    guesses: int | None = None,
    claim: Claim | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    in_process: bool | None = None,
    limits: Limits = NO_LIMITS,
    **run_options: Any,
) -> Audit:
    """Run an algorithm once on data with canaries, and guess which canaries were included.

    ``one_run(algorithm, canaries)`` makes the run; the canaries are inserted and scored in the algorithm's
    process. ``one_run(scores, included)`` judges a run made elsewhere: `scores` [m] are higher for canaries
    that seem to be included, and `included` [m] are booleans. Two lists of such arrays describe several
    independent runs. Each canary must be included by its own fair coin, independent of everything else.

    >>> import numpy as np
    >>> from dpaudit import Claim, PureDP, one_run
    >>> coins = np.random.default_rng(0).random(1000) < 0.5
    >>> claim = Claim(PureDP(epsilon=1.0), unit="row", neighbouring="add-or-remove-one")
    >>> str(one_run(coins.astype(float), coins, claim=claim).verdict)  # each score reveals its coin
    'REFUTED'

    `guesses` is the number of guessed coins; by default it is chosen for the claim. For a GDP claim the
    bound is on mu, otherwise on epsilon; neither assumes a form of the privacy curve. The other arguments
    are as in `audit`, except that an open relation in the claim becomes add-or-remove-one. Raises
    `DataError` if scores and coins do not fit, a score is NaN, or the coins are implausible for fair coins;
    raises `UsageError` for options of a run beside scores.
    """
    from dpaudit.auditors.sampling import one_run as method

    what: Any = algorithm
    if callable(what):
        require_kind(canaries, method.Canaries, "one_run(canaries=)")
    claim = claim if claim is not None else getattr(what, "claim", None)
    relation = method.coin_relation(claim)
    claim = about_run(what, claim and claim.model_copy(update={"neighbouring": relation}))
    judged: Judged = {"claim": claim, "curve": _curve(claim), "delta": delta, "confidence": confidence}
    if not isinstance(canaries, method.Canaries):
        for name in [*run_options, *([] if in_process is None else ["in_process"])]:
            why = "these scores are of a run that was made elsewhere"
            remedy = "leave it out, or give an algorithm and its Canaries"
            raise UsageError(f"{name} beside scores", where=name, why=why, remedy=remedy)
        return method.one_run(what, canaries, guesses=guesses, seed=seed, **judged)
    require_kind(what, Callable, "one_run(algorithm=)")
    options = {**_run_options(what, claim, run_options), "neighbouring": relation}
    kept = {"insert": canaries.insert, "score": canaries.score}
    with (
        Work("running it once"),
        hosting(what, None, (), kept=kept, in_process=in_process, limits=limits) as target,
    ):
        own = method.Canaries(canaries.number, **target.kept)
        return _besides(
            what,
            method.audit_in_one_run(
                target.replayed, own, guesses=guesses, seed=seed, run_options=options, **judged
            ),
        )


def pairs_for(algorithm: object, pairs: object) -> Sequence[Pair]:
    """Return the given pairs in one form; None stands for the algorithm's own worst pairs.

    Raises `UsageError`: there are none, or something else was given.
    """
    if pairs is None and hasattr(algorithm, "worst_pairs"):
        pairs = algorithm.worst_pairs()
    if isinstance(pairs, Pair):
        return [pairs]
    if isinstance(pairs, tuple) and len(pairs) == 2 and not isinstance(pairs[0], Pair):
        return [Pair(*pairs)]
    found = list(pairs) if isinstance(pairs, Iterable) else []
    if not found or not all(isinstance(pair, Pair) for pair in found):
        none = pairs is None or (isinstance(pairs, Iterable) and not found)
        odd = found[0] if found else pairs
        what = "no pairs of neighbouring data" if none else f"pairs of type {type(odd).__name__}"
        why = "an audit compares two data sets that differ in one unit of privacy"
        meant = f"did you mean {name_of(pairs)}()? " if callable(pairs) else ""
        remedy = f"{meant}give a Pair, the tuple (data, neighbour), or several pairs"
        if none:
            unit = getattr(getattr(algorithm, "claim", None), "unit", None)
            named = "" if unit is None else f", {unit!r},"
            remedy += f"; a data frame with rows brings its own where the claim's unit{named} is one of its"
            remedy += " columns, of text or of whole numbers"
        raise UsageError(what, where="pairs", why=why, remedy=remedy)
    return found


def _added(method: str) -> Callable[..., Audit]:
    """Return another package's auditor; its results name the package and are not checked here."""
    auditor, package = METHODS[method], METHODS.package(method)

    def found(samples: Samples, *, claim: Claim | None, confidence: float) -> Audit:
        audit = auditor(samples, claim=claim, confidence=confidence)
        trusted = Condition(code=Code.ADDED_AUDITOR, text=f"the auditor {method} of the package {package}")
        stated = {"method": method, "claim": claim, "confidence": confidence, "trials": len(samples)}
        return audit.model_copy(update={**stated, "not_checked": (*audit.not_checked, trusted)})

    return found


def _besides(algorithm: object, found: Audit) -> Audit:
    """Return the audit with the algorithm's own unchecked conditions."""
    return found.model_copy(update={"not_checked": (*found.not_checked, *conditions_of(algorithm))})


def _tell(work: Work, so_far: SoFar) -> None:
    words = [] if so_far.pairs == 1 else [f"pair {so_far.pair + 1} of {so_far.pairs}"]
    audit = so_far.audit
    if audit is not None and audit.epsilon_lower is not None:
        least = math.floor(audit.epsilon_lower * 1e4) / 1e4
        words.append(f"epsilon >= {least:.4f} at delta {audit.delta:g}")
    if audit is not None and audit.verdict is Experiment.REFUTED:
        words.append("REFUTED")
    work(so_far.pair * so_far.trials + so_far.done, ", ".join(words))


def _curve(claim: Claim | None) -> PrivacyCurve | None:
    return None if claim is None else implied_curve(claim.guarantee)


def _run_options(algorithm: object, claim: Claim | None, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that determine a run, without the claim's figure: kept runs serve any figure."""
    if getattr(algorithm, "plain", False):
        return {}
    unit, neighbouring, trust_model = terms(claim)
    return {"unit": unit, "neighbouring": neighbouring, "trust_model": trust_model, **options}
