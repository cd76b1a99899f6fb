"""Which keys are released of a table whose keys are private: those with enough units, after noise."""

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

#: One value, or several, of each key.
Keys: TypeAlias = Sequence[tuple[Any, ...]]

#: Steps to 1 of the whole numbers that probabilities are computed in.
_ONE: Final = 2**128
#: Units past which the probability stays what it is.
_MOST_UNITS: Final = 1_000_000


class KeySelection(BaseMechanism):
    """Each key that has units, kept or left out by chance: never one without units, surely one with many.

    `method` says how. ``optimal`` keeps a key of n units with the largest probability that any mechanism can
    that treats keys alike and is (a, b)-DP for one of them, a = epsilon/changes, b = delta/changes
    (Desfontaines, Voss, Gipson and Mandayam 2022, Theorem 1): p(0) = 0 and p(n + 1) = min(e^a p(n) + b, 1 -
    e^-a (1 - p(n) - b), 1), rounded down. That each coin is (a, b)-DP is these two inequalities, and, as p
    does not fall, the other two; the proof needs no optimality. ``laplace`` and ``gaussian`` keep a key whose
    noisy number of units reaches a threshold. For keys that both tables have, the noisy numbers are then
    epsilon-DP, or (epsilon, delta/2)-DP (Balle and Wang 2018, Theorem 8). Keys that one table lacks have one
    unit in the other, and the probability that any of them is kept is at most delta, or delta/2.

    Obligation: between neighbouring data sets the number of units of at most `changes` keys differs, by one
    each; then the selection is (epsilon, delta)-DP (Desfontaines, Voss, Gipson and Mandayam 2022, Section 2,
    for ``optimal`` and one key). `Table.select_keys` sees to that by its bounds.
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
        """The pair of the (epsilon, delta) guarantee."""
        return dominating.Approx(self.epsilon, self.delta)

    def for_group(self, size: int, times: Times) -> tuple[Self, int]:
        """As of any (epsilon, delta)-DP mechanism."""
        held = OpaqueApproxDP(epsilon=self.epsilon, delta=self.delta, justification=self.kind)
        group, count = held.for_group(size, times)
        return self.model_copy(update={"epsilon": group.epsilon, "delta": group.delta}), count

    def nearest_output(self, value: Array, query: Array) -> None:
        """None: the possible outputs are not known."""

    def sample(self, units: Array, encoded: Array, randomness: Randomness) -> Array:
        """The keys that are kept, encoded, from the number of units of every key, [n], and all n keys."""
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
        """p(0), p(1), ... of ``optimal``, up to p(`most`) or to where they stay the same."""
        chances = _chances(self.epsilon, self.delta, self.changes)
        return chances if most >= len(chances) else chances[: most + 1]

    def noise_and_threshold(self) -> tuple[float, float]:
        """The noise's scale, and the least noisy number of units at which a key is kept, of the other two."""
        return _thresholded(self.method, self.epsilon, self.delta, self.changes)


def require_counted(keys: Keys, units: Array) -> None:
    """Raise `InvalidParameter` unless there is a whole number of units for each key, and each key once."""
    whole = units.shape == (len(keys),) and bool(((units == np.rint(units)) & (units >= 0)).all())
    if not whole or len(set(keys)) < len(keys):
        what, remedy = (
            f"{units.size} numbers of units for {len(keys)} keys",
            "give one for each key, each once",
        )
        raise InvalidParameter(what, where="release_keys", remedy=remedy)


def encode(keys: Keys) -> Array:
    """Keys as the bytes of a JSON list, each byte a number.

    Raises:
        InvalidParameter: a key is of anything else than text, whole numbers, and yes or no.
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
    """The keys that were encoded; none for bytes that are all 0.

    Raises:
        InvalidParameter: they are no such list.
    """
    text = encoded.astype(np.uint8).tobytes().strip(b"\0")
    try:
        return [tuple(key) for key in json.loads(text or b"[]")]
    except (ValueError, TypeError):
        raise InvalidParameter("an answer that holds no keys", where="release_keys") from None


@functools.lru_cache(maxsize=8)
def _chances(epsilon: float, delta: float, changes: int) -> tuple[float, ...]:
    """All p(n) until they stay the same, each a double that keeps both inequalities with the one before."""
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
    """e^x in steps of 1/`_ONE`, rounded down: sums of the series are below it, and so are their squares."""
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
    """Scale and threshold, each a little larger than it must be."""
    if method == "laplace":
        scale = changes / epsilon * (1 + 1e-12)
        # One unit's noise reaches it with probability delta/changes; at least 1 where that exceeds a half.
        return scale, 1.0 + scale * max(math.log(changes / (2 * delta)), 0.0) * (1 + 1e-9) + 1e-9 * scale
    sigma = _least(lambda s: _gaussian_delta(math.sqrt(changes) / s, epsilon) <= delta / 2)
    distance = _least(lambda t: 0.5 * math.erfc(t / math.sqrt(2)) * (1 + 1e-9) <= delta / (2 * changes))
    return sigma, 1.0 + sigma * distance * (1 + 1e-9) + 1e-9 * sigma


def _gaussian_delta(mu: float, epsilon: float) -> float:
    """An upper bound on the delta at epsilon of N(mu, 1) against N(0, 1) (Balle and Wang 2018, Theorem 8)."""
    above = 0.5 * math.erfc((epsilon / mu - mu / 2) / math.sqrt(2))
    exponent, beyond = epsilon, 0.5 * math.erfc((epsilon / mu + mu / 2) / math.sqrt(2))
    below = math.exp(exponent) * beyond if exponent < 700 else 0.0
    return above - below + 1e-12 * above


def _least(enough: Callable[[float], bool]) -> float:
    """A number at which it is enough, at most 1e-9 of itself above the least; it is enough for all larger."""
    low, high = 0.0, 1.0
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
