"""Noise is drawn once: no copy, fork or thread of a curator repeats what another one drew."""

from __future__ import annotations

import copy
import os
import pickle
import struct
import threading
from collections.abc import Callable

import numpy as np
import pytest

from dpaudit import L1, L2, Curator, DiscreteLaplace, Gaussian, Laplace, LiveNoise
from dpaudit.errors import InvalidParameter
from dpaudit.ledger.ledger import Header, Ledger
from dpaudit.mechanisms import AnyMechanism

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


def in_forks(held: Curator, mechanism: AnyMechanism) -> list[tuple[float, ...]]:
    """What two forks of this process draw, and it itself after them."""
    found = []
    for _ in range(2):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writing, struct.pack("4d", *drawn(held, mechanism)))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        found.append(struct.unpack("4d", os.read(reading, 32)))
        os.close(reading)
        os.close(writing)
    return [*found, drawn(held, mechanism)]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_two_forks_draw_different_noise(mechanism: AnyMechanism) -> None:
    held = curator()
    drawn(held, mechanism)
    assert len(set(in_forks(held, mechanism))) == 3


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_forks_of_a_generator_draw_the_same_noise(mechanism: AnyMechanism) -> None:
    """The fault that the test above finds: a seeded run keeps its state in the process."""
    assert len(set(in_forks(curator(5), mechanism))) == 1


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
