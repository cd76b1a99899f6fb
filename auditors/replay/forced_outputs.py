"""Forced outputs: a branch taken once in a billion runs is not found by ordinary recordings.

Every output that the noise can take, however rarely, must lead the algorithm the same way on both sides.
So recordings are also made whose outputs are set: to zero, to the query itself as if there were no noise,
to the neighbour's query, to ties, and far out on either side; all outputs at once, or a single one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpaudit.curator.noise import Entry, LiveNoise, Question
from dpaudit.ledger.ledger import Noise
from dpaudit.mechanisms import Array

_SINGLE_SETTINGS = ("zero", "the query itself", "far above", "far below")
_SCALES = tuple(f"{count} scales {side}" for count in (10, 1000) for side in ("above", "below"))
#: All outputs at once are set to each of these; a single one to each of the first four.
SETTINGS = (*_SINGLE_SETTINGS, "the neighbour's query", "ties", *_SCALES)
#: Single outputs are set at the first question of each place in the code, for as many places as this.
_PLACES = 8
#: So many outputs are set together, or twice as many as an ordinary run has, if that is more.
_MOST_SET = 1000


@dataclass
class ExtremeNoise:
    """Live noise with some outputs set to `setting`, one of `SETTINGS`.

    Args:
        seed: of the noise for the other outputs.
        only: the position of the one question to set; None for all, up to `most`. Later ones are live: an
            algorithm that asks until an output is positive would otherwise never end.
        neighbour: the entries of a replay on the neighbour, for its queries.
    """

    seed: np.random.SeedSequence
    setting: str
    only: int | None
    neighbour: Sequence[Entry] = ()
    most: int = _MOST_SET
    description: Noise = field(default_factory=lambda: Noise(source="replayed", seeded=True))

    def __post_init__(self) -> None:
        self._live = LiveNoise(self.seed)
        self._position = -1

    @property
    def circumstance(self) -> str:
        """What was special about the outputs, in words."""
        which = "every output" if self.only is None else f"output {self.only + 1}"
        return f"with {which} set to {self.setting}, which the noise can do however rarely"

    def answer(self, question: Question) -> Array:
        """The output set, where the noise could have led to it; else the live answer."""
        self._position += 1
        output = self._live.answer(question)
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
        value = mechanism.nearest_output(self._value(question.exact, other, scale), question.query)
        # numpy's own overflow is an infinity that no noise leads to.
        return output if value is None or not np.isfinite(value).all() else value

    def _value(self, exact: Array, other: Array, scale: float) -> Array:
        # Whole numbers of everything, so that integers stay integers.
        match self.setting:
            case "zero":
                return np.zeros_like(exact)
            case "the query itself":
                return exact.copy()
            case "the neighbour's query":
                return other.copy()
            case "ties":
                return np.full_like(exact, np.rint(exact.ravel()[0]))
            case "far above" | "far below":
                far = 1e12 * (1.0 + np.rint(scale))
                return np.full_like(exact, far if self.setting == "far above" else -far)
            case _:
                scales, side = (10.0 if self.setting.startswith("10 ") else 1e3), self.setting[-5:]
                move = np.rint(scales * scale + 1.0)
                with np.errstate(over="ignore"):
                    return np.asarray(exact + (move if side == "above" else -move))


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
    chosen += [(setting, only) for only in single for setting in _SINGLE_SETTINGS]
    for setting, only in chosen:
        yield ExtremeNoise(seed.spawn(1)[0], setting, only, neighbour, max(_MOST_SET, 2 * len(recorded)))
