"""`dpaudit audit --zoo`: every auditor against mechanisms whose faults are known."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpaudit.algorithms.environments.tabular import random_mdp
from dpaudit.algorithms.papers.qiao_wang_2023.dp_apvi import DPAPVI
from dpaudit.app.text.audits import audit_json
from dpaudit.app.text.failures import EXIT_NOT_PROVED
from dpaudit.app.text.output import assured, line, print_json, print_text, table
from dpaudit.app.text.streams import note
from dpaudit.auditors.zoo.zoo import ZOO, Specimen, ZooRow, zoo_rows
from dpaudit.claims.guarantees import PureDP

#: Runs a side that refuted every broken one: docs/auditing/zoo.md.
ENOUGH_TRIALS = 100_000

METHODS = ("threshold", "sequential", "replay")


def zoo() -> Mapping[str, Specimen]:
    """The auditors' zoo, and a whole algorithm among the correct mechanisms."""
    algorithm = DPAPVI(random_mdp(2, 2, 2, seed=1).rewards, PureDP(epsilon=1.0))
    source = "Qiao and Wang 2023: correct; the truth is that of all its releases"
    return {**ZOO, "dp-apvi": Specimen(algorithm, algorithm.worst_pairs()[0], 1.0, source, most_trials=500)}


def show_zoo(*, trials: int, seed: int, confidence: float, output_format: str) -> int:
    """Print the table: mechanism, claim, truth, each auditor's bound, runs on each side and time.

    Everything in it holds together with the confidence. The exit code is 0 if every broken mechanism is
    refuted and no correct one is, else 1.
    """
    rows = []
    for row in zoo_rows(zoo(), trials=trials, seed=seed, confidence=confidence):
        note(f"{row.name}: {row.seconds:.1f} s")
        rows.append(row)
    right = sum(row.right for row in rows)
    if output_format == "json":
        print_json({"right": right, "confidence": confidence, "rows": [_json(row) for row in rows]})
    else:
        columns = ("mechanism", "claim", "truth", *METHODS, "refuted", "runs", "s")
        words = [f"{right} of {len(rows)} verdicts are right; figures are epsilons at the claim's delta"]
        words += _wrong(rows, trials)
        sure = f"all bounds hold together with confidence {assured(confidence)}"
        words.append(f"{sure}; runs on each side; seed {seed}")
        print_text(table(columns, map(_cells, rows), spare=("s", "runs")), line(), *map(line, words))
    return 0 if right == len(rows) else EXIT_NOT_PROVED


def _wrong(rows: Sequence[ZooRow], trials: int) -> list[str]:
    """Which verdicts are not right, and what that says."""
    missed = ", ".join(row.name for row in rows if not row.right and not row.specimen.correct)
    blamed = ", ".join(row.name for row in rows if not row.right and row.specimen.correct)
    why = f"What tells may be too rare for so few runs: --trials {ENOUGH_TRIALS} refuted every one"
    if trials >= ENOUGH_TRIALS:
        why = "That many runs refuted every one when this was written: an auditor has lost power"
    chance = (
        "By chance that happens in a table with no more than the probability that the confidence leaves; "
        "with another --seed too, it is a fault"
    )
    words = [f"broken, and not refuted: {missed}. {why}"] if missed else []
    return [*words, f"correct, and refuted: {blamed}. {chance}"] if blamed else words


def _cells(row: ZooRow) -> list[object]:
    bounds = [row.epsilon_lower(method) for method in METHODS]
    return [
        row.name,
        f"{row.specimen.guarantee.epsilon:g}",
        f"{row.specimen.pair_epsilon:g}",
        *("" if bound is None else f"{math.floor(1000 * bound) / 1000:g}" for bound in bounds),
        "yes" if row.refuted else "no",
        row.trials,
        f"{row.seconds:.1f}",
    ]


def _json(row: ZooRow) -> dict[str, Any]:
    truth = row.specimen.pair_epsilon
    return {
        "mechanism": row.name,
        "source": row.specimen.source,
        "epsilon_claimed": row.specimen.guarantee.epsilon,
        "delta": row.specimen.delta,
        "correct": row.specimen.correct,
        # Infinities have no place in JSON.
        "epsilon_truth": truth if math.isfinite(truth) else None,
        "refuted": row.refuted,
        "right": row.right,
        "trials": row.trials,
        "seconds": row.seconds,
        "audits": [audit_json(audit) for audit in row.audits],
    }
