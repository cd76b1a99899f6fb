"""Independent fair bits: from the operating system for private runs, from a seed for tests."""

import io
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter

_BLOCK = 16384  # bytes read at once: a system call costs more than reading a few hundred bytes
_SEEDED_BLOCK = 512

#: The original function: a replacement in `os`, as tests install it, never draws noise.
_urandom: Callable[[int], bytes] = vars(sys.modules[os.name])["urandom"]


class NeverCopied:
    """Base class of objects that draw noise: copying and pickling raise `InvalidParameter`."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise InvalidParameter(
            f"a copy of {type(self).__name__}",
            where=type(self).__name__,
            why="two copies could draw the same noise, and their outputs would reveal it",
            remedy="make a new object for each use, for example one curator for every run",
        )


class Bits(NeverCopied, ABC):
    """Independent fair bits: as 64-bit words, integers of a given width, or integers below a bound."""

    @abstractmethod
    def words(self, count: int) -> NDArray[np.uint64]:
        """Return uniform 64-bit words: [count], read-only."""

    @abstractmethod
    def take(self, width: int) -> int:
        """Return a uniform integer in [0, 2^width)."""

    def below(self, bound: int) -> int:
        """Return an exactly uniform integer in [0, bound), by rejection."""
        width = (bound - 1).bit_length()
        while True:
            candidate = self.take(width)
            if candidate < bound:
                return candidate


class OperatingSystemBits(Bits):
    """Bits of `os.urandom`; an instance holds no bits, so it has no state to copy.

    Each thread of each process buffers its own bits. A forked child drops the buffer, because the parent
    will use those bits.
    """

    def words(self, count: int) -> NDArray[np.uint64]:
        """As `Bits.words`."""
        return np.frombuffer(_read(8 * count), dtype=np.uint64)

    def take(self, width: int) -> int:
        """As `Bits.take`; discard the rest of the last byte."""
        return int.from_bytes(_read((width + 7) // 8), "little") >> (-width % 8)


class SeededBits(Bits):
    """Repeatable bits of a numpy generator, for tests and for runs that must not be published."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        self._pool = 0
        self._left = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """As `Bits.words`."""
        return np.frombuffer(self._generator.bytes(8 * count), dtype=np.uint64)

    def take(self, width: int) -> int:
        """As `Bits.take`."""
        while self._left < width:
            self._pool |= int.from_bytes(self._generator.bytes(_SEEDED_BLOCK), "little") << self._left
            self._left += 8 * _SEEDED_BLOCK
        bits = self._pool & ((1 << width) - 1)
        self._pool >>= width
        self._left -= width
        return bits


class _Ahead(threading.local):
    """This thread's buffered bytes, and the process that read them."""

    process = -1
    block = io.BytesIO()


_ahead = _Ahead()


def _forget() -> None:
    """Drop this thread's buffered bytes; a forked child has no other thread."""
    _ahead.process, _ahead.block = os.getpid(), io.BytesIO()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget)


def _read(size: int) -> bytes:
    """Return `size` bytes and use each byte only once."""
    if size > _BLOCK:
        return _urandom(size)
    if _ahead.process != os.getpid():  # a fork in C code does not call Python's hooks
        _forget()
    while True:
        # BytesIO reads and advances in one step, so a signal handler that draws here gets other bytes.
        taken = _ahead.block.read(size)
        if len(taken) == size:
            return taken
        _ahead.block = io.BytesIO(_urandom(_BLOCK))
