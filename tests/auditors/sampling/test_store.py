"""Kept trials: an interrupted run, resumed, is bit for bit the run that was never interrupted."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit import L2, Curator, Gaussian
from dpaudit.auditors.comparison.fingerprint import fingerprint
from dpaudit.auditors.sampling import store
from dpaudit.auditors.sampling.curatorless import Plain
from dpaudit.auditors.sampling.store import Store
from dpaudit.auditors.sampling.trial import Side
from dpaudit.auditors.sampling.trials import Trials, run_trials
from dpaudit.claims.pairs import Pair
from dpaudit.errors import InvalidParameter, StoreMismatch, UsageError

PAIR = Pair(np.zeros(3), np.ones(3))


def noisy_sum(data: Any, curator: Curator) -> Any:
    return curator.release(data.sum(), Gaussian(sigma=1.0, sensitivity=L2(3.0)), label="sum")


class Batched:
    def __call__(self, data: Any, curator: Curator) -> Any:
        return noisy_sum(data, curator)

    def batch(self, data: Any, curator: Curator, trials: int) -> Any:
        sums = np.broadcast_to(data.sum(), (trials,))
        return curator.release(sums, Gaussian(sigma=1.0, sensitivity=L2(3.0)), label="sum", count=trials)


def same(one: Trials, other: Trials) -> bool:
    return one.data.tobytes() == other.data.tobytes() and one.neighbour.tobytes() == other.neighbour.tobytes()


@pytest.mark.parametrize("algorithm", [noisy_sum, Batched()])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_stopped_by_an_exception_is_resumed(tmp_path: Path, algorithm: Any, workers: int) -> None:
    path = tmp_path / "audit.sqlite"
    whole = run_trials(algorithm, PAIR, 50, seed=3, chunk=8)
    done_before = []

    def fails(done: int, total: int, scores: Trials) -> None:
        done_before.append(done)
        if done == 24:
            raise OSError("the line was cut")

    with pytest.raises(OSError, match="cut"):
        run_trials(algorithm, PAIR, 50, seed=3, chunk=8, resume=path, progress=fails)
    with Store(path, _sides(algorithm, 3), 8) as store:
        assert {chunk.first for chunk in store.chunks()} == {0, 8, 16}
    resumed = run_trials(algorithm, PAIR, 50, seed=3, chunk=8, resume=path, workers=workers)
    assert same(resumed, whole)


def _sides(algorithm: Any, seed: int) -> tuple[Side, Side]:
    batched = hasattr(algorithm, "batch")
    return (
        Side(algorithm, PAIR.data, 0, seed, batched=batched),
        Side(algorithm, PAIR.neighbour, 1, seed, batched=batched),
    )


SCRIPT = """
import sys, time
import numpy as np
from dpaudit import Gaussian, L2
from dpaudit.auditors.sampling.trials import run_trials
from dpaudit.claims.pairs import Pair

def algorithm(data, curator):
    time.sleep(float(open(sys.argv[1] + ".pause").read()))
    return curator.release(data.sum(), Gaussian(sigma=1.0, sensitivity=L2(3.0)), label="sum")

if __name__ == "__main__":
    pair = Pair(np.zeros(3), np.ones(3))
    scores = run_trials(algorithm, pair, 60, seed=3, chunk=5, resume=sys.argv[1] or None)
    np.savez(sys.argv[1] + ".npz", data=scores.data, neighbour=scores.neighbour)
