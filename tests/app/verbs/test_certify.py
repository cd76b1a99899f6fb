import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit import Certificate, Ledger

pytestmark = pytest.mark.usefixtures("undrawn")
Mine = Callable[[str], str]


def test_own_algorithm_proved_and_not_refuted(dpaudit: Any, mine: Mine, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    result = dpaudit(
        "certify", mine("sums"), "--pair", mine("pair"), "--rho", 0.125, "--unit", "row", "-o", out
    )
    assert result.exit_code == 0, result.output
    assert "chatter" not in result.stdout  # what an algorithm prints is no part of the answer
    assert "audit NOT_REFUTED by replay on 1 pair of neighbouring data, audit seed 0" in result.stdout
    assert "PROVED" in result.stdout
    assert "1e-06)-DP by gdp" in result.stdout
    assert str(out / "certificate.json") in result.stdout
    assert max(len(line) for line in result.stdout.splitlines() if not line.startswith("written")) <= 80
    ledger, certificate = Ledger.read(out / "ledger.jsonl"), Certificate.read(out / "certificate.json")
    assert str(ledger.claim) == "0.125-zCDP per row (replace-one, central)"
    assert certificate.ledger_hash == ledger.hash
    assert certificate.publishable
    assert certificate.command.startswith("dpaudit certify ")
    assert certificate.command.endswith(f"-o {out}")
    assert dpaudit("verify", out / "ledger.jsonl").exit_code == 0
    assert dpaudit("ledger", "check", out / "ledger.jsonl").exit_code == 0
    assert dpaudit("report", out, "--format", "md").stdout.startswith("# Privacy of ")


def test_builtin_certifies_and_verifies(answer: Any, dpaudit: Any, tmp_path: Path) -> None:
    status, found = answer("certify", "dp-apvi", "-P", "rho=0.5", "-o", tmp_path)
    assert status == 0
    assert (found["proof"], found["experiment"]) == ("PROVED", "NOT_REFUTED")
    assert found["claim"]["guarantee"] == {"kind": "zcdp", "rho": 0.5}
    assert "suboptimality" in found["utility"]
    written = json.loads((tmp_path / "certificate.json").read_bytes())
    assert written == {name: value for name, value in found.items() if name != "utility"}
    assert dpaudit("verify", tmp_path / "ledger.jsonl", "--rho", 0.5).exit_code == 0
    assert dpaudit("verify", tmp_path / "ledger.jsonl", "--rho", 0.49).exit_code == 1


def test_a_smaller_claim_than_the_noise_carries_is_not_proved(answer: Any) -> None:
    status, found = answer("certify", "dp-apvi", "--rho", 0.99)
    assert (status, found["proof"]) == (1, "NOT_PROVED")


def test_gaussian_noise_under_a_claim_of_pure_dp_hints_at_delta(dpaudit: Any) -> None:
    pure = dpaudit("certify", "dp-apvi", "--epsilon", 7)
    assert pure.exit_code == 1
    assert "add --delta to claim (epsilon, delta)-DP" in " ".join(pure.stdout.split())


def test_a_release_over_its_own_claim_explains_the_exit_code(dpaudit: Any, mine: Mine, module: Any) -> None:
    own = module(
        "from dpaudit import L2, ZCDP, Gaussian\n"
        "def sums(data, curator):\n"
        "    noise = Gaussian(sigma=4.0, sensitivity=L2(2.0))\n"
        "    return curator.release_sum(\n"
        '        data, bound=1.0, mechanism=noise, label="x", claimed=ZCDP(rho=0.1)\n'
        "    )\n"
    )
    words = "the total is proved, but a release's own claim is not, so the command fails"
    target = (own("sums"), "--pair", mine("pair"), "--unit", "row")
    told = dpaudit("certify", *target, "--rho", 0.5)
    assert (told.exit_code, words in " ".join(told.stdout.split())) == (1, True)
    both = dpaudit("certify", *target, "--rho", 0.12)
    assert (both.exit_code, words in " ".join(both.stdout.split())) == (1, False)


@pytest.mark.usefixtures("few_runs", "own_processes", "runs_in_threads")
def test_the_holder_of_rows_without_a_unit_is_told_the_column_and_what_to_do(
    dpaudit: Any, tmp_path: Path
) -> None:
    """Its twin has no rows: on stdout and in files, that the two part is all that may be known."""
    (tmp_path / "report.py").write_text(
        "from dpaudit import ZCDP, Claim\n"
        "def weekly(visits, curator):\n"
        "    table = curator.table(visits, unit='patient').bound(rows_per_unit=2)\n"
        "    return table.count(cost=ZCDP(rho=0.1))\n"
        "weekly.claim = Claim(ZCDP(rho=0.1), unit='patient', neighbouring='add-or-remove-one')\n"
    )
    (tmp_path / "visits.csv").write_text("patient,ward\na,ICU\n,ER\nb,ER\n")
    command = ("certify", f"{tmp_path}/report.py:weekly", "--data", f"{tmp_path}/visits.csv?patient=text")
    quiet = dpaudit(*command)
    told = dpaudit(*command, "--show-target-errors")
    assert quiet.exit_code == told.exit_code == 1
    assert "1 row" not in quiet.output
    assert "--show-target-errors shows what" in quiet.stderr
    assert "1 row has no 'patient'" in told.stderr
    assert "leave these rows out before" in told.stderr
    assert "1 row" not in told.stdout


def test_without_folder_nothing_is_written(dpaudit: Any, mine: Mine, tmp_path: Path) -> None:
    mine("sums")
    before = set(tmp_path.rglob("*.json*"))
    result = dpaudit("certify", mine("frozen"), "--pair", mine("pair"))
    assert result.exit_code == 0
    assert "nothing was written" in result.stdout
    assert set(tmp_path.rglob("*.json*")) == before


def test_an_attribute_claim_worst_pairs_and_utility_are_used(
    answer: Any, dpaudit: Any, mine: Mine, tmp_path: Path
) -> None:
    np.save(tmp_path / "data.npy", np.eye(7, 3))
    status, found = answer("certify", mine("frozen"), "--data", tmp_path / "data.npy", "--seed", 5)
    assert status == 0
    assert found["unit"] == "user"
    assert found["audits"][0]["seed"] == 5
    assert not found["publishable"]
    assert found["utility"]["undefined"] is None
    assert found["utility"]["norm"] > 0
    _, again = answer("certify", mine("frozen"), "--data", tmp_path / "data.npy", "--seed", 5)
    assert again["utility"] == found["utility"]


@pytest.mark.parametrize(
    ("name", "rho", "options", "reason"),
    [
        ("sums", 0.5, (), ""),
        ("sums", 0.5, ("--seed", 1), "its noise came from a known seed"),
        ("sums", 0.1, (), "its claim is not proved"),
        ("unclipped", 0.5, (), "an audit refuted its claim or its ledger"),
    ],
)
def test_only_a_proved_unrefuted_unseeded_run_may_be_published(
    dpaudit: Any, mine: Mine, tmp_path: Path, name: str, rho: float, options: tuple[Any, ...], reason: str
) -> None:
    pair = ("--pair", mine("pair"), "--rho", rho)
    result = dpaudit("certify", mine(name), *pair, *options, "-o", tmp_path / "out")
    found = json.loads((tmp_path / "out" / "certificate.json").read_text())
    page = dpaudit("report", tmp_path / "out" / "certificate.json", "--format", "md").stdout
    assert found["publishable"] == (not reason)
    assert (f"do not publish it: {reason}" in " ".join(result.stdout.split())) == bool(reason)
    answer = next(line for line in page.splitlines() if "be published?" in line)
    expected = f"no: {reason}" if reason else "yes, if everything under Not checked is true"
    assert expected in answer or (reason and reason in answer), answer


def test_a_release_that_costs_more_than_claimed_for_it(dpaudit: Any, mine: Mine) -> None:
    result = dpaudit("certify", mine("overclaimed"), "--pair", mine("pair"), "--rho", 1)
    assert result.exit_code == 1
    assert "claimed 0.1, computed 0.125: 1.25 times" in result.stdout


@pytest.mark.parametrize(("name", "kind"), [("unclipped", "sensitivity"), ("leaky", "leak")])
def test_proved_on_paper_and_refuted_by_replay(answer: Any, mine: Mine, name: str, kind: str) -> None:
    status, found = answer("certify", mine(name), "--pair", mine("pair_object"), "--rho", 1)
    assert status == 1
    assert (found["proof"], found["experiment"]) == ("PROVED", "REFUTED")
    assert {finding["kind"] for finding in found["audits"][0]["findings"]} == {kind}


def test_a_failing_premise_is_listed(dpaudit: Any, mine: Mine) -> None:
    result = dpaudit("certify", mine("premised"), "--pair", mine("pair"))
    assert result.exit_code == 1
    assert "FAILS  enough rows: 5 >= 9" in result.stdout
    # Another figure on the command line does not make the premise true.
    assert dpaudit("certify", mine("premised"), "--pair", mine("pair"), "--rho", 50).exit_code == 1


def test_no_pair_leaves_the_audit_inconclusive(dpaudit: Any, mine: Mine, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,0\n0,1\n")
    command = ["certify", mine("sums"), "--data", tmp_path / "rows.csv", "--rho", 1]
    result = dpaudit(*command)
    assert result.exit_code == 0
    assert "audit INCONCLUSIVE" in result.stdout
    assert dpaudit(*command, "--strict").exit_code == 4


def test_outputs_that_cannot_be_compared(dpaudit: Any, mine: Mine) -> None:
    command = ["certify", mine("opaque"), "--pair", mine("pair"), "--rho", 1]
    assert dpaudit(*command).exit_code == 0
    result = dpaudit(*command, "--strict")
    assert result.exit_code == 4
    assert "generator" in result.stdout


def test_no_release_is_nothing_to_check(dpaudit: Any, mine: Mine, tmp_path: Path) -> None:
    result = dpaudit("certify", mine("silent"), "--pair", mine("pair"), "--rho", 1, "-o", tmp_path / "out")
    assert result.exit_code == 5
    assert "released nothing" in result.stderr
    assert not (tmp_path / "out" / "certificate.json").exists()


def test_a_second_run_replaces_the_first(dpaudit: Any, mine: Mine, tmp_path: Path) -> None:
    command = ["certify", mine("frozen"), "--pair", mine("pair"), "-o", tmp_path / "out"]
    assert dpaudit(*command).exit_code == 0
    first = (tmp_path / "out" / "ledger.jsonl").read_bytes()
    assert dpaudit(*command, "--rho", 3).exit_code == 0
    assert (tmp_path / "out" / "ledger.jsonl").read_bytes() != first


def test_no_certificate_outlives_its_ledger(dpaudit: Any, mine: Mine, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert dpaudit("certify", mine("frozen"), "--pair", mine("pair"), "-o", out).exit_code == 0
    again = ["certify", mine("failing"), "--pair", mine("pair"), "--rho", 1, "-o", out]
    assert dpaudit(*again).exit_code == 2
    assert not (out / "certificate.json").exists()


def test_a_file_where_the_folder_should_be(refusal: Any, mine: Mine, tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    assert "cannot be made a folder" in refusal(
        "certify", mine("frozen"), "--pair", mine("pair"), "-o", tmp_path / "out"
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["sums", "--rho", "1"], "no data to run on"),
        (["sums", "--pair", "pair"], "nothing is claimed"),
        (["sums", "--pair", "pair", "--unit", "row"], "--unit without a guarantee"),
        (["frozen", "--pair", "pair", "--unit", "row"], "its own claim is about 'user'"),
        (["frozen", "--pair", "pair", "--neighbouring", "zero-out"], "DPA401"),
        (["sums", "--pair", "pair", "--rho", "1", "--epsilon", "1"], "--epsilon and --rho at once"),
        (["sums", "--pair", "pair", "--rho", "1", "--mu", "1"], "--rho and --mu at once"),
        (["sums", "--pair", "pair", "--delta", "1e-6"], "--delta without --epsilon"),
        (["sums", "--pair", "pair", "--rho", "1", "--delta", "1e-6"], "--delta with --rho"),
        (["sums", "--pair", "pair", "--rho", "nan"], "not nan"),
        (["sums", "--pair", "pair", "--rho", "-1"], "DPA101"),
        (["sums", "--pair", "pair", "--epsilon", "1", "--delta", "1.5"], "DPA101"),
        (["failing", "--pair", "pair", "--rho", "1"], "KeyError"),
        (["leaving", "--pair", "pair", "--rho", "1"], "SystemExit"),
        (["badly_claimed", "--pair", "pair"], "carries a claim of type str"),
        (["sums", "--pair", "pair", "--rho", "1", "-P", "a=1"], "only built-in algorithms take parameters"),
        (["sums", "--pair", "no_pair", "--rho", "1"], "returned a list"),
        (["sums", "--pair", "failing_pair", "--rho", "1"], "RuntimeError while making the pair"),
        (["sums", "--pair", "number", "--rho", "1"], "not callable"),
        (["sums", "--data", "nowhere.csv", "--rho", "1"], "nowhere.csv is not there"),
    ],
)
def test_what_cannot_be_followed_exits_2(
    dpaudit: Any, mine: Mine, arguments: list[str], complaint: str
) -> None:
    own = {"pair", "no_pair", "failing_pair", "number"}
    target, *rest = arguments
    result = dpaudit("certify", mine(target), *(mine(word) if word in own else word for word in rest))
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    "parameter", ["unknown=1", "rho", "=1", "rho=abc", "rho=-1", "rho=nan", "failure_probability=x"]
)
def test_bad_parameters_of_a_builtin(refusal: Any, parameter: str) -> None:
    assert "DPA" in refusal("certify", "dp-apvi", "-P", parameter)


def test_a_parameter_given_twice(dpaudit: Any) -> None:
    assert "given twice" in dpaudit("certify", "dp-apvi", "-P", "rho=1", "-P", "rho=2").stderr


def test_the_output_is_kept_and_says_whether_it_may_go_further(
    dpaudit: Any, mine: Mine, tmp_path: Path
) -> None:
    command = ["certify", mine("frozen"), "--pair", mine("pair"), "-o", tmp_path / "out"]
    kept = tmp_path / "out" / "output.json"
    result = dpaudit(*command)
    assert f"written: {kept}\n" in result.stdout
    assert len(json.loads(kept.read_bytes())) == 3
    assert "do not publish it: its noise came from a known seed" in dpaudit(*command, "--seed", 1).stdout
    assert "its claim is not proved" in dpaudit(*command, "--rho", 0.01).stdout
    leaky = dpaudit("certify", mine("leaky"), "--pair", mine("pair"), "--rho", 1, "-o", tmp_path / "out")
    assert "an audit refuted its claim or its ledger" in leaky.stdout
    opaque = dpaudit("certify", mine("opaque"), "--pair", mine("pair"), "--rho", 1, "-o", tmp_path / "out")
    assert "not written" in opaque.stdout
    assert "output is a builtins.generator" in opaque.stdout
    assert not kept.exists()


def test_nothing_released_is_said_in_json_too(answer: Any, mine: Mine) -> None:
    status, found = answer("certify", mine("silent"), "--pair", mine("pair"), "--rho", 1)
    assert (status, found["proof"], found["releases"]) == (5, None, [])


def test_local_trust_needs_the_number_of_users(answer: Any, dpaudit: Any, refusal: Any, mine: Mine) -> None:
    local = [mine("local"), "--pair", mine("pair"), "--rho", 1, "--trust-model", "local"]
    status, found = answer("certify", *local, "--users", 5)
    assert (status, found["trust_model"], len(found["releases"])) == (0, "local", 1)
    status, found = answer("audit", *local, "--users", 5)
    assert (status, found["verdict"]) == (0, "NOT_REFUTED")
    assert "number of users" in dpaudit("certify", *local).stderr
    assert "users=5 under central trust" in refusal(
        "certify", mine("sums"), "--pair", mine("pair"), "--rho", 1, "--users", 5
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["dp-apvi", "-P", "rewards=rewards.csv"],
        ["dp-apvi", "-P", "dataset=treatment", "-P", "rewards=rewards.csv", "--data", "rows.csv"],
        ["dp-vapvi", "-P", "states=3"],
        ["dp-vapvi", "-P", "actions=3"],
        ["dp-vapvi", "-P", "K=3", "--data", "rows.csv"],
        ["dp-vapvi", "-P", "instance=3", "--data", "rows.csv"],
        ["dp-vapvi", "-P", "features=raw", "--data", "rows.csv"],
    ],
)
def test_a_parameter_that_would_do_nothing_is_refused(
    refusal: Any, tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "rows.csv").write_text("episode,step,state,action,reward\n")
    result = refusal("certify", *arguments)
    assert re.search(r"applies to (built-in|own) data only", result)


