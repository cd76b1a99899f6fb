"""`dpaudit reproduce`: a paper's figure with its data, its picture and a page saying what of it appears."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import click

from dpaudit.algorithms.figure_1 import EPISODES, FIGURES, Cell, figure_cells, finished_cells, kept_cells
from dpaudit.algorithms.figure_1_shape import Curves
from dpaudit.algorithms.linear_calibration import CalibrationName
from dpaudit.app.failures import EXIT_INTERRUPTED, traceback_option
from dpaudit.app.figure_page import Drawn, drawn_curves, page, summary
from dpaudit.app.figure_picture import Row, drawing_libraries, png, rows_of, script, specification, svg
from dpaudit.app.main import COMMAND
from dpaudit.app.output import (
    bullets,
    line,
    note,
    output_format_option,
    print_json,
    print_text,
    table,
    unwrapped,
)
from dpaudit.app.page import html_page, markdown
from dpaudit.app.progress import Progress
from dpaudit.errors import UsageError
from dpaudit.files import replace_file

CELLS = "cells.csv"


@click.command(
    epilog="""\b
Examples:
  dpaudit reproduce                             (what there is)
  dpaudit reproduce 000-figure-1a -o out
  dpaudit reproduce 000-figure-1b --scaling -o out

Interrupted, the same command goes on where it stopped. Needs the extra `plot`.
"""
)
@click.argument("figure", required=False)
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help=f"Where data (CSV), pictures (SVG, PNG), page (Markdown, HTML) and every run ({CELLS}) go.",
)
@click.option(
    "--calibration",
    type=click.Choice(["sound", "as-published"]),
    default="sound",
    show_default=True,
    help="Of the noise.",
)
@click.option(
    "--features",
    type=click.Choice(["normalised", "raw"]),
    default="normalised",
    show_default=True,
    help="raw: as in the paper's own experiment.",
)
@click.option(
    "--runs", type=click.IntRange(min=1), default=5, show_default=True, help="At each number of episodes."
)
@click.option(
    "--episodes",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="K",
    help=f"Numbers of episodes; repeatable; default {EPISODES[0]} to {EPISODES[-1]}.",
)
@click.option("--scaling", is_flag=True, help="Let K grow on, beyond the figure.")
@click.option(
    "--largest",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    metavar="K",
    help="Where the scaling run ends.",
)
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True, help="Processes.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the first run.")
@output_format_option
@traceback_option
@click.pass_context
def reproduce(
    ctx: click.Context,
    *,
    figure: str | None,
    folder: Path | None,
    calibration: CalibrationName,
    features: str,
    runs: int,
    episodes: tuple[int, ...],
    scaling: bool,
    largest: int,
    workers: int,
    seed: int,
    output_format: str,
) -> None:
    """Draw FIGURE of a paper again; without FIGURE, list those there are."""
    if figure is None:
        _list(output_format)
        return
    folder = _checked(figure, folder)
    panel, normalised = FIGURES[figure], features == "normalised"
    drawing_libraries()  # that they are missing is said before anything is computed
    _prepare(folder)

    seeds, ks = range(seed, seed + runs), sorted(set(episodes or EPISODES))

    def cells(of: Sequence[int], pevi: tuple[float, ...]) -> list[Cell]:
        return figure_cells(
            replace(panel, pevi=pevi), seeds, of, calibration=calibration, normalised=normalised
        )

    asked = cells(ks, panel.pevi)
    # PEVI is not part of the question at which K DP-VAPVI comes close to VAPVI.
    further = cells(_further(ks[-1], largest), ()) if scaling else []
    wanted = asked + further
    try:
        with Progress(len(wanted), "runs") as progress:
            found = finished_cells(wanted, path=folder / CELLS, workers=workers, progress=progress)
    except KeyboardInterrupt:
        # Counted in the file: the last one may have been kept, and progress not have been told.
        note(
            f"interrupted: {kept_cells(wanted, folder / CELLS)} of {len(wanted)} runs are kept in "
            f"{folder / CELLS}; the same command goes on from there"
        )
        ctx.exit(EXIT_INTERRUPTED)
    drawn = Drawn(
        name=figure,
        figure=panel,
        calibration=calibration,
        normalised=normalised,
        command=ctx.meta.get(COMMAND, f"dpaudit reproduce {figure}"),
        curves=Curves(found[: len(asked)]),
        scaling=Curves([cell for cell in found if cell.algorithm != "pevi"]) if scaling else None,
    )
    paths = _write(drawn, folder)
    if output_format == "json":
        print_json({"figure": figure, **summary(drawn), "files": [str(path) for path in paths]})
        return
    for published, of in groupby(drawn.sentences(), key=lambda sentence: sentence.published):
        words = [f"{sentence.appears}: {sentence.about}: {sentence.numbers}" for sentence in of]
        print_text(*bullets(f'published: "{published}"', words), line())
    for rho, k in drawn.reached().items():
        print_text(line(f"rho={rho:g}: close to VAPVI", f"from K={k} on" if k else f"not up to K={largest}"))
    print_text(unwrapped("\n".join(f"written: {path}" for path in paths)))


def _list(output_format: str) -> None:
    titles = {
        name: f"Qiao and Wang (2023), figure 1({name[-1]}): {figure.title}"
        for name, figure in FIGURES.items()
    }
    if output_format == "json":
        print_json({"figures": titles})
    else:
        print_text(table(("figure", ""), titles.items(), whole=("figure",)))


def _checked(figure: str, folder: Path | None) -> Path:
    if figure not in FIGURES:
        raise UsageError(
            f"no figure {figure!r}",
            where="FIGURE",
            why="there is nothing to draw",
            remedy=f"give one of {', '.join(FIGURES)}",
        )
    if folder is None:
        raise UsageError(
            "no folder to write to",
            where="dpaudit reproduce",
            why="a figure is a picture, its data and every run behind it",
            remedy="add -o DIR",
        )
    return folder


def _prepare(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot be made a folder: {error.strerror}",
            where=f"-o {folder}",
            why="nothing could be kept",
            remedy="name another folder",
        ) from None


def _further(begin: int, largest: int) -> list[int]:
    """1, 3, 10, 30, ... beyond the figure."""
    ladder = (factor * 10**power for power in range(len(str(largest))) for factor in (1, 3))
    further = [k for k in ladder if begin < k <= largest]
    if not further:
        raise UsageError(
            f"nothing between the figure's {begin} episodes and {largest}",
            where="--largest",
            why="a scaling run goes beyond the figure",
            remedy="give a larger K",
        )
    return further


def _write(drawn: Drawn, folder: Path) -> list[Path]:
    variant = "" if drawn.calibration == "sound" else f"-{drawn.calibration}"
    stem = drawn.name + variant + ("" if drawn.normalised else "-raw")
    files: dict[str, bytes] = {}
    pictures: dict[str, str] = {}
    charts = [(stem, drawn.curves, False)]
    if drawn.scaling is not None:
        charts.append((f"{stem}-scaling", drawn.scaling, True))
    for name, curves, logarithmic in charts:
        rows = rows_of(curves, drawn_curves(curves, drawn.figure))
        title = f"{drawn.figure.title}; noise {drawn.calibration}"
        picture = specification(rows, title=title, logarithmic=logarithmic)
        pictures[f"{name}.svg"] = picture
        files |= {f"{name}.csv": _csv(rows), f"{name}.svg": svg(picture), f"{name}.png": png(picture)}
    blocks = page(drawn, f"{stem}.svg", f"{stem}-scaling.svg")
    files[f"{stem}.md"] = markdown(blocks).encode()
    files[f"{stem}.html"] = html_page(blocks, pictures, script()).encode()
    return [replace_file(folder / name, content) for name, content in files.items()] + [folder / CELLS]


def _csv(rows: Sequence[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
