"""Everyday speed, as ratios: `python benchmarks/everyday.py [--write | --check] [--growth]`.

Commands are compared with `import scipy.stats` in a fresh interpreter, parts with operations of numpy or json
on as many numbers. What is compared takes turns in the same run, and the least of several rounds counts, in
seconds of CPU, so that a busy machine changes a ratio little. What is short is repeated for a quarter of a
second. Beside the ratios stand the bars: what is promised of a release and of a replayed run, in seconds; and
where a run or a release needs further processes, how often the machine could make a bare fork or round trip
in that time.

--write puts both into docs/benchmarks.md. --check exits with 1 if a ratio has grown by half over the one
written there (threefold, where arrays decide), after three more rounds for every ratio that seems to have.
--growth writes docs/images/growth.svg: how time grows with trajectories, releases and recordings.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import math
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine

import dpaudit
from dpaudit import (
    L2,
    ZCDP,
    ApproxDP,
    Claim,
    Curator,
    Gaussian,
    Ledger,
    Neighbouring,
    Pair,
    PoissonSampled,
    Release,
)
from dpaudit.algorithms.environments.treatment import treatment_data
from dpaudit.algorithms.papers.qiao_wang_2023.dp_apvi import DPAPVI
from dpaudit.auditors.replay.replay import replay
from dpaudit.ledger.ledger import Header
from dpaudit.noise.randomness import Randomness
from dpaudit.processes.host import NO_LIMITS
from dpaudit.processes.hosting import hosting

ROOT = Path(__file__).parents[1]
PAGE, PICTURE = ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "images" / "growth.svg"
HEADING = "\n## Everyday speed\n"
ROUNDS, MORE, GROWN = 5, 3, 1.5
#: What is measured over numpy alone.
OVER_NUMPY = "one release of 1,000 numbers, over their sum and noise in numpy"
SHORTEST = 0.25  # seconds of a round
LINES, REPLAYS, RELEASES, MANY = 10_000, 100, 20, 100_000
BASE = "import scipy.stats"
FILE = "LEDGER"  # stands for the ledger of two releases
ONE_SAMPLED, MANY_SAMPLED = "SAMPLED", "THOUSAND"  # for those of sampled noise, at distinct rates
VERIFY_ONE, VERIFY_MANY = "dpaudit verify, one sampled release", "dpaudit verify, 1,000 at distinct rates"
#: For what numpy's arrays take or are compared with: longer vectors make them twice as fast.
GROWN_OF_ARRAYS = 3.0
VERIFY_RATIO, MOST_VERIFY_RATIO = "verify of 1,000 distinct rates over one, at most 20", 20.0
MAIN = ("-m", "dpaudit.app.main")
REVIEWED = ["epsilon", "gaussian", "--sigma", "1.1", "--rate", "0.01", "--steps", "10000", "--delta", "1e-5"]
STEPS = ["--rate", "0.01", "--count", "1000", "--epsilon", "1", "--delta", "1e-6"]
COMMANDS = {
    "import dpaudit": ("-c", "import dpaudit"),
    "dpaudit --help": (*MAIN, "--help"),
    "dpaudit verify, two releases": (*MAIN, "verify", FILE),
    VERIFY_ONE: (*MAIN, "verify", ONE_SAMPLED),
    VERIFY_MANY: (*MAIN, "verify", MANY_SAMPLED),
    "dpaudit epsilon, sampled gaussian": (*MAIN, *REVIEWED),
    "dpaudit calibrate gaussian": (*MAIN, "calibrate", "gaussian", "--epsilon", "1", "--delta", "1e-6"),
    "dpaudit calibrate, 1,000 sampled steps": (*MAIN, "calibrate", "gaussian", *STEPS),
    "dpaudit convert": (*MAIN, "convert", "--rho", "0.5", "--delta", "1e-6"),
    "dpaudit certify dp-apvi": (*MAIN, "certify", "dp-apvi"),
    "the same with -o: files and report": (*MAIN, "certify", "dp-apvi", "-o", "OUT"),
}
APART = "a replayed run in a process of its own, beside its releases"
LOCKSTEP = "a release with a worker and a twin, to memory"
#: What is promised, in seconds of CPU at most.
BARS = {
    "a replayed run, beside its releases": 1e-3,
    "a release of a replayed run": 50e-6,
    APART: 5e-3,
    "the start of such processes": 0.3,
    LOCKSTEP: 200e-6,
    "a live scalar release to a file, beside its exact noise": 30e-6,
    f"{MANY:,} such releases with their noise": 5.0,
}
RATIOS = """
Seconds of CPU as ratios: commands over `import scipy.stats` in a fresh interpreter, parts over what they
name. Made by `python benchmarks/everyday.py --write --growth`; `.ci/run` fails where a ratio has grown by
half; threefold over numpy alone, and at 1,000 rates, since longer vectors make arrays faster.
"""
SECONDS = """
In seconds of CPU, and over what it takes for a fork of the same process that ends at once, or for a byte from
each of two processes and back:
"""
CLAIM = Claim(ZCDP(rho=1e6), unit="row", neighbouring="replace-one")
NOISE = Gaussian(sigma=2.0, sensitivity=L2(2.0))
SCALAR = Gaussian(sigma=1.0, sensitivity=L2(1.0))


def sums(data: np.ndarray, curator: Curator, number: int = RELEASES) -> Any:
    """As many releases of a vector as asked for."""
    return [curator.release(data.sum(axis=0), NOISE, label=f"sum {i}") for i in range(number)]


def ledger(path: Path, number: int) -> Path:
    """A ledger file of so many releases."""
    data = np.zeros((2, 1))
    dpaudit.run(lambda data, curator: sums(data, curator, number), data, claim=CLAIM, path=path)
    return path


def sampled(path: Path, number: int) -> Path:
    """A ledger file of so many releases of sampled Gaussian noise, each at a rate of its own."""
    claim = Claim(ApproxDP(epsilon=8.0, delta=1e-6))
    header = Header(algorithm="sampled", unit="row", neighbouring=Neighbouring.ADD_OR_REMOVE_ONE, claim=claim)
    made = Ledger(header)
    for i in range(number):
        noise = PoissonSampled(rate=0.01 * (1.0 + (i + 0.5) / number), mechanism=SCALAR)
        made.append(Release(label=f"step {i}", mechanism=noise))
    made.finish()
    return made.write(path)


def cpu(work: Callable[[], object]) -> float:
    """Seconds of CPU in this process and its finished children."""

    def spent() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime

    begun = spent()
    work()
    return spent() - begun


def least(works: Mapping[str, Callable[[], object]], rounds: int, shortest: float = 0.0) -> dict[str, float]:
    """The least of several rounds, in which all take turns, each repeated for at least `shortest` seconds."""
    best = dict.fromkeys(works, math.inf)
    times = dict.fromkeys(works, 1)
    if shortest > 0.0:
        times = {name: math.ceil(shortest / max(cpu(work), 1e-4)) for name, work in works.items()}
    for _ in range(rounds):
        for name, work in works.items():
            gc.collect()
            gc.disable()  # as timeit does
            spent = cpu(lambda work=work, name=name: [work() for _ in range(times[name])])
            gc.enable()
            best[name] = min(best[name], spent / times[name])
    return best


def commands(folder: Path) -> dict[str, Callable[[], object]]:
    """Each command in a fresh interpreter; compiled modules are kept, as in an installation."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPYCACHEPREFIX": str(folder / "compiled"), "OMP_NUM_THREADS": "1"}
    stands_for = {FILE: str(ledger(folder / "two.jsonl", 2)), "OUT": str(folder / "out")}
    for name, number in ((ONE_SAMPLED, 1), (MANY_SAMPLED, 1000)):
        stands_for[name] = str(sampled(folder / name, number))

    def started(arguments: tuple[str, ...]) -> Callable[[], object]:
        command = [sys.executable, *(stands_for.get(word, word) for word in arguments)]
        quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return lambda: subprocess.run(command, check=True, env=environment, cwd=folder, **quiet)

    return {name: started(arguments) for name, arguments in {BASE: ("-c", BASE), **COMMANDS}.items()}


