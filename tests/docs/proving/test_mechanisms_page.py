"""The page of mechanisms is made from the closed union, and each entry names its source."""

import importlib
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from dpaudit.mechanisms import AnyMechanism

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "proving" / "mechanisms.md").read_text(encoding="utf-8")
KINDS = [mechanism.model_fields["kind"].default for mechanism in get_args(AnyMechanism)]
FIGURE = re.compile(r"\d[\d.e+-]*")
#: The kinds whose figures take most of the page's time.
DEAR = ("random-allocation", "smooth-gaussian")


@pytest.fixture(scope="module")
def script() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS / "programs")
        return importlib.import_module("make_mechanisms")


@pytest.fixture(scope="module")
def made(script: Any, nightly: bool) -> str:
    """The page as it is made now; every day the rows that take longest are taken from the page."""
    row = script._row

    def row_by_day(kind: str) -> str:
        if kind not in DEAR:
            return str(row(kind))
        return next(f"{line}\n" for line in PAGE.splitlines() if line.startswith(f"| [`{kind}`](#"))

    with pytest.MonkeyPatch.context() as patch:
        if not nightly:
            patch.setattr(script, "_row", row_by_day)
        return str(script.mechanisms_page())


def test_the_page_is_up_to_date(made: str) -> None:
    # Words to the letter; figures to the last digit that platforms agree on.
    assert FIGURE.sub("#", made).split() == FIGURE.sub("#", PAGE).split(), (
        "run: python docs/programs/make_mechanisms.py"
    )
    there, here = (
        [float(n) for n in re.findall(r"(?<= )\d+\.?\d*(?:e-?\d+)?(?= \|)", page)] for page in (made, PAGE)
    )
    assert len(there) > 40
    assert there == pytest.approx(here, rel=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_its_entry_with_an_obligation(kind: str) -> None:
    section = re.search(rf"\n## {kind}\n(.*?)(?=\n## |\Z)", PAGE, flags=re.DOTALL)
    assert section is not None
    obligation = section[1].partition("**Obligation.** ")[2].partition("\n\n")[0]
    # An opaque mechanism's theorem is its justification's.
    assert re.search(r"\b(19|20)\d\d\b", obligation) or obligation.startswith("The `justification` shows")
    assert f"| [`{kind}`](#{kind}) |" in PAGE


def test_figures_are_never_rounded_below_the_bound(script: Any) -> None:
    for figure in (0.10664, 2.25409, 6.7401, 1.3229, 12345.6, 2.0904e-5, 0.5, 9.9991):
        assert figure <= float(script._up(figure)) * (1 + 1e-9) <= figure * 1.002
