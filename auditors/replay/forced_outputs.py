"""Forced outputs, which reach branches that ordinary recordings are too rare to show.

After every possible output, however rare, the algorithm must behave alike on both sides. So some recordings
have set outputs: zero, the query itself as if there were no noise, the neighbour's query, ties, or values
far out on either side; for all outputs at once, or at some places in the code.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpaudit.curator.noise import Entry, LiveNoise, Question
from dpaudit.ledger.ledger import Noise
from dpaudit.mechanisms import Array

#: Computes an output from the exact query, the neighbour's query and the noise's scale. A whole query gives
#: a whole output, so integers stay integers.
_Setting = Callable[[Array, Array, float], Array]
#: A label, and the index of one of its outputs, from 0. (A question's position in a run depends on outputs.)
_Which = tuple[str, int]


def _far(side: float) -> _Setting:
    return lambda exact, _, scale: np.full_like(exact, side * 1e12 * (1.0 + np.rint(scale)))


def _away(scales: float) -> _Setting:
    return lambda exact, _, scale: exact + np.copysign(np.rint(abs(scales) * scale + 1.0), scales)


#: All outputs at once are set to each of these; outputs at single places in the code to the first four.
SETTINGS: Mapping[str, _Setting] = {
    "zero": lambda exact, *_: np.zeros_like(exact),
    "the query itself": lambda exact, *_: exact.copy(),
    "far above": _far(1.0),
    "far below": _far(-1.0),
    "the neighbour's query": lambda _, other, __: other.copy(),
    "ties": lambda exact, *_: np.full_like(exact, np.rint(exact.ravel()[0])),
    "10 scales above": _away(10.0),
    "10 scales below": _away(-10.0),
    "1000 scales above": _away(1e3),
    "1000 scales below": _away(-1e3),
}
#: The largest number of places in the code at which the first output is set.
_PLACES = 8
#: All outputs at once are set to these in one direction of a pair: the other direction has the same runs.
_EITHER_WAY = frozenset({"zero", "far above", "far below", "the neighbour's query"})
#: The largest number of outputs set together, or twice the number of an ordinary run, if that is more.
_MOST_SET = 1000


@dataclass
class ExtremeNoise(LiveNoise):
    """Live noise with outputs set to one of `SETTINGS`: all, up to `most`, or some by label."""

    seed: np.random.SeedSequence  # for the noise of the other outputs
    settings: str | Mapping[_Which, str]
    neighbour: Sequence[Entry]  # the entries of a replay on the neighbour, for its queries
    most: int  # later ones are live: an algorithm that asks until an output is positive would never end

    def __post_init__(self) -> None:
        super().__init__(self.seed)
        self.description = Noise(source="replayed", seeded=True)
        self._position, self._asked = -1, Counter[str]()

    def circumstance(self, public: Container[str] | None) -> str:
        """Describe the set outputs in words; only release names in `public` are quoted (None: all)."""
        if isinstance(self.settings, str):
            which = f"every output set to {self.settings}"
        else:
            which = " and ".join(
                f"output {number + 1} of {repr(label) if public is None or label in public else 'a release'} "
                f"set to {to}"
                for (label, number), to in self.settings.items()
            )
        return f"with {which}, which the noise can do however rarely"

    def answer(self, question: Question) -> Array:
        """Return the set output if the noise could have produced it, otherwise the live answer."""
        self._position += 1
        output = super().answer(question)
        if not question.query.size:
            return output
        name = self._setting(question.release.label)
        if name is None:
            return output
        other = question.exact
        if self._position < len(self.neighbour):
            query = self.neighbour[self._position].query
            if query.shape == other.shape:
                other = query
        mechanism = question.release.mechanism
        scale = mechanism.typical_noise if question.scale is None else question.scale
        with np.errstate(over="ignore"):
            setting = SETTINGS[name](question.exact, other, scale)
        value = mechanism.nearest_output(setting, question.query)
        # numpy's overflow gives an infinity, which no noise produces.
        return output if value is None or not np.isfinite(value).all() else value

    def _setting(self, label: str) -> str | None:
        if isinstance(self.settings, str):
            return self.settings if self._position < self.most else None
        self._asked[label] += 1
        return self.settings.get((label, self._asked[label] - 1))


def extremes(
    seed: np.random.SeedSequence,
    recorded: Sequence[Entry],
    neighbour: Sequence[Entry],
    *,
    turned: bool = False,
    singly: bool = True,
) -> Iterator[ExtremeNoise]:
    """Yield noise sources that set all outputs, and sources that set the first output of places in the code.

    `turned` is the second direction of a pair; it leaves out the recordings that the first direction covers.
    `singly` sets one place at a time, while all other places are live. Otherwise each recording sets several
    places: every place gets every setting in either direction, combined with different settings of the places
    before it.
    """
    places: dict[str, _Which] = {}
    asked: Counter[str] = Counter()
    for entry in recorded:
        if entry.query.size:
            label = entry.release.label
            places.setdefault(entry.where, (label, asked[label]))
            asked[label] += 1
    set_at = list(places.values())[:_PLACES] if len(recorded) > 1 else []
    few, shown = list(SETTINGS)[:4], turned and not singly
    chosen: list[str | dict[_Which, str]] = [
        name for name in SETTINGS if not shown or name not in _EITHER_WAY
    ]
    if singly:
        chosen += [{at: setting} for at in set_at for setting in few]
    else:
        options, stride = [*few, None], 2 if turned else 1
        for row in range(len(options)):
            names = [options[(stride * i + row) % len(options)] for i in range(len(set_at))]
            chosen.append({at: name for at, name in zip(set_at, names, strict=True) if name is not None})
    for settings in chosen:
        if settings:
            yield ExtremeNoise(seed.spawn(1)[0], settings, neighbour, max(_MOST_SET, 2 * len(recorded)))
