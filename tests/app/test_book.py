from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

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


def test_wrong_words_exit_2(dpaudit: Invoke) -> None:
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
        result = dpaudit("book", *arguments)
        assert result.exit_code == 2, arguments
        assert result.stdout == ""


def test_an_empty_book_says_so(dpaudit: Invoke) -> None:
    result = dpaudit("book", "show")
    assert result.exit_code == 0
    assert "no accounts" in result.stderr