@pytest.mark.parametrize(
    "arguments",
    [["dp-apvi", "C2"], ["dp-apvi", "failure_probability"], ["dp-vapvi", "K"], ["dp-vapvi", "kappa"]],
)
def test_a_parameter_that_is_no_number_is_named(refusal: Any, arguments: list[str]) -> None:
    target, name = arguments
    result = refusal("certify", target, "-P", f"{name}=abc")
    assert f"DPA101 -P {name}: {name} = 'abc'" in result
    assert "mend it" not in result


def test_without_a_bound_on_its_scale_the_claim_is_followed_by_what_holds(dpaudit: Any) -> None:
    printed = dpaudit("certify", "dp-apvi", "--epsilon", 1).stdout
    assert "that is (" not in printed
    assert printed.index("-DP by gdp") < printed.index("no accountant has a finite bound")


def test_what_an_audit_has_tested_is_not_said_to_await_one(answer: Any, mine: Mine, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.eye(3))
    _, tested = answer("certify", mine("sums"), "--pair", mine("pair"), "--rho", 1)
    _, untested = answer("certify", mine("sums"), "--data", tmp_path / "rows.npy", "--rho", 1)
    _, unclear = answer("certify", mine("opaque"), "--pair", mine("pair"), "--rho", 1)
    for found, replayed in ((tested, True), (untested, False), (unclear, False)):
        assert {"code": "only-through-ledger", "replayed": replayed} in found["not_checked"]
        assert {"code": "only-through-ledger", "replayed": not replayed} not in found["not_checked"]


