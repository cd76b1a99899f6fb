"""What docs/proving/calibration.md shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit.app.main import main

PAGE = (Path(__file__).parents[3] / "docs" / "proving" / "calibration.md").read_text(encoding="utf-8")


def test_the_snippet_gives_what_its_comments_say() -> None:
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(snippet, names)  # noqa: S102  (the page's own code)
    shown = re.search(r"# (4\.22[0-9]+)\.\.\.", snippet)
    assert shown is not None
    found = names["calibrate"](
        names["Gaussian"](sigma=1.0, sensitivity=names["L2"](1.0)),
        names["ApproxDP"](epsilon=1.0, delta=1e-6),
    )
    assert str(found.value).startswith(shown[1])
    assert [share.rho for share in names["split"](names["ZCDP"](rho=1.0), [1, 1, 2])] == [0.25, 0.25, 0.5]


@pytest.mark.nightly
def test_the_commands_work() -> None:
    (block,) = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
    commands = [line.split()[2:] for line in block.splitlines() if "ledger.jsonl" not in line]
    assert len(commands) == 3
    for command in commands:
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output
        assert "least " in result.stdout
