"""Rows about reports, logs, books, conversions and exact numbers: where a reader is told what is not so."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import os
import shutil
import sqlite3
import subprocess
import tempfile
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner, Result
from markdown_it import MarkdownIt

import dpaudit
from dpaudit import ZCDP, ApproxDP, Claim, Pair, PureDP
from dpaudit.accountants.book import Book
from dpaudit.accountants.closed_forms.conversions import zcdp_epsilon
from dpaudit.algorithms.figures.published_claims import Table
from dpaudit.algorithms.figures.regrets import sublinear
from dpaudit.algorithms.papers.qiao_wang_2023 import figure as qiao_wang_2023
from dpaudit.app.main import main
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.sequential import sequential
from dpaudit.auditors.statistics.threshold import threshold
from dpaudit.mechanisms import dominating
from tests.seams.case import Case


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        yield Path(name)


def _called(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


# A budget by a conversion that holds for Gaussian noise alone.


def _converted(row: int) -> str:
    """Whether the rho in a row of the answer for (1, 1e-6) proves that of everything that is rho-zCDP."""
    answer = json.loads(_called("convert", "--epsilon", 1, "--delta", 1e-6, "--output-format", "json").output)
    found = [one for one in answer["rows"] if one["guarantee"]["kind"] == "zcdp"][row]
    proves = zcdp_epsilon(found["figure"], 1e-6) <= 1.0
    return f"{found['holds']}: {'proves it' if proves else 'does not'}"


def _book_remedy(budget: Any) -> str:
    """Which conversion a book names where a budget or a cost is on another scale."""
    with _folder(), Book("book.sqlite") as book:
        try:
            book.open_account("patients", budget, unit="row", neighbouring="replace-one")
            book.reserve("patients", ZCDP(rho=0.1))
        except dpaudit.DpauditError as error:
            return error.remedy
    return "accepted"


# Text of others in a log.

_COMMAND_NAMES = {
    "two colons": "a\n::error title=forged::all is well",
    "two colons after spaces": "a\n \t::set-output name=x::y",
    "two colons after a carriage return": "a\r::stop-commands::x",
    "the older form": "a ##[error]forged",
    "that of Azure": "a ##vso[task.complete]",
    "a line that wraps": f"{'x' * 79} ::error::forged",
    "a word that is broken": f"{'x' * 80}::error::forged",
}


def _runner_reads(text: str) -> list[str]:
    """The lines that GitHub's runner takes for commands, after its `TryParse` and `TryParseV2`."""
    lines = text.replace("\r", "\n").split("\n")
    return [line for line in lines if line.strip().startswith("::") or "##[" in line or "##vso[" in line]


def _log_of(name: str) -> str:
    """What a runner reads in everything that `ledger check` prints of a ledger whose label is a name."""
    with _folder():
        ledger = dpaudit.run(_released_as(name), [0.0], claim=Claim(ZCDP(rho=0.5), unit="row"), seed=1).ledger
        ledger.write("ledger.jsonl")
        outputs = [_called("verify", "ledger.jsonl"), _called("ledger", "show", "ledger.jsonl")]
        outputs += [_called("verify", f"{name}.jsonl"), _called("book", "show", name)]
        outputs += [_called("verify", "ledger.jsonl", "--output-format", "json")]
    json.loads(outputs[-1].stdout)
    found = [line for one in outputs for line in _runner_reads(one.output)]
    return f"commands: {len(found)}"


def _released_as(name: str) -> Callable[..., Any]:
    def released(rows: Any, curator: Any) -> Any:
        noise = dpaudit.Gaussian(sigma=1.0, sensitivity=dpaudit.L2(1.0))
        return curator.release(0.0, noise, label=name)

    return released


