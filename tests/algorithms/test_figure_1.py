from __future__ import annotations

import math
from pathlib import Path

import pytest

from dpaudit.algorithms import figure_1
from dpaudit.algorithms.figure_1 import Cell, figure_1a, run_cell
from dpaudit.errors import UsageError

ASKED = ((0, 1), (5, 20), (1.0, 25.0))


def test_every_algorithm_runs_on_every_number_of_episodes_and_seed() -> None:
    cells = figure_1a(*ASKED, workers=1)
    assert [(c.algorithm, c.rho, c.episodes, c.seed) for c in cells] == [
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
    assert figure_1a(*ASKED, workers=2) == cells


def test_a_finished_cell_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cells.csv"
    cells = figure_1a(*ASKED, path=path, workers=1)
    # Interrupted in the middle of a line, three cells before the end.
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-3]) + lines[-3][:20])
    ran: list[Cell] = []

    def counted(cell: Cell) -> Cell:
        ran.append(cell)
        return run_cell(cell)

    monkeypatch.setattr(figure_1, "run_cell", counted)
    assert figure_1a(*ASKED, path=path, workers=1) == cells
    assert len(ran) == 3
    assert path.read_text() == "".join(lines)
    # Other noise or features are other cells.
    figure_1a((0,), (5,), (1.0,), path=path, workers=1, calibration="as-published", normalised=False)
    assert len(ran) == 6


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UsageError):
        figure_1a((0,), (5,), (1.0,), path=path, workers=1)
    assert path.read_text() == "a,b\n1,2\n"