"""


def test_a_run_that_was_killed_is_resumed_by_another_process(tmp_path: Path, python: list[str]) -> None:
    script = tmp_path / "audit.py"
    script.write_text(SCRIPT)
    path = tmp_path / "audit.sqlite"
    pause = Path(f"{path}.pause")
    pause.write_text("0.01")
    command = [sys.executable, str(script), str(path)]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline and _kept(path) < 4:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert 4 <= _kept(path) < 24
    pause.write_text("0")
    subprocess.run([*python, str(script), str(path)], check=True)
    found = np.load(f"{path}.npz")
    whole = run_trials(noisy_sum, PAIR, 60, seed=3)
    assert found["data"].tobytes() == whole.data.tobytes()
    assert found["neighbour"].tobytes() == whole.neighbour.tobytes()
    assert _kept(path) == 24


def _kept(path: Path) -> int:
    if not path.exists():
        return 0
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("select count(*) from chunks").fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # the tables are not there yet, or being written
    finally:
        connection.close()


def test_kept_trials_are_not_run_again_and_more_can_be_added(tmp_path: Path) -> None:
    path = tmp_path / "audit.sqlite"
    first = run_trials(noisy_sum, PAIR, 18, chunk=5, resume=path)
    more = run_trials(noisy_sum, PAIR, 30, chunk=5, resume=path)
    assert same(more, run_trials(noisy_sum, PAIR, 30, chunk=5))
    assert np.array_equal(more.data[:18], first.data)

    def count(done: int, total: int, scores: Trials) -> None:
        seen.append(done)

    seen: list[int] = []
    assert same(run_trials(noisy_sum, PAIR, 30, chunk=5, resume=path, progress=count), more)
    assert seen[-1] == 30
    # The shorter run's last chunk is another one than the longer run's: it is run again.
    assert same(run_trials(noisy_sum, PAIR, 18, chunk=5, resume=path), first)


def test_vectors_are_kept_as_vectors(tmp_path: Path) -> None:
    def pairs(data: Any, curator: Curator) -> Any:
        return curator.release(data, Gaussian(sigma=1.0, sensitivity=L2(2.0)), label="all")

    path = tmp_path / "audit.sqlite"
    first = run_trials(pairs, PAIR, 12, chunk=5, resume=path)
    assert first.data.shape == (12, 3)
    assert same(run_trials(pairs, PAIR, 12, chunk=5, resume=path), first)


OTHER: dict[str, dict[str, Any]] = {
    "seed": {"seed": 1},
    "chunk": {"chunk": 4},
    "score": {"score": lambda output: -output},
    "options": {"run_options": {"public_seed": 4}},
    "data": {"pair": Pair(np.zeros(3) + 1e-300, PAIR.neighbour)},
    "neighbour": {"pair": Pair(PAIR.data, np.zeros(3))},
    "algorithm": {"algorithm": lambda data, curator: noisy_sum(data, curator) + 1e-300},
    "form": {"algorithm": Batched(), "batch": False},
}


@pytest.mark.parametrize("part", list(OTHER))
def test_a_store_of_another_configuration_is_refused(tmp_path: Path, part: str) -> None:
    path = tmp_path / "audit.sqlite"
    given: dict[str, Any] = {"algorithm": noisy_sum, "pair": PAIR, "trials": 10, "chunk": 5, "resume": path}
    if part == "form":
        given |= {"algorithm": Batched()}
    run_trials(**given)
    before = path.read_bytes()
    with pytest.raises(StoreMismatch, match=part) as caught:
        run_trials(**(given | OTHER[part]))
    assert caught.value.code == "DPA603"
    assert path.read_bytes() == before
    run_trials(**given)


def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database at all\n" * 100)
    with pytest.raises(UsageError, match="not a store"):
        run_trials(noisy_sum, PAIR, 5, resume=path)
    assert path.read_text().startswith("not a database")
    with pytest.raises(UsageError, match="no folder"):
        run_trials(noisy_sum, PAIR, 5, resume=tmp_path / "nowhere" / "audit.sqlite")


def test_a_database_of_somebody_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as other:
        other.execute("create table songs (title text)")
    before = path.read_bytes()
    with pytest.raises(UsageError, match="not a store"):
        run_trials(noisy_sum, PAIR, 5, resume=path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "damage",
    [
        "scores = x'00'",
        "scores = 'text'",
        "scores = zeroblob(16)",
        "kinds = x''",
        "kinds = zeroblob(16)",
        "width = 3",
        "scores = scores",  # none
    ],
)
def test_a_damaged_chunk_is_the_files_fault_and_not_the_algorithms(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "audit.sqlite"
    whole = run_trials(noisy_sum, PAIR, 16, seed=3, chunk=8, resume=path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE chunks SET {damage} WHERE side = 1 AND first = 8")  # noqa: S608
    if damage == "scores = scores":
        assert same(run_trials(noisy_sum, PAIR, 16, seed=3, chunk=8, resume=path), whole)
        return
    with pytest.raises(UsageError, match="not a store of trials"):
        run_trials(noisy_sum, PAIR, 16, seed=3, chunk=8, resume=path)


def test_a_store_that_another_process_has_is_said_to_be_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_PATIENCE", 0.01)
    path = tmp_path / "audit.sqlite"
    whole = run_trials(noisy_sum, PAIR, 20, chunk=5)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:

        def lock(done: int, total: int, scores: Trials) -> None:
            if done == 10:
                other.execute("begin exclusive")

        with pytest.raises(UsageError, match="in use by another process") as caught:
            run_trials(noisy_sum, PAIR, 20, chunk=5, resume=path, progress=lock)
        assert "sqlalche.me" not in str(caught.value)
        for again in (lambda: run_trials(noisy_sum, PAIR, 20, chunk=5, resume=path), lambda: _look(path, 20)):
            with pytest.raises(UsageError, match="in use by another process"):
                again()
        other.execute("rollback")
    assert _kept(path) == 4
    assert same(run_trials(noisy_sum, PAIR, 20, chunk=5, resume=path), whole)


def _look(path: Path, trials: int) -> None:
    store.remember_look(path, trials, fixed=True)


def test_a_store_that_cannot_be_written_says_why(tmp_path: Path) -> None:
    path = tmp_path / "audit.sqlite"
    path.mkdir()
    with pytest.raises(UsageError, match="unable to open"):
        run_trials(noisy_sum, PAIR, 5, resume=path)


def test_processes_that_make_one_store_at_once_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "audit.sqlite"
    together = threading.Barrier(8, timeout=20.0)

    def audit() -> Trials:
        together.wait()
        found = run_trials(noisy_sum, PAIR, 20, chunk=5, resume=path)
        together.wait()
        _look(path, 20)
        return found

    with ThreadPoolExecutor(8) as pool:
        running = [pool.submit(audit) for _ in range(8)]
        assert len({each.result().data.tobytes() for each in running}) == 1
    assert _kept(path) == 8


def test_of_two_looks_at_once_at_two_sizes_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.sqlite"
    run_trials(noisy_sum, PAIR, 8, chunk=1, resume=path)
    together = threading.Barrier(8, timeout=20.0)

    def look(trials: int) -> bool:
        together.wait()
        try:
            _look(path, trials)
        except UsageError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(look, range(1, 9))) == 1


def test_fingerprints_see_content_and_nothing_else() -> None:
    def make(bound: float, text: str = "a") -> Any:
        def algorithm(data: Any, curator: Curator) -> Any:
            return (data.clip(-bound, bound).sum(), text)

        return algorithm

    assert fingerprint(make(1.0)) == fingerprint(make(1.0))
    assert len({fingerprint(make(1.0)), fingerprint(make(2.0)), fingerprint(make(1.0, "b"))}) == 3
    assert fingerprint(np.array([0.0])) != fingerprint(np.array([-0.0]))
    assert fingerprint(np.zeros(4)) != fingerprint(np.zeros((2, 2)))
    assert fingerprint([1, 2]) != fingerprint([12])
    assert fingerprint(["a", "b"]) != fingerprint(["ab"])
    assert fingerprint(1) != fingerprint(1.0) != fingerprint(True)
    assert fingerprint(Gaussian(sigma=1, sensitivity=L2(1))) != fingerprint(
        Gaussian(sigma=2, sensitivity=L2(1))
    )
    cyclic: list[Any] = [1]
    cyclic.append(cyclic)
    assert fingerprint(cyclic) == fingerprint(cyclic) != fingerprint([1, []])


def helper(value: float) -> float:
    return value + 1.0


def test_a_changed_helper_changes_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    def algorithm(data: Any, curator: Curator) -> Any:
        return helper(float(data.sum()))

    before = fingerprint(algorithm)
    monkeypatch.setitem(globals(), "helper", lambda value: value + 2.0)
    assert fingerprint(algorithm) != before


def test_fingerprints_are_the_same_in_every_process(tmp_path: Path) -> None:
    script = tmp_path / "prints.py"
    script.write_text(
        "from dpaudit.auditors.comparison.fingerprint import fingerprint\n"
        "import numpy as np\n"
        "LIMIT = {'b', 'a', 'c', 'd'}\n"
        "class Algorithm:\n"
        "    kinds = 'abc'\n"
        "    def __init__(self): self.names = {'x', 'y', 'z'}; self.rate = 0.5\n"
        "    def __call__(self, data, curator): return data in {'p', 'q', 'r'}, LIMIT, np.sum(data)\n"
        "print(fingerprint(Algorithm()))\n"
    )
    prints = set()
    for hash_seed in "12":
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        result = subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, check=True
        )
        prints.add(result.stdout)
    assert len(prints) == 1


def test_what_cannot_be_seen_has_to_be_named(tmp_path: Path) -> None:
    for unseen in (object(), threading.Lock(), (each for each in "ab")):
        with pytest.raises(InvalidParameter, match="fingerprint"):
            fingerprint(unseen)
    opaque = object()
    algorithm = Plain(lambda data, generator: (opaque, generator.normal())[1])
    with pytest.raises(InvalidParameter, match="fingerprint"):
        run_trials(algorithm, PAIR, 5, resume=tmp_path / "a.sqlite")
    named = Plain(algorithm.function, fingerprint="opaque, version 1")
    assert len(run_trials(named, PAIR, 5, resume=tmp_path / "b.sqlite")) == 5
    with pytest.raises(StoreMismatch, match="algorithm"):
        run_trials(Plain(algorithm.function, fingerprint="2"), PAIR, 5, resume=tmp_path / "b.sqlite")


TARGET = """
import functools, random, re
import numpy as np
import helper
from helper import noise
from numpy.random import laplace
from random import random as unif

