"""Forced outputs: a branch taken once in a billion runs is not found by ordinary recordings.

Every output that the noise can take, however rarely, must lead the algorithm the same way on both sides.
So recordings are also made whose outputs are set: to zero, to the query itself as if there were no noise,
to the neighbour's query, to ties, and far out on either side; all outputs at once, or a single one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpaudit.curator.noise import Entry, LiveNoise, Question
from dpaudit.ledger.ledger import Noise
from dpaudit.mechanisms import Array

#: From the exact query, the neighbour's query and the noise's scale to an output. All of them are whole
#: numbers where the query is, so that integers stay integers.
_Setting = Callable[[Array, Array, float], Array]


def _far(side: float) -> _Setting:
    return lambda exact, _, scale: np.full_like(exact, side * 1e12 * (1.0 + np.rint(scale)))


def _away(scales: float) -> _Setting:
    return lambda exact, _, scale: exact + np.copysign(np.rint(abs(scales) * scale + 1.0), scales)


#: All outputs at once are set to each of these; a single one to each of the first four.
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
#: Single outputs are set at the first question of each place in the code, for as many places as this.
_PLACES = 8
#: So many outputs are set together, or twice as many as an ordinary run has, if that is more.
_MOST_SET = 1000


@dataclass
class ExtremeNoise(LiveNoise):
    """Live noise with some outputs set to `setting`, one of `SETTINGS`."""

    seed: np.random.SeedSequence  # of the noise for the other outputs
    setting: str
    only: int | None  # the position of the one question to set; None for all, up to `most`
    neighbour: Sequence[Entry]  # the entries of a replay on the neighbour, for its queries
    most: int  # later ones are live: an algorithm that asks until an output is positive would never end

    def __post_init__(self) -> None:
        super().__init__(self.seed)
        self.description = Noise(source="replayed", seeded=True)
        self._position = -1

    @property
    def circumstance(self) -> str:
        """What was special about the outputs, in words."""
        which = "every output" if self.only is None else f"output {self.only + 1}"
        return f"with {which} set to {self.setting}, which the noise can do however rarely"

    def answer(self, question: Question) -> Array:
        """The output set, where the noise could have led to it; else the live answer."""
        self._position += 1
        output = super().answer(question)
        chosen = self._position < self.most if self.only is None else self._position == self.only
        if not chosen or not question.query.size:
            return output
        other = question.exact
        if self._position < len(self.neighbour):
            query = self.neighbour[self._position].query
            if query.shape == other.shape:
                other = query
        mechanism = question.release.mechanism
        scale = mechanism.typical_noise if question.scale is None else question.scale
        with np.errstate(over="ignore"):
            setting = SETTINGS[self.setting](question.exact, other, scale)
        value = mechanism.nearest_output(setting, question.query)
        # numpy's own overflow is an infinity that no noise leads to.
        return output if value is None or not np.isfinite(value).all() else value


def extremes(
    seed: np.random.SeedSequence, recorded: Sequence[Entry], neighbour: Sequence[Entry]
) -> Iterator[ExtremeNoise]:
    """Recordings with all outputs set at once, and with single ones."""
    places: dict[str, int] = {}
    for position, entry in enumerate(recorded):
        if entry.output.size:
            places.setdefault(entry.where, position)
    single = list(places.values())[:_PLACES] if len(recorded) > 1 else []
    chosen: list[tuple[str, int | None]] = [(setting, None) for setting in SETTINGS]
    chosen += [(setting, only) for only in single for setting in list(SETTINGS)[:4]]
    for setting, only in chosen:
        yield ExtremeNoise(seed.spawn(1)[0], setting, only, neighbour, max(_MOST_SET, 2 * len(recorded)))
