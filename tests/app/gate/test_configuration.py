"""Configurations, right and wrong in every way: a named error with its line, or what was written."""

import datetime as dt
import json
import math
import random
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpaudit.app.gate.configuration import Configuration, ConfigurationError, line_of, read_configuration
from dpaudit.app.verbs.init import CONFIGURATION

WHOLE = """\
[project]
name = "mine"

[tool.dpaudit]
[tool.dpaudit.policy]
max-epsilon = 10
delta-at-most = "1/n"
allowed-samplers = ["numpy-float64", "opendp-discrete"]

[tool.dpaudit.audit]
method = "replay"
trials = 2
confidence = 0.999
time-limit = 60.5
seed = 7

[tool.dpaudit.profile.nightly]
seed = "fresh"

[tool.dpaudit.ledgers.kept]
ledger = "ledger.jsonl"
n = 1000
claim = { rho = 0.5, unit = "row", neighbouring = "replace-one", trust-model = "central" }

[[tool.dpaudit.waivers]]
check = "kept"
finding = "not-proved"
reason = "agreed"
expires = 2999-12-31
"""


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def parse(content: str | bytes) -> Any:
        path = tmp_path / "pyproject.toml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_configuration(path)

    return parse


def test_every_key_is_read(read: Any) -> None:
    gate = read(WHOLE).gate
    assert (gate.policy.max_epsilon, gate.policy.delta_at_most) == (10, "1/n")
    assert (gate.audit.trials, gate.audit.seed, gate.profile.nightly.seed) == (2, 7, "fresh")
    assert gate.ledgers["kept"].claim.stated().claim(None).unit == "row"
    assert gate.waivers[0].expires == dt.date(2999, 12, 31)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("max-epsilon = 10", "max-epsilom = 10", 6, "did you mean 'max-epsilon'?"),
        ("max-epsilon = 10", "max_epsilon = 10", 6, "did you mean 'max-epsilon'?"),
        ("max-epsilon = 10", "max-epsilon = -1", 6, "greater than or equal to 0"),
        ("max-epsilon = 10", "max-epsilon = nan", 6, "finite"),
        ("max-epsilon = 10", "max-epsilon = inf", 6, "finite"),
        ("max-epsilon = 10", 'max-epsilon = "10"', 6, "number"),
        ("max-epsilon = 10", "max-epsilon = true", 6, "number"),
        ('"1/n"', '"1/m"', 7, '"1/n"'),
        ('"1/n"', "0", 7, "between 0 and 1"),
        ('delta-at-most = "1/n"', "", 6, "max-epsilon without delta-at-most"),
        ('"numpy-float64"', '"numpy"', 8, "numpy-float64"),
        ('["numpy-float64", "opendp-discrete"]', "[]", 8, "at least 1"),
        ("[tool.dpaudit.policy]", "[tool.dpaudit.polcy]", 5, "did you mean 'policy'?"),
        ('method = "replay"', 'method = "replays"', 11, "replay"),
        ("trials = 2", "trials = 0", 12, "greater than or equal to 1"),
        ("trials = 2", "trials = 2.5", 12, "integer"),
        ("confidence = 0.999", "confidence = 1.0", 13, "less than 1"),
        ("time-limit = 60.5", "time-limit = 0", 14, "greater than 0"),
        ("seed = 7", "seed = -7", 15, "whole number"),
        ('seed = "fresh"', 'seed = "new"', 18, '"fresh"'),
        ("profile.nightly", "profile.weekly", 17, "known keys are pr, nightly"),
        ('ledger = "ledger.jsonl"', 'ledgr = "ledger.jsonl"', 21, "did you mean 'ledger'?"),
        ('ledger = "ledger.jsonl"', "", 20, "'ledger' is missing"),
        ('"ledger.jsonl"', '"a\\u0000b"', 21, "pattern"),
        ("n = 1000", "", 20, "no n"),
        ("rho = 0.5,", "rho = 0.5, mu = 1.0,", 23, "rho and mu at once"),
        ("rho = 0.5,", "", 23, "it states no guarantee"),
        ("rho = 0.5,", "rho = 0.5, delta = 1e-6,", 23, "delta belongs to (epsilon, delta)-DP"),
        ("rho = 0.5,", "rhoo = 0.5,", 23, "did you mean 'rho'?"),
        ('"replace-one"', '"replace"', 23, "replace-one"),
        ('check = "kept"', 'check = "keptt"', 26, "did you mean 'kept'?"),
        ('"not-proved"', '"not-prooved"', 27, "not-proved"),
        ('"agreed"', '" "', 28, "pattern"),
        ("2999-12-31", '"2999-12-31"', 29, "date"),
        ("2999-12-31", "2999-13-31", 29, "not TOML"),
        ("n = 1000", "n = 1000\nbaseline = 'a.json'", 23, "nothing is held against"),
        ("max-epsilon = 10", "max-epsilon = 10\nfail-on-increase = true", 21, "no baseline"),
        ("max-epsilon = 10", "max-epsilon = 10\nmax-epsilon = 10", 7, "not TOML"),
        ("[tool.dpaudit.policy]", "[tool.dpuadit.policy]", 5, "nearly"),
        ("[tool.dpaudit.policy]", "[toll.dpaudit.policy]", 5, "nearly"),
        ("[tool.dpaudit.policy]", "[dpaudit.policy]", 5, "correct the name"),
        ("[tool.dpaudit.policy]", "[tool.DPaudit.policy]", 5, "nearly"),
        ("[tool.dpaudit.policy]", "[tool.dpaudit-policy]", 5, "nearly"),
        ("[tool.dpaudit.policy]", '["tool.dpaudit".policy]', 5, "correct the name"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line_and_what_to_do(
    read: Any, old: str, new: str, line: int, words: str
) -> None:
    assert WHOLE.count(old) == 1
    with pytest.raises(ConfigurationError) as raised:
        read(WHOLE.replace(old, new))
    error = raised.value
    assert words in f"{error.what} {error.remedy}"
    assert (error.line, error.where.split(":")[1]) == (line, str(line))
    assert error.code == "DPA105"
    assert error.why
    assert error.remedy
    assert error.exit_status == 2


def test_other_tools_are_let_alone(read: Any) -> None:
    others = "".join(f"[tool.{name}]\nx = 1\n" for name in ("audit", "pip-audit", "pyright", "dpa", "deptry"))
    assert read(WHOLE + others).gate is not None


def test_a_table_that_is_none(read: Any) -> None:
    with pytest.raises(ConfigurationError, match="dpaudit is no table"):
        read("[tool]\ndpaudit = 3\n")
    with pytest.raises(ConfigurationError, match="tool is no table"):
        read("tool = 3\n")


def test_a_name_may_stand_for_one_check_alone(read: Any) -> None:
    with pytest.raises(ConfigurationError, match="as well as a ledger"):
        read(WHOLE + '[tool.dpaudit.targets.kept]\ntarget = "dp-apvi"\nn = 5\n')


def test_a_file_that_is_none(read: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="dpaudit init"):
        read_configuration(tmp_path / "nothing.toml")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_configuration(tmp_path)
    with pytest.raises(ConfigurationError, match="UTF-8"):
        read(b"name = '\xff'")
    with pytest.raises(ConfigurationError, match="TOML"):
        read("a = " + "[" * 100_000)
    with pytest.raises(ConfigurationError):
        read(f"[tool.dpaudit.policy]\nmax-epsilon = 1{'0' * 400}\ndelta-at-most = 0.1\n")
    with pytest.raises(ConfigurationError):
        read(f"[tool.dpaudit.audit]\nseed = 1{'0' * 5000}\n")
    assert read("").gate is None
    assert read("\ufeff" + WHOLE).gate is not None


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("a",), 1),
        (("a", "b"), 1),
        (("tool", "x", "y z", "k"), 4),
        (("tool", "x", "y z", "deep", "key"), 5),
        (("tool", "x", "list", 0, "k"), 8),
        (("tool", "x", "list", 1), 9),
        (("tool", "x", "list", 1, "k"), 10),
        (("tool", "x", "list", 1, "sub", "k"), 12),
        (("tool", "x", "list", 1, "sub", "absent"), 11),
        (("nothing",), 1),
    ],
)
def test_lines_of_keys(path: tuple[str | int, ...], line: int) -> None:
    text = (
        "a.b = 1\n\n"
        "[tool.x.'y z']\nk = 1\ndeep.key = '''\nk = 7 # text'''\n"
        "[[tool.x.list]]\nk = 1\n[[ tool . x . list ]]  # again\nk = 2\n[tool.x.list.sub]\nk = 3\n"
    )
    assert tomllib.loads(text)["tool"]["x"]["list"][1]["sub"]["k"] == 3
    assert line_of(text, path) == line


