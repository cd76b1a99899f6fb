"""The same sums on a cluster: all rows of a unit are sent to one partition and bounded there."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

import narwhals as nw

from dpaudit.tables import local
from dpaudit.tables.plan import Plan, Sums

#: How many partitions' sums are added up by one task.
_TOGETHER: Final = 16


def sums(frame: Any, plan: Plan) -> Sums:
    """Return a plan's sums for a Dask data frame: only the plan's columns and the sums cross the network."""
    from dask.delayed import delayed

    rows = frame[[name for name, _ in plan.columns]]
    if rows.npartitions > 1:
        rows = rows.shuffle(on=plan.unit)
    one, added = delayed(functools.partial(_of_one, plan=plan)), delayed(_added)
    tasks: list[Any] = [one(each) for each in rows.to_delayed()]
    while len(tasks) > 1:
        tasks = [added(tasks[first : first + _TOGETHER]) for first in range(0, len(tasks), _TOGETHER)]
    found: Sums = tasks[0].compute()
    return found


def _of_one(rows: Any, plan: Plan) -> Sums:
    """The sums of one partition, which holds all rows of its units."""
    return local.sums(nw.from_native(rows, eager_only=True), plan)


def _added(parts: Sequence[Sums]) -> Sums:
    """The sums of several partitions."""
    answer: Sums = {}
    for part in parts:
        for key, each in part.items():
            before = answer.get(key)
            answer[key] = each if before is None else [a + b for a, b in zip(before, each, strict=True)]
    return answer