def _raised(name: str) -> str:
    """What a runner reads where a target raises an exception whose class has a name of several lines."""
    with _folder():
        code = f"def target(rows, curator):\n    raise type({name!r}, (Exception,), {{}})(1)\n"
        Path("mine.py").write_text(code, encoding="utf-8")
        found = _called("run", "mine.py:target", "--rho", 1, "--unit", "row", "--in-process")
        found_too = _called("certify", "mine.py:target", "--rho", 1, "--unit", "row", "-o", "out")
    assert found.exit_code != 0
    assert found_too.exit_code != 0
    return f"commands: {len(_runner_reads(found.output + found_too.output))}"


# A certificate's words in a page.

FORGED = (
    "x\n```\n# Forged\n<script>alert(1)</script>\n![forged](http://forged)\n````\n# Forged\n\x1b[31m\u202e"
)


def _strings(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _strings(part, (*path, name))
    elif isinstance(value, list):
        for index, part in enumerate(value[:1]):
            yield from _strings(part, (*path, index))


def _with(record: Any, path: tuple[Any, ...], new: Any) -> Any:
    copy = json.loads(json.dumps(record))
    place = copy
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = new
    return copy


def _certified() -> Any:
    """A certificate's record, and its ledger's text."""
    with _folder():
        assert _called("certify", "dp-apvi", "-o", "out").exit_code == 0
        return json.loads(Path("out/certificate.json").read_text()), Path("out/ledger.jsonl").read_text()


def _forged_page(form: str, new: str) -> str:
    """What a reader of Markdown, as CommonMark and GitHub read it, sees of words of a certificate."""
    record, ledger = _certified()
    seen: set[str] = set()
    accepted = 0
    with _folder():
        Path("ledger.jsonl").write_text(ledger)
        for path in _strings(record):
            Path("certificate.json").write_text(json.dumps(_with(record, path, new)))
            done = _called("report", "certificate.json", "--format", form)
            accepted += done.exit_code == 0
            if done.exit_code == 0:
                seen |= _forged_in(done.stdout)
    assert accepted > 3
    return f"forged: {', '.join(sorted(seen)) or 'nothing'}"


def _forged_in(page: str) -> set[str]:
    tokens = MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(page)
    found = set()
    for before, token in itertools.pairwise(tokens):
        if before.type == "heading_open" and "Forged" in token.content:
            found.add("heading")
        kinds = {token.type, *(child.type for child in token.children or ())}
        found |= kinds & {"html_block", "html_inline", "image"}
    if any(unicodedata.category(one) in {"Cf", "Cc"} for one in page.replace("\n", "")):
        found.add("unseen characters")
    return found


# Figures of a certificate that were raised.


def _numbers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool)):
        yield path
    for name, part in (
        value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    ):
        yield from _numbers(part, (*path, name))


def _raised_figures(new: float, *, only: str, together: bool = False) -> str:
    """For which figures of these names, one after the other or together, `report` accepts another number."""
    record, ledger = _certified()
    paths = [
        path for path in _numbers(record) if path[-1] == only and path[0] in {"claim", "audits", "bounds"}
    ]
    accepted = []
    with _folder():
        Path("ledger.jsonl").write_text(ledger)
        for chosen in [paths] if together else [[path] for path in paths]:
            changed = record
            for path in chosen:
                changed = _with(changed, path, new)
            Path("certificate.json").write_text(json.dumps(changed))
            done = _called("report", "certificate.json", "--format", "md")
            accepted += (
                ["; ".join(".".join(map(str, path)) for path in chosen)] if done.exit_code == 0 else []
            )
    assert paths
    return f"accepted: {', '.join(accepted) or 'none'}"


# Books.


def _second_budget(first: str, second: str) -> str:
    with _folder():
        assert _called("book", "open", first, "--rho", 1, "--unit", "row").exit_code == 0
        return _outcome(_called("book", "open", second, "--rho", 1, "--unit", "row"))


def _outcome(done: Result) -> str:
    if done.exit_code == 0:
        return "accepted"
    error = next(line for line in done.stderr.split("\n") if line.startswith("error:"))
    return f"exit {done.exit_code}, {error}"


