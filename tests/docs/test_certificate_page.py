"""The statement that the page on certificates shows can be given as it is."""

from __future__ import annotations

import re
from pathlib import Path

from dpaudit.certificate.statement import NOT_STATED, Statement

PAGE = Path(__file__).parents[2] / "docs" / "certificate.md"


def test_the_example_is_a_whole_statement(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "s.toml").write_text(example, encoding="utf-8")
    found = Statement.read(tmp_path / "s.toml").to_json()
    assert set(found) == set(Statement.model_fields)
    assert NOT_STATED not in found.values()
