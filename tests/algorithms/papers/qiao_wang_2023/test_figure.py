import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpaudit.algorithms.figures.published_claims import Table, estimate, table
from dpaudit.algorithms.figures.study import TUNING_SEEDS, Session
from dpaudit.algorithms.papers.qiao_wang_2023 import figure as qiao_wang_2023
from dpaudit.algorithms.papers.qiao_wang_2023.figure import (
    CONSTANTS,
    PANELS,
    RUNS,
    Curve,
    Panel,
    Point,
    best_constants,
    panel_points,
    reached,
    run_point,
    sentences,
    tuning_points,
)
from dpaudit.app.figures.engine import accounted
from dpaudit.errors import UsageError
from dpaudit.page.blocks import Grid

SMALL = Panel("small", (1.0, 25.0), (0.04,), 0)
WANTED = panel_points(SMALL, (0, 1), (5, 20))


def test_every_algorithm_runs_on_every_number_of_episodes_and_seed() -> None:
    cells = RUNS.finished(WANTED)
    assert [(c.curve.algorithm, c.curve.rho, c.episodes, c.seed) for c in cells] == [
        (algorithm, rho, k, seed)
        for algorithm, rho in (("pevi", math.inf), ("vapvi", math.inf), ("dp-vapvi", 1.0), ("dp-vapvi", 25.0))
        for k in (5, 20)
        for seed in (0, 1)
    ]
    assert all(0.0 <= cell.suboptimality <= 20.0 for cell in cells)
    assert RUNS.finished(WANTED, workers=2) == cells


def test_the_panels_have_the_published_curves() -> None:
    def curves(name: str) -> set[tuple[str, float]]:
        return {(c.curve.algorithm, c.curve.rho) for c in panel_points(PANELS[name], (0,), (5,))}

    private = {("dp-vapvi", rho) for rho in (0.1, 1.0, 5.0, 25.0)}
    none = {("pevi", math.inf), ("vapvi", math.inf)}
    assert curves("qiao-wang-2023-figure-1a") == none | {("dp-vapvi", 1.0), ("dp-vapvi", 25.0)}
    assert curves("qiao-wang-2023-figure-1b") == {("vapvi", math.inf)} | private


def test_a_finished_cell_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cells.csv"
    cells = RUNS.finished(WANTED, path=path)
    # Interrupted in the middle of a line, three cells before the end.
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-3]) + lines[-3][:20])
    ran: list[Point] = []

    def counted(cell: Point) -> Point:
        ran.append(cell)
        return run_point(cell)

    monkeypatch.setattr(qiao_wang_2023, "run_point", counted)
    told: list[int] = []
    assert RUNS.finished(WANTED, path=path, progress=told.append) == cells
    assert len(ran) == 3
    assert told == [13, 14, 15, 16]
    assert path.read_text() == "".join(lines)
    # Other noise or features are other cells.
    other = panel_points(SMALL, (0,), (5,), calibration="as-published", normalised=False)
    RUNS.finished(other, path=path)
    assert len(ran) == 3 + len(other)


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UsageError):
        RUNS.finished(WANTED, path=path)
    assert path.read_text() == "a,b\n1,2\n"


def test_constants_are_chosen_on_seeds_that_are_not_drawn_and_by_the_mean() -> None:
    tried = tuning_points(SMALL, (5, 20))
    assert {point.seed for point in tried} == set(TUNING_SEEDS)
    assert not set(TUNING_SEEDS) & set(range(1000))
    assert len(tried) == 2 * len(CONSTANTS) * 2 * len(TUNING_SEEDS)
    wanted = {1.0: (2.0, 30.0), 25.0: (0.5, 10.0)}

    def measured(point: Point) -> Point:
        best = wanted[point.curve.rho] == (point.curve.shift, point.curve.ridge)
        return replace(point, suboptimality=1.0 if best else 2.0 if point.episodes == 5 else 0.5)

    assert best_constants([measured(point) for point in tried]) == wanted
    drawn = panel_points(SMALL, (0, 1), (5, 20), chosen=wanted)
    assert [replace(point, suboptimality=0.0) for point in drawn[: len(WANTED)]] == [
        replace(point, suboptimality=0.0) for point in WANTED
    ]
    assert {(p.curve.rho, p.curve.shift, p.curve.ridge, p.curve.tuned) for p in drawn[len(WANTED) :]} == {
        (1.0, 2.0, 30.0, "tuned"),
        (25.0, 0.5, 10.0, "tuned"),
    }


