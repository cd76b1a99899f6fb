"""Every accountant on every workload, side by side in one run; writes docs/benchmarks.md.

    python benchmarks/peers/compare.py                  # all, about three quarters of an hour
    python benchmarks/peers/compare.py --only W2 W6-one --output -

Each answer is computed in a process of its own, which is ended at the limit. Contenders take turns. Seconds
are of CPU, and those shown are the least of all repetitions. Exits 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import mpmath as mp
from contenders import EPSILON, NOISE
from truth import ACCURACY, exact_epsilon, exact_noise, in_closed_form
from workloads import CALIBRATIONS, WORKLOADS

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
machine = importlib.import_module("machine").machine
ROUNDS = 2
#: Tightness that is asked of an answer, relative to the truth.
TIGHT = 1e-6
PEER = "dp-accounting PLD"
#: How many times the limit the peer is given where it is a bar's measure.
PATIENCE = 8.0

INTRODUCTION = """
From parameters in memory to an upper bound on epsilon at delta = 1e-6 (W6: to the least noise), each
accountant in a process of its own, the least of several repetitions after one that loads it, in seconds of
CPU. Made by `nox -s compare`, that is `python benchmarks/peers/compare.py` where the extra `peers` is
installed (and `opacus`, which needs torch). `excess` is relative to the truth, which
`benchmarks/peers/truth.py` computes without the package: Gaussian noise alone at 40 digits, all else by
quadrature good to 1e-12, where a smaller excess of either sign is `within 1e-12`. A minus sign is an answer
below the truth. `times` is how many times longer than dpaudit takes from arrays.
"""


@dataclass(frozen=True)
class Answer:
    """One contender's answer to one workload."""

    contender: str
    seconds: float | None = None
    found: float | None = None
    megabytes: float = 0.0
    refused: str = ""
    waited: float | None = None  # seconds after which it was given up

    @property
    def shown(self) -> str:
        """The seconds, or why there are none."""
        return f"{self.seconds:.3g}" if self.seconds is not None else self.refused


@dataclass(frozen=True)
class Row:
    """All answers to one workload."""

    name: str
    about: str
    quantity: str
    truth: mp.mpf
    accuracy: float  # of the truth, relative
    bar: float | None
    answers: Sequence[Answer]

    def own(self) -> Answer:
        """The package's first answer: that from arrays."""
        return self.answers[0]

    def ratio(self, other: Answer) -> float | None:
        """How many times longer the other took; a lower bound if it was given up."""
        own, taken = self.own().seconds, other.waited if other.seconds is None else other.seconds
        return None if own is None or taken is None else taken / own

    def error(self, answer: Answer) -> float | None:
        """Relative to the truth; negative: below it."""
        if answer.found is None:
            return None
        with mp.workdps(40):
            return float(mp.mpf(answer.found) / self.truth - 1)

    def excess(self, answer: Answer) -> str:
        """The error in words: what the truth's own accuracy can tell."""
        error = self.error(answer)
        if error is None:
            return ""
        return f"{error:.1e}" if abs(error) >= self.accuracy else f"within {self.accuracy:.0e}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", choices=[*WORKLOADS, *CALIBRATIONS], help="these workloads alone"
    )
    parser.add_argument("--limit", type=float, default=90.0, help="seconds of CPU that an answer may take")
    parser.add_argument(
        "--output", default=str(HERE.parents[1] / "docs" / "benchmarks.md"), help="file, or -"
    )
    given = parser.parse_args()
    rows = []
    for key in given.only or [*WORKLOADS, *CALIBRATIONS]:
        rows.append(_row(key, given.limit))
        sys.stderr.write(
            f"{rows[-1].name}: {', '.join(f'{a.contender} {a.shown}' for a in rows[-1].answers)}\n"
        )
    text, missed = _page(rows)
    if given.output == "-":
        sys.stdout.write(text)
    else:
        page = Path(given.output)
        heading = "\n## Samples, replaced units and correlated noise\n"  # from here on other programs write
        kept = page.read_text(encoding="utf-8").partition(heading)[2] if page.exists() else ""
        page.write_text(text + (heading + kept if kept else ""), encoding="utf-8")
    return 1 if missed else 0


