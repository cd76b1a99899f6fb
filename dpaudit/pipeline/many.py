"""A folder of ledgers, say one for each user: verified one by one, here or on a cluster, and summed up.

A `Summary` is as large for a million ledgers as for a thousand, and two of them add up to that of all their
ledgers, in whatever order: counts, how many totals lie in each of fixed bins, and the few ledgers that stand
first.
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

#: How one ledger is verified: called as `verify` is, with a path, a claim and `most_rows`.
Judge: TypeAlias = Callable[..., Verified]

SUFFIX: Final = ".jsonl"
UNFINISHED: Final = SUFFIX + ".partial"  # a run that lasts, or was killed
MOST_NAMED: Final = 10  # the worst, the first that fail and the first that cannot be read
_AT_ONCE: Final = 64  # ledgers that a worker takes: asking it costs a millisecond
_WAITING: Final = 4  # such parts for each of a cluster's threads

#: The lower ends of the bins: 0, and ten preferred numbers (ISO 3, R10) in each power of ten.
_PREFERRED: Final = ("1", "1.25", "1.6", "2", "2.5", "3.15", "4", "5", "6.3", "8")
EDGES: Final = (0.0, *(float(f"{digits}e{power}") for power in range(-9, 10) for digits in _PREFERRED))


@dataclass
class Summary:
    """What is known of many ledgers, all counts but for the few that are named.

    Attributes:
        proved, not_proved, nothing_claimed, broken: how many ledgers; these add up to all.
        not_certifiable: how many of those that are not broken can never carry a certificate.
        without_bound: how many of those have no bound on the scale that was asked for.
        unfinished: runs without a finished ledger, which are not among the ledgers.
        bins: scale -> number of its bin in `EDGES` -> how many ledgers' proved totals lie there.
        worst: scale -> the largest proved totals with the ledgers' names.
        failing, errors: the first by name that are not proved, or are broken, with the error.
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
        """The number of ledgers that were looked at."""
        return self.proved + self.not_proved + self.nothing_claimed + self.broken

    def add(self, other: "Summary") -> None:
        """Take in what is known of other ledgers."""
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
        """What is known of one ledger."""
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
    """The scale of a guarantee's leading figure, in words."""
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
    """The names of ledger files, finished or not, in a folder and all folders in it, in no order.

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
        """Whether a link leads to a folder that is not looked through without it."""
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
    """Whether it is a file, or a link to what is none, which is then broken."""
    return entry.is_file() or entry.is_symlink()


def summarised(folder: Path, names: Sequence[str], claim: Any, judge: Judge) -> Summary:
    """What is known of some of a folder's ledgers; what cannot be accounted for counts as broken."""
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
    ``local``; left out, all is done here. `progress` is called with how many are done; `claim` is that
    of `verify`, and `judge` is `verify`, or a `functools.partial` of it. Memory does not grow with the number
    of ledgers.

    Returns:
        The summary, and whether it is of all: Ctrl-C leaves what was done.

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
    """The same by a cluster's workers, as they come; no more parts are sent than keep them busy."""
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
