"""Thousands of broken files and odd options: each ends in a documented exit code, and in no traceback."""

import json
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dpaudit import ZCDP
from dpaudit.accountants.book import Book
from dpaudit.app.main import VERBS, main
from tests.torture.conftest import sizes
from tests.torture.tools import DOCUMENTED, keep_figure

pytestmark = pytest.mark.usefixtures("undrawn")

PAIR = ("--pair", "own.py:pair", "--unit", "row")
CONFIGURATION = """
[tool.dpaudit.policy]
max-epsilon = 20.0
delta-at-most = 1e-6

[tool.dpaudit.ledgers.kept]
ledger = "ledger.jsonl"

[tool.dpaudit.targets.count]
target = "own.py:count"
pair = "own.py:pair"
claim = { rho = 1.0, unit = "row" }

[tool.dpaudit.audit]
trials = 1

[[tool.dpaudit.waivers]]
check = "kept"
finding = "not-proved"
reason = "agreed"
expires = 2099-01-01
"""
PLAN = """
neighbouring = "add-or-remove-one"

[[release]]
label = "training"
mechanism = "gaussian"
sigma = 3
steps = 4

[[release]]
label = "counts"
mechanism = "laplace"
scale = 10.0
sensitivity = { value = 2, norm = "l1", basis = "clipped" }
"""
STATEMENT = 'access = "published"\nassumptions = ["one account a person"]\n'

#: The commands, each with the files that are broken for it.
COMMANDS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("verify", "ledger.jsonl"): ("ledger.jsonl",),
    ("verify", "ledger.jsonl", "--rho", "0.5", "--allow-unhashed"): ("ledger.jsonl",),
    ("ledger", "check", "ledger.jsonl"): ("ledger.jsonl",),
    ("ledger", "show", "ledger.jsonl"): ("ledger.jsonl",),
    ("ledger", "diff", "ledger.jsonl", "other.jsonl"): ("ledger.jsonl", "other.jsonl"),
    ("diff", "certificate.json", "other.jsonl"): ("certificate.json", "other.jsonl"),
    ("report", "certificate.json", "--format", "md"): ("certificate.json", "ledger.jsonl"),
    ("report", "certificate.json", "-o", "page.html", "--registry", "entry.yaml"): ("certificate.json",),
    ("sign", "certificate.json", "--ledger", "ledger.jsonl", "--key", "key", "-o", "new.json"): (
        "certificate.json",
        "ledger.jsonl",
        "key",
    ),
    ("site", ".", "-o", "public"): ("certificate.json", "ledger.jsonl", "signed.json", "book.sqlite"),
    ("verify-cert", "signed.json", "--key", "key.pub", "--ledger", "ledger.jsonl"): (
        "signed.json",
        "key.pub",
        "ledger.jsonl",
    ),
    ("gate", "--output-format", "sarif"): ("pyproject.toml", "ledger.jsonl"),
    ("certify", "own.py:count", *PAIR, "--rho", "1", "--statement", "statement.toml", "--data", "rows.csv"): (
        "statement.toml",
        "rows.csv",
        "own.py",
    ),
    ("certify", "own.py:count", "--data", "rows.csv?a=number,b=text", "--rho", "1"): ("rows.csv",),
    ("certify", "own.py:count", "--data", "rows.npy", "--rho", "1", "--unit", "row"): ("rows.npy",),
    ("certify", "dp-apvi", "--data", "rows.csv"): ("rows.csv",),
    ("audit", "own.py:count", *PAIR, "--rho", "1", "--trials", "1"): ("own.py",),
    (
        *("audit", "own.py:count", *PAIR, "--rho", "1", "--method", "sequential"),
        *("--trials", "40", "--resume", "runs.sqlite"),
    ): ("runs.sqlite",),
    ("book", "show", "patients", "--book", "book.sqlite"): ("book.sqlite",),
    ("book", "reserve", "patients", "--rho", "0.001", "--book", "book.sqlite"): ("book.sqlite",),
    ("book", "spend", "none", "ledger.jsonl", "--book", "book.sqlite"): ("ledger.jsonl", "book.sqlite"),
    ("import", "history.json", "--unit", "row", "-o", "imported.jsonl"): ("history.json",),
    ("convert", "--rho", "0.5", "--delta", "1e-6"): (),
    ("epsilon", "gaussian", "--sigma", "2", "--delta", "1e-5"): (),
    ("epsilon", "plan.toml", "--delta", "1e-5", "--claim", "5"): ("plan.toml",),
    ("calibrate", "gaussian", "--epsilon", "1", "--delta", "1e-6"): (),
    ("calibrate", "laplace", "--rho", "0.5"): (),
    ("list",): (),
    ("check", "certificate.json", "ledger.jsonl"): ("certificate.json", "ledger.jsonl"),
    ("limits",): (),
    ("limits", "ledger.jsonl"): ("ledger.jsonl",),
    ("completion", "bash"): (),
    ("init", "--help"): (),
    ("keygen", "--help"): (),
    ("reproduce", "--help"): (),
}

