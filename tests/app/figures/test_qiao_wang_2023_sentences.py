"""The published shape is found where it was planted, and not where it was not."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import numpy as np
import pytest

from dpaudit.app.figures.published_claims import Table, estimate, table
from dpaudit.app.figures.qiao_wang_2023 import Curve, Point, reached, sentences

KS = (10, 100, 1000)
OPTIMUM = 10.0
SMALL, LARGE, PEVI = Curve("dp-vapvi", 1.0, 0.1), Curve("dp-vapvi", 9.0, 0.1), Curve("pevi", math.inf, 0.1)
VAPVI = Curve("vapvi", math.inf, 0.1)


def planted(of: dict[Curve, Callable[[int], float]], runs: int = 4, spread: float = 0.01) -> Table[Curve]:
    return table(
        [
            Point(c, "none", "raw", 0, k, seed, value(k) + spread * (-1) ** seed)
            for c, value in of.items()
            for k in KS
            for seed in range(runs)
        ],
        "suboptimality",
        "episodes",
    )


def answers(curves: Table[Curve]) -> dict[tuple[str, str], str]:
    return {(s.published.split()[-2], s.about): s.appears for s in sentences(curves, OPTIMUM)}


def test_the_published_shape_is_recognised() -> None:
    curves = planted(
        {
            PEVI: lambda _: 6.0,
            VAPVI: lambda k: 10.0 / k,
            SMALL: lambda k: 10.0 / k + 0.4,
            LARGE: lambda k: 10.0 / k + 0.1,
        }
    )
    found = sentences(curves, OPTIMUM)
    assert len(found) == 2 + 2 + 1 + 2
    assert {sentence.appears for sentence in found} == {"yes"}
    assert reached(curves, SMALL, OPTIMUM) == 10


def test_each_sentence_fails_alone() -> None:
    far = planted({PEVI: lambda _: 6.0, VAPVI: lambda _: 0.0, SMALL: lambda _: 3.0, LARGE: lambda _: 2.0})
    by = {(s.published, s.about): s.appears for s in sentences(far, OPTIMUM)}
    assert by["DP-VAPVI performs slightly worse than VAPVI", str(LARGE)] == "no"
    assert by["as the data set grows larger, DP-VAPVI converges to VAPVI", str(LARGE)] == "no"
    assert by["with a larger budget DP-VAPVI is closer to VAPVI", "rho=9 against rho=1"] == "yes"
    turned = planted({PEVI: lambda _: 1.0, VAPVI: lambda _: 0.0, SMALL: lambda _: 2.0, LARGE: lambda _: 3.0})
    by = {(s.published, s.about): s.appears for s in sentences(turned, OPTIMUM)}
    assert by["with a larger budget DP-VAPVI is closer to VAPVI", "rho=9 against rho=1"] == "no"
    assert by["in most cases DP-VAPVI outperforms PEVI", f"{SMALL} against {PEVI}"] == "no"


def test_no_difference_is_told_from_one_run_or_from_chance() -> None:
    of = {VAPVI: lambda _: 0.0, SMALL: lambda _: 2.0, LARGE: lambda _: 1.0}
    (judged,) = [s for s in sentences(planted(of, runs=1), OPTIMUM) if "larger budget" in s.published]
    assert judged.appears == "not told apart"
    rng = np.random.default_rng(0)
    noisy = {VAPVI: lambda _: 0.0, SMALL: lambda _: 2 + rng.normal(), LARGE: lambda _: 2 + rng.normal()}
    (judged,) = [s for s in sentences(planted(noisy), OPTIMUM) if "larger budget" in s.published]
    assert judged.appears == "not told apart"


def test_reached_is_where_the_gap_stays_small() -> None:
    gaps = {10: 0.1, 100: 2.0, 1000: 0.2}
    assert reached(planted({VAPVI: lambda _: 0.0, SMALL: gaps.__getitem__}), SMALL, OPTIMUM) == 1000
    assert reached(planted({VAPVI: lambda _: 0.0, SMALL: lambda _: 2.0}), SMALL, OPTIMUM) is None


def test_the_interval_is_students() -> None:
    values = [1.0, 2.0, 4.0, 4.0, 5.0]
    found = estimate(np.array(values))
    assert found.mean == pytest.approx(3.2)
    # t quantile at 97.5% and 4 degrees of freedom, from a printed table.
    assert found.half_width == pytest.approx(2.776445 * statistics.stdev(values) / math.sqrt(5), rel=1e-6)
    assert math.isnan(estimate(np.array([1.0])).half_width)
    assert str(estimate(np.array([1.0]))) == "1.00"