class Base:
    def __call__(self, data, rng): return rng.laplace(scale=1.0)

class Inherits(Base):
    pass

class Attributes:
    lists, tuples, names = [1.0], (1.0,), {"scale": 1.0}
    array = np.array([1.0])
    def __call__(self, data, rng): return rng.laplace(scale=self.lists[0])

class Slotted:
    __slots__ = ("scale",)
    def __call__(self, data, rng): return rng.laplace(scale=self.scale)

slotted = Slotted()
slotted.scale = 1.0

@functools.cache
def width(): return 1.0

def cached(data, rng): return rng.laplace(scale=width())
def beside(data, rng): return helper.noise(rng)
def by_name(data, rng): return getattr(helper, "no" + "ise")(rng)
def imported(data, rng): return noise(rng)
def through(data, rng): return helper.deeper.more(rng)

def stated(data, rng): return rng.laplace(scale=stated.scale)
stated.scale = 1.0

J, up, WORD, draw = ", ".join, str.upper, re.compile("a+"), random.Random(3).random
def common(data, rng): return J([]), up("a"), unif(), laplace(), WORD, draw(), random.random()

def make():
    def algorithm(data, rng):
        return unassigned if data.sum() > 5 else rng.laplace()
    if False: unassigned = 1
    return algorithm

