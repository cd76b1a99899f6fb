"""What every figure's command does: options, runs that survive an interruption, files, page and answer."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import click

from dpaudit.accountants.accounting import account
from dpaudit.app.figures.picture import Row
from dpaudit.app.figures.published_claims import Sentence, overview
from dpaudit.app.figures.run_cache import RunCache
from dpaudit.app.main import COMMAND
from dpaudit.app.options.files import make_folder
from dpaudit.app.options.option import COUNT, PATH, SEED, Decorator, option
from dpaudit.app.report.blocks import Block, Grid, Heading, Paragraph, Picture, html_page, markdown
from dpaudit.app.report.chart import png, require_drawing, svg
from dpaudit.app.text import output
from dpaudit.app.text.failures import EXIT_INTERRUPTED
from dpaudit.app.text.output import bullets, line, print_json, print_text, unwrapped, upper
from dpaudit.app.text.streams import note
from dpaudit.certificate.verdicts import Accounting, leading_figure
from dpaudit.claims.claims import Claim
from dpaudit.curator.running import run
from dpaudit.errors import UsageError
from dpaudit.ledger.files import replace_file
from dpaudit.progress import Work

P = TypeVar("P")


@dataclass(frozen=True)
class Session:
    """One call of a figure's command."""

    name: str  # the figure's, as in `dpaudit reproduce NAME`
    command: str  # the command line as it was typed
    folder: Path  # where everything is written
    seeds: range  # one run each
    workers: int  # number of processes

    @property
    def path(self) -> Path:
        """The path of the file that keeps every run."""
        return self.folder / f"{self.name}-runs.csv"

    def setting(self) -> str:
        """The number of runs, and their seeds."""
        return f"{len(self.seeds)} runs, seeds {self.seeds[0]} to {self.seeds[-1]}"

    def caption(self, quantity: str, band: str = "bands: one standard deviation") -> str:
        """What a picture shows; a single run has no band."""
        return f"{quantity}, mean of {len(self.seeds)} runs" + (f"; {band}" if len(self.seeds) > 1 else "")

    def finished(
        self,
        cache: RunCache[P],
        first: Sequence[P],
        then: Callable[[Sequence[P]], Sequence[P]] = lambda _: (),
    ) -> tuple[list[P], list[P]]:
        """Compute the runs that the file does not hold yet, saying how far they have come.

        `then` gives further points, which may follow from the finished ones; from points that are not
        measured it must make as many. Returns the finished points: the first, and the further ones.
        Interrupted it exits, after printing what is kept and how to go on.
        """
        begun = cache.runs(first)
        work = Work("runs", begun + cache.runs(then(first)), lasting=True)
        compute = partial(cache.finished, path=self.path, workers=self.workers)
        wanted = list(first)
        try:
            with work:
                found = compute(first, progress=work) if first else []
                further = then(found)
                wanted += further
                done = compute(further, progress=lambda count: work(begun + count))
        except KeyboardInterrupt:
            # Counted from the file: the last run may have been kept before progress was told of it.
            kept = f"{cache.kept(wanted, self.path)} of {work.total} runs are kept in {self.path}"
            note(f"interrupted: {kept}; the same command goes on from there")
            click.get_current_context().exit(EXIT_INTERRUPTED)
        return found, done


