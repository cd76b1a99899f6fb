"""Independent fair bits: the operating system's for every draw that guards privacy, a seed's for tests."""

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

_BLOCK = 16384  # bytes read at once: a system call costs more than the first few hundred bytes that it brings
_SEEDED_BLOCK = 512

#: As Python was built with it: what stands in its place in `os`, as tests put it there, draws no noise.
_urandom: Callable[[int], bytes] = vars(sys.modules[os.name])["urandom"]


class NeverCopied:
    """What draws noise, and therefore must exist once: copying and pickling raise `InvalidParameter`."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise InvalidParameter(
            f"a copy of {type(self).__name__}",
            where=type(self).__name__,
            why="two copies could draw the same noise, which their outputs would then reveal",
            remedy="make a new one where it is needed: a curator for every run",
        )


class Bits(NeverCopied, ABC):
    """Independent fair bits, as words, as integers of a given width, and as integers below a bound."""

    @abstractmethod
    def words(self, count: int) -> NDArray[np.uint64]:
        """Uniform 64-bit words: [count], read-only."""

    @abstractmethod
    def take(self, width: int) -> int:
        """A uniform integer in [0, 2^width)."""

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound), by rejection: every one exactly equally likely."""
        width = (bound - 1).bit_length()
        while True:
            candidate = self.take(width)
            if candidate < bound:
                return candidate


class OperatingSystemBits(Bits):
    """Bits of `os.urandom`. An instance holds none of them, so that there is no state to copy.

    Bits that were read ahead are kept for each process and thread by itself, and dropped in the child of a
    fork, where the parent goes on to use them.
    """

    def words(self, count: int) -> NDArray[np.uint64]:
        """As `Bits.words`."""
        return np.frombuffer(_read(8 * count), dtype=np.uint64)

    def take(self, width: int) -> int:
        """As `Bits.take`; the rest of the last byte is thrown away."""
        return int.from_bytes(_read((width + 7) // 8), "little") >> (-width % 8)


class SeededBits(Bits):
    """Bits of a numpy generator: repeatable, for tests and for runs that cannot be published."""

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
    """Bytes that this thread read ahead, and the process that read them."""

    process = -1
    block = io.BytesIO()


_ahead = _Ahead()


def _forget() -> None:
    """Drop what this thread read ahead; in the child of a fork no other thread goes on."""
    _ahead.process, _ahead.block = os.getpid(), io.BytesIO()


if hasattr(os, "register_at_fork"):  # where there are forks
    os.register_at_fork(after_in_child=_forget)


def _read(size: int) -> bytes:
    """That many bytes, which were and will be given to nobody else."""
    if size > _BLOCK:
        return _urandom(size)
    if _ahead.process != os.getpid():  # a fork made in C calls none of Python's hooks
        _forget()
    while True:
        # BytesIO takes bytes and moves on in one step: a signal handler that draws here gets others.
        taken = _ahead.block.read(size)
        if len(taken) == size:
            return taken
        _ahead.block = io.BytesIO(_urandom(_BLOCK))
