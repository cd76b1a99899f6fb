from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from dpaudit.app.figures import qiao_wang_2023
from dpaudit.app.figures.qiao_wang_2023 import (
    CONSTANTS,
    PANELS,
    RUNS,
    TUNING_SEEDS,
    Panel,
    Point,
    best_constants,
    panel_points,
    run_point,
    tuning_points,
)
from dpaudit.app.report.blocks import Grid
from dpaudit.errors import UsageError

SMALL = Panel("small", (1.0, 25.0), (0.04,), 0)
WANTED = panel_points(SMALL, (0, 1), (5, 20))


def test_every_algorithm_runs_on_every_number_of_episodes_and_seed() -> None:
    cells = RUNS.finished(WANTED)
    assert [(c.curve.algorithm, c.curve.rho, c.episodes, c.seed) for c in cells] == [
        (algorithm, rho, k, seed)
        for algorithm, rho in (
            ("pevi", math.inf),
            ("vapvi", math.inf),
            ("dp-vapvi", 1.0),
            ("dp-vapvi", 25.0),
        )
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

    def planted(point: Point) -> Point:
        best = wanted[point.curve.rho] == (point.curve.shift, point.curve.ridge)
        return replace(point, suboptimality=1.0 if best else 2.0 if point.episodes == 5 else 0.5)

    assert best_constants([planted(point) for point in tried]) == wanted
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
    found = {}
    for name, normalised in (("as-published", False), ("sound", True)):
        *_, grid = qiao_wang_2023._privacy(PANELS["qiao-wang-2023-figure-1b"], name, normalised=normalised)
        assert isinstance(grid, Grid)
        found[name] = [float(row[-1]) for row in grid.rows]
    assert found["sound"] == pytest.approx([0.1, 1.0, 5.0, 25.0], rel=1e-3)
    assert found["as-published"] == pytest.approx([2.31, 23.1, 115.5, 577.4], rel=1e-3)
