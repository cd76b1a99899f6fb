"""Read an OpenDP measurement as a ledger: its mechanism if dpaudit has it, or the bound from its map.

OpenDP draws all noise exactly, on the integers or on a lattice. Noise on integers is our discrete mechanism.
For a scalar with Laplace noise on a lattice of step g, with a query that moves by n g, continuous Laplace
noise of the same scale s with a query that moves by (n + 1) g dominates. Proof: with p = exp(-g/s) the
lattice's delta at epsilon < n g/s is, for the whole number K that ends the set of outputs, 1 - (p^(K+1) +
e^epsilon p^(n-K))/(1 + p) <= 1 - 2 e^(epsilon/2) p^((n+1)/2)/(1 + p) by the inequality of means. As 2/(1 + p)
>= 1, that is at most the continuous 1 - e^(epsilon/2) p^((n+1)/2); beyond n g/s it is 0. Every other
measurement is bounded by its map alone.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dpaudit import mechanisms as ours
from dpaudit.accountants.bridges import opendp_trees
from dpaudit.accountants.bridges.imported_ledger import Importer, declared_ledger, has_field, stated_relation
from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import L1, L2
from dpaudit.errors import CannotBound, ClaimMismatch, InvalidParameter, UsageError
from dpaudit.ledger.ledger import Ledger
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import AnyMechanism, OpaquePureDP, OpaqueZCDP

#: Assumptions about a measurement.
TAKEN_ON_TRUST = (
    "that it ran as often as was stated, and nothing else was published",
    "that its input lay in its input domain, whose bounds and sizes OpenDP does not check",
    "that one unit moves its input by no more than the distance that was stated",
    "OpenDP's maps and samplers",
)

#: Floats lie on a lattice of this step, as a power of two, unless the measurement names a coarser step.
_FINEST = {"f32": -149, "f64": -1074}


def from_opendp(
    measurement: Any,
    *,
    neighbouring: Neighbouring | str,
    unit: str,
    d_in: float | None = None,
    count: int = 1,
    algorithm: str = "opendp",
) -> Ledger:
    """Return a ledger with one release for each measurement of a composition, with its sensitivity.

    `measurement` is a ``Measurement``, or the JSON object from ``opendp.mod.serialize``. A measurement that
    OpenDP cannot serialise becomes one release, bounded by its map. `d_in` is the distance of neighbouring
    inputs in the input metric; None means the distance that one record makes between data sets. It is
    required if the input is an aggregate. `count` is the number of invocations of the measurement.

    Raises:
        MissingExtra: OpenDP is not installed.
        UsageError: not a measurement, a measurement of another OpenDP version, or a missing `d_in`.
        InvalidParameter: a distance or count outside its range.
        ClaimMismatch: the input's metric has no neighbours under this relation.
        CannotBound: OpenDP refuses it, or its map's figure is infinite or on a scale that no release has.
    """
    mod = opendp_trees.library()
    tree = measurement if isinstance(measurement, Mapping) else _serialised(measurement, mod)
    if tree is None:
        whole = measurement
    else:
        opendp_trees.require_constructors(tree, mod.__version__)
        whole = opendp_trees.rebuilt(tree, "measurement")
    if not isinstance(whole, mod.Measurement):
        what = f"a {type(whole).__name__}"
        remedy = "give a measurement, or the result of opendp.mod.serialize(measurement)"
        raise UsageError(what, where="measurement", why="only a measurement draws noise", remedy=remedy)
    relation = stated_relation(neighbouring)
    distance = distance_of_neighbours(whole, relation, d_in)
    found: Iterable[tuple[str, AnyMechanism]]
    if tree is None:
        found = [("measurement", _by_map(whole, distance, "measurement"))]
    else:
        found = _leaves(tree, distance, "measurement")
    releases = (Release(label=place, mechanism=mechanism, count=count) for place, mechanism in found)
    parameters = {
        "source": f"opendp {mod.__version__}",
        "input domain": str(whole.input_domain),
        "input metric": str(whole.input_metric),
        "d_in": up(Fraction(distance)),
        "taken on trust": list(TAKEN_ON_TRUST),
    }
    return declared_ledger(releases, algorithm, unit, relation, parameters)


def _serialised(measurement: Any, mod: Any) -> Mapping[str, Any] | None:
    """Return the measurement's tree; None if it holds functions, or parts that only Polars can read."""
    from dpaudit.json_text import strictly_parsed

    if not isinstance(measurement, mod.Measurement):
        return {}
    try:
        tree = strictly_parsed(mod.serialize(measurement))
        opendp_trees.require_constructors(tree, mod.__version__)
    except Exception:  # noqa: BLE001  (OpenDP raises plain exceptions here; the map remains)
        return None
    return tree if isinstance(tree, Mapping) else None


