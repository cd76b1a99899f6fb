"""What the commands that draw figures share: options, interruption, files, and the answer."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from dpaudit.app.figures.figure_picture import Row
from dpaudit.app.figures.published_claims import Sentence
from dpaudit.app.report.blocks import Block, html_page, markdown
from dpaudit.app.report.chart import png, svg
from dpaudit.app.text.failures import EXIT_INTERRUPTED, traceback_option
from dpaudit.app.text.output import bullets, line, output_format_option, print_json, print_text, unwrapped
from dpaudit.app.text.progress import Progress
from dpaudit.app.text.streams import note
from dpaudit.errors import UsageError
from dpaudit.ledger.files import replace_file

_Verb = Callable[..., Any]


def figure_options(runs: int) -> Callable[[_Verb], _Verb]:
    """``-o``, ``--runs``, ``--workers``, ``--seed`` and what every verb has; `runs` is the default."""

    def decorated(verb: _Verb) -> _Verb:
        for option in (
            traceback_option,
            output_format_option,
            click.option(
                "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the first run."
            ),
            click.option(
                "--workers", type=click.IntRange(min=1), default=2, show_default=True, help="Processes."
            ),
            click.option(
                "--runs",
                type=click.IntRange(min=1),
                default=runs,
                show_default=True,
                help="Behind each point, with seeds one after another.",
            ),
            click.option(
                "-o",
                "--output",
                "folder",
                type=click.Path(path_type=Path),
                metavar="DIR",
                help="Where data (CSV), pictures (SVG, PNG), page (Markdown, HTML) and every run go.",
            ),
        ):
            verb = option(verb)
        return verb

    return decorated


def prepared(folder: Path | None) -> Path:
    """The folder, made if it is not there.

    Raises:
        UsageError: none was given, or it cannot be made.
    """
    if folder is None:
        raise UsageError(
            "no folder to write to",
            where="dpaudit reproduce",
            why="a figure is a picture, its data and every run behind it",
            remedy="add -o DIR",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot be made a folder: {error.strerror}",
            where=f"-o {folder}",
            why="nothing could be kept",
            remedy="name another folder",
        ) from None
    return folder


@contextmanager
def kept(cells: Path, progress: Progress, count: Callable[[], int]) -> Iterator[None]:
    """Say of an interrupted computation what is kept, and how it goes on.

    Args:
        cells: the file with every run.
        progress: of the computation.
        count: how many runs the file holds: the last may have been kept, and progress not have been told.
    """
    try:
        with progress:
            yield
    except KeyboardInterrupt:
        note(
            f"interrupted: {count()} of {progress.total} runs are kept in {cells}; "
            "the same command goes on from there"
        )
        click.get_current_context().exit(EXIT_INTERRUPTED)


@dataclass(frozen=True)
class Figure:
    """A figure that is drawn.

    Attributes:
        name: on the command line.
        stem: of its page's files.
        charts: by the stem of its files, each picture's specification and the rows behind it.
        blocks: the page; its pictures are named ``<stem>.svg``.
        cells: the file with every run.
    """

    name: str
    stem: str
    charts: Mapping[str, tuple[dict[str, Any], Sequence[Row]]]
    blocks: Sequence[Block]
    cells: Path

    def write(self) -> list[Path]:
        """Write everything beside the file with the runs; all the files, that one last."""
        files: dict[str, bytes] = {}
        for stem, (picture, rows) in self.charts.items():
            alone = svg(picture, background="white").encode()
            files |= {f"{stem}.csv": _csv(rows), f"{stem}.svg": alone, f"{stem}.png": png(picture)}
        pictures = {f"{stem}.svg": svg(picture) for stem, (picture, _) in self.charts.items()}
        files[f"{self.stem}.md"] = markdown(self.blocks).encode()
        files[f"{self.stem}.html"] = html_page(self.blocks, pictures).encode()
        folder = self.cells.parent
        return [replace_file(folder / name, content) for name, content in files.items()] + [self.cells]

    def answer(
        self,
        sentences: Sequence[Sentence],
        summary: Mapping[str, Any],
        output_format: str,
        more: Sequence[str] = (),
    ) -> None:
        """Write the figure, and print what of the published shape appears."""
        paths = self.write()
        if output_format == "json":
            print_json({"figure": self.name, **summary, "files": [str(path) for path in paths]})
            return
        for published, of in groupby(sentences, key=lambda sentence: sentence.published):
            words = [f"{sentence.appears}: {sentence.about}: {sentence.numbers}" for sentence in of]
            print_text(*bullets(f'published: "{published}"', words), line())
        for words_of_more in more:
            print_text(line(words_of_more))
        print_text(unwrapped("\n".join(f"written: {path}" for path in paths)))


def _csv(rows: Sequence[Row]) -> bytes:
    """One line for each row, under the columns of the first."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
