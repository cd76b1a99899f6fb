"""`checker.js`, which reports carry: it answers as `checker.py` does."""

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dpaudit import (
    GDP,
    L2,
    RDP,
    ZCDP,
    ApproxDP,
    Certificate,
    FixedSizeSampled,
    Gaussian,
    PureDP,
    RandomizedResponse,
    Release,
    Shuffled,
    TruncatedPoissonSampled,
    checker,
)
from dpaudit.app import report
from dpaudit.app.report.self_check import MOST_BYTES, self_check
from dpaudit.app.verbs.report import report_text
from tests.checker.certified import certified, edited, hashed, last_hash, leaves, other
from tests.checker.test_checker import CLAIMS, EDITS, GAUSSIAN, LAPLACE, SAMPLED, ZCDP_OF, release

FILE = Path(report.__file__).parent / "checker.js"
SUITE = Path(__file__).parents[2] / "docs" / "spec" / "conformance"
CASES: list[dict[str, Any]] = json.loads((SUITE / "expected.json").read_text(encoding="utf-8"))

#: Reads [[certificate, ledger], ...] and writes the lines about each.
ANSWERS = "JSON.parse(input).map(files => checker.lines(checker.answers(...files)))"


#: Reads ledgers and writes whether each is valid, and meets the totals that are stated of it.
READ = """JSON.parse(input).map(([path, totals]) => {
  try {
    const { header, releases } = checker.readLedger(checker.decoded(require("node:fs").readFileSync(path)));
    const within = (guarantee, about) => {
      try {
        return checker.compared(checker.accountOf(header, releases), guarantee, about)[0];
      } catch (error) {
        return error instanceof checker.Unknown ? "not checked" : error.message;
      }
    };
    const scaled = (kind, factor) =>
      within({ kind, [{ zcdp: "rho", gdp: "mu" }[kind] ?? "epsilon"]: totals[kind] * factor }, "");
    const met = Object.keys(totals).map((kind) => [scaled(kind, 1 + 2e-9), scaled(kind, 1 - 1e-6)]);
    const held = header.budget ? within(header.budget, "the budget") : "holds";
    return [held === "does not hold" ? "invalid" : "valid", "the budget", met];
  } catch (error) {
    return ["invalid", error.message, []];
  }
})"""


#: Valid ledgers of kinds on which the checkers know no bound.
UNBOUNDED = {"private-selection", "shuffled"}


def node(expression: str, given: Any) -> Any:
    """What an expression about `checker` and `input` is, in node."""
    script = (
        f"const checker = require({json.dumps(str(FILE))});"
        "const input = require('node:fs').readFileSync(0, 'utf8');"
        f"process.stdout.write(JSON.stringify({expression}))"
    )
    text = json.dumps(given).encode()
    made = subprocess.run(["node", "-e", script], input=text, capture_output=True, check=True)  # noqa: S607
    return json.loads(made.stdout)


def by_node(files: Sequence[tuple[bytes, bytes]]) -> list[list[str]]:
    found: list[list[str]] = node(ANSWERS, [[one.decode() for one in pair] for pair in files])
    return found


def by_python(files: Sequence[tuple[bytes, bytes]]) -> list[list[str]]:
    every = [checker.answers(*pair) for pair in files]
    lines = [[f"{a:14} {b}" + (f": {c}" if c else "") for a, b, c in found] for found in every]
    return [[*some, found[0][0]] for some, found in zip(lines, every, strict=True)]


def test_the_conformance_suite() -> None:
    cases = [case for case in CASES if case.get("canonical", True)]
    files = [[str(SUITE / case["file"]), case.get("totals", {})] for case in cases]
    unbounded = set()
    for case, (found, why, met) in zip(cases, node(READ, files), strict=True):
        assert found == case["answer"], (case["file"], why)
        for pair in met:
            assert pair in (["holds", "does not hold"], ["not checked", "not checked"]), (case["file"], met)
            unbounded |= {Path(case["file"]).stem} if pair[0] == "not checked" else set()
    assert unbounded == UNBOUNDED


TRUNCATED = TruncatedPoissonSampled(mechanism=GAUSSIAN, rate=0.05, most=12, units=100)
FIXED = FixedSizeSampled(mechanism=GAUSSIAN, size=5, units=100)


