"""An audit that judged nothing; and a refutation that a skip or an expected failure hides."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit import L2, ZCDP, Claim, Curator, Gaussian, Pair
from dpaudit.app.gate.audit_plan import AuditPlan
from dpaudit.app.report.model_card import model_card
from dpaudit.app.report.report_page import publishing
from dpaudit.app.text.conditions import sentences
from tests.certified import certified
from tests.seams.case import Case

CLAIM = Claim(ZCDP(rho=0.5), unit="row", neighbouring="replace-one")
NOISE = Gaussian(sigma=2.0, sensitivity=L2(2.0))
ROWS = np.zeros((5, 1))
PAIR = Pair(ROWS, np.vstack([np.ones((1, 1)), ROWS[1:]]), "one row", unit=0)


def total(rows: Any, curator: Curator) -> Any:
    return curator.release_sum(rows, bound=1.0, mechanism=NOISE, label="total")


def refuses(rows: Any, curator: Curator) -> Any:
    """A function crosses to no other process: this output cannot be compared."""
    return total(rows, curator), lambda: None


def shown(target: Any, pairs: Any = PAIR, seconds: float | None = None) -> str:
    """The colour of the report's last box, the model card's end, and what is first under "Not checked"."""
    plan = AuditPlan("replay", 3, seconds, 0, 0.95)
    made = certified(
        target, ROWS, claim=CLAIM, pairs=pairs, auditor=plan.audit, curves=False, in_process=False
    )
    certificate, bounds = made.certificate, made.accounted.bounds(ZCDP(rho=0.0))
    first = next(iter(sentences(certificate.not_checked)))
    card = (
        model_card(certificate, made.accounted, bounds).strip().split("\n\n")[-1].partition(" by dpaudit")[0]
    )
    return f"{certificate.experiment}; {publishing(certificate, bounds)[1]}; {card}; first: {first}"


#: Tests that audit a claim, and then end in a way that is no failure. "faulty" releases what is not clipped.
TESTS = """
import contextlib, unittest
import numpy as np, pytest
from dpaudit import L2, Gaussian

NOISE = Gaussian(sigma=4.0, sensitivity=L2(2.0))

def innocent(data, curator):
    return curator.release_sum(data, bound=1.0, mechanism=NOISE, label="sums")

def faulty(data, curator):
    return curator.release(data.sum(axis=0), NOISE, label="sums")

DATA, OTHER = np.eye(5, 3), np.eye(5, 3)
OTHER[0] = -9.0
claimed = pytest.mark.dp_claim(rho=0.125, unit="row", neighbouring="replace-one")
each = pytest.mark.parametrize("target", [innocent, faulty], ids=["innocent", "faulty"])

def caught(dp_audit, target):
    with contextlib.suppress(BaseException):
        dp_audit(target, (DATA, OTHER))

@claimed
@each
def test_skip(dp_audit, target):
    caught(dp_audit, target)
    pytest.skip()

@claimed
@each
def test_importorskip(dp_audit, target):
    caught(dp_audit, target)
    pytest.importorskip("no_such_module_at_all")

@claimed
@each
@pytest.mark.xfail
def test_xfail_mark(dp_audit, target):
    caught(dp_audit, target)
    assert False

@claimed
@each
def test_xfail_call(dp_audit, target):
    caught(dp_audit, target)
    pytest.xfail()

@pytest.fixture
def late(dp_audit, target):
    yield
    caught(dp_audit, target)

@claimed
@each
def test_teardown(dp_audit, late, target):
    dp_audit(innocent, (DATA, OTHER))

@claimed
@each
def test_skip_after_release(dp_curator, target):
    noise = Gaussian(sigma=4.0 if target is innocent else 1.0, sensitivity=L2(2.0))
    dp_curator.release(0.0, noise, label="a")
    pytest.skip()

class Test_innocent(unittest.TestCase):
    target = staticmethod(innocent)

    @pytest.fixture(autouse=True)
    def _given(self, dp_audit):
        self.dp_audit = dp_audit

    @claimed
    def test_unittest(self):
        caught(self.dp_audit, self.target)
        self.skipTest("no time")

class Test_faulty(Test_innocent):
    target = staticmethod(faulty)

@claimed
@pytest.mark.dp_claim(rho=0.01, unit="row")
def test_two_claims_faulty(dp_curator):
    innocent(DATA, dp_curator)

@claimed
@claimed
def test_two_claims_innocent(dp_curator):
    innocent(DATA, dp_curator)
"""
WAYS = ("skip", "importorskip", "xfail_mark", "xfail_call", "teardown", "skip_after_release", "unittest")


@functools.cache
def outcomes() -> Mapping[str, str]:
    """The outcomes of one session of pytest, test by test."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_claims.py").write_text(TESTS)
        words = ("-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "dpaudit.app.testing.pytest_plugin")
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(map(str, sys.path))
        told = subprocess.run(
            [sys.executable, *words, "test_claims.py"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    lines = re.findall(
        r"^test_claims\.py::(\S+) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)", told.stdout, re.MULTILINE
    )
    return dict(lines)


def outcome(way: str, kind: str) -> Callable[[], str]:
    name = f"Test_{kind}::test_unittest" if way == "unittest" else f"test_{way}[{kind}]"
    name = f"test_{way}_{kind}" if way == "two_claims" else name
    return lambda: outcomes()[name]


UNJUDGED = "an audit judged nothing"
HIDDEN = "a refutation is hidden"
NOT_GREEN = r"INCONCLUSIVE; unclear; Proved, and judged by no experiment,; first: "
OVER = NOT_GREEN + r"the claim by experiment: an audit was inconclusive \(replay: the time limit of .*"

CASES = [
    Case(UNJUDGED, "its time was over", True, lambda: shown(total, seconds=1e-3), OVER),
    Case(
        UNJUDGED, "its output cannot be compared", True, lambda: shown(refuses), NOT_GREEN + "the claim by .*"
    ),
    Case(
        UNJUDGED,
        "both data sets of its pair are the same",
        True,
        lambda: shown(total, Pair(ROWS, ROWS)),
        NOT_GREEN + "the claim by .*",
    ),
    Case(
        UNJUDGED,
        "it has no pair",
        True,
        lambda: shown(total, ()),
        NOT_GREEN + "the claim .* no audit was run",
    ),
    Case(
        UNJUDGED,
        "it came to its end",
        False,
        lambda: shown(total),
        r"NOT_REFUTED; good; Proved and audited; .*",
    ),
    *(
        Case(
            HIDDEN, f"{way.replace('_', ' ')}, {kind} target", kind == "faulty", outcome(way, kind), expected
        )
        for way in (*WAYS, "two_claims")
        for kind, expected in (("faulty", "FAILED|ERROR"), ("innocent", "PASSED|SKIPPED|XFAIL"))
    ),
]
