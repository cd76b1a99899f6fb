"""Selection of the keys of a table with private keys: noise decides which keys have enough units."""

import functools
import json
import math
from collections.abc import Callable, Sequence
from fractions import Fraction as Exact
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.base import Array, BaseMechanism, Times, fields
from dpaudit.mechanisms.opaque import OpaqueApproxDP
from dpaudit.models import Count, Fraction, Positive
from dpaudit.noise.grid import OnGrid
from dpaudit.noise.randomness import Randomness

#: Keys; each is a tuple of one or more values.
Keys: TypeAlias = Sequence[tuple[Any, ...]]

#: Probabilities are computed as whole multiples of 1/`_ONE`.
_ONE: Final = 2**128
#: Beyond this number of units the probability stays the same.
_MOST_UNITS: Final = 1_000_000


class KeySelection(BaseMechanism):
    """A random selection of keys by their numbers of units: a key without units is never selected.

    `method` is the rule. ``optimal`` selects a key of n units with the largest probability of all mechanisms
    that treat keys alike and are (a, b)-DP for one key, a = epsilon/changes, b = delta/changes (Desfontaines,
    Voss, Gipson and Mandayam 2022, Theorem 1): p(0) = 0 and p(n + 1) = min(e^a p(n) + b, 1 - e^-a (1 - p(n) -
    b), 1), rounded down. These two inequalities and the monotonicity of p show that each coin is (a, b)-DP;
    the proof does not need optimality. ``laplace`` and ``gaussian`` select a key if its noisy number of units
    reaches a threshold. For keys in both tables, the noisy numbers are then epsilon-DP or (epsilon,
    delta/2)-DP (Balle and Wang 2018, Theorem 8). A key that is missing from one table has one unit in the
    other, and the probability that any such key is selected is at most delta or delta/2.

    Obligation: between neighbouring data sets the number of units of at most `changes` keys differs, by one
    each; then the selection is (epsilon, delta)-DP (Desfontaines, Voss, Gipson and Mandayam 2022, Section 2,
    for ``optimal`` and one key). `Table.select_keys` ensures this by its bounds.
    """

    released_by = "release_keys"
    trusted_to = "count the units that have a key"
    drawn_exactly = True

    example = fields(method="optimal", epsilon=1.0, delta=1e-6, changes=1)

    kind: Literal["key-selection"] = "key-selection"
    method: Literal["optimal", "laplace", "gaussian"] = "optimal"
    epsilon: Positive
    delta: Fraction
    changes: Count

    def dominating_pair(self) -> dominating.Approx:
        """Return the pair of the (epsilon, delta) guarantee."""
        return dominating.Approx(self.epsilon, self.delta)

    def for_group(self, size: int, times: Times) -> tuple[Self, int]:
        """Return the group guarantee of any (epsilon, delta)-DP mechanism."""
        held = OpaqueApproxDP(epsilon=self.epsilon, delta=self.delta, justification=self.kind)
        group, count = held.for_group(size, times)
        return self.model_copy(update={"epsilon": group.epsilon, "delta": group.delta}), count

    def nearest_output(self, value: Array, query: Array) -> None:
        """Return None: the possible outputs are unknown."""

    def sample(self, units: Array, encoded: Array, randomness: Randomness) -> Array:
        """Return the selected keys, encoded, from the number of units of every key [n] and all n keys."""
        keys = decoded(encoded)
        require_counted(keys, units)
        kept = self._kept(units, randomness)
        return encode([key for key, one in zip(keys, kept.tolist(), strict=True) if one])

    def _kept(self, units: Array, randomness: Randomness) -> np.ndarray[Any, np.dtype[np.bool_]]:
        if self.method == "optimal":
            kept = np.zeros(len(units), dtype=np.bool_)
            chances = self.probabilities(int(units.max(initial=0.0)))
            for number in np.unique(units).astype(np.int64).tolist():
                same = units == number
                rate = chances[min(number, len(chances) - 1)]
                kept[same] = randomness.coins(int(same.sum()), rate) if rate < 1.0 else True
            return kept
        exact = OnGrid(units.astype(np.int64), 0)
        scale, threshold = self.noise_and_threshold()
        draw = randomness.laplace if self.method == "laplace" else randomness.gaussian
        return np.asarray((draw(exact, scale) >= threshold) & (units > 0))

    def probabilities(self, most: int) -> tuple[float, ...]:
        """Return p(0), p(1), ... of ``optimal``, up to p(`most`) or until they stay the same."""
        chances = _chances(self.epsilon, self.delta, self.changes)
        return chances if most >= len(chances) else chances[: most + 1]

    def noise_and_threshold(self) -> tuple[float, float]:
        """Return the noise scale and the threshold of ``laplace`` or ``gaussian``."""
        return _thresholded(self.method, self.epsilon, self.delta, self.changes)


