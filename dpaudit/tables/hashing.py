"""A keyed public hash of values that every engine computes alike, from whole numbers below 2^63.

It decides which rows and groups of a unit are kept. It is not secret, and no proof rests on its quality:
if two hashes are equal, the values themselves decide. All products stay below 2^62, so that engines
which wrap round, promote or raise past 2^63 agree.

A cell's contribution to a row's hash depends on its value and its column's name, never on the column's type,
which one unit's cell can change in pandas: 1, 1.0 and True are one number, and a missing value adds
nothing, as if there were no such column.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

#: Two primes just below 2^31: equal remainders for both mean equal numbers below 2^61.
PRIMES: Final = (2**31 - 1, 2**31 - 19)
#: Hexadecimal digits of a text's digest that make one number.
DIGITS: Final = 7
#: What a missing value adds.
MISSING: Final = 0
#: Doubles past this are whole numbers that differ by thousands.
_MOST: Final = 2.0**62


class Hash:
    """The hash of one key: its constants follow from the key, and are the same everywhere."""

    def __init__(self, key: str) -> None:
        self.salt = f"dpaudit {key}: "
        words = np.frombuffer(b"".join(_digest(f"{self.salt}{i}") for i in range(2)), dtype=">u4")
        self._constants = [int(word) % (2**30) + 2**30 for word in words]

    def of_text(self, values: Iterable[str]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Both codes of every text: [n, 2]."""
        found = [_digest(self.salt + value).hex() for value in values]
        codes = [[int(each[i * DIGITS : (i + 1) * DIGITS], 16) for i in range(2)] for each in found]
        return np.array(codes, dtype=np.int64).reshape(-1, 2)

    def of_whole(self, x: Any, i: int) -> Any:
        """Return code number `i` of the two codes of whole numbers, as an array or an expression."""
        p = PRIMES[i]
        # Twice: a remainder is below 0 in some engines.
        return ((x % p + p) % p) * self._constant(0, i) % p

    def of_number(self, whole: Any, rest: Any, i: int) -> Any:
        """One code of doubles given as whole numbers and 2^30 times what is beyond them."""
        return (self.of_whole(whole, i) + rest) % PRIMES[i]

    def joined(self, codes: Mapping[str, Any], i: int) -> Any:
        """One code of a row's values, each under its column's name."""
        total: Any = 0
        for name, code in codes.items():
            factor = int.from_bytes(_digest(f"{self.salt}column {name}")[:4]) % 2**30 + 2**30
            total = (code * (factor % PRIMES[i]) + total) % PRIMES[i]
        return total

    def begun(self, one: Any, other: Any, i: int) -> Any:
        """The first of four steps that mix two codes."""
        a, b, c = (self._constant(k, i) for k in (1, 2, 3))
        return (one * a % PRIMES[i] + other * b % PRIMES[i] + c) % PRIMES[i]

    def mixed(self, x: Any, one: Any, i: int) -> Any:
        """One more step of mixing."""
        return (x * x % PRIMES[i] + one * self._constant(4, i) % PRIMES[i]) % PRIMES[i]

    def both(self, one: Any, other: Any, i: int) -> Any:
        """Apply all steps to arrays."""
        x = self.begun(one, other, i)
        for each in (other, one, other):
            x = self.mixed(x, each, i)
        return x

    def _constant(self, place: int, i: int) -> int:
        return self._constants[2 * place + i] % PRIMES[i]


def parts(x: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[Any, Any]:
    """Doubles without NaN as whole numbers and 2^30 times the rest: two arrays of int64."""
    within = np.clip(x, -_MOST, _MOST)
    whole = np.floor(within)
    return whole.astype(np.int64), np.floor((within - whole) * 2.0**30).astype(np.int64)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
