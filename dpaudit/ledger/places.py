"""Where in the author's code something stands: file and line, for messages, and never in a ledger's file."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import FrameType

#: At most so many labels without their digits, and so many whole ones, are kept for one run.
MOST_LABELS = 10_000

_WITHOUT_DIGITS = dict.fromkeys(map(ord, "0123456789"))

#: Folders that are passed over beside a caller's own: the noise layer of a library that is routed.
_PASSED_OVER: list[str] = []


def released_at(core: tuple[str, ...]) -> str:
    """``file:line`` of the nearest caller whose file does not lie in one of these folders; else empty."""
    frame = nearest_caller((*core, *_PASSED_OVER))
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def nearest_caller(folders: tuple[str, ...]) -> FrameType | None:
    """The frame of the nearest caller whose file does not lie in one of these folders."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  (documented, and the only way to a caller)
    while frame is not None and frame.f_code.co_filename.startswith((__file__, *folders)):
        frame = frame.f_back
    return frame


@contextmanager
def passed_over(folders: tuple[str, ...]) -> Iterator[None]:
    """While the context lasts, no place lies in these folders."""
    before = _PASSED_OVER[:]
    _PASSED_OVER.extend(folders)
    try:
        yield
    finally:
        _PASSED_OVER[:] = before


class ReleasePlaces:
    """Where each label of a run was released, as ``file:line``.

    A loop whose labels are numbered has one place, so that memory does not grow with the number of releases.
    """

    def __init__(self) -> None:
        self._common: dict[str, str] = {}
        self._exceptions: dict[str, str] = {}

    def note(self, label: str, place: str) -> None:
        """Keep where a label was released: of one that is released in several places, one of them."""
        pattern = label.translate(_WITHOUT_DIGITS)
        known = self._common.get(pattern)
        if known is None:
            _set_if_few(self._common, pattern, place)
        elif known != place:
            _set_if_few(self._exceptions, label, place)

    def of(self, label: str) -> str:
        """Where a label was released; empty where that is not known."""
        return self._exceptions.get(label) or self._common.get(label.translate(_WITHOUT_DIGITS), "")


def _set_if_few(places: dict[str, str], name: str, place: str) -> None:
    if name not in places and len(places) < MOST_LABELS:
        places[name] = place


def shown_place(place: str) -> str:
    """A place as reports and certificates show it: no name of a folder outside the repository.

    The file of ``file:line`` is relative to the present folder if that lies in the same repository; else to
    the folder from which Python imports it; else its name stands alone.
    """
    file, colon, line = place.rpartition(":")
    if not colon or not Path(file).is_absolute():
        return place
    return f"{_shown(file, str(Path.cwd()), tuple(sys.path))}:{line}"


@lru_cache(maxsize=256)
def _shown(file: str, present: str, search: tuple[str, ...]) -> str:
    path, here = Path(file), Path(present)
    for folder in (here, here.resolve()):
        if path.is_relative_to(_repository(folder)):
            return Path(os.path.relpath(path, folder)).as_posix()
    around = [Path(folder) for folder in search if folder and path.is_relative_to(folder)]
    nearest = max(around, key=lambda folder: len(folder.parts), default=path.parent)
    return path.relative_to(nearest).as_posix()


def _repository(folder: Path) -> Path:
    """The nearest folder around a folder that is a repository's root; else the folder itself."""
    marks = (around for around in (folder, *folder.parents) if (around / ".git").exists())
    return next(marks, folder)
