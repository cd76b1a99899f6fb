import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
import pytest

from dpaudit.app.main import VERBS, main
from tests.sweeps import sweep

CALL = ["-c", "from dpaudit.app.main import main; main(prog_name='dpaudit')"]
PROGRAM = [sys.executable, *CALL]


@pytest.mark.parametrize("verb", [*VERBS, "ledger show", "ledger check"])
def test_every_verb_helps_with_an_example(dpaudit: Any, verb: str) -> None:
    result = dpaudit(*verb.split(), "--help")
    assert result.exit_code == 0
    assert f"dpaudit {verb}" in result.stdout.partition("Example")[2]
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_help_names_every_verb_and_exit_code(dpaudit: Any) -> None:
    result = dpaudit("--help")
    assert result.exit_code == 0
    assert all(verb in result.stdout for verb in VERBS)
    assert "Exit codes: 0 proved" in result.stdout


def test_unknown_verb_and_option_exit_2(dpaudit: Any) -> None:
    assert dpaudit("frobnicate").exit_code == 2
    assert dpaudit("verify", "--frobnicate").exit_code == 2
    assert dpaudit("verify").exit_code == 2


def test_version(dpaudit: Any) -> None:
    assert dpaudit("--version").stdout.startswith("dpaudit")


def test_the_package_is_a_command_too() -> None:
    asked = [sys.executable, "-m", "dpaudit", "frobnicate"]
    answered = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
    assert answered.returncode == 2
    assert answered.stderr.startswith("Usage: dpaudit [OPTIONS]")