def require_counted(keys: Keys, units: Array) -> None:
    """Raise `InvalidParameter` unless each key occurs once, with a whole number of units."""
    whole = units.shape == (len(keys),) and bool(((units == np.rint(units)) & (units >= 0)).all())
    if not whole or len(set(keys)) < len(keys):
        what, remedy = (
            f"{units.size} numbers of units for {len(keys)} keys",
            "give one for each key, each once",
        )
        raise InvalidParameter(what, where="release_keys", remedy=remedy)


def encode(keys: Keys) -> Array:
    """Return the keys as the bytes of a JSON list, each byte as a number.

    Raises:
        InvalidParameter: a key holds a value other than text, a whole number or a boolean.
    """
    strange = [one for key in keys for one in key if type(one) not in {str, int, bool}]
    if strange:
        what, remedy = (
            f"a key of type {type(strange[0]).__name__}",
            "give text, whole numbers, or True and False",
        )
        raise InvalidParameter(what, where="release_keys", remedy=remedy)
    text = json.dumps([list(key) for key in keys], ensure_ascii=True, separators=(",", ":"))
    return np.frombuffer(text.encode(), dtype=np.uint8).astype(np.float64)


def decoded(encoded: Array) -> list[tuple[Any, ...]]:
    """Return the encoded keys; no keys for bytes that are all 0.

    Raises:
        InvalidParameter: the bytes are not an encoded list of keys.
    """
    text = encoded.astype(np.uint8).tobytes().strip(b"\0")
    try:
        return [tuple(key) for key in json.loads(text or b"[]")]
    except (ValueError, TypeError):
        raise InvalidParameter("an answer that holds no keys", where="release_keys") from None


@functools.lru_cache(maxsize=8)
def _chances(epsilon: float, delta: float, changes: int) -> tuple[float, ...]:
    """Return all p(n) until they stay the same; each double satisfies both inequalities."""
    growth = _exponential_below(min(Exact(epsilon) / changes, Exact(64)))
    slack = math.floor(Exact(delta) / changes * _ONE)
    chances, p = [0.0], 0
    while len(chances) <= _MOST_UNITS:
        most = growth * p // _ONE + slack
        left = _ONE - p - slack
        if left > 0:
            most = min(most, _ONE + (-left * _ONE) // growth)
        most = min(most, _ONE)
        found = most / _ONE
        if Exact(found) > Exact(most, _ONE):
            found = math.nextafter(found, 0.0)
        if found <= chances[-1]:
            break
        chances.append(found)
        p = math.floor(Exact(found) * _ONE)
    return tuple(chances)


def _exponential_below(x: Exact) -> int:
    """Return e^x in units of 1/`_ONE`, rounded down: partial sums and their squares are lower bounds."""
    halvings = max(0, x.numerator.bit_length() - x.denominator.bit_length() + 1)
    small = math.floor(x / 2**halvings * _ONE)
    total = term = _ONE
    for k in range(1, 60):
        term = term * small // (_ONE * k)
        total += term
    for _ in range(halvings):
        total = total * total // _ONE
    return total


@functools.lru_cache(maxsize=8)
def _thresholded(method: str, epsilon: float, delta: float, changes: int) -> tuple[float, float]:
    """Return scale and threshold, each slightly larger than necessary."""
    if method == "laplace":
        scale = changes / epsilon * (1 + 1e-12)
        # A key of one unit reaches it with probability delta/changes; it is at least 1 if that exceeds 1/2.
        return scale, 1.0 + scale * max(math.log(changes / (2 * delta)), 0.0) * (1 + 1e-9) + 1e-9 * scale
    sigma = _least(lambda s: _gaussian_delta(math.sqrt(changes) / s, epsilon) <= delta / 2)
    distance = _least(lambda t: 0.5 * math.erfc(t / math.sqrt(2)) * (1 + 1e-9) <= delta / (2 * changes))
    return sigma, 1.0 + sigma * distance * (1 + 1e-9) + 1e-9 * sigma


def _gaussian_delta(mu: float, epsilon: float) -> float:
    """Return an upper bound on delta of N(mu, 1) against N(0, 1) (Balle and Wang 2018, Theorem 8)."""
    above = 0.5 * math.erfc((epsilon / mu - mu / 2) / math.sqrt(2))
    exponent, beyond = epsilon, 0.5 * math.erfc((epsilon / mu + mu / 2) / math.sqrt(2))
    below = math.exp(exponent) * beyond if exponent < 700 else 0.0
    return above - below + 1e-12 * above


def _least(enough: Callable[[float], bool]) -> float:
    """Return a number that satisfies a monotone condition, at most 1e-9 (relative) above the least one."""
    low, high = 0.0, 1.0
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