def test_the_same_answers_about_certificates() -> None:
    made = [certified(ZCDP(rho=rho), [release(mechanism, count)]) for mechanism, count, rho in ZCDP_OF]
    made += [certified(*terms) for terms in CLAIMS.values()]
    made += [
        certified(PureDP(epsilon=1.0), [release(LAPLACE, 5)]),
        certified(GDP(mu=1.0), [release(LAPLACE)]),
    ]
    made += [certified(RDP(alpha=alpha, epsilon=1.0), [release(SAMPLED)]) for alpha in (8.0, 3.5)]
    made.append(certified(ApproxDP(epsilon=2.0, delta=1e-6), [release(GAUSSIAN)], curves=True))
    for relation in ("add-or-remove-one", "replace-one", "zero-out"):
        for mechanism in (FIXED, TRUNCATED, SAMPLED.model_copy(update={"contribution": 0.5})):
            claim = ApproxDP(epsilon=2.0, delta=1e-6)
            made.append(certified(claim, [release(mechanism)], neighbouring=relation))
    split = [release(GAUSSIAN, 3), release(GAUSSIAN, partition="a"), release(LAPLACE, 9, partition="b")]
    made += [certified(ZCDP(rho=9.0), split, neighbouring="replace-one", group_size=size) for size in (1, 2)]
    made.append(certified(ZCDP(rho=0.5), [release(GAUSSIAN, 2)], schedule="filtered", budget=ZCDP(rho=0.4)))
    layers: list[Release] = [release(SAMPLED, 5, label=f"it's layer {i}", sample="batch") for i in range(3)]
    made.append(certified(ApproxDP(epsilon=3.0, delta=1e-6), layers))
    other_names = Gaussian(sigma=0.7, sensitivity=L2(1.0))
    made.append(certified(ZCDP(rho=0.1), [release(other_names, label="\U0001f600 \uff5e é")]))
    found, wanted = by_node(made), by_python(made)
    assert found == wanted
    assert [lines[-1] for lines in found].count("holds") >= len(found) - 1


def outcomes(found: list[list[str]]) -> list[list[str]]:
    """The answers without their words, and what they are about up to its figures."""
    return [[line.split(": ")[0] for line in lines] for lines in found]


@pytest.mark.parametrize("name", ["zcdp", "laplace"])
def test_every_edit_of_a_ledger_with_all_hashes(name: str) -> None:
    certificate, ledger = certified(*CLAIMS[name])
    records, files, paths = [json.loads(line) for line in ledger.splitlines()], [], []
    for path, _ in leaves(records):
        if path[-1] == "hash" or path[:3] == (0, "claim", "guarantee"):
            continue
        changed = hashed(edited(records, path, other))
        again = {**json.loads(certificate), "ledger_hash": last_hash(changed)}
        files.append((json.dumps(again).encode(), changed))
        paths.append(path)
    found = by_node(files)
    assert [path for path, lines in zip(paths, found, strict=True) if lines[-1] == "holds"] == []
    assert outcomes(found) == outcomes(by_python(files))


def test_every_edit_of_a_certificate() -> None:
    certificate, ledger = certified(*CLAIMS["gdp"])
    record = json.loads(certificate)
    files = [(json.dumps(edited(record, path, other)).encode(), ledger) for path, _ in leaves(record)]
    found = by_node(files)
    assert outcomes(found) == outcomes(by_python(files))
    assert [lines[-1] for lines in found].count("does not hold") > len(found) / 2


@pytest.mark.parametrize("edit", EDITS, ids=lambda one: one.__name__)
def test_planted_edits_with_all_hashes(edit: Callable[[Any, Any], None]) -> None:
    certificate, ledger = certified(ZCDP(rho=0.5), [release(GAUSSIAN, 4)])
    records, stated = [json.loads(line) for line in ledger.splitlines()], json.loads(certificate)
    edit(records, stated)
    changed = hashed(records)
    stated["ledger_hash"] = last_hash(changed)
    files = [(json.dumps(stated).encode(), changed)]
    assert outcomes(by_node(files)) == outcomes(by_python(files))


def test_a_figure_that_is_lowered_and_what_is_said_to_be_confirmed() -> None:
    certificate, ledger = certified(*CLAIMS["sampled"])
    record = json.loads(certificate)
    lower = edited(record, ("bounds", 0, "guarantee", "epsilon"), lambda old: old * 0.999)
    lower["bounds"][0].pop("at_least", None)
    checks = {"version": "1", "sha256": "0" * 64, "lines": 900, "confirmed": "zcdp rho 0.1"}
    first, second = by_node(
        [(json.dumps(one).encode(), ledger) for one in (lower, {**record, "checks": checks})]
    )
    assert first[0].startswith("does not hold  the bound by")
    assert second[0].startswith("does not hold  checks: ")


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"a":1,"a":2}', "[" * 100_000, '{"a":1e999}', "\ud800"]
)
def test_bad_files_are_named(text: str) -> None:
    certificate, ledger = certified(ZCDP(rho=0.5), [release(GAUSSIAN, 4)])
    found = node(ANSWERS, [[text, ledger.decode()], [certificate.decode(), text]])
    assert [lines[-1] for lines in found] == ["does not hold"] * 2


