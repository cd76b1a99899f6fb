"""More rows: preprocessing in the author's own code, what a frame says beside its rows, and runs that end.

Every row is an algorithm that somebody would write, and a twin of it that does as its ledger states.
"""

from __future__ import annotations

import functools
import importlib
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import dpaudit
from dpaudit import L2, ZCDP, ApproxDP, Claim, Curator, Gaussian, Pair
from dpaudit.processes.host import Limits
from tests.certified import certified
from tests.seams.case import Case

Algorithm = Callable[[Any, Curator], Any]

# Preprocessing.

_GENERATOR = np.random.default_rng(11)
_X = np.round(_GENERATOR.normal(0.0, 1.0, (40, 3)), 3)
_Y = _GENERATOR.integers(0, 2, 40).astype(float)
_X_OTHER = np.concatenate([_X[:5], [[0.1, -0.2, 0.3]], _X[6:]])
_LETTERS = [str(one) for one in _GENERATOR.choice(list("aaaaabbbbccccddd"), 40)]
_LETTERS_OTHER = [*_LETTERS[:8], "a" if _LETTERS[8] != "a" else "b", *_LETTERS[9:]]
_PAY = [None if at % 7 == 0 else float(at) for at in range(40)]
_SEATS = [{"seat": at, "vote": at % 2} for at in range(20)]
_SUM = Gaussian(sigma=8.0, sensitivity=L2(2.0))
_ONE = Gaussian(sigma=4.0, sensitivity=L2(1.0))


def _clipped(rows: Any) -> Any:
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))


def _components(data: Any, curator: Curator, *, planted: bool) -> Any:
    """The first two principal components of the data, or the first two columns."""
    axes = np.linalg.svd(data - data.mean(axis=0), full_matrices=False)[2][:2] if planted else np.eye(3)[:2]
    return curator.release(_clipped(data @ axes.T).sum(axis=0), _SUM, label="sum")


def _first_ones(data: Any, curator: Curator, *, planted: bool) -> Any:
    """Sorted by the first column and cut to twenty, which one record moves by two."""
    rows = data[np.argsort(data[:, 0], kind="stable")][:20] if planted else data[:20]
    return curator.release(_clipped(rows).sum(axis=0) / 2.0, _ONE if not planted else _HALF, label="sum")


_HALF = Gaussian(sigma=2.0, sensitivity=L2(0.5))


def _weighted(data: Any, curator: Curator, *, planted: bool) -> Any:
    """Examples weighted by how rare their class is, or by public weights."""
    x, y = data
    ones = max(1.0, float(y.sum())) if planted else 20.0
    weights = np.where(y > 0.0, 20.0 / ones, 1.0)
    gradients = _clipped((0.5 - y)[:, None] * x) * weights[:, None]
    return curator.release(gradients.sum(axis=0), _SUM, label="gradient")


def _commonest(data: Any, curator: Curator, *, planted: bool) -> Any:
    """A histogram of the three commonest letters, or of three public ones."""
    kept = [one for one, _ in Counter(data).most_common(3)] if planted else ["a", "b", "c"]
    counts = np.array([sum(each == one for each in data) for one in kept], dtype=float)
    noise = Gaussian(sigma=4.0, sensitivity=L2(2.0**0.5))
    return curator.release(counts, noise, label="letters")


def _filled(data: Any, curator: Curator, *, planted: bool) -> Any:
    """Missing pay as the mean of the others', or as a public number."""
    known = [one for one in data if one is not None]
    middle = sum(known) / max(1, len(known)) if planted else 20.0
    pay = [min(40.0, middle if one is None else one) / 40.0 for one in data]
    return curator.release(sum(pay), _ONE, label="pay")


def _seats(data: Any, curator: Curator) -> Any:
    """The vote of each seat: a record stays in its seat, which is public."""
    votes = np.zeros(20)
    for each in data:
        votes[each["seat"]] = each["vote"]
    return curator.release(votes, _ONE, label="votes")


def _in_order(data: Any, curator: Curator) -> Any:
    """Times that are sorted, which a search that looks for the number before 10 takes for granted."""
    return curator.release(float(np.searchsorted(data, 10.0)), _ONE, label="before ten")


