"""Many lines of plain noise read at once: what `dpaudit.ledger.lines` does for one line, in columns.

A block is taken only if every line of it would be taken one by one; else nothing of it is, and its lines are
read in smaller blocks, and at last one by one, which finds the line at fault.
"""

import functools
import hashlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json, to_json

from dpaudit.ledger.columnar import PlainRelease
from dpaudit.ledger.columns import PlainColumns, PlainReleases
from dpaudit.ledger.lines import LINE, NUMBER, TAIL, TEXT, grid_of, plain_of
from dpaudit.ledger.numbers import canonical

MOST_LINES: Final = 8192
MOST_BYTES: Final = 1 << 23  # of lines that wait; lines of other mechanisms may be long
AT_ONCE: Final = 64  # lines that are read before their lengths are looked at
FEWEST_LINES: Final = 32  # fewer take longer in columns than one by one

#: A line in pieces: all before its label, the label, all up to its scale, the scale, the rest, and its hash.
#: Of a text that consists of lines, as many matches as lines are exactly these: none spans two.
_OBJECT: Final = r"\{[^{}\n]*\}"
_PIECES: Final = re.compile(
    rf'^(\{{(?:"claimed":{_OBJECT},)?"count":[0-9]+,(?:"grid":-?[0-9]+,)?"label":")({TEXT}+)'
    rf'(","mechanism":\{{"kind":"(?:gaussian","sensitivity":{_OBJECT},"sigma|laplace","scale)":){NUMBER}'
    rf'((?:,"sensitivity":{_OBJECT})?\}},(?:"partition":[^\n]*?\}},)?"record":"release","hash":")'
    r'([0-9a-f]{64})"\}\n',
    re.MULTILINE,
)
_Value = TypeVar("_Value")
_Column = Sequence[str]
_Shape = tuple[str, str, str]  # of a line: all of it but its label, scale and hash