def test_it_runs_alone(tmp_path: Path) -> None:
    certificate, ledger = certified(ZCDP(rho=1.0), [release(GAUSSIAN, 4)])
    (tmp_path / "c.json").write_bytes(certificate)
    (tmp_path / "l.jsonl").write_bytes(ledger)
    copied = tmp_path / "alone.js"
    copied.write_bytes(FILE.read_bytes())
    command = ["node", str(copied), "c.json", "l.jsonl"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert made.stdout.splitlines() == by_python([(certificate, ledger)])[0]
    (tmp_path / "l.jsonl").write_bytes(ledger.replace(b'"sigma":2', b'"sigma":3'))
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout.splitlines()[-1]) == (1, "does not hold")


#: Runs a page's scripts with as much of a document as they need, and writes what the page then shows.
PAGE = """(() => {
  const [data, source, workers] = JSON.parse(input), vm = require("node:vm"), boxes = [], said = [];
  const element = () => ({ append(...parts) { this.parts = parts; }, replaceChildren(...parts) {
    this.parts = parts; } });
  const heading = { after: (box) => boxes.push(box) };
  const document = { currentScript: { textContent: source }, createElement: element,
    getElementById: () => ({ textContent: data }), querySelector: () => heading };
  class Blob { constructor(parts) { this.text = parts.join(""); } }
  class Worker {
    constructor(blob) {
      const scope = { importScripts() {}, TextEncoder, postMessage: (data) => {
        this.onmessage({ data }); said.push(boxes[0].textContent); } };
      vm.runInNewContext(blob.text, scope);
      this.postMessage = (data) => scope.onmessage({ data });
    }
  }
  const page = { document, Blob, URL: { createObjectURL: (blob) => blob }, TextEncoder,
    setTimeout: (done) => done() };
  vm.runInNewContext(source, workers ? { ...page, Worker } : page);
  const [details] = boxes[0].parts;
  return [boxes[0].className, details.parts[0].textContent, details.parts[1].textContent, said];
})()"""


def opened(page: str, *, workers: bool) -> Any:
    """What a report shows of its own check: class, sentence, lines, and what it said before."""
    found = re.search(r'<script type="application/json" id="to-check">(.*)</script>\n<script>', page)
    assert found
    source = page[found.end() :].partition("</script>")[0]
    return node(PAGE, [found[1], source, workers])


def reported(files: tuple[bytes, bytes]) -> str:
    return report_text(Certificate.from_record(json.loads(files[0]), where="made"), (), ledger=files[1])


@pytest.mark.parametrize("workers", [True, False])
def test_a_report_checks_itself(workers: bool) -> None:
    files = certified(ZCDP(rho=0.5), [release(GAUSSIAN, 4, label="</script><script>\u2028 it's")])
    tone, words, lines, said = opened(reported(files), workers=workers)
    assert (tone, words) == ("good", "Checked in this browser: holds, 3 figures.")
    assert lines.splitlines() == by_python([files])[0]
    assert ("Checking in this browser: 2 answers so far." in said) is workers


def test_a_report_says_what_does_not_hold() -> None:
    files = certified(ZCDP(rho=0.5), [release(GAUSSIAN, 4)])
    page = reported(files)
    for old, new in (('rho": 0.5', 'rho": 0.4'), ('sigma":2', 'sigma":3')):
        changed = page.replace(json.dumps(old)[1:-1], json.dumps(new)[1:-1])
        assert changed != page
        tone, words, _, _ = opened(changed, workers=True)
        assert tone == "bad"
        assert words.startswith("Checked in this browser: does not hold: ")


def test_a_report_says_what_is_not_checked() -> None:
    selected = Shuffled(local=RandomizedResponse(epsilon=0.5), users=1000)
    files = certified(ApproxDP(epsilon=0.6, delta=1e-6), [release(selected)])
    tone, words, _, _ = opened(reported(files), workers=True)
    assert (tone, words[:37]) == ("unclear", "Checked in this browser: not checked:")


def test_a_report_carries_no_large_ledger() -> None:
    certificate, ledger = certified(ZCDP(rho=0.5), [release(GAUSSIAN, 4)])
    made = Certificate.from_record(json.loads(certificate), where="made")
    assert self_check(made, ledger) != ""
    assert self_check(made, ledger + b" " * MOST_BYTES) == ""


def test_the_file_ends_no_script_and_is_short() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert "</" not in text
    assert "<!--" not in text
    assert [line for line in text.splitlines() if len(line) > 120] == []
    assert sum(any(map(str.isalnum, line)) for line in text.splitlines()) <= 1200
