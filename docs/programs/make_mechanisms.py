"""Write docs/proving/mechanisms.md, every mechanism with its obligation: `python docs/programs/make_mechanisms.py`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter
from wrapping import wrapped

from dpaudit.accountants.accounting import bounds
from dpaudit.accountants.composition.composition import compose
from dpaudit.accountants.composition.costs import mu_squared, pure_epsilon, rho
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import AnyMechanism

DELTA = 1e-6


def _of(norm: str) -> dict[str, Any]:
    return {"value": 1.0, "norm": norm, "basis": "clipped"}


_WHY = "the manual, Theorem 3"

#: One release of each kind, for the table of costs; a kind without one is an error.
EXAMPLES: dict[str, dict[str, Any]] = {
    "gaussian": {"sigma": 2.0, "sensitivity": _of("l2")},
    "laplace": {"scale": 2.0, "sensitivity": _of("l1")},
    "discrete-gaussian": {"sigma": 2.0, "sensitivity": _of("l2")},
    "discrete-laplace": {"scale": 2.0, "sensitivity": _of("l1")},
    "symmetric-gaussian": {"sigma": 2.0, "dimension": 3, "sensitivity": _of("frobenius")},
    "tree-aggregation": {"sigma": 2.0, "steps": 100, "sensitivity": _of("l2")},
    "matrix": {
        "sigma": 2.0,
        "steps": 100,
        "strategy": {"kind": "toeplitz", "coefficients": [1.0, 0.5, 0.375, 0.3125]},
        "participations": 4,
        "separation": 25,
        "sensitivity": _of("l2"),
    },
    "gaussian-process": {
        "sigma": 2.0,
        "kernel": {"kind": "exponential", "beta": 3.0},
        "sensitivity": _of("rkhs"),
    },
    "randomized-response": {"epsilon": 0.5, "categories": 2},
    "exponential": {"epsilon": 0.5},
    "report-noisy-max": {"epsilon": 0.5, "noise_law": "exponential"},
    "sparse-vector": {"epsilon": 0.5, "sensitivity": _of("l1"), "answers": 2, "monotone": False},
    "private-selection": {
        "releases": [{"mechanism": {"kind": "laplace", "scale": 2.0, "sensitivity": _of("l1")}, "count": 1}],
        "repetitions": {"kind": "negative-binomial", "eta": 1.0, "gamma": 0.1},
    },
    "key-selection": {"method": "optimal", "epsilon": 1.0, "delta": 1e-6, "changes": 1},
    "shuffled": {
        "local": {"kind": "randomized-response", "epsilon": 1.0, "categories": 2},
        "users": 10000,
    },
    "gaussian-sparse-vector": {
        "sigma": 10.0,
        "sensitivity": _of("l2"),
        "answers": 2,
        "steps": 100,
        "monotone": False,
    },
    "smooth-gaussian": {"alpha": 12.0, "beta": 0.05, "dimension": 2, "epsilon": 1.0, "delta": 0.1},
    "poisson-sampled": {
        "rate": 0.01,
        "mechanism": {"kind": "laplace", "scale": 2.0, "sensitivity": _of("l1")},
    },
    "sampled-matrix": {
        "rate": 0.01,
        "mechanism": {
            "kind": "matrix",
            "sigma": 2.0,
            "steps": 100,
            "strategy": {"kind": "toeplitz", "coefficients": [1.0, 0.5, 0.375, 0.3125]},
            "separation": 25,
            "sensitivity": _of("l2"),
        },
    },
    "mixture-of-gaussians": {
        "sigma": 2.0,
        "sensitivities": [0.0, 1.0, 2.0],
        "probabilities": [0.9, 0.07, 0.03],
    },
    "sampled-records": {
        "rate": 0.01,
        "records": 3,
        "mechanism": {"kind": "gaussian", "sigma": 2.0, "sensitivity": _of("l2")},
    },
    "random-allocation": {
        "steps": 100,
        "mechanism": {"kind": "gaussian", "sigma": 2.0, "sensitivity": _of("l2")},
    },
    "fixed-size-sampled": {
        "size": 10,
        "units": 1000,
        "mechanism": {"kind": "gaussian", "sigma": 2.0, "sensitivity": _of("l2")},
    },
    "truncated-poisson-sampled": {
        "rate": 0.01,
        "most": 30,
        "units": 1000,
        "mechanism": {"kind": "gaussian", "sigma": 2.0, "sensitivity": _of("l2")},
    },
    "pure-dp": {"epsilon": 0.5, "justification": _WHY},
    "approx-dp": {"epsilon": 0.5, "delta": 1e-7, "justification": _WHY},
    "zcdp": {"rho": 0.125, "justification": _WHY},
    "tabulated": {
        "losses": [-0.5, 0.5],
        "probabilities": [0.375, 0.625],
        "infinity": 0.0,
        "justification": _WHY,
    },
}

HEAD = f"""\
# Mechanisms

A mechanism is a frozen record: parameters, how it samples, its log density for the audits, and a **proof
obligation**: the theorem that its cost rests on, and what that theorem requires of the query. How mechanisms
compose is the subject of the [accountants](accountants.md). The algorithm has to meet the obligation. Where the
curator clips, it is met by construction; where a sensitivity is `declared`, it is taken on trust and listed under
*Not checked*, and replay looks for a pair that breaks it.

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


def example(kind: str) -> AnyMechanism:
    """The example of a kind, as a mechanism."""
    mechanism: AnyMechanism = TypeAdapter(AnyMechanism).validate_python({"kind": kind, **EXAMPLES[kind]})
    return mechanism


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
    names = [name for name in mechanism.model_fields if name != "kind"]
    yield f"- Class: `dpaudit.mechanisms.{mechanism.__name__}({', '.join(names)})`\n"
    norms = getattr(mechanism, "norms", ())
    if norms:
        yield f"- Sensitivity in: {', '.join(f'`{norm}`' for norm in norms)}\n"
    if mechanism.released_by is None:
        yield "- Drawn by: nobody here; it is for ledgers of what runs elsewhere\n"
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
