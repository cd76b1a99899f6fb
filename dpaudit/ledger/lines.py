"""The quick way through a hashed ledger line: one regular expression for parser, writer and model.

It accepts only lines of the commonest mechanisms, byte for byte as `dpaudit.ledger.header.encode` writes
them, whose hash follows from their own bytes. Such bytes are the record's canonical JSON, so the hash over
them is the hash over the record. Every other line, right or wrong, is left to the full reading.
"""

import functools
import hashlib
import re
from typing import Final, Literal, cast

from dpaudit.claims.sensitivity import Basis
from dpaudit.errors import InvalidParameter
from dpaudit.ledger.columnar import ClaimKind, Kind, PlainNoise, PlainRelease
from dpaudit.ledger.numbers import canonical
from dpaudit.ledger.releases import Partition
from dpaudit.noise.grid import grid

_DIGITS: Final = "[0-9][0-9.e+-]*"
NUMBER: Final = f"({_DIGITS})"
TEXT: Final = r'[^"\\\x00-\x1f]'  # all that canonical JSON writes as it is
_SENSITIVITY = (
    rf'"sensitivity":{{"basis":"(proved|clipped|declared|mapped)","norm":"(l[12])","value":{NUMBER}}}'
)

LINE = re.compile(
    r"\{"
    rf'(?:"claimed":\{{(?:"kind":"(zcdp)","rho":{NUMBER}|"epsilon":{NUMBER},"kind":"(pure-dp)")\}},)?'
    r'"count":([1-9][0-9]{0,8}),'
    r'(?:"grid":(0|-?[1-9][0-9]{0,3}),)?'
    rf'"label":"(?P<label>{TEXT}+)",'
    rf'"mechanism":\{{"kind":"(gaussian|laplace)",(?:"scale":(?P<scale>{_DIGITS}),)?{_SENSITIVITY}(?:,"sigma":(?P<sigma>{_DIGITS}))?\}},'
    rf'(?:"partition":\{{"by":"(position|values)","part":"({TEXT}*)","split":"({TEXT}*)"\}},)?'
    r'"record":"release",'
    r'"hash":"([0-9a-f]{64})"\}\n'
)

#: What follows the record's last field: `,"hash":"` and 64 digits and `"}` and the newline.
TAIL: Final = 9 + 64 + 2 + 1


def read_plain(line: bytes, previous: str) -> tuple[PlainRelease, str] | None:
    """A whole line of the commonest kind as plain numbers, with its hash; None for any other line."""
    try:
        found = LINE.fullmatch(line.decode())
    except UnicodeDecodeError:
        return None
    if found is None:
        return None
    stated = found[found.re.groups]
    if hashlib.sha256(previous.encode() + line[:-TAIL] + b"}").hexdigest() != stated:
        return None
    plain = plain_of(found)
    if plain is None or (plain.grid is not None and plain.grid != grid_of(plain.noise.scale)):
        return None
    return plain, stated


def plain_of(found: re.Match[str]) -> PlainRelease | None:
    """A match of `LINE` as plain numbers, whose grid is not compared with its scale; None if it is left."""
    zcdp, rho, epsilon, pure, count, exponent, label, kind, *rest = found.groups()
    laplace, basis, norm, value, gaussian, by, part, split, _ = rest
    own, other, its_norm = (gaussian, laplace, "l2") if kind == "gaussian" else (laplace, gaussian, "l1")
    if own is None or other is not None or norm != its_norm:
        return None
    scale, sensitivity = canonical(own), _recurring(value)
    claim_kind, claimed = zcdp or pure, _recurring(rho or epsilon or "0")
    if not scale or sensitivity is None or claimed is None:  # a scale of 0 is refused elsewhere
        return None
    on_grid = None if exponent is None else int(exponent)
    noise = PlainNoise(cast("Kind", kind), cast("Basis", basis), sensitivity, scale)
    partition = None if by is None else Partition(part=part, split=split, by=cast("_By", by))
    claim = cast("ClaimKind | None", claim_kind)
    return PlainRelease(label, noise, int(count), partition, claim, claimed, on_grid)


@functools.lru_cache(maxsize=256)
def grid_of(scale: float) -> int | None:
    """The grid of noise of this scale; None where it would be too fine."""
    try:
        return grid(scale)
    except InvalidParameter:
        return None


_By = Literal["position", "values"]

#: Sensitivities and claims recur from line to line: neither checked again nor kept twice.
_recurring = functools.lru_cache(maxsize=256)(canonical)