# --- faults by the thousand -------------------------------------------------------------------------------

KEYS = [
    "targets", "ledgers", "policy", "audit", "profile", "pr", "nightly", "waivers", "target", "ledger",
    "claim", "rho", "epsilon", "delta", "mu", "unit", "n", "seed", "trials", "time-limit", "confidence",
    "method", "check", "finding", "reason", "expires", "max-epsilon", "delta-at-most", "allowed-samplers",
    "fail-on-increase", "parameters", "baseline", "kept", "", "ä", "a b", "\u0000",
]  # fmt: skip
SCALARS = (
    st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.dates()
    | st.sampled_from(
        ["replay", "fresh", "1/n", "kept", "not-proved", "ledger.jsonl", "mine.py:sums", "dp-apvi"]
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


def toml(value: Any) -> str:
    """A value as TOML, tables inline."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(k)} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value).replace("\x7f", "\\u007f")
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value.isoformat() if isinstance(value, dt.date) else repr(value)


def read_or_refused(path: Path) -> Configuration | None:
    """The configuration, or None for one refused by name, with a line that the file has."""
    try:
        return read_configuration(path)
    except ConfigurationError as raised:
        error = raised
    assert error.what
    assert error.remedy
    assert 1 <= error.line <= path.read_bytes().count(b"\n") + 1
    return None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5))
def test_any_table_is_read_or_refused_by_name(tmp_path: Path, table: dict[str, Any]) -> None:
    path = tmp_path / "pyproject.toml"
    text = f"[tool]\ndpaudit = {toml(table)}\n"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    found = read_or_refused(path)
    if found is not None:
        # What was accepted is what was written: every key is one that the gate knows, at its place.
        assert found.gate is not None
        assert set(table) <= {"targets", "ledgers", "policy", "audit", "profile", "waivers"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_bytes(b"[tool.dpaudit]\n" + content)
    read_or_refused(path)


def keys_of(value: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The path of every key, positions left out."""
    if isinstance(value, list):
        return {found for item in value for found in keys_of(item, path)}
    if not isinstance(value, dict):
        return set()
    if path[-1:] == ("ledgers",):  # their names are free
        value = {"*": {k: v for inner in value.values() for k, v in inner.items()}}
    own = {(*path, key) for key in value}
    return own | {found for key, item in value.items() for found in keys_of(item, (*path, key))}


@pytest.mark.parametrize("seed", range(4))
def test_flipped_bytes_never_end_in_a_traceback_or_a_false_success(
    alone: None, dpaudit: Any, ledger_file: Any, tmp_path: Path, seed: int
) -> None:
    ledger_file(0.25, 0.25)  # costs 0.5, as WHOLE claims
    path = tmp_path / "pyproject.toml"
    path.write_text(WHOLE)
    assert dpaudit("gate").exit_code == 0
    known = keys_of(tomllib.loads(WHOLE)["tool"])
    chance = random.Random(seed)  # noqa: S311  (repeatable)
    statuses = set()
    for _ in range(60):
        content = bytearray(WHOLE.encode())
        for _ in range(chance.choice([1, 1, 2])):
            at = chance.randrange(content.index(b"[tool"), len(content))
            content[at] = chance.choice([chance.randrange(256), chance.randrange(32, 127)])
        path.write_bytes(content)
        result = dpaudit("gate")  # the fixture holds that nothing escapes as an exception or a traceback
        statuses.add(result.exit_code)
        assert result.exit_code in {0, 1, 2, 3, 5}
        if result.exit_code == 0:
            assert keys_of(tomllib.loads(content.decode("utf-8-sig"))["tool"]) <= known
        else:
            assert result.stdout.strip() or "DPA" in result.stderr
            assert result.exit_code != 2 or "DPA" in result.stderr + result.stdout
    assert 2 in statuses


@pytest.mark.parametrize("seed", range(2))
def test_flipped_bytes_of_a_ledger_are_never_proved(
    alone: None, configure: Any, dpaudit: Any, ledger_file: Any, seed: int
) -> None:
    path = ledger_file(0.25, 0.25)
    whole = path.read_bytes()
    configure('[tool.dpaudit.ledgers.kept]\nledger = "ledger.jsonl"')
    assert dpaudit("gate").exit_code == 0
    chance = random.Random(seed)  # noqa: S311  (repeatable)
    for _ in range(60):
        content = bytearray(whole)
        at = chance.randrange(len(content) - 1)  # the last newline may be missing
        content[at] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
        result = dpaudit("gate")
        same_text = [json.loads(line) for line in whole.splitlines()] == _records(bytes(content))
        assert result.exit_code in ({0} if same_text else {2, 3})


def _records(content: bytes) -> list[Any] | None:
    try:
        return [json.loads(line) for line in content.splitlines()]
    except ValueError:
        return None


def test_the_starting_configuration_is_one(read: Any) -> None:
    assert read(CONFIGURATION.replace("MAX_EPSILON", "2").replace("RHO", "0.1")).gate is not None
