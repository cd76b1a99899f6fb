"""One line of the ledger: a noisy release, its mechanism and its place in the composition."""

import functools
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, Strict, model_validator

from dpaudit.claims.guarantees import Guarantee
from dpaudit.errors import InvalidParameter
from dpaudit.ledger.header import canonical_bytes
from dpaudit.ledger.numbers import canonical_json
from dpaudit.mechanisms import AnyMechanism, Mechanism
from dpaudit.models import Count, Model


class Partition(Model):
    """The part of a split that a release touches; it depends on no record outside that part.

    `by` is what decided a record's part: its ``position`` (a public index), or its ``values``, in
    which case a replaced record may leave one part and enter another.
    """

    part: str
    split: str = "split"
    by: Literal["position", "values"] = "position"


def _from_name(value: object) -> object:
    return {"part": value} if isinstance(value, str) else value


class Release(Model):
    """`count` independent runs of one mechanism under one label, which says what was released."""

    label: Annotated[str, Field(min_length=1)]
    mechanism: Mechanism
    count: Count = 1
    #: The part of a split this release touches; left out, all records. A bare name in a ledger file means
    #: that part of the ledger's only split, made by position.
    partition: Annotated[Partition | None, BeforeValidator(_from_name)] = None
    #: The noisy answers, of which outputs may be functions, are multiples of 2^grid; left out where noise was
    #: drawn in floating point, or on no grid.
    grid: Annotated[int, Strict()] | None = None
    claimed: Guarantee | None = None  # what the author claims for the `count` runs together

    @model_validator(mode="after")
    def _grid_is_the_mechanisms(self) -> Self:
        if self.grid is not None and self.grid != self.mechanism.grid:
            what = f"the grid 2^{self.grid} for noise whose grid is 2^{self.mechanism.grid}"
            why = "a grid that does not follow from the mechanism alone may depend on the data"
            raise InvalidParameter(what, where="Release.grid", why=why, remedy="leave the grid out")
        return self

    def to_json(self) -> dict[str, Any]:
        """The ledger's record of this release, without its hash."""
        return {"record": "release", **super().to_json()}

    def canonical(self) -> bytes:
        """The record's canonical JSON; raises `InvalidParameter` for what JSON cannot hold."""
        stated = self.mechanism, self.count, self.partition, self.grid, self.claimed
        try:
            before, after = _around_label(*stated)
            return before + canonical_json(self.label) + after
        except (TypeError, ValueError):  # something is not hashable, or no JSON: the whole record says what
            return canonical_bytes(self.to_json())


@functools.lru_cache(maxsize=1024, typed=True)
def _around_label(mechanism: AnyMechanism, *rest: Any) -> tuple[bytes, bytes]:
    """A record's canonical JSON to either side of its label, in which alone most releases differ."""
    names = "mechanism", "count", "partition", "grid", "claimed"
    like = Release.model_construct(label="", **dict(zip(names, (mechanism, *rest), strict=True)))
    before, label, after = canonical_bytes(like.to_json()).partition(b'"label":""')  # texts escape quotes
    return before + label[:-2], after
