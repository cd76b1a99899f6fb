"""The pytest plugin: claims as tests. Where no test uses it, it loads and prints nothing.

A test with ``@pytest.mark.dp_claim(...)`` takes ``dp_curator``, and fails unless everything it releases is
proved to meet the claim; or it takes ``dp_audit``, which tries to refute the claim by experiment.

Statistical tests err with probability `SESSION_ERROR` at most, a whole session of them taken together: each
test that takes ``dp_audit`` has an equal share, fixed once all tests are collected, and so the same for every
worker of a distributed session. They are never rerun on failure: that would let a false claim try again.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn

import pytest

if TYPE_CHECKING:
    from dpaudit.app.testing.testing import ClaimedRun
    from dpaudit.certificate.verdicts import Audit
    from dpaudit.claims.claims import Claim
    from dpaudit.claims.pairs import Pair
    from dpaudit.curator.curator import Curator
    from dpaudit.pipeline.audit import Method

#: The probability, at most, with which any true claim at all is refuted in a session.
SESSION_ERROR: Final = 1e-6

_MARK: Final = "dp_claim"
_SHOW: Final = "--dp-show-target-errors"

_AUDITING: Final = pytest.StashKey[frozenset[str]]()
_RUN: Final[pytest.StashKey[ClaimedRun]] = pytest.StashKey()
#: Why each audit of a test keeps it from passing; empty for one that does not.
_AUDITS: Final = pytest.StashKey[list[str]]()
#: What the plugin found against a test: neither a skip nor an expected failure hides it.
_AGAINST: Final = pytest.StashKey[str]()
#: Whether a report of the test says so already.
_REPORTED: Final = pytest.StashKey[bool]()
_FAILED: Final = pytest.StashKey[bool]()
#: What stdout and stderr were when the test's module was imported, and the test has not changed them yet.
_STREAMS: Final = pytest.StashKey[tuple[IO[str], IO[str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--dp-seed`` and ``--dp-show-target-errors``."""
    group = parser.getgroup("dpaudit")
    words = "root seed of all noise in tests with dp_curator and dp_audit (default: 0)"
    group.addoption("--dp-seed", type=int, default=0, metavar="N", help=words)
    words = "show an audited algorithm's output, warnings and exceptions, which may quote private data"
    group.addoption(_SHOW, action="store_true", help=words)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker with pytest."""
    fields = "claim or rho=, mu=, epsilon=, delta=, unit=, neighbouring=, trust_model="
    use = "what dp_curator must prove and dp_audit tries to refute"
    config.addinivalue_line("markers", f"{_MARK}({fields}): {use}")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Exclude statistical tests from pytest-rerunfailures, whatever its options are."""
    plugins = config.pluginmanager.get_plugins()
    if any(getattr(plugin, "__name__", "") == "pytest_rerunfailures" for plugin in plugins):
        for item in items:
            if "dp_audit" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.flaky(reruns=0, condition=False), append=False)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Count the tests that will audit: deselected ones no longer, and on every worker the same."""
    auditing = [item.nodeid for item in session.items if "dp_audit" in getattr(item, "fixturenames", ())]
    session.config.stash[_AUDITING] = frozenset(auditing)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a claim that is never judged, and a statistical test that failed before."""
    item.stash[_STREAMS] = sys.stdout, sys.stderr
    item.stash[_AGAINST], item.stash[_REPORTED] = "", False  # another plugin may run a test again
    names = getattr(item, "fixturenames", ())
    if item.get_closest_marker(_MARK) is not None and not {"dp_curator", "dp_audit"} & set(names):
        _fail(item, f"{_MARK}: the test takes neither dp_curator nor dp_audit, so nothing is judged")
    if item.stash.get(_FAILED, False):
        _fail(item, _NEVER_RERUN)


_NEVER_RERUN: Final = (
    "a statistical test that failed is not run again\n"
    "  a false claim would have as many tries as there are reruns\n"
    "    do: leave this test out of what is rerun, or correct what it found"
)


def _fail(item: pytest.Item, words: str) -> NoReturn:
    item.stash[_AGAINST] = words
    raise pytest.fail.Exception(words, pytrace=False) from None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the plugin's findings despite a skip or an expected failure; remember failed tests.

    A fixture may audit as well, and skip its test then, or do so when the test is over.
    """
    report = yield
    against = item.stash.get(_AGAINST, "")
    if call.when == "teardown" or (call.when == "setup" and report.skipped):
        against = against or _first(item.stash.get(_AUDITS, None))
    if against and not report.failed and not item.stash.get(_REPORTED, False):
        report.outcome, report.longrepr = "failed", against
        if hasattr(report, "wasxfail"):
            del report.wasxfail
    if report.failed:
        item.stash[_REPORTED] = True
        item.stash[_FAILED] = _AUDITS in item.stash
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """After a test: prove its claim of what dp_curator released; fail where nothing was audited, or in vain.

    What an audit found may have been caught by the test, or raised in a thread that it started; and the test
    may have ended as skipped, which excuses it from judging a claim, and not from what was found.
    """
    try:
        result = yield
    except (pytest.skip.Exception, pytest.xfail.Exception):
        if words := _against(item, skipped=True):
            _fail(item, words)
        raise
    except (Exception, pytest.fail.Exception):
        if words := _against(item, skipped=True):
            item.stash[_AGAINST] = words  # should the failure be an expected one
        raise
    if words := _against(item, skipped=False):
        _fail(item, words)
    return result


def _against(item: pytest.Item, *, skipped: bool) -> str:
    """What keeps a test from passing, or an empty text; of a skipped one, what was found until then."""
    from dpaudit.errors import DpauditError

    audits = item.stash.get(_AUDITS, None)
    if audits == [] and not skipped:
        return "nothing to check: dp_audit was never called"
    found = _first(audits)
    run = item.stash.get(_RUN, None)
    if found or run is None or (skipped and not run.released):
        return found
    try:
        return run.failure() or ""
    except DpauditError as error:
        return str(error)


def _first(audits: list[str] | None) -> str:
    """The first failure among audits, or an empty text."""
    return next(filter(None, audits or []), "")


def _claim(node: pytest.Item) -> Claim | None:
    from dpaudit.app.testing.testing import the_claim
    from dpaudit.errors import InvalidParameter, UsageError

    try:
        return the_claim([(mark.args, mark.kwargs) for mark in node.iter_markers(_MARK)])
    except (UsageError, InvalidParameter) as error:
        words = str(error)
    _fail(node, words)


@pytest.fixture
def dp_curator(request: pytest.FixtureRequest) -> Curator:
    """A curator whose releases must all together be proved to meet the test's ``dp_claim``."""
    from dpaudit.app.testing.testing import ClaimedRun, audit_seed
    from dpaudit.errors import UsageError

    node = request.node
    claim = _claim(node)
    if claim is None:
        why = "its releases can only be checked against a claim"
        remedy = "mark the test with @pytest.mark.dp_claim(rho=..., unit=...)"
        error = UsageError("dp_curator without a claim", where=node.nodeid, why=why, remedy=remedy)
        _fail(node, str(error))
    run = ClaimedRun(node.name, claim, audit_seed(node.nodeid, 0, request.config.getoption("--dp-seed")))
    node.stash[_RUN] = run
    return run.curator