@dataclass(frozen=True)
class Figure:
    """A figure that is computed."""

    title: str  # without the figure's name
    about: str  # where it was published, with which command and parameters it was made
    caption: str  # of the first picture
    #: By the stem of its files, each picture's specification and rows; the first stem is also the page's.
    charts: Mapping[str, tuple[dict[str, Any], Sequence[Row]]]
    sentences: Sequence[Sentence]
    blocks: Sequence[Block]  # the rest of the page; pictures are named `<stem>.svg`
    summary: Mapping[str, Any]  # what the answer in JSON says besides figure, runs, sentences and files
    reading: str = ""  # how words of the paper's sentences are read as numbers
    remarks: Sequence[str] = ()  # further lines of the answer in text

    def write(self, session: Session) -> list[Path]:
        """Write data, pictures and page beside the file with the runs; all the files, that one last."""
        files: dict[str, bytes] = {}
        for stem, (picture, rows) in self.charts.items():
            alone = svg(picture, background="white").encode()
            files |= {f"{stem}.csv": _csv(rows), f"{stem}.svg": alone, f"{stem}.png": png(picture)}
        pictures = {f"{stem}.svg": svg(picture) for stem, (picture, _) in self.charts.items()}
        stem = next(iter(self.charts))
        how = f"{overview(self.sentences)} {self.reading}Which of two is better is told where a 95% interval "
        blocks = [
            Heading(f"{session.name}: {self.title}"),
            Paragraph(self.about),
            Paragraph(
                f"{how}over the runs excludes 0; what is close has its whole interval within the limit."
            ),
            Picture(f"{stem}.svg", self.caption),
            Heading("What the paper says, and what these runs say"),
            Grid(("published", "about", "appears", "numbers"), [astuple(s) for s in self.sentences]),
            *self.blocks,
        ]
        files[f"{stem}.md"] = markdown(blocks).encode()
        files[f"{stem}.html"] = html_page(blocks, pictures).encode()
        return [replace_file(session.folder / name, text) for name, text in files.items()] + [session.path]

    def answer(self, session: Session, paths: Sequence[Path], output_format: str) -> None:
        """Print which of the paper's sentences appear, and what was written."""
        if output_format == "json":
            answer = {"figure": session.name, "runs": len(session.seeds), **self.summary}
            sentences = [asdict(sentence) for sentence in self.sentences]
            print_json({**answer, "sentences": sentences, "files": [str(path) for path in paths]})
            return
        for published, of in groupby(self.sentences, key=lambda sentence: sentence.published):
            words = [f"{judged.appears}: {judged.about}: {judged.numbers}" for judged in of]
            print_text(*bullets(f'published: "{published}"', words), line())
        for remark in self.remarks:
            print_text(line(remark))
        print_text(unwrapped("\n".join(f"written: {path}" for path in paths)))


def figure_command(
    name: str, *options: Decorator, runs: int, examples: Sequence[str] = ("",)
) -> Callable[[Callable[..., Figure]], click.Command]:
    """Make a figure's command from the function that computes it from its `Session` and its own `options`.

    `examples` are the options of the examples under the help.
    """
    calls = (" ".join(filter(None, ("dpaudit reproduce", name, words, "-o out"))) for words in examples)

    def decorated(compute: Callable[..., Figure]) -> click.Command:
        def command(
            *, folder: Path | None, runs: int, workers: int, seed: int, output_format: str, **own: Any
        ) -> None:
            if folder is None:
                what, where = "no folder to write to", "dpaudit reproduce"
                why = "a figure is a picture, its data and every run behind it"
                raise UsageError(what, where=where, why=why, remedy="add -o DIR")
            require_drawing(f"dpaudit reproduce {name}")
            make_folder(folder)
            typed = click.get_current_context().meta.get(COMMAND, f"dpaudit reproduce {name}")
            session = Session(name, typed, folder, range(seed, seed + runs), workers)
            figure = compute(session, **own)
            figure.answer(session, figure.write(session), output_format)

        verb: Callable[..., Any] = command
        words = "Folder for data (CSV), pictures (SVG, PNG), page (Markdown, HTML) and every run."
        common = (
            option("-o --output folder", PATH, words, metavar="DIR"),
            option("--runs", COUNT, "Runs per point, with consecutive seeds.", default=runs),
            option("--workers", COUNT, "Number of processes.", default=2),
            option("--seed", SEED, "Seed of the first run.", default=0),
        )
        for each in reversed((*common, *options, output.output_format_option)):
            verb = each(verb)
        epilog = "\n".join(["\b\nExamples:", *(f"  {call}" for call in calls)]) + "\n"
        return click.command(name, help=compute.__doc__, epilog=epilog)(verb)

    return decorated


def accounted(algorithm: Any, data: Any) -> tuple[Accounting, str]:
    """What accounting proves from the ledger of a run, and the figure of the total, rounded up."""
    found = account(run(algorithm, data, seed=0).ledger)
    return found, upper(leading_figure(found.bounds[0].guarantee))


def premises(claim: Claim) -> str:
    """A claim's premises in one line, each with whether it holds."""
    return "; ".join(f"{'holds' if premise.holds else 'FAILS'}: {premise}" for premise in claim.premises)


def _csv(rows: Sequence[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
