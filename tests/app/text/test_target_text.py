"""What a target says about its data reaches the person at the terminal, and no report, log or other file.

Every channel of a target is tried on every verb that runs one: none may show the secret, and each must do so
under --show-target-errors, or else nothing would have been tested.
"""

import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest

WORDS = "patient 4711"

TARGET = f"""
import ctypes, logging, os, subprocess, sys, threading, warnings
import numpy as np
from dpaudit import L2, Gaussian
from dpaudit.errors import BudgetExceeded, DataError

def pair():
    return np.eye(4, 1), np.zeros((4, 1))

def say(how):
    if how == "print": print("{WORDS}")
    if how == "stderr": sys.stderr.write("{WORDS}\\n")
    if how == "warning": warnings.warn("{WORDS}")
    if how == "log": logging.warning("{WORDS}")
    if how == "descriptor": os.write(1, b"{WORDS}\\n"), os.write(2, b"{WORDS}\\n")
    if how == "child": subprocess.run([sys.executable, "-c", "print('{WORDS}')"], stderr=sys.stderr)
    if how == "thread":
        thread = threading.Thread(target=lambda: 1 / int("{WORDS}"))
        thread.start()
        thread.join()
    if how == "raise": raise KeyError("{WORDS}")
    if how == "chain":
        try:
            int("{WORDS}")
        except ValueError as error:
            raise RuntimeError("{WORDS}") from error
    if how == "interrupt": raise KeyboardInterrupt("{WORDS}")
    if how == "exit": sys.exit("{WORDS}")
    if how == "ours": raise BudgetExceeded("{WORDS}")
    if how == "data": raise DataError("{WORDS}", where="{WORDS}")

NOISE = Gaussian(sigma=9.0, sensitivity=L2(2.0))

def release(data, curator):
    return curator.release_sum(data, bound=1.0, mechanism=NOISE, label="x")

def talking(how):
    def algorithm(data, curator):
        say(how)
        return release(data, curator)
    return algorithm
"""
QUIET = ("print", "stderr", "warning", "log", "descriptor", "child", "thread")
FAILING = ("raise", "chain", "exit", "ours", "data", "interrupt")


#: Tried together every day; what ends the command itself is tried alone, as is each of the others.
TOGETHER = ("print", "warning", "descriptor", "raise", "chain", "data")


def write(folder: Path, *hows: str) -> None:
    """A module with a target for each channel, all of them in the gate's configuration."""
    names = [f"{how}_ = talking({how!r})" for how in hows]
    (folder / "target.py").write_text("\n".join([TARGET, *names, ""]))
    tables = [
        f'[tool.dpaudit.targets.{how}]\ntarget = "target.py:{how}_"\npair = "target.py:pair"\n'
        'claim = { rho = 1.0, unit = "row" }\n'
        for how in hows
    ]
    (folder / "pyproject.toml").write_text("\n".join([*tables, "[tool.dpaudit.audit]\ntrials = 2\n"]))


REPORTS = ("json", "sarif", "junit", "markdown", "gitlab", "github")
GATE = ("gate", *(word for kind in REPORTS for word in ("--report", f"{kind}=report.{kind}")))
RUN = ("--pair", "target.py:pair", "--rho", "1", "--unit", "row")


def one(verb: str, how: str) -> tuple[str, ...]:
    """A command on one target."""
    more = {"certify": ("-o", "out"), "audit": ("--trials", "2")}
    return GATE if verb == "gate" else (verb, f"target.py:{how}_", *RUN, *more[verb])


@pytest.fixture
def command(python: list[str]) -> list[str]:
    """The words that start dpaudit."""
    return [*python, "-m", "dpaudit.app.main"]


def everything(folder: Path, *words: str) -> tuple[int, str]:
    """The exit code, and all that a command printed or wrote."""
    environment = os.environ | {"DPAUDIT_TRACEBACK": "1"}
    environment.pop("DPAUDIT_SHOW_TARGET_ERRORS", None)
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    written = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}]
    return done.returncode, done.stdout + "".join(path.read_text() for path in written)


def without_source(text: str) -> str:
    """The text without lines of source, which a traceback shows, quotes and all."""
    return text.replace(f'"{WORDS}', "")


def test_no_channel_shows_the_words_in_the_gate(tmp_path: Path, command: list[str]) -> None:
    write(tmp_path, *TOGETHER)
    status, text = everything(tmp_path, *command, *GATE)
    assert status == 1
    assert WORDS not in without_source(text)
    for how in TOGETHER:
        seen = how in QUIET and how not in {"descriptor", "child"}
        assert (f"target.py:{how}_ printed" in text) == seen
        assert (f"target.py:{how}_ (target.py:" in text) == (
            how in {"raise", "chain", "exit", "ours", "data"}
        )
    outcomes = [check["outcome"] for check in json.loads((tmp_path / "report.json").read_text())["checks"]]
    assert outcomes == ["passed" if how in QUIET else "failed" for how in TOGETHER]


def test_who_asks_is_shown_them_on_stderr_and_in_no_report(tmp_path: Path, command: list[str]) -> None:
    write(tmp_path, *TOGETHER)
    _, text = everything(tmp_path, *command, *GATE, "--show-target-errors")
    # Two are of dpaudit's kind, and two are caused by another: each is shown once at least.
    assert without_source(text).count(WORDS) >= len(TOGETHER)
    for kind in REPORTS:
        assert WORDS not in (tmp_path / f"report.{kind}").read_text()