def _others(budget: str) -> str:
    """What a book shows of one account beside another, whose budget is stated so."""
    with _folder():
        _called("book", "open", "other", "--rho", 1, "--unit", "row")
        opened = _called("book", "open", "large", *budget.split(), "--unit", "row")
        shown = _called("book", "show")
        both = "both" if "large" in shown.stdout else "the other one"
        return f"{_outcome(opened)[:6]}, {both} shown" if "other" in shown.stdout else "nothing shown"


def _reserved(figure: str) -> str:
    with _folder():
        _called("book", "open", "patients", "--rho", 1, "--unit", "row")
        return _outcome(_called("book", "reserve", "patients", "--rho", figure))


def _planned(number: str) -> str:
    with _folder():
        Path("plan.toml").write_text(
            f'[[release]]\nmechanism = "gaussian"\nsigma = 1.0\nsensitivity = {number}'
        )
        return _outcome(_called("epsilon", "plan.toml"))


# Baselines at the merge base.

_IDENTITY = {
    **{f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def _git(*arguments: str) -> None:
    command = ["git", "-c", "protocol.file.allow=always", *arguments]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **_IDENTITY})


def _written(folder: Path, rho: float) -> None:
    """A ledger that costs so much, and its certificate."""
    folder.mkdir(parents=True, exist_ok=True)

    def released(rows: Any, curator: Any) -> Any:
        noise = dpaudit.Gaussian(sigma=1.0, sensitivity=dpaudit.L2(math.sqrt(2 * rho)))
        return curator.release(0.0, noise, label="a sum")

    ledger = dpaudit.run(released, [0.0], claim=Claim(ZCDP(rho=2.0), unit="row")).ledger
    ledger.write(folder / "ledger.jsonl")
    dpaudit.judge(ledger, dpaudit.account(ledger), [], command="x").write(folder / "certificate.json")


def _against_base(baseline: str, arrange: Callable[[Path], None], change: Callable[[Path], None]) -> str:
    """What the gate says of a seven times costlier run whose change also brings a costlier baseline."""
    with _folder() as root:
        _git("init", "--quiet", "--initial-branch", "main")
        _written(root / "runs/jan", 0.1)
        arrange(root)
        shutil.copy(root / "runs/jan/ledger.jsonl", root / "mine.jsonl")
        configuration = f"""[tool.dpaudit.policy]\nfail-on-increase = true\n[tool.dpaudit.ledgers.mine]
ledger = "mine.jsonl"\nbaseline = "{baseline}"\n"""
        Path("pyproject.toml").write_text(configuration)
        _git("add", "--all")
        _git("commit", "--quiet", "--message", "base")
        _git("checkout", "--quiet", "-b", "change")
        _written(root / "new", 0.7)
        shutil.copy(root / "new/ledger.jsonl", root / "mine.jsonl")
        change(root)
        done = _called("gate", "--base", "main", "--output-format", "json")
    report = json.loads(done.stdout)
    found = [*report["findings"], *(one for check in report["checks"] for one in check["findings"])]
    words = "; ".join(f"{one['rule']}: {one['message'].split(chr(10))[0]}" for one in found)
    assert tempfile.gettempdir() not in words
    return f"exit {done.exit_code}" + (f", {words}" if words else "")


_STATE = "a target that keeps something between runs"
_BEHIND = "a baseline behind a link"


def _nothing(root: Path) -> None:
    del root


def _link(root: Path) -> None:
    (root / "latest").symlink_to("runs/jan")


def _relink(root: Path) -> None:
    (root / "latest").unlink()
    (root / "latest").symlink_to("new")


def _copied(name: str) -> Callable[[Path], None]:
    """Put the costlier baseline in the place of a folder or a link."""

    def change(root: Path) -> None:
        place = root / name
        if place.is_symlink():
            place.unlink()
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(root / "new", place)

    return change