ADAPTIVE = """
from dpaudit import L2, Gaussian
from dpaudit.errors import BudgetExceeded

def adaptive(data, curator):
    total = 0.0
    while True:
        try:
            mechanism = Gaussian(sigma=2.0, sensitivity=L2(1.0))
            total += float(curator.release(float(data[0, 0]), mechanism, label="s"))
        except BudgetExceeded:
            return total
"""


def test_a_run_held_to_a_budget_is_certified_by_it(answer: Any, refusal: Any, tmp_path: Path) -> None:
    (tmp_path / "adaptive.py").write_text(ADAPTIVE)
    (tmp_path / "rows.csv").write_text("0.5\n0.25\n")
    target = ["certify", f"{tmp_path / 'adaptive.py'}:adaptive", "--data", tmp_path / "rows.csv"]
    status, found = answer(*target, "--rho", 0.5, "--budget-rho", 0.5, "--seed", 1, "-o", "out")
    assert status == 0
    assert [bound["method"] for bound in found["bounds"]] == ["budget"]
    header = json.loads((tmp_path / "out" / "ledger.jsonl").read_text().splitlines()[0])
    assert (header["schedule"], header["budget"]) == ("filtered", {"kind": "zcdp", "rho": 0.5})
    status, found = answer(*target, "--mu", 1, "--budget-mu", 1, "--seed", 1)
    assert status == 0
    # A budget larger than the claim proves nothing of it, however little one run spent.
    assert answer(*target, "--rho", 0.5, "--budget-rho", 0.6, "--seed", 1)[0] == 1
    refusal(*target, "--rho", 0.5, "--budget-rho", 0.5, "--budget-mu", 1)


