"""The page on certificates: its statement, its conditions and its comparison are those of the code."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpaudit import L2, ZCDP, Claim, Gaussian, Header, Ledger, Release, account, judge
from dpaudit.app.main import main
from dpaudit.certificate.conditions import Code
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
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*) \| (.*) \|$", page, flags=re.MULTILINE)
    assert rows == [(str(code), code.when, code.sentence) for code in Code]


def ledger(**releases: tuple[float, int]) -> Ledger:
    """Gaussian noise of some sigma on so many queries of sensitivity 1."""
    about = Header(algorithm="weekly", unit="row", neighbouring="replace-one", claim=Claim(ZCDP(rho=0.5)))
    made = Ledger(about)
    for label, (sigma, count) in releases.items():
        noise = Gaussian(sigma=sigma, sensitivity=L2(1.0))
        made.append(Release(label=label, mechanism=noise, count=count))
    made.finish()
    return made


def test_the_comparison_prints_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    ledger(counts=(2.0, 1), sums=(2.0, 2)).write(tmp_path / "main.json")
    head = ledger(counts=(1.5, 1), more=(3.0, 1), sums=(2.0, 1))
    judge(head, account(head), [], command="c").write(tmp_path / "head.json")
    (block,) = re.findall(
        r"```console\n\$ dpaudit (.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL
    )
    command, _, shown = block.partition("\n")
    assert CliRunner().invoke(main, command.split()).stdout == shown
