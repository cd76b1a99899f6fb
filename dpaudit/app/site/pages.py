"""The pages: an index, and the report about every certificate."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from dpaudit.accountants.book.accounts import Account, amount
from dpaudit.app.report.evaluation import approximate
from dpaudit.app.report.report_charts import short
from dpaudit.app.report.report_page import publishing, spaced
from dpaudit.app.site.history import History
from dpaudit.app.site.sources import Read, Sources
from dpaudit.app.text.book_text import account_rows
from dpaudit.app.text.output import counted
from dpaudit.app.text.tables import bound_figure, figure
from dpaudit.certificate.verdicts import Experiment, Proof, leading_figure
from dpaudit.errors import DpauditError
from dpaudit.page import chart
from dpaudit.page.blocks import (
    Badges,
    Block,
    Grid,
    Heading,
    Linked,
    Paragraph,
    Picture,
    Tone,
    html_page,
)
from dpaudit.page.chart import Drawn, axis, by_name, colour, marks
from dpaudit.page.printable import printable
from dpaudit.pipeline.accounting import Verified

INDEX = "index.html"

#: More rows or pictures of one kind than these are counted, not shown.
MOST_ROWS, MOST_PICTURES, MOST_BARS, MOST_NAMED = 1000, 20, 40, 20

#: Budgets are shown as (epsilon, delta) there.
_DELTAS = (1e-6,)


def addresses(names: Sequence[str]) -> dict[str, str]:
    """The file of each certificate's page: its name, made of what every file system and address takes."""
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub("[^A-Za-z0-9]+", "-", name.removesuffix(".json")).strip("-")[:80] or "certificate"
        taken, address, number = set(map(str.lower, found.values())), f"{plain}.html", 1
        while address.lower() in taken or address == INDEX:
            number += 1
            address = f"{plain}-{number}.html"
        found[name] = address
    return found


def index(title: str, found: Sources, histories: Mapping[str, History], pages: Mapping[str, str]) -> str:
    """The index, as HTML; `pages` are the addresses of certificates' pages, where they have one."""
    drawn: dict[str, Drawn] = {}
    if chart.can_draw():
        for name, history in list(histories.items())[:MOST_PICTURES]:
            drawn[f"growth of {name}"] = _growth_picture(name, history)
        if found.accounts:
            drawn["balances"] = _balances_picture([account for _, account in found.accounts])
    pictures = {name: chart.svg(chart.specification(picture)) for name, (picture, _) in drawn.items()}
    pictures["what if"] = files(__package__).joinpath("what_if.html").read_text(encoding="utf-8")
    captions = {name: caption for name, (_, caption) in drawn.items()}
    blocks = itertools.chain(
        _summary(title, found),
        _certificates(found.certificates, pages),
        _growth(histories, captions),
        _ledgers(found.ledgers),
        _books(found.accounts, captions),
        _broken(found.broken),
        _left_out(found.left_out),
        _what_if(),
        [] if chart.can_draw() else [Paragraph(chart.NOT_DRAWN)],
    )
    return html_page(list(blocks), pictures)


def _summary(title: str, found: Sources) -> Iterator[Block]:
    yield Heading(f"Privacy of {printable(title)}")
    read = list(found.certificates.values())
    if read:
        proved = sum(one.certificate.all_proved for one in read)
        refuted = sum(one.certificate.experiment is Experiment.REFUTED for one in read)
        unjudged = sum(one.certificate.experiment is Experiment.INCONCLUSIVE for one in read)
        again = sum(one.computed is not None for one in read)
        of = f"of {counted(len(read), 'certificate', 'certificates')}"
        badges: list[tuple[str, str, Tone]] = [
            (f"Proved, {of}", f"{proved}", "good" if proved == len(read) else "bad"),
            (f"Refuted by an experiment, {of}", *_experiments(refuted, unjudged)),
            (f"Figures computed again, {of}", f"{again}", "good" if again == len(read) else "unclear"),
        ]
        yield Badges(badges)
    counts = [
        (len(found.ledgers), "ledger without a certificate", "ledgers without a certificate"),
        (len(found.accounts), "budget", "budgets"),
        (len(found.broken), "file that cannot be read", "files that cannot be read"),
    ]
    others = [counted(*count) for count in counts if count[0]]
    if others:
        yield Paragraph(f"{'Besides' if read else 'Found'}: {', '.join(others)}.")