def _row(key: str, limit: float) -> Row:
    if key in CALIBRATIONS:
        wanted = CALIBRATIONS[key]
        answers = _asked(NOISE, key, limit)
        accuracy = 0.0 if in_closed_form(wanted) else ACCURACY
        return Row(wanted.name, wanted.about, "sigma", exact_noise(wanted), accuracy, None, answers)
    workload = WORKLOADS[key]()
    patience = {PEER: PATIENCE} if workload.bar is not None else {}
    answers = _asked(EPSILON, key, limit, patience)
    accuracy, truth = 0.0 if in_closed_form(workload) else ACCURACY, exact_epsilon(workload)
    return Row(workload.name, workload.about, "epsilon", truth, accuracy, workload.bar, answers)


def _asked(
    contenders: Iterable[str], key: str, limit: float, patience: Mapping[str, float] = MappingProxyType({})
) -> list[Answer]:
    names = list(contenders)
    best: dict[str, Answer] = {}
    for _ in range(ROUNDS):
        for name in names:
            last = best.get(name)
            if last is not None and (last.seconds is None or last.seconds > limit / 12.0):
                continue  # long runs are even without repetition
            answer = _ask(name, key, limit * patience.get(name, 1.0))
            if last is None or last.seconds is None or (answer.seconds or math.inf) < last.seconds:
                best[name] = answer
    return [best[name] for name in names]


def _ask(contender: str, key: str, limit: float) -> Answer:
    command = [sys.executable, str(HERE / "contenders.py"), contender, key]
    settings = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.Popen(
        command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    while done.poll() is None:
        if _spent(done.pid) > limit + 10.0:  # loading a library is no part of the answer
            done.kill()
            done.communicate()
            return Answer(contender, refused=f"over {limit:g} s", waited=limit)
        time.sleep(0.1)
    if done.returncode != 0:
        return Answer(contender, refused=f"ended with {done.returncode}")
    said = json.loads(done.communicate()[0])
    if "refused" in said:
        return Answer(contender, refused=said["refused"])
    if min(said["seconds"]) > limit:
        return Answer(contender, refused=f"over {limit:g} s", waited=limit)
    return Answer(contender, min(said["seconds"]), said["answer"], said["megabytes"])


def _spent(process: int) -> float:
    """Seconds of CPU of a process that runs, or has not been waited for."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _page(rows: Sequence[Row]) -> tuple[str, int]:
    lines = [
        "# Benchmarks",
        "",
        *textwrap.wrap(INTRODUCTION.strip(), 110),
        "",
        *machine("dp-accounting", "prv-accountant", "opacus", "torch"),
        "",
        "| workload | accountant | seconds | times | answer | excess | peak MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(f"| **{row.name}** | truth | | | {float(row.truth):.12g} | | |")
        for answer in row.answers:
            ratio = row.ratio(answer)
            times = "" if ratio is None or answer is row.own() else f"{ratio:.3g}"
            cells = [
                "",
                answer.contender,
                answer.shown,
                f"over {times}" if times and answer.seconds is None else times,
                "" if answer.found is None else f"{answer.found:.10g}",
                row.excess(answer),
                "" if answer.found is None else f"{answer.megabytes:.0f}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Workloads:", "", *(f"* {row.name}: {row.about} ({row.quantity})" for row in rows), ""]
    verdicts = [_verdict(row) for row in rows if row.bar is not None]
    lines += [
        "## Bars",
        "",
        f"Against {PEER} in the same run: so many times faster, at equal or better tightness (excess at most",
        f"{TIGHT:g}, not above the peer's, not below the truth, which is known to {ACCURACY:.0e} or, for W1,",
        "exactly).",
        "",
        "| workload | asked | measured | excess | peer's excess | |",
        "|---|---|---|---|---|---|",
        *(line for line, _ in verdicts),
        "",
    ]
    return "\n".join(lines), sum(not met for _, met in verdicts)


def _verdict(row: Row) -> tuple[str, bool]:
    own, peer = row.own(), next(answer for answer in row.answers if answer.contender == PEER)
    ratio, error, others = row.ratio(peer), row.error(own), row.error(peer)
    assert row.bar is not None
    met = ratio is not None and ratio >= row.bar and error is not None and -row.accuracy <= error <= TIGHT
    met = met and (others is None or others < 0.0 or (error is not None and error <= others))
    cells = [
        row.name,
        f"{row.bar:g}",
        "" if ratio is None else f"{'over ' if peer.seconds is None else ''}{ratio:.3g}",
        row.excess(own),
        row.excess(peer),
        "met" if met else "MISSED",
    ]
    return "| " + " | ".join(cells) + " |", met


if __name__ == "__main__":
    sys.exit(main())
