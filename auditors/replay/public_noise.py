"""Custom samplers with public noise: they draw nothing from the curator's generator.

A release of `Curator.release_opaque` has no density, so the exact loss is not known. But a sampler that does
not use the generator it receives returns a function of the value and of public information. If the two data
sets of a pair then give different answers after the same releases, no secret noise hides the difference.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np

from dpaudit.auditors.comparison.output_comparison import first_difference
from dpaudit.auditors.replay.recording import Recording, Runs, fresh
from dpaudit.certificate.verdicts import Finding
from dpaudit.claims.pairs import Pair
from dpaudit.curator.curator import Curator, Sampler
from dpaudit.curator.noise import Entry, LiveNoise
from dpaudit.mechanisms import Array
from dpaudit.processes.hosted import Hosted

#: A release's label, whether its sampler used the generator or failed, and the sampler's answer.
_Note = tuple[str, bool, Array]


class _Noticed(np.random.Generator):
    """A generator that records any use of its attributes, for a draw or a copy."""

    used = False

    def __getattribute__(self, name: str) -> Any:
        """Return the attribute; note any use except of `used`."""
        if name != "used":
            np.random.Generator.__setattr__(self, "used", True)
        return super().__getattribute__(name)


class SamplerWatch:
    """An algorithm with each sampler of its opaque releases called once more before the release."""

    def __init__(self, algorithm: Callable[[Any, Curator], Any]) -> None:
        self._algorithm = algorithm
        #: The notes of the last run.
        self.drawn: list[_Note] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the object itself: its notes are read after the run; the algorithm is a fresh copy."""
        return self

    def __getattr__(self, name: str) -> Any:
        """Return the algorithm's attribute."""
        return getattr(self._algorithm, name)

    def __call__(self, data: Any, curator: Curator) -> Any:
        """Run the algorithm with its samplers watched."""
        self.drawn = []
        with curator.samplers_watched(self._note):
            return self._algorithm(data, curator)

    def _note(self, label: str, value: Array, sampler: Sampler) -> None:
        generator = _Noticed(np.random.PCG64(0))
        failed, answer = False, np.zeros(0)
        try:
            answer = np.array(sampler(value, generator), dtype=np.float64)
        except Exception:  # noqa: BLE001  (whatever the sampler raises, it raises again in its release)
            failed = True
        self.drawn.append((label, failed or generator.used, answer))


def public_noise(runs: Runs, pilot: Recording, pair: Pair, seed: np.random.SeedSequence) -> list[Finding]:
    """Return a finding for each release with public noise whose answer differs between the pair's data sets.

    It takes three runs: a recording, its replay on the same data, and its replay on the neighbour. `pilot`
    is an ordinary recording, which has the releases' places in the code.
    """
    algorithm = runs.algorithm
    watch: Any = (
        algorithm.inside(SamplerWatch) if isinstance(algorithm, Hosted) else SamplerWatch(fresh(algorithm))
    )
    runs = replace(runs, algorithm=watch, moved=set())
    recorded = runs.record(pair.data, LiveNoise(seed))
    notes = [_notes(watch)]
    for data in (pair.data, pair.neighbour):
        runs.replay(data, recorded)
        notes.append(_notes(watch))
    places = _places(pilot)
    findings: dict[str, Finding] = {}
    for own, again, other in zip(*notes, strict=False):
        label = own[0]
        if not label == again[0] == other[0]:
            break
        if own[1] or other[1] or first_difference(own, again) is not None:
            continue  # secret noise, or noise that differs on the same data
        if first_difference(own[2], other[2]) is not None and label in places:
            shown, detail = places[label].release.label, "its sampler uses nothing of the curator's generator"
            detail += ", and its answer differs on the neighbour: the noise is public"
            found = Finding(kind="leak", label=shown, detail=detail, where=places[label].where)
            findings.setdefault(label, found)
    return list(findings.values())


def _notes(watch: Any) -> list[_Note]:
    return [(str(label), bool(used), np.asarray(answer)) for label, used, answer in watch.drawn or ()]


def _places(recorded: Recording) -> dict[str, Entry]:
    """Return the entry of each label, in the form that findings may show."""
    pairs = zip(recorded.transcript.entries, recorded.entries, strict=True)
    return {entry.release.label: shown for entry, shown in pairs}