def _experiments(refuted: int, unjudged: int) -> tuple[str, Tone]:
    """How many certificates were refuted, and how many no experiment judged."""
    words = f"{refuted}; {unjudged} not judged" if unjudged else f"{refuted}"
    return words, "bad" if refuted else "unclear" if unjudged else "good"


def _certificates(read: Mapping[str, Read], pages: Mapping[str, str]) -> Iterator[Block]:
    if not read:
        return
    yield Heading("Certificates")
    rows = [_certificate(name, one, pages.get(name)) for name, one in read.items()]
    columns = ("certificate", "algorithm", "claim", "proved", "proof", "experiment", "may be published")
    yield from _grid(columns, rows, numbers=())
    yield Paragraph(
        "Proof and experiment are separate: an experiment can refute a claim, and never proves one. "
        "Figures were computed again from the ledger beside each certificate, unless it says stated."
    )


def _certificate(name: str, read: Read, address: str | None) -> list[str]:
    certificate, computed = read.certificate, read.computed
    shown = printable(name)
    own = approximate(certificate, computed or ())
    proved = "none" if own is None else bound_figure(own)
    if certificate.experiment is Experiment.REFUTED:
        proved = "not to be relied on"
    elif computed is None:
        proved = f"stated: {bound_figure(certificate.bounds[0]) if certificate.bounds else 'none'}"
    proof = Proof.PROVED if certificate.all_proved else Proof.NOT_PROVED
    return [
        shown if address is None else Linked(shown, address),
        printable(certificate.algorithm),
        figure(certificate.claim.guarantee),
        proved,
        spaced(proof),
        spaced(certificate.experiment),
        publishing(certificate, computed)[0],
    ]


def _growth(histories: Mapping[str, History], captions: Mapping[str, str]) -> Iterator[Block]:
    if not histories:
        return
    yield Heading("Growth over commits")
    for name, history in histories.items():
        picture = f"growth of {name}"
        if picture in captions:
            yield Picture(picture, captions[picture])
        rows = [
            [
                version.commit or "not committed",
                version.day,
                figure(version.claimed),
                "none" if version.proved is None else figure(version.proved, proved=True),
                spaced(version.verdict),
                "ledger" if version.again else "stated",
            ]
            for version in history.versions
        ]
        columns = ("commit", "day", "claimed", "proved", "proof", "from")
        if picture not in captions:
            yield Paragraph(f"{printable(name)}:")
        yield from _grid(columns, rows, numbers=("claimed", "proved"))


def _growth_picture(name: str, history: History) -> Drawn:
    rows: list[dict[str, Any]] = []
    for place, version in enumerate(history.versions):
        found = {"proved": version.proved, "claimed": version.claimed}
        rows += [
            {"place": place, "figure": leading_figure(one), "name": kind}
            for kind, one in found.items()
            if one is not None
        ]
    last, words = len(history.versions) - 1, [version.commit or "now" for version in history.versions]
    labels = f"{json.dumps(words)}[datum.value]"  # a string in Vega's expressions is one of JSON
    ticks = {"values": list(range(last + 1)), "labelExpr": labels, "labelAngle": -40, "labelOverlap": True}
    x = axis("place", None, {"domain": [-0.2, last + 0.2], "nice": False}, **ticks)
    most = max(row["figure"] for row in rows)
    y = axis("figure", history.scale, {"domain": [0, 1.12 * most or 1.0]})
    names, tones, dashes = ("proved", "claimed"), (chart.GOOD, chart.BAD), ([1, 0], chart.BAD_DASH)
    by = {"x": x, "y": y, "color": colour(names, colours=tones), "strokeDash": by_name(names, dashes)}
    proved = [row for row in rows if row["name"] == "proved"]
    layers = [
        marks(rows, "line", by, interpolate="step-after"),
        marks(proved, "point", {"x": x, "y": y}, color=chart.GOOD, filled=True, size=45),
    ]
    left_out = history.left_out
    more = "; " + counted(left_out, "version is", "versions are") + " left out" if left_out else ""
    return {"layer": layers, "width": chart.WIDTH, "height": 200}, (
        f"{printable(name)}: claimed and proved after each commit that changed it{more}."
    )


