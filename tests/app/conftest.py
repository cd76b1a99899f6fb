"""A command line to call, and algorithms as a user writes them: some honest, some each with one fault."""

import functools
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dpaudit.app.main import main
from tests import make
from tests.app.browser import Browser, opened

Invoke = Callable[..., Result]

_IDENTITY = {
    **{f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all pages: to start it costs more than to open them."""
    with opened(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


MINE = """
from __future__ import annotations
from dataclasses import dataclass
import numpy as np
from dpaudit import L2, Claim, Gaussian, Laplace, L1, ZCDP
from dpaudit.claims.claims import Premise
from dpaudit.claims.pairs import Pair

def sums(data, curator):
    print("chatter")
    rows = data / np.maximum(np.linalg.norm(data, axis=1, keepdims=True), 1.0)
    return curator.release(rows.sum(axis=0), Gaussian(sigma=4.0, sensitivity=L2(2.0)), label="sums")

def overclaimed(data, curator):
    rows = data / np.maximum(np.linalg.norm(data, axis=1, keepdims=True), 1.0)
    mechanism = Gaussian(sigma=4.0, sensitivity=L2(2.0))
    return curator.release(rows.sum(axis=0), mechanism, label="sums", claimed=ZCDP(rho=0.1))

def unclipped(data, curator):
    return curator.release(data.sum(axis=0), Gaussian(sigma=4.0, sensitivity=L2(2.0)), label="raw sums")

def leaky(data, curator):
    return sums(data, curator), float(data[0, 0])

def opaque(data, curator):
    sums(data, curator)
    return (row for row in data)

def local(data, curator):
    noise = Gaussian(sigma=4.0, sensitivity=L2(2.0))
    return [curator.user(i).release(np.clip(row, 0, 1)[0], noise, label="row") for i, row in enumerate(data)]

@dataclass(frozen=True)
class Frozen:
    name = "frozen"
    claim = Claim(ZCDP(rho=0.125), unit="user", neighbouring="replace-one")
    def __call__(self, data, curator):
        return sums(data, curator)
    def worst_pairs(self):
        return [Pair(*pair())]
    def utility(self, output):
        return {"norm": float(np.linalg.norm(output)), "undefined": float("nan")}

frozen = Frozen()

def premised(data, curator):
    return sums(data, curator)
premised.claim = Claim(ZCDP(rho=1.0), premises=(Premise(name="enough rows", left=5, relation=">=", right=9),))

def silent(data, curator): return 3
def failing(data, curator): raise KeyError("a private record")
def leaving(data, curator): raise SystemExit(0)
def stopping(data, curator): raise KeyboardInterrupt
def badly_claimed(data, curator): return 3
badly_claimed.claim = "1-DP"
number = 3

def pair():
    data = np.eye(5, 3)
    neighbour = data.copy()
    neighbour[0] = -10.0
    return data, neighbour

def pair_object(): return Pair(*pair())
def no_pair(): return [1, 2, 3]
def failing_pair(): raise RuntimeError("no such data")
"""


@functools.cache
def vega_lite() -> Any:
    """Vega-Lite's schema, which Altair has."""
    import altair as alt
    import jsonschema

    return jsonschema.Draft7Validator(alt.load_schema())


#: Pictures by their specification: many tests draw the same ones.
_DRAWN: dict[str, str] = {}


def _with_few_rows(part: Any) -> Any:
    """A part of a picture, with three rows of data: of a row, the schema asks only that it is an object."""
    if isinstance(part, list):
        return [_with_few_rows(each) for each in part]
    if not isinstance(part, dict):
        return part
    rows = part.get("values")
    if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        part = {**part, "values": rows[:3]}
    return {name: _with_few_rows(value) for name, value in part.items()}


@pytest.fixture(autouse=True)
def valid_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold every picture that is drawn against Vega-Lite's schema: what draws it does not."""
    import vl_convert

    drawn = vl_convert.vegalite_to_svg

    def held(picture: dict[str, Any]) -> str:
        known = json.dumps(picture)
        if known not in _DRAWN:
            # No background is a null, which Vega reads and the schema does not name.
            look = {name: value for name, value in picture["config"].items() if value is not None}
            vega_lite().validate(_with_few_rows({**picture, "config": look}))
            _DRAWN[known] = str(drawn(picture))
        return _DRAWN[known]

    monkeypatch.setattr(vl_convert, "vegalite_to_svg", held)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch, nightly: bool) -> None:
    """By day, empty pictures: drawing takes half a second, and other tests look at what is drawn."""
    from dpaudit.page import chart

    if not nightly:
        monkeypatch.setattr(chart, "specification", lambda picture: {"config": {}})
        monkeypatch.setattr(chart, "svg", lambda *_: "<svg></svg>")


@pytest.fixture
def module(tmp_path: Path) -> Callable[..., Callable[[str], str]]:
    """Write a user's module; the reference of an object in it, as ``.../own.py:sums`` of "sums"."""

    def write(text: str, name: str = "own.py") -> Callable[[str], str]:
        path = tmp_path / name
        path.write_text(text)
        return lambda name: f"{path}:{name}"

    return write


@pytest.fixture
def mine(module: Any) -> Any:
    """The reference of an object in a user's module, `mine.py`."""
    return module(MINE, "mine.py")


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., str]:
    """Git in the folder of the test."""

    def call(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *arguments],  # noqa: S607  (the one that is installed)
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, **_IDENTITY},
        )
        return done.stdout.strip()

    return call


@pytest.fixture
def dpaudit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Invoke:
    """Call the command line in a folder of its own, 80 columns wide."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("DPAUDIT_TRACEBACK", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))  # and forgotten afterwards, with what loading targets adds

    def invoke(*arguments: object) -> Result:
        result = CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="dpaudit")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert "Traceback" not in result.stderr
        return result

    return invoke


@pytest.fixture
def refusal(dpaudit: Invoke) -> Callable[..., str]:
    """Call the command line with what it refuses; the words on stderr, on one line."""

    def invoke(*arguments: object) -> str:
        result = dpaudit(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "fault in dpaudit" not in result.stderr
        return " ".join(result.stderr.split())

    return invoke


@pytest.fixture
def answer(dpaudit: Invoke) -> Callable[..., tuple[int, Any]]:
    """Call the command line for JSON; stdout must hold nothing else."""

    def invoke(*arguments: object) -> tuple[int, Any]:
        result = dpaudit(*arguments, "--output-format", "json")
        return result.exit_code, json.loads(result.stdout)

    return invoke


@pytest.fixture
def ledger_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a finished, hashed ledger of Gaussian releases through the API."""
    from dpaudit import L2, ZCDP, Claim, Gaussian

    def write(
        *rhos: float, claim: float | None = 0.5, claimed: float | None = None, name: str = "ledger.jsonl"
    ) -> Path:
        own = None if claimed is None else ZCDP(rho=claimed)
        sigmas = [(0.5 / rho) ** 0.5 for rho in rhos]
        queries = [
            make.release(
                Gaussian(sigma=sigma, sensitivity=L2(1.0, "proved")), label=f"query {i}", claimed=own
            )
            for i, sigma in enumerate(sigmas)
        ]
        about = {"algorithm": "hand-made", "neighbouring": "replace-one"}
        ledger = make.ledger(*queries, claim=None if claim is None else Claim(ZCDP(rho=claim)), **about)
        return ledger.write(tmp_path / name)

    return write
