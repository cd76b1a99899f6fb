"""What every test can rely on, however the suite is started, and how hard hypothesis tries."""

import compileall
import contextlib
import ctypes
import gc
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

import dpaudit
from dpaudit.auditors.replay import sampler_check
from dpaudit.certificate.certificate import Certificate
from dpaudit.ledger.ledger import Ledger
from dpaudit.pipeline.checking import Unconfirmed, checked_by_file, contradictions
from tests import cheap_runs

# Tests run on all cores: a linear algebra library that starts threads in each process slows all of them.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

# Arrays of some megabytes come and go: glibc would give their memory back to the system each time, and fetch
# it again page by page. It reads these where a process starts: with `-n`, in those that run the tests.
for _size, _bytes in {"MALLOC_MMAP_THRESHOLD_": 32 * 2**20, "MALLOC_TRIM_THRESHOLD_": 256 * 2**20}.items():
    os.environ.setdefault(_size, str(_bytes))

# A replay's run in a process of its own costs some milliseconds more. What processes are for, tests/processes
# tests, and whatever the pages print is printed with them.
os.environ.setdefault("DPAUDIT_IN_PROCESS", "1")

# Where a test of this process has used Polars, the targets of later tests would be fresh interpreters, which
# take a second each. tests/tables/test_carried.py tests that.
if sys.platform == "linux":
    os.environ.setdefault("DPAUDIT_PROCESSES", "fork")

# Behind nohup, and under some CI runners, SIGINT is ignored, and so it would be in every program that a test
# starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where a build server says so, progress is not shown. A test that wants that says so itself.
os.environ.pop("CI", None)

# A target that a test edits twice in a second has the bytecode of its first form, where there is any. That of
# the package is made once: each interpreter that a test starts would compile it again.
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
if "PYTEST_XDIST_WORKER" not in os.environ:
    compileall.compile_dir(Path(dpaudit.__file__).parent, quiet=2)

# Nothing that is made while tests are collected is garbage; looking for it took a third of that time.
gc.disable()


def pytest_collection_finish() -> None:
    """What was collected stays to the end: garbage is looked for in what tests make, and not too often."""
    sys.dont_write_bytecode = True
    gc.enable()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    _collapse_pages()


def _collapse_pages() -> None:
    """Put the memory so far on large pages, where the system does: a fork copies each page's entry."""
    with contextlib.suppress(OSError, AttributeError):  # no Linux, or none that has this
        madvise, size = ctypes.CDLL(None).madvise, 2**21
        for line in Path("/proc/self/maps").read_text(encoding="ascii").splitlines():
            ends, access, _, _, file, *_ = line.split()
            start, end = (int(each, 16) for each in ends.split("-"))
            if "w" in access and file == "0":
                for at in range(-(-start // size) * size, end - size + 1, size):
                    madvise(ctypes.c_void_p(at), ctypes.c_size_t(size), 25)  # MADV_COLLAPSE


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Examples in docstrings are those of the package: looking for them here imports each test file twice."""
    del file_path
    collectors = yield
    return [collector for collector in collectors if not isinstance(collector, DoctestModule)]


# A red build must be the change's fault: the same examples every time, and no clock.
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=20)
# `pytest --hypothesis-profile=nightly`: fresh examples, so that many nights cover what one run cannot.
settings.register_profile(
    "nightly", deadline=None, max_examples=2_000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci")


@pytest.fixture(scope="session", autouse=True)
def _no_certificate_is_contradicted() -> Iterator[None]:
    """Whatever a test certifies in this process, the independent checker contradicts no figure of it."""
    from dpaudit.pipeline import certify

    def checked(certificate: Certificate, ledger: Ledger) -> tuple[Certificate, Unconfirmed]:
        found, rest = checked_by_file(certificate, ledger)
        assert "planted" in certificate.algorithm or not contradictions(rest), rest
        return found, rest

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certify, "checked_by_file", checked)
        yield


Cheaply = Callable[[str, pytest.MonkeyPatch], None]


@pytest.fixture(scope="session")
def nightly(pytestconfig: pytest.Config) -> bool:
    """Whether this is the nightly session, which takes sweeps and samples at their full size."""
    return "not nightly" not in pytestconfig.getoption("markexpr")


@pytest.fixture(scope="session")
def cheaply(nightly: bool) -> Cheaply:
    """Make audits cheap in one of the ways of cheap_runs.py, by day."""

    def begin(name: str, patch: pytest.MonkeyPatch) -> None:
        if not nightly:
            patch.setenv(name, "1")
            cheap_runs.WAYS[name](patch.setattr)

    return begin


@pytest.fixture(scope="session", autouse=True)
def _few_draws_of_samplers(cheaply: Cheaply) -> Iterator[None]:
    """Most tests of replay are about other faults, and their draws cost more than all else that they do."""
    with pytest.MonkeyPatch.context() as patch:
        cheaply("DPAUDIT_TESTS_WITH_FEW_DRAWS", patch)
        yield


@pytest.fixture
def full_sampler_check(monkeypatch: pytest.MonkeyPatch, nightly: bool) -> None:
    """The sampler check as an audit makes it, with all its draws."""
    if not nightly:
        monkeypatch.delenv("DPAUDIT_TESTS_WITH_FEW_DRAWS")
        for name in cheap_runs.DRAWS:
            monkeypatch.setattr(sampler_check, name, 10 * getattr(sampler_check, name))


@pytest.fixture
def few_runs(cheaply: Cheaply, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replays make few runs, where each of them is a process and something else is tested."""
    cheaply("DPAUDIT_TESTS_WITH_FEW_RUNS", monkeypatch)


@pytest.fixture
def runs_in_threads(cheaply: Cheaply, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of a target are threads of its process."""
    cheaply("DPAUDIT_TESTS_IN_THREADS", monkeypatch)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that fork come first: a fork costs by the memory that the tests before it have left behind."""

    def forks(item: pytest.Item) -> bool:
        fixtures = getattr(item, "fixturenames", ())
        return "own_processes" in fixtures and "runs_in_threads" not in fixtures

    items.sort(key=forks, reverse=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Where Polars has been used, a fork of this process that uses it would wait for its threads forever."""
    if item.get_closest_marker("interoperability"):
        os.environ.pop("DPAUDIT_PROCESSES", None)


@pytest.fixture
def own_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets run in processes of their own, as they do wherever nothing is said."""
    monkeypatch.delenv("DPAUDIT_IN_PROCESS")


@pytest.fixture(scope="session")
def python() -> Iterator[list[str]]:
    """The words that start Python with the libraries imported already; see preloaded_python.py."""
    program = str(Path(__file__).with_name("preloaded_python.py"))
    with tempfile.TemporaryDirectory(prefix="dpaudit-") as folder:  # a short path, as sockets need
        address = str(Path(folder, "socket"))
        server = subprocess.Popen(
            [sys.executable, program, "serve", address],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        with server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield [sys.executable, "-IS", program, "run", address]
            os.killpg(server.pid, signal.SIGKILL)


@pytest.fixture
def python_calls() -> Callable[[Callable[[], object]], int]:
    """How many functions, Python's own and built-in ones, some work calls: its cost without a clock.

    Work that loops over records where it should use arrays shows here on any machine, however busy.
    """

    def count(work: Callable[[], object]) -> int:
        calls = 0

        def note(_frame: object, event: str, _argument: object) -> None:
            nonlocal calls
            calls += event in {"call", "c_call"}

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            work()
        finally:
            sys.setprofile(before)
        return calls

    return count
