"""The worked diffs of the pages on extending dpaudit apply to the code as it stands."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "extending").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_worked_diff_applies(page: Path) -> None:
    (diff,) = re.findall(r"```diff\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    checked = subprocess.run(
        ["git", "apply", "--check", "--verbose", "-"],  # noqa: S607  (git from the path)
        cwd=ROOT,
        input=diff,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


def test_there_is_a_page_for_each() -> None:
    assert [page.stem for page in PAGES] == ["accountant", "algorithm", "auditor", "mechanism"]
