"""The pytest plugin, as a user's session sees it: every session here is a process of its own."""

import hashlib
import importlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.sweeps import sweep

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]
PLUGIN = "dpaudit.app.testing.pytest_plugin"

HONEST = """
import numpy as np
import pytest
from dpaudit import L1, L2, ZCDP, Claim, Gaussian, Laplace

def sums(data, curator):
    return curator.release_sum(
        data, bound=1.0, mechanism=Gaussian(sigma=4.0, sensitivity=L2(2.0)), label="sums"
    )

def unclipped(data, curator):
    return curator.release(data.sum(axis=0), Gaussian(sigma=4.0, sensitivity=L2(2.0)), label="sums")

DATA = np.eye(5, 3)
OTHER = np.eye(5, 3)
OTHER[0] = -9.0
claimed = pytest.mark.dp_claim
"""

CURATOR = """
@claimed(rho=0.125, unit="row", neighbouring="replace-one")
def test_proved(dp_curator):
    assert sums(DATA, dp_curator).shape == (3,)

@claimed(Claim(ZCDP(rho=0.1), unit="row"))
def test_not_proved(dp_curator):
    sums(DATA, dp_curator)

@claimed(rho=0.125)
def test_release(dp_curator):
    noise = Gaussian(sigma=4.0, sensitivity=L2(2.0))
    dp_curator.release(0.0, noise, label="a", claimed=ZCDP(rho=0.1))
"""

AUDIT = """
@claimed(rho=0.125, unit="row", neighbouring="replace-one")
def test_kept(dp_audit):
    assert str(dp_audit(sums, (DATA, OTHER), trials=3).verdict) == "NOT_REFUTED"

@claimed(rho=0.125, unit="row", neighbouring="replace-one")
def test_broken(dp_audit):
    dp_audit(unclipped, (DATA, OTHER), trials=3)
"""


@pytest.fixture
def session(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, python: list[str], few_runs: None
) -> Any:
    """Run pytest in a process of its own on one test file, with the plugin and those that are named."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(source: str, *options: str, plugins: tuple[str, ...] = ()) -> pytest.RunResult:
        pytester.makepyfile(HONEST + source)
        named = [word for plugin in (PLUGIN, *plugins) for word in ("-p", plugin)]
        return pytester.run(*python, "-m", "pytest", "-p", "no:cacheprovider", *named, *options)

    return run


def test_the_entry_point_names_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module = importlib.import_module(project["entry-points"]["pytest11"]["dpaudit"])
    assert module.__name__ == PLUGIN


def test_a_claim_is_proved_or_fails_as_an_assertion_does(session: Any) -> None:
    result = session(CURATOR, "--strict-markers")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*_ test_not_proved _*",
            "not proved: 0.1-zCDP per row (replace-one, central)",
            "  total: claimed 0.1, computed 0.125: 1.25 times the claim",
            "    would hold: claim rho 0.125, or multiply the noise by 1.118*",
            "*_ test_release _*",
            "not proved: 0.125-zCDP per record*",
            "  release 'a': claimed 0.1, computed 0.125: 1.25 times the claim",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


def test_what_would_hold_does_hold(session: Any) -> None:
    # sqrt(0.125 / 0.1) = sqrt(5) / 2 = 1.11804 rounded up: just under it the claim fails, at it it holds.
    body = """
@pytest.mark.parametrize("factor", [1.11803, 1.11804])
@claimed(rho=0.1)
def test_noise(dp_curator, factor):
    dp_curator.release(0.0, Gaussian(sigma=4.0 * factor, sensitivity=L2(2.0)), label="a")
"""
    result = session(body, "-v")
    result.stdout.fnmatch_lines(["*1.11803* FAILED*", "*1.11804* PASSED*"])


def test_an_audit_refutes_the_fault_and_not_its_twin(session: Any) -> None:
    result = session(AUDIT)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "refuted: 0.125-zCDP per row (replace-one, central)",
            "  sensitivity in 'sums': the query moves by * l2; the ledger declares 2 (*.py:11)",
            "    would hold: clip every unit's contribution*",
            "  audit by replay, 3 trials, seed *, error 2.5e-07",  # two tests; the first audit takes half
        ]
    )


def test_a_sampling_audit(session: Any) -> None:
    body = """
from dpaudit.auditors.sampling.curatorless import Plain

