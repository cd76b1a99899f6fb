"""`dpaudit reproduce 001-figure-1`: figure 1 of Balle, Gomrokchi and Precup (2016), both noises drawn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import click

from dpaudit.algorithms.figure_001 import BATCHES, SWEPT, figure_cells, finished_cells
from dpaudit.algorithms.figure_001_shape import Results, sentences
from dpaudit.app.evaluation_page import TITLE, page, summary
from dpaudit.app.evaluation_picture import rows_of, specification
from dpaudit.app.failures import EXIT_INTERRUPTED
from dpaudit.app.figure_files import prepare, table_csv
from dpaudit.app.figure_picture import drawing_libraries, png, script, svg
from dpaudit.app.main import COMMAND
from dpaudit.app.output import bullets, line, note, print_json, print_text, unwrapped
from dpaudit.app.page import html_page, markdown
from dpaudit.app.progress import Progress
from dpaudit.files import replace_file

#: Its name on the command line, and the stem of its files.
EVALUATION = "001-figure-1"


def reproduce_evaluation(
    ctx: click.Context,
    folder: Path,
    *,
    seeds: Sequence[int],
    batches: Sequence[int],
    workers: int,
    output_format: str,
) -> None:
    """Draw the figure.

    Args:
        ctx: of the command.
        folder: where everything goes.
        seeds: one run each.
        batches: sorted batch sizes; none for the figure's own. Of given ones the least and the largest make
            the panel over lambda.
        workers: processes.
        output_format: ``text`` or ``json``.
    """
    drawing_libraries()  # that they are missing is said before anything is computed
    prepare(folder)
    cells = folder / f"{EVALUATION}-cells.csv"
    swept = sorted({batches[0], batches[-1]}) if batches else SWEPT
    batches = batches or BATCHES
    wanted = figure_cells(seeds, batches, swept)
    progress = Progress(len(wanted), "runs")
    try:
        found = finished_cells(wanted, path=cells, workers=workers, progress=progress)
    except KeyboardInterrupt:
        note(
            f"interrupted: {progress.done} of {progress.total} runs are kept in {cells}; "
            "the same command goes on from there"
        )
        ctx.exit(EXIT_INTERRUPTED)
    results = Results(found, batches, swept)
    rows, judged = rows_of(results), sentences(results)
    picture = specification(rows, title=f"{TITLE}; published noise (lemma) and the least enough (exact)")
    command = ctx.meta.get(COMMAND, f"dpaudit reproduce {EVALUATION}")
    drawn = f"{EVALUATION}.svg"
    blocks = page(results, rows, judged, command=command, picture=drawn)
    files = {
        f"{EVALUATION}.csv": table_csv(rows),
        drawn: svg(picture),
        f"{EVALUATION}.png": png(picture),
        f"{EVALUATION}.md": markdown(blocks).encode(),
        f"{EVALUATION}.html": html_page(blocks, {drawn: picture}, script()).encode(),
    }
    paths = [replace_file(folder / name, content) for name, content in files.items()] + [cells]
    if output_format == "json":
        said = summary(results, judged)
        print_json({"figure": EVALUATION, **said, "files": [str(path) for path in paths]})
        return
    for published, of in groupby(judged, key=lambda sentence: sentence.published):
        words = [f"{sentence.appears}: {sentence.about}: {sentence.numbers}" for sentence in of]
        print_text(*bullets(f'published: "{published}"', words), line())
    print_text(unwrapped("\n".join(f"written: {path}" for path in paths)))