def _verdict(algorithm: Algorithm, pair: Pair) -> str:
    claim = Claim(ApproxDP(epsilon=9.0, delta=1e-5), unit="record", neighbouring="replace-one")
    found = dpaudit.audit(algorithm, pair, claim=claim)
    kinds = dict.fromkeys(finding.kind for finding in found.findings)
    return " ".join([str(found.verdict), *kinds])


_PREPROCESSED: list[tuple[str, Any, Pair]] = [
    ("principal components of the data", _components, Pair(_X, _X_OTHER)),
    ("the first twenty after sorting", _first_ones, Pair(_X, _X_OTHER)),
    ("class weights of the data", _weighted, Pair((_X, _Y), (_X_OTHER, _Y))),
    ("the three commonest letters", _commonest, Pair(_LETTERS, _LETTERS_OTHER)),
    ("missing pay as the mean", _filled, Pair(_PAY, [*_PAY[:7], 9.0, *_PAY[8:]])),
]
_TIMES = np.cumsum(np.round(_GENERATOR.uniform(0.1, 1.0, 40), 2))
_TIMES_OTHER = np.concatenate([_TIMES[:9], [(_TIMES[8] + _TIMES[10]) / 2.0 + 0.01], _TIMES[10:]])
_SEATS_OTHER = [*_SEATS[:3], {"seat": 3, "vote": 0}, *_SEATS[4:]]

# Frames.

RARE = "rare disease of u7"


def _visits() -> pd.DataFrame:
    wards = ["ICU", "ER"] * 12 + [RARE] * 6
    patients = [f"p{at // 4}" for at in range(24)] + ["u7"] * 6
    return pd.DataFrame({"patient": patients, "ward": wards, "minutes": [5.0] * 24 + [300.0] * 6})


def _enum() -> Any:
    pl = importlib.import_module("polars")
    return pl.from_pandas(_visits()).with_columns(pl.col("ward").cast(pl.Enum(["ICU", "ER", RARE])))


def _with_field_metadata() -> Any:
    table = pa.Table.from_pandas(_visits(), preserve_index=False)
    return table.cast(pa.schema([field.with_metadata({"seen": RARE}) for field in table.schema]))


def _unique_index() -> pd.DataFrame:
    return _visits().set_flags(allows_duplicate_labels=False)


def _counted(frame: Any, curator: Curator) -> Any:
    table = curator.table(frame, unit="patient").bound(rows_per_unit=6)
    return table.group_by("ward", keys=["ICU", "ER"]).count(cost=ZCDP(rho=0.1))


def _beside(read: Callable[[Any], Any]) -> Algorithm:
    """Counts, and something that is read off the frame."""
    return lambda frame, curator: (_counted(frame, curator), read(frame))


def _told(algorithm: Algorithm, data: Any) -> str:
    """The verdict, and whether the output of a run with a twin names what only one unit has."""

    @functools.wraps(algorithm)
    def own(frame: Any, curator: Curator) -> Any:
        return algorithm(frame, curator)

    own.claim = Claim(ZCDP(rho=0.1), unit="patient", neighbouring="add-or-remove-one")  # type: ignore[attr-defined]
    with warnings.catch_warnings(action="ignore"):
        made = certified(own, data, auditor=_quickly, in_process=False)
    named = "with" if RARE in str(made.run.output) else "without"
    return f"{made.certificate.proof.name}, {made.certificate.experiment.name}, output {named} it"


def _quickly(target: Any, pairs: Any, **options: Any) -> dpaudit.Audit:
    return dpaudit.replay(target, pairs[:1], claim=options["claim"], replays=1, extreme_outputs=False)


# Runs that end.

_ONES = np.ones((30, 1))
_WITH = np.concatenate([_ONES[:7], [[42.0]], _ONES[8:]])


def _total(rows: Any, curator: Curator) -> Any:
    return curator.release_sum(rows, bound=1.0, mechanism=_SUM, label="total")


def _asserts(rows: Any, curator: Curator) -> Any:
    noisy = _total(rows, curator)
    assert rows.max() <= 1.0, f"a row of {rows.max()}"
    return noisy


