"""Compare each release's cost with its author's claim, for any number of releases.

Releases of plain noise are costed in batches, all others one by one. Every release is judged and counted. The
number of releases kept for display is limited; releases that fail come first.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpaudit.accountants.closed_forms.columns import times_up
from dpaudit.accountants.closed_forms.rounding import Vector
from dpaudit.accountants.composition.costs import pure_epsilon, rho
from dpaudit.certificate.verdicts import Overview, Proof, ReleaseAccount, ReleaseGroup, leading_figure, within
from dpaudit.claims.guarantees import ZCDP, AnyGuarantee, PureDP
from dpaudit.ledger.columns import Kind, PlainReleases
from dpaudit.ledger.releases import Release

_BATCH = 8192
_MOST_GROUPS = 1000  # with more label patterns than this, releases are counted but not grouped
_DIGITS = re.compile(r"[0-9]+")
_ZEROS = bytes.maketrans(b"123456789", b"000000000")


#: A label without digits, the kind of noise, the scale of the figure.
_Name: TypeAlias = tuple[str, str, str]


@dataclass(slots=True)
class _Group:
    costliest: ReleaseAccount
    figure: float
    number: int = 0
    claimed: int = 0
    failed: int = 0


@dataclass
class ReleaseAccounts:
    """The judged releases of a run: counted, and kept for display.

    `prove` returns the guarantee of one release alone, on its claim's scale if that has a bound. At most
    `most_rows` releases are kept; None keeps all. `in_batches` costs plain noise from its numbers, which is
    right for single units. For groups each release is another mechanism, so all are proved one by one.
    """

    prove: Callable[[Release], AnyGuarantee]
    most_rows: int | None = None
    in_batches: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        self._waiting: list[Release] = []
        #: The first failing releases and the first others, each with its position in the run.
        self._failing: list[tuple[int, ReleaseAccount]] = []
        self._others: list[tuple[int, ReleaseAccount]] = []
        self._total = self._claimed = self._failed = 0
        self._groups: dict[_Name, _Group] = {}

    def add(self, release: Release | PlainReleases) -> None:
        """Judge a block of releases, or queue one release for the next batch.

        Raises `CannotBound`: the cost of this release, or of an earlier one, has no bound.
        """
        if isinstance(release, PlainReleases):
            self._judge_waiting()
            self._judge(release)
            return
        self._waiting.append(release)
        if len(self._waiting) >= _BATCH:
            self._judge_waiting()

    def rows(self) -> tuple[ReleaseAccount, ...]:
        """Return all releases in order if they fit; otherwise the failing ones, then the first others."""
        self._judge_waiting()
        failing, others = self._failing, self._others
        if self.most_rows is None or self._total <= self.most_rows:
            chosen = sorted(failing + others, key=lambda row: row[0])
        else:
            chosen = failing + others[: self.most_rows - len(failing)]
        return tuple(judged for _, judged in chosen)

    def overview(self) -> Overview:
        """Return the number of releases, and a summary of each group."""
        self._judge_waiting()
        groups = []
        for (pattern, _, _), group in self._groups.items():
            counts = {name: getattr(group, name) for name in ("number", "claimed", "failed")}
            groups.append(ReleaseGroup(pattern=pattern, costliest=group.costliest, **counts))
        return Overview(total=self._total, claimed=self._claimed, failed=self._failed, groups=tuple(groups))

    def _judge_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._judge(waiting)

    def _judge(self, waiting: Sequence[Release]) -> None:
        batch = _Batch(waiting, in_batches=self.in_batches)
        for i in np.flatnonzero(np.isnan(batch.figures)).tolist():
            batch.settle(i, _account(waiting[i], self.prove(waiting[i])))
        for rows, chosen in ((self._failing, batch.failed), (self._others, ~batch.failed)):
            room = None if self.most_rows is None else self.most_rows - len(rows)
            positions = np.flatnonzero(chosen)[:room].tolist()
            rows += [(self._total + i, batch.judged(i)) for i in positions]
        self._total += len(waiting)
        self._claimed += int(batch.claimed.sum())
        self._failed += int(batch.failed.sum())
        self._group(batch)

    def _group(self, batch: _Batch) -> None:
        found, numbers = batch.names()
        sizes, claims, failures = (
            np.bincount(numbers, weights, len(found)) for weights in (None, batch.claimed, batch.failed)
        )
        # The last assignment in each group stays: the first of its costliest releases, as across batches.
        order = np.lexsort((-np.arange(len(numbers)), batch.figures))
        costliest = np.empty(len(found), dtype=np.int64)
        costliest[numbers[order]] = order
        for number, key in enumerate(found):
            if key not in self._groups and len(self._groups) >= _MOST_GROUPS:
                continue
            at = int(costliest[number])
            figure = float(batch.figures[at])
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = _Group(batch.judged(at), figure)
            elif figure > group.figure:
                group.costliest, group.figure = batch.judged(at), figure
            group.number += int(sizes[number])
            group.claimed += int(claims[number])
            group.failed += int(failures[number])


class _Batch:
    """A batch of releases: the plain ones are judged at once, the others when they are settled."""

    def __init__(self, releases: Sequence[Release], *, in_batches: bool) -> None:
        self._releases = releases
        self._settled: dict[int, ReleaseAccount] = {}
        self._plain = plain = releases if isinstance(releases, PlainReleases) else PlainReleases.of(releases)
        #: The cost of each release in rho, or in pure epsilon if it claims that; NaN until it is settled.
        self.figures = _figures(plain) if in_batches else np.full(len(plain), np.nan)
        self.claimed = ~np.isnan(plain.claimed)
        self.failed = self.claimed & ~within(self.figures, plain.claimed)

    def settle(self, i: int, account: ReleaseAccount) -> None:
        """Store the account of a release that was judged alone."""
        self._settled[i] = account
        self.figures[i] = leading_figure(account.proved)
        self.claimed[i] = account.claimed is not None
        self.failed[i] = account.verdict is Proof.NOT_PROVED

    def judged(self, i: int) -> ReleaseAccount:
        """Return the account of one release."""
        settled = self._settled.get(i)
        return settled or _account(
            self._releases[i], _proved(bool(self._plain.pure[i]), float(self.figures[i]))
        )

    def names(self) -> tuple[list[_Name], NDArray[np.intp]]:
        """Return the distinct group names in order of first use, and the index of each release's name."""
        plain, labels = self._plain, self._plain.labels
        # With every digit replaced by 0, few labels differ; only those are searched for digits.
        zeros = "\n".join(labels).encode(errors="surrogatepass").translate(_ZEROS)
        alike = zeros.split(b"\n")
        if len(alike) != len(labels):  # some label has several lines
            alike = [label.encode(errors="surrogatepass").translate(_ZEROS) for label in labels]
        patterns = {one: _DIGITS.sub("#", one.decode(errors="surrogatepass")) for one in dict.fromkeys(alike)}
        # Names of plain noise are encoded as numbers, four for each pattern: counting them beats tuples.
        different = {pattern: 4 * i for i, pattern in enumerate(dict.fromkeys(patterns.values()))}
        place = {one: different[pattern] for one, pattern in patterns.items()}
        numbers = np.fromiter(map(place.__getitem__, alike), np.intp, len(alike))
        numbers += 2 * plain.gaussian + plain.pure
        kinds = itertools.product(different, ("laplace", "gaussian"), ("zcdp", "pure-dp"))
        known = {name: number for number, name in enumerate(kinds)}
        for i, account in self._settled.items():
            name = _DIGITS.sub("#", account.label), account.mechanism.kind, account.proved.kind
            numbers[i] = known.setdefault(name, len(known))
        some, first, numbers = np.unique(numbers, return_index=True, return_inverse=True)
        order = np.argsort(first)
        every = list(known)
        return [every[i] for i in some[order].tolist()], np.argsort(order)[numbers]


def _figures(plain: PlainReleases) -> Vector:
    sensitivity, scale, gaussian, pure = plain.sensitivity, plain.scale, plain.gaussian, plain.pure
    costs = np.full(len(scale), np.nan)
    kinds: tuple[tuple[Kind, NDArray[np.bool_]], ...] = (("gaussian", gaussian), ("laplace", ~gaussian))
    for (kind, of_kind), (cost, on_scale) in itertools.product(kinds, ((pure_epsilon, pure), (rho, ~pure))):
        chosen = of_kind & on_scale
        if chosen.any():
            costs[chosen] = cost.many(kind, sensitivity[chosen], scale[chosen])
    return times_up(costs, plain.runs)


def _account(release: Release, proved: AnyGuarantee) -> ReleaseAccount:
    return ReleaseAccount(**dict(release), proved=proved)


@functools.lru_cache(maxsize=1024)
def _proved(pure: bool, figure: float) -> AnyGuarantee:  # noqa: FBT001  (private helper with one caller)
    return PureDP(epsilon=figure) if pure else ZCDP(rho=figure)
