"""Write docs/auditing/found.md: audits of other libraries' code, each run again where the library is installed.

Usage: python docs/programs/make_found.py [LIBRARY[:TARGET] ... | page]

Without names, every library that can be imported is audited, with a target's name that one alone. All others
keep the results that are stored in docs/auditing/found/results.json; `page` audits none.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from dpaudit.app.text.output import lower

ROOT = Path(__file__).resolve().parents[2]
PAGE, RESULTS = ROOT / "docs" / "auditing" / "found.md", ROOT / "docs" / "auditing" / "found" / "results.json"
DISTRIBUTIONS = {
    "diffprivlib": "diffprivlib",
    "opacus": "opacus",
    "smartnoise": "smartnoise-sql",
    "pipelinedp": "pipeline-dp",
}
#: Where a library's cases state no claim of their own.
CLAIM = ["--epsilon", "1"]
#: Characters of a finding that a row shows.
LONGEST = 100

HEAD = """# What was found in other libraries

Audits of other libraries' own code, by [replay with the library's noise routed](libraries.md); a few are
sampled. REFUTED means that the claim is false on the pair, or that something leaves beside the noise: the
evidence says what. Each row can be repeated with its command, from the repository's root.
"""

RECORDER = """
## What dp-recorder reports

dp-recorder (Cebere, Erb, Desfontaines, Bellet and Fitzsimons 2026, arXiv 2602.17454) reports 13 violations in
12 libraries. The paper's table is not reproduced here. What follows is what its authors publish beside it:
the issues that they opened, and the reduced examples in the tests of their package. These name more than 13
single faults; this page does not say which of them the paper counts.

| library | what they report | here |
|---|---|---|
| diffprivlib | linear regression: sensitivity from the lower bound alone (issue 105) | refuted by the name of the query: `linear_regression` |
| diffprivlib | the set of labels is read from the data (issue 106) | refuted: `classes_of_logistic`, and in another model `gaussian_nb` |
| diffprivlib | NaN survives the bounds | refuted: `mean` with `missing_value` |
| Opacus | the divisor follows from the private number of records (issue 571) | refuted: `engine` |
| Opacus | NaN survives clipping | refuted: `public_numbers` with `missing_value` |
| SmartNoise SQL | the odometer's formula lacks a logarithm (issue 621) | not an audit's matter: it states too large a budget |
| SmartNoise Synth | the covariance is computed from data that were not clipped (issue 622) | not run: smartnoise-synth 1.0.8 computes it from the clipped data |
| SmartNoise Synth | NaN survives preprocessing | not run: no adapter |
| Private-PGM (mbi) | JAM: the sensitivity of the scores is 4, not 2 (issue 65) | not run: no adapter |
| dpmm | the domain is read from the data (issue 18); sensitivity; NaN | not run: no adapter |
| Synthcity | the number of records is used as if it were public; PrivBayes without noise where K is the number of features; NaN | not run: no adapter |
| MOSTLY AI | one budget is spent twice | not run: no adapter |

Found beside that list: the empty cluster of `kmeans`, the missing values in `nanmean` and `nansum`, the
truncation of `total`, the share of the private batch in `adaptive_clipping`, and NaN in PipelineDP.

A library without an adapter can be audited by [sampling](auditing.md). `python docs/programs/make_found.py`
writes this page.
"""


def cases_of(library: str) -> ModuleType:
    """The file of a library's cases, imported; raises `ImportError` where the library is not installed."""
    path = ROOT / "docs" / "auditing" / "found" / f"{library}_cases.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def command(cases: ModuleType, target: str, pair: str, relation: str) -> list[str]:
    """The words that repeat one audit, from the repository's root."""
    file = f"docs/auditing/found/{cases.LIBRARY}_cases.py"
    sampled = cases.SAMPLED.get(target)
    how = ["--plain", *sampled] if sampled else ["--library", cases.LIBRARY, "--trials", "10"]
    claim = [*getattr(cases, "CLAIM", CLAIM), "--neighbouring", relation]
    return ["dpaudit", "audit", f"{file}:{target}", *how, "--pair", f"{file}:{pair}", *claim, "--seed", "0"]


