"""Synthetic rows by MST: marginals released through the curator, and rows generated from them.

Each column's marginal is measured first. A pair's score is the distance of its marginal from that under
independent columns. The exponential mechanism chooses a spanning tree of pairs, one pair at a time. The
marginals of these pairs are measured last. Each of the three parts has a third of the cost.
Source: McKenna, Miklau and Sheldon 2021, Winning the NIST Contest, Section 4 (MST).

The library mbi generates the rows from the released marginals, outside the algorithm.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.errors import InvalidParameter, MissingExtra
from dpaudit.mechanisms import Exponential, Gaussian
from dpaudit.tables.bounded import (
    Bounded,
    cell_sums,
    exact_sums,
    in_groups,
    release_measure,
    release_noise,
    unit_reach,
)
from dpaudit.tables.noise import choice_epsilon, share
from dpaudit.tables.plan import Measure

#: Columns, the values of each, a noisy count for each combination in their order, and its standard deviation.
Marginal: TypeAlias = dict[str, Any]


def require_columns(columns: Any, *, groups: bool) -> tuple[str, ...]:
    """Two names or more, of a table without groups; raises `InvalidParameter` for anything else."""
    if not isinstance(columns, Mapping) or len(columns) < 2 or groups:
        what = "a table with groups" if groups else "fewer than two columns with their values"
        why = "pairs of columns are measured, of all rows"
        remedy = "give columns={name: values, ...} for two columns or more, of a table without groups"
        raise InvalidParameter(what, where="marginals", why=why, remedy=remedy)
    return tuple(columns)


def distance(exact: Sequence[int], one: Marginal, other: Marginal) -> int:
    """Return how many rows separate a pair's counts from independent columns with these marginals.

    Independent counts are rounded, so that one row more moves the distance by 1 at most, exactly.
    """
    shares = [np.maximum(np.array(each["counts"]), 0.0) for each in (one, other)]
    totals = [float(each.sum()) for each in shares]
    number = sum(totals) / 2.0
    rates = [each / total if total else each for each, total in zip(shares, totals, strict=True)]
    independent = np.rint(number * np.outer(*rates)).ravel()
    return sum(abs(a - int(b)) for a, b in zip(exact, independent, strict=True))


def open_pairs(chosen: Sequence[tuple[str, str]], names: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of columns that the chosen ones do not connect yet."""
    part = {name: name for name in names}
    for a, b in chosen:
        part = {name: part[b] if each == part[a] else each for name, each in part.items()}
    return [(a, b) for a, b in itertools.combinations(names, 2) if part[a] != part[b]]


def marginals(
    of: Bounded, columns: Mapping[str, Sequence[Any]], cost: AnyGuarantee, label: str
) -> list[Marginal]:
    """Release the counts of columns, and of a tree of pairs; see `Table.marginals`."""
    names, where = require_columns(columns, groups=bool(of.keys)), f"release {label!r}"
    third = share(cost, 3, where)
    each_pair = share(third, len(names) - 1, where)
    choice = Exponential(epsilon=choice_epsilon(each_pair, where))
    pairs = {
        (a, b): in_groups(of, [a, b], keys={a: columns[a], b: columns[b]})
        for a, b in itertools.combinations(names, 2)
    }
    moved = unit_reach(of, Measure("rows"), one_cell=False).sensitivity(of.relation, "l1", where)
    found: dict[tuple[str, ...], Marginal] = {}
    for name in names:
        grouped = in_groups(of, name, keys=columns[name])
        found[name,] = _marginal(grouped, share(third, len(names), where), label)
    scores = {}
    for (a, b), grouped in pairs.items():
        sums = exact_sums(of, (Measure("rows"),), by=(a, b), groups=grouped.groups)
        exact = [cell_sums(sums, group)[0] for group in grouped.groups]
        scores[a, b] = distance(exact, found[a,], found[b,])
    chosen: list[tuple[str, str]] = []
    while left := open_pairs(chosen, names):
        weights = np.array([scores[pair] for pair in left], dtype=np.float64)
        place = of.curator.select(weights, choice, label=f"{label}: a pair", score_sensitivity=moved)
        chosen.append(left[place])
        found[left[place]] = _marginal(pairs[left[place]], each_pair, label)
    return list(found.values())


def _marginal(grouped: Bounded, cost: AnyGuarantee, label: str) -> Marginal:
    label = f"{label}: {', '.join(grouped.keys)}"
    noise = release_noise(grouped, Measure("rows"), label, cost)
    counts = release_measure(grouped, Measure("rows"), label, cost)
    return {
        "columns": list(grouped.keys),
        "values": [list(dict.fromkeys(each)) for each in zip(*grouped.groups, strict=True)],
        "counts": list(counts.values()),
        "deviation": noise.sigma if isinstance(noise, Gaussian) else math.sqrt(2.0) * noise.scale,
    }


def synthetic_rows(
    measured: Sequence[Marginal], *, rows: int | None = None, seed: int = 0
) -> dict[str, list[Any]]:
    """Generate rows with counts near the measured ones; the rows have the privacy of `measured`.

    Args:
        measured: the result of `Table.marginals`.
        rows: number of rows; None for about the measured number.
        seed: seed of the rows.

    Raises:
        MissingExtra: the library mbi is not installed.
    """
    try:
        import mbi
        from mbi.extensions.synthetic_data import synthetic_data
    except ImportError:
        what, remedy = "mbi is not installed", "pip install 'dpaudit[synthetic]'"
        why = "it fits a distribution to the counts"
        raise MissingExtra(what, where="synthetic_rows", why=why, remedy=remedy) from None
    known = {
        name: values
        for each in measured
        for name, values in zip(each["columns"], each["values"], strict=True)
    }
    domain = mbi.Domain.fromdict({name: len(values) for name, values in known.items()})
    counts = [
        mbi.LinearMeasurement(np.array(each["counts"]), tuple(each["columns"]), each["deviation"])
        for each in measured
    ]
    model = mbi.estimation.MirrorDescent().estimate(domain, counts)
    made = synthetic_data(model, rows or max(1, round(float(model.total))), seed=seed)
    drawn = made.to_dict()
    return {name: [values[int(i)] for i in drawn[name]] for name, values in known.items()}
