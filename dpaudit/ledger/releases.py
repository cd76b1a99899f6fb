"""One line of the ledger: a noisy release, its mechanism and its place in the composition."""

import functools
import operator
import unicodedata
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, Strict, model_validator

from dpaudit.claims.guarantees import Guarantee
from dpaudit.errors import InvalidParameter
from dpaudit.ledger.header import canonical_bytes
from dpaudit.ledger.numbers import canonical_json
from dpaudit.mechanisms import HiddenSample, Mechanism, SampledSum
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


def _draw_name(value: object) -> object:
    """Return the name of a draw; two names that look alike would be two draws, so there is one spelling."""
    if value is None:
        return None
    if isinstance(value, str) and value.strip():
        plain = " ".join(unicodedata.normalize("NFC", value).split())
        if value == plain and value.isprintable():
            return value
        what, why = f"sample {value!a}", "a name that looks the same would be another draw"
        remedy = f"write {plain!r}" if plain.isprintable() else "write it without invisible characters"
        raise InvalidParameter(what, where="Release.sample", why=why, remedy=remedy)
    what, why = f"sample {value!r}", "it names no draw"
    remedy = "give the draw a name, as text; or leave `sample` out where each run draws a sample of its own"
    raise InvalidParameter(what, where="Release.sample", why=why, remedy=remedy)


class Release(Model):
    """`count` independent runs of one mechanism under one label, which says what was released."""

    label: Annotated[str, Field(min_length=1)]
    mechanism: Mechanism
    count: Count = 1
    #: The part of a split this release touches; left out, all records. A bare name in a ledger file means
    #: that part of the ledger's only split, made by position.
    partition: Annotated[
        Partition | None, BeforeValidator(_from_name, json_schema_input_type=Partition | str | None)
    ] = None
    #: The noisy answers, of which outputs may be functions, are multiples of 2^grid; left out where noise was
    #: drawn in floating point, or on no grid.
    grid: Annotated[int, Strict()] | None = None
    claimed: Guarantee | None = None  # what the author claims for the `count` runs together
    #: The name of the draw whose sample this release is made on; left out, each run draws a sample of its
    #: own. Releases that name one sample are made on the same draw: run i of each on draw i.
    sample: Annotated[str | None, BeforeValidator(_draw_name)] = None

    @model_validator(mode="after")
    def _grid_is_the_mechanisms(self) -> Self:
        if self.grid is not None and self.grid != self.mechanism.grid:
            what = f"the grid 2^{self.grid} for noise whose grid is 2^{self.mechanism.grid}"
            why = "a grid that does not follow from the mechanism alone may depend on the data"
            raise InvalidParameter(what, where="Release.grid", why=why, remedy="leave the grid out")
        return self

    @model_validator(mode="after")
    def _sample_names_a_draw(self) -> Self:
        if self.sample is not None and not isinstance(self.mechanism, SampledSum):
            what = f"sample {self.sample!r} for a {self.mechanism.kind} mechanism"
            why = "it draws no sample, so the name stands for no draw"
            remedy = "leave `sample` out, or put the noise on a sample, as PoissonSampled does by a rate"
            if isinstance(self.mechanism, HiddenSample):
                why = "its draw is of all its answers, and no other release is made on it"
                remedy = "leave `sample` out: everything that is released on that draw is this one release"
            raise InvalidParameter(what, where="Release.sample", why=why, remedy=remedy)
        return self

    @property
    def draw(self) -> "Draw | None":
        """The draw that `sample` names, as this release states it; None where it names none."""
        return None if self.sample is None else _draw(self.mechanism, self.count, self.partition)

    def like(self) -> tuple[Any, ...]:
        """The values of all fields but those that tell releases of one kind apart, in the order of `LIKE`."""
        found: tuple[Any, ...] = _ALIKE(self)
        return found

    def to_json(self) -> dict[str, Any]:
        """The ledger's record of this release, without its hash."""
        return {"record": "release", **super().to_json()}

    def canonical(self) -> bytes:
        """The record's canonical JSON; raises `InvalidParameter` for what JSON cannot hold."""
        try:
            before, after = _around_label(*self.like())
        except (TypeError, ValueError):  # something is not hashable, or no JSON: the whole record says what
            return canonical_bytes(self.to_json())
        try:
            sample = b"" if self.sample is None else b',"sample":' + canonical_json(self.sample)
            return before + canonical_json(self.label) + after[:-1] + sample + b"}"
        except ValueError:
            return canonical_bytes(self.to_json())


#: The fields by which alone most releases differ.
APART: Final = ("label", "sample")
#: All other fields of a release.
LIKE: Final = tuple(name for name in Release.model_fields if name not in APART)
_ALIKE: Final = operator.attrgetter(*LIKE)


class Draw(NamedTuple):
    """One draw of a sample, or `runs` draws one after another: who is drawn, and of which part."""

    sampling: tuple[tuple[str, Any], ...]
    runs: int
    partition: Partition | None

    def require_same(self, other: "Draw | None", sample: str, label: str) -> None:
        """Raise `InvalidParameter` where a release of that label states another draw for the sample."""
        if other is None or self == other:
            return
        own, its = self.stated(), other.stated()
        names = [name for name in {**own, **its} if own.get(name) != its.get(name)]

        def words(facts: dict[str, Any]) -> str:
            return ", ".join(f"{name} {facts.get(name, 'none')}" for name in names)

        what = f"sample {sample!r} with {words(its)}, which an earlier release states with {words(own)}"
        why = "releases that name one sample are made on the same draw, and add up as one release on it"
        remedy = (
            f"state the same {' and '.join(names)} in every release of the sample, or name another sample"
        )
        raise InvalidParameter(what, where=f"release {label!r}", why=why, remedy=remedy)

    def stated(self) -> dict[str, Any]:
        """The fields that all releases on one draw share, by name."""
        part = self.partition
        where = {} if part is None else {"partition": f"{part.split}/{part.part} by {part.by}"}
        return {**dict(self.sampling), "count": self.runs, **where}


@functools.lru_cache(maxsize=1024, typed=True)
def _draw(mechanism: SampledSum, count: int, partition: Partition | None) -> Draw:
    return Draw(mechanism.sampling, count, partition)


@functools.lru_cache(maxsize=1024, typed=True)
def _around_label(*like: Any) -> tuple[bytes, bytes]:
    """A record's canonical JSON to either side of its label, without a sample, its last field."""
    made = Release.model_construct(label="", **dict(zip(LIKE, like, strict=True)))
    before, label, after = canonical_bytes(made.to_json()).partition(b'"label":""')  # texts escape quotes
    return before + label[:-2], after
