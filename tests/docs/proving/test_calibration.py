"""What docs/proving/calibration.md shows is what happens."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit import L2, Gaussian, Release
from dpaudit.app.main import main
from tests import make
from tests.sweeps import sweep

PAGE = (Path(__file__).parents[3] / "docs" / "proving" / "calibration.md").read_text(encoding="utf-8")


def test_the_snippet_gives_what_its_comments_say() -> None:
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(snippet, names)  # noqa: S102  (the page's own code)
    shown = re.search(r"# (4\.22[0-9]+)\.\.\.", snippet)
    assert shown is not None
    found = names["calibrate"](
        names["Gaussian"](sigma=1.0, sensitivity=names["L2"](1.0)), names["ApproxDP"](epsilon=1.0, delta=1e-6)
    )
    assert str(found.value).startswith(shown[1])
    assert [share.rho for share in names["split"](names["ZCDP"](rho=1.0), [1, 1, 2])] == [0.25, 0.25, 0.5]


@pytest.mark.nightly
def test_the_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    ledger_of({"label": "x", "mechanism": Gaussian(sigma=2.0, sensitivity=L2(1.0))}, Path("out"))
    (block,) = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
    commands = [line.split()[2:] for line in block.splitlines()]
    assert len(commands) == 4
    for command in commands:
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output
        assert ("all noise times " if "out/ledger.jsonl" in command else "least ") in result.stdout


def ledger_of(release: dict[str, Any], folder: Path) -> Path:
    """The file ledger.jsonl of one release."""
    return make.ledger(Release.model_validate(release)).write(folder / "ledger.jsonl")


def answer(*words: str) -> Any:
    return json.loads(CliRunner().invoke(main, [*words, "--delta", "1e-6", "--output-format", "json"]).stdout)


@sweep(
    "options, low, high, width",
    re.findall(r"^\| `(.*)` \| ([\d.]+), ([\d.]+) \| ([\d.e-]+) \|$", PAGE, re.MULTILINE),
    everyday=(0,),
)
def test_a_row_of_the_enclosures_is_what_is_printed(
    options: str, low: str, high: str, width: str, tmp_path: Path
) -> None:
    found = answer("epsilon", *options.split())
    (bound,) = (one for one in found["bounds"] if one["accountant"] == "pld")
    assert 1 - bound["at_least"] / bound["epsilon"] == pytest.approx(float(width), rel=0.05)
    (release,) = found["releases"]
    ledger = ledger_of({name: release[name] for name in ("label", "mechanism", "count")}, tmp_path)
    (ball,) = answer("verify", str(ledger), "--rigour", "interval", "--epsilon", "3")["bounds"]
    ends = ball["at_least"], ball["epsilon"]
    assert (float(low), float(high)) == pytest.approx(ends, rel=0.0, abs=ends[1] - ends[0])