def parts(folder: Path) -> dict[str, tuple[Callable[[], object], Callable[[], object], float]]:
    """Name -> the work, what it is compared with, and the number of such comparisons in one unit of work."""
    data, other = np.zeros((100, 1000)), np.zeros((100, 1000))
    other[0, 0] = 1.0
    generator, path = np.random.default_rng(0), ledger(folder / "long.jsonl", LINES)
    text = path.read_text(encoding="utf-8").splitlines()
    run = lambda: dpaudit.run(sums, data, claim=CLAIM, seed=0)  # noqa: E731

    def numpy_alone() -> None:
        for _ in range(RELEASES):
            data.sum(axis=0) + generator.normal(scale=2.0, size=1000)

    def replayed() -> None:
        dpaudit.audit(sums, Pair(data, other), claim=CLAIM, trials=REPLAYS, in_process=True)

    return {
        OVER_NUMPY: (run, numpy_alone, 1.0),
        "one replayed run, over the run itself": (replayed, run, 2.0 * REPLAYS),
        "verify of one line, over json.loads": (
            lambda: dpaudit.verify(path),
            lambda: [json.loads(line) for line in text],
            1.0,
        ),
    }


def measured(rounds: int, wanted: frozenset[str] | None = None) -> dict[str, float]:
    """All ratios, or those that are wanted."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        needed = {BASE, *([VERIFY_ONE, VERIFY_MANY] if wanted and VERIFY_RATIO in wanted else [])}
        starts = {k: v for k, v in commands(folder).items() if wanted is None or k in wanted | needed}
        least(starts, 1)  # compiles
        best = least(starts, rounds)
        ratios = {name: seconds / best[BASE] for name, seconds in best.items() if name != BASE}
        if VERIFY_MANY in ratios and VERIFY_ONE in ratios:
            ratios[VERIFY_RATIO] = ratios[VERIFY_MANY] / ratios[VERIFY_ONE]
        for name, (work, unit, number) in parts(folder).items():
            if wanted is None or name in wanted:
                best = least({"work": work, "unit": unit}, rounds, SHORTEST)
                ratios[name] = best["work"] / best["unit"] / number
    return ratios


class Scalars:
    """An algorithm that does nothing but release one number, time and again.

    Each run adds a byte to a file, by whatever process it is made.
    """

    def __init__(self, number: int, runs: Path) -> None:
        self.number, self.runs = number, runs

    def __call__(self, data: Any, curator: Curator) -> None:
        with self.runs.open("ab") as file:
            file.write(b".")
        for i in range(self.number):
            curator.release(data, SCALAR, label=f"step {i}")


def forked(work: Callable[[], object]) -> int:
    """A fork of this process, with all its libraries, that works and ends."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def bare_forks(number: int = 100) -> None:
    """So many forks that end at once."""
    for _ in range(number):
        os.waitpid(forked(lambda: None), 0)