def _ledgers(verified: Mapping[str, Verified]) -> Iterator[Block]:
    if not verified:
        return
    yield Heading("Ledgers without a certificate")
    rows = []
    for name, one in verified.items():
        accounting = one.accounting
        claim, bounds = accounting.claim, accounting.bounds
        empty = accounting.overview.total == 0
        verdict = "no releases" if empty else spaced(accounting.verdict or "nothing claimed")
        rows.append(
            [
                printable(name),
                printable(one.ledger.header.algorithm),
                f"{accounting.overview.total}",
                "" if claim is None else figure(claim.guarantee),
                bound_figure(bounds[0]) if bounds else "none",
                verdict,
                "no" if one.not_certifiable else "yes",
            ]
        )
    columns = ("ledger", "algorithm", "releases", "claim", "at most", "proof", "certifiable")
    yield from _grid(columns, rows, numbers=("releases",))


def _books(accounts: Sequence[tuple[str, Account]], captions: Mapping[str, str]) -> Iterator[Block]:
    if not accounts:
        return
    yield Heading("Budgets")
    if "balances" in captions:
        yield Picture("balances", captions["balances"])
    rows = []
    for _, account in accounts:
        about = [printable(account.dataset), printable(account.unit)]
        scales = account_rows(account, _DELTAS)
        rows += [[*(about if place == 0 else ("", "")), *row] for place, row in enumerate(scales)]
    columns = ("data set", "unit", "scale", "budget", "spent", "with reserved", "left for one run")
    yield from _grid(columns, rows, numbers=columns[3:])


def _balances_picture(accounts: Sequence[Account]) -> Drawn:
    names, rows = ("spent", "reserved", "left"), []
    shown = accounts[:MOST_BARS]
    for place, account in enumerate(shown):
        budget, spent, committed = map(amount, (account.budget, account.spent, account.committed))
        whole = max(budget, committed) or 1
        ends = [float(end / whole) for end in (0 * whole, spent, committed, whole)]
        parts = zip(names, itertools.pairwise(ends), strict=True)
        rows += [{"account": place, "name": name, "from": low, "to": high} for name, (low, high) in parts]
    labels = json.dumps([short(account.dataset) for account in shown])
    how = {"labelExpr": f"{labels}[datum.value]", "ticks": False, "domain": False}
    y = {"field": "account", "type": "ordinal", "sort": None, "title": None, "axis": how}
    x = axis("from", "share of the budget", {"domain": [0, 1]}, format="%", tickCount=5)
    tones = (chart.GOOD, chart.COLOURS[4], chart.AXIS)
    bars = {"x": x, "x2": {"field": "to"}, "y": y, "color": colour(names, colours=tones)}
    layers = [marks(rows, "bar", bars, height={"band": 0.7})]
    more = f" The first {len(shown)} of {len(accounts)} are drawn." if len(shown) < len(accounts) else ""
    return {"layer": layers, "width": chart.WIDTH - 120, "height": max(60, 30 * len(shown))}, (
        f"Spent, reserved and remaining share of each data set's budget; for mu, shares of mu squared.{more}"
    )


def _broken(broken: Mapping[str, DpauditError]) -> Iterator[Block]:
    if not broken:
        return
    yield Heading("Not read")
    meant = {name: (type(error).__doc__ or "").split("\n")[0] for name, error in broken.items()}
    rows = [[printable(name), error.code, meant[name]] for name, error in broken.items()]
    yield from _grid(("file", "error", "what it means"), rows, numbers=())
    yield Paragraph("`dpaudit verify` or `dpaudit report` on the file gives details.")


def _left_out(names: Sequence[str]) -> Iterator[Block]:
    if names:
        yield Paragraph(f"Left out: {names_of(names)}: nothing in them shows that dpaudit wrote them.")


def names_of(names: Sequence[str]) -> str:
    """The first of these names of files, and how many more there are."""
    more = f", and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(map(printable, sorted(names)[:MOST_NAMED])) + more


def _what_if() -> Iterator[Block]:
    yield Heading("What if")
    yield Picture(
        "what if",
        "Gaussian noise on sums of Poisson samples, sensitivity 1, one unit added or left out, all steps "
        "together. An upper bound by Renyi divergences of whole orders; the command finds a tighter one.",
    )


def _grid(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str]) -> Iterator[Block]:
    yield Grid(columns, rows[:MOST_ROWS], numbers)
    if len(rows) > MOST_ROWS:
        yield Paragraph(f"... and {len(rows) - MOST_ROWS} more.")
