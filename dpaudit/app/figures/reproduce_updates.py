"""`dpaudit reproduce 004-regret`: regret and updates of Private LSVI-UCB, beta chosen on a grid first."""

from __future__ import annotations

from pathlib import Path

import click

from dpaudit.app.figures.figure_004 import RUNS, USERS, curve_cells, curves, finished_cells, grid_cells
from dpaudit.app.figures.figure_004_shape import Switches, sentences
from dpaudit.app.figures.figure_command import Figure, figure_options, kept, prepared
from dpaudit.app.figures.regrets import best_bonus
from dpaudit.app.figures.updates_page import TITLE, page, summary
from dpaudit.app.figures.updates_picture import picture_of, rows_of
from dpaudit.app.main import COMMAND
from dpaudit.app.text.progress import Progress

#: Its name on the command line, and the stem of its files.
UPDATES = "004-regret"

#: For fewer users the published counter allows no update at the smallest budget.
_LEAST = 50


@click.command(UPDATES, epilog=f"Example: dpaudit reproduce {UPDATES} -o out")
@figure_options(runs=RUNS)
@click.option(
    "--users", type=click.IntRange(min=_LEAST), default=USERS, show_default=True, help="K, of one run."
)
@click.pass_context
def figure(
    ctx: click.Context,
    *,
    folder: Path | None,
    runs: int,
    users: int,
    workers: int,
    seed: int,
    output_format: str,
) -> None:
    """Run it: cumulative regret and policy updates over users, with and without joint privacy."""
    path = prepared(folder) / f"{UPDATES}-cells.csv"
    seeds = range(seed, seed + runs)
    drawn = curves()
    tried = {curve: grid_cells(curve, users) for curve in drawn}
    trials = sum(map(len, tried.values()))
    points = len(curve_cells(drawn[0], 0.0, users, [0]))
    progress = Progress(trials + len(drawn) * len(seeds), "runs")
    with kept(path, progress, lambda: progress.done):
        grid = [cell for cells in tried.values() for cell in cells]
        finished = finished_cells(grid, path=path, workers=workers, progress=progress)
        chosen = {curve: best_bonus([cell for cell in finished if cell.curve == curve]) for curve in drawn}
        wanted = [cell for curve in drawn for cell in curve_cells(curve, chosen[curve], users, seeds)]
        cells = finished_cells(
            wanted, path=path, workers=workers, progress=lambda done: progress(trials + done // points)
        )
    found = Switches(cells)
    rows, judged = rows_of(found), sentences(found)
    blocks = page(
        found,
        judged,
        name=UPDATES,
        command=ctx.meta.get(COMMAND, f"dpaudit reproduce {UPDATES}"),
        picture=f"{UPDATES}.svg",
    )
    answered = Figure(UPDATES, UPDATES, {UPDATES: (picture_of(rows, title=TITLE), rows)}, blocks, path)
    answered.answer(judged, summary(found, judged), output_format)