def bare_round_trips(number: int) -> None:
    """So many times a byte from each of two processes, and one back to it."""
    channels = [socket.socketpair() for _ in "ab"]

    def asks(channel: socket.socket) -> None:
        for _ in range(number):
            channel.sendall(b"?")
            channel.recv(1)

    pids = [forked(functools.partial(asks, other)) for _, other in channels]
    for _ in range(number):
        for mine, _ in channels:
            mine.recv(1)
        for mine, _ in channels:
            mine.sendall(b"!")
    for pid, ends in zip(pids, channels, strict=True):
        os.waitpid(pid, 0)
        for end in ends:
            end.close()


def floors() -> dict[str, tuple[float, str]]:
    """What the machine itself takes, in seconds of CPU, by the bar that it is the floor of."""
    fork, start, long = (
        least({"": work}, MORE)[""]
        for work in (bare_forks, lambda: bare_round_trips(0), lambda: bare_round_trips(1000))
    )
    return {APART: (fork / 100, "bare forks"), LOCKSTEP: ((long - start) / 1000, "bare round trips")}


def over(found: float, floor: tuple[float, str] | None) -> str:
    """A figure over its floor, in words."""
    return "" if floor is None else f"{found / floor[0]:.1f} {floor[1]}"


def seconds() -> dict[str, float]:
    """What the bars are about, in seconds of CPU."""
    pair, randomness, value = Pair(0.0, 1.0), Randomness.live(), np.zeros(())

    with tempfile.TemporaryDirectory() as scratch:
        runs, path = Path(scratch) / "runs", Path(scratch) / "many.jsonl"

        def a_run(number: int, *, in_process: bool) -> float:
            runs.write_bytes(b"")
            target = Scalars(number, runs)
            spent = least({"": lambda: replay(target, [pair], claim=CLAIM, in_process=in_process)}, 1)[""]
            return spent / runs.stat().st_size

        def in_lockstep(number: int) -> float:
            def made() -> None:
                options: Any = {"in_process": False, "limits": NO_LIMITS}
                with hosting(Scalars(number, runs), 0.0, [pair], **options) as target:
                    dpaudit.run(target.algorithm, target.data, claim=CLAIM)

            return least({"": made}, MORE)[""]

        one, hundred = (min(a_run(n, in_process=True) for _ in range(MORE)) for n in (1, 100))
        apart = min(a_run(1, in_process=False) for _ in range(MORE))
        start, long = in_lockstep(1), in_lockstep(1001)
        alone = least({"": lambda: [SCALAR.sample(value, randomness) for _ in range(MANY)]}, 1)[""]
        many = least({"": lambda: dpaudit.run(Scalars(MANY, runs), 0.0, claim=CLAIM, path=path)}, 2)[""]
    release = (hundred - one) / 99
    processes = apart - release, start, (long - start) / 1000
    live = (many - alone) / MANY, many
    return dict(zip(BARS, (one - release, release, *processes, *live), strict=True))