@pytest.fixture
def dp_neighbours(request: pytest.FixtureRequest) -> Callable[..., list[Pair]]:
    """``dp_neighbours(data, lower=0, upper=1, row=-1)``: pairs that differ as the test's claim says."""
    from dpaudit.app.testing.testing import neighbours
    from dpaudit.curator.running import terms

    _, relation, _ = terms(_claim(request.node))

    def make(data: Any, *, lower: Any = 0.0, upper: Any = 1.0, row: int = -1) -> list[Pair]:
        return neighbours(data, relation, lower=lower, upper=upper, row=row)

    return make


@contextmanager
def _unlogged(shown: bool) -> Generator[None]:
    """What is logged inside is kept out of pytest's reports, unless it is shown."""

    def refuse(_record: logging.LogRecord) -> bool:
        return shown

    own = [one for one in logging.getLogger().handlers if type(one).__module__.startswith("_pytest")]
    for handler in own:
        handler.addFilter(refuse)
    try:
        yield
    finally:
        for handler in own:
            handler.removeFilter(refuse)


@pytest.fixture
def dp_audit(request: pytest.FixtureRequest) -> Callable[..., Audit]:
    """``dp_audit(algorithm, pairs)``: try to refute the test's claim, or the algorithm's own.

    What the algorithm prints and the words of its exceptions are in no report of pytest, unless
    ``--dp-show-target-errors`` is given.

    ``method`` and ``trials`` are those of `dpaudit.audit`; a method that is named has the gate's number of
    trials. Further arguments are those of `dpaudit.run`. Returns the audit if it does not refute.
    """
    from dpaudit.app.options.foreign_code import foreign_code
    from dpaudit.app.testing.testing import audit, audit_failure, audit_seed
    from dpaudit.app.text.target_text import unwritten, without_text
    from dpaudit.curator.running import name_of
    from dpaudit.errors import DpauditError, UsageError

    node = request.node
    auditing = request.config.stash[_AUDITING]
    if node.nodeid not in auditing:
        what = "dp_audit asked for while the test runs"
        why = "each audit's share of the error is fixed when all tests are collected"
        remedy = "name dp_audit among the test's arguments"
        error = UsageError(what, where=node.nodeid, why=why, remedy=remedy)
        _fail(node, str(error))
    claim = _claim(node)
    audits = node.stash[_AUDITS] = []

    def run(
        algorithm: Callable[..., Any],
        pairs: object = None,
        *,
        method: Method | None = None,
        trials: int | None = None,
        allow_inconclusive: bool = False,
        **run_options: Any,
    ) -> Audit:
        __tracebackhide__ = True  # with --showlocals the data would be in pytest's reports
        audits.append("an audit that did not come to its end")
        number = len(audits)
        # 1/2 + 1/6 + 1/12 + ... = 1: the number of audits in one test is not known in advance.
        error = SESSION_ERROR / len(auditing) / (number * (number + 1))
        seed = audit_seed(node.nodeid, number, request.config.getoption("--dp-seed"))
        once = functools.partial(audit, method=method, trials=trials, seed=seed, error=error)
        shown: bool = request.config.getoption(_SHOW)
        try:
            unsaid = foreign_code(name_of(algorithm), "auditing it", shown=shown)
            with _unlogged(shown), unsaid, unwritten(*(() if shown else node.stash[_STREAMS])):
                found = once(algorithm, pairs, claim=claim, run_options=run_options)
        except DpauditError as mistake:
            said = mistake if shown else without_text(mistake)
            audits[number - 1] = str(said)
            if said is mistake and not isinstance(mistake, UsageError):
                raise mistake.with_traceback(None) from None
            words = str(said).replace("--show-target", "--dp-show-target")
            raise pytest.fail.Exception(words, pytrace=False) from None
        node.user_properties.append(("dp_audit", f"{found.verdict} by {found.method}, seed {found.seed}"))
        failure = audit_failure(found, allow_inconclusive=allow_inconclusive)
        audits[number - 1] = failure or ""
        if failure is not None:
            pytest.fail(failure, pytrace=False)
        return found

    return run
