"""Every module, name and file of this repository that a page names is there."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The pages on extending name what their diffs add; `test_extending` runs them.
PAGES = sorted(
    page
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
    if "extending" not in page.parts
)
NAME = re.compile(r"(?<![\w.\[/=])dpaudit(?:\.[A-Za-z_]\w*)+")
FILE = re.compile(
    r"`((?:accountants|algorithms|auditors|benchmarks|docs|dpaudit|examples|tests)/[\w./-]+)[`:]"
)
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def found(name: str) -> bool:
    """Whether a dotted name leads to a module or to something in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True
    return False


@each_page
def test_each_name_is_there(page: Path) -> None:
    assert [
        name for name in sorted(set(NAME.findall(page.read_text(encoding="utf-8")))) if not found(name)
    ] == []


@each_page
def test_each_file_is_there(page: Path) -> None:
    assert [
        path
        for path in sorted(set(FILE.findall(page.read_text(encoding="utf-8"))))
        if not (ROOT / path).exists()
    ] == []


def test_a_wrong_name_would_be_told() -> None:
    assert found("dpaudit.claims.guarantees.ZCDP")
    assert not found("dpaudit.guarantees.ZCDP")
    assert NAME.findall("`dpaudit.a.b(c)` and ../dpaudit.x and dpaudit[x]") == ["dpaudit.a.b"]


def test_the_concepts_stand_in_the_modules_that_the_page_on_design_names() -> None:
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*) \| [^|]* \| `(dpaudit[\w.]*)` \|$", page, flags=re.MULTILINE)
    named = [f"{module}.{name}" for names, module in rows for name in re.findall(r"`(\w+)`", names)]
    assert len(named) > 50
    assert [name for name in named if not found(name)] == []