def run(words: list[str]) -> dict[str, Any]:
    """One audit: its verdict, and what it rests on."""
    program = [sys.executable, "-m", "dpaudit.app.main", *words[1:], "--output-format", "json"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode not in {0, 1}:
        sys.exit(f"{shlex.join(words)}\n{done.stderr}")
    audit = json.loads(done.stdout)
    kept = "verdict", "findings", "epsilon_lower", "delta", "inconclusive"
    return {name: audit[name] for name in kept if audit.get(name)}


def evidence(audit: dict[str, Any]) -> str:
    """The first finding in one phrase, else the bound, else why there is none.

    Where releases are missing, those that follow are compared with others: that they are missing comes first.
    """
    order = ("control-flow", "sensitivity", "leak", "nondeterminism", "sampler", "sampling")
    findings = sorted(audit.get("findings", ()), key=lambda each: order.index(each["kind"]))
    if findings:
        first = findings[0]
        label = f" in `{first['label']}`" if first.get("label") else ""
        detail = re.sub(r" by [a-z-]+\(.*?\)(?= where | was |$)", "", first["detail"])
        if re.fullmatch(r"('.*') where \1 was recorded", detail):
            detail = "the noise that is stated differs between the two sides"
        detail = detail if len(detail) <= LONGEST else f"{detail[:LONGEST]} ..."
        if first.get("measured") is not None:
            detail = f"moves by {first['measured']:.4g}, stated {first['declared']:.4g}"
        return f"{first['kind']}{label}: {detail}"
    if audit.get("epsilon_lower") is not None:
        return f"epsilon >= {lower(audit['epsilon_lower'])} at delta {audit.get('delta', 0.0):g}"
    return "; ".join(audit.get("inconclusive", ("no bound above 0",)))


def audited(library: str, only: str = "", before: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """All audits of one library, or of `only` one target: the others are as they were `before`."""
    cases, installed = cases_of(library), version(DISTRIBUTIONS[library])
    if only and installed != before.get("version"):
        sys.exit(f"{library} {installed}: its other results are of another version, audit them all")
    known = {(row["target"], row["pair"]): row for row in before.get("rows", ())}
    rows = []
    for target, pair, relation, expected, why in cases.CASES:
        if only and target != only:
            rows.append(known[target, pair])
            continue
        words = command(cases, target, pair, relation)
        found = run(words)
        print(library, target, pair, found["verdict"], evidence(found), flush=True)  # noqa: T201
        if found["verdict"] != expected:
            sys.exit(f"{shlex.join(words)}: {found['verdict']}, where {expected} was expected")
        claim = " ".join(getattr(cases, "CLAIM", CLAIM)).replace("--", "")
        about = {"target": target, "pair": pair, "relation": relation, "claim": claim, "why": why}
        rows.append({**about, **found, "command": shlex.join(words)})
    return {"version": installed, "rows": rows}


def page(results: dict[str, Any]) -> str:
    """The page."""
    parts = [HEAD.rstrip()]
    for library, found in results.items():
        parts.append(f"\n## {DISTRIBUTIONS[library]} {found['version']}\n")
        parts.append("| target, pair | claim | verdict | evidence | |\n|---|---|---|---|---|")
        parts += [
            f"| `{row['target']}`, `{row['pair']}` | {row['claim']}, {row['relation']} | {row['verdict']} | "
            f"{evidence(row)} | {row['why']} |"
            for row in found["rows"]
        ]
        parts += ["", f"Targets and pairs are in `docs/auditing/found/{library}_cases.py`.", "", "```console"]
        parts += [f"$ {row['command']}" for row in found["rows"]]
        parts.append("```")
    return "\n".join(parts) + "\n" + RECORDER


def main() -> None:
    """Audit, store and write."""
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for name in [] if sys.argv[1:] == ["page"] else sys.argv[1:] or DISTRIBUTIONS:
        library, _, only = name.partition(":")
        try:
            cases_of(library)
        except ImportError as error:
            print(f"{library} is not installed: {error}")  # noqa: T201
            continue
        results[library] = audited(library, only, results.get(library, {}))
        store(results)  # the next library may take long
    store(results)


def store(results: dict[str, Any]) -> None:
    """Write the results, and the page."""
    results = {library: results[library] for library in DISTRIBUTIONS if library in results}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    main()