ALL = {
    "inherits": Inherits(), "lists": Attributes(), "slotted": slotted, "cached": cached, "beside": beside,
    "by_name": by_name, "imported": imported, "through": through, "stated": stated, "common": common,
    "cell": make(), "order": {frozenset({"p", "q"}), frozenset({Base, Inherits})},
}
"""
HELPER = """
import deeper
def noise(rng): return rng.laplace(scale=1.0)
"""
DEEPER = """
def more(rng): return rng.laplace(scale=1.0)
"""
PRINT = """
import importlib.util, json, sys
from dpaudit.auditors.comparison.fingerprint import fingerprint
sys.path.insert(0, sys.argv[1])
import target
print(json.dumps({name: fingerprint(value) for name, value in target.ALL.items()}))
"""


def _prints(start: list[str], folder: Path, hash_seed: str = "0") -> dict[str, str]:
    """The fingerprints of the algorithms of a folder, taken by a process of their own."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*start, "-c", PRINT, str(folder)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(result.stdout)
    return found


def _written(folder: Path, **changed: tuple[str, str]) -> Path:
    folder.mkdir()
    for name, text in (("target", TARGET), ("helper", HELPER), ("deeper", DEEPER)):
        old, new = changed.get(name, ("", ""))
        assert old in text
        (folder / f"{name}.py").write_text(text.replace(old, new, 1) if old else text)
    return folder


def test_a_fingerprint_sees_bases_attributes_caches_and_modules_beside(
    tmp_path: Path, python: list[str]
) -> None:
    before = _prints(python, _written(tmp_path / "same"))
    # Innocent twins: the same files, and the same with other line numbers and remarks.
    assert _prints([sys.executable], tmp_path / "same", hash_seed="1") == before
    remark = ("\nimport", "\n# A remark.\n\nimport")
    remarked = _written(tmp_path / "remark", target=remark, helper=remark)
    again = _prints([sys.executable], remarked, hash_seed="2")
    assert again == before
    changes = [
        ("inherits", {"target": ("return rng.laplace(scale=1.0)", "return rng.laplace(scale=2.0)")}),
        ("lists", {"target": ("lists, tuples, names = [1.0]", "lists, tuples, names = [2.0]")}),
        ("lists", {"target": ("(1.0,)", "(2.0,)")}),
        ("lists", {"target": ('{"scale": 1.0}', '{"scale": 2.0}')}),
        ("lists", {"target": ("np.array([1.0])", "np.array([2.0])")}),
        ("slotted", {"target": ("slotted.scale = 1.0", "slotted.scale = 2.0")}),
        ("cached", {"target": ("def width(): return 1.0", "def width(): return 2.0")}),
        # A module named as a whole counts as a whole.
        ("beside by_name imported through", {"helper": ("scale=1.0", "scale=2.0")}),
        ("through", {"deeper": ("scale=1.0", "scale=2.0")}),
        ("stated", {"target": ("stated.scale = 1.0", "stated.scale = 2.0")}),
        ("common", {"target": ('", ".join', '"; ".join')}),
        ("common", {"target": ("random.Random(3)", "random.Random(4)")}),
    ]
    for number, (names, changed) in enumerate(changes):
        after = _prints(python, _written(tmp_path / str(number), **changed))
        differing = {name for name in before if after[name] != before[name]}
        assert differing - {"order"} == set(names.split()), changed  # the set holds classes that may change