def laplace(scale):
    return lambda data, curator: curator.release(
        float(data[0, 0]), Laplace(scale=scale, sensitivity=L1(1.0)), label="a"
    )

PAIR = (np.zeros((1, 1)), np.ones((1, 1)))

@claimed(epsilon=1.0)
def test_honest(dp_audit):
    dp_audit(laplace(1.0), PAIR, method="threshold", trials=400)

@claimed(epsilon=0.2)
def test_too_little_noise(dp_audit):
    dp_audit(laplace(1.0), PAIR, method="threshold", trials=800)

@claimed(epsilon=9.0)
def test_out_of_reach(dp_audit):
    dp_audit(laplace(1.0), PAIR, method="threshold", trials=20)

@claimed(epsilon=1.0)
def test_own_noise(dp_audit):
    def noisy(data, generator):
        return float(data[0, 0]) + generator.laplace()

    found = dp_audit(Plain(noisy), PAIR, trials=60, allow_inconclusive=True)
    assert (found.method, found.trials) == ("sequential", 60)

@claimed(epsilon=0.2)
def test_too_little_own_noise(dp_audit):
    def noisy(data, generator):
        return float(data[0, 0]) + 0.1 * generator.laplace()

    dp_audit(Plain(noisy), PAIR, trials=120)

@claimed(mu=9.0)
def test_gaussian(dp_audit):
    found = dp_audit(laplace(1.0), PAIR, method="gdp", trials=60, allow_inconclusive=True)
    assert found.method == "gdp"

@claimed(epsilon=9.0)
def test_out_of_reach_and_allowed(dp_audit):
    dp_audit(laplace(1.0), PAIR, method="threshold", trials=20, allow_inconclusive=True)
"""
    result = session(body)
    result.assert_outcomes(passed=4, failed=3)
    result.stdout.fnmatch_lines(
        ["refuted: 0.2-DP*", "  epsilon at delta 0: claimed 0.2, at least *", "inconclusive: 9-DP*"]
    )


def test_neighbours_differ_as_the_claim_says(session: Any) -> None:
    body = """
@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one", "zero-out"])
def test_pairs(relation, request, dp_neighbours):
    pass

@claimed(rho=1.0, neighbouring="add-or-remove-one")
def test_added(dp_neighbours, dp_audit):
    pairs = dp_neighbours(DATA)
    assert {len(pair.neighbour) - len(pair.data) for pair in pairs} == {-1, 1}
    dp_audit(sums, pairs[:1], trials=2)

@claimed(rho=1.0)
def test_replaced(dp_neighbours, dp_curator):
    assert all(len(pair.neighbour) == 5 for pair in dp_neighbours(DATA, lower=-1.0))
    sums(DATA, dp_curator)
"""
    session(body).assert_outcomes(passed=5)


def test_nothing_passes_that_was_not_judged(session: Any) -> None:
    body = """
@claimed(rho=1.0)
def test_without_fixture():
    pass

def test_without_claim(dp_curator):
    pass

@claimed(rho=1.0)
def test_without_release(dp_curator):
    pass

@claimed(rhoo=1.0)
def test_misspelled(dp_curator):
    pass

@claimed(unit="row")
def test_no_guarantee(dp_curator):
    pass

@claimed(rho=1.0, delta=0.1)
def test_delta(dp_curator):
    pass

@claimed(rho=float("nan"))
def test_nan(dp_curator):
    pass

def test_dynamic(request):
    request.getfixturevalue("dp_audit")

@claimed(rho=1.0)
def test_no_pairs(dp_audit):
    dp_audit(sums, [])

@claimed(rho=1.0)
def test_no_method(dp_audit):
    dp_audit(sums, (DATA, OTHER), method="guess")
"""
    result = session(body)
    # Errors arise before a test, failures in it.
    result.assert_outcomes(failed=4, errors=6)
    for words in (
        "nothing is judged",
        "without a claim",
        "nothing was released",
        "did you mean 'rho'?",
        "it states no guarantee",
        "delta with rho",
        "finite",
        "no pairs of neighbouring",
        "no method 'guess'",
        "dp_audit asked for while the test runs",
    ):
        result.stdout.fnmatch_lines([f"*{words}*"])


def seed_of(test: str, number: int) -> str:
    """The seed of a test's n-th audit under the root seed 0, as docs/publishing/pytest.md states it."""
    digest = hashlib.sha256(json.dumps([test, number, 0]).encode()).hexdigest()
    return str(int(digest[:8], 16))


