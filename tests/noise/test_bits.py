"""Bits: fair, and never the same twice - in another thread, after a fork, or in a copy."""

import copy
import ctypes
import os
import pickle
import threading
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from dpaudit.errors import InvalidParameter
from dpaudit.noise import bits as module
from dpaudit.noise.bits import Bits, OperatingSystemBits, SeededBits

ALARM = 1e-6
WIDTH = 128  # two draws of 128 bits agree by chance with probability 3e-39


def seeded() -> SeededBits:
    return SeededBits(np.random.default_rng(17))


@pytest.mark.parametrize("source", [OperatingSystemBits, seeded])
def test_words_and_integers_are_uniform(source: Callable[[], Bits]) -> None:
    bits = source()
    words = bits.words(40_000)
    assert words.shape == (40_000,)
    assert words.dtype == np.uint64
    if source is seeded:  # a test of the operating system's bits would fail once in so many runs
        for place in range(64):
            ones = int(((words >> np.uint64(place)) & np.uint64(1)).sum())
            assert stats.binomtest(ones, len(words)).pvalue > ALARM / 64
        for bound in (2, 7, 100):
            drawn = np.bincount([bits.below(bound) for _ in range(20_000)], minlength=bound)
            assert stats.chisquare(drawn).pvalue > ALARM
    for width in (0, 1, 7, 8, 9, 64, 1000):
        drawn_integers = [bits.take(width) for _ in range(200)]
        assert all(0 <= n < 2**width for n in drawn_integers)
        if width > 0:
            assert max(drawn_integers).bit_length() > width - 10
    assert bits.below(1) == 0
    assert all(bits.below(10**30) < 10**30 for _ in range(100))
    assert bits.words(0).size == 0


def test_seeded_bits_repeat_and_the_operating_systems_do_not() -> None:
    assert [seeded().take(n) for n in (3, 200, 64)] == [seeded().take(n) for n in (3, 200, 64)]
    assert seeded().words(5).tolist() == seeded().words(5).tolist()
    drawn = {OperatingSystemBits().take(WIDTH) for _ in range(5000)}
    assert len(drawn) == 5000
    assert len(set(OperatingSystemBits().words(100_000).tolist())) == 100_000  # past one block


def test_every_byte_is_given_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter in place of the operating system: no byte is skipped within a block, or given twice."""
    count = 0

    def counted(size: int) -> bytes:
        nonlocal count
        block = np.arange(count, count + size, dtype=np.uint64) % 251
        count += size
        return block.astype(np.uint8).tobytes()

    monkeypatch.setattr(module, "_BLOCK", 64)
    monkeypatch.setattr(module, "_urandom", counted)
    module._forget()
    try:
        bits = OperatingSystemBits()
        assert [bits.take(8) for _ in range(64)] == list(range(64))
        assert [bits.take(8) for _ in range(10)] == list(range(64, 74))
        large = bits.words(9).tobytes()  # more than a block: read by itself
        assert list(large) == [n % 251 for n in range(128, 200)]
        assert bits.take(8) == 74
    finally:
        module._forget()


@pytest.mark.parametrize("source", [OperatingSystemBits, seeded])
def test_bits_cannot_be_copied_or_pickled(source: Callable[[], Bits]) -> None:
    bits = source()
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(InvalidParameter, match="a copy of"):
            duplicate(bits)


def _draw_through(connection: int) -> None:
    os.write(connection, OperatingSystemBits().take(WIDTH).to_bytes(WIDTH // 8, "little"))


def _drawn_in_forks(fork: Callable[[], int], times: int = 2) -> list[int]:
    """What forks of this process draw, after it read bits ahead, and what it draws itself."""
    OperatingSystemBits().take(8)
    drawn = []
    for _ in range(times):
        reading, writing = os.pipe()
        child = fork()
        if child == 0:
            try:
                _draw_through(writing)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        drawn.append(int.from_bytes(os.read(reading, WIDTH // 8), "little"))
        os.close(reading)
        os.close(writing)
    return [*drawn, OperatingSystemBits().take(WIDTH)]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_two_forks_and_their_parent_draw_different_bits() -> None:
    assert len(set(_drawn_in_forks(os.fork))) == 3
    if hasattr(ctypes, "PyDLL"):  # a fork made in C, of which Python's hooks hear nothing
        assert len(set(_drawn_in_forks(ctypes.PyDLL(None).fork))) == 3


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_buffer_that_a_fork_kept_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: a buffer that knows nothing of processes."""
    monkeypatch.setattr(module, "_forget", lambda: None)
    ours = {**vars(os), "getpid": lambda: module._ahead.process}  # other libraries' threads ask os itself
    monkeypatch.setattr(module, "os", SimpleNamespace(**ours))
    assert len(set(_drawn_in_forks(ctypes.PyDLL(None).fork))) == 1


def test_threads_draw_different_bits() -> None:
    drawn: list[int] = []

    def draw() -> None:
        drawn.extend(OperatingSystemBits().take(WIDTH) for _ in range(500))

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 4000