SPOILING = """
import numpy as np
from pathlib import Path
from dpaudit import L2, Gaussian

def sums(data, curator):
    return curator.release_sum(data, bound=1.0, mechanism=Gaussian(sigma=9.0, sensitivity=L2(2.0)), label="x")

def replacing(data, curator):
    other = Path(__file__).with_name("other.jsonl")
    kept = Path(__file__).with_name("out") / "ledger.jsonl"
    if kept.exists():
        kept.write_bytes(other.read_bytes())
    return sums(data, curator)

def removing(data, curator):
    (Path(__file__).with_name("out") / "ledger.jsonl").unlink(missing_ok=True)
    return sums(data, curator)

def pair():
    return np.eye(4, 1), np.zeros((4, 1))
"""


@pytest.mark.parametrize(("name", "status", "code"), [("replacing", 3, "DPA206"), ("removing", 2, "DPA201")])
def test_a_ledger_that_is_not_on_the_disk_as_it_was_written_is_not_judged(
    dpaudit: Any, module: Any, tmp_path: Path, name: str, status: int, code: str
) -> None:
    own, out = module(SPOILING), tmp_path / "out"
    common = ("--pair", own("pair"), "--rho", 1, "--unit", "row", "-o")
    assert dpaudit("certify", own("sums"), *common, tmp_path / "first").exit_code == 0
    (tmp_path / "first" / "ledger.jsonl").rename(tmp_path / "other.jsonl")
    result = dpaudit("certify", own(name), *common, out)
    assert result.exit_code == status
    assert code in result.stderr
    assert not (out / "certificate.json").exists()


