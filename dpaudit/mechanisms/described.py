"""Mechanisms described by a kind and plain numbers, as on a command line or in a plan."""

from collections.abc import Callable, Mapping
from types import UnionType
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, cast, get_args, get_origin

from pydantic.fields import FieldInfo

from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import Sensitivity
from dpaudit.errors import InvalidParameter, UnknownKind
from dpaudit.mechanisms import KINDS, OWN_KINDS, AnyMechanism, Calibrated, OnSample
from dpaudit.models import Model, did_you_mean, named_by

_Fields: TypeAlias = dict[str, FieldInfo]

#: The kinds that can be described; a sampled mechanism is described by the inner kind and sample parameters.
DESCRIBED: Final = {kind: model for kind, model in OWN_KINDS.items() if not issubclass(model, OnSample)}

#: The ways to sample, each with its parameters; the given parameters determine the way.
_SAMPLES: Final[dict[type[OnSample], _Fields]] = {
    model: {
        name: field
        for name, field in model.model_fields.items()
        if name not in {"kind", "mechanism", *model.beside_cost}
    }
    for model in OWN_KINDS.values()
    if issubclass(model, OnSample)
}
_SAMPLING: Final[_Fields] = {name: field for fields in _SAMPLES.values() for name, field in fields.items()}
_SAMPLED: Final = get_args(OnSample.model_fields["mechanism"].annotation)


def parameters(kind: str) -> dict[str, type | None]:
    """Return the parameters that describe a mechanism of a kind: its own fields and those of sampling.

    Each has its type: int, float, str or bool, or None for lists and tables. Raises `UnknownKind`.
    """
    model = _model(kind)
    fields = _fields(model) | (_SAMPLING if model in _SAMPLED else {})
    return {name: _type(field) for name, field in fields.items()}


def describable() -> list[str]:
    """Return all kinds that can be described, with the kinds of installed packages."""
    return [*DESCRIBED, *(kind for kind in KINDS if kind not in OWN_KINDS)]


def _model(kind: str) -> type[AnyMechanism]:
    """Return the class of a kind that can be described. Raises `UnknownKind`."""
    if kind in DESCRIBED:
        return DESCRIBED[kind]
    if kind in KINDS and kind not in OWN_KINDS:
        return KINDS[kind]
    remedy = f"{did_you_mean(kind, describable())}known mechanisms: {', '.join(describable())}"
    if kind in OWN_KINDS:
        remedy = "name the mechanism inside it, and give the sample's parameters, such as its rate"
    raise UnknownKind(f"no mechanism {kind!r} can be described", where="mechanism", remedy=remedy)


def described(
    kind: str,
    given: Mapping[str, Any],
    spelled: Callable[[str], str] = str,
    neighbouring: Neighbouring = Neighbouring.ADD_OR_REMOVE_ONE,
) -> AnyMechanism:
    """Return the mechanism with these parameters; a sensitivity is a number in the mechanism's first norm.

    The default sensitivity is 1: the change of a sum when a unit with a row of norm at most 1 is added or
    removed. If a unit is replaced, by the relation or by another unit in the sample, the sum changes by up to
    2, and the sensitivity is required. Parameters that do not affect the cost are optional. Errors name a
    parameter as `spelled` does.

    Raises `UnknownKind`, and `InvalidParameter` if a parameter is unknown, missing or out of range.

    >>> str(described("laplace", {"scale": 2.0, "rate": 0.1}).dominating_pair())
    'Sampled(inner=Laplace(epsilon=Fraction(1, 2)), rate=0.1, contribution=None, times=1)'
    """
    known, model = parameters(kind), _model(kind)
    for name in given:
        if name not in known:
            what, why = f"{spelled(name)} with {kind}", "a parameter that is ignored would mislead"
            if name in _SAMPLING:
                sampled = (one for one, its in DESCRIBED.items() if its in _SAMPLED)
                why = f"what a sample amplifies is known for {', '.join(sampled)}"
            other = {"sigma": "scale", "scale": "sigma"}.get(name)  # the other name of the noise's width
            near = did_you_mean(spelled(other if other in known else name), map(spelled, known))
            remedy = f"{near}{kind} has {', '.join(map(spelled, known))}"
            raise InvalidParameter(what, where=spelled(name), why=why, remedy=remedy)
    stated = {**model.beside_cost, **given}
    sampling = {name: stated[name] for name in _SAMPLING if name in stated and name not in _fields(model)}
    sample = _sample(sampling, spelled) if sampling else None
    if "sensitivity" in known and "sensitivity" not in stated:
        _require_default_fits(kind, sample, spelled, neighbouring)
        stated["sensitivity"] = 1.0
    for name, field in _fields(model).items():
        if field.is_required() and name not in stated:
            why, remedy = "its value would have to be guessed", f"add {spelled(name)}"
            raise InvalidParameter(
                f"{kind} needs {spelled(name)}", where=spelled(name), why=why, remedy=remedy
            )
    with named_by(lambda name: spelled("sensitivity" if name == "value" else name)):
        mechanism: Any = _made(model, stated)
        made: Any = mechanism if sample is None else sample(mechanism=mechanism, **sampling)
    return cast("AnyMechanism", made)