def _submodule(root: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(root / "runs/jan", name, dirs_exist_ok=True)
        for command in (
            ["init", "--initial-branch", "main"],
            ["add", "--all"],
            ["commit", "--message", "own"],
        ):
            _git("-C", name, *command)
        _git("submodule", "--quiet", "add", name, "outer")


def _file_link(root: Path) -> None:
    (root / "best").mkdir()
    for name in ("certificate.json", "ledger.jsonl"):
        (root / "best" / name).symlink_to(f"../runs/jan/{name}")


def _loop(root: Path) -> None:
    (root / "here").symlink_to(".")


def _kept(root: Path) -> None:
    """Take the costlier run back."""
    _written(root, 0.1)
    shutil.copy(root / "ledger.jsonl", root / "mine.jsonl")


def _unfetched(root: Path) -> None:
    (root / "large").mkdir()
    (root / "large/certificate.json").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")


# Targets that keep something from run to run, in one process.


def _stateful(says: Callable[[int, Any], float], **options: Any) -> str:
    """The verdict on a target that answers by how often it was called, and by its data."""
    calls = itertools.count()

    def target(rows: Any, curator: Any) -> float:
        noise = dpaudit.Laplace(scale=1.0, sensitivity=dpaudit.L1(1.0))
        curator.release(0.0, noise, label="nothing")
        return says(next(calls), rows)

    claim = Claim(PureDP(epsilon=0.05), unit="row", neighbouring="replace-one")
    options = {"method": "sequential", "trials": 1000, "in_process": True, **options}
    return str(dpaudit.audit(target, Pair([0.0], [1.0]), claim=claim, **options).verdict)


def _count(calls: int, rows: Any) -> float:
    del rows
    return float(calls)


def _count_and_data(calls: int, rows: Any) -> float:
    return float(calls % 2 + rows[0])


def _resumed(says: Callable[[int, Any], float]) -> str:
    """The same in two processes, of which the first one kept a part of its trials."""
    with _folder() as folder:
        kept = {"resume": folder / "trials.sqlite", "chunk": 100}
        _stateful(says, trials=200, **kept)
        with sqlite3.connect(folder / "trials.sqlite") as file:
            file.execute("DELETE FROM chunks WHERE side = 1 AND first = 100")
        return _stateful(says, **kept)


# Outputs of any size.


def _sized(method: Callable[..., Any], first: list[float], second: list[float], *, rows: bool) -> str:
    """The verdict on scores, or on rows of them, where numpy's warnings are errors."""
    generator = np.random.default_rng(0)
    sides = [np.array(values)[generator.integers(len(values), size=400)] for values in (first, second)]
    samples = Samples(*(side[:, None] if rows else side for side in sides), 0)
    claim = Claim(PureDP(epsilon=0.5), unit="row", neighbouring="replace-one")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return str(method(samples, claim=claim).verdict)


_SIZES = {
    "1e154": [1e154, 2e154],
    "both signs at 1e160": [1e160, -1.7e154],
    "the largest doubles": [1.7e308, -1.7e308],
    "all sizes": [5e-324, 1e300, -0.0, 1.0],
    "the smallest doubles": [5e-324, 1e-320, 0.0],
    "infinities": [1e300, math.inf, -math.inf],
}


# Sentences about a figure.

_KS = [10.0, 100.0, 1000.0, 10000.0]


def _vapvi(sentence: str, gaps: list[float], *, noise: float = 0.1, runs: int = 8) -> str:
    """What is said of DP-VAPVI so far above VAPVI at four K, where the optimum is 10 and close is 0.5."""
    plain, private = (
        qiao_wang_2023.Curve(*each) for each in (("vapvi", math.inf, 1.0), ("dp-vapvi", 1.0, 1.0))
    )
    generator = np.random.default_rng(1)
    values = {}
    for k, gap in zip(_KS, gaps, strict=True):
        for seed in range(runs):
            values[plain, k, seed] = 2.0 + generator.normal()
            values[private, k, seed] = values[plain, k, seed] + gap + noise * generator.normal()
    judged = qiao_wang_2023.sentences(Table(values), 10.0)
    return next(one.appears for one in judged if sentence in one.published)


def _regret(power: float, *, runs: int = 5, factor: float = 1.0 / 3.0) -> str:
    """Whether regret that grows as this power, the same in every run, is sublinear."""
    points = {("a", float(k), seed): factor * k**power for k in range(100, 2100, 100) for seed in range(runs)}
    return sublinear(Table(points), "a", "").appears


_BY_ROUNDING, _ONE_SIDE = "a sentence judged by rounding", "a sentence judged on one side"
_UNTOLD = "not told apart"


# Exact figures of guarantees and pairs.


def _rounded(make: Callable[[Any], Any], exact: Fraction) -> str:
    try:
        found = make(exact)
    except dpaudit.DpauditError:
        return "refused"
    return "at least the truth" if Fraction(found) >= exact else "below the truth"


_THIRD = Fraction(1, 3)
_MAKERS: dict[str, Callable[[Any], Any]] = {
    "Pure": lambda e: dominating.Pure(e).epsilon,
    "BoundedRange": lambda e: dominating.BoundedRange(e).epsilon,
    "Approx": lambda e: dominating.Approx(0.1, e).delta,
    "PureDP": lambda e: PureDP(epsilon=e).epsilon,
    "ApproxDP": lambda e: ApproxDP(epsilon=1.0, delta=e).delta,
    "ZCDP": lambda e: ZCDP(rho=e).rho,
}

CASES = [
    Case(
        "Gaussian-only conversion",
        "the first rho for a target",
        False,
        lambda: _converted(0),
        ".*: proves it",
    ),
    Case(
        "Gaussian-only conversion",
        "the rho of a Gaussian release is named as such",
        True,
        lambda: _converted(1),
        "largest of a Gaussian release.*: does not",
    ),
    Case(
        "Gaussian-only conversion",
        "a book asked for an approximate budget",
        True,
        lambda: _book_remedy(ApproxDP(epsilon=1.0, delta=1e-6)),
        ".*budget_for.*",
    ),
    Case(
        "Gaussian-only conversion",
        "a cost on another scale than the budget",
        True,
        lambda: _book_remedy(dpaudit.GDP(mu=1.0)),
        ".*dpaudit epsilon.*",
    ),
    *(
        Case(
            "text of others in a log",
            f"a label with {what}",
            True,
            lambda name=name: _log_of(name),
            "commands: 0",
        )
        for what, name in _COMMAND_NAMES.items()
    ),
    Case(
        "text of others in a log", "a label with colons inside", False, lambda: _log_of("a::b"), "commands: 0"
    ),
    Case(
        "text of others in a log",
        "an exception class with a line break in its name",
        True,
        lambda: _raised("Bad\n::error::forged"),
        "commands: 0",
    ),
    *(
        Case(
            "a certificate's words in a page",
            f"words that end a code block, as {form}",
            True,
            lambda form=form: _forged_page(form, FORGED),
            "forged: nothing",
        )
        for form in ("md", "card")
    ),
    Case(
        "a certificate's words in a page",
        "ordinary words as md",
        False,
        lambda: _forged_page("md", "dpaudit certify mine.py:algorithm"),
        "forged: nothing",
    ),
    *(
        Case(
            "a figure that was raised",
            f"{name} of a certificate raised to {f'{new}'[:20]}{', all together' if together else ''}",
            True,
            functools.partial(_raised_figures, new, only=name, together=together),
            "accepted: none",
        )
        for name, new, together in (
            ("rho", 2**63, False),
            ("rho", float(2**63), False),
            ("rho", 2**53 + 1, False),
            ("rho", 2**63, True),
            ("rho", 10**400, False),
            ("epsilon_lower", 2**63, False),
            ("epsilon_lower", 8.5, False),
        )
    ),
    Case(
        "a figure that was raised",
        "rho of a certificate as it is",
        False,
        lambda: _raised_figures(1.0, only="rho", together=True),
        "accepted: .*rho.*",
    ),
    *(
        Case(
            "two budgets that look the same",
            what,
            True,
            lambda first=first, second=second: _second_budget(first, second),
            "exit 2, error: DPA105.*",
        )
        for what, first, second in (
            ("composed and decomposed", "donn\u00e9es", "donne\u0301es"),
            ("a space at the end", "patients", "patients "),
            ("a space of another width inside", "my patients", "my\u2003patients"),
            ("an invisible space", "patients", "pati\u200bents"),
            ("a filler", "patients", "patients\u3164"),
            ("a Cyrillic letter", "patients", "p\u0430tients"),
            ("full width", "patients", "\uff50atients"),
            ("another case", "patients", "Patients"),
        )
    ),
    Case(
        "two budgets that look the same",
        "another name",
        False,
        lambda: _second_budget("a-1", "a-2"),
        "accepted",
    ),
    Case(
        "two budgets that look the same",
        "another accent",
        False,
        lambda: _second_budget("pâte", "pate"),
        "accepted",
    ),
    *(
        Case(
            "a figure past all sense",
            f"a budget of {given}",
            True,
            lambda given=given: _others(given),
            "exit 2.*",
        )
        for given in ("--mu 1e16", "--mu 1e200", "--rho 1e300", "--epsilon 1e308 --delta 1e-6")
    ),
    Case("a figure past all sense", "a budget of 1", False, lambda: _others("--mu 1"), "accept, both shown"),
    *(
        Case(
            "a positive number that becomes 0",
            f"a cost of {given}",
            True,
            lambda given=given: _reserved(given),
            "exit 2, error: DPA105.*too small.*",
        )
        for given in ("1e-400", "0.1e-999999999999", "4e-324", "1e-320")
    ),
    Case(
        "a positive number that becomes 0",
        "a cost of 0.0e-400",
        False,
        lambda: _reserved("0.0e-400"),
        "accepted",
    ),
    Case(
        "a positive number that becomes 0", "a cost of 1e-300", False, lambda: _reserved("1e-300"), "accepted"
    ),
    Case(
        "a positive number that becomes 0",
        "a planned sensitivity of 1e-400",
        True,
        lambda: _planned("1e-400"),
        "exit 2, error: DPA105.*too small.*",
    ),
    Case(
        "a positive number that becomes 0",
        "a planned sensitivity of 1.0",
        False,
        lambda: _planned("1.0"),
        "accepted",
    ),
    *(
        Case(
            _BEHIND,
            what,
            True,
            functools.partial(_against_base, path, *made),
            "exit 2, input:.*",
        )
        for what, path, made in (
            ("a folder that is a link, led elsewhere", "latest/certificate.json", (_link, _relink)),
            ("a folder that was a link", "latest/certificate.json", (_link, _copied("latest"))),
            ("a submodule that became a folder", "outer/certificate.json", (_submodule, _copied("outer"))),
            ("a file that is a link", "best/certificate.json", (_file_link, _copied("best"))),
            ("a link to the root", "here/runs/jan/certificate.json", (_loop, _copied("runs/jan"))),
            ("a baseline that was never committed", "none/certificate.json", (_nothing, _copied("none"))),
            ("a pointer in a baseline's place", "large/certificate.json", (_unfetched, _copied("large"))),
        )
    ),
    Case(
        _BEHIND,
        "the file itself, costlier",
        True,
        lambda: _against_base("runs/jan/certificate.json", _nothing, _copied("runs/jan")),
        "exit 1, fail-on-increase.*merge base.*",
    ),
    Case(
        _BEHIND,
        "the file itself, of the same cost",
        False,
        lambda: _against_base(
            "runs/jan/certificate.json", _nothing, lambda root: _written(root, 0.1) or _kept(root)
        ),
        "exit 0",
    ),
    *(
        Case(_STATE, what, False, functools.partial(_stateful, says, **options), "NOT_REFUTED")
        for what, says, options in (
            ("its count of calls", _count, {}),
            ("its count of calls, by a threshold", _count, {"method": "threshold"}),
            ("every other answer the same", lambda n, rows: float(n % 2), {"method": "threshold"}),
            ("an answer that changes by blocks of trials", lambda n, rows: float(n // 250 % 2), {}),
            ("an answer that settles", lambda n, rows: 1.0 / (n + 1), {}),
            ("its count of calls, by two workers", _count, {"workers": 2}),
        )
    ),
    Case(
        _STATE,
        "its count of calls, resumed",
        False,
        lambda: _resumed(lambda n, rows: float(n)),
        "NOT_REFUTED",
    ),
    Case(
        _STATE,
        "its count of calls and its data",
        True,
        lambda: _stateful(lambda n, rows: n % 2 + rows[0]),
        "REFUTED",
    ),
    *(
        Case(
            "finite outputs of any size",
            f"{what}, {method.__name__}{' of rows' if rows else ''}",
            False,
            functools.partial(_sized, method, values, values, rows=rows),
            "NOT_REFUTED",
        )
        for what, values in _SIZES.items()
        for method in (sequential, threshold)
        for rows in (False, True)
    ),
    *(
        Case(
            "finite outputs of any size",
            f"{what} told apart, {method.__name__}",
            True,
            functools.partial(_sized, method, values[:1], values[1:], rows=False),
            "REFUTED",
        )
        for what, values in _SIZES.items()
        for method in (sequential, threshold)
        if what != "the smallest doubles"  # which are rounded to 2^-1022 before any test
    ),
    *(
        Case(
            _BY_ROUNDING,
            f"regret exactly linear, times {factor:g}",
            True,
            functools.partial(_regret, 1.0, factor=factor),
            _UNTOLD,
        )
        for factor in (1 / 3, 0.1, 1e-9, 7e9)
    ),
    Case(_BY_ROUNDING, "regret as a square root", False, lambda: _regret(0.5), "yes"),
    Case(_BY_ROUNDING, "regret as a square", False, lambda: _regret(2.0), "no"),
    Case(_BY_ROUNDING, "one run as a square root", True, lambda: _regret(0.5, runs=1), _UNTOLD),
    *(
        Case(
            _ONE_SIDE,
            f"{sentence}, {what}",
            planted,
            functools.partial(_vapvi, sentence, gaps, **more),
            answer,
        )
        for sentence, what, planted, gaps, more, answer in (
            ("slightly worse", "where it is 4.03 better at one K", True, [0.3, 0.3, -4.03, 0.3], {}, "no"),
            ("slightly worse", "where it is slightly better", True, [-0.3, -0.3, -0.3, -0.3], {}, "no"),
            ("slightly worse", "by runs that tell nothing", True, [0.2] * 4, {"noise": 3.0}, _UNTOLD),
            ("slightly worse", "by one run", True, [0.2] * 4, {"runs": 1}, _UNTOLD),
            ("slightly worse", "as it is", False, [0.3, 0.3, 0.3, 0.3], {}, "yes"),
            ("converges", "where it ends far better", True, [3.0, 2.0, 1.0, -4.03], {}, "no"),
            ("converges", "on its last point alone", True, [0.0, 4.0, 4.0, 0.0], {}, "no"),
            ("converges", "by runs that tell nothing", True, [3.0, 1.0, 0.3, 0.1], {"noise": 9.0}, _UNTOLD),
            ("converges", "as it does", False, [3.0, 1.0, 0.2, 0.1], {}, "yes"),
            ("converges", "from below", False, [-3.0, -1.0, -0.2, -0.1], {}, "yes"),
            ("converges", "where the gap grows", False, [0.1, 1.0, 2.0, 3.0], {}, "no"),
        )
    ),
    *(
        Case(
            "an exact figure rounded down",
            f"{exact} as {name}",
            True,
            lambda make=make, exact=exact: _rounded(make, exact),
            "at least the truth",
        )
        for name, make in _MAKERS.items()
        for exact in (_THIRD, Fraction(2, 3) ** 40)
    ),
    Case(
        "an exact figure rounded down",
        "1/2 as PureDP",
        False,
        lambda: _rounded(_MAKERS["PureDP"], Fraction(1, 2)),
        "at least.*",
    ),
]
