"""`dpaudit site`: one static folder over many certificates, ledgers and books."""

from pathlib import Path

import click

from dpaudit.app.options.files import make_folder
from dpaudit.app.options.option import PATH, option
from dpaudit.app.site.history import History, history
from dpaudit.app.site.pages import INDEX, addresses, index, names_of
from dpaudit.app.site.sources import Sources, read_sources
from dpaudit.app.text.output import counted, print_text, unwrapped
from dpaudit.app.text.streams import note
from dpaudit.app.verbs.report import report_text
from dpaudit.errors import UsageError
from dpaudit.ledger.files import replace_file
from dpaudit.ledger.lock import LOCK, only_writer
from dpaudit.progress import Work

#: The folder of the certificates' pages, in which there is nothing else.
PAGES = "certificates"

#: What only our own index holds: a folder with another one is not written to.
_OURS = b"<!-- made by dpaudit site -->"


@click.command(
    epilog="""\b
Examples:
  dpaudit site runs/
  dpaudit site runs/ --book postgresql://user@host/budgets -o public

Exits 0 if every file was read. Unreadable files are named on the page and here,
the rest is written, and the worst error sets the exit code: 2 or 3.
"""
)
@click.argument("sources", metavar="DIR...", nargs=-1, required=True, type=PATH)
@option("-o --output folder", PATH, "The folder to write.", default=Path("dpaudit-site"), metavar="SITE")
@option("--book books", str, "Also a book at this address; repeatable.", multiple=True, metavar="ADDRESS")
@click.pass_context
def site(ctx: click.Context, *, sources: tuple[Path, ...], folder: Path, books: tuple[str, ...]) -> None:
    """Write one static folder about all certificates, ledgers and budget books in DIR.

    Its index opens without a server: what is proved, how each certificate grew over the commits that changed
    it, what is left of each budget, and what another noise would cost. Every certificate has its report.
    """
    _require_ours(folder)
    found = read_sources(sources, books, but=folder)
    if not found.number:
        what, why = "no certificate, ledger or budget book", "there is nothing to show"
        remedy = "name a folder that `dpaudit certify -o` wrote to, or one above it"
        raise UsageError(what, where=" ".join(map(str, sources)), why=why, remedy=remedy)
    make_folder(folder / PAGES)
    with only_writer(folder):
        _write(folder, sources[0].resolve().name if len(sources) == 1 else "several folders", found)
    for name, error in found.broken.items():
        note(f"not read: {name}: {error}")
    if found.left_out:
        note(f"left out: {names_of(found.left_out)}: nothing in them says that dpaudit wrote them")
    counts = [
        (len(found.certificates), "certificate", "certificates"),
        (len(found.ledgers), "ledger", "ledgers"),
        (len(found.accounts), "budget", "budgets"),
    ]
    read = ", ".join(counted(*count) for count in counts if count[0]) or "nothing could be read"
    print_text(unwrapped(f"written: {folder / INDEX} ({read})"))
    if found.broken:
        ctx.exit(max(error.exit_status for error in found.broken.values()))


def _require_ours(folder: Path) -> None:
    """Raise `UsageError` where the folder holds anything but a site: the site's old pages are removed."""
    if not folder.exists() or (folder.is_dir() and {one.name for one in folder.iterdir()} <= {PAGES, LOCK}):
        return  # empty, or left by a killed run
    old = folder / INDEX
    if not old.is_file() or _OURS not in old.read_bytes():
        what, why = "holds something else than a site of dpaudit", "files there could be lost"
        raise UsageError(what, where=f"-o {folder}", why=why, remedy="name a new or an empty folder")


def _write(folder: Path, title: str, found: Sources) -> None:
    """Write every page, the index last, so that all its links have a target."""
    pages = addresses(list(found.certificates))
    histories: dict[str, History] = {}
    with Work("pages", len(pages) + 1) as work:
        for number, (name, address) in enumerate(pages.items()):
            work(number, name)
            read = found.certificates[name]
            page = report_text(read.certificate, read.computed, up=f"../{INDEX}")
            replace_file(folder / PAGES / address, page.encode())
            grown = history(found.paths[name], read)
            histories |= {} if grown is None else {name: grown}
        work(len(pages), INDEX)
        text = index(title, found, histories, {name: f"{PAGES}/{page}" for name, page in pages.items()})
        replace_file(folder / INDEX, text.encode() + _OURS + b"\n")
    for old in (folder / PAGES).glob("*.html"):
        if old.name not in pages.values():
            old.unlink()
