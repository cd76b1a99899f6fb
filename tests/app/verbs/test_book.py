import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dpaudit import ZCDP, Claim, Ledger, Premise

Invoke = Callable[..., Result]


def test_a_budget_over_two_runs(dpaudit: Invoke, ledger_file: Callable[..., Path]) -> None:
    assert dpaudit("book", "open", "patients", "--rho", 1, "--unit", "row").exit_code == 0
    reserved = dpaudit("book", "reserve", "patients", "--rho", 0.75, "--note", "the first run")
    assert reserved.exit_code == 0
    name = reserved.stdout.strip()
    refused = dpaudit("book", "reserve", "patients", "--rho", 0.5)
    assert refused.exit_code == 1
    assert "DPA403" in refused.stderr
    assert refused.stdout == ""
    assert dpaudit("book", "spend", name, ledger_file(0.25, 0.25)).exit_code == 0
    second = dpaudit("book", "reserve", "patients", "--rho", 0.5)
    assert second.exit_code == 0
    assert dpaudit("book", "cancel", second.stdout.strip(), "--note", "never started").exit_code == 0

    (shown,) = json.loads(dpaudit("book", "show", "--output-format", "json").stdout)
    assert shown["remaining"] == {"kind": "zcdp", "rho": 0.5}
    assert [event["action"] for event in shown["events"]] == ["reserve", "spend", "reserve", "cancel"]
    text = dpaudit("book", "show", "patients", "--history", "--delta", 1e-5).stdout
    assert "epsilon at 1e-05" in text
    assert "the first run" in text
    assert max(map(len, text.split("\n"))) <= 80


def test_a_run_that_does_not_fit_exits_1(dpaudit: Invoke, ledger_file: Callable[..., Path]) -> None:
    dpaudit("book", "open", "patients", "--rho", 0.5, "--unit", "row", "--book", "my.sqlite")
    name = dpaudit("book", "reserve", "patients", "--rho", 0.5, "--book", "my.sqlite").stdout.strip()
    result = dpaudit("book", "spend", name, ledger_file(0.25, 0.5), "--book", "my.sqlite")
    assert result.exit_code == 1
    assert "do not publish" in result.stderr
    arguments = ("book", "spend", name, ledger_file(0.25, 0.5), "--published", "--book", "my.sqlite")
    assert dpaudit(*arguments).exit_code == 0


def test_wrong_words_exit_2(dpaudit: Invoke, refusal: Any) -> None:
    dpaudit("book", "open", "patients", "--mu", 1, "--unit", "row")
    for arguments in (
        ("reserve", "patients"),
        ("reserve", "patients", "--rho", 0.1),
        ("reserve", "patients", "--mu", "nan"),
        ("reserve", "patients", "--mu", -1),
        ("reserve", "nobody", "--mu", 0.1),
        ("reserve", "patients", "--mu", 0.1, "--rho", 0.1),
        ("spend", "0000"),
        ("spend", "0000", "absent.jsonl"),
        ("cancel", "0000", "--note", "x"),
        ("open", "patients", "--mu", 1, "--unit", "row"),
        ("show", "--delta", 2),
        ("show", "--book", "mysql://x/y"),
    ):
        refusal("book", *arguments)


def test_a_book_that_is_not_there_is_not_made(refusal: Any) -> None:
    for arguments in (
        ("show",),
        ("reserve", "patients", "--rho", 0.1),
        ("spend", "0000"),
        ("cancel", "0000", "--note", "x"),
    ):
        assert "no budget book" in refusal("book", *arguments, "--book", "typo.sqlite")
        assert not Path("typo.sqlite").exists()


def test_words_and_addresses_that_name_nothing(dpaudit: Invoke) -> None:
    for arguments in (
        ("open", "patients", "--rho", 1, "--unit", ""),
        ("open", "pat\udcffients", "--rho", 1, "--unit", "row"),
        ("open", "patients", "--rho", -0.0, "--unit", "row"),
        ("open", "patients", "--rho", 1, "--unit", "row", "--book", ":memory:"),
        ("open", "patients", "--rho", 1, "--unit", "row", "--book", "sqlite://"),
    ):
        result = dpaudit("book", *arguments)
        assert result.exit_code == 2, arguments
        assert "error: DPA10" in result.stderr
        assert "fault in dpaudit" not in result.stderr


def test_a_run_whose_premise_fails_is_not_spent(
    dpaudit: Invoke, refusal: Any, ledger_file: Callable[..., Path], tmp_path: Path
) -> None:
    """The way out that the message names works."""
    source = Ledger.read(ledger_file(0.25))
    failing = Premise(name="records", left=100, relation=">=", right=1000, source="Theorem 1")
    claim = Claim(ZCDP(rho=0.5), premises=(failing,))
    ledger = Ledger(source.header.model_copy(update={"claim": claim}))
    ledger.append(source.releases[0])
    ledger.finish()
    dpaudit("book", "open", "patients", "--rho", 1, "--unit", "row")
    name = dpaudit("book", "reserve", "patients", "--rho", 0.5).stdout.strip()
    refused = refusal("book", "spend", name, ledger.write(tmp_path / "premised.jsonl"))
    assert "records: 100 >= 1000" in refused
    assert "spend the reservation without the ledger" in refused
    assert dpaudit("book", "spend", name).exit_code == 0


def test_a_budget_stated_with_a_delta_is_the_most_rho_that_keeps_it(dpaudit: Invoke) -> None:
    opened = dpaudit("book", "open", "patients", "--epsilon", 2, "--delta", 1e-6, "--unit", "row")
    assert opened.exit_code == 0, opened.stderr
    assert "is the most that proves (2, 1e-06)-DP of all runs together" in opened.stderr
    (shown,) = json.loads(dpaudit("book", "show", "--output-format", "json").stdout)
    rho = shown["budget"]["rho"]

    def epsilon(rho: float) -> float:
        """Canonne, Kamath and Steinke 2020, Proposition 12, over a ladder of orders."""
        orders = (1.0 + 1.5 ** (step / 100) / 100 for step in range(4000))
        tail = math.log(1e6)
        return min(rho * a + (tail - math.log(a)) / (a - 1) + math.log1p(-1 / a) for a in orders)

    assert epsilon(rho) == pytest.approx(2.0, rel=1e-4)
    converted = json.loads(
        dpaudit("convert", "--rho", rho, "--delta", 1e-6, "--output-format", "json").stdout
    )
    assert converted["rows"][0]["figure"] <= 2.0
    for wrong in (["--delta", 1e-6], ["--epsilon", 2, "--delta", 0], ["--rho", 1, "--delta", 1e-6]):
        assert dpaudit("book", "open", "others", *wrong, "--unit", "row").exit_code == 2
    assert dpaudit("book", "reserve", "patients", "--rho", 2 * rho).exit_code == 1