def written() -> dict[str, float]:
    """The ratios in docs/benchmarks.md."""
    rows = re.findall(r"^\| ([^|]+?) \| ([0-9.]+) \|$", PAGE.read_text().partition(HEADING)[2], re.MULTILINE)
    return {name: float(ratio) for name, ratio in rows}


def most(name: str, ratio: float) -> float:
    """What may be measured where a ratio was committed."""
    if name == VERIFY_RATIO:
        return MOST_VERIFY_RATIO
    return (GROWN_OF_ARRAYS if name in {OVER_NUMPY, VERIFY_MANY} else GROWN) * ratio


def section(
    ratios: Mapping[str, float],
    bars: Mapping[str, float],
    bare: Mapping[str, tuple[float, str]],
    slopes: Mapping[str, float],
) -> str:
    """The section of the page."""
    lines = [
        HEADING.strip("\n"),
        "",
        *textwrap.wrap(RATIOS.strip(), 110),
        "",
        *machine(),
        "",
        "| what | ratio |",
        "|---|---|",
        *(f"| {name} | {ratio:.3g} |" for name, ratio in ratios.items()),
        "",
        *textwrap.wrap(SECONDS.strip(), 110),
        "",
        "| what | at most | measured | | is |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | {BARS[name]:g} | {found:.2g} | {'met' if found <= BARS[name] else 'MISSED'} "
            f"| {over(found, bare.get(name))} |"
            for name, found in bars.items()
        ),
        "",
    ]
    if slopes:
        steep = ", ".join(f"{slope:.2f} over {name}" for name, slope in slopes.items())
        lines += [f"![Seconds over size, both on logarithmic axes](images/{PICTURE.name})", ""]
        words = f"Slopes between the two largest sizes, 1 being proportional: {steep}."
        lines += [*textwrap.wrap(words, 110), ""]
    return "\n".join(lines)


