"""Certificates for the tests of the checker, and what they are edited with."""

import copy
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import rfc8785

from dpaudit import Certificate, Claim, Header, Ledger, Release, judge
from dpaudit.accountants.accounting import accounted
from dpaudit.accountants.curves.profile_points import profile_points
from dpaudit.claims.guarantees import AnyGuarantee

Json = dict[str, Any]


def certified(
    guarantee: AnyGuarantee, releases: Sequence[Release], *, curves: bool = False, **header: Any
) -> tuple[bytes, bytes]:
    """The files of a certificate about these releases, and of its ledger."""
    terms = {"unit": "person", "neighbouring": "add-or-remove-one", **header}
    claim = Claim(guarantee, assumptions=("records are public to nobody",))
    ledger = Ledger(Header(algorithm="made by hand", claim=claim, **terms))
    for release in releases:
        ledger.append(release)
    ledger.finish()
    found = accounted(ledger)
    points = profile_points(ledger, found.accounting, found.composition) if curves else ()
    made: Certificate = judge(ledger, found.accounting, [], command="none", profile=points)
    return json.dumps(made.to_json()).encode(), b"".join(ledger.lines())


def hashed(records: Sequence[Json]) -> bytes:
    """Ledger lines of records, with the hashes that follow from them."""
    lines, digest = [], ""
    for record in records:
        body = rfc8785.dumps({name: value for name, value in record.items() if name != "hash"})
        digest = hashlib.sha256(digest.encode() + body).hexdigest()
        lines.append(body[:-1] + f',"hash":"{digest}"}}\n'.encode())
    return b"".join(lines)


def last_hash(ledger: bytes) -> str:
    """The hash of a ledger's last line."""
    found: str = json.loads(ledger.splitlines()[-1])["hash"]
    return found


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every number, text and boolean in a value, with its path."""
    if isinstance(value, dict | list):
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(one, (*path, name))
    else:
        yield path, value


def edited(value: Any, path: Sequence[Any], new: Any) -> Any:
    """A copy of a value with another leaf; `new` is called with the old one."""
    made = copy.deepcopy(value)
    place = made
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = new(place[path[-1]])
    return made


def other(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 0.999 if isinstance(value, float) else value + 1
    return f"{value} edited" if isinstance(value, str) else value
