"""Ten processes on one book; some, or its server, are killed: nothing is lost, nothing overspent."""

import os
import pwd
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpaudit import ZCDP
from dpaudit.accountants.book import Book
from dpaudit.errors import BookUnavailable, BudgetExceeded, DpauditError
from tests.torture.conftest import sizes
from tests.torture.tools import keep_figure

PROCESSES = 10


def datasets(operations: int) -> int:
    """Over how many data sets so many operations are spread: fewer operations meet on as few."""
    return min(200, max(20, operations // 5))


class Server:
    """A PostgreSQL server in a folder of its own, which can be killed and started again."""

    def __init__(self, folder: str) -> None:
        # PostgreSQL refuses to run as root, so there it runs as the user whom its package made.
        self._as_owner = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        self.owner = "postgres" if self._as_owner else pwd.getpwuid(os.geteuid()).pw_name
        self.folder = folder
        if self._as_owner:
            shutil.chown(folder, self.owner)
        self._control("initdb", "-D", f"{folder}/data", "-A", "trust", "-U", self.owner)
        self.start()
        self._control("createdb", "-h", folder, "-U", self.owner, "book")
        self.url = f"postgresql://{self.owner}@/book?host={folder}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-k {self.folder} -h ''"
        log = f"{self.folder}/log"
        self._control("pg_ctl", "-D", f"{self.folder}/data", "-w", "-l", log, "-o", options, "start")

    def kill(self) -> None:
        """End all its processes at once, as a loss of power does to them: nothing is written any more."""
        self._control("pg_ctl", "-D", f"{self.folder}/data", "-m", "immediate", "stop")

    def _control(self, program: str, *arguments: str) -> None:
        kept = sorted(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{program}")))
        found = kept[-1] if kept else shutil.which(program)
        assert found is not None, "PostgreSQL's server is not installed (apt-get install postgresql)"
        command = [*self._as_owner, found, *arguments]
        subprocess.run(command, check=True, capture_output=True, timeout=120, cwd="/", text=True)


@pytest.fixture
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        made = Server(folder)
        yield made
        made.kill()


def work(address: str, log: Path, operations: int, seed: int) -> None:
    """Reserve, spend and cancel, and log each answer before the next question."""
    draw = random.Random(seed)  # noqa: S311  (no secret)
    mine: list[str] = []
    with log.open("a", encoding="utf-8") as file:

        def note(*words: str) -> None:
            file.write(" ".join(words) + "\n")
            file.flush()

        done, book = 0, None
        while done < operations:
            try:
                book = book or Book(address, make=False)
                kind = draw.random()
                if kind < 0.6 or not mine:
                    dataset = f"data {draw.randrange(datasets(PROCESSES * operations))}"
                    note("reserve?", dataset.replace(" ", "_"))
                    name = book.reserve(dataset, ZCDP(rho=2.0 ** -draw.randrange(4, 8)))
                    note("reserve", name)
                    mine.append(name)
                else:
                    name = mine.pop(draw.randrange(len(mine)))
                    action = "spend" if kind < 0.8 else "cancel"
                    note(f"{action}?", name)
                    if action == "spend":
                        book.spend(name)
                    else:
                        book.cancel(name, note="the run never started")
                    note(action, name)
                done += 1
            except BudgetExceeded:
                note("refused")
                done += 1
            except BookUnavailable:
                note("unavailable")
                time.sleep(0.05)
                book = None
            except DpauditError as error:
                note("error", type(error).__name__, error.what.replace("\n", " "))
                done += 1


def start(address: str, log: Path, operations: int, seed: int) -> int:
    """`work` in a child."""
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        work(address, log, operations, seed)
        status = 0
    finally:
        os._exit(status)


def check(address: str, logs: list[Path]) -> tuple[Counter[str], list[str]]:
    """What was answered, and every answer that the book does not hold, or holds twice, or cannot pay for."""
    answers: Counter[str] = Counter()
    faults: list[str] = []
    acknowledged: dict[str, str] = {}
    asked: set[str] = set()
    for log in logs:
        for line in log.read_text().splitlines():
            action, _, rest = line.partition(" ")
            if not action.endswith("?"):
                answers[action] += 1
            if action == "error":
                # After an answer was lost, a second try to settle is refused: it was settled before.
                if "already" not in rest:
                    faults.append(line)
            elif action in {"reserve", "spend", "cancel"}:
                if action == "reserve" and rest in acknowledged:
                    faults.append(f"one name twice: {rest}")
                acknowledged[rest] = action
            elif action in {"spend?", "cancel?"}:
                asked.add(rest)
    with Book(address, make=False) as book:
        accounts = [book.account(name) for name in book.datasets]
    states = {entry.reservation: entry.state for account in accounts for entry in account.entries}
    expected = {"reserve": "reserved", "spend": "spent", "cancel": "cancelled"}
    for name, action in acknowledged.items():
        state = states.get(name)
        unanswered = action == "reserve" and name in asked and state in {"spent", "cancelled"}
        if state != expected[action] and not unanswered:
            faults.append(f"{name}: {action} was answered, and the book says {state}")
    for account in accounts:
        committed: Any = account.committed
        # The sum once more, from the entries alone: these costs are powers of two, and add up exactly.
        costs: list[Any] = [entry.cost for entry in account.entries if entry.state != "cancelled"]
        again = sum(cost.rho for cost in costs)
        if not (committed.rho == again and again <= 1.0):
            faults.append(f"{account.dataset}: {committed} committed, {again} from its entries")
    return answers, faults


def open_accounts(address: str, operations: int) -> None:
    with Book(address) as book:
        for index in range(datasets(operations)):
            book.open_account(f"data {index}", ZCDP(rho=1.0), unit="row", neighbouring="replace-one")


def wait_for(processes: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]


def halfway(logs: list[Path], operations: int) -> None:
    """Wait until half of all answers are there."""
    while sum(len(log.read_text().splitlines()) for log in logs if log.exists()) < operations:
        time.sleep(0.02)


@sizes(100, 10_000)
def test_sqlite_with_processes_killed(tmp_path: Path, number: int) -> None:
    address = str(tmp_path / "book.sqlite")
    open_accounts(address, number)
    logs = [tmp_path / f"{index}.log" for index in range(PROCESSES)]
    processes = [start(address, log, number // PROCESSES, seed) for seed, log in enumerate(logs)]
    halfway(logs, number)
    for process in processes[:3]:
        os.kill(process, signal.SIGKILL)
    statuses = wait_for(processes)
    # What the killed ones had left to do, others do.
    more = [tmp_path / f"again {index}.log" for index in range(3)]
    processes = [start(address, log, number // PROCESSES, 100 + seed) for seed, log in enumerate(more)]
    statuses += wait_for(processes)
    answers, faults = check(address, [*logs, *more])
    keep_figure("book, SQLite", cases=sum(answers.values()), states=dict(answers), faults=len(faults))
    assert faults == []
    assert set(statuses) <= {0, -signal.SIGKILL}


@sizes(100, 10_000, every="night")
def test_postgresql_with_its_server_killed(tmp_path: Path, server: Server, number: int) -> None:
    open_accounts(server.url, number)
    logs = [tmp_path / f"{index}.log" for index in range(PROCESSES)]
    processes = [start(server.url, log, number // PROCESSES, seed) for seed, log in enumerate(logs)]
    halfway(logs, number)
    server.kill()
    server.start()
    statuses = wait_for(processes)
    answers, faults = check(server.url, logs)
    keep_figure("book, PostgreSQL", cases=sum(answers.values()), states=dict(answers), faults=len(faults))
    assert faults == []
    assert set(statuses) == {0}
    assert number < 1000 or answers["unavailable"] > 0
