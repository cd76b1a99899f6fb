"""A paper's figure as data: how it is drawn again, one call of its command, and what it shows."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dpaudit.algorithms.figures.picture import Row
from dpaudit.algorithms.figures.published_claims import Sentence
from dpaudit.algorithms.figures.run_cache import RunCache
from dpaudit.certificate.verdicts import Accounting
from dpaudit.claims.claims import Claim
from dpaudit.page.blocks import Block
from dpaudit.progress import Work

P = TypeVar("P")
C = TypeVar("C", bound=Hashable)
S = TypeVar("S", bound=Hashable)

#: Seeds of the runs that choose settings; no figure shows these runs.
TUNING_SEEDS = (1_000_000, 1_000_001)


class RunsInterrupted(KeyboardInterrupt):
    """Ctrl-C while runs are computed; the message says how many are kept."""


@dataclass(frozen=True)
class Session:
    """One call of a figure's command."""

    name: str  # the figure's, as in `dpaudit reproduce NAME`
    command: str  # the command line as it was typed
    folder: Path  # where everything is written
    seeds: range  # one run each
    workers: int  # number of processes
    #: Runs an algorithm on data; returns the proved guarantee and the total's figure, rounded up.
    accounted: Callable[[Any, Any], tuple[Accounting, str]]

    @property
    def path(self) -> Path:
        """The path of the file that keeps every run."""
        return self.folder / f"{self.name}-runs.csv"

    def setting(self) -> str:
        """The number of runs, and their seeds."""
        return f"{len(self.seeds)} runs, seeds {self.seeds[0]} to {self.seeds[-1]}"

    def caption(self, quantity: str, band: str = "bands: one standard deviation") -> str:
        """What a picture shows; a single run has no band."""
        return f"{quantity}, mean of {len(self.seeds)} runs" + (f"; {band}" if len(self.seeds) > 1 else "")

    def finished(
        self,
        cache: RunCache[P],
        first: Sequence[P],
        then: Callable[[Sequence[P]], Sequence[P]] = lambda _: (),
    ) -> tuple[list[P], list[P]]:
        """Compute the runs that the file does not hold yet, saying how far they have come.

        `then` gives further points, which may follow from the finished ones; from points that are not
        measured it must make as many. Returns the finished points: the first, and the further ones.
        Raises `RunsInterrupted` on Ctrl-C.
        """
        begun = cache.runs(first)
        work = Work("runs", begun + cache.runs(then(first)), lasting=True)
        compute = partial(cache.finished, path=self.path, workers=self.workers)
        wanted = list(first)
        try:
            with work:
                found = compute(first, progress=work) if first else []
                further = then(found)
                wanted += further
                done = compute(further, progress=lambda count: work(begun + count))
        except KeyboardInterrupt:
            # Counted from the file: the last run may have been kept before progress was told of it.
            kept = f"{cache.kept(wanted, self.path)} of {work.total} runs are kept in {self.path}"
            raise RunsInterrupted(kept) from None
        return found, done


@dataclass(frozen=True)
class Figure:
    """A figure that is computed."""

    title: str  # without the figure's name
    about: str  # where it was published, with which command and parameters it was made
    caption: str  # of the first picture
    #: By the stem of its files, each picture's specification and rows; the first stem is also the page's.
    charts: Mapping[str, tuple[dict[str, Any], Sequence[Row]]]
    sentences: Sequence[Sentence]
    blocks: Sequence[Block]  # the rest of the page; pictures are named `<stem>.svg`
    summary: Mapping[str, Any]  # what the answer in JSON says besides figure, runs, sentences and files
    reading: str = ""  # how words of the paper's sentences are read as numbers
    remarks: Sequence[str] = ()  # further lines of the answer in text


@dataclass(frozen=True)
class Option:
    """An option of a figure's command: one of several words, a whole number, or a flag."""

    name: str  # with its dashes
    meaning: str
    default: str | int | bool | None = None  # False makes a flag
    words: Sequence[str] = ()  # empty for a number or a flag
    least: int = 1  # of a number
    repeatable: bool = False


@dataclass(frozen=True)
class Study:
    """How a figure is drawn again."""

    compute: Callable[..., Figure]  # from a `Session` and the options' values; its docstring is the help
    runs: int  # per point, by default
    options: Sequence[Option] = ()
    examples: Sequence[str] = ("",)  # the options of the examples under the help


def best_settings(tried: Iterable[tuple[C, S, float]]) -> dict[C, S]:
    """Each curve's setting with the least mean loss, the first of several; from (curve, setting, loss)."""
    losses: dict[C, dict[S, list[float]]] = {}
    for curve, setting, loss in tried:
        losses.setdefault(curve, {}).setdefault(setting, []).append(loss)
    return {curve: min(of, key=lambda setting: float(np.mean(of[setting]))) for curve, of in losses.items()}


def premises(claim: Claim) -> str:
    """A claim's premises in one line, each with whether it holds."""
    return "; ".join(f"{'holds' if premise.holds else 'FAILS'}: {premise}" for premise in claim.premises)
