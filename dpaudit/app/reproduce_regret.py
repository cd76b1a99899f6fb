"""`dpaudit reproduce 003-figure-2`: the figure of Liao, He and Gu (2023), c chosen on a grid first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import click

from dpaudit.algorithms.figure_003 import best_bonus, curve_cells, curves, finished_cells, grid_cells
from dpaudit.algorithms.figure_003_shape import Regrets, sentences
from dpaudit.algorithms.mixture_calibration import MixtureCalibrationName
from dpaudit.app.failures import EXIT_INTERRUPTED
from dpaudit.app.figure_files import prepare, table_csv
from dpaudit.app.figure_picture import drawing_libraries, png, script, svg
from dpaudit.app.main import COMMAND
from dpaudit.app.output import bullets, line, note, print_json, print_text, unwrapped
from dpaudit.app.page import html_page, markdown
from dpaudit.app.progress import Progress
from dpaudit.app.regret_page import TITLE, page, summary
from dpaudit.app.regret_picture import rows_of, specification
from dpaudit.files import replace_file

#: Its name on the command line, and the stem of its files.
REGRET = "003-figure-2"


def reproduce_regret(
    ctx: click.Context,
    folder: Path,
    *,
    calibration: MixtureCalibrationName,
    seeds: Sequence[int],
    users: int,
    workers: int,
    output_format: str,
) -> None:
    """Draw the figure.

    Args:
        ctx: of the command.
        folder: where everything goes.
        calibration: of the noise.
        seeds: one run each.
        users: K.
        workers: processes.
        output_format: ``text`` or ``json``.
    """
    drawing_libraries()  # that they are missing is said before anything is computed
    prepare(folder)
    path = folder / f"{REGRET}-cells.csv"
    drawn = curves(calibration)
    tried = [cell for curve in drawn for cell in grid_cells(curve, users)]
    points = len(curve_cells(drawn[0], 0.0, users, [0]))
    progress = Progress(len(tried) + len(drawn) * len(seeds), "runs")
    try:
        grid = finished_cells(tried, path=path, workers=workers, progress=progress)
        chosen = {curve: best_bonus([cell for cell in grid if cell.curve == curve]) for curve in drawn}
        wanted = [cell for curve in drawn for cell in curve_cells(curve, chosen[curve], users, seeds)]
        cells = finished_cells(
            wanted, path=path, workers=workers, progress=lambda done: progress(len(tried) + done // points)
        )
    except KeyboardInterrupt:
        note(
            f"interrupted: {progress.done} of {progress.total} runs are kept in {path}; "
            "the same command goes on from there"
        )
        ctx.exit(EXIT_INTERRUPTED)
    regrets = Regrets(cells)
    rows, judged = rows_of(regrets), sentences(regrets)
    picture = specification(rows, title=f"{TITLE}; noise {calibration}")
    stem = f"{REGRET}-{calibration}"
    blocks = page(
        regrets,
        judged,
        name=REGRET,
        calibration=calibration,
        command=ctx.meta.get(COMMAND, f"dpaudit reproduce {REGRET}"),
        picture=f"{stem}.svg",
    )
    files = {
        f"{stem}.csv": table_csv(rows),
        f"{stem}.svg": svg(picture),
        f"{stem}.png": png(picture),
        f"{stem}.md": markdown(blocks).encode(),
        f"{stem}.html": html_page(blocks, {f"{stem}.svg": picture}, script()).encode(),
    }
    paths = [replace_file(folder / name, content) for name, content in files.items()] + [path]
    if output_format == "json":
        print_json({"figure": REGRET, **summary(regrets, judged), "files": [str(path) for path in paths]})
        return
    for published, of in groupby(judged, key=lambda sentence: sentence.published):
        words = [f"{sentence.appears}: {sentence.about}: {sentence.numbers}" for sentence in of]
        print_text(*bullets(f'published: "{published}"', words), line())
    print_text(unwrapped("\n".join(f"written: {path}" for path in paths)))
