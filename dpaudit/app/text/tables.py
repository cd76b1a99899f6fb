"""An accounting, an audit and a ledger as text."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from dpaudit.app.text.output import MOST_ROWS, bullets, line, table, upper
from dpaudit.certificate.verdicts import Accounting, Proof, ReleaseAccount, ReleaseGroup, leading_figure
from dpaudit.claims.bounds import Bound
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import RDP, AnyGuarantee, ApproxDP, PureDP, figures
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import AnyMechanism

_STEP = re.compile(r"(_| on \D*)([0-9]+)\b")  # the number of a step, in a label or in a sample's name
_REPEATED = 3


def accounting_table(accounting: Accounting) -> list[RenderableType]:
    """Every release with its mechanism, sensitivity, claimed and computed cost; and the total.

    Steps whose labels differ in a number alone, and nothing else in any column, share a row; of very many
    releases, all whose labels differ so. Those of many that fail have rows of their own.
    """
    overview, notes = accounting.overview, []
    if overview.total <= MOST_ROWS:
        rows = _repeated_once([_account_row(release) for release in accounting.releases])
    else:
        groups = overview.groups[:MOST_ROWS]
        failing = not_proved(accounting)[:MOST_ROWS]
        # A failing release that is alone in its group has its row already.
        alone = {group.costliest.label for group in groups if group.number == 1}
        rows = [_group_row(group) for group in groups]
        rows += [_account_row(release) for release in failing if release.label not in alone]
        others = overview.total - sum(group.number for group in groups)
        if others:
            notes.append(f"... and {others} more releases")
        notes.append(
            f"{overview.total} releases; where labels differ only in a number, a row shows the cost of the "
            f"costliest one, and --output-format json lists them one by one"
        )
    if accounting.claim is not None:
        best = bound_figure(accounting.bounds[0]) if accounting.bounds else "none known"
        rows.append(["total", "", "", figure(accounting.claim.guarantee), best, accounting.verdict])
    elif accounting.bounds:
        rows.append(["total", "", "", "", bound_figure(accounting.bounds[0]), ""])
    columns = ("release", "mechanism", "sensitivity", "claimed", "computed", "verdict")
    return [
        table(columns, rows, whole=("claimed", "computed", "verdict"), spare=("sensitivity", "mechanism")),
        *map(line, notes),
    ]


def _repeated_once(rows: list[list[object]]) -> list[list[object]]:
    """The rows, but where three or more differ only in one step's number: once, with range and count."""
    steps: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for at, (label, *rest) in enumerate(rows):
        found = {number for _, number in _STEP.findall(str(label))}
        if len(found) == 1:
            pattern = _STEP.sub(r"\1#", str(label))
            steps.setdefault((pattern, *map(str, rest)), []).append((at, int(found.pop())))
    shown = dict(enumerate(rows))
    for places in steps.values():
        numbers = sorted(number for _, number in places)
        if len(places) >= _REPEATED and numbers == list(range(numbers[0], numbers[-1] + 1)):
            first, *others = [at for at, _ in places]
            label = _STEP.sub(rf"\g<1>{numbers[0]}..{numbers[-1]}", str(rows[first][0]))
            shown[first] = [f"{label} ({len(numbers)})", *rows[first][1:]]
            for at in others:
                del shown[at]
    return list(shown.values())


def bound_words(accounting: Accounting) -> list[str]:
    """Each bound on the total, tightest first."""
    words = [f"{bound_figure(bound)} by {bound.method} ({bound.rigour})" for bound in accounting.bounds]
    return words or ["no accountant has a finite bound on the claim's scale"]


def not_proved(accounting: Accounting) -> list[ReleaseAccount]:
    """The releases whose own claim is not proved, as far as they are shown."""
    return [release for release in accounting.releases if release.verdict is Proof.NOT_PROVED]


def _group_row(group: ReleaseGroup) -> list[object]:
    """Releases that differ in a number: how many, their kind, and the costliest one's figure."""
    if group.number == 1:
        return _account_row(group.costliest)
    verdict = None
    if group.claimed:
        verdict = Proof.NOT_PROVED if group.failed else Proof.PROVED
    most = f"<= {figure(group.costliest.proved, proved=True)}"
    return [f"{group.pattern} ({group.number})", group.costliest.mechanism.kind, "", "", most, verdict]


def _account_row(release: ReleaseAccount) -> list[object]:
    *stated, _, claimed = release_rows([release])[0]
    return [*stated, claimed, figure(release.proved, proved=True), release.verdict]


