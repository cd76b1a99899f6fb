"""Randomness that is not the curator's trips the wire, with its place; the curator's own does not."""

# The planted faults are what these rules warn of, and what is parametrized over is calls, not functions.
# ruff: noqa: S311, PLW0108

from __future__ import annotations

import cProfile
import inspect
import os
import pstats
import random
import secrets
import sys
import tempfile
import threading
from collections.abc import Callable
from os import urandom
from pathlib import Path
from random import random as bound_random
from secrets import token_bytes
from statistics import NormalDist
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.random import PCG64, default_rng
from numpy.random import Generator as NumpyGenerator

from dpaudit import L2, Curator, DiscreteGaussian, Gaussian, Pair, run
from dpaudit.auditors.replay.replay import replay
from dpaudit.auditors.replay.rng_tripwire import Watch

PAIR = Pair(np.array([1.0, 0.0]), np.array([0.0, 0.0]))


def released(data: Any, curator: Curator) -> Any:
    curator.release(data.sum(), Gaussian(sigma=5.0, sensitivity=L2(1.0)), label="x")


# Every one of them draws on its first line, and leaves no trace in what it returns.
DRAWING: list[Callable[[], Any]] = [
    lambda: np.random.normal(),  # noqa: NPY002
    lambda: np.random.seed(0),  # noqa: NPY002
    lambda: random.random(),
    lambda: random.gauss(0.0, 1.0),
    lambda: random.Random().random(),
    lambda: default_rng(),
    lambda: np.random.default_rng().normal(),
    lambda: NumpyGenerator(PCG64()),
    lambda: np.random.SeedSequence(),
    lambda: secrets.randbelow(5),
    lambda: os.urandom(1),
    lambda: urandom(1),
    lambda: token_bytes(1),
    lambda: bound_random(),
    lambda: random.seed(0),
    lambda: random.SystemRandom().random(),
    lambda: NormalDist().samples(1),
]


@pytest.mark.parametrize("draw", DRAWING)
def test_a_draw_is_found_where_it_was_made(draw: Callable[[], Any]) -> None:
    def algorithm(data: Any, curator: Curator) -> Any:
        draw()
        released(data, curator)

    (finding,) = replay(algorithm, [PAIR], replays=1).findings
    assert finding.kind == "nondeterminism"
    line = inspect.getsourcelines(draw)[1]
    assert finding.where == f"{os.path.relpath(__file__)}:{line}"


INNOCENT: list[Callable[[Curator], Any]] = [
    lambda curator: curator.public("exploration").normal(),
    lambda curator: curator.public("exploration").spawn(2)[0].normal(),
    lambda curator: default_rng(3).normal(),
    lambda curator: random.Random(3).random(),
    lambda curator: np.random.RandomState(3).normal(),
    lambda curator: random.Random(b"stated").gauss(0.0, 1.0),
    lambda curator: tempfile.TemporaryFile().close(),
    lambda curator: curator.release(0.0, DiscreteGaussian(sigma=2.0, sensitivity=L2(1.0)), label="y"),
]


@pytest.mark.parametrize("draw", INNOCENT)
def test_what_the_curator_hands_out_and_what_has_a_stated_seed_is_innocent(
    draw: Callable[[Curator], Any],
) -> None:
    def algorithm(data: Any, curator: Curator) -> Any:
        draw(curator)
        released(data, curator)

    assert replay(algorithm, [PAIR], replays=1).findings == ()


def added(module: ModuleType) -> None:
    vars(module)["source_of_bytes"] = os.urandom


def rebound(module: ModuleType) -> None:
    vars(module)["bytes_of"] = os.urandom


IN_MODULES = [
    ("from os import urandom as bytes_of", None, False),
    ("def bytes_of(size): return b''", rebound, False),
    ("bytes_of = None", rebound, False),
    ("from secrets import token_bytes as bytes_of", None, True),
    ("def bytes_of(size): return source_of_bytes(size)", added, True),
]