SLOW = ("certify", "audit", "gate")
MORE = ("--format", "--seed", "--trials", "--delta", "--traceback", "-P x=1", "--strict", "-o")

#: What stands in place of an option's value, or of a value in a file.
ODD: tuple[Any, ...] = (
    *("", " ", "nan", "inf", "-inf", "-1", "0", "1e309", "1e-400", "0x10", "1_000", "٣", "½", "None", "true"),
    *("\x00", "\ud800", "\u202e", "'; drop table", "../../etc/passwd", "own.py", "-", "--", "%s{}"),
    *("x" * 5000, None, True, False, 0, -1, 1e308, -0.0, 2**64, 10**400, [], {}, [[[]]]),
    *({"kind": "gaussian"}, float("nan")),
)


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise `TimeoutError` inside after so many seconds: what hangs is a fault too."""

    def late(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def valid(work: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a valid file of each kind."""
    folder = work("valid")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    (folder / "pyproject.toml").write_text(CONFIGURATION)
    (folder / "statement.toml").write_text(STATEMENT)
    (folder / "plan.toml").write_text(PLAN)
    (folder / "rows.csv").write_text("a,b\n1,0\n0,1\n0.5,0.5\n")
    (folder / "history.json").write_text(json.dumps({"history": [[1.0, 0.1, 5]], "mechanism": "rdp"}))
    np.save(folder / "rows.npy", np.eye(4, 2))
    with Book(folder / "book.sqlite") as book:
        book.open_account("patients", ZCDP(rho=1.0), unit="row", neighbouring="replace-one")
        book.reserve("patients", ZCDP(rho=0.25), note="first")
    for arguments in (
        ("certify", "own.py:count", *PAIR, "--rho", "1", "-o", "made"),
        ("certify", "own.py:sums", *PAIR, "--rho", "3", "-o", "second"),
        ("keygen", "key"),
        ("sign", "made/certificate.json", "--key", "key", "-o", "signed.json"),
        (
            "audit",
            "own.py:count",
            *PAIR,
            "--rho",
            "1",
            "--method",
            "sequential",
            "--trials",
            "40",
            "--resume",
            "runs.sqlite",
        ),
    ):
        done = CliRunner().invoke(main, arguments, prog_name="dpaudit")
        assert done.exit_code == 0, done.output
    for name in ("certificate.json", "ledger.jsonl"):
        shutil.copy(folder / "made" / name, folder / name)
    shutil.copy(folder / "second" / "ledger.jsonl", folder / "other.jsonl")
    return folder


def broken(content: bytes, draw: random.Random) -> bytes:
    """A file's content with one thing or a few wrong."""
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        content = draw.choice(BREAKS)(content, draw)
    return content


def _flip(content: bytes, draw: random.Random) -> bytes:
    if not content:
        return b"\x00"
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << draw.randrange(8))]) + content[place + 1 :]


def _cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


_PIECES = (
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r\n", b"\n", b"{", b'"', b"-", b"e", b"NaN", b"\xed\xa0\x80"),
    *(b"]" * 40, b"[" * 3000, b"9" * 400),
)


def _insert(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content) + 1)
    more = draw.choice((*_PIECES, draw.randbytes(8)))
    return content[:place] + more + content[place:]