def in_blocks(
    lines: Iterator[bytes], taken: Callable[[list[bytes]], _Value | None]
) -> Iterator[_Value | list[bytes]]:
    """Lines as what `taken` makes of a block, and where that is None, as they are.

    Where a block is not taken, the next ones are half as long; where one is, twice as long.
    """
    waiting: list[bytes] = []
    size, longest = MOST_LINES, MOST_BYTES
    while True:
        room = MOST_BYTES - sum(map(len, waiting))
        while len(waiting) < size and room > 0:
            few = min(size - len(waiting), AT_ONCE, max(1, room // longest))
            if not (more := list(itertools.islice(lines, few))):
                break
            waiting += more
            longest = max(1, *map(len, more))
            room -= sum(map(len, more))
        if not waiting:
            return
        block = waiting[:size]
        found = taken(block) if len(block) >= FEWEST_LINES else None
        if found is None and len(block) > FEWEST_LINES:
            size = max(FEWEST_LINES, len(block) // 2)
            continue
        waiting = waiting[size:]
        size = min(2 * size, MOST_LINES)
        yield block if found is None else found


def read_block(lines: Sequence[bytes], previous: str) -> tuple[PlainReleases, str] | None:
    """Whole lines of plain noise in columns, with the last one's hash; None if any is another line."""
    try:
        found = _shaped(b"".join(lines).decode(), lines)
    except UnicodeDecodeError:
        return None
    if found is None:
        return None
    shapes, labels, digits, stated = found
    if not _chained(lines, stated, previous):
        return None
    scale = _numbers(digits)
    if scale is None or not scale.all():  # a scale of 0 is refused elsewhere
        return None
    numbers = {shape: number for number, shape in enumerate(dict.fromkeys(shapes))}
    like = [_like(shape) for shape in numbers]
    which = np.zeros(len(lines), np.intp)  # where all are alike there is one shape
    if len(shapes) > 1:
        which = np.fromiter(map(numbers.__getitem__, shapes), np.intp, len(lines))
    known = [one for one in like if one is not None]
    if len(known) < len(like) or not _on_grids(known, which, scale):
        return None
    columns = PlainReleases.of(known).columns

    def each(column: Sequence[_Value]) -> Sequence[_Value]:
        return list(map(column.__getitem__, which.tolist())) if len(known) > 1 else [column[0]] * len(which)

    block = PlainColumns(
        labels=labels,
        gaussian=columns.gaussian[which],
        bases=each(columns.bases),
        sensitivity=columns.sensitivity[which],
        scale=scale,
        runs=columns.runs[which],
        zcdp=columns.zcdp[which],
        pure=columns.pure[which],
        figure=columns.figure[which],
        partitions=each(columns.partitions),
        grids=each(columns.grids),
    )
    return PlainReleases(block), stated[-1]


def _shaped(text: str, lines: Sequence[bytes]) -> tuple[Sequence[_Shape], _Column, _Column, _Column] | None:
    """Each line's shape, or one for all, its label, scale and hash; None if any is another line."""
    first, last = (_PIECES.fullmatch(line.decode()) for line in (lines[0], lines[-1]))
    if first is None or last is None:
        return None
    shape: _Shape = first[1], first[3], first[5]
    if shape == last.group(1, 3, 5):  # then perhaps all are alike
        parts = _alike(shape).split(text)  # what is between the matches, and the groups of each
        if len(parts) == 4 * len(lines) + 1 and not any(parts[::4]):
            return [shape], parts[1::4], parts[2::4], parts[3::4]
    parts = _PIECES.split(text)
    if len(parts) != 7 * len(lines) + 1 or any(parts[::7]):
        return None
    shapes = list(zip(parts[1::7], parts[3::7], parts[5::7], strict=True))
    return shapes, parts[2::7], parts[4::7], parts[6::7]


@functools.lru_cache(maxsize=64)
def _alike(shape: _Shape) -> re.Pattern[str]:
    begin, middle, end = map(re.escape, shape)
    return re.compile(rf'^{begin}({TEXT}+){middle}{NUMBER}{end}([0-9a-f]{{64}})"\}}\n', re.MULTILINE)


@functools.lru_cache(maxsize=1 << 14)
def _like(shape: _Shape) -> PlainRelease | None:
    """A line of this shape as it is read alone; None where it is left to the full reading.

    What stands for label and scale is found there again, and any other may stand there.
    """
    begin, middle, end = shape
    found = LINE.fullmatch(f'{begin}a{middle}1{end}{"0" * 64}"}}\n')
    if found is None:
        return None
    label, scale = len(begin), len(begin) + 1 + len(middle)
    its = found.span("sigma" if found["sigma"] else "scale")
    return plain_of(found) if (found.span("label"), its) == ((label, label + 1), (scale, scale + 1)) else None


def _on_grids(like: Sequence[PlainRelease], which: NDArray[np.intp], scale: NDArray[np.float64]) -> bool:
    """Whether the grids that are stated follow from the scales: a larger scale has no finer grid."""
    stated = [one.grid for one in like]
    for exponent in set(stated) - {None}:
        its = scale[np.array([one == exponent for one in stated])[which]]
        if not grid_of(float(its.min())) == grid_of(float(its.max())) == exponent:
            return False
    return True


def _chained(lines: Sequence[bytes], stated: _Column, previous: str) -> bool:
    """Whether each line's hash follows from its own bytes and the hash before."""
    sha256, before = hashlib.sha256, previous.encode()
    for line, digest in zip(lines, stated, strict=True):
        if sha256(before + line[:-TAIL] + b"}").hexdigest() != digest:
            return False
        before = digest.encode()
    return True


def _numbers(column: _Column) -> NDArray[np.float64] | None:
    """The column as numbers; None if canonical JSON writes any of them otherwise."""
    text = f"[{','.join(column)}]".encode()
    try:
        values = from_json(text)  # quicker than `float` and `repr`
    except ValueError:
        return None
    # What a double is written in are its shortest digits; `canonical` judges whole numbers and exponents.
    doubles = text.count(b".") == len(column) and to_json(values) == text
    if not doubles or b"e" in text or b".0," in text or b".0]" in text:
        known = {digits: canonical(digits) for digits in set(column)}
        if None in known.values():
            return None
        values = list(map(known.__getitem__, column))
    return np.array(values, np.float64)
