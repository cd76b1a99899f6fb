"""The quick way through hashed ledger lines of Gaussian or Laplace noise, one by one or many in columns.

A line is cut into its label, the scale of its noise, its hash, and the rest, its shape. A shape is read in
full once, as the release that stands there with a label and a scale of this module's choice; the canonical
JSON of that release must be the line's own bytes. Any other label and scale may then stand there, and the
hash over a line's bytes is the hash over its record. Every other line, right or wrong, is left to the full
reading. Lines are taken in columns where every line of a block is of this kind; otherwise they are read in
smaller blocks, and at last one by one, which finds the line at fault.
"""

import functools
import hashlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from types import NoneType
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json, to_json

from dpaudit.errors import DpauditError, InvalidParameter
from dpaudit.ledger.columns import PlainReleases, is_plain, plain_noise, with_own
from dpaudit.ledger.numbers import canonical, canonical_json
from dpaudit.ledger.releases import Release
from dpaudit.noise.grid import grid

MOST_LINES: Final = 8192
MOST_BYTES: Final = 1 << 23  # of lines that wait; lines of other mechanisms may be long
AT_ONCE: Final = 64  # lines that are read before their lengths are looked at
FEWEST_LINES: Final = 32  # fewer take longer in columns than one by one

_TEXT: Final = r'[^"\\\x00-\x1f]'  # all that canonical JSON writes as it is
_NUMBER: Final = "([0-9][0-9.e+-]*)"
_OBJECT: Final = r"\{[^{}\n]*\}"
_FIELD: Final = rf'"[a-z_]+":(?:"{_TEXT}*"|{_OBJECT}|[^"{{}},\n]+)'

#: A line in pieces: all before its label, the label, all up to its scale, the scale, the rest, and its hash.
#: Of a text that consists of lines, as many matches as lines are exactly these: none spans two.
_PIECES: Final = re.compile(
    rf'^(\{{(?:{_FIELD},)*?"label":")({_TEXT}+)'
    rf'("(?:,{_FIELD})*?,"mechanism":\{{"kind":"(?:gaussian","sensitivity":{_OBJECT},"sigma|laplace","scale)":)'
    rf'{_NUMBER}((?:,"sensitivity":{_OBJECT})?\}}(?:,{_FIELD})*?),"hash":"([0-9a-f]{{64}})"\}}\n',
    re.MULTILINE,
)

#: What follows the record's last field: `,"hash":"` and 64 digits and `"}` and the newline.
TAIL: Final = 9 + 64 + 2 + 1
_Value = TypeVar("_Value")
_Column = Sequence[str]
_Shape = tuple[str, str, str]


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
    forms = [form for form in map(_form, numbers) if form is not None]
    which = np.zeros(len(lines), np.intp)  # where all are alike there is one shape
    if len(shapes) > 1:
        which = np.fromiter(map(numbers.__getitem__, shapes), np.intp, len(lines))
    if len(forms) < len(numbers) or not _on_grids(forms, which, scale):
        return None
    return PlainReleases(forms, which, labels, scale), stated[-1]


def read_line(line: bytes, previous: str) -> tuple[Release, str] | None:
    """A whole line of plain noise as its release, with its hash; None for any other line."""
    try:
        found = _PIECES.fullmatch(line.decode())
    except UnicodeDecodeError:
        return None
    form = None if found is None else _form(found.group(1, 3, 5))
    if found is None or form is None or not _chained([line], [found[6]], previous):
        return None
    scale, noise = canonical(found[4]), plain_noise(form.mechanism)
    if not scale or noise is None or (form.grid is not None and form.grid != grid_of(scale)):
        return None
    return with_own(form, found[2], noise._replace(scale=scale)), found[6]


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
    return re.compile(
        rf'^{begin}({_TEXT}+){middle}{_NUMBER}{end},"hash":"([0-9a-f]{{64}})"\}}\n', re.MULTILINE
    )


@functools.lru_cache(maxsize=1 << 14)
def _form(shape: _Shape) -> Release | None:
    """The release of this shape with a label "a" and a scale of 1; None where it is left to the full reading.

    Its grid, which follows from the scale, is not compared with it.
    """
    begin, middle, end = shape
    try:
        record = from_json(f"{begin}a{middle}1{end}}}")
        exponent = record.pop("grid", None)
        form = Release(**{name: value for name, value in record.items() if name != "record"})
        noise = plain_noise(form.mechanism)
        if noise is None or not is_plain(form) or type(exponent) not in (int, NoneType):
            return None
        form = Release.model_construct(**dict(form) | {"grid": exponent})
        other = with_own(form, "b", noise._replace(scale=2.0))
        written = [canonical_json(one.to_json()).decode() for one in (form, other)]
    except (DpauditError, TypeError, ValueError):
        return None
    return form if written == [f"{begin}a{middle}1{end}}}", f"{begin}b{middle}2{end}}}"] else None


def _on_grids(forms: Sequence[Release], which: NDArray[np.intp], scale: NDArray[np.float64]) -> bool:
    """Whether the grids that are stated follow from the scales: a larger scale has no finer grid."""
    stated = [form.grid for form in forms]
    for exponent in set(stated) - {None}:
        its = scale[np.array([one == exponent for one in stated])[which]]
        if not grid_of(float(its.min())) == grid_of(float(its.max())) == exponent:
            return False
    return True


@functools.lru_cache(maxsize=256)
def grid_of(scale: float) -> int | None:
    """The grid of noise of this scale; None where it would be too fine."""
    try:
        return grid(scale)
    except InvalidParameter:
        return None


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
