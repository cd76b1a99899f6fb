"""What all torture tests need: programs in forks, their state at random moments, and figures for the page."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpaudit import Certificate, Ledger
from dpaudit.app.main import main
from dpaudit.certificate.verdicts import Proof

#: Where figures are kept for `docs/programs/make_reliability.py`: a line of JSON each.
FIGURES = "DPAUDIT_TORTURE_FIGURES"

#: Exit codes that docs/design.md promises, with those of an interrupt and of a closed pipe.
DOCUMENTED = frozenset({0, 1, 2, 3, 4, 5, 130, 141})

OWN = """
import numpy as np
from dpaudit import L2, Gaussian

def sums(data, curator):
    noise = Gaussian(sigma=4.0, sensitivity=L2(2.0))
    return [curator.release_sum(data, bound=1.0, mechanism=noise, label=f"sum {i}") for i in range(3)]

def count(data, curator):
    return curator.release(float(data[:, 0].sum()), Gaussian(sigma=4.0, sensitivity=L2(2.0)), label="count")

def pair():
    return np.eye(5, 2), np.zeros((5, 2))
"""


#: The exit code of a command that was killed.
KILLED = -signal.SIGKILL

#: The same of one that was killed, and of which something still runs.
LEFT_BEHIND = 99


def is_group(group: int) -> bool:
    """Whether any process of a group still runs."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, own = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it has just ended
            continue
        if own == str(group) and state not in "ZX":
            return True
    return False


def keep_figure(topic: str, **figures: Any) -> None:
    """Keep figures about a topic, if somebody writes the page."""
    if path := os.environ.get(FIGURES):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"topic": topic, **figures}) + "\n")


@dataclass(frozen=True)
class Program:
    """A command in a child of this process, where everything is imported already."""

    process: int
    #: Where its stderr is read from, if that is a pipe, and the file that gets it.
    said: tuple[int, Path] | None = None

    @classmethod
    def start(
        cls,
        folder: Path,
        *arguments: object,
        largest_file: int | None = None,
        first: Callable[[], None] | None = None,
    ) -> Program:
        """Run ``dpaudit`` in a folder; stdout and stderr go to the files out and err beside it.

        `largest_file` limits the size of every file, as a full disk does; `first` is called in the child.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        reading, writing = os.pipe() if largest_file is not None else (-1, -1)
        process = os.fork()
        if process and largest_file is None:
            return cls(process)
        if process:
            os.close(writing)
            return cls(process, (reading, Path(f"{folder}.err")))
        status = 70
        try:
            os.setpgid(0, 0)  # so that what it starts can be found
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.chdir(folder)
            for descriptor, name in ((1, "out"), (2, "err")):
                handle = os.open(f"{folder}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                os.dup2(handle, descriptor)
                os.close(handle)
            if largest_file is not None:  # what is printed is no file
                os.dup2(writing, 1)
                os.dup2(writing, 2)
            sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
            sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
            warnings.resetwarnings()
            for name in [name for name in sys.modules if name.startswith("dpaudit_target_")]:
                del sys.modules[name]
            if largest_file is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, resource.RLIM_INFINITY))
            if first is not None:
                first()
            main([str(argument) for argument in arguments], prog_name="dpaudit")
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException as error:  # noqa: BLE001  (a child of a fork must never return)
            os.write(2, f"Traceback: {type(error).__name__}: {error}\n".encode())
        finally:
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except (OSError, ValueError):
                    status = status or 74
            os._exit(status)

    def wait(self) -> int:
        """The exit code; minus the signal that ended it."""
        if self.said is not None:
            with os.fdopen(self.said[0], "rb") as pipe:
                self.said[1].write_bytes(pipe.read())
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])

    def is_ended(self, within: float) -> bool:
        """Whether it ends within so many seconds."""
        end, ended = time.monotonic() + within, os.WEXITED | os.WNOHANG | os.WNOWAIT
        while os.waitid(os.P_PID, self.process, ended) is None:
            left = end - time.monotonic()
            if left <= 0.0:
                return False
            time.sleep(min(left, 1e-3))
        return True

    def killed_after(self, seconds: float) -> int:
        """Kill it, if it still runs after so many seconds; as `wait`.

        What it has started must end by itself: where something has not within half a minute, the exit code is
        that of no command.
        """
        self.is_ended(within=seconds)
        os.kill(self.process, signal.SIGKILL)  # a child that has ended is there until it is waited for
        status = self.wait()
        ends = time.monotonic() + 30
        while is_group(self.process):
            if time.monotonic() > ends:
                os.killpg(self.process, signal.SIGKILL)
                return LEFT_BEHIND
            time.sleep(1e-3)
        return status


class Killer:
    """Kills programs at moments from their beginning to a little past their end.

    `seconds` is how long a whole run takes. It follows what is seen, since a busy machine is faster in one
    minute and slower in the next.
    """

    def __init__(self, seconds: float, seed: int) -> None:
        self.seconds = seconds
        self._draw = random.Random(seed)  # noqa: S311  (no secret)

    def kill(self, program: Program, *, whole: bool = True) -> int:
        """As `Program.killed_after`; a run is not `whole` if it continues another one."""
        moment = self._draw.uniform(0.0, 1.15 * self.seconds)
        begun = time.monotonic()
        status = program.killed_after(moment)
        if status == KILLED:
            self.seconds = max(self.seconds, moment)
        elif whole:
            self.seconds = time.monotonic() - begun
        return status


def run(folder: Path, *arguments: object, **options: Any) -> int:
    """The exit code of a whole run."""
    return Program.start(folder, *arguments, **options).wait()


def printed(folder: Path, name: str = "out") -> str:
    """What the last command in a folder printed."""
    return Path(f"{folder}.{name}").read_text(encoding="utf-8", errors="replace")


def seconds_of(work: Callable[[], object]) -> float:
    """How long something takes."""
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def faults_of_output(folder: Path, *, proof: Proof = Proof.PROVED) -> list[str]:
    """What is wrong with the files that ``certify -o`` has left: half a file, or a certificate alone."""
    found = []
    for name in ("ledger.jsonl", "certificate.json", "report.html", "output.json"):
        if not (folder / name).exists():
            continue
        try:
            if name == "ledger.jsonl":
                Ledger.read(folder / name)
            elif name == "certificate.json":
                Certificate.read(folder / name)
            elif name == "output.json":
                json.loads((folder / name).read_text())
            elif not (folder / name).read_text().rstrip().endswith("</html>"):
                found.append("half a page")
        except Exception as error:  # noqa: BLE001  (whatever is wrong with it)
            found.append(f"{name}: {type(error).__name__}")
    if (folder / "certificate.json").exists() and not found:
        certificate = Certificate.read(folder / "certificate.json")
        lacking = [n for n in ("ledger.jsonl", "report.html", "output.json") if not (folder / n).exists()]
        found += [f"a certificate without {name}" for name in lacking]
        if not lacking:
            try:
                certificate.require_ledger(Ledger.read(folder / "ledger.jsonl"))
            except Exception as error:  # noqa: BLE001
                found.append(f"certificate and ledger: {type(error).__name__}")
        if certificate.proof is not proof:
            found.append(f"the verdict {certificate.proof}")
    return found


def together(counts: Sequence[str]) -> dict[str, int]:
    """How often each occurs."""
    return {name: counts.count(name) for name in sorted(set(counts))}
