"""`dpaudit reproduce 003-figure-2`: the figure of Liao, He and Gu (2023), c chosen on a grid first."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from dpaudit.algorithms.online.ldp_ucrl_vtr import MixtureCalibrationName
from dpaudit.app.figures.figure_003 import (
    RUNS,
    USERS,
    curve_cells,
    curves,
    finished_cells,
    grid_cells,
)
from dpaudit.app.figures.figure_003_shape import sentences
from dpaudit.app.figures.figure_command import Figure, figure_options, kept, prepared
from dpaudit.app.figures.regret_page import TITLE, page, summary
from dpaudit.app.figures.regret_picture import picture_of, rows_of
from dpaudit.app.figures.regrets import Regrets, best_bonus
from dpaudit.app.main import COMMAND
from dpaudit.app.text.progress import Progress

#: Its name on the command line, and the stem of its files.
REGRET = "003-figure-2"


@click.command(REGRET, epilog=f"Example: dpaudit reproduce {REGRET} --calibration exact -o out")
@figure_options(runs=RUNS)
@click.option(
    "--calibration",
    type=click.Choice(get_args(MixtureCalibrationName)),
    default="published-noise",
    show_default=True,
    help="Of the noise.",
)
@click.option("--users", type=click.IntRange(min=2), default=USERS, show_default=True, help="K, of one run.")
@click.pass_context
def figure(
    ctx: click.Context,
    *,
    folder: Path | None,
    calibration: MixtureCalibrationName,
    runs: int,
    users: int,
    workers: int,
    seed: int,
    output_format: str,
) -> None:
    """Draw the figure again: cumulative regret over users, with and without local privacy."""
    path = prepared(folder) / f"{REGRET}-cells.csv"
    seeds = range(seed, seed + runs)
    drawn = curves(calibration)
    tried = [cell for curve in drawn for cell in grid_cells(curve, users)]
    points = len(curve_cells(drawn[0], 0.0, users, [0]))
    progress = Progress(len(tried) + len(drawn) * len(seeds), "runs")
    with kept(path, progress, lambda: progress.done):
        grid = finished_cells(tried, path=path, workers=workers, progress=progress)
        chosen = {curve: best_bonus([cell for cell in grid if cell.curve == curve]) for curve in drawn}
        wanted = [cell for curve in drawn for cell in curve_cells(curve, chosen[curve], users, seeds)]
        cells = finished_cells(
            wanted, path=path, workers=workers, progress=lambda done: progress(len(tried) + done // points)
        )
    regrets = Regrets(cells)
    rows, judged = rows_of(regrets), sentences(regrets)
    stem = f"{REGRET}-{calibration}"
    blocks = page(
        regrets,
        judged,
        name=REGRET,
        calibration=calibration,
        command=ctx.meta.get(COMMAND, f"dpaudit reproduce {REGRET}"),
        picture=f"{stem}.svg",
    )
    picture = picture_of(rows, title=f"{TITLE}; noise {calibration}")
    answered = Figure(REGRET, stem, {stem: (picture, rows)}, blocks, path)
    answered.answer(judged, summary(regrets, judged), output_format)
