"""Noise is drawn once: no copy, fork or thread of a curator repeats what another one drew."""

from __future__ import annotations

import copy
import os
import pickle
import struct
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

from dpaudit import (
    L1,
    L2,
    RKHS,
    Curator,
    DiscreteLaplace,
    ExponentialKernel,
    Gaussian,
    GaussianProcess,
    Laplace,
    LiveNoise,
    TreeAggregation,
)
from dpaudit.curator.streams import NoisyFunction
from dpaudit.errors import InvalidParameter, ScheduleBroken
from dpaudit.ledger.ledger import Header, Ledger
from dpaudit.mechanisms import AnyMechanism, Array, ValueMechanism
from dpaudit.noise.randomness import Randomness

MECHANISMS = [
    Gaussian(sigma=2.0**40, sensitivity=L2(1.0)),
    Laplace(scale=2.0**40, sensitivity=L1(1.0)),
    # Wide enough that four draws never agree by chance: with probability 2^-160.
    DiscreteLaplace(scale=2.0**40, sensitivity=L1(1.0)),
]


def curator(seed: int | None = None) -> Curator:
    return Curator(Ledger(Header(algorithm="a", unit="row", neighbouring="replace-one")), LiveNoise(seed))


def drawn(held: Curator, mechanism: AnyMechanism) -> tuple[float, ...]:
    return tuple(held.release(np.zeros(4), mechanism, label="x").tolist())


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("make", [curator, LiveNoise, lambda: curator(5), lambda: LiveNoise(5)])
def test_what_draws_noise_is_never_copied(
    duplicate: Callable[[object], object], make: Callable[[], object]
) -> None:
    with pytest.raises(InvalidParameter, match=r"a copy of (Curator|LiveNoise)"):
        duplicate(make())


def in_forks(draw: Callable[[], tuple[float, ...]]) -> list[tuple[float, ...]]:
    """What two forks of this process draw, and it itself after them; draws of four numbers."""
    found = []
    for _ in range(2):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writing, struct.pack("4d", *draw()))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        found.append(struct.unpack("4d", os.read(reading, 32)))
        os.close(reading)
        os.close(writing)
    return [*found, draw()]


def sampler(seed: int | None, mechanism: ValueMechanism) -> Callable[[], tuple[float, ...]]:
    """Draws that have begun, as those below a curator have."""
    randomness = Randomness.live(seed)

    def draw() -> tuple[float, ...]:
        return tuple(mechanism.sample(np.zeros(4), randomness).tolist())

    draw()
    return draw


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_two_forks_draw_different_noise(mechanism: ValueMechanism) -> None:
    assert len(set(in_forks(sampler(None, mechanism)))) == 3


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_forks_of_a_generator_draw_the_same_noise(mechanism: ValueMechanism) -> None:
    """The fault that the test above finds: a seeded run keeps its state in the process."""
    assert len(set(in_forks(sampler(5, mechanism)))) == 1


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_the_child_of_a_fork_releases_nothing() -> None:
    """What it released would be missing in the ledger and in the budget of the run."""
    held = curator()
    noise = GaussianProcess(sigma=1.0, sensitivity=RKHS(1.0), kernel=ExponentialKernel(beta=1.0))
    function = held.function(noise, lambda _: 0.0, "f")
    stream = held.stream(TreeAggregation(sigma=1.0, sensitivity=L2(1.0), steps=2), "s")

    def refused() -> tuple[float, ...]:
        found = []
        asks = lambda: drawn(held, MECHANISMS[0]), lambda: function(0.5), lambda: stream.add(1.0)
        for ask in asks:
            try:
                ask()
                found.append(0.0)
            except ScheduleBroken as error:
                found.append(float("in another process than the run's" in str(error)))
        return *found, float(held.ledger.number)

    assert in_forks(refused) == [(1.0, 1.0, 1.0, 2.0), (1.0, 1.0, 1.0, 2.0), (0.0, 0.0, 0.0, 3.0)]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_open_streams_and_functions_are_never_copied(duplicate: Callable[[object], object]) -> None:
    """A copy of a function that nobody has called yet would draw a path of its own, for the same line."""
    noise = GaussianProcess(sigma=1.0, sensitivity=RKHS(1.0), kernel=ExponentialKernel(beta=1.0))
    function = curator().function(noise, lambda _: 0.0, "f")
    stream = curator().stream(TreeAggregation(sigma=1.0, sensitivity=L2(1.0), steps=2), "s")
    for opened in (function, stream):
        with pytest.raises(InvalidParameter, match="a copy of"):
            duplicate(opened)


def at_once(work: Callable[[int], object]) -> None:
    """Four threads that begin together and are interrupted often."""
    together, interval = threading.Barrier(4), sys.getswitchinterval()

    def begin(i: int) -> None:
        together.wait()
        work(i)

    threads = [threading.Thread(target=begin, args=(i,)) for i in range(4)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)


def test_threads_share_one_path_of_a_function() -> None:
    """The path hardly moves between these points: two of them would differ by about sigma."""
    noise = GaussianProcess(sigma=1.0, sensitivity=RKHS(1.0), kernel=ExponentialKernel(beta=1e-30))
    for _ in range(40):
        function, found = curator().function(noise, lambda _: 0.0, "f"), np.full(4, np.inf)

        def look(i: int, function: NoisyFunction = function, found: Array = found) -> None:
            found[i] = function(float(i))

        at_once(look)
        assert np.ptp(found) <= 2.0**-30


def test_threads_share_the_nodes_of_a_stream() -> None:
    stream = curator().stream(TreeAggregation(sigma=1e-3, sensitivity=L2(1.0), steps=64), "s")
    found: list[float] = []
    at_once(lambda _: found.extend(float(stream.add(1.0)) for _ in range(16)))
    assert [round(total) for total in sorted(found)] == list(range(1, 65))


def test_two_threads_draw_different_noise() -> None:
    held, found = curator(), []
    lock = threading.Lock()

    def draw() -> None:
        for _ in range(50):
            own = drawn(curator(), MECHANISMS[0])
            with lock:
                found.append(own)

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({*found, drawn(held, MECHANISMS[0])}) == 201