SHOWN = """
@pytest.mark.parametrize("number", range(4))
@claimed(rho=0.125)
def test_shown(dp_audit, number, record_property):
    for _ in range(number % 2 + 1):
        found = dp_audit(sums, (DATA, OTHER), trials=2)
        with open(f"audit-{number}.txt", "a") as file:
            file.write(f"{found.seed} {1 - found.confidence:.6g}\\n")
"""


@sweep("options", [(), ("-n", "2")], everyday=(0,))
def test_shares_and_seeds_are_the_same_however_the_session_is_run(
    session: Any, pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    session(SHOWN, *options, plugins=("xdist.plugin",)).assert_outcomes(passed=4)
    kept = [(pytester.path / f"audit-{number}.txt").read_text().split() for number in range(4)]
    # Four tests share 1e-6; the first audit of one takes 1/2 of its share, the second 1/6.
    assert [audits[1::2] for audits in kept] == [["1.25e-07"], ["1.25e-07", "4.16667e-08"]] * 2
    seeds = [seed for audits in kept for seed in audits[::2]]
    assert len(set(seeds)) == 6
    assert seeds[0] == seed_of(f"{pytester._name}.py::test_shown[0]", 1)


def test_another_root_seed_gives_other_seeds(session: Any, pytester: pytest.Pytester) -> None:
    session(SHOWN, "--dp-seed", "1").assert_outcomes(passed=4)
    first = (pytester.path / "audit-0.txt").read_text().split()[0]
    assert first != seed_of(f"{pytester._name}.py::test_shown[0]", 1)


RERUN = """
@claimed(rho=0.125)
@pytest.mark.flaky(reruns=3)
def test_broken(dp_audit):
    with open("tries.txt", "a") as file:
        file.write("x")
    dp_audit(unclipped, (DATA, OTHER), trials=2)

def test_plain():
    with open("plain.txt", "a") as file:
        file.write("x")
    assert False
"""


@sweep("option", [("--reruns", "2"), ("--force-reruns", "2"), ("--reruns", "2", "-n", "1")], everyday=(0, 1))
def test_rerunfailures_leaves_statistical_tests_alone(
    session: Any, pytester: pytest.Pytester, option: tuple[str, ...]
) -> None:
    session(RERUN, *option, plugins=("pytest_rerunfailures", "xdist.plugin"))
    assert (pytester.path / "tries.txt").read_text() == "x"
    assert (pytester.path / "plain.txt").read_text() == "xxx"


def test_any_other_plugin_that_reruns_is_refused(session: Any, pytester: pytest.Pytester) -> None:
    # What such plugins do: the same item once more, and the last outcome counts.
    pytester.makeconftest("""
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    for attempt in range(3):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    return True
""")
    result = session("""
tries = []

@claimed(rho=0.125)
def test_broken_at_first(dp_audit):
    tries.append(1)
    dp_audit(unclipped if len(tries) == 1 else sums, (DATA, OTHER), trials=2)
""")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*a statistical test that failed is not run again*"])


def test_the_plugin_is_silent_and_cheap_where_it_is_not_used(session: Any, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_plain="import sys\ndef test_it(): assert 'numpy' not in sys.modules\n")
    options = ["-p", "no:cacheprovider", "-q"]
    plain = pytester.runpytest_subprocess(*options)
    loaded = pytester.runpytest_subprocess("-p", PLUGIN, *options)
    loaded.assert_outcomes(passed=1)
    assert [line for line in loaded.outlines if "in 0." not in line] == [
        line for line in plain.outlines if "in 0." not in line
    ]
    slow = {"numpy", "scipy", "pydantic", "rich", "click"}
    program = f"import sys, {PLUGIN}; print(*(set(sys.modules) & {slow}))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


def test_a_dp_audit_that_is_never_called_does_not_pass(session: Any) -> None:
    result = session("@claimed(rho=0.125)\ndef test_forgot(dp_audit):\n    pass\n", "-q")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["nothing to check: dp_audit was never called"])


