"""The pages that people look things up on are complete, and every page is listed in the index."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import dpaudit
from dpaudit import errors
from dpaudit.accountants.composition.composition import compose
from dpaudit.accountants.curves.curves import profiles
from dpaudit.app.main import main
from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import L1
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import Laplace

DOCS = Path(__file__).parents[2] / "docs"
ERRORS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.DpauditError) and "code" in vars(kind)
]
YEAR = re.compile(r"\b(19|20)\d\d\b")


def read(page: str) -> str:
    return (DOCS / f"{page}.md").read_text(encoding="utf-8")


def test_the_python_reference_has_every_public_name_once() -> None:
    entries = re.findall(r"^\.\. auto(\w+):: dpaudit\.(\w+)$", read("reference"), re.MULTILINE)
    assert sorted(name for _, name in entries) == sorted(dpaudit.__all__)
    for kind, name in entries:
        assert (kind == "class") == isinstance(getattr(dpaudit, name), type), name


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
def test_each_error_has_its_section(error: type[errors.DpauditError]) -> None:
    if error is errors.DpauditError:  # what all share; nothing raises it itself
        return
    section = re.search(rf"\n## {error.code} {error.__name__}\n(.*?)(?=\n## |\Z)", read("errors"), re.DOTALL)
    assert section is not None
    assert section[1].strip().startswith(f"Exit status {error.exit_status}.")
    assert "**Why it matters.**" in section[1]
    assert "**What to do.**" in section[1]


def test_the_example_is_what_is_printed() -> None:
    (block,) = re.findall(r"```console\n(.*?)```", read("errors"), re.DOTALL)
    command, _, printed = block.partition("\n")
    result = CliRunner().invoke(main, command.split()[2:])
    assert (result.exit_code, result.stderr) == (2, printed)


def test_no_section_is_about_an_error_that_is_gone() -> None:
    known = {error.code for error in ERRORS}
    assert set(re.findall(r"\n## (DPA\d+)", read("errors"))) == known - {errors.DpauditError.code}


def test_each_accountant_has_a_row_that_names_its_theorem() -> None:
    release = Release(label="all can bound it", mechanism=Laplace(scale=1.0, sensitivity=L1(1.0)))
    methods = {profile.method for profile in profiles(compose([release], Neighbouring.REPLACE_ONE))}
    rows = {
        row[1]: row[0]
        for row in re.finditer(r"^\| `([\w-]+)` \|.*$", read("proving/accountants"), re.MULTILINE)
    }
    assert methods == {"gdp", "zcdp", "pure", "rdp", "pld"}
    assert methods <= rows.keys()
    assert all(YEAR.search(rows[method]) for method in methods)


@pytest.mark.parametrize("method", ["replay", "threshold", "sequential", "gdp", "one-run"])
def test_each_auditor_has_a_row_that_names_its_theorem(method: str) -> None:
    rows = re.findall(rf"^\| `{method}` \|.*$", read("auditing/auditing"), re.MULTILINE)
    assert any(YEAR.search(row) for row in rows)


def test_every_page_is_in_the_index_once() -> None:
    """Each decision is listed on the decisions' own page, every other page in the index."""
    listed = re.findall(r"^([\w/-]+)$", read("index"), re.MULTILINE)
    decisions = re.findall(r"\]\(([\w/-]+)\.md\)", read("decisions/index"))
    pages = {
        str(page.relative_to(DOCS).with_suffix(""))
        for page in DOCS.rglob("*.md")
        if "_build" not in page.parts
    }
    found = [*listed, *(f"decisions/{decision}" for decision in decisions)]
    assert sorted(found) == sorted(pages - {"index"})


# Tables, headings, formulas, and what has no place to be folded at.
UNFOLDED = re.compile(r"\||#|<| {4}|(- )?(\S+|\[[^]]*\]\(\S+\))$")


@pytest.mark.parametrize(
    "page",
    sorted([*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md")]),
    ids=lambda page: str(page.relative_to(DOCS.parent)),
)
def test_prose_is_folded_at_110_columns(page: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    long = [line for line in text.splitlines() if len(line) > 110 and not UNFOLDED.match(line)]
    assert long == [], f"run: python docs/programs/wrapping.py {page.relative_to(DOCS.parent)}"