def test_shift_and_ridge_reach_the_algorithm() -> None:
    (plain,) = panel_points(Panel("one", (25.0,), (), 0), (0,), (50,))[-1:]
    other = replace(plain, curve=replace(plain.curve, shift=4.0, ridge=30.0))
    assert run_point(other).suboptimality != run_point(plain).suboptimality
    assert (
        run_point(replace(plain, curve=replace(plain.curve, tuned="tuned"))).suboptimality
        == run_point(plain).suboptimality
    )


def test_each_published_curve_has_the_rho_that_it_really_needs() -> None:
    """The paper's own experiment, raw features: 23.1 times what it claims; sound noise: what it claims."""
    figure = "qiao-wang-2023-figure-1b"
    session = Session(figure, "", Path(), range(1), 1, accounted)
    found = {}
    for name, normalised in (("as-published", False), ("sound", True)):
        *_, grid = qiao_wang_2023._privacy(session, PANELS[figure], name, normalised=normalised)
        assert isinstance(grid, Grid)
        found[name] = [float(row[-1]) for row in grid.rows]
    assert found["sound"] == pytest.approx([0.1, 1.0, 5.0, 25.0], rel=1e-3)
    assert found["as-published"] == pytest.approx([2.31, 23.1, 115.5, 577.4], rel=1e-3)


# The published shape is found where it was planted, and not where it was not.

KS = (10, 100, 1000)
OPTIMUM = 10.0
LITTLE, MUCH, PEVI = Curve("dp-vapvi", 1.0, 0.1), Curve("dp-vapvi", 9.0, 0.1), Curve("pevi", math.inf, 0.1)
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
            LITTLE: lambda k: 10.0 / k + 0.4,
            MUCH: lambda k: 10.0 / k + 0.1,
        }
    )
    found = sentences(curves, OPTIMUM)
    assert len(found) == 2 + 2 + 1 + 2
    assert {sentence.appears for sentence in found} == {"yes"}
    assert reached(curves, LITTLE, OPTIMUM) == 10


def test_each_sentence_fails_alone() -> None:
    far = planted({PEVI: lambda _: 6.0, VAPVI: lambda _: 0.0, LITTLE: lambda _: 3.0, MUCH: lambda _: 2.0})
    by = {(s.published, s.about): s.appears for s in sentences(far, OPTIMUM)}
    assert by["DP-VAPVI performs slightly worse than VAPVI", str(MUCH)] == "no"
    assert by["as the data set grows larger, DP-VAPVI converges to VAPVI", str(MUCH)] == "no"
    assert by["with a larger budget DP-VAPVI is closer to VAPVI", "rho=9 against rho=1"] == "yes"
    turned = planted({PEVI: lambda _: 1.0, VAPVI: lambda _: 0.0, LITTLE: lambda _: 2.0, MUCH: lambda _: 3.0})
    by = {(s.published, s.about): s.appears for s in sentences(turned, OPTIMUM)}
    assert by["with a larger budget DP-VAPVI is closer to VAPVI", "rho=9 against rho=1"] == "no"
    assert by["in most cases DP-VAPVI outperforms PEVI", f"{LITTLE} against {PEVI}"] == "no"


def test_no_difference_is_told_from_one_run_or_from_chance() -> None:
    of = {VAPVI: lambda _: 0.0, LITTLE: lambda _: 2.0, MUCH: lambda _: 1.0}
    (judged,) = [s for s in sentences(planted(of, runs=1), OPTIMUM) if "larger budget" in s.published]
    assert judged.appears == "not told apart"
    rng = np.random.default_rng(0)
    noisy = {VAPVI: lambda _: 0.0, LITTLE: lambda _: 2 + rng.normal(), MUCH: lambda _: 2 + rng.normal()}
    (judged,) = [s for s in sentences(planted(noisy), OPTIMUM) if "larger budget" in s.published]
    assert judged.appears == "not told apart"


def test_reached_is_where_the_gap_stays_small() -> None:
    gaps = {10: 0.1, 100: 2.0, 1000: 0.2}
    assert reached(planted({VAPVI: lambda _: 0.0, LITTLE: gaps.__getitem__}), LITTLE, OPTIMUM) == 1000
    assert reached(planted({VAPVI: lambda _: 0.0, LITTLE: lambda _: 2.0}), LITTLE, OPTIMUM) is None


def test_the_interval_is_students() -> None:
    values = [1.0, 2.0, 4.0, 4.0, 5.0]
    found = estimate(np.array(values))
    assert found.mean == pytest.approx(3.2)
    # t quantile at 97.5% and 4 degrees of freedom, from a printed table.
    assert found.half_width == pytest.approx(2.776445 * statistics.stdev(values) / math.sqrt(5), rel=1e-6)
    assert math.isnan(estimate(np.array([1.0])).half_width)
    assert str(estimate(np.array([1.0]))) == "1.00"