CAUGHT = """
import contextlib, os, pathlib, threading, time

def exits(data, curator): os._exit(0)

def waits(data, curator):
    pathlib.Path("begun").touch()
    time.sleep(600)

@pytest.mark.parametrize("algorithm", [unclipped, exits, sums], ids=["broken", "exits", "innocent"])
@claimed(rho=0.125, unit="row", neighbouring="replace-one")
class TestCaught:
    def test_caught(self, dp_audit, algorithm):
        with contextlib.suppress(BaseException):
            dp_audit(algorithm, (DATA, OTHER))

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_thread(self, dp_audit, algorithm):
        thread = threading.Thread(target=dp_audit, args=(algorithm, (DATA, OTHER)))
        thread.start()
        thread.join()

@claimed(rho=0.125, unit="row", neighbouring="replace-one")
def test_not_waited_for(dp_audit):
    threading.Thread(target=dp_audit, args=(waits, (DATA, OTHER)), daemon=True).start()
    while not pathlib.Path("begun").exists():
        time.sleep(0.01)
"""


@pytest.mark.usefixtures("own_processes", "runs_in_threads")
def test_an_audit_whose_failure_was_caught_fails_its_test(session: Any) -> None:
    result = session(CAUGHT, "-rp")
    outcomes = result.parseoutcomes()
    assert (outcomes["passed"], outcomes["failed"]) == (2, 5)
    text = result.stdout.str()
    assert "an audit that did not come to its end" in text
    assert text.count("innocent]") == 2


SKIPPED = """
import contextlib, unittest

RHO = claimed(rho=0.125, unit="row", neighbouring="replace-one")
each = pytest.mark.parametrize("algorithm", [sums, unclipped], ids=["innocent", "faulty"])

def caught(dp_audit, algorithm):
    with contextlib.suppress(BaseException):
        dp_audit(algorithm, (DATA, OTHER))

@RHO
@each
def test_skips(dp_audit, algorithm):
    caught(dp_audit, algorithm)
    pytest.skip("no time")

@RHO
@each
def test_lacks_a_module(dp_audit, algorithm):
    caught(dp_audit, algorithm)
    pytest.importorskip("no_such_module_at_all")

@RHO
@each
def test_expects_by_a_call(dp_audit, algorithm):
    caught(dp_audit, algorithm)
    pytest.xfail("known")

@RHO
@each
@pytest.mark.xfail(reason="known")
def test_expects_by_a_mark(dp_audit, algorithm):
    caught(dp_audit, algorithm)

@RHO
@each
@pytest.mark.xfail(reason="known")
def test_expects_another_failure(dp_audit, algorithm):
    caught(dp_audit, algorithm)
    assert False

@RHO
@each
@pytest.mark.xfail(reason="known")
def test_expects_a_claim(dp_curator, algorithm):
    noise = Gaussian(sigma=4.0 if algorithm is sums else 1.0, sensitivity=L2(2.0))
    dp_curator.release(0.0, noise, label="a")
    assert False

@RHO
@each
def test_skips_after_a_release(dp_curator, algorithm):
    noise = Gaussian(sigma=4.0 if algorithm is sums else 1.0, sensitivity=L2(2.0))
    dp_curator.release(0.0, noise, label="a")
    pytest.skip("no time")

@pytest.fixture
def skipping(dp_audit, algorithm):
    caught(dp_audit, algorithm)
    pytest.skip("no time")

@RHO
@each
def test_skips_while_it_is_set_up(dp_audit, skipping, algorithm):
    pass

@pytest.fixture
def late(dp_audit, algorithm):
    yield
    caught(dp_audit, algorithm)

@RHO
@each
def test_audits_when_it_is_over(dp_audit, late, algorithm):
    dp_audit(sums, (DATA, OTHER))

class TestInnocentOldOnes(unittest.TestCase):
    algorithm = staticmethod(sums)

    @pytest.fixture(autouse=True)
    def _given(self, dp_audit):
        self.dp_audit = dp_audit

    @RHO
    def test_skips(self):
        caught(self.dp_audit, self.algorithm)
        self.skipTest("no time")

    @RHO
    @unittest.expectedFailure
    def test_expects(self):
        caught(self.dp_audit, self.algorithm)
        self.fail()

class TestFaultyOldOnes(TestInnocentOldOnes):
    algorithm = staticmethod(unclipped)

@RHO
def test_skips_at_once(dp_audit):
    pytest.skip("no time")

@RHO
@pytest.mark.xfail(reason="known")
def test_never_audits(dp_audit):
    pass
"""