def growth() -> dict[str, list[tuple[int, float]]]:
    """Size and seconds of CPU, line by line."""
    _, mdp = treatment_data()
    behaviour = np.full(mdp.rewards.shape, 1.0 / mdp.rewards.shape[-1])
    algorithm = DPAPVI(mdp.rewards)
    found: dict[str, list[tuple[int, float]]] = {}

    def point(name: str, size: int, work: Callable[[], object]) -> None:
        found.setdefault(name, []).append((size, least({"": work}, 1 if size >= 10**5 else 3)[""]))

    for size in (10**3, 10**4, 10**5, 10**6):
        data = mdp.sample_trajectories(size, behaviour, np.random.default_rng(0))
        point("certify: trajectories", size, functools.partial(dpaudit.certify, algorithm, data, pairs=()))
    rows, other = np.zeros((2, 1)), np.array([[1.0], [0.0]])
    for size in (10, 10**2, 10**3, 10**4, 10**5):
        many = functools.partial(sums, number=size)
        point("certify: releases", size, functools.partial(dpaudit.certify, many, rows, claim=CLAIM))
    for size in (10, 10**2, 10**3):
        audit = functools.partial(dpaudit.audit, sums, Pair(rows, other), claim=CLAIM, trials=size)
        point("replay: recordings", size, audit)
    return found


def draw(found: Mapping[str, list[tuple[int, float]]]) -> None:
    """The picture of how time grows."""
    from dpaudit.page.chart import axis, colour, marks, specification, svg

    rows = [
        {"what": what, "size": size, "seconds": seconds}
        for what, line in found.items()
        for size, seconds in line
    ]
    x, y = (axis(name, name, {"type": "log"}) for name in ("size", "seconds"))
    lines = marks(rows, "line", {"x": x, "y": y, "color": colour(list(found), "what")}, point=True)
    PICTURE.write_text(svg(specification({**lines, "width": 560, "height": 280}), "white") + "\n")


def main() -> int:
    """Measure, print, and write or check."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for option in ("--write", "--check", "--growth"):
        parser.add_argument(option, action="store_true")
    asked = parser.parse_args()
    ratios = measured(ROUNDS)
    before = written() if asked.check else {}
    for _ in range(MORE):
        slow = frozenset(name for name, ratio in before.items() if ratios.get(name, 0.0) > most(name, ratio))
        if slow:
            again = measured(MORE, slow)
            ratios |= {name: min(ratios[name], again[name]) for name in slow}
    for name, ratio in ratios.items():
        was = f", was {before[name]:.3g}" if name in before else ""
        print(f"{ratio:10.3g}  {name}{was}")  # noqa: T201
    bars, bare = seconds(), floors()
    for name, found in bars.items():
        beside = f", {over(found, bare[name])}" if name in bare else ""
        print(f"{found:10.2g} s  {name}, at most {BARS[name]:g} s{beside}")  # noqa: T201
    slopes: dict[str, float] = {}
    if asked.growth:
        found = growth()
        draw(found)
        for name, line in found.items():
            (first, less), (last, more) = line[-2:]
            slopes[name] = math.log(more / less) / math.log(last / first)
            points = ", ".join(f"{size:g}: {seconds:.3g} s" for size, seconds in line)
            print(f"slope {slopes[name]:.2f}  {name}  {points}")  # noqa: T201
    if asked.write:
        page, _, old = PAGE.read_text().partition(HEADING)
        drawn = "".join(old.partition("\n![")[1:])  # the picture of growth, where it was not measured
        new = section(ratios, bars, bare, slopes)
        PAGE.write_text(page.rstrip("\n") + f"\n\n{new}" + ("" if slopes else drawn))
    grown = [name for name, ratio in before.items() if ratios.get(name, math.inf) > most(name, ratio)]
    for name in grown:
        print(f"more than {most(name, before[name]):.3g}: {name}")  # noqa: T201
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