def test_who_asks_is_shown_what_every_trial_of_a_sampling_audit_raises(
    tmp_path: Path, command: list[str]
) -> None:
    write(tmp_path, "raise")
    words = (*one("audit", "raise")[:-2], "--method", "threshold", "--trials", "10")
    shown = [everything(tmp_path, *command, *words, *more) for more in ((), ("--show-target-errors",))]
    assert [status for status, _ in shown] == [2, 2]
    assert [WORDS in without_source(text) for _, text in shown] == [False, True]
    assert "DPA601" in shown[1][1]


@pytest.mark.nightly
@pytest.mark.parametrize("how", [*QUIET, *FAILING])
@pytest.mark.parametrize("verb", ["certify", "audit", "gate"])
def test_no_channel_shows_the_words_in_any_verb(
    tmp_path: Path, command: list[str], verb: str, how: str
) -> None:
    write(tmp_path, how)
    status, text = everything(tmp_path, *command, *one(verb, how))
    assert WORDS not in without_source(text)
    assert status == (0 if how in QUIET else 130 if how == "interrupt" else 1 if verb == "gate" else 2)
    assert how in QUIET or how == "interrupt" or "target.py:" in text
    _, text = everything(tmp_path, *command, *one(verb, how), "--show-target-errors")
    assert how == "interrupt" or WORDS in without_source(text)


def at_a_terminal(folder: Path, environment: dict[str, str], *words: str) -> str:
    """What a command prints on stderr where that is a terminal."""
    terminal, other = pty.openpty()
    done = subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=other)
    os.close(other)
    shown = b""
    while True:
        try:
            read = os.read(terminal, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not read:
            break
        shown += read
    os.close(terminal)
    done.communicate(timeout=60)
    return shown.decode()


def test_a_terminal_shows_it_unless_it_is_that_of_continuous_integration(
    tmp_path: Path, command: list[str]
) -> None:
    write(tmp_path, "raise")
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    shown = at_a_terminal(tmp_path, environment, *command, *GATE)
    lines = (tmp_path / "target.py").read_text().split("\n")
    line = next(number for number, text in enumerate(lines, start=1) if "raise KeyError" in text)
    assert f"target.py:raise_ (target.py:{line}): KeyError: '{WORDS}'" in shown
    (finding,) = json.loads((tmp_path / "report.json").read_text())["checks"][0]["findings"]
    assert (finding["file"], finding["line"]) == ("target.py", line)
    assert WORDS not in finding["message"]
    assert WORDS not in at_a_terminal(tmp_path, environment | {"CI": "true"}, *command, *GATE)


def test_dpaudits_own_words_are_kept_at_the_targets_line(tmp_path: Path, dpaudit: Any) -> None:
    write(tmp_path, "nothing")
    path = tmp_path / "target.py"
    path.write_text(path.read_text().replace("bound=1.0", "bound=-1.0"))
    assert dpaudit(*GATE).exit_code == 1
    (finding,) = json.loads((tmp_path / "report.json").read_text())["checks"][0]["findings"]
    lines = path.read_text().split("\n")
    assert "DPA101 release 'x'" in finding["message"]
    assert "-1.0" not in finding["message"]  # it could be one that the code has read off the data
    line = next(number for number, text in enumerate(lines, start=1) if "release_sum" in text)
    assert (finding["file"], finding["line"]) == ("target.py", line)


#: Values that a target's code gives to dpaudit's own, which refuses them in words that quote them.
GIVEN = """
from dpaudit import L2, Claim, Gaussian, ZCDP

def named(data, curator):
    Claim(ZCDP(rho=1.0), unit="row", neighbouring="{words}")

def counted(data, curator):
    curator.release(0.0, NOISE, label="x", count="{words}")

def misspelt(data, curator):
    Gaussian(sigma=1.0, sensitivity=L2(1.0), **{{"{words}": 1.0}})
"""
GIVING = ("named", "counted", "misspelt")


@pytest.mark.parametrize("verb", ["gate", pytest.param("audit", marks=pytest.mark.nightly)])
def test_no_value_that_a_targets_code_gave_is_shown(tmp_path: Path, command: list[str], verb: str) -> None:
    write(tmp_path)
    (tmp_path / "target.py").write_text(TARGET + GIVEN.format(words=WORDS))
    tables = [
        f'[tool.dpaudit.targets.{name}]\ntarget = "target.py:{name}"\npair = "target.py:pair"\n'
        'claim = { rho = 1.0, unit = "row" }\n'
        for name in GIVING
    ]
    (tmp_path / "pyproject.toml").write_text("\n".join(tables))
    tried = [GATE] if verb == "gate" else [("audit", f"target.py:{name}", *RUN) for name in GIVING]
    for words in tried:
        status, text = everything(tmp_path, *command, *words)
        assert status == (1 if verb == "gate" else 2)
        assert "may be private" in text
        assert WORDS not in without_source(text)
        shown = subprocess.run(
            [*command, *words, "--show-target-errors"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert WORDS in shown.stderr
    for kind in REPORTS if verb == "gate" else ():
        assert WORDS not in (tmp_path / f"report.{kind}").read_text()


def test_a_value_that_follows_from_an_option_is_shown(tmp_path: Path, command: list[str]) -> None:
    """It was computed within functools, and by no target's code."""
    status, text = everything(tmp_path, *command, "certify", "private-lsvi-ucb", "-P", "rho=1e308")
    assert status == 2
    assert "error: DPA101 ridge: ridge = 0.0" in text
    assert "may be private" not in text
