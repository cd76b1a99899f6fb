"""Write docs/proving/mechanisms.md, every mechanism with its obligation: `python docs/programs/make_mechanisms.py`."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

sys.path.insert(0, str(Path(__file__).parents[2]))

from wrapping import wrapped

from dpaudit.accountants.accounting import bounds
from dpaudit.accountants.composition.composition import compose
from dpaudit.accountants.composition.costs import mu_squared, pure_epsilon, rho
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.errors import CannotBound
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import AnyMechanism
from tests.mechanisms.examples import EXAMPLES, example

DELTA = 1e-6


HEAD = f"""\
# Mechanisms

A mechanism is a frozen record: parameters, how it samples, its log density for the audits, and a **proof
obligation**: the theorem that its cost rests on, and what that theorem requires of the query. How mechanisms
compose is the subject of the [accountants](accountants.md). The algorithm has to meet the obligation. Where the
curator clips, it is met by construction; where a sensitivity is `declared`, it is taken on trust and listed under
*Not checked*, and replay looks for a pair that breaks it.

Some figures rest on a trusted party: one that draws a sample and keeps it secret, shuffles answers, or counts
the units of a key. *Trust* names the trust models under which somebody is that party; a ledger under another
one is [refused](../errors.md#dpa405-trustmismatch), whether it is run, written by hand or read.

## What one release costs

Each mechanism has sensitivity 1 and the parameters shown under its name below; `none` means that there is no
finite bound on that scale. The last columns are the tightest bound of all accountants and its method. Figures are
upper bounds, rounded upwards to four digits.

| mechanism | epsilon | rho | mu | epsilon at delta {DELTA:g} | by |
|---|---|---|---|---|---|
"""


FOOT = """
This page is made by `python docs/programs/make_mechanisms.py` from the classes' own docstrings; a test holds it complete and
up to date.
"""


def _up(figure: float) -> str:
    """Four significant digits, never below the figure."""
    text = f"{figure:.4g}"
    # The tolerance is the roundings of the platform, so that the page is the same everywhere.
    return text if float(text) >= figure * (1 - 1e-9) else f"{figure + 0.5 * 10 ** _last_place(figure):.4g}"


def _last_place(figure: float) -> int:
    """The exponent of the fourth significant digit."""
    return int(f"{figure:.3e}".partition("e")[2]) - 3


def _cost(cost: Callable[[AnyMechanism], float], mechanism: AnyMechanism) -> str:
    try:
        return _up(cost(mechanism))
    except CannotBound:
        return "none"


def _row(kind: str) -> str:
    mechanism = example(kind)
    composition = compose([Release(label="example", mechanism=mechanism)], Neighbouring.ADD_OR_REMOVE_ONE)
    try:
        best = bounds(composition, ApproxDP(epsilon=0.0, delta=DELTA))[0]
        tightest = f"{_up(best.guarantee.epsilon)} | `{best.method}`"  # type: ignore[union-attr]
    except CannotBound:
        tightest = "none | "
    scales = (pure_epsilon, rho, lambda m: mu_squared(m) ** 0.5)
    cells = " | ".join(_cost(scale, mechanism) for scale in scales)
    return f"| [`{kind}`](#{kind}) | {cells} | {tightest} |\n"


def _words(text: str) -> str:
    """A docstring in Markdown: code in single quotes."""
    return re.sub(r"``(.+?)``", r"`\1`", text)


def _section(kind: str, mechanism: type[Any]) -> Iterator[str]:
    words = _words((inspect.getdoc(mechanism) or "").partition("\nAttributes:")[0])
    yield f"\n## {kind}\n\n"
    first, _, obligation = words.partition("Obligation: ")
    yield f"{first}**Obligation.** {obligation[:1].upper()}{obligation[1:]}\n\n"
    admitted = ", ".join(trust for trust in TrustModel if example(kind).lacks(trust) is None)
    names = [name for name in mechanism.model_fields if name != "kind"]
    yield f"- Class: `dpaudit.mechanisms.{mechanism.__name__}({', '.join(names)})`\n"
    norms = getattr(mechanism, "norms", ())
    if norms:
        yield f"- Sensitivity in: {', '.join(f'`{norm}`' for norm in norms)}\n"
    yield f"- Trust: {admitted}\n"
    if mechanism.released_by is None:
        yield "- Drawn by: nobody here; it is for ledgers of runs elsewhere\n"
    elif mechanism.released_by == "release_opaque":
        yield "- Drawn by: the algorithm itself; its distribution is not tested\n"
    elif mechanism.drawn_exactly:
        yield "- Drawn by: an [exact sampler](noise.md), from fair bits; in seeded runs by numpy\n"
    else:
        yield "- Drawn by: numpy, in floating point, whose grid can reveal more (Mironov 2012)\n"
    yield f"- Example: {', '.join(_parameters(EXAMPLES[kind]))}\n"


def _parameters(record: dict[str, Any]) -> Iterator[str]:
    for name, value in record.items():
        if isinstance(value, dict) and "kind" in value:
            inner = ", ".join(_parameters({n: v for n, v in value.items() if n != "kind"}))
            yield f"{name} {value['kind']} ({inner})"
        elif not isinstance(value, dict) and name != "justification":
            yield f"{name} {value}"


def mechanisms_page() -> str:
    """The page, from the closed union."""
    kinds = {mechanism.model_fields["kind"].default: mechanism for mechanism in get_args(AnyMechanism)}
    rows = "".join(_row(kind) for kind in kinds)
    sections = "".join(part for kind in kinds.items() for part in _section(*kind))
    return wrapped(HEAD + rows + sections + FOOT)


if __name__ == "__main__":
    (Path(__file__).parents[1] / "proving" / "mechanisms.md").write_text(mechanisms_page(), encoding="utf-8")
