"""The runs behind a figure: computed in parallel, each kept when it is finished, none computed twice.

A point is a frozen dataclass of strings and numbers, or of such dataclasses: one run of an algorithm up to
one place of a curve, with the numbers measured there. Points are written to a CSV file as runs finish, so
that an interrupted figure goes on where it stopped.
"""

import contextlib
import csv
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from dpaudit.errors import UsageError
from dpaudit.interrupts import leave_to_parent

P = TypeVar("P")

_Key: TypeAlias = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class RunCache(Generic[P]):
    """How one figure's runs are computed and kept."""

    measured: frozenset[str]  # the fields of a point that a run fills in, floats
    #: From the points of one run, not measured yet, to the same, measured; each must come out the same
    #: whichever others are asked for.
    run: Callable[[Sequence[P]], Sequence[P]]
    along: frozenset[str] = frozenset()  # the fields in which the points of one run differ

    def finished(
        self,
        wanted: Iterable[P],
        *,
        path: Path | None = None,
        workers: int = 1,
        progress: Callable[[int], None] = lambda _: None,
    ) -> list[P]:
        """Compute the runs that are not finished yet; returns the points in the order wanted, each once.

        Finished points are appended to the CSV file at `path`; points that it already holds are not computed
        again. `progress` gets the number of finished runs, at the beginning and after each run.
        `UsageError` is raised where the file was not written by this function.
        """
        asked = self._by_key(wanted)
        kept = self._read(path, asked)
        missing = self._by_run(point for key, point in asked.items() if key not in kept)
        done = self.runs(wanted) - len(missing)
        progress(done)
        with contextlib.closing(_run_all(self.run, missing, workers)) as running:
            for number, points in enumerate(running, done + 1):
                kept |= self._by_key(points)
                if path is not None:
                    _append(path, points)
                progress(number)
        return [kept[key] for key in asked]

    def runs(self, wanted: Iterable[P]) -> int:
        """Number of runs behind these points."""
        return len(self._by_run(self._by_key(wanted).values()))

    def kept(self, wanted: Iterable[P], path: Path) -> int:
        """Number of runs behind these points that a file holds in full."""
        asked = self._by_key(wanted)
        found = self._read(path, asked)
        return self.runs(asked.values()) - self.runs(p for key, p in asked.items() if key not in found)

    def _key(self, point: P, *, without: frozenset[str] = frozenset()) -> _Key:
        """What was asked for, as text, without the measured numbers: NaN, before the run, equals nothing."""
        left_out = self.measured | without
        return frozenset((name, str(value)) for name, value in _values(point).items() if name not in left_out)

    def _by_key(self, points: Iterable[P]) -> dict[_Key, P]:
        return {self._key(point): point for point in points}

    def _by_run(self, points: Iterable[P]) -> list[list[P]]:
        runs: dict[_Key, list[P]] = {}
        for point in points:
            runs.setdefault(self._key(point, without=self.along), []).append(point)
        return list(runs.values())

    def _read(self, path: Path | None, asked: dict[_Key, P]) -> dict[_Key, P]:
        """Those of the points that a file holds; a last line that an interruption cut short is removed."""
        if path is None or not path.exists() or not asked:
            return {}
        text = path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            path.write_text(whole, encoding="utf-8")
        rows, found = csv.DictReader(whole.splitlines()), {}
        known = rows.fieldnames in (None, list(_values(next(iter(asked.values())))))
        try:
            for row in rows if known else ():
                measured: Any = {name: float(row.pop(name)) for name in self.measured}
                key = frozenset(row.items())
                if key in asked:
                    point: Any = asked[key]
                    found[key] = replace(point, **measured)
        except (TypeError, ValueError):
            known = False
        if not known:
            why = "finished runs are read back from this file"
            remedy = "name a new file, or one to which this figure's runs were written"
            raise UsageError("not the runs of this figure", where=str(path), why=why, remedy=remedy)
        return found


def noise_seed(*words: int) -> int:
    """A seed for the noise of one run, made of what tells it from other runs."""
    return int(np.random.SeedSequence(words).generate_state(1)[0])


def bits(*numbers: float) -> list[int]:
    """Numbers as words of a seed, to the last bit."""
    words: list[int] = np.array(numbers, dtype=np.float64).view(np.uint32).tolist()
    return words


def _values(point: Any) -> dict[str, Any]:
    """All values by the names of their fields; those of a dataclass inside stand in its place."""
    values: dict[str, Any] = {}
    for field in fields(point):
        value = getattr(point, field.name)
        values |= _values(value) if is_dataclass(value) else {field.name: value}
    return values


def _run_all(
    run: Callable[[Sequence[P]], Sequence[P]], runs: Sequence[Sequence[P]], workers: int
) -> Generator[Sequence[P]]:
    """The runs as they finish; once the generator is closed, no process goes on."""
    if workers == 1 or not runs:
        yield from map(run, runs)
        return
    from joblib import Parallel, delayed

    # One run a task, so that every finished run is kept when the figure is interrupted.
    parallel = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)
    yield from parallel(delayed(_in_worker)(run, points) for points in runs)


def _in_worker(run: Callable[[Sequence[P]], Sequence[P]], points: Sequence[P]) -> Sequence[P]:
    leave_to_parent()
    return run(points)


def _append(path: Path, points: Sequence[Any]) -> None:
    new = not path.exists() or path.stat().st_size == 0
    rows = [_values(point) for point in points]
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)
