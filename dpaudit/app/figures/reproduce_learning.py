"""`dpaudit reproduce 002-figure-1` and `002-figure-2`: the figures of Wang and Hegde (2019)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from dpaudit.app.figures.figure_002 import (
    POINTS,
    RUNS,
    SAMPLES,
    Curve,
    compared_curves,
    curve_cells,
    finished_cells,
    noise_curves,
)
from dpaudit.app.figures.figure_002_shape import Returns, compared_sentences, noise_sentences
from dpaudit.app.figures.figure_command import Figure, figure_options, kept, prepared
from dpaudit.app.figures.learning_page import page, summary
from dpaudit.app.figures.learning_picture import picture_of, rows_of
from dpaudit.app.figures.published_claims import Sentence
from dpaudit.app.main import COMMAND
from dpaudit.app.text.progress import Progress

#: Their names on the command line, and the stems of their files.
NOISE, COMPARED = "002-figure-1", "002-figure-2"

_samples = click.option(
    "--samples",
    type=click.IntRange(min=10 * POINTS),
    default=SAMPLES,
    show_default=True,
    help="T, of one run.",
)


@click.command(NOISE, epilog=f"Example: dpaudit reproduce {NOISE} -o out")
@figure_options(runs=RUNS)
@_samples
@click.pass_context
def figure_1(
    ctx: click.Context,
    *,
    folder: Path | None,
    runs: int,
    samples: int,
    workers: int,
    seed: int,
    output_format: str,
) -> None:
    """Draw the figure again: learning by noise, the corrected algorithm beside the published one."""
    title = "learning under functional noise"
    cells = _finished(NOISE, noise_curves(), folder, range(seed, seed + runs), samples, workers)
    _answer(ctx, NOISE, title, cells, noise_sentences, output_format)


@click.command(COMPARED, epilog=f"Example: dpaudit reproduce {COMPARED} -o out")
@figure_options(runs=RUNS)
@_samples
@click.pass_context
def figure_2(
    ctx: click.Context,
    *,
    folder: Path | None,
    runs: int,
    samples: int,
    workers: int,
    seed: int,
    output_format: str,
) -> None:
    """Draw the figure again: the published and the corrected algorithm and baselines at one claim."""
    title = "private Q-learning at one claim"
    cells = _finished(COMPARED, compared_curves(), folder, range(seed, seed + runs), samples, workers)
    _answer(ctx, COMPARED, title, cells, compared_sentences, output_format)


def _finished(
    name: str, curves: Sequence[Curve], folder: Path | None, seeds: Sequence[int], samples: int, workers: int
) -> tuple[Returns, Path]:
    """Every run of the figure, and the file that keeps them."""
    path = prepared(folder) / f"{name}-cells.csv"
    wanted = [cell for curve in curves for cell in curve_cells(curve, seeds, samples)]
    progress = Progress(len(wanted) // POINTS, "runs")
    with kept(path, progress, lambda: progress.done):
        cells = finished_cells(
            wanted, path=path, workers=workers, progress=lambda done: progress(done // POINTS)
        )
    return Returns(cells), path


def _answer(
    ctx: click.Context,
    name: str,
    title: str,
    finished: tuple[Returns, Path],
    sentences: Callable[[Returns], list[Sentence]],
    output_format: str,
) -> None:
    """Write the figure and its page, and print what of the published shape appears."""
    returns, path = finished
    rows, judged = rows_of(returns), sentences(returns)
    command = ctx.meta.get(COMMAND, f"dpaudit reproduce {name}")
    blocks = page(returns, judged, name=name, title=title, command=command, picture=f"{name}.svg")
    picture = picture_of(rows, title=title)
    drawn = Figure(name, name, {name: (picture, rows)}, blocks, path)
    drawn.answer(judged, summary(returns, judged), output_format)