def shortfalls(accounting: Accounting) -> list[RenderableType]:
    """For each claim that is not proved: claimed, computed and their ratio; then the premises that fail."""
    named = Counter(
        f"release {release.label!r}: {shortfall(release.proved, release.claimed)}"
        for release in not_proved(accounting)[:MOST_ROWS]
        if release.claimed is not None
    )
    lines = [f"{words} ({alike} releases)" if alike > 1 else words for words, alike in named.items()]
    if accounting.overview.failed > named.total():
        lines.append(f"and {accounting.overview.failed - named.total()} more releases")
    if lines and accounting.verdict is Proof.PROVED:
        lines.append("the total is proved, but a release's own claim is not, so the command fails")
    return bullets("Not proved", [*lines, *total_shortfall(accounting)])


def total_shortfall(accounting: Accounting) -> list[str]:
    """Return why the total claim is not proved; empty if it is proved or nothing is claimed."""
    claim = accounting.claim
    if claim is None or accounting.verdict is not Proof.NOT_PROVED:
        return []
    words = f"claimed {claim.guarantee}; no accountant has a finite bound on that scale"
    if isinstance(claim.guarantee, PureDP):
        words += ": add --delta to claim (epsilon, delta)-DP"
    if accounting.bounds:
        words = shortfall(accounting.bounds[0].guarantee, claim.guarantee)
    return [f"total: {words}"]


def premises(claim: Claim | None) -> list[RenderableType]:
    """The premises of a claim, each with whether it holds."""
    stated = () if claim is None else claim.premises
    sources = [f"  ({premise.source})" if premise.source else "" for premise in stated]
    verdicts = ["holds" if premise.holds else "FAILS" for premise in stated]
    found = zip(verdicts, stated, sources, strict=True)
    return bullets("Premises", [f"{verdict}  {premise}{source}" for verdict, premise, source in found])


def shortfall(proved: AnyGuarantee, claimed: AnyGuarantee) -> str:
    """Return the claimed and the computed figure, and their ratio."""
    if proved.kind != claimed.kind:
        return f"claimed {claimed}; computed {figure(proved, proved=True)}, which does not imply it"
    computed, stated = leading_figure(proved), leading_figure(claimed)
    if computed <= stated:  # the total meets its figure, and another part of the claim fails
        return f"claimed {claimed}, computed {computed!r}"
    ratio = f"{upper(computed / stated)} times the claim" if stated > 0 else "the claim is 0"
    return f"claimed {stated!r}, computed {computed!r}: {ratio}"


def release_rows(releases: Sequence[Release]) -> list[list[object]]:
    """Return a ledger's releases as recorded, without computed figures."""
    return [
        [
            release_words(release),
            mechanism_words(release.mechanism),
            sensitivity_words(release.mechanism),
            "" if release.partition is None else f"{release.partition.split}/{release.partition.part}",
            "" if release.claimed is None else figure(release.claimed),
        ]
        for release in releases
    ]


def mechanism_words(mechanism: AnyMechanism) -> str:
    """Return a mechanism's kind and parameters; for a table of losses only its length."""
    return _words(mechanism.to_json())


def _words(fields: Mapping[str, Any]) -> str:
    words = [str(fields["kind"])]
    for name, value in fields.items():
        if name in {"kind", "sensitivity", "justification"}:
            continue
        if isinstance(value, Mapping):
            words.append(f"{name}=({_words(value)})")
        elif isinstance(value, list):
            words.append(f"{name}=[{len(value)}]")
        else:
            words.append(f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}")
    return " ".join(words)


def sensitivity_words(mechanism: AnyMechanism) -> str:
    """Sensitivity, norm, and its basis: clipped, proved, declared."""
    sensitivity = mechanism.declared_sensitivity
    return "" if sensitivity is None else f"{sensitivity.value:.6g} {sensitivity.norm} {sensitivity.basis}"


def release_words(release: Release) -> str:
    """Return a release's label, its number of runs, and its named sample."""
    name = times(release.label, release.count)
    return name if release.sample is None else f"{name} on {release.sample}"


def place_words(release: Release) -> str:
    """The part of a split and the sample that a release is made on."""
    part = release.partition
    words = [] if part is None else [f"part {part.part} of {part.split}"]
    return ", ".join(words if release.sample is None else [*words, f"sample {release.sample}"])


def times(label: str, count: int) -> str:
    """Return a label and the release's number of runs."""
    return label if count == 1 else f"{label} x{count}"


def bound_figure(bound: Bound) -> str:
    """An upper bound's figure, rounded up."""
    return figure(bound.guarantee, proved=True)


def figure(guarantee: AnyGuarantee, *, proved: bool = False) -> str:
    """A guarantee in a table's cell; proved ones rounded up."""
    number = leading_figure(guarantee)
    shown = upper(number) if proved else f"{number:.6g}"
    if isinstance(guarantee, ApproxDP):
        return f"({shown}, {guarantee.delta:g})"
    if isinstance(guarantee, RDP):
        return f"({guarantee.alpha:g}, {shown})-RDP"
    return f"{next(iter(figures(guarantee)))} {shown}"
