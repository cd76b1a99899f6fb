"""`dpaudit reproduce 001-figure-1`: figure 1 of Balle, Gomrokchi and Precup (2016), both noises drawn."""

from __future__ import annotations

from pathlib import Path

import click

from dpaudit.app.figures.evaluation_page import TITLE, page, summary
from dpaudit.app.figures.evaluation_picture import picture_of, rows_of
from dpaudit.app.figures.figure_001 import BATCHES, RUNS, SWEPT, figure_cells, finished_cells, kept_cells
from dpaudit.app.figures.figure_001_shape import Results, sentences
from dpaudit.app.figures.figure_command import Figure, figure_options, kept, prepared
from dpaudit.app.main import COMMAND
from dpaudit.app.text.progress import Progress

#: Its name on the command line, and the stem of its files.
EVALUATION = "001-figure-1"


@click.command(EVALUATION, epilog=f"Example: dpaudit reproduce {EVALUATION} -o out")
@figure_options(runs=RUNS)
@click.option(
    "--episodes",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="M",
    help=f"Batch sizes; repeatable; default {BATCHES[0]} to {BATCHES[-1]}. The least and the largest "
    "make the panel over lambda.",
)
@click.pass_context
def figure(
    ctx: click.Context,
    *,
    folder: Path | None,
    runs: int,
    episodes: tuple[int, ...],
    workers: int,
    seed: int,
    output_format: str,
) -> None:
    """Draw the figure again: policy evaluation, with the published noise and with the least enough."""
    path = prepared(folder) / f"{EVALUATION}-cells.csv"
    batches = sorted(set(episodes)) or BATCHES
    swept = sorted({batches[0], batches[-1]}) if episodes else SWEPT
    wanted = figure_cells(range(seed, seed + runs), batches, swept)
    progress = Progress(len(wanted), "runs")
    with kept(path, progress, lambda: kept_cells(wanted, path)):
        found = finished_cells(wanted, path=path, workers=workers, progress=progress)
    results = Results(found, batches, swept)
    rows, judged = rows_of(results), sentences(results)
    picture = picture_of(rows, title=f"{TITLE}; published noise (lemma) and the least enough (exact)")
    command = ctx.meta.get(COMMAND, f"dpaudit reproduce {EVALUATION}")
    blocks = page(results, rows, judged, command=command, picture=f"{EVALUATION}.svg")
    drawn = Figure(EVALUATION, EVALUATION, {EVALUATION: (picture, rows)}, blocks, path)
    drawn.answer(judged, summary(results, judged), output_format)