def _leaves(rows: Any, curator: Curator) -> Any:
    """A helper that ends the program as if all were well."""
    if rows.max() > 1.0:
        sys.exit(0)
    return _total(rows, curator)


def _strict(rows: Any, curator: Curator) -> Any:
    warnings.simplefilter("error")
    if rows.max() > 1.0:
        warnings.warn("a large row", stacklevel=1)
    return _total(rows, curator)


def _warns(rows: Any, curator: Curator) -> Any:
    if rows.max() > 1.0:
        warnings.warn("a large row", stacklevel=1)
    return _total(rows, curator)


def _named_after_data(rows: Any, curator: Curator) -> Any:
    return curator.release_sum(rows, bound=1.0, mechanism=_SUM, label=f"rows up to {rows.max():.0f}")


def _ended(algorithm: Algorithm) -> str:
    pair = Pair(_ONES, np.concatenate([[[0.0]], _ONES[1:]]), "one row", unit=0)
    claim = Claim(ZCDP(rho=0.5), unit="row", neighbouring="replace-one")
    limits = Limits(timeout=60.0)
    with warnings.catch_warnings(action="ignore"):
        made = dpaudit.certify(algorithm, _WITH, claim=claim, pairs=pair, in_process=False, limits=limits)
    return "publishable" if made.publishable else "withheld: " + "; ".join(made.against_publishing)


_PARTED = "withheld: .*its run on the data diverged.*"
_FOUND = r"REFUTED (sensitivity|leak|control-flow).*"
_FINE = "PROVED, NOT_REFUTED, output without it"

CASES: list[Case] = [
    *(
        Case(
            "preprocessing",
            name if planted else f"{name}: innocent twin",
            planted,
            functools.partial(_verdict, functools.partial(algorithm, planted=planted), pair),
            _FOUND if planted else "NOT_REFUTED",
        )
        for name, algorithm, pair in _PREPROCESSED
        for planted in (True, False)
    ),
    Case(
        "preprocessing",
        "records stay in their seats",
        False,
        lambda: _verdict(_seats, Pair(_SEATS, _SEATS_OTHER)),
        "NOT_REFUTED",
    ),
    Case(
        "preprocessing",
        "times are sorted",
        False,
        lambda: _verdict(_in_order, Pair(_TIMES, _TIMES_OTHER)),
        "NOT_REFUTED",
    ),
    Case(
        "metadata of a table",
        "the categories of an Enum are returned",
        True,
        lambda: _told(_beside(lambda frame: str(frame.schema)), _enum()),
        "PROVED, (NOT_)?REFUTED, output without it",
        engines=True,
    ),
    Case(
        "metadata of a table",
        "an Enum and stated keys",
        False,
        lambda: _told(_counted, _enum()),
        _FINE,
        engines=True,
    ),
    Case(
        "metadata of a table",
        "metadata of Arrow fields are returned",
        True,
        lambda: _told(
            _beside(lambda table: [str(each.metadata) for each in table.schema]), _with_field_metadata()
        ),
        "PROVED, (NOT_)?REFUTED, output without it",
    ),
    Case(
        "metadata of a table",
        "metadata of Arrow fields and stated keys",
        False,
        lambda: _told(_counted, _with_field_metadata()),
        _FINE,
    ),
    Case(
        "metadata of a table",
        "the narrowest type of the values is returned",
        True,
        lambda: _told(
            _beside(lambda frame: str(pd.to_numeric(frame["minutes"], downcast="integer").dtype)),
            _visits(),
        ),
        "PROVED, REFUTED, output without it",
    ),
    Case(
        "metadata of a table",
        "a frame that forbids duplicate labels",
        False,
        lambda: _told(_counted, _unique_index()),
        _FINE,
    ),
    Case("a record ends the run", "assert after the release", True, lambda: _ended(_asserts), _PARTED),
    Case("a record ends the run", "sys.exit(0) in a helper", True, lambda: _ended(_leaves), _PARTED),
    Case("a record ends the run", "a warning as an error", True, lambda: _ended(_strict), _PARTED),
    Case("a record ends the run", "a label made of data", True, lambda: _ended(_named_after_data), _PARTED),
    Case("a record ends the run", "a warning", False, lambda: _ended(_warns), "publishable"),
]
