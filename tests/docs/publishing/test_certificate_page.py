"""The page on certificates: its statement is a whole one, and every condition stands there in its words."""

from __future__ import annotations

import re
from pathlib import Path

from dpaudit.app.text.conditions import SENTENCES
from dpaudit.certificate.statement import NOT_STATED, Statement

PAGE = Path(__file__).parents[3] / "docs" / "publishing" / "certificate.md"


def test_the_example_is_a_whole_statement(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "s.toml").write_text(example, encoding="utf-8")
    found = Statement.read(tmp_path / "s.toml").to_json()
    assert set(found) == set(Statement.model_fields)
    assert NOT_STATED not in found.values()


def test_every_condition_is_listed_in_the_words_that_are_shown() -> None:
    page = PAGE.read_text(encoding="utf-8").partition("## What was not checked")[2].partition("\n## ")[0]
    assert dict(re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", page, flags=re.MULTILINE)) == SENTENCES
