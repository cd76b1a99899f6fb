"""What the sections of docs/papers/papers.md share: tables, premises, releases short of their share, and attacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dpaudit.auditors.sampling.trials import run_trials
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.threshold import threshold
from dpaudit.certificate.verdicts import Accounting, Audit, Proof, leading_figure
from dpaudit.claims.claims import Claim
from dpaudit.claims.pairs import Pair


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def premises(claim: Claim) -> str:
    """A claim's premises, each with whether it holds."""
    return "; ".join(f"{'holds' if p.holds else 'FAILS'}: {p}" for p in claim.premises) or "none"


def releases(accounting: Accounting, *, kinds: bool = False) -> str:
    """How many releases do not meet their own share of the claim, on request of which kinds, and how far."""
    short = [release for release in accounting.releases if release.verdict is Proof.NOT_PROVED]
    if not short:
        return f"all {len(accounting.releases)} PROVED"
    worst = max(
        leading_figure(release.proved) / leading_figure(release.claimed)
        for release in short
        if release.claimed is not None
    )
    which = f" ({', '.join(sorted({release.mechanism.kind for release in short}))})" if kinds else ""
    return f"{len(short)} of {len(accounting.releases)} NOT_PROVED{which}: {worst:.4g} times their share"


def ratios(audit: Audit) -> list[float]:
    """How many times more than declared each finding measures."""
    return [(finding.measured or 0.0) / finding.declared for finding in audit.findings if finding.declared]


def attacked(algorithm: Any, pair: Pair, score: Callable[[Any], float], *, trials: int) -> str:
    """The verdict of a threshold audit, which refutes a true claim with probability 1e-6 at most."""
    found = run_trials(algorithm, pair, trials, score=score)
    samples = Samples(found.data, found.neighbour, found.seed)
    return str(threshold(samples, claim=algorithm.claim, confidence=1 - 1e-6).verdict)