@pytest.mark.parametrize("while_watched", [False, True])
@pytest.mark.parametrize(("text", "change", "installed"), IN_MODULES)
def test_a_module_imported_or_changed_after_an_earlier_watch_is_watched(
    text: str,
    change: Callable[[ModuleType], None] | None,
    installed: bool,
    while_watched: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between watched runs or during one, once a module's names had been looked through."""
    module = ModuleType("of_bytes")
    module.__file__ = str(Path(random.__file__).with_name("of_bytes.py") if installed else Path(__file__))

    def import_it() -> None:
        monkeypatch.setitem(sys.modules, "of_bytes", module)
        exec(text, vars(module))  # noqa: S102  (one of the modules above)

    def change_it() -> None:
        import_it() if change is None else change(module)

    run(Watch(lambda data, curator: None), None)
    if change is not None:
        import_it()
        run(Watch(lambda data, curator: None), None)
    if while_watched:
        run(Watch(lambda data, curator: change_it()), None)
    else:
        change_it()
    innocent = Watch(lambda data, curator: vars(module)["bytes_of"])
    faulty = Watch(lambda data, curator: vars(module)["bytes_of"](1))
    for watch in (innocent, faulty):
        run(watch, None)
    assert innocent.drawn is None
    assert faulty.drawn is not None
    assert os.urandom is urandom


def test_live_bits_from_the_operating_system_are_the_curators() -> None:
    watch = Watch(
        lambda data, curator: curator.release(
            0.0, DiscreteGaussian(sigma=2.0, sensitivity=L2(1.0)), label="y"
        )
    )
    run(watch, None)
    assert watch.drawn is None


def test_what_the_algorithms_own_threads_draw_is_found_and_what_others_draw_is_not() -> None:
    stop = threading.Event()

    def drawing_elsewhere() -> None:
        while not stop.wait(1e-4):
            os.urandom(1)

    other = threading.Thread(target=drawing_elsewhere)
    other.start()
    try:
        innocent = Watch(lambda data, curator: stop.wait(0.05))
        run(innocent, None)
    finally:
        stop.set()
        other.join()

    def with_a_thread(data: Any, curator: Curator) -> None:
        own = threading.Thread(target=lambda: os.urandom(1))
        own.start()
        own.join()

    faulty = Watch(with_a_thread)
    run(faulty, None)
    assert innocent.drawn is None
    assert faulty.drawn is not None


def test_torchs_global_generator_is_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    before = torch.state
    innocent, faulty = Watch(lambda data, curator: None), Watch(lambda data, curator: torch.rand())
    # Seeded to the same state every time, in which the run before left it.
    torch.rand()
    again = Watch(lambda data, curator: torch.seed_and_draw())
    for watch in (innocent, faulty, again, again):
        run(watch, None)
    assert torch.state == before + 1
    assert innocent.drawn is None
    assert faulty.drawn == again.drawn == ("torch's global generator", "")


class FakeTorch(ModuleType):
    """A library with a state, in place of torch, which only some machines have."""

    uint8 = np.uint8

    def __init__(self) -> None:
        super().__init__("torch")
        self.state = 7

    def rand(self) -> None:
        self.state += 1

    def seed_and_draw(self) -> None:
        self.state = 8

    def get_rng_state(self) -> Any:
        return FakeTensor(self.state)

    def set_rng_state(self, state: Any) -> None:
        self.state = int.from_bytes(state.numpy().tobytes(), sys.byteorder)

    def frombuffer(self, buffer: bytearray, dtype: Any) -> Any:
        return FakeTensor(int(np.frombuffer(buffer, dtype).view(np.int64)[0]))

    def Generator(self) -> Any:  # noqa: N802  (torch's own name)
        return FakeGenerator()


class FakeGenerator:
    def manual_seed(self, seed: int) -> Any:
        self.state = seed
        return self

    def get_state(self) -> Any:
        return FakeTensor(self.state)


class FakeTensor:
    def __init__(self, state: int) -> None:
        self.state = state

    def numpy(self) -> Any:
        return np.array([self.state], np.int64)


def test_the_watch_leaves_profilers_generators_and_functions_as_they_were() -> None:
    def algorithm(data: Any, curator: Curator) -> None:
        assert os.urandom is not system
        assert sys.getprofile() is profile
        noticed()

    def noticed() -> None:
        random.random()

    system, seed, profile = os.urandom, random.Random.seed, sys.getprofile()
    states = random.getstate(), str(np.random.get_state())  # noqa: NPY002
    run(Watch(algorithm), None)
    assert (os.urandom, random.Random.seed) == (system, seed)
    assert urandom is system
    assert (random.getstate(), str(np.random.get_state())) == states  # noqa: NPY002

    profile_of = cProfile.Profile()
    with profile_of:
        profile = sys.getprofile()
        run(Watch(algorithm), None)
    assert any(name == "noticed" for _, _, name in pstats.Stats(profile_of).stats)


def test_what_only_pretends_to_be_a_module_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled libraries put objects into `sys.modules` that have no names to replace."""

    class Pretended:
        __slots__ = ()
        __class__ = ModuleType

    monkeypatch.setitem(sys.modules, "pretended_module", Pretended())
    with pytest.raises(AttributeError):
        object.__getattribute__(sys.modules["pretended_module"], "__dict__")
    assert replay(released, [PAIR], replays=1).findings == ()
