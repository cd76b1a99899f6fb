import json
from pathlib import Path
from typing import Any

import pytest

from dpaudit import Ledger
from dpaudit.mechanisms import OWN_KINDS
from tests import make


def test_show_a_whole_ledger(answer: Any, dpaudit: Any, ledger_file: Any) -> None:
    path = ledger_file(0.25, 0.125, claimed=0.25)
    result = dpaudit("ledger", "show", path)
    assert result.exit_code == 0
    assert "hand-made per row (replace-one, central)" in result.stdout
    assert "query 1" in result.stdout
    assert "sigma=2" in result.stdout
    assert "2 releases" in result.stdout
    status, found = answer("ledger", "show", path)
    assert (status, found["complete"], found["hashed"]) == (0, True, True)
    assert found["hash"] == Ledger.read(path).hash
    assert [release["label"] for release in found["releases"]] == ["query 0", "query 1"]


def test_show_says_what_is_missing(dpaudit: Any, ledger_file: Any) -> None:
    path: Path = ledger_file(0.25)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:10])
    result = dpaudit("ledger", "show", path)
    assert (result.exit_code, "truncated" in result.stdout) == (0, True)
    path.write_text(
        "".join(
            json.dumps({name: value for name, value in json.loads(line).items() if name != "hash"}) + "\n"
            for line in lines
        )
    )
    result = dpaudit("ledger", "show", path)
    assert (result.exit_code, "unhashed" in result.stdout) == (0, True)
    result = dpaudit("ledger", "check", path)
    assert (result.exit_code, "DPA203" in result.stderr) == (2, True)


def test_show_refuses_an_edited_ledger(dpaudit: Any, ledger_file: Any) -> None:
    path: Path = ledger_file(0.25)
    path.write_bytes(path.read_bytes().replace(b"query 0", b"query 7"))
    assert dpaudit("ledger", "show", path).exit_code == 3


def test_check(dpaudit: Any, ledger_file: Any, tmp_path: Path) -> None:
    path = ledger_file(0.25)
    result = dpaudit("ledger", "check", path)
    assert result.exit_code == 0
    assert Ledger.read(path).hash in result.stdout
    assert dpaudit("ledger", "check", tmp_path).exit_code == 2
    assert dpaudit("ledger", "check", tmp_path / "nowhere").exit_code == 2


def test_a_long_ledger_is_shortened_but_never_its_faults(
    dpaudit: Any, ledger_file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpaudit import ZCDP

    ledger = Ledger.read(ledger_file(*[0.001] * 200))
    wrong = make.release(make.gaussian(1.0), label="too costly", claimed=ZCDP(rho=0.1))
    path = make.ledger(*ledger.releases, wrong, **dict(ledger.header)).write("longer.jsonl")
    monkeypatch.setenv("COLUMNS", "120")
    result = dpaudit("verify", path)
    assert result.exit_code == 1
    assert "too costly" in result.stdout
    assert "query # (200)" in result.stdout.replace("\n", " ")
    assert "201 releases" in result.stdout
    assert "161 more" in dpaudit("ledger", "show", path).stdout


def test_labels_cannot_command_the_terminal(dpaudit: Any, ledger_file: Any) -> None:
    ledger = Ledger.read(ledger_file(0.25))
    red = make.release(ledger.releases[0].mechanism, label="[red]\x1b[2J\u202e[/]")
    other = make.ledger(red, **dict(ledger.header))
    text = dpaudit("ledger", "show", other.write("other.jsonl")).stdout
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[red]" in text


def test_list(answer: Any, dpaudit: Any) -> None:
    text = dpaudit("list").stdout
    for name in ("dp-apvi", "treatment", "frozen-lake", "gaussian", "laplace", "certify"):
        assert name in text
    assert max(map(len, text.splitlines())) <= 80
    status, found = answer("list")
    assert status == 0
    assert set(found) == {"algorithms", "data", "mechanisms", "verbs", "parameters"}
    assert all(found["data"].values())


def test_list_mechanisms(answer: Any, dpaudit: Any) -> None:
    rows = [row for row in dpaudit("list", "mechanisms").stdout.splitlines() if row[:1].isalpha()]
    assert [row.split()[0] for row in rows] == ["mechanism", *OWN_KINDS]
    _, found = answer("list", "mechanisms")
    assert list(found) == list(OWN_KINDS)
    assert found["gaussian"]["drawn_by"] == "release"
    assert "Did you mean mechanisms?" in dpaudit("list", "mechanism").stderr


def test_list_names_every_parameter(dpaudit: Any, answer: Any) -> None:
    from dpaudit.algorithms.catalogue import CATALOGUE

    _, found = answer("list")
    for name, builtin in CATALOGUE.items():
        assert set(found["parameters"][name]) == set(builtin.parameters)
    assert "failure_probability" in dpaudit("list").stdout
    assert "dpaudit list" in dpaudit("certify", "--help").stdout


def test_limits_prints_all_that_a_terminal_counts(dpaudit: Any, answer: Any, ledger_file: Any) -> None:
    from dpaudit import Certificate, account, judge
    from dpaudit.app.text.conditions import sentences

    path: Path = ledger_file(0.25)
    ledger = Ledger.read(path)
    judge(ledger, account(ledger), [], command="c").write(path.with_name("certificate.json"))
    made = Certificate.read(path.with_name("certificate.json"))
    stated = [one.to_json() for one in made.not_checked]
    assert len(stated) > 3
    for named in (path.parent, path.with_name("certificate.json")):
        said = " ".join(dpaudit("limits", named).stdout.split())
        places = [said.index(words) for words in sentences(made.not_checked)]
        assert places == sorted(places)
        assert places[0] < said.index("Not checked: general") < places[-1]
        assert answer("limits", named) == (0, stated)
    proof = [one.to_json() for one in account(ledger).not_checked]
    assert answer("limits", path) == (0, proof)
    assert dpaudit("limits", path.with_name("none.json")).exit_code == 2


def test_limits_alone_explains_every_condition(dpaudit: Any, answer: Any) -> None:
    from dpaudit.certificate.conditions import Code

    text = dpaudit("limits").stdout
    assert max(map(len, text.splitlines())) <= 80
    assert all(str(code) in text.replace("\n", "") for code in Code)
    status, found = answer("limits")
    assert (status, list(found)) == (0, list(Code))
    assert found["all-releases"]["general"]
