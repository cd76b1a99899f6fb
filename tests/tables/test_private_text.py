"""What an algorithm says of records is quoted by no report, where a table of them brings the pairs."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpaudit
from dpaudit import L2, ZCDP, Claim, Curator, Gaussian, Pair
from dpaudit.errors import TargetRaised
from dpaudit.tables.sources import frame_pairs

#: Names and figures of records; what the code says on public data too is no such word.
SECRETS = ("Ann", "Bob", "Zoe", "47110815")
CLAIM = Claim(ZCDP(rho=1.0), unit="name", neighbouring="add-or-remove-one")


def visits() -> pd.DataFrame:
    names = ["Ann"] * 3 + ["Bob"] * 2 + ["Zoe"] * 4
    return pd.DataFrame({"name": names, "minutes": range(len(names))})


def counted(frame: Any, curator: Curator, label: str, sigma: float = 100.0, **about: Any) -> Any:
    noise = Gaussian(sigma=sigma, sensitivity=L2(about.pop("sensitivity", 20.0)))
    return curator.release(float(len(frame)), noise, label=label, **about)


def who(frame: pd.DataFrame) -> str:
    """The last row's name."""
    return str(["nobody", *frame["name"]][-1])


def other_label(frame: pd.DataFrame, curator: Curator) -> Any:
    counted(frame, curator, "visits")
    return counted(frame, curator, f"of {who(frame)}")


def other_number(frame: pd.DataFrame, curator: Curator) -> Any:
    return [
        counted(frame, curator, name) for name in ("visits", *sorted({str(one) for one in frame["name"]}))
    ]


def other_noise(frame: pd.DataFrame, curator: Curator) -> Any:
    return counted(frame, curator, "visits", sigma=47110815.0 if who(frame) == "Zoe" else 100.0)


def moves_under_a_name(frame: pd.DataFrame, curator: Curator) -> Any:
    return counted(frame, curator, "of Zoe" if len(frame) else "of nobody", sensitivity=0.5)


def moves_in_parts(frame: pd.DataFrame, curator: Curator) -> Any:
    parts = ("Zoe", "Ann") if len(frame) else ("one", "two")
    return [counted(frame, curator, "visits", partition=part) for part in parts]


def does_not_move(frame: pd.DataFrame, curator: Curator) -> Any:
    counted(frame, curator, "visits")
    noise = Gaussian(sigma=100.0, sensitivity=L2(1.0))
    return curator.release(1.0, noise, label="of Zoe" if len(frame) else "of nobody")


def is_refused(frame: pd.DataFrame, curator: Curator) -> Any:
    noise = Gaussian(sigma=100.0, sensitivity=L2(20.0))
    return curator.release(float("nan") if len(frame) else 0.0, noise, label=f"of {who(frame)}")


def own_randomness(frame: pd.DataFrame, curator: Curator) -> Any:
    return {"Ann": [object()], "Zoe": pd.Timestamp.now().value, "visits": counted(frame, curator, "visits")}


def moves(frame: pd.DataFrame, curator: Curator) -> Any:
    return counted(frame, curator, "visits", sensitivity=0.5)


TELLING = [other_label, other_number, other_noise, moves_under_a_name, moves_in_parts, does_not_move]
TELLING += [is_refused, own_randomness]
for each in (*TELLING, moves):
    each.claim = CLAIM  # type: ignore[attr-defined]


def own_pairs() -> list[Pair]:
    return list(frame_pairs(visits(), CLAIM))


def told(algorithm: Any, pairs: list[Pair], **where: Any) -> str:
    """All that an audit says."""
    try:
        return str(dpaudit.audit(algorithm, pairs, trials=1, **where).model_dump_json())
    except (ValueError, TargetRaised) as error:
        return str(error)


#: This file is a target as well, which imports nothing of the tests.
_BY_NIGHT = {other_number, other_noise, moves_in_parts, own_randomness}


