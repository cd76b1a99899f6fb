"""Write the conformance suite of ledgers, docs/spec/conformance: `python docs/programs/make_conformance.py`.

The program uses Python's standard library alone and nothing of dpaudit: it writes canonical JSON and hashes by
the text of docs/spec/ledger.md, and each case states its own answer, with figures in closed form.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

Record = dict[str, Any]
Text = list[str] | bytes
Broken = list[tuple[str, Text, int, str]]

HEADER: Record = {
    "record": "header",
    "schema": "dpaudit.ledger/1",
    "algorithm": "example",
    "unit": "person",
    "neighbouring": "add-or-remove-one",
    "trust_model": "central",
    "schedule": "fixed",
    "parameters": {},
    "noise": {"source": "live", "sampler": "dpaudit-exact", "seeded": False},
}
L1: Record = {"value": 1, "norm": "l1", "basis": "proved"}
L2: Record = {"value": 1, "norm": "l2", "basis": "proved"}
GAUSSIAN: Record = {"kind": "gaussian", "sigma": 2, "sensitivity": L2}
LAPLACE: Record = {"kind": "laplace", "scale": 2, "sensitivity": L1}
RESPONSE: Record = {"kind": "randomized-response", "epsilon": 1, "categories": 2}
SAMPLED: Record = {"kind": "poisson-sampled", "rate": 0.01, "mechanism": GAUSSIAN}
TOEPLITZ: Record = {"kind": "toeplitz", "coefficients": [1, 0.5]}
MATRIX: Record = {"kind": "matrix", "sigma": 2, "steps": 4, "strategy": TOEPLITZ, "sensitivity": L2}
OPAQUE: Record = {"kind": "pure-dp", "epsilon": 0.5, "justification": "shown in the paper's theorem 1"}
ZCDP: Record = {"kind": "zcdp", "rho": 0.125, "justification": "shown in the paper's theorem 2"}


def number(value: float) -> str:
    """A number as canonical JSON (RFC 8785) writes it, for those whose digits Python and ECMAScript share."""
    if isinstance(value, int):
        return str(value)
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa
    power = int(exponent)
    if -7 < power < 0:
        return f"{value:.{len(mantissa.replace('.', '').lstrip('-')) - 1 - power}f}"
    return f"{mantissa.removesuffix('.0')}e{'-' if power < 0 else '+'}{abs(power)}"


def canonical(value: Any) -> str:
    """Canonical JSON: keys in the order of their UTF-16 code units, no spaces, the shortest digits."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16be"))
        return "{" + ",".join(f"{canonical(name)}:{canonical(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if value is None or isinstance(value, bool) else number(value)


def release(mechanism: Record, label: str = "sum", **fields: Any) -> Record:
    """A release's record."""
    return {"record": "release", "label": label, "mechanism": mechanism, "count": 1, **fields}


def header(**fields: Any) -> Record:
    """A header with some fields changed; a field of None is left out."""
    return {name: value for name, value in {**HEADER, **fields}.items() if value is not None}


def lines(*records: Record, footer: bool = True) -> list[str]:
    """The file's lines, each with its hash, and a footer that counts the releases."""
    whole = list(records)
    if footer:
        whole.append({"record": "footer", "releases": len(records) - 1})
    previous, written = "", []
    for record in whole:
        text = canonical(record)
        previous = hashlib.sha256((previous + text).encode()).hexdigest()
        written.append(f'{text[:-1]},"hash":"{previous}"}}\n')
    return written


def ledger(*mechanisms: Record, **fields: Any) -> list[str]:
    """The lines of a ledger with one release a mechanism."""
    return lines(header(**fields), *(release(one, f"sum {i}") for i, one in enumerate(mechanisms)))


class Suite:
    """The files of the suite and the answer of each."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.expected: list[Record] = []

    def valid(self, name: str, text: Text, why: str, **figures: float) -> None:
        """Add a ledger that every reader accepts; `figures` are its totals under their scales' names."""
        self._add(name, text, {"answer": "valid", "why": why, **({"totals": figures} if figures else {})})

    def loose(self, name: str, text: Text, why: str) -> None:
        """Add a ledger that is not written canonically: a lenient reader accepts it, a strict one does not."""
        self._add(name, text, {"answer": "valid", "canonical": False, "why": why})

    def invalid(self, name: str, text: Text, reason: str, line: int, why: str) -> None:
        """Add a ledger that every reader refuses, for one `reason`, seen in one line at the latest."""
        self._add(name, text, {"answer": "invalid", "reason": reason, "line": line, "why": why})

    def _add(self, name: str, text: Text, answer: Record) -> None:
        path = f"ledgers/{answer['answer']}/{name}.jsonl"
        if path in self.files:
            raise ValueError(f"two cases are named {path}")
        self.files[path] = text if isinstance(text, bytes) else "".join(text).encode()
        self.expected.append({"file": path, **answer})


def mechanisms(suite: Suite) -> None:
    """One ledger for each mechanism, and totals in closed form where there are."""
    frobenius = {"value": 1, "norm": "frobenius", "basis": "proved"}
    rkhs = {"value": 1, "norm": "rkhs", "basis": "declared"}
    every: list[tuple[Record, dict[str, float]]] = [
        (GAUSSIAN, {"zcdp": 0.125, "gdp": 0.5}),
        (LAPLACE, {"pure-dp": 0.5}),
        ({"kind": "discrete-gaussian", "sigma": 2, "sensitivity": L2}, {"zcdp": 0.125}),
        ({"kind": "discrete-laplace", "scale": 2, "sensitivity": L1}, {"pure-dp": 0.5}),
        (
            {"kind": "symmetric-gaussian", "sigma": 2, "dimension": 3, "sensitivity": frobenius},
            {"zcdp": 0.125, "gdp": 0.5},
        ),
        (
            {"kind": "tree-aggregation", "sigma": 2, "steps": 100, "sensitivity": L2},
            {"zcdp": 0.875, "gdp": math.sqrt(1.75)},
        ),
        (MATRIX, {"zcdp": 1.25 / 8, "gdp": math.sqrt(1.25) / 2}),
        (
            {
                "kind": "gaussian-process",
                "sigma": 2,
                "kernel": {"kind": "exponential", "beta": 3},
                "sensitivity": rkhs,
            },
            {"zcdp": 0.125, "gdp": 0.5},
        ),
        (RESPONSE, {"pure-dp": 1}),
        ({"kind": "exponential", "epsilon": 0.5}, {"pure-dp": 0.5, "zcdp": 0.03125}),
        (
            {"kind": "report-noisy-max", "epsilon": 0.5, "noise_law": "exponential"},
            {"pure-dp": 0.5},
        ),
        ({"kind": "report-noisy-max", "epsilon": 0.5, "noise_law": "laplace"}, {"pure-dp": 0.5}),
        (
            {"kind": "sparse-vector", "epsilon": 0.5, "answers": 2, "monotone": False, "sensitivity": L1},
            {"pure-dp": 0.5},
        ),
        (
            {
                "kind": "gaussian-sparse-vector",
                "sigma": 10,
                "answers": 2,
                "steps": 100,
                "monotone": False,
                "sensitivity": L2,
            },
            {},
        ),
        (
            {
                "kind": "private-selection",
                "releases": [{"mechanism": LAPLACE, "count": 1}],
                "repetitions": {"kind": "negative-binomial", "eta": 1, "gamma": 0.1},
            },
            {"pure-dp": 1.5},
        ),
        ({"kind": "key-selection", "method": "optimal", "epsilon": 1, "delta": 1e-6, "changes": 1}, {}),
        ({"kind": "shuffled", "local": RESPONSE, "users": 10000}, {"pure-dp": 1}),
        (
            {
                "kind": "smooth-gaussian",
                "alpha": 12,
                "beta": 0.05,
                "dimension": 2,
                "epsilon": 1,
                "delta": 0.1,
            },
            {},
        ),
        (SAMPLED, {}),
        (
            {"kind": "poisson-sampled", "rate": 0.01, "mechanism": LAPLACE},
            {"pure-dp": math.log1p(0.01 * math.expm1(0.5))},
        ),
        ({"kind": "fixed-size-sampled", "size": 10, "units": 1000, "mechanism": GAUSSIAN}, {}),
        (
            {
                "kind": "truncated-poisson-sampled",
                "rate": 0.01,
                "most": 30,
                "units": 1000,
                "mechanism": GAUSSIAN,
            },
            {},
        ),
        ({"kind": "sampled-matrix", "rate": 0.01, "mechanism": {**MATRIX, "separation": 2}}, {}),
        (
            {
                "kind": "mixture-of-gaussians",
                "sigma": 2,
                "sensitivities": [0, 1, 2],
                "probabilities": [0.9375, 0.03125, 0.03125],
            },
            {},
        ),
        ({"kind": "sampled-records", "rate": 0.01, "records": 3, "mechanism": GAUSSIAN}, {}),
        ({"kind": "random-allocation", "steps": 100, "mechanism": GAUSSIAN}, {}),
        (OPAQUE, {"pure-dp": 0.5}),
        ({"kind": "approx-dp", "epsilon": 0.5, "delta": 1e-7, "justification": "shown in theorem 3"}, {}),
        (ZCDP, {"zcdp": 0.125}),
        (
            {
                "kind": "tabulated",
                "losses": [-0.5, 0.5],
                "probabilities": [0.375, 0.625],
                "infinity": 0,
                "justification": "computed by enumeration",
            },
            {"pure-dp": 0.5},
        ),
    ]
    seen: dict[str, int] = {}
    for mechanism, figures in every:
        kind = mechanism["kind"]
        seen[kind] = seen.get(kind, 0) + 1
        name = kind if seen[kind] == 1 else f"{kind}-{seen[kind]}"
        suite.valid(name, ledger(mechanism), f"one release of a {kind} mechanism", **figures)
        wrong = {**mechanism, "extra": 1}
        suite.invalid(f"{name}-with-an-unknown-field", ledger(wrong), "field", 2, "extra is no field of it")
    for kind, field, value in (
        ("gaussian", "sigma", 0),
        ("gaussian", "sigma", -2),
        ("laplace", "scale", 0),
        ("randomized-response", "epsilon", -1),
        ("randomized-response", "categories", 1),
        ("tree-aggregation", "steps", 0),
        ("poisson-sampled", "rate", 0),
        ("poisson-sampled", "rate", 1.5),
        ("fixed-size-sampled", "size", 1001),
        ("key-selection", "delta", 0),
        ("smooth-gaussian", "delta", 1),
        ("shuffled", "users", 0),
        ("pure-dp", "justification", " "),
        ("tabulated", "infinity", 0.5),
        ("matrix", "participations", 0),
        ("random-allocation", "steps", 0),
    ):
        mechanism = next(one for one, _ in every if one["kind"] == kind)
        text = ledger({**mechanism, field: value})
        name = f"{kind}-{field}-{str(value).strip() or 'blank'}"
        suite.invalid(name, text, "value", 2, f"{field} is out of range")
        dropped = {name: given for name, given in mechanism.items() if name != field}
        if (
            field not in ("categories", "infinity", "participations", "steps")
            and f"{kind}-no-{field}" not in seen
        ):
            seen[f"{kind}-no-{field}"] = 1
            suite.invalid(f"{kind}-without-{field}", ledger(dropped), "field", 2, f"{field} is missing")
    for norm, mechanism in (("l1", GAUSSIAN), ("l2", LAPLACE), ("frobenius", LAPLACE), ("l3", GAUSSIAN)):
        wrong = {**mechanism, "sensitivity": {**L2, "norm": norm}}
        name = f"{mechanism['kind']}-in-{norm}"
        suite.invalid(name, ledger(wrong), "value", 2, f"{norm} is not the norm of its theorem")
    for basis in ("clipped", "declared", "mapped"):
        fine = {**GAUSSIAN, "sensitivity": {**L2, "basis": basis}}
        suite.valid(
            f"sensitivity-{basis}", ledger(fine), f"a sensitivity that is {basis}", zcdp=0.125, gdp=0.5
        )


def composition(suite: Suite) -> None:
    """How releases add up: counts, partitions, shared samples, groups."""
    for count in (2, 1000, 10**6, 2**40):
        text = lines(header(), release(GAUSSIAN, count=count))
        suite.valid(
            f"count-{count}",
            text,
            f"{count} runs add up",
            zcdp=count / 8,
            gdp=math.sqrt(count) / 2,
        )
    suite.valid(
        "two-releases", ledger(GAUSSIAN, GAUSSIAN), "two releases add up", zcdp=0.25, gdp=math.sqrt(0.5)
    )
    suite.valid("no-releases", lines(header()), "a run that released nothing")
    suite.valid(
        "mixed-pure",
        ledger(LAPLACE, RESPONSE, OPAQUE),
        "pure epsilons add up",
        **{"pure-dp": 2},
    )
    for by, relation, cost in (
        ("position", "add-or-remove-one", 0.125),
        ("position", "replace-one", 0.125),
        ("values", "add-or-remove-one", 0.125),
        ("values", "replace-one", 0.25),
        ("values", "zero-out", 0.25),
    ):
        parts = [
            release(GAUSSIAN, f"part {name}", partition={"split": "ward", "part": name, "by": by})
            for name in ("a", "b", "c")
        ]
        text = lines(header(neighbouring=relation), *parts)
        why = f"a unit touches {'two parts' if cost > 0.125 else 'one part'} of a split by {by}"
        suite.valid(f"split-by-{by}-{relation}", text, why, zcdp=cost, gdp=math.sqrt(2 * cost))
    two = [
        release(GAUSSIAN, f"{split} {part}", partition={"split": split, "part": part, "by": "position"})
        for split in ("ward", "week")
        for part in ("a", "b")
    ]
    suite.valid("two-splits", lines(header(), *two), "a unit is in a part of each split", zcdp=0.25)
    bare = [release(GAUSSIAN, f"part {name}", partition=name) for name in ("a", "b")]
    suite.valid(
        "partition-by-name", lines(header(), *bare), "a text is a part of the split `split`", zcdp=0.125
    )
    mixed = [
        release(GAUSSIAN, "a", partition={"split": "s", "part": "a", "by": "position"}),
        release(LAPLACE, "whole"),
    ]
    suite.valid("a-part-and-the-whole", lines(header(), *mixed), "a part and the whole data add up")
    group = Fraction(1, 8) * 9
    suite.valid(
        "group-of-three",
        ledger(GAUSSIAN, group_size=3),
        "a group of 3 moves a sum three times as far",
        zcdp=float(group),
        gdp=1.5,
    )
    suite.valid(
        "group-of-three-pure", ledger(LAPLACE, group_size=3), "epsilon is tripled", **{"pure-dp": 1.5}
    )
    shared = [release(SAMPLED, name, count=100, sample="batch") for name in ("update", "clipped")]
    suite.valid("two-releases-on-one-sample", lines(header(), *shared), "two releases on one draw")
    suite.valid(
        "layers-on-one-sample",
        lines(header(), *(release(SAMPLED, f"layer {i}", count=10, sample="batch") for i in range(8))),
        "eight releases on one draw",
    )
    one = release(SAMPLED, "update", count=10, sample="batch")
    others: list[tuple[str, Record, str]] = [
        ("rate", {**SAMPLED, "rate": 0.02}, "two rates for one draw"),
        (
            "kind",
            {"kind": "fixed-size-sampled", "size": 10, "units": 1000, "mechanism": GAUSSIAN},
            "two kinds",
        ),
    ]
    for name, mechanism, why in others:
        text = lines(header(), one, release(mechanism, "count", count=10, sample="batch"))
        suite.invalid(f"sample-with-another-{name}", text, "sample", 3, why)
    text = lines(header(), one, release(SAMPLED, "count", count=20, sample="batch"))
    suite.invalid("sample-with-another-count", text, "sample", 3, "10 draws and 20 draws under one name")
    part = {"split": "s", "part": "a", "by": "position"}
    text = lines(header(), one, release(SAMPLED, "count", count=10, sample="batch", partition=part))
    suite.invalid("sample-of-another-part", text, "sample", 3, "one draw of the whole data and of a part")
    for name, mechanism in (("gaussian", GAUSSIAN), ("laplace", LAPLACE), ("matrix", MATRIX)):
        text = lines(header(), release(mechanism, sample="batch"))
        suite.invalid(f"sample-for-{name}", text, "sample", 2, f"a {name} mechanism draws no sample")
    for name, sample in (
        ("empty", ""),
        ("blank", " "),
        ("padded", "batch "),
        ("decomposed", "re\u0301gion"),
        ("number", 7),
        ("invisible", "bat\u200bch"),
    ):
        text = lines(header(), release(SAMPLED, sample=sample))
        suite.invalid(f"sample-{name}", text, "sample", 2, "the name of a draw is canonical, visible text")
    suite.valid(
        "sample-accented", lines(header(), release(SAMPLED, sample="r\u00e9gion")), "a name in form NFC"
    )


GUARANTEES: dict[str, Record] = {
    "pure-dp": {"kind": "pure-dp", "epsilon": 1},
    "approx-dp": {"kind": "approx-dp", "epsilon": 1, "delta": 1e-6},
    "zcdp": {"kind": "zcdp", "rho": 0.5},
    "rdp": {"kind": "rdp", "alpha": 8, "epsilon": 1},
    "gdp": {"kind": "gdp", "mu": 1},
}


def headers(suite: Suite) -> None:
    """What a header may hold, and what it may not."""
    for relation in ("add-or-remove-one", "replace-one", "zero-out"):
        suite.valid(f"header-{relation}", ledger(GAUSSIAN, neighbouring=relation), relation, zcdp=0.125)
    suite.valid("header-local", ledger(RESPONSE, trust_model="local", users=1000), "one user's own noise")
    suite.valid("header-joint", ledger(GAUSSIAN, trust_model="joint"), "a billboard")
    for kind, guarantee in GUARANTEES.items():
        text = ledger(LAPLACE, claim={"guarantee": guarantee})
        suite.valid(f"header-claims-{kind}", text, f"a claim on the {kind} scale")
        text = lines(header(), release(LAPLACE, claimed=guarantee))
        suite.valid(f"release-claims-{kind}", text, f"a release with a claim of its own, {kind}")
        if kind != "approx-dp":  # no filter of dpaudit holds such a budget yet
            text = ledger(LAPLACE, schedule="filtered", budget=guarantee)
            suite.valid(f"budget-{kind}", text, "the budget that a filter held is what is proved")
    text = ledger(GAUSSIAN, schedule="filtered", budget={"kind": "zcdp", "rho": 0.0625})
    suite.invalid("budget-exceeded", text, "budget", 1, "a filter refuses what its budget does not allow")
    premise = {"name": "n", "left": 1, "relation": "<", "right": 2, "source": "theorem 1"}
    claim = {
        "guarantee": GUARANTEES["zcdp"],
        "view": "final-output",
        "premises": [premise],
        "assumptions": ["records are independent"],
    }
    suite.valid("header-claim-with-premises", ledger(GAUSSIAN, claim=claim), "premises and assumptions")
    deep: Any = {"a": [1, {"b": [True, None, "x"]}], "\u00e9": 1, "\U0001f600": 2, "\ufb01": 3}
    suite.valid("header-parameters", ledger(GAUSSIAN, parameters=deep), "keys in the order of UTF-16 units")
    suite.valid("header-run", ledger(GAUSSIAN, run="0123456789abcdef" * 2), "the run's own number")
    for sampler in ("numpy-float64", "opendp-discrete"):
        noise = {"source": "live", "sampler": sampler, "seeded": False}
        suite.valid(f"header-noise-{sampler}", ledger(GAUSSIAN, noise=noise), f"noise by {sampler}")
    for source in ("none", "replayed"):
        noise = {"source": source, "sampler": "numpy-float64", "seeded": False}
        suite.invalid(
            f"header-noise-{source}", ledger(GAUSSIAN, noise=noise), "noise", 1, "it protects nothing"
        )
    suite.valid(
        "header-defaults",
        ledger(GAUSSIAN, trust_model=None, schedule=None, noise=None, parameters=None),
        "optional fields left out",
        zcdp=0.125,
    )
    wrong: list[tuple[str, Record, str, str]] = [
        ("unknown-field", {"unknown": 1}, "field", "unknown is no field of a header"),
        ("no-algorithm", {"algorithm": None}, "field", "the algorithm is missing"),
        ("no-unit", {"unit": None}, "field", "the unit is missing"),
        ("no-relation", {"neighbouring": None}, "field", "the relation is missing"),
        ("empty-algorithm", {"algorithm": ""}, "value", "an algorithm has a name"),
        ("empty-unit", {"unit": ""}, "value", "a unit has a name"),
        ("unknown-relation", {"neighbouring": "swap"}, "value", "no such relation"),
        ("unknown-trust", {"trust_model": "nobody"}, "value", "no such trust model"),
        ("unknown-schedule", {"schedule": "weekly"}, "value", "no such schedule"),
        ("filtered-without-budget", {"schedule": "filtered"}, "value", "a filter has a budget"),
        ("fixed-with-budget", {"budget": GUARANTEES["zcdp"]}, "value", "a fixed schedule has no budget"),
        ("users-under-central-trust", {"users": 10}, "value", "only local trust counts users"),
        ("group-of-none", {"group_size": 0}, "value", "a group has a unit"),
        ("group-of-half", {"group_size": 1.5}, "value", "a group is a whole number"),
        ("group-of-text", {"group_size": "3"}, "value", "a number is no text"),
        ("group-of-true", {"group_size": True}, "value", "a number is no boolean"),
        ("short-run", {"run": "abc"}, "value", "32 hexadecimal digits"),
        ("parameters-a-list", {"parameters": [1]}, "value", "parameters have names"),
        ("unknown-noise", {"noise": {"source": "dice"}}, "value", "no such source"),
        ("claim-of-another-unit", {"claim": {"guarantee": GUARANTEES["gdp"], "unit": "visit"}}, "claim", "the ledger's unit is person"),
        ("claim-of-another-relation", {"claim": {"guarantee": GUARANTEES["gdp"], "neighbouring": "replace-one"}}, "claim", "the ledger's relation is another"),
        ("claim-without-figure", {"claim": {"guarantee": {"kind": "zcdp"}}}, "field", "rho is missing"),
        ("claim-negative", {"claim": {"guarantee": {"kind": "zcdp", "rho": -1}}}, "value", "rho is not negative"),
        ("claim-unknown-kind", {"claim": {"guarantee": {"kind": "tcdp", "rho": 1}}}, "value", "no such guarantee"),
        ("claim-delta-of-one", {"claim": {"guarantee": {"kind": "approx-dp", "epsilon": 1, "delta": 1}}}, "value", "delta is below 1"),
        ("claim-order-of-one", {"claim": {"guarantee": {"kind": "rdp", "epsilon": 1, "alpha": 1}}}, "value", "an order is above 1"),
    ]  # fmt: skip
    for name, fields, reason, why in wrong:
        suite.invalid(f"header-{name}", ledger(GAUSSIAN, **fields), reason, 1, why)
    for version in ("dpaudit.ledger/2", "dpaudit.ledger/0", "another", ""):
        name = version.replace("/", "-") or "no-version"
        suite.invalid(f"header-{name}", ledger(GAUSSIAN, schema=version), "version", 1, "another version")
    for kind in ("shuffled", "fixed-size-sampled", "poisson-sampled", "random-allocation", "key-selection"):
        mechanism: Record = {
            "shuffled": {"kind": "shuffled", "local": RESPONSE, "users": 1000},
            "fixed-size-sampled": {
                "kind": "fixed-size-sampled",
                "size": 10,
                "units": 1000,
                "mechanism": GAUSSIAN,
            },
            "poisson-sampled": SAMPLED,
            "random-allocation": {"kind": "random-allocation", "steps": 100, "mechanism": GAUSSIAN},
            "key-selection": {
                "kind": "key-selection",
                "method": "optimal",
                "epsilon": 1,
                "delta": 1e-6,
                "changes": 1,
            },
        }[kind]
        text = ledger(mechanism, trust_model="local")
        suite.invalid(f"local-{kind}", text, "trust", 2, "nobody is trusted to hold the data")
    text = ledger({"kind": "shuffled", "local": RESPONSE, "users": 1000}, trust_model="joint")
    suite.invalid("joint-shuffled", text, "trust", 2, "nobody is trusted to shuffle")


def releases(suite: Suite) -> None:
    """Fields of a release."""
    for label in ("r\u00e9sum\u00e9", "\u65e5\u672c", "\U0001f600", 'a "b" \\ c', "tab\tnewline\n", "\x7f"):
        name = f"label-{'-'.join(f'{ord(one):x}' for one in label[:2])}"
        suite.valid(name, lines(header(), release(GAUSSIAN, label)), "any text is a label", zcdp=0.125)
    wrong: list[tuple[str, Record, str, str]] = [
        ("count-zero", {"count": 0}, "value", "a release was made"),
        ("count-negative", {"count": -1}, "value", "a release was made"),
        ("count-half", {"count": 1.5}, "value", "a count is a whole number"),
        ("count-true", {"count": True}, "value", "a count is no boolean"),
        ("count-text", {"count": "1"}, "value", "a count is no text"),
        ("count-null", {"count": None}, "value", "a count is a number"),
        ("label-empty", {"label": ""}, "value", "a label says what was released"),
        ("label-number", {"label": 7}, "value", "a label is text"),
        ("unknown-field", {"unknown": 1}, "field", "unknown is no field of a release"),
        ("grid-of-another", {"grid": 3}, "value", "the grid follows from the mechanism"),
        ("grid-half", {"grid": 0.5}, "value", "a grid is a whole exponent"),
        ("partition-without-part", {"partition": {"split": "s"}}, "field", "the part is missing"),
        ("partition-by-chance", {"partition": {"part": "a", "split": "s", "by": "chance"}}, "value", "by position or values"),
        ("partition-number", {"partition": 3}, "value", "a part has a name"),
        ("claimed-negative", {"claimed": {"kind": "zcdp", "rho": -1}}, "value", "rho is not negative"),
        ("claimed-unknown", {"claimed": {"kind": "f-dp"}}, "value", "no such guarantee"),
        ("mechanism-a-text", {"mechanism": "gaussian"}, "value", "a mechanism is an object"),
        ("mechanism-unknown", {"mechanism": {"kind": "cauchy", "scale": 1}}, "value", "no such mechanism"),
        ("mechanism-without-kind", {"mechanism": {"sigma": 1, "sensitivity": L2}}, "value", "the kind is missing"),
        ("sensitivity-negative", {"mechanism": {**GAUSSIAN, "sensitivity": {**L2, "value": -1}}}, "value", "not negative"),
        ("sensitivity-guessed", {"mechanism": {**GAUSSIAN, "sensitivity": {**L2, "basis": "guessed"}}}, "value", "no such basis"),
        ("sensitivity-a-number", {"mechanism": {**GAUSSIAN, "sensitivity": 1}}, "value", "a norm belongs to it"),
        ("sigma-a-text", {"mechanism": {**GAUSSIAN, "sigma": "2"}}, "value", "a number is no text"),
        ("sigma-true", {"mechanism": {**GAUSSIAN, "sigma": True}}, "value", "a number is no boolean"),
        ("nested-sampling", {"mechanism": {**SAMPLED, "mechanism": SAMPLED}}, "value", "no sample of a sample"),
    ]  # fmt: skip
    for name, fields, reason, why in wrong:
        suite.invalid(f"release-{name}", lines(header(), {**release(GAUSSIAN), **fields}), reason, 2, why)
    for field in ("label", "mechanism"):
        record = release(GAUSSIAN)
        del record[field]
        suite.invalid(f"release-without-{field}", lines(header(), record), "field", 2, f"{field} is missing")
    record = release(GAUSSIAN)
    del record["count"]
    suite.valid("release-without-count", lines(header(), record), "a count left out is 1", zcdp=0.125)


def files(suite: Suite) -> None:
    """The file as a whole: lines, hashes, footer, JSON, numbers."""
    whole = ledger(GAUSSIAN, LAPLACE)

    def edited(change: Callable[[list[str]], Any]) -> list[str]:
        text = copy.copy(whole)
        change(text)
        return text

    def swapped(number: int, old: str, new: str) -> list[str]:
        if old not in whole[number]:
            raise ValueError(f"{old!r} is not in line {number + 1}")
        return edited(lambda text: text.__setitem__(number, whole[number].replace(old, new, 1)))

    suite.loose(
        "no-last-newline",
        edited(lambda text: text.__setitem__(3, whole[3][:-1])),
        "the last newline may be missing",
    )
    text = swapped(1, '"sigma":2', '"sigma":2.0')
    suite.loose("whole-number-with-a-point", text, "a double may be written with a point")
    spaced = [json.dumps(json.loads(line)) + "\n" for line in whole]
    suite.loose("spaces", spaced, "spaces change nothing: hashes are over canonical JSON")
    turned = [json.dumps(dict(reversed(json.loads(line).items()))) + "\n" for line in whole]
    suite.loose("any-order", turned, "the order of fields changes nothing")
    escaped = lines(header(), release(GAUSSIAN, "\u00e9"))
    escaped = [line.replace("\u00e9", "\\u00e9") for line in escaped]
    suite.loose("escapes", escaped, "an escape is the character that it stands for")
    short: Broken = [
        ("empty", b"", 1, "an empty file"),
        ("no-footer", edited(lambda text: text.pop()), 3, "the footer is missing"),
        ("header-alone", whole[:1], 1, "releases and footer are missing"),
        ("half-a-line", "".join(whole)[:-60].encode(), 4, "the last line is cut"),
        ("half-a-header", whole[0][:40].encode(), 1, "the header is cut"),
    ]
    for name, broken, line, why in short:
        suite.invalid(f"file-{name}", broken, "cut short", line, why)
    edits: Broken = [
        ("edited-label", swapped(1, "sum 0", "sum 9"), 2, "the label was edited"),
        ("edited-sigma", swapped(1, '"sigma":2', '"sigma":3'), 2, "the noise was edited"),
        ("edited-header", swapped(0, "person", "visits"), 1, "the unit was edited"),
        ("edited-last", swapped(2, '"scale":2', '"scale":1'), 3, "the last release was edited"),
        ("edited-footer", swapped(3, '"releases":2', '"releases":1'), 4, "the footer was edited"),
        ("dropped-line", edited(lambda text: text.pop(1)), 2, "a release is missing"),
        ("swapped-lines", [whole[0], whole[2], whole[1], whole[3]], 2, "releases change places"),
        ("repeated-line", [whole[0], whole[1], whole[1], whole[2], whole[3]], 3, "a release twice"),
        ("other-hash", swapped(1, '"hash":"', '"hash":"0'), 2, "the hash was edited"),
        ("no-hash", [line.split(',"hash"')[0] + "}\n" if i == 1 else line for i, line in enumerate(whole)], 2, "a hash is missing"),
        ("hash-in-capitals", edited(lambda text: text.__setitem__(1, whole[1][:-68] + whole[1][-68:].upper())), 2, "hexadecimal digits are small"),
    ]  # fmt: skip
    for name, broken, line, why in edits:
        suite.invalid(f"file-{name}", broken, "hash", line, why)
    for name, wrote in (("sigma-as-2.00", "2.00"), ("sigma-as-2e0", "2e0"), ("sigma-as-20e-1", "20e-1")):
        suite.invalid(f"file-{name}", swapped(1, '"sigma":2', f'"sigma":{wrote}'), "number", 2, "another way to write the number that was hashed")  # fmt: skip
    footers: tuple[tuple[str, Record, str, str], ...] = (
        ("counts-three", {"releases": 3}, "footer", "two releases, and the footer counts three"),
        ("counts-true", {"releases": True}, "field", "a number is no boolean"),
        ("with-a-field", {"releases": 2, "more": 1}, "field", "a footer has no other fields"),
        ("without-a-number", {}, "field", "the number is missing"),
    )
    first = (header(), release(GAUSSIAN), release(LAPLACE, "other"))
    for name, fields, reason, why in footers:
        text = lines(*first, {"record": "footer", **fields}, footer=False)
        suite.invalid(f"footer-{name}", text, reason, 4, why)
    after = lines(*first, {"record": "footer", "releases": 2}, release(GAUSSIAN, "late"), footer=False)
    suite.invalid("release-after-the-footer", after, "after the footer", 5, "nothing follows the footer")
    text = lines(
        *first, {"record": "footer", "releases": 2}, {"record": "footer", "releases": 2}, footer=False
    )
    suite.invalid("two-footers", text, "after the footer", 5, "nothing follows the footer")
    text = lines(header(), {"record": "note", "text": "x"})
    suite.invalid("unknown-record", text, "record", 2, "a header, releases and a footer alone")
    suite.invalid("two-headers", lines(header(), header(), release(GAUSSIAN)), "record", 2, "one header")
    suite.invalid(
        "no-header", lines(release(GAUSSIAN), release(LAPLACE)), "record", 1, "a header comes first"
    )
    plain = [line.split(',"hash"')[0] + "}\n" for line in whole]
    suite.invalid("file-no-hashes", plain, "no hashes", 1, "a file without hashes is not certifiable")
    no_json: Broken = [
        ("text", b"hello\n", 1, "not JSON"),
        ("array", b"[1]\n", 1, "a record is an object"),
        ("number", b"7\n", 1, "a record is an object"),
        ("repeated-field", swapped(1, '"count":1', '"count":1,"count":1'), 2, "a field twice in one object"),
        ("repeated-inner-field", swapped(1, '"sigma":2', '"sigma":2,"sigma":2'), 2, "a field twice in one object"),
        ("nan", swapped(1, '"sigma":2', '"sigma":NaN'), 2, "NaN is no JSON number"),
        ("infinity", swapped(1, '"sigma":2', '"sigma":Infinity'), 2, "infinity is no JSON number"),
        ("leading-zero", swapped(1, '"sigma":2', '"sigma":02'), 2, "no JSON number"),
        ("plus", swapped(1, '"sigma":2', '"sigma":+2'), 2, "no JSON number"),
        ("trailing-comma", swapped(1, '"count":1', '"count":1,'), 2, "no JSON"),
        ("single-quotes", swapped(1, '"sum 0"', "'sum 0'"), 2, "no JSON"),
        ("two-in-a-line", [whole[0], whole[1].rstrip("\n") + whole[2], whole[3]], 2, "a record a line"),
        ("empty-line", [whole[0], "\n", *whole[1:]], 2, "no empty lines"),
        ("latin-1", whole[0].replace("person", "persoon").encode().replace(b"oo", b"\xe9") + "".join(whole[1:]).encode(), 1, "the file is UTF-8"),
        ("byte-order-mark", b"\xef\xbb\xbf" + "".join(whole).encode(), 1, "no byte order mark"),
    ]  # fmt: skip
    for name, broken, line, why in no_json:
        suite.invalid(f"json-{name}", broken, "json", line, why)
    for name, digits in (("overflow", "1e400"), ("underflow", "1e-400")):
        text = swapped(1, '"sigma":2', f'"sigma":{digits}')
        suite.invalid(f"json-{name}", text, "json", 2, "no double is this number")
    for name, value in (("tiny", 5e-324), ("large", 1.7976931348623157e308), ("thirds", 1 / 3), ("1e21", 1e21), ("1e-7", 1e-7), ("1e-6", 1e-6)):  # fmt: skip
        mechanism = {**GAUSSIAN, "sigma": value}
        if name != "tiny":
            suite.valid(f"number-{name}", ledger(mechanism), f"sigma {number(value)}")


def suite() -> Suite:
    """The whole suite."""
    made = Suite()
    for add in (mechanisms, composition, headers, releases, files):
        add(made)
    return made


def written(made: Suite) -> Iterator[tuple[str, bytes]]:
    """Each file of the suite with its content."""
    yield from sorted(made.files.items())
    text = json.dumps(sorted(made.expected, key=lambda case: case["file"]), indent=1, ensure_ascii=False)
    yield "expected.json", text.encode() + b"\n"


if __name__ == "__main__":
    folder = Path(__file__).parents[1] / "spec" / "conformance"
    for file, content in written(suite()):
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