def _lines(content: bytes, draw: random.Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    match draw.randrange(3):
        case 0:
            del lines[one]
        case 1:
            lines.insert(other, lines[one])
        case _:
            lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def _value(content: bytes, draw: random.Random) -> bytes:
    """A value or a name of a file of JSON, or of one of its lines, in place of another."""
    lines = content.splitlines(keepends=True) if content.count(b"\n{") > 1 else [content]
    place = draw.randrange(len(lines)) if lines else 0
    try:
        record = json.loads(lines[place])
    except (ValueError, IndexError, RecursionError):
        return _flip(content, draw)
    where: Any = record
    while isinstance(where, dict | list) and where:
        key = draw.choice(list(where) if isinstance(where, dict) else range(len(where)))
        if isinstance(where[key], dict | list) and where[key] and draw.random() < 0.7:
            where = where[key]
            continue
        match draw.randrange(4):
            case 0 if isinstance(where, dict):
                del where[key]
            case 1 if isinstance(where, dict):
                where[str(draw.choice(ODD))] = where.pop(key)
            case _:
                where[key] = draw.choice(ODD)
        break
    lines[place] = json.dumps(record).encode("utf-8", "surrogatepass") + b"\n"
    return b"".join(lines)


def _nothing(_content: bytes, _draw: random.Random) -> bytes:
    return b""


BREAKS = (_flip, _flip, _cut, _insert, _lines, _value, _value, _value, _nothing)


def _odd(draw: random.Random) -> str:
    """An odd argument: a byte that is no text, and no NUL, are what a command line can hold."""
    return str(draw.choice(ODD)).replace("\ud800", "\udc80").replace("\x00", "\x01")


def _case(valid: Path, draw: random.Random) -> tuple[list[str], str | None]:
    """A command and the file that is broken for it; files are put right again by the next case."""
    command, files = draw.choice(list(COMMANDS.items()))
    if command[0] in SLOW and draw.random() < 0.7:  # what runs an algorithm takes a hundred times as long
        command, files = draw.choice(list(COMMANDS.items()))
    arguments = list(command)
    if files and draw.random() < 0.75:
        return arguments, draw.choice(files)
    places = range(1, len(arguments)) if len(arguments) > 1 else range(1)
    for _ in range(draw.choice((1, 1, 2))):
        place = draw.choice(places)
        match draw.randrange(4):
            case 0:
                arguments.insert(place, _odd(draw))
            case 1 if len(arguments) > 2:
                del arguments[-1]
                places = range(1, len(arguments))
            case 2:
                arguments.append(draw.choice(MORE))
            case _:
                arguments[place % len(arguments)] = _odd(draw)
    return arguments, None


def restore(valid: Path, kept: dict[str, bytes]) -> None:
    """Put the folder's files right again, and forget the modules that were read from them."""
    for name, content in kept.items():
        path = valid / name
        if path.is_dir():
            shutil.rmtree(path)
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)
    for name in [name for name in sys.modules if name.startswith("dpaudit_target_")]:
        del sys.modules[name]


@sizes(25, 10_000)
def test_every_input_ends_in_a_documented_way(valid: Path, number: int) -> None:
    draw = random.Random(20260101)  # noqa: S311  (no secret)
    kept = {path.name: path.read_bytes() for path in valid.iterdir() if path.is_file()}
    codes: Counter[int] = Counter()
    verbs: Counter[str] = Counter()
    faults: list[str] = []
    for case in range(number):
        arguments, file = _case(valid, draw)
        if file is not None:
            (valid / file).write_bytes(broken(kept[file], draw))
        try:
            with at_most(600):
                done = CliRunner().invoke(main, arguments, prog_name="dpaudit")
        except TimeoutError:
            faults.append(f"case {case}: {arguments} with {file}: more than ten minutes")
            continue
        finally:
            restore(valid, kept)
        said = done.output + (done.stderr if done.stderr_bytes is not None else "")
        codes[done.exit_code] += 1
        verbs[arguments[0]] += 1
        raised = done.exception is not None and not isinstance(done.exception, SystemExit)
        traced = "Traceback" in said and "--traceback" not in arguments
        if done.exit_code not in DOCUMENTED or raised or traced or "fault in dpaudit" in said:
            words = f"{arguments} with {file}: {done.exit_code} {done.exception!r} {said[-300:]}"
            faults.append(f"case {case}: {words}")
    known = {verb: count for verb, count in verbs.items() if verb in VERBS}
    keep_figure(
        "fuzzed inputs",
        cases=number,
        states={f"exit code {code}": count for code, count in sorted(codes.items())},
        verbs=len(known),
        faults=len(faults),
    )
    assert faults == []
    assert number < 1000 or set(known) == set(VERBS)
