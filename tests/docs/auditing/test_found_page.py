"""docs/auditing/found.md is what was stored of the last audits; every case has a row, as expected.

The audits themselves are run again, library by library, by the interoperability session.
"""

import ast
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from dpaudit.auditors.libraries.routed import LIBRARIES

ROOT = Path(__file__).resolve().parents[3]
MAKE = runpy.run_path(str(ROOT / "docs" / "programs" / "make_found.py"), run_name="make_found")
RESULTS: dict[str, Any] = json.loads(MAKE["RESULTS"].read_text(encoding="utf-8"))


def stated(library: str) -> dict[str, Any]:
    """The constants of a library's file of cases, which may not be importable here."""
    tree = ast.parse(
        (ROOT / "docs" / "auditing" / "found" / f"{library}_cases.py").read_text(encoding="utf-8")
    )
    known: dict[str, Any] = {}
    for each in tree.body:
        match each:
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                known |= {ast.unparse(n): ast.literal_eval(v) for n, v in zip(names, values, strict=True)}
                continue
            case _:
                continue
        if name in {"CASES", "SAMPLED", "CLAIM", "ADD", "REPLACE"}:
            known[name] = eval(ast.unparse(value), {}, dict(known))  # noqa: S307  (of this repository)
    return known


def test_the_page_is_up_to_date() -> None:
    assert MAKE["PAGE"].read_text(encoding="utf-8") == MAKE["page"](RESULTS), (
        "run: docs/programs/make_found.py"
    )


def test_every_library_that_is_routed_was_audited() -> None:
    assert list(RESULTS) == list(LIBRARIES)


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_case_has_its_row(library: str) -> None:
    rows = RESULTS[library]["rows"]
    seen = [(row["target"], row["pair"], row["relation"], row["verdict"], row["why"]) for row in rows]
    assert seen == stated(library)["CASES"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_each_library_has_faults_and_innocents(library: str) -> None:
    verdicts = [row["verdict"] for row in RESULTS[library]["rows"]]
    assert {"REFUTED", "NOT_REFUTED"} <= set(verdicts)


@pytest.mark.interoperability
@pytest.mark.filterwarnings("default")  # other libraries' own
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_verdicts_come_out_again(library: str) -> None:
    """Each case must come out as expected, or the program ends with its name; nothing is written."""
    found = MAKE["audited"](library)
    assert found["rows"]
    assert [row["verdict"] for row in found["rows"]] == [row["verdict"] for row in RESULTS[library]["rows"]]