def _leaves(tree: Any, distance: Any, place: str) -> Iterator[tuple[str, AnyMechanism]]:
    """Yield every measurement that is neither a composition nor a chain, with the distance at its input."""
    arguments: dict[str, Any] = dict(tree.get("__kwargs__", {}))
    match opendp_trees.name_of(tree):
        case "make_composition" | "make_basic_composition" if isinstance(arguments.get("measurements"), list):
            for position, part in enumerate(arguments["measurements"]):
                yield from _leaves(part, distance, f"{place}[{position}]")
        case "make_chain_mt":
            before = opendp_trees.rebuilt(arguments["transformation0"], place)
            with opendp_trees.answers(place, "has no distance after the transformation"):
                moved = before.map(distance)
            yield from _leaves(arguments["measurement1"], moved, place)
        case name:
            measurement = opendp_trees.rebuilt(tree, place)
            proved = _by_map(measurement, distance, place)
            yield place, _mechanism(name, arguments, measurement, distance, proved) or proved


def _mechanism(
    name: str | None, arguments: Mapping[str, Any], measurement: Any, distance: Any, proved: AnyMechanism
) -> AnyMechanism | None:
    """Return our mechanism that equals or dominates a measurement; None if there is none."""
    carrier = str(measurement.input_carrier_type)
    integers = carrier.removeprefix("Vec<").removesuffix(">") in INTEGERS
    scale = arguments.get("scale", math.nan)
    match name, proved:
        case (("make_laplace" | "make_geometric"), OpaquePureDP()) if integers:
            return ours.DiscreteLaplace(scale=float(scale), sensitivity=L1(up(Fraction(distance))))
        case "make_laplace", OpaquePureDP() if carrier in _FINEST:
            coarser = arguments.get("k")
            step = Fraction(2) ** (_FINEST[carrier] if coarser is None else max(coarser, _FINEST[carrier]))
            moves = Fraction(proved.epsilon) * Fraction(float(scale)) + step
            return ours.Laplace(scale=float(scale), sensitivity=L1(up(moves)))
        case "make_gaussian", OpaqueZCDP() if integers:
            return ours.DiscreteGaussian(sigma=float(scale), sensitivity=L2(up(Fraction(distance))))
        case "make_randomized_response_bool", OpaquePureDP() if proved.epsilon > 0:
            return ours.RandomizedResponse(epsilon=proved.epsilon)
        case "make_randomized_response", OpaquePureDP() if proved.epsilon > 0:
            categories = len(set(arguments["categories"]))
            return ours.RandomizedResponse(epsilon=proved.epsilon, categories=categories)
        case _:
            return None


def _by_map(measurement: Any, distance: Any, place: str) -> AnyMechanism:
    """Return the guarantee that the measurement's own map proves at a distance."""
    measure = str(measurement.output_measure.type)
    with opendp_trees.answers(place, f"has no map at distance {distance!r}"):
        figure = measurement.map(distance)
    delta = 0.0
    if measure.startswith("Approximate<") and isinstance(figure, tuple):
        figure, delta = figure
        measure = measure.removeprefix("Approximate<").removesuffix(">")
    if measure == "FixedSmoothedMaxDivergence" and isinstance(figure, tuple):
        figure, delta = figure
        measure = "MaxDivergence"
    if not isinstance(figure, float) or not math.isfinite(figure) or not 0 <= delta < 1:
        why = "" if isinstance(figure, float) else f"under {measure} the guarantee is a curve, not a figure"
        what = f"the map states {figure!r}" if not why else f"a measurement under {measure}"
        remedy = "fix a delta with make_fix_delta" if why else "add noise"
        raise CannotBound(what, where=place, why=why or "it guarantees nothing", remedy=remedy)
    why = f"OpenDP's map says so at d_in = {distance!r}"
    if measure == "MaxDivergence" and delta > 0:
        return ours.OpaqueApproxDP(epsilon=figure, delta=delta, justification=why)
    if measure == "MaxDivergence":
        return OpaquePureDP(epsilon=figure, justification=why)
    if measure == "ZeroConcentratedDivergence" and delta == 0:
        return OpaqueZCDP(rho=figure, justification=why)
    what = f"a measurement under {measure}" + (f" with delta {delta!r}" if delta else "")
    remedy = "convert it: make_zCDP_to_approxDP, then make_fix_delta"
    raise CannotBound(what, where=place, why="no release of a ledger has such a guarantee", remedy=remedy)


#: OpenDP's names of the integer types.
INTEGERS = {f"{sign}{size}" for sign in "iu" for size in ("8", "16", "32", "64", "128", "size")}

_BY_RECORDS = {"SymmetricDistance", "InsertDeleteDistance", "SymmetricIdDistance"}
_BY_CHANGES = {"ChangeOneDistance", "HammingDistance", "DiscreteDistance", "ChangeOneIdDistance"}