def test_the_certificate_is_written_last_and_names_its_ledger(
    dpaudit: Any, mine: Mine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    real = Path.replace

    def replace(self: Path, target: Path) -> Path:
        written.append(Path(target).name)
        assert (tmp_path / "out" / ".dpaudit.lock").exists()
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    out = tmp_path / "out"
    common = ("certify", mine("sums"), "--pair", mine("pair"), "--rho", 0.125, "--unit", "row", "-o", out)
    assert dpaudit(*common).exit_code == 0
    assert written == ["ledger.jsonl", "report.html", "output.json", "certificate.json"]
    assert sorted(path.name for path in out.iterdir()) == sorted(written)
    certificate = Certificate.read(out / "certificate.json")
    assert certificate.ledger_hash == Ledger.read(out / "ledger.jsonl").hash
    assert dpaudit(*common).exit_code == 0  # nothing is left behind that refuses the next run


def test_a_second_writer_is_refused(dpaudit: Any, mine: Mine, tmp_path: Path) -> None:
    from dpaudit.ledger.lock import only_writer

    out = tmp_path / "out"
    out.mkdir()
    (out / "certificate.json").write_text("the first writer's")
    with only_writer(out):
        result = dpaudit("certify", mine("sums"), "--pair", mine("pair"), "--rho", 1, "-o", out)
    assert result.exit_code == 2
    assert "is writing there" in result.stderr
    assert "name another folder" in result.stderr
    assert (out / "certificate.json").read_text() == "the first writer's"
