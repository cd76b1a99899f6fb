"""`dpaudit verify FOLDER`: one answer about all ledgers in it, and its exit code."""

from pathlib import Path
from typing import Any

import pytest

from dpaudit import ZCDP, Claim
from dpaudit.app.verbs import verify as verifying
from tests import make


def write(path: Path, sigma: float, rho: float | None = 0.5) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    claim = None if rho is None else Claim(ZCDP(rho=rho))
    about = {"unit": "user", "neighbouring": "replace-one", "claim": claim}
    return make.ledger(make.gaussian(sigma), **about).write(path)


@pytest.fixture
def users(tmp_path: Path) -> Path:
    folder = tmp_path / "users"
    for i in range(4):
        write(folder / "a" / f"{i}.jsonl", 1.0 + i)
    return folder


def test_all_proved(dpaudit: Any, answer: Any, users: Path) -> None:
    status, found = answer("verify", users)
    assert (status, found["ledgers"], found["proved"], found["interrupted"]) == (0, 4, 4, False)
    (totals,) = found["totals"]
    assert totals["scale"] == "rho"
    assert [bin_["ledgers"] for bin_ in totals["histogram"]] == [1, 1, 1, 1]
    assert totals["histogram"][-1]["from"] == 0.5 < totals["histogram"][-1]["below"]
    assert totals["worst"][0] == {"ledger": "a/0.jsonl", "figure": 0.5}
    result = dpaudit("verify", users, "--epsilon", 20, "--delta", 1e-6)
    assert result.exit_code == 0
    assert "4 ledgers, 4 releases" in result.stdout
    assert "epsilon at delta 1e-06" in result.stdout
    assert "4.88656  a/0.jsonl" in result.stdout  # the exact curve, rounded up


def test_one_that_fails_or_is_broken_is_named(dpaudit: Any, users: Path) -> None:
    write(users / "low.jsonl", 0.5)
    failing = dpaudit("verify", users)
    assert failing.exit_code == 1
    assert "Not proved\n  - low.jsonl" in failing.stdout
    assert dpaudit("verify", users, "--exit-zero").exit_code == 0
    (users / "low.jsonl").write_text("{}\n")
    broken = dpaudit("verify", users)
    assert broken.exit_code == 1
    assert "Broken\n  - low.jsonl: DPA201" in broken.stdout
    assert dpaudit("verify", users, "--exit-zero").exit_code == 1  # a file that says nothing is no verdict


def test_nothing_to_check(dpaudit: Any, refusal: Any, users: Path, tmp_path: Path) -> None:
    write(users / "silent.jsonl", 1.0, None)
    assert dpaudit("verify", users).exit_code == 5
    (tmp_path / "alone").mkdir()
    (users / "silent.jsonl").rename(tmp_path / "alone" / "silent.jsonl")
    alone = dpaudit("verify", tmp_path / "alone")
    assert (alone.exit_code, "nothing to check" in alone.stderr) == (5, True)
    (tmp_path / "empty").mkdir()
    assert "no file *.jsonl" in refusal("verify", tmp_path / "empty")
    (users / "b.jsonl.partial").write_text("")
    assert "1 run has no finished ledger" in dpaudit("verify", users).stderr


def test_ctrl_c_prints_what_was_done(dpaudit: Any, users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, called = verifying.verify_ledger, []

    def third_is_interrupted(*given: Any, **options: Any) -> Any:
        called.append(given)
        if len(called) == 3:
            raise KeyboardInterrupt
        return whole(*given, **options)

    monkeypatch.setattr(verifying, "verify_ledger", third_is_interrupted)
    result = dpaudit("verify", users)
    assert result.exit_code == 130
    assert "2 ledgers, 2 releases" in result.stdout
    assert "interrupted: 2 of 4 ledgers" in result.stderr


def test_a_folder_is_named_alone(refusal: Any, users: Path) -> None:
    ledger = users / "a" / "0.jsonl"
    for given in ((users, users), (ledger, users), (ledger, "--dask", "local")):
        assert "name one folder alone" in refusal("verify", *given)


@pytest.mark.filterwarnings("default")
def test_a_cluster_that_is_not_there(refusal: Any, users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpaudit.auditors.sampling.workers._CONNECTING", "1s")
    assert "no scheduler answers" in refusal("verify", users, "--dask", "tcp://127.0.0.1:9")