def distance_of_neighbours(whole: Any, relation: Neighbouring, stated: Any) -> float:
    """Return the distance between a measurement's neighbouring inputs, in its metric's type, rounded up.

    Without `stated` it is the distance that one record makes; errors as for `from_opendp`.
    """
    metric = str(whole.input_metric.type).partition("<")[0].rpartition("::")[2]  # no path, no parameters
    if metric in _BY_CHANGES and relation is Neighbouring.ADD_OR_REMOVE_ONE:
        what, where = f"a measurement under {metric} for a ledger under {str(relation)!r}", "neighbouring"
        why = "all its inputs have the same size, so nothing is added or removed"
        raise ClaimMismatch(what, where=where, why=why, remedy=f"give {str(Neighbouring.REPLACE_ONE)!r}")
    if metric in _BY_RECORDS and relation is Neighbouring.ADD_OR_REMOVE_ONE:
        _require_varying_size(whole)
    known = metric in _BY_RECORDS or metric in _BY_CHANGES
    one = 2 if metric in _BY_RECORDS and relation is not Neighbouring.ADD_OR_REMOVE_ONE else 1
    if stated is None:
        if not known:
            what = f"no distance between neighbouring inputs, by {metric}"
            why = "the measurement takes an aggregate, and does not say how far a unit moves it"
            raise UsageError(what, where="d_in", why=why, remedy="state it with --d-in (Python: d_in=)")
        return one
    if isinstance(stated, bool) or not isinstance(stated, int | float) or not 0 < stated < math.inf:
        raise InvalidParameter(f"d_in = {stated!r}", where="d_in", remedy="give a finite positive number")
    if known and stated < one:
        why = f"neighbours under {relation} lie {one} apart by {metric}"
        remedy = f"leave it out, or give {one} or more for units with several records"
        raise InvalidParameter(f"d_in = {stated!r}", where="d_in", why=why, remedy=remedy)
    if str(whole.input_distance_type) in INTEGERS:
        if stated != int(stated):
            why, remedy = f"a {metric} distance is a whole number", "give a whole number"
            raise InvalidParameter(f"d_in = {stated!r}", where="d_in", why=why, remedy=remedy)
        return int(stated)
    rounded = up(Fraction(stated))
    if str(whole.input_distance_type) == "f32":  # the least f32 not below it: OpenDP rounds to nearest
        with np.errstate(over="ignore"):
            single = np.float32(rounded)
            rounded = float(single if float(single) >= rounded else np.nextafter(single, np.float32(np.inf)))
    if not math.isfinite(rounded):
        why = f"it exceeds every {whole.input_distance_type}, the type of {metric} distances"
        remedy = "give a smaller distance, or the measurement in another type"
        raise InvalidParameter(f"d_in = {stated!r}", where="d_in", why=why, remedy=remedy)
    return rounded


def _require_varying_size(whole: Any) -> None:
    """Refuse inputs of a fixed size: no inputs are at distance 1, so a map may state any figure.

    Raises `ClaimMismatch`: the domain states a size; or the map has cost 0 at distance 1 and more at 2, which
    by the triangle inequality implies that no inputs are at distance 1.
    """
    domain = whole.input_domain
    sizes = (getattr(one, "size", None) for one in (domain, getattr(domain, "descriptor", None)))
    size = next((size for size in sizes if size is not None), None)
    fixed = size is not None or "lengths" in str(domain).lower()  # a frame's margins state it this way
    if fixed or (_costs_nothing(whole, 1) and not _costs_nothing(whole, 2)):
        of, relation = "one size" if size is None else f"size {size}", str(Neighbouring.ADD_OR_REMOVE_ONE)
        why = "nothing can be added or removed there, so such a measurement guarantees nothing for it"
        remedy = f"give {str(Neighbouring.REPLACE_ONE)!r}, or measure inputs of any size"
        what = f"inputs of {of} for a ledger under {relation!r}"
        raise ClaimMismatch(what, where="neighbouring", why=why, remedy=remedy)


def _costs_nothing(whole: Any, distance: int) -> bool:
    """Return whether the map's figures are all 0 at a distance; a curve is refused elsewhere."""
    with opendp_trees.answers("measurement", f"has no map at distance {distance!r}"):
        figure = whole.map(distance)
    parts = figure if isinstance(figure, tuple) else (figure,)
    return all(isinstance(part, float) and part == 0 for part in parts)


def _imported(record: Any, **options: Any) -> Ledger:
    """Return a ledger of an object that ``serialize`` wrote."""
    if not isinstance(record, dict):
        what = f"a {type(record).__name__} where OpenDP writes an object"
        raise UsageError(what, where="FILE", remedy="give the result of opendp.mod.serialize(measurement)")
    return from_opendp(record, **options)


IMPORTER = Importer(has_field("__function__"), _imported, options=("d_in", "count"))