def test_neither_a_skip_nor_an_expected_failure_hides_what_was_found(session: Any) -> None:
    result = session(SKIPPED, "-v")
    text = result.stdout.str()
    lines = [line for line in text.splitlines() if "::" in line and not line.startswith(("FAILED", "ERROR"))]
    outcomes = {words[0].partition("::")[2]: words[1] for words in map(str.split, lines) if len(words) > 1}
    passing = {"PASSED", "SKIPPED", "XFAIL", "XPASS"}
    for name, outcome in outcomes.items():
        planted = "faulty" in name or "Faulty" in name or name == "test_never_audits"
        assert (outcome not in passing) is planted, (name, outcome)
    assert len(outcomes) == 2 * 9 + 2 * 2 + 2
    assert result.ret == 1
    assert text.count("refuted: 0.125-zCDP per row") >= 9


def test_two_claims_on_one_test_are_refused_and_one_claim_twice_is_not(session: Any) -> None:
    result = session("""
@claimed(rho=0.125, unit="row")
@claimed(rho=0.01, unit="row")
def test_both(dp_curator):
    sums(DATA, dp_curator)

@claimed(rho=0.01, unit="row")
class TestAll:
    @claimed(rho=0.125, unit="row")
    def test_weaker(self, dp_audit):
        dp_audit(sums, (DATA, OTHER))

    @claimed(rho=0.01, unit="row")
    def test_same(self, dp_curator):
        dp_curator.release(0.0, Gaussian(sigma=20.0, sensitivity=L2(2.0)), label="a")

@claimed(rho=0.01, unit="row")
@pytest.mark.xfail
@claimed(rho=0.125, unit="row")
def test_hidden(dp_curator):
    sums(DATA, dp_curator)
""")
    result.assert_outcomes(passed=1, errors=3)
    said = "DPA105 @pytest.mark.dp_claim: 2 different claims on one test: "
    result.stdout.fnmatch_lines([f"{said}*-zCDP per row*; 0.*-zCDP per row*"])


TALKING = """
import logging, os, sys, threading, warnings

HANDLER, KEPT = logging.StreamHandler(), sys.stdout

def say(how):
    if how == "print": print("patient" " 4711")
    if how == "stderr": sys.stderr.write("patient" " 4711")
    if how == "warning": warnings.warn("patient" " 4711")
    if how == "log": logging.warning("patient" " 4711")
    if how == "handler": HANDLER.emit(logging.makeLogRecord({"msg": "patient" " 4711"}))
    if how == "kept": print("patient" " 4711", file=KEPT, flush=True)
    if how == "dies": os._exit(0)
    if how == "descriptor": os.write(2, b"patient" b" 4711")
    if how == "thread":
        thread = threading.Thread(target=lambda: int("patient" " 4711"))
        thread.start()
        thread.join()
    if how == "raise": raise KeyError("patient" " 4711")
    if how == "compare": assert data_of == how
    if how == "chain":
        try:
            int("patient" " 4711")
        except ValueError as error:
            raise RuntimeError("patient" " 4711") from error
    if how == "data": raise dpaudit.errors.DataError("patient" " 4711")

data_of = "patient" " 4711"
import dpaudit.errors

HOW = ["print", "stderr", "warning", "log", "handler", "kept", "descriptor", "thread"]
HOW += ["raise", "compare", "chain", "data", "dies"]

@pytest.mark.parametrize("how", HOW)
@claimed(rho=0.125, unit="row", neighbouring="replace-one")
def test_talks(dp_audit, how):
    def talking(data, curator):
        say(how)
        return unclipped(data, curator)
    dp_audit(talking, (DATA, OTHER), trials=2)  # refuted, so that pytest prints what it has captured
"""


@pytest.mark.usefixtures("own_processes", "runs_in_threads")
def test_what_an_audited_algorithm_says_is_in_no_report(session: Any, pytester: pytest.Pytester) -> None:
    quiet = session(TALKING, "--junitxml=junit.xml", "-rA", "--showlocals")
    text = quiet.stdout.str() + quiet.stderr.str() + (pytester.path / "junit.xml").read_text()
    quiet.assert_outcomes(failed=13)
    assert "patient 4711" not in text
    assert "-9., " not in text  # of the data that dp_audit was given
    assert "KeyError while auditing it" in text
    assert "--dp-show-target-errors shows its message" in text
    shown = session(TALKING, "-rA", "--dp-show-target-errors", "-k", "print or warning or raise or chain")
    shown.assert_outcomes(failed=4, deselected=9, warnings=None)
    assert shown.stdout.str().count("patient 4711") >= 4
