import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import opendp.mod
import opendp.prelude as dp
import pytest
from click.testing import Result
from diffprivlib import BudgetAccountant

DATA = Path(__file__).parents[2] / "data"

Import = Callable[..., Result]


@pytest.fixture
def imports(dpaudit: Any, tmp_path: Path) -> Import:
    """`dpaudit import` of a value written as JSON, or of text or bytes written as they are."""

    def call(content: Any, *options: object, unit: str = "row") -> Result:
        source = tmp_path / "source"
        if isinstance(content, bytes):
            source.write_bytes(content)
        else:
            source.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        result: Result = dpaudit("import", source, "-o", tmp_path / "ledger.jsonl", "--unit", unit, *options)
        written = (tmp_path / "ledger.jsonl").exists()
        assert written == (result.exit_code == 0), result.output
        return result

    return call


def verdict(dpaudit: Any, ledger: Path, *options: object) -> dict[str, Any]:
    result = dpaudit("verify", ledger, "--allow-unhashed", "--output-format", "json", *options)
    assert result.exit_code in {0, 1}, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_recorded_history_of_opacus(dpaudit: Any, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    source = DATA / "opacus_1.6.0_rdp.json"
    result = dpaudit("import", source, "-o", ledger, "--unit", "image")
    assert result.exit_code == 0, result.output
    assert result.stdout.replace("\n", "").endswith("ledger.jsonl: 1 release, 10000 runs")
    assert "poisson_sampling=False" in result.stderr
    # The truth is 6.907384495.
    assert verdict(dpaudit, ledger, "--epsilon", 6.90739, "--delta", 1e-6)["verdict"] == "PROVED"
    refused = verdict(dpaudit, ledger, "--epsilon", 6.90738, "--delta", 1e-6)
    assert refused["verdict"] == "NOT_PROVED"
    assert refused["certifiable"] is False


def test_a_verdict_repeats_what_the_record_does_not_show(dpaudit: Any, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    dpaudit("import", DATA / "opacus_1.6.0_rdp.json", "-o", ledger, "--unit", "image")
    said = str(verdict(dpaudit, ledger, "--epsilon", 8, "--delta", 1e-6)["not_checked"])
    for condition in ("gradient accumulation", "AdaClip", "Poisson samples"):
        assert condition in said
    for odd in ("a word", 3, [3, {}], {"a": 1}):
        header, *releases = ledger.read_text(encoding="utf-8").splitlines()
        record = json.loads(header)
        record["parameters"]["taken on trust"] = odd
        (tmp_path / "odd.jsonl").write_text("\n".join([json.dumps(record), *releases, ""]), encoding="utf-8")
        assert verdict(dpaudit, tmp_path / "odd.jsonl", "--epsilon", 8, "--delta", 1e-6)["not_checked"]


def test_without_permission_it_is_not_read(dpaudit: Any, refusal: Any, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    dpaudit("import", DATA / "opacus_1.6.0_rdp.json", "-o", ledger, "--unit", "image")
    assert "--allow-unhashed" in refusal("verify", ledger, "--epsilon", 8, "--delta", 1e-6)
    shown = dpaudit("ledger", "show", ledger)
    assert "never certifiable" in shown.stdout
    strict = dpaudit("verify", ledger, "--allow-unhashed", "--strict", "--epsilon", 8, "--delta", 1e-6)
    assert strict.exit_code == 4


def test_a_measurement_of_opendp(dpaudit: Any, imports: Import, tmp_path: Path) -> None:
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    sums = space >> dp.t.then_clamp((0, 5)) >> dp.t.then_sum() >> dp.m.then_laplace(scale=5.0)
    dp.disable_features("contrib")
    written = opendp.mod.serialize(sums)
    result = imports(written, "--neighbouring", "replace-one", "--count", 3)
    assert result.exit_code == 0, result.output
    assert "1 release, 3 runs" in result.stdout
    assert verdict(dpaudit, tmp_path / "ledger.jsonl", "--epsilon", 6)["verdict"] == "PROVED"
    assert verdict(dpaudit, tmp_path / "ledger.jsonl", "--epsilon", 5.99)["verdict"] == "NOT_PROVED"


def test_a_distance_that_no_double_is(imports: Import, tmp_path: Path) -> None:
    dp.enable_features("contrib")
    measurement = dp.m.make_laplace(dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), scale=1.0)
    dp.disable_features("contrib")
    options = ("--neighbouring", "replace-one", "--d-in")
    result = imports(opendp.mod.serialize(measurement), *options, 2**53 + 1)
    assert result.exit_code == 0, result.output
    header, release = map(json.loads, (tmp_path / "ledger.jsonl").read_text().splitlines())
    assert header["parameters"]["d_in"] == 2**53 + 2  # the next number that a ledger can hold
    assert release["mechanism"]["sensitivity"]["value"] >= 2**53 + 1


def test_a_budget_of_diffprivlib(dpaudit: Any, imports: Import, tmp_path: Path) -> None:
    spent = BudgetAccountant(spent_budget=[(0.5, 0), (0.5, 0), (1.0, 0)]).spent_budget
    for content, named in (({"spent_budget": spent}, ()), (spent, ("--from", "diffprivlib"))):
        result = imports(content, "--neighbouring", "replace-one", *named)
        assert result.exit_code == 0, result.output
        assert "2 releases, 3 runs" in result.stdout
        assert verdict(dpaudit, tmp_path / "ledger.jsonl", "--epsilon", 2)["verdict"] == "PROVED"
        (tmp_path / "ledger.jsonl").unlink()


OPACUS = {"history": [[1.0, 0.1, 5]], "mechanism": "rdp"}
SPENT = {"spent_budget": [[1.0, 0]]}


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("", [], "neither a checkpoint nor JSON"),
        ("{", [], "neither a checkpoint nor JSON"),
        (b"\xff\xfe\x00", [], "neither a checkpoint nor JSON"),
        ("[" * 100_000, [], "neither a checkpoint nor JSON"),
        ('{"history": [[NaN, 0.1, 5]]}', [], "NaN"),
        ('{"history": [[1e999, 0.1, 5]]}', [], "history[0]"),
        ('{"history": [], "history": [[1.0, 0.1, 5]]}', [], "repeated"),
        ({}, [], "--from"),
        ([[1.0, 0]], [], "--from"),
        ("3", [], "--from"),
        ({**OPACUS, **SPENT}, [], "diffprivlib and of opacus"),
        (SPENT, [], "--neighbouring"),
        ({"__function__": "make_laplace"}, [], "--neighbouring"),
        ('{"spent_budget": [[1.0, 1e-400]]}', ["--neighbouring", "zero-out"], "1e-400"),
        ('{"spent_budget": [[-0.00001e-400, 0]]}', ["--neighbouring", "zero-out"], "-0.00001e-400"),
        ({**OPACUS, "privacy_accountant_state_dict": OPACUS}, [], "two histories"),
        (OPACUS, ["--neighbouring", "replace-one"], "add-or-remove-one"),
        (OPACUS, ["--d-in", "1"], "--d-in"),
        (SPENT, ["--count", "2", "--neighbouring", "replace-one"], "--count"),
        (OPACUS, ["--from", "diffprivlib", "--neighbouring", "replace-one"], "spent_budget"),
        (SPENT, ["--from", "opacus"], "no history"),
        ([1], ["--from", "opendp", "--neighbouring", "replace-one"], "a list where"),
        (OPACUS, ["--from", "opendp", "--neighbouring", "replace-one"], "no constructor"),
        ({"history": [[1.0, 0.1, 5], [0, 0.1, 5]]}, [], "history[1]"),
        ({"spent_budget": [[1.0, 0], [-1.0, 0]]}, ["--neighbouring", "zero-out"], "spent_budget[1]"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(
    imports: Import, content: Any, options: list[str], said: str
) -> None:
    result = imports(content, *options)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "fault in dpaudit" not in result.stderr
    assert "  do:  " in result.stderr
    assert result.stderr.count("error: ") == 1


def test_an_older_ledger_survives_a_failed_import(dpaudit: Any, tmp_path: Path) -> None:
    ledger, source = tmp_path / "ledger.jsonl", tmp_path / "source.json"
    ledger.write_text("older", encoding="utf-8")
    source.write_text(json.dumps({"history": [[-1.0, 0.1, 5]]}), encoding="utf-8")
    assert dpaudit("import", source, "-o", ledger, "--unit", "row").exit_code == 2
    assert ledger.read_text(encoding="utf-8") == "older"


@pytest.mark.parametrize("source", ["missing.json", "."])
def test_a_source_that_cannot_be_read(dpaudit: Any, tmp_path: Path, source: str) -> None:
    result = dpaudit("import", tmp_path / source, "-o", tmp_path / "ledger.jsonl", "--unit", "row")
    assert result.exit_code == 2
    assert str(tmp_path) in result.stderr.replace("\n", "")


def test_a_folder_that_is_not_there(refusal: Any, tmp_path: Path) -> None:
    source = DATA / "opacus_1.6.0_rdp.json"
    assert "not a folder" in refusal(
        "import", source, "-o", tmp_path / "none" / "ledger.jsonl", "--unit", "row"
    )


def test_the_unit_must_be_stated(refusal: Any, tmp_path: Path) -> None:
    assert "--unit" in refusal("import", DATA / "opacus_1.6.0_rdp.json", "-o", tmp_path / "ledger.jsonl")
    assert not (tmp_path / "ledger.jsonl").exists()


def test_a_checkpoint_needs_torch_and_says_so(imports: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    for first in (b"PK\x03\x04rest", b"\x80\x02rest"):
        result = imports(first)
        assert result.exit_code == 2
        assert "dpaudit[opacus]" in result.stderr
