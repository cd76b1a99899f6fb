"""Work says how far it has come: to whoever watches, and to nobody else."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dpaudit
from dpaudit import L2, ZCDP, ApproxDP, Claim, Gaussian, Pair, progress
from dpaudit.accountants.calibration.calibration import scale_ledger
from dpaudit.app.verbs.planning.epsilon import epsilon
from dpaudit.progress import Work, shown_by, words

Seen = list[str]


def watched() -> tuple[Seen, Any]:
    seen: Seen = []
    return seen, shown_by(lambda under_way: seen.append(words(under_way)))


def test_the_innermost_work_is_named_first() -> None:
    seen, watching = watched()
    with watching, Work("checks", 2) as outer:
        outer(1, "march")
        with Work("auditing it"):
            pass
    march = "1 of 2 checks, march"
    assert seen == ["0 of 2 checks", march, f"auditing it, {march}", march, ""]


def test_what_nobody_watches_costs_next_to_nothing(python_calls: Any) -> None:
    with Work("runs", 1000) as work:
        assert python_calls(lambda: [work(i) for i in range(1000)]) < 10_000


def test_it_is_told_of_ten_times_a_second_at_most_and_of_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(1.0 + i / 1000 for i in range(2000))
    monkeypatch.setattr(progress, "monotonic", lambda: next(now))
    seen, watching = watched()
    with watching, Work("runs", 1000) as work:
        for done in range(1001):
            work(done)
    assert 10 <= len(seen) <= 15
    assert "1000 of 1000 runs" in seen


def test_what_fails_is_no_longer_under_way() -> None:
    seen, watching = watched()
    with watching:
        with pytest.raises(ValueError, match="x"), Work("runs", 1):
            raise ValueError("x")
        with Work("others"):
            pass
    assert seen == ["0 of 1 runs", "", "others", ""]


def test_a_forked_process_shows_nothing() -> None:
    """Targets run in forks: what they compute with dpaudit would draw over the bar of the command."""
    reader, writer = os.pipe()
    with shown_by(lambda _: os.write(writer, b"x")), Work("runs", 2):
        child = os.fork()
        if child == 0:
            with Work("others", 1) as others:
                others(1)
            os._exit(0)
        os.waitpid(child, 0)
    assert os.read(reader, 100) == b"xx"  # its beginning and its end
    os.close(reader)
    os.close(writer)


NOISE = Gaussian(sigma=4.0, sensitivity=L2(2.0))
CLAIM = Claim(ZCDP(rho=0.125), unit="row", neighbouring="replace-one")


def column_sums(data: Any, curator: Any) -> Any:
    return curator.release_sum(data, bound=1.0, mechanism=NOISE, label="sums")


def test_certify_and_a_sampling_audit_say_what_they_do() -> None:
    seen, watching = watched()
    data = np.eye(5, 3)
    with watching:
        few = functools.partial(dpaudit.audit, trials=2)
        dpaudit.certify(column_sums, data, claim=CLAIM, pairs=Pair(data, -data), auditor=few)
        steps = [said for said in seen if "replays" not in said]
        told = ["making its worst pairs", "running it", "computing what was spent", "auditing it"]
        assert list(filter(None, steps))[:4] == told
        assert any(said.endswith(" replays, auditing it") for said in seen)
        assert seen[-1] == ""
        seen.clear()
        pair = Pair(data, np.vstack([-data[:1], data[1:]]))
        dpaudit.audit(column_sums, (pair, pair), claim=CLAIM, method="sequential", trials=100, chunk=50)
    assert seen[0] == "0 of 200 runs a side"
    assert any(said.startswith("200 of 200 runs a side, pair 2 of 2") for said in seen)
    assert seen[-1] == ""


def test_what_only_computes_says_so_too(tmp_path: Path) -> None:
    """Each may take seconds: many different releases, and noise that is confirmed a second time."""
    result = dpaudit.run(column_sums, np.eye(5, 3), claim=CLAIM)
    result.ledger.write(tmp_path / "ledger.jsonl")
    plan = tmp_path / "plan.toml"
    plan.write_text('[[release]]\nmechanism = "gaussian"\nsigma = 1\n' * 3)
    target = ApproxDP(epsilon=1.0, delta=1e-6)
    seen, watching = watched()
    with watching:
        for compute, said in (
            (lambda: dpaudit.account(result.ledger), "computing what was spent"),
            (lambda: dpaudit.verify(tmp_path / "ledger.jsonl"), "computing what was spent"),
            (lambda: dpaudit.epsilon(NOISE, 1e-6), "computing epsilon"),
            (lambda: dpaudit.calibrate(NOISE, target), "finding the noise and confirming it"),
            (lambda: scale_ledger(result.ledger, target), "finding the factor and confirming it"),
        ):
            compute()
            assert seen == [said, ""]
            seen.clear()
        epsilon.main([str(plan), "--plot", str(tmp_path / "curve.svg")], standalone_mode=False)
    assert seen[0] == "0 of 3 releases"
    assert seen[-4:] == ["3 of 3 releases", "", "drawing curve.svg", ""]


class Cell:
    """What IPython's `display` and its handle showed."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.displays = 0

    def display(self, shown: str, *, display_id: bool) -> Cell:
        assert display_id
        self.displays += 1
        self.shown.append(shown)
        return self

    def update(self, shown: str) -> None:
        self.shown.append(shown)


@pytest.mark.parametrize("kernel", [object(), None], ids=["notebook", "IPython at a terminal"])
def test_a_notebook_shows_it_by_itself(monkeypatch: pytest.MonkeyPatch, kernel: object) -> None:
    cell = Cell()
    shell = SimpleNamespace(kernel=kernel, execution_count=1)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=cell.display, HTML=str))
    token = progress._WATCHED.set(None)
    try:
        for cell_number in (1, 1, 2):
            shell.execution_count = cell_number
            with Work("<b>", 10) as work:
                work(3, "& so on")
    finally:
        progress._WATCHED.reset(token)
    bar = '<progress value="0" max="10"></progress> 0 of 10 &lt;b&gt;'
    later = '<progress value="3" max="10"></progress> 3 of 10 &lt;b&gt;, &amp; so on'
    assert cell.shown == ([bar, later, ""] * 3 if kernel else [])
    assert cell.displays == (2 if kernel else 0)  # one for each cell, however much is done there


def test_nothing_is_printed_where_nobody_watches(capfd: pytest.CaptureFixture[str]) -> None:
    def work(parts: Sequence[int]) -> None:
        with Work("parts", len(parts), lasting=True) as told:
            for part in parts:
                told(part)

    work(range(3))
    assert capfd.readouterr() == ("", "")
