"""Where noise comes from: a floating-point generator, and unbiased bits for the exact samplers."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_READ = 512  # bytes asked for at once: a call costs more than the bits it brings


class Bits:
    """Independent fair bits, and integers made of them without bias.

    `read` returns that many random bytes, as a numpy generator's ``bytes`` or ``secrets.token_bytes``.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._pool = 0
        self._left = 0

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound), by rejection: every one exactly equally likely."""
        width = (bound - 1).bit_length()
        while True:
            candidate = self._take(width)
            if candidate < bound:
                return candidate

    def _take(self, width: int) -> int:
        while self._left < width:
            self._pool |= int.from_bytes(self._read(_READ), "little") << self._left
            self._left += 8 * _READ
        bits = self._pool & ((1 << width) - 1)
        self._pool >>= width
        self._left -= width
        return bits


@dataclass(frozen=True)
class Randomness:
    """Both forms of randomness that mechanisms draw from."""

    generator: np.random.Generator
    bits: Bits

    @classmethod
    def live(cls, seed: int | np.random.SeedSequence | None = None) -> Randomness:
        """Seeded by the caller, or by the operating system, which then supplies the bits itself."""
        generator = np.random.default_rng(seed)
        return cls(generator, Bits(secrets.token_bytes if seed is None else generator.bytes))