def _require_default_fits(
    kind: str, sample: type[OnSample] | None, spelled: Callable[[str], str], neighbouring: Neighbouring
) -> None:
    """Raise `InvalidParameter` if rows clipped to norm 1 have another sensitivity than 1."""
    swaps = sample is not None and sample.swaps
    if not swaps and neighbouring is not Neighbouring.REPLACE_ONE:
        return
    what = f"{kind} needs {spelled('sensitivity')}"
    if swaps:
        what = f"{kind} on a {_kind_of(sample)} sample needs {spelled('sensitivity')}"
    why = "it bounds the change when a unit is replaced: twice the norm that each row is clipped to"
    own = sample is not None and "contribution" in _SAMPLES[sample]
    lines = [("sensitivity", 2), *([("contribution", 1)] if own else [])]
    written = " and ".join(_written(spelled(name), value) for name, value in lines)
    remedy = f"add {written} for rows clipped to the norm 1"
    raise InvalidParameter(what, where=spelled("sensitivity"), why=why, remedy=remedy)


def _kind_of(sample: type[OnSample] | None) -> str:
    return "" if sample is None else str(sample.model_fields["kind"].default).removesuffix("-sampled")


def _written(name: str, value: int) -> str:
    """Return a parameter as written on a command line or in a plan."""
    return f"{name} {value}" if name.startswith("-") else f"{name} = {value}"


def _sample(given: Mapping[str, Any], spelled: Callable[[str], str]) -> type[OnSample]:
    """Return the way to sample with exactly these parameters."""
    ways = []
    for model, fields in _SAMPLES.items():
        required = [name for name, field in fields.items() if field.is_required()]
        if set(required) <= set(given) <= set(fields):
            return model
        ways.append(" and ".join(map(spelled, required)))
    names, why = list(map(spelled, given)), "which sample is meant would have to be guessed"
    what, remedy = f"a sample with {' and '.join(names)}", f"give {'; or '.join(ways)}"
    raise InvalidParameter(what, where=names[0], why=why, remedy=remedy)


def _type(field: FieldInfo) -> type | None:
    kind = field.annotation
    if kind is Sensitivity or get_origin(kind) is Literal:
        return float if kind is Sensitivity else str
    found = get_args(kind) if get_origin(kind) in {Union, UnionType} else (kind,)
    bare = [get_args(one)[0] if get_origin(one) is Annotated else one for one in found]
    return next((one for one in bare if one in {int, float, str, bool}), None)


def _part(field: FieldInfo) -> type[Model] | None:
    """Return the model of a field that holds one (a kernel or the only possible inner mechanism), or None."""
    kind = field.annotation
    model = isinstance(kind, type) and issubclass(kind, Model) and kind is not Sensitivity
    return cast("type[Model]", kind) if model else None


def _fields(model: type[Model]) -> _Fields:
    found: _Fields = {}
    for name, field in model.model_fields.items():
        part = _part(field)
        beside = name == "sensitivity" and not field.is_required()  # an opaque mechanism's, for replay only
        if name != "kind" and not beside:
            found |= {name: field} if part is None else _fields(part)
    return found


def _made(model: type[Model], stated: Mapping[str, Any]) -> Model:
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        part = _part(field)
        if part is not None:
            values[name] = _made(part, stated)
        elif name in stated:
            values[name] = stated[name]
    size = values.get("sensitivity")
    if issubclass(model, Calibrated) and not isinstance(size, Mapping | Sensitivity):
        values["sensitivity"] = {"value": size, "norm": model.norms[0], "basis": "declared"}
    return model(**values)
