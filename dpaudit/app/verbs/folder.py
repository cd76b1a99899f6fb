"""`dpaudit verify` on a folder: one answer about all ledgers in it."""

from pathlib import Path
from typing import Any

from rich.console import RenderableType

from dpaudit.app.options.claim_options import StatedClaim
from dpaudit.app.text.failures import EXIT_INCONCLUSIVE, EXIT_INTERRUPTED, EXIT_NOT_PROVED, EXIT_NOTHING
from dpaudit.app.text.output import bullets, counted, line, print_json, print_text, table, unwrapped, upper
from dpaudit.app.text.streams import note
from dpaudit.errors import UsageError
from dpaudit.pipeline.many import EDGES, SUFFIX, UNFINISHED, Judge, Summary, ledgers_in, verify_folder
from dpaudit.progress import Work


def verify_in(
    folder: Path,
    stated: StatedClaim,
    cluster: str | None,
    judge: Judge,
    *,
    exit_zero: bool,
    strict: bool,
    output_format: str,
) -> int:
    """Verify all ledgers in a folder, print what is known of them together, and return the exit code."""
    number = sum(1 for name in ledgers_in(folder) if name.endswith(SUFFIX))
    if number == 0:
        what, why = f"no file *{SUFFIX} in this folder or in those inside it", "there is nothing to verify"
        raise UsageError(what, where=str(folder), why=why, remedy="name the folder that runs write to")
    with Work("ledgers", number, lasting=True) as progress:
        summary, whole = verify_folder(folder, stated.claim, cluster=cluster, progress=progress, judge=judge)
    if output_format == "json":
        print_json(_answer(folder, summary, whole=whole))
    else:
        print_text(*_text(folder, summary))
    if summary.unfinished:
        runs = counted(summary.unfinished, "run has", "runs have")
        note(f"{runs} no finished ledger in {folder} (*{UNFINISHED}): not accounted for")
    if not whole:
        note(f"interrupted: {summary.ledgers} of {number} ledgers")
        return EXIT_INTERRUPTED
    if summary.not_proved + summary.broken:
        return 0 if exit_zero and not summary.broken else EXIT_NOT_PROVED
    if not summary.proved:
        note(f"nothing to check in {folder}: no claim, in total or for any release")
    if exit_zero:
        return 0
    if not summary.proved or summary.nothing_claimed:
        return EXIT_NOTHING
    return EXIT_INCONCLUSIVE if strict and summary.not_certifiable else 0


def _between(number: int) -> tuple[float, float | None]:
    return EDGES[number], EDGES[number + 1] if number + 1 < len(EDGES) else None


def _answer(folder: Path, found: Summary, *, whole: bool) -> dict[str, Any]:
    names = ("ledgers", "releases", "proved", "not_proved", "nothing_claimed", "broken", "not_certifiable")
    return {
        "folder": str(folder),
        "interrupted": not whole,
        **{name: getattr(found, name) for name in (*names, "without_bound", "unfinished")},
        "totals": [
            {
                "scale": scale,
                "histogram": [
                    {**dict(zip(("from", "below"), _between(i), strict=True)), "ledgers": bins[i]}
                    for i in sorted(bins)
                ],
                "worst": [{"ledger": name, "figure": figure} for figure, name in found.worst[scale]],
            }
            for scale, bins in sorted(found.bins.items())
        ],
        "first_not_proved": found.failing,
        "first_broken": [{"ledger": name, "error": error} for name, error in found.errors],
    }


def _text(folder: Path, found: Summary) -> list[RenderableType]:
    parts: list[RenderableType] = [
        unwrapped(str(folder)),
        line(
            f"{counted(found.ledgers, 'ledger', 'ledgers')},", counted(found.releases, "release", "releases")
        ),
        line(),
    ]
    counts = ("proved", "not_proved", "nothing_claimed", "broken", "without_bound", "not_certifiable")
    shown = [name for name in counts if getattr(found, name) or name in {"proved", "not_proved", "broken"}]
    rows = [[name.replace("_", " "), f"{getattr(found, name)}"] for name in shown]
    parts.append(table(("ledgers", "number"), rows))
    for scale, bins in sorted(found.bins.items()):
        most = max(bins.values())
        rows = []
        for i in range(min(bins), max(bins) + 1):
            least, below = _between(i)
            words = f"{least:g} to {below:g}" if below is not None else f"from {least:g}"
            rows.append([words, f"{bins[i]}", "#" * -(-30 * bins[i] // most)])
        worst = [line(f"{upper(figure)}  {name}") for figure, name in found.worst[scale]]
        histogram = table((scale, "ledgers", ""), rows, spare=("",))
        parts += [line(), histogram, line(), *bullets(f"Worst {scale}", worst)]
    if found.failing:
        parts += bullets(_first("Not proved", len(found.failing), found.not_proved), map(line, found.failing))
    if found.errors:
        broken = [line(f"{name}: {error}") for name, error in found.errors]
        parts += bullets(_first("Broken", len(broken), found.broken), broken)
    return parts


def _first(words: str, shown: int, all_of_them: int) -> str:
    return words if shown == all_of_them else f"{words}, the first {shown} of {all_of_them}"
