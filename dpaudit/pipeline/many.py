"""Verify a folder of ledgers, for example one for each user, here or on a cluster, and sum up the results.

A `Summary` has the same size for a million ledgers as for a thousand, and two summaries add up in any order.
It holds counts, the number of totals in each of fixed bins, and a few ledgers by name.
"""

import bisect
import functools
import importlib
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from dpaudit.certificate.verdicts import Proof, leading_figure
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import RDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.errors import DpauditError, UsageError, WorkersLost
from dpaudit.pipeline.accounting import Verified, verify

#: Verifies one ledger: called as `verify` is, with a path, a claim and `most_rows`.
Judge: TypeAlias = Callable[..., Verified]

SUFFIX: Final = ".jsonl"
UNFINISHED: Final = SUFFIX + ".partial"  # a run that is still going, or was killed
MOST_NAMED: Final = 10  # the worst, the first failing and the first unreadable ledgers
_AT_ONCE: Final = 64  # ledgers that a worker takes: asking it costs a millisecond
_WAITING: Final = 4  # parts in flight for each thread of a cluster

#: The lower ends of the bins: 0, and ten preferred numbers (ISO 3, R10) in each power of ten.
_PREFERRED: Final = ("1", "1.25", "1.6", "2", "2.5", "3.15", "4", "5", "6.3", "8")
EDGES: Final = (0.0, *(float(f"{digits}e{power}") for power in range(-9, 10) for digits in _PREFERRED))


@dataclass
class Summary:
    """The results of many ledgers: counts, and a few ledgers by name.

    Attributes:
        proved, not_proved, nothing_claimed, broken: numbers of ledgers, which add up to all.
        not_certifiable: the number of unbroken ledgers that can never carry a certificate.
        without_bound: the number of unbroken ledgers without a bound on the requested scale.
        unfinished: runs without a finished ledger, which are not among the ledgers.
        bins: scale -> index of a bin in `EDGES` -> number of ledgers with a proved total in the bin.
        worst: scale -> the largest proved totals with the ledgers' names.
        failing, errors: the first ledgers by name that are not proved, or are broken, with the error.
    """

    releases: int = 0
    proved: int = 0
    not_proved: int = 0
    nothing_claimed: int = 0
    broken: int = 0
    not_certifiable: int = 0
    without_bound: int = 0
    unfinished: int = 0
    bins: dict[str, Counter[int]] = field(default_factory=dict)
    worst: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    failing: list[str] = field(default_factory=list)
    errors: list[tuple[str, str]] = field(default_factory=list)

    @property
    def ledgers(self) -> int:
        """The number of ledgers examined."""
        return self.proved + self.not_proved + self.nothing_claimed + self.broken

    def add(self, other: "Summary") -> None:
        """Add the results of other ledgers."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for scale, bins in other.bins.items():
            self.bins.setdefault(scale, Counter()).update(bins)
        for scale, worst in other.worst.items():
            both = sorted(self.worst.get(scale, []) + worst, key=lambda one: (-one[0], one[1]))
            self.worst[scale] = both[:MOST_NAMED]
        self.failing = sorted(self.failing + other.failing)[:MOST_NAMED]
        self.errors = sorted(self.errors + other.errors)[:MOST_NAMED]

    @classmethod
    def of(cls, name: str, found: Verified) -> "Summary":
        """Return the summary of one ledger."""
        accounting = found.accounting
        overview, bounds = accounting.overview, accounting.bounds
        one = cls(releases=overview.total, not_certifiable=int(found.not_certifiable is not None))
        if overview.total == 0 or (accounting.claim is None and overview.claimed == 0):
            one.nothing_claimed = 1
        elif accounting.verdict is Proof.NOT_PROVED or overview.failed:
            one.not_proved, one.failing = 1, [name]
        else:
            one.proved = 1
        if bounds:
            figure, scale = leading_figure(bounds[0].guarantee), scale_of(bounds[0].guarantee)
            one.bins = {scale: Counter({bisect.bisect_right(EDGES, figure) - 1: 1})}
            one.worst = {scale: [(figure, name)]}
        else:
            one.without_bound = 1
        return one


_COUNTS: Final = (
    "releases",
    "proved",
    "not_proved",
    "nothing_claimed",
    "broken",
    "not_certifiable",
    "without_bound",
    "unfinished",
)


def scale_of(guarantee: AnyGuarantee) -> str:
    """Return the scale of a guarantee's leading figure, in words."""
    match guarantee:
        case ApproxDP(delta=delta):
            return f"epsilon at delta {delta:g}"
        case RDP(alpha=alpha):
            return f"epsilon of order {alpha:g}"
        case PureDP():
            return "pure epsilon"
        case _:
            return next(name for name in ("rho", "mu") if hasattr(guarantee, name))