def test_importing_the_command_loads_nothing_that_computes_or_draws() -> None:
    program = (
        "import sys, dpaudit.app.main; print(*(set(sys.modules) & {'numpy', 'scipy', 'pydantic', 'rich'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_fault_of_our_own_says_so_and_exits_2(dpaudit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpaudit.app.verbs.planning import convert

    def fail(*_: object, **_options: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(convert, "conversions", fail)
    result = dpaudit("convert", "--rho", 1)
    assert result.exit_code == 2
    assert "RuntimeError: planted" in result.stderr
    assert "fault in dpaudit" in result.stderr


@pytest.mark.parametrize("how", ["before the verb", "after the verb", "environment"])
def test_traceback_on_request_only(
    mine: Callable[[str], str], dpaudit: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    from click.testing import CliRunner

    command = ["certify", mine("failing"), "--pair", mine("pair"), "--rho", "1"]
    assert "Traceback" not in dpaudit(*command).stderr
    if how == "environment":
        monkeypatch.setenv("DPAUDIT_TRACEBACK", "1")
    elif how == "before the verb":
        command.insert(0, "--traceback")
    else:
        command.append("--traceback")
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert 'raise KeyError("a private record")' in result.stderr


def test_interrupted_inside_an_algorithm(mine: Callable[[str], str], dpaudit: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = dpaudit("certify", mine("stopping"), "--pair", mine("pair"), "--rho", 1, "-o", out)
    assert result.exit_code == 130
    assert result.stderr == "interrupted: nothing was judged\n"
    assert [path.name for path in out.iterdir()] == ["ledger.jsonl.partial"]


def test_interrupt_signal(tmp_path: Path) -> None:
    slow = "def slow(data, curator):\n    pathlib.Path('begun').touch()\n    time.sleep(60)\n"
    (tmp_path / "slow.py").write_text(f"import pathlib, time\n{slow}def pair(): return 1, 2\n")
    command = [*PROGRAM, "certify", "slow.py:slow", "--pair", "slow.py:pair", "--rho", "1"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=30)
    assert (process.returncode, complaints) == (130, "interrupted: nothing was judged\n")


CLOSED_PIPES = {
    "answer": ("list",),
    "help": ("--help",),
    "help of a verb": ("audit", "--help"),
    "version": ("--version",),
    "not proved": ("verify", "{ledger}", "--rho", "0.1"),
    "json": ("verify", "{ledger}", "--output-format", "json"),
    "rows": ("convert", "--rho", "1", "--output-format", "csv"),
}


@pytest.mark.parametrize("arguments", CLOSED_PIPES.values(), ids=CLOSED_PIPES)
def test_closed_pipe_ends_quietly(arguments: tuple[str, ...], python: list[str], ledger_file: Any) -> None:
    given = [argument.format(ledger=ledger_file(0.25)) for argument in arguments]
    assert _unread(python, given, stderr=subprocess.PIPE) == (141, "")


AUDITED = """
import numpy as np
from dpaudit import L1, Laplace
def count(data, curator):
    return curator.release(data.sum(), Laplace(scale=1.0, sensitivity=L1(1.0)), label="count")
def pair():
    return np.array([0.0, 0.0]), np.array([0.0, 1.0])
"""


@pytest.mark.parametrize(
    "arguments",
    [("audit", "a.py:count", "--pair", "a.py:pair", "--method", "sequential"), ("audit", "nobody")],
)
def test_a_closed_pipe_for_stderr_too_is_no_fault_of_what_runs(
    arguments: tuple[str, ...], python: list[str], tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text(AUDITED)
    assert _unread(python, arguments, stderr=subprocess.STDOUT, cwd=tmp_path) == (141, None)


def _unread(python: list[str], arguments: Iterable[str], **options: Any) -> tuple[int, str | None]:
    """Exit code and messages if the reader of stdout is gone."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*python, *CALL, *arguments], stdout=writer, text=True, check=False, **options)
    os.close(writer)
    return done.returncode, done.stderr


@pytest.mark.parametrize(("rho", "status"), [(0.5, 0), (0.1, 1)])
@sweep("closed", ["1", "1 2", "0 1 2"], everyday=(2,))
def test_streams_that_are_closed_from_the_start(
    rho: float, status: int, closed: str, ledger_file: Any
) -> None:
    command = shlex.join([*PROGRAM, "verify", str(ledger_file(0.25)), "--rho", str(rho)])
    redirected = " ".join(f"{descriptor}>&-" for descriptor in closed.split())
    done = subprocess.run(["/bin/sh", "-c", f"{command} {redirected}"], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (status, b"", b"")


def test_colour_only_where_wanted(python: list[str], ledger_file: Any) -> None:
    path = ledger_file(0.25)
    environment = {"PATH": os.environ["PATH"], "COLUMNS": "80", "FORCE_COLOR": "1", "TERM": "xterm"}
    shown = {}
    for name, extra in (("colour", {}), ("none", {"NO_COLOR": "1"})):
        done = subprocess.run(
            [*python, *CALL, "verify", str(path)],
            env={**environment, **extra},
            capture_output=True,
            text=True,
            check=True,
        )
        shown[name] = done.stdout
    assert "\x1b[32m" in shown["colour"]
    assert "\x1b[3" not in shown["none"]


def test_a_terminal_without_unicode(ledger_file: Any, tmp_path: Path) -> None:
    path = ledger_file(0.25).rename(tmp_path / "häuser.jsonl")
    environment = {"PATH": os.environ["PATH"], "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run([*PROGRAM, "verify", str(path)], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"PROVED" in done.stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("audit", "dp-apvi", "--method", "foo"), "dpaudit audit: Invalid value for '--method': 'foo'"),
        (("sign", "x"), "dpaudit sign: Missing option '--key'\n"),
        (("import", "opacus", "nofile"), "dpaudit import: Missing option '-o' / '--output'\n"),
        (("certify", "--seed"), "dpaudit certify: Option '--seed' requires an argument\n"),
        (("book", "frobnicate"), "dpaudit book: No such command 'frobnicate'\n"),
        (("--frobnicate",), "dpaudit: No such option '--frobnicate'\n"),
    ],
)
def test_a_line_that_click_refuses_is_an_error_of_four_parts(dpaudit: Any, line: Any, said: str) -> None:
    result = dpaudit(*line)
    assert (result.exit_code, result.stdout) == (2, "")
    place = said.partition(":")[0]
    assert f"error: DPA105 {said}" in result.stderr
    assert f"\n  why: the intention would have to be guessed\n  do:  see {place} --help" in result.stderr


def test_a_mistyped_verb_is_met_with_the_one_that_may_have_been_meant(dpaudit: Any) -> None:
    assert "Did you mean certify?" in dpaudit("certfy", "dp-apvi").stderr
    assert "Did you mean '--trials'?" in dpaudit("audit", "dp-apvi", "--trails", "3").stderr
    for verb, option in (("audit", "--data"), ("verify", "--trials")):  # no word is near
        assert "mean" not in dpaudit(verb, option, "3").stderr
    assert all(verb in dpaudit("frobnicate").stderr for verb in VERBS)


def test_only_verbs_that_run_no_code_of_a_users_have_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    context = click.Context(main)
    for verb in ("certify", "audit", "gate", "reproduce"):
        main.get_command(context, verb)
        assert "OPENBLAS_NUM_THREADS" not in os.environ
    main.get_command(context, "calibrate")
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    main.get_command(context, "verify")
    assert os.environ["OPENBLAS_NUM_THREADS"] == "3"
