"""What every figure's command does: options, runs that survive an interruption, files, page and answer."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from dpaudit.accountants.accounting import account
from dpaudit.algorithms.figures.picture import Row
from dpaudit.algorithms.figures.published_claims import overview
from dpaudit.algorithms.figures.study import Figure, Option, RunsInterrupted, Session, Study
from dpaudit.app.main import COMMAND
from dpaudit.app.options.files import make_folder
from dpaudit.app.options.option import COUNT, PATH, SEED, Decorator, option
from dpaudit.app.text import output
from dpaudit.app.text.failures import EXIT_INTERRUPTED
from dpaudit.app.text.output import bullets, line, print_json, print_text, unwrapped, upper
from dpaudit.app.text.streams import note
from dpaudit.certificate.verdicts import Accounting, leading_figure
from dpaudit.curator.running import run
from dpaudit.errors import UsageError
from dpaudit.ledger.files import replace_file
from dpaudit.page.blocks import Grid, Heading, Paragraph, Picture, html_page, markdown
from dpaudit.page.chart import png, require_drawing, svg


def figure_command(name: str, study: Study) -> click.Command:
    """Make a figure's command."""
    calls = (" ".join(filter(None, ("dpaudit reproduce", name, words, "-o out"))) for words in study.examples)

    def command(
        *, folder: Path | None, runs: int, workers: int, seed: int, output_format: str, **own: Any
    ) -> None:
        if folder is None:
            what, where = "no folder to write to", "dpaudit reproduce"
            why = "a figure is a picture, its data and every run behind it"
            raise UsageError(what, where=where, why=why, remedy="add -o DIR")
        require_drawing(f"dpaudit reproduce {name}")
        make_folder(folder)
        context = click.get_current_context()
        typed = context.meta.get(COMMAND, f"dpaudit reproduce {name}")
        session = Session(name, typed, folder, range(seed, seed + runs), workers, accounted)
        try:
            figure = study.compute(session, **own)
        except RunsInterrupted as interrupted:
            note(f"interrupted: {interrupted}; the same command goes on from there")
            context.exit(EXIT_INTERRUPTED)
        _answer(session, figure, _written(session, figure), output_format)

    verb: Callable[..., Any] = command
    words = "Folder for the data (CSV), pictures (SVG, PNG), page (Markdown, HTML) and runs."
    common = (
        option("-o --output folder", PATH, words, metavar="DIR"),
        option("--runs", COUNT, "Runs per point, with consecutive seeds.", default=study.runs),
        option("--workers", COUNT, "Number of processes.", default=2),
        option("--seed", SEED, "Seed of the first run.", default=0),
    )
    for each in reversed((*common, *map(_option, study.options), output.output_format_option)):
        verb = each(verb)
    epilog = "\n".join(["\b\nExamples:", *(f"  {call}" for call in calls)]) + "\n"
    return click.command(name, help=study.compute.__doc__, epilog=epilog)(verb)


def _option(of: Option) -> Decorator:
    if of.default is False:
        return option(of.name, bool, of.meaning)
    kind = list(of.words) or click.IntRange(min=of.least)
    more = {"multiple": True, "metavar": "N"} if of.repeatable else {"default": of.default}
    return option(of.name, kind, of.meaning, **more)


def accounted(algorithm: Any, data: Any) -> tuple[Accounting, str]:
    """What accounting proves from the ledger of a run, and the figure of the total, rounded up."""
    found = account(run(algorithm, data, seed=0).ledger)
    return found, upper(leading_figure(found.bounds[0].guarantee))


def _written(session: Session, figure: Figure) -> list[Path]:
    """Write data, pictures and page beside the file with the runs; all the files, that one last."""
    files: dict[str, bytes] = {}
    for stem, (picture, rows) in figure.charts.items():
        alone = svg(picture, background="white").encode()
        files |= {f"{stem}.csv": _csv(rows), f"{stem}.svg": alone, f"{stem}.png": png(picture)}
    pictures = {f"{stem}.svg": svg(picture) for stem, (picture, _) in figure.charts.items()}
    stem = next(iter(figure.charts))
    how = f"{overview(figure.sentences)} {figure.reading}Which of two is better is told where a 95% interval "
    blocks = [
        Heading(f"{session.name}: {figure.title}"),
        Paragraph(figure.about),
        Paragraph(f"{how}over the runs excludes 0; what is close has its whole interval within the limit."),
        Picture(f"{stem}.svg", figure.caption),
        Heading("The paper's sentences and these runs"),
        Grid(("published", "about", "appears", "numbers"), [astuple(s) for s in figure.sentences]),
        *figure.blocks,
    ]
    files[f"{stem}.md"] = markdown(blocks).encode()
    files[f"{stem}.html"] = html_page(blocks, pictures).encode()
    return [replace_file(session.folder / name, text) for name, text in files.items()] + [session.path]


def _answer(session: Session, figure: Figure, paths: Sequence[Path], output_format: str) -> None:
    """Print which of the paper's sentences appear, and what was written."""
    if output_format == "json":
        answer = {"figure": session.name, "runs": len(session.seeds), **figure.summary}
        sentences = [asdict(sentence) for sentence in figure.sentences]
        print_json({**answer, "sentences": sentences, "files": [str(path) for path in paths]})
        return
    for published, of in groupby(figure.sentences, key=lambda sentence: sentence.published):
        words = [f"{judged.appears}: {judged.about}: {judged.numbers}" for judged in of]
        print_text(*bullets(f'published: "{published}"', words), line())
    for remark in figure.remarks:
        print_text(line(remark))
    print_text(unwrapped("\n".join(f"written: {path}" for path in paths)))


def _csv(rows: Sequence[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
