"""What docs/proving/dp-accounting.md shows is what happens."""

import doctest
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpaudit.app.main import main

DOCS = Path(__file__).parents[3] / "docs"


def test_the_session_prints_what_it_shows() -> None:
    page = DOCS / "proving" / "dp-accounting.md"
    results = doctest.testfile(str(page), module_relative=False)
    assert results.attempted > 8
    assert results.failed == 0


@pytest.mark.nightly
def test_its_line_of_opinion_is_what_certify_prints() -> None:
    own = (DOCS / "proving" / "dp-accounting.md").read_text(encoding="utf-8")
    [line] = [line for line in own.splitlines() if line.startswith("second opinion")]
    printed = CliRunner().invoke(main, ["certify", "dp-apvi", "--second-opinion"])
    assert line in printed.stdout.splitlines()
