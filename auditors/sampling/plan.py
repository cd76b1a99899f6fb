"""How the runs of a sampling audit are made, and what is told while they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpaudit.certificate.verdicts import Audit
from dpaudit.claims.pairs import Pair
from dpaudit.errors import InvalidParameter, UsageError

#: With fewer runs a side the shares to learn, to choose and to test on cannot all hold one.
FEWEST = 10


class TooFewRuns(UsageError):
    """The time limit left fewer runs than an audit needs."""


@dataclass(frozen=True)
class SoFar:
    """How far a sampling audit has come.

    Attributes:
        pair: which of the pairs is being run, from 0.
        pairs: how many there are.
        done: runs a side on this pair.
        trials: runs a side asked for.
        audit: what is known of this pair by now; of a sequential audit only. A test of a fixed number
            of runs shows nothing before its end: who watched it could stop it at a lucky moment.
    """

    pair: int
    pairs: int
    done: int
    trials: int
    audit: Audit | None


@dataclass(frozen=True)
class Plan:
    """How the runs are made; the fields are those of `run_trials`, and what ends them early.

    Attributes:
        trials: runs on each side of each pair.
        seed: the root seed.
        batch: whether to use the algorithm's batch form; left out, where it has one.
        chunk: trials a worker runs before it reports.
        workers: processes on this machine.
        cluster: the address of a `distributed` scheduler.
        resume: a file that keeps finished chunks; that of a second pair has ``-pair-2`` in its name.
        time_limit: seconds after which no further chunk is begun.
        stop_when_refuted: end a sequential audit as soon as its claim is refuted.
    """

    trials: int
    seed: int = 0
    batch: bool | None = None
    chunk: int | None = None
    workers: int = 1
    cluster: str | None = None
    resume: Path | None = None
    time_limit: float | None = None
    stop_when_refuted: bool = False


def check_plan(plan: Plan, pairs: Sequence[Pair]) -> None:
    """Refuse a plan that cannot be followed.

    Raises:
        InvalidParameter: fewer than 10 trials, no pair, or a time limit that is none.
    """
    if plan.trials < FEWEST or not pairs:
        raise InvalidParameter(
            f"{plan.trials} trials on {len(pairs)} pairs",
            where="trials",
            why="runs are needed to choose an event on, and others to test it on",
            remedy=f"ask for {FEWEST} trials or more, on a pair or more",
        )
    if plan.time_limit is not None and not (plan.time_limit > 0 and math.isfinite(plan.time_limit)):
        raise InvalidParameter(f"{plan.time_limit} seconds", where="time limit")