@pytest.mark.parametrize(
    "algorithm",
    [pytest.param(one, marks=pytest.mark.nightly if one in _BY_NIGHT else ()) for one in TELLING],
)
def test_audits_quote_no_record(algorithm: Any) -> None:
    private = told(algorithm, own_pairs(), in_process=True)
    assert [secret for secret in SECRETS if secret in private] == []
    # The same pairs, said to be public: their words are there to be quoted.
    public = told(algorithm, [replace(pair, stand_ins=None) for pair in own_pairs()], in_process=True)
    assert [secret for secret in SECRETS if secret in public] != []


@pytest.mark.parametrize(
    "where", [{"in_process": True}, pytest.param({"in_process": False}, marks=pytest.mark.nightly)]
)
def test_a_label_that_public_data_have_is_quoted(where: Any) -> None:
    assert '"label":"visits","detail":"the query moves by ' in told(moves, own_pairs(), **where)
    without = [replace(pair, stand_ins=()) for pair in own_pairs()[:1]]
    assert '"label":"release 1","detail":"the query moves by ' in told(moves, without, **where)
    found = dpaudit.audit(other_label, own_pairs(), trials=1, **where).findings
    assert {finding.label for finding in found} == {"release 2"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_runs: None, runs_in_threads: None) -> Path:
    """Where commands run, with this file as the targets' module."""
    monkeypatch.delenv("DPAUDIT_IN_PROCESS")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "mine.py").write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path


def said(folder: Path, *words: str) -> str:
    """What a command says that has no terminal and finds something, and the files that it writes."""
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode in {1, 2}, done.stdout + done.stderr
    written = sorted(path for path in folder.glob("*out*/*")) + sorted(folder.glob("*.out"))
    return "\n".join([done.stdout, done.stderr, *(path.read_text(encoding="utf-8") for path in written)])


def require_public(text: str) -> None:
    assert [(secret, text) for secret in SECRETS if secret in text] == []


@pytest.mark.parametrize(
    ("target", "form"),
    [
        ("other_label", "json"),
        pytest.param("other_label", "text", marks=pytest.mark.nightly),
        pytest.param("is_refused", "text", marks=pytest.mark.nightly),
    ],
)
def test_certificates_quote_no_record(folder: Path, python: list[str], target: str, form: str) -> None:
    own = ("certify", f"mine.py:{target}", "--data", "mine.py:visits", "--output-format", form, "-o", "out")
    text = said(folder, *python, "-m", "dpaudit.app.main", *own)
    require_public(text)
    assert target == "is_refused" or ("visits" in text and "release 2" in text)


def test_reports_of_the_gate_quote_no_record(folder: Path, python: list[str]) -> None:
    tables = [
        f'[tool.dpaudit.targets.{name}]\ntarget = "mine.py:{name}"\ndata = "mine.py:visits"\n'
        "audit = { trials = 1 }\n"
        for name in ("other_label", "moves")
    ]
    (folder / "pyproject.toml").write_text("\n".join(tables))
    forms = "json", "markdown", "sarif", "junit", "gitlab", "github"
    written = [word for form in forms for word in ("--report", f"{form}={form}.out")]
    require_public(said(folder, *python, "-m", "dpaudit.app.main", "gate", *written))
    for form in forms:
        text = (folder / f"{form}.out").read_text(encoding="utf-8")
        assert text.count("the query moves by 18 in l2") >= 1
        assert "release 2" in text


IN_PYTEST = """
import pytest
from mine import moves, other_label, own_pairs

@pytest.mark.parametrize("algorithm", [moves, other_label])
def test_target(dp_audit, algorithm):
    dp_audit(algorithm, own_pairs()[-1:], trials=1)
"""


def test_reports_of_pytest_quote_no_record(folder: Path, python: list[str]) -> None:
    (folder / "test_it.py").write_text(IN_PYTEST)
    plugin = ("-p", "dpaudit.app.testing.pytest_plugin", "-p", "no:cacheprovider", "--junit-xml=junit.out")
    text = said(folder, *python, "-m", "pytest", *plugin, "--rootdir", str(folder), "test_it.py")
    require_public(text)
    assert "sensitivity in 'visits': the query moves by 8 in l2" in text
    assert "control-flow in 'release 2'" in text