def ledgers_in(folder: Path) -> Iterator[str]:
    """Yield the names of ledger files, finished or not, in a folder and its subfolders, in no order.

    Raises `UsageError`: a folder cannot be read.
    """
    root, linked = folder.resolve(), set[Path]()

    def in_one(here: str) -> Iterator[str]:
        with os.scandir(here) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) or (entry.is_dir() and is_elsewhere(entry.path)):
                    yield from in_one(entry.path)
                elif entry.name.endswith((SUFFIX, UNFINISHED)) and _is_named_file(entry):
                    yield os.path.relpath(entry.path, folder)

    def is_elsewhere(link: str) -> bool:
        """Return whether a link leads to a folder outside the searched tree."""
        target = Path(link).resolve()
        new = not (target.is_relative_to(root) or root.is_relative_to(target) or target in linked)
        linked.add(target)
        return new

    try:
        yield from in_one(str(folder))
    except OSError as error:
        what, why = f"cannot be read: {error.strerror}", "ledgers in it would not be counted"
        where, remedy = str(error.filename), "name a folder that can be read"
        raise UsageError(what, where=where, why=why, remedy=remedy) from None


def _is_named_file(entry: os.DirEntry[str]) -> bool:
    """Return whether it is a file, or a broken link."""
    return entry.is_file() or entry.is_symlink()


def summarised(folder: Path, names: Sequence[str], claim: Any, judge: Judge) -> Summary:
    """Return the summary of some of a folder's ledgers; a ledger without an accounting counts as broken."""
    summary = Summary()
    for name in names:
        if name.endswith(UNFINISHED):
            summary.add(Summary(unfinished=1))
            continue
        path = folder / name
        try:
            one = Summary.of(name, judge(path, claim, most_rows=0))
        except DpauditError as error:
            words = f"{error.code} {error.what}"
            place = error.where.removeprefix(str(path)).removeprefix(":")
            one = Summary(broken=1, errors=[(name, f"{words} (line {place})" if place.isdigit() else words)])
        summary.add(one)
    return summary


def verify_folder(
    folder: Path,
    claim: Claim | Callable[[Claim | None], Claim | None] | None = None,
    *,
    cluster: str | None = None,
    progress: Callable[[int], object] | None = None,
    judge: Judge = verify,
) -> tuple[Summary, bool]:
    """Verify every ledger file in a folder and in the folders inside it.

    `cluster` is the address of a `distributed` scheduler whose workers see the folder under the same path, or
    ``local``; by default this process does all the work. `progress` is called with the number of finished
    ledgers; `claim` is as in `verify`, and `judge` is `verify`, or a `functools.partial` of it. Memory does
    not grow with the number of ledgers.

    Returns:
        The summary, and whether it covers all ledgers: after Ctrl-C it covers the finished ones.

    Raises:
        UsageError: the folder cannot be read, or no scheduler answers.
        WorkersLost: a cluster's workers died of the same ledgers several times.
        MissingExtra: `distributed` is not installed.
    """
    summary, folder = Summary(), folder.absolute()
    parts = _parts(ledgers_in(folder))
    on = functools.partial(_there, cluster) if cluster else _here
    try:
        for part in on(folder, parts, claim, judge):
            summary.add(part)
            if progress is not None:
                progress(summary.ledgers)
    except KeyboardInterrupt:
        return summary, False
    return summary, True


def _parts(names: Iterator[str]) -> Iterator[list[str]]:
    while part := list(itertools.islice(names, _AT_ONCE)):
        yield part


def _here(folder: Path, parts: Iterator[list[str]], claim: Any, judge: Judge) -> Iterator[Summary]:
    for part in parts:
        for name in part:
            yield summarised(folder, [name], claim, judge)


def _there(
    address: str, folder: Path, parts: Iterator[list[str]], claim: Any, judge: Judge
) -> Iterator[Summary]:
    """Yield summaries from a cluster's workers as they finish; send only enough parts to keep them busy."""
    from dpaudit.auditors.sampling.workers import connected

    with connected(address) as client:
        distributed: Any = importlib.import_module("distributed")

        def sent(part: list[str]) -> Any:
            return client.submit(summarised, folder, part, claim, judge, pure=False)

        at_once = _WAITING * max(1, sum(client.nthreads().values()))
        running = distributed.as_completed([sent(part) for part in itertools.islice(parts, at_once)])
        for one in running:
            try:
                yield one.result()
            except distributed.KilledWorker as error:
                what, where = "workers died of the same ledgers several times", f"cluster {address}"
                raise WorkersLost(what, where=where) from error
            for part in itertools.islice(parts, 1):
                running.add(sent(part))
