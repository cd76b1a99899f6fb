"""The runs behind a figure: computed in parallel, each kept when it is finished, none run twice.

A cell is a frozen dataclass of strings and numbers: what is asked for, and what came of it. Cells are written
to a CSV file as they are finished, so that an interrupted figure goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

from dpaudit.errors import UsageError
from dpaudit.interrupts import leave_to_parent

C = TypeVar("C")


@dataclass(frozen=True)
class CellKind(Generic[C]):
    """One figure's cells.

    Attributes:
        cell: the dataclass; its fields are of types str, int and float.
        results: those of its fields that a run fills in.
        run: from cells of one group, without results, to the same with results.
        group: cells with one key are run together; each must come out the same whoever else is in its group.
    """

    cell: Callable[..., C]
    results: frozenset[str]
    run: Callable[[Sequence[C]], Sequence[C]]
    group: Callable[[C], Hashable]

    def finished(
        self,
        wanted: Sequence[C],
        *,
        path: Path | None = None,
        workers: int = 1,
        progress: Callable[[int], None] = lambda _: None,
    ) -> list[C]:
        """Run what is not finished yet.

        Args:
            wanted: cells without results; those of one group need not stand together.
            path: a CSV file to which finished cells are appended; cells it already holds are not run again.
            workers: processes.
            progress: told how many cells are finished, at the beginning and after each group.

        Returns:
            The cells wanted, in their order.

        Raises:
            UsageError: the file is not one that this function wrote.
        """
        kept = {} if path is None else {self._key(cell): cell for cell in self._read(path)}
        missing = [cell for cell in wanted if self._key(cell) not in kept]
        done = len(wanted) - len(missing)
        progress(done)
        groups: dict[Hashable, list[C]] = {}
        for cell in missing:
            groups.setdefault(self.group(cell), []).append(cell)
        with contextlib.closing(_run_all(self.run, list(groups.values()), workers)) as running:
            for cells in running:
                kept |= {self._key(cell): cell for cell in cells}
                if path is not None:
                    _append(path, cells)
                done += len(cells)
                progress(done)
        return [kept[self._key(cell)] for cell in wanted]

    def kept(self, wanted: Sequence[C], path: Path) -> int:
        """How many of these cells a file holds; what an interruption cut short is not among them."""
        return len({self._key(cell) for cell in wanted} & {self._key(cell) for cell in self._read(path)})

    def _key(self, cell: C) -> tuple[str, ...]:
        return tuple(str(value) for name, value in _values(cell).items() if name not in self.results)

    def _read(self, path: Path) -> list[C]:
        """The finished cells of a file; a last line that an interruption cut short is dropped from it."""
        if not path.exists():
            return []
        text = path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            path.write_text(whole, encoding="utf-8")
        types = {field.name: _TYPES[str(field.type)] for field in fields(self.cell)}  # type: ignore[arg-type]
        try:
            return [
                self.cell(**{name: read(row[name]) for name, read in types.items()})
                for row in csv.DictReader(whole.splitlines())
            ]
        except (KeyError, TypeError, ValueError):
            raise UsageError(
                "not the cells of a figure",
                where=str(path),
                why="finished cells are read back from it",
                remedy="name a new file, or one that a figure was written to",
            ) from None


_TYPES: dict[str, Callable[[str], Any]] = {"str": str, "int": int, "float": float}


def _values(cell: Any) -> dict[str, Any]:
    return asdict(cell)


def _run_all(
    run: Callable[[Sequence[C]], Sequence[C]], groups: Sequence[Sequence[C]], workers: int
) -> Generator[Sequence[C]]:
    """The groups as they are finished; closed early, no process goes on."""
    if workers == 1 or not groups:
        yield from map(run, groups)
        return
    from joblib import Parallel, delayed

    # One group a task: whatever is finished is kept, should the figure be interrupted.
    parallel = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)
    yield from parallel(delayed(_in_worker)(run, group) for group in groups)


def _in_worker(run: Callable[[Sequence[C]], Sequence[C]], group: Sequence[C]) -> Sequence[C]:
    leave_to_parent()
    return run(group)


def _append(path: Path, cells: Sequence[Any]) -> None:
    new = not path.exists() or path.stat().st_size == 0
    rows = [_values(cell) for cell in cells]
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)
