"""Measurements that OpenDP built and serialised, against its own maps and against sums over lattices."""

import copy
import json
import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any

import opendp.mod
import opendp.prelude as dp
import pytest

from dpaudit import ZCDP, Claim, Ledger, PureDP
from dpaudit.accountants.accounting import account
from dpaudit.accountants.bridges.from_opendp import distance_of_neighbours, from_opendp
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import (
    CannotBound,
    ClaimMismatch,
    InvalidParameter,
    MissingExtra,
    NotCertifiable,
    UsageError,
)
from dpaudit.mechanisms import Laplace, OpaqueApproxDP, OpaquePureDP, OpaqueZCDP, RandomizedResponse
from tests import make, oracles

INTEGERS = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
FLOATS = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
SCALAR = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)


@pytest.fixture(autouse=True)
def contrib() -> Iterator[None]:
    """The switch that every author of a measurement must throw, thrown while one is made."""
    dp.enable_features("contrib")
    yield
    dp.disable_features("contrib", "honest-but-curious")


def integer_sum() -> Any:
    return INTEGERS >> dp.t.then_clamp((0, 5)) >> dp.t.then_sum()


def float_sum() -> Any:
    return FLOATS >> dp.t.then_clamp((0.0, 5.0)) >> dp.t.then_sum()


def noisy_sum() -> Any:
    return integer_sum() >> dp.m.then_laplace(scale=3.0)


def written(measurement: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(opendp.mod.serialize(measurement))
    return found


def imported(measurement: Any, neighbouring: str = "add-or-remove-one", **options: Any) -> Ledger:
    return from_opendp(written(measurement), neighbouring=neighbouring, unit="row", **options)


def only(measurement: Any, neighbouring: str = "add-or-remove-one", **options: Any) -> Any:
    """The mechanism of the one release that a measurement becomes."""
    [release] = imported(measurement, neighbouring, **options).releases
    return release.mechanism


def refused(tree: Any, error: type[Exception] = UsageError, said: str | None = None, **options: Any) -> None:
    with pytest.raises(error, match=said):
        from_opendp(tree, neighbouring="replace-one", unit="row", **options)


def test_laplace_noise_on_integers_is_the_discrete_mechanism() -> None:
    measurement = noisy_sum()
    for relation, records in (("add-or-remove-one", 1), ("replace-one", 2), ("zero-out", 2)):
        ledger = imported(measurement, relation)
        [release] = ledger.releases
        assert release.mechanism == make.discrete_laplace(3.0, 5.0 * records)
        found = account(ledger, Claim(PureDP(epsilon=10.0))).bounds[0].guarantee
        assert isinstance(found, PureDP)
        assert found.epsilon == pytest.approx(measurement.map(records), rel=1e-12)
        assert found.epsilon >= 5 * records / 3


def test_gaussian_noise_on_integers_is_the_discrete_mechanism() -> None:
    measurement = integer_sum() >> dp.m.then_gaussian(scale=3.0)
    assert only(measurement) == make.discrete_gaussian(3.0, 5.0)
    found = account(imported(measurement), Claim(ZCDP(rho=10.0))).bounds[0].guarantee
    assert isinstance(found, ZCDP)
    assert 25 / 18 <= found.rho <= measurement.map(1) * (1 + 1e-12)


def test_noise_on_floats_is_not_forgotten_to_round() -> None:
    """OpenDP's map counts what rounding adds to a sum; neither a sum's nor a lattice's share may be lost."""
    gaussian = float_sum() >> dp.m.then_gaussian(scale=5.0)
    found = only(gaussian)
    assert isinstance(found, OpaqueZCDP)
    assert found.rho == gaussian.map(1) > 0.5
    laplace = float_sum() >> dp.m.then_laplace(scale=5.0)
    found = only(laplace)
    assert isinstance(found, Laplace)
    assert found.sensitivity.value / found.scale >= laplace.map(1) > 1.0
    assert found.sensitivity.value / found.scale == pytest.approx(laplace.map(1), rel=1e-12)


@pytest.mark.parametrize(
    ("scale", "k", "d_in"), [(3.0, 2, 1.0), (1.0, 0, 1.0), (0.5, -1, 2.0), (10.0, 3, 16.0)]
)
def test_a_lattice_of_laplace_noise_is_dominated_by_what_is_imported(
    scale: float, k: int, d_in: float
) -> None:
    measurement = dp.m.make_laplace(*SCALAR, scale=scale, k=k)
    noise = only(measurement, d_in=d_in)
    assert isinstance(noise, Laplace)
    step = 2.0**k
    moves = round(measurement.map(d_in) * scale / step)  # what the map allows for, in steps
    exceeded = False
    for epsilon in (0.0, 0.1, 0.3, 0.9, 1.6):
        lattice = lattice_delta(epsilon, step / scale, moves)
        assert lattice <= oracles.laplace_delta(noise.sensitivity.value / scale, epsilon) + 1e-15
        exceeded |= lattice > oracles.laplace_delta(moves * step / scale, epsilon)
    # Without the one step more, continuous noise would not be enough: that is why it is there.
    assert exceeded


def lattice_delta(epsilon: float, rate: float, moves: int) -> float:
    """delta(epsilon) between integer Laplace noise of the rate around 0 and around `moves`, summed up."""
    weight = math.tanh(rate / 2)
    return math.fsum(
        max(0.0, weight * math.exp(-rate * abs(i)) - weight * math.exp(epsilon - rate * abs(i - moves)))
        for i in range(-int(60 / rate), moves + int(60 / rate))
    )


def test_vectors_of_floats_are_known_by_their_map() -> None:
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    measurement = dp.m.make_laplace(*domain, scale=2.0)
    found = only(measurement, d_in=3.0)
    assert isinstance(found, OpaquePureDP)
    assert found.epsilon == measurement.map(3.0)


def test_a_composition_is_its_measurements() -> None:
    parts = [integer_sum() >> dp.m.then_laplace(scale=scale) for scale in (3.0, 3.0, 7.0)]
    whole = dp.c.make_composition(parts)
    ledger = imported(whole)
    assert [(one.label, one.count) for one in ledger] == [("measurement[0]", 2), ("measurement[2]", 1)]
    found = account(ledger, Claim(PureDP(epsilon=10.0))).bounds[0].guarantee
    assert isinstance(found, PureDP)
    assert found.epsilon == pytest.approx(whole.map(1), rel=1e-12)
    assert imported(whole, count=4).releases[0].count == 8


def test_other_measurements_are_known_by_their_map() -> None:
    zcdp = float_sum() >> dp.m.then_gaussian(scale=5.0)
    fixed = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(zcdp), 1e-6)
    found = only(fixed)
    assert isinstance(found, OpaqueApproxDP)
    assert (found.epsilon, found.delta) == fixed.map(1)
    assert "OpenDP's map" in found.justification
    numbers = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    largest = dp.m.make_noisy_max(*numbers, dp.max_divergence(), scale=4.0)
    found = only(largest, d_in=1)
    assert isinstance(found, OpaquePureDP)
    assert found.epsilon == largest.map(1)


def test_a_curve_is_refused_and_the_way_out_is_named() -> None:
    curve = dp.c.make_zCDP_to_approxDP(float_sum() >> dp.m.then_gaussian(scale=5.0))
    with pytest.raises(CannotBound, match="make_fix_delta"):
        imported(curve)


def test_randomized_response() -> None:
    found = only(dp.m.make_randomized_response_bool(prob=0.75), "replace-one")
    assert isinstance(found, RandomizedResponse)
    assert math.log(3) <= found.epsilon <= math.log(3) * (1 + 1e-12)
    three = dp.m.make_randomized_response(categories=["a", "b", "c"], prob=0.5)
    found = only(three, "replace-one")
    assert isinstance(found, RandomizedResponse)
    assert found.categories == 3
    assert math.log(2) <= found.epsilon <= math.log(2) * (1 + 1e-12)
    with pytest.raises(ClaimMismatch):
        imported(three, "add-or-remove-one")


def test_a_live_measurement_that_cannot_be_written_is_taken_by_its_map() -> None:
    dp.enable_features("honest-but-curious")
    inner = noisy_sum()
    halved = inner >> (lambda answer: answer / 2)
    with pytest.raises(Exception, match="does not handle"):
        opendp.mod.serialize(halved)
    [found] = [one.mechanism for one in from_opendp(halved, neighbouring="add-or-remove-one", unit="row")]
    assert found == OpaquePureDP(epsilon=inner.map(1), justification="OpenDP's map says so at d_in = 1")
    live = from_opendp(inner, neighbouring="add-or-remove-one", unit="row")
    assert live.releases == imported(inner).releases


def test_it_is_accounted_for_and_never_certified() -> None:
    ledger = imported(noisy_sum())
    assert ledger.header.parameters["source"] == f"opendp {opendp.mod.__version__}"
    with pytest.raises(NotCertifiable):
        ledger.require_certifiable()


def test_switches_of_the_library_stay_as_they_were() -> None:
    tree = written(noisy_sum())
    dp.disable_features("contrib")
    from_opendp(tree, neighbouring="add-or-remove-one", unit="row")
    assert "contrib" not in opendp.mod.GLOBAL_FEATURES


@pytest.mark.parametrize(
    ("d_in", "error"),
    [
        (None, UsageError),
        (math.nan, InvalidParameter),
        (math.inf, InvalidParameter),
        (0.0, InvalidParameter),
        (-1.0, InvalidParameter),
        (True, InvalidParameter),
    ],
)
def test_distances_of_an_aggregate(d_in: float | None, error: type[Exception]) -> None:
    with pytest.raises(error, match="d_in"):
        imported(dp.m.make_laplace(*SCALAR, scale=1.0), d_in=d_in)


@pytest.mark.parametrize(
    ("relation", "options", "said"),
    [
        ("replace-one", {"d_in": 1}, "d_in"),
        ("add-or-remove-one", {"d_in": 1.5}, "d_in"),
        ("similar", {}, "neighbouring"),
        *(("add-or-remove-one", {"count": count}, None) for count in (0, -1, 1.5, True)),
    ],
)
def test_options_that_mean_nothing(relation: str, options: dict[str, Any], said: str | None) -> None:
    with pytest.raises(InvalidParameter, match=said):
        imported(noisy_sum(), relation, **options)


def test_a_unit_of_several_records_is_further_away() -> None:
    assert only(noisy_sum(), d_in=7.0) == make.discrete_laplace(3.0, 35.0)


@pytest.mark.parametrize("scale", [math.inf, -1.0, 0.0, math.nan, "3", None, [1.0]])
@pytest.mark.parametrize("constructor", ["make_laplace", "make_gaussian"])
def test_noise_that_means_nothing_is_refused(scale: Any, constructor: str) -> None:
    tree = written(getattr(dp.m, constructor)(*SCALAR, scale=1.0))
    tree["__kwargs__"]["scale"] = scale
    refused(tree, CannotBound, d_in=1.0)


@pytest.mark.parametrize(
    ("module", "function"),
    [
        ("mod", "import_optional_dependency"),
        ("measurements", "import_optional_dependency"),
        ("measurements", "make_user_measurement"),
        ("measurements", "make_private_lazyframe"),
        ("domains", "user_domain"),
        ("domains", "_lazyframe_from_domain"),
        ("core", "measurement_invoke"),
        ("../os", "make_x"),
        (3, "make_laplace"),
        ("measurements", ["make_laplace"]),
    ],
)
def test_nothing_but_constructors_is_called(
    module: Any, function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library itself would call it: its innocent twin is in every other test here."""
    called: list[object] = []
    monkeypatch.setattr(opendp.mod, "deserialize", called.append)
    evil = {"__module__": module, "__function__": function, "__kwargs__": {"name": "this"}}
    tree = written(noisy_sum())
    for planted in ({**evil, "__version__": opendp.mod.__version__}, copy.deepcopy(tree)):
        if planted is not evil and "measurement1" in planted["__kwargs__"]:
            planted["__kwargs__"]["measurement1"]["__kwargs__"]["scale"] = [evil]
        refused(planted)
    assert called == []


EVIL = {
    "__module__": "mod",
    "__function__": "import_optional_dependency",
    "__version__": opendp.mod.__version__,
    "__kwargs__": {"name": "this"},
}
INNOCENT = {
    "__module__": "metrics",
    "__function__": "symmetric_distance",
    "__version__": opendp.mod.__version__,
    "__kwargs__": {},
}
EXPRESSION = {"__expr__": "gASVIAAAAAAAAACMBXBvc2l4", "__version__": opendp.mod.__version__}


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
    for item in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(item)


def _planted() -> Iterator[tuple[str, dict[str, Any]]]:
    """The tree of a harmless measurement, with something planted at every object that it holds."""
    tree = written(noisy_sum())
    for position in range(len(list(_nodes(tree)))):
        for name in ("evil", "__evil__", "__tuple__", "__margin__", "__version"):
            for value in (EVIL, EXPRESSION, [EVIL], INNOCENT, 3):
                found = copy.deepcopy(tree)
                node = list(_nodes(found))[position]
                if name not in node:
                    node[name] = value
                    yield f"{position} {name}", found
        for whole in (EVIL, EXPRESSION, {"__tuple__": [EVIL]}, {"__tuple__": [1], "more": EVIL}):
            found = copy.deepcopy(tree)
            node = list(_nodes(found))[position]
            node.clear()
            node.update(copy.deepcopy(whole))
            yield f"{position} instead", found


def test_no_field_is_left_unread(monkeypatch: pytest.MonkeyPatch, nightly: bool) -> None:
    """The library reads every object of the text, beside a constructor's fields too."""
    planted = list(_planted())
    assert len(planted) > 300
    called: list[object] = []
    monkeypatch.setattr(opendp.mod, "import_optional_dependency", lambda *names, **more: called.append(names))
    for name, tree in planted if nightly else planted[::12]:
        # An argument that is no part of the constructor's is the constructor's to refuse, if it is harmless.
        with pytest.raises((UsageError, CannotBound)):
            from_opendp(tree, neighbouring="replace-one", unit="row")
        assert ("this",) not in called, name


def test_a_tuple_of_python_is_looked_into() -> None:
    tree = written(noisy_sum())
    tree["__kwargs__"]["measurement1"]["__kwargs__"]["scale"] = (EVIL,)
    refused(tree, said="not a constructor")


def sized_sum() -> Any:
    domain = dp.vector_domain(dp.atom_domain(T=int, bounds=(0, 5)), size=10)
    return (domain, dp.symmetric_distance()) >> dp.t.then_sum() >> dp.m.then_laplace(scale=20.0)


def test_inputs_of_one_size_have_no_neighbours_one_record_larger() -> None:
    measurement = sized_sum()
    assert measurement.map(1) == 0.0  # vacuously true
    for d_in in (None, 1, 2, 3):
        with pytest.raises(ClaimMismatch, match=r"inputs of size 10 .*add-or-remove-one"):
            imported(measurement, "add-or-remove-one", d_in=d_in)
    for relation in ("replace-one", "zero-out"):
        found = only(measurement, relation)
        assert found == make.discrete_laplace(20.0, 5.0)


@pytest.mark.parametrize(
    "kind", ["Symmetric", "SymmetricId", "InsertDelete", "ChangeOne", "ChangeOneId", "Hamming"]
)
def test_one_replaced_is_one_removed_and_one_added_unless_changes_are_counted(kind: str) -> None:
    """Of metrics on identifiers too, whose measurements only Polars can make: hence the stand-in."""
    metric = SimpleNamespace(type=f"opendp::metrics::{kind}Distance")
    whole = SimpleNamespace(input_metric=metric, input_distance_type="u32", input_domain="frames", map=float)
    distance = partial(distance_of_neighbours, whole)
    if kind.startswith(("Change", "Hamming")):
        assert distance(Neighbouring.REPLACE_ONE, None) == 1
        with pytest.raises(ClaimMismatch, match="nothing is added"):
            distance(Neighbouring.ADD_OR_REMOVE_ONE, 1)
    else:
        assert distance(Neighbouring.ADD_OR_REMOVE_ONE, None) == 1
        assert distance(Neighbouring.REPLACE_ONE, None) == 2
        with pytest.raises(InvalidParameter, match="lie 2 apart"):
            distance(Neighbouring.REPLACE_ONE, 1)


def test_the_domain_that_figures_hold_on_is_named() -> None:
    """OpenDP sums whatever it is given: eleven records, or a 9 where the domain ends at 5."""
    assert isinstance(sized_sum()([9] * 11), int)
    parameters = imported(sized_sum(), "replace-one").header.to_json()["parameters"]
    assert "size=10" in parameters["input domain"]
    assert any("input domain" in line for line in parameters["taken on trust"])


def test_one_size_is_seen_behind_a_function_and_in_a_composition() -> None:
    dp.enable_features("honest-but-curious")
    halved = sized_sum() >> (lambda answer: answer / 2)
    for measurement in (halved, dp.c.make_composition([sized_sum(), sized_sum()])):
        with pytest.raises(ClaimMismatch, match="size 10"):
            from_opendp(measurement, neighbouring="add-or-remove-one", unit="row")
        from_opendp(measurement, neighbouring="replace-one", unit="row")


def test_a_map_that_says_nothing_of_one_record_is_seen_by_its_figures() -> None:
    """Of a domain that a user made, only the map can be asked; a map that is 0 throughout is no sign."""
    dp.enable_features("honest-but-curious")
    rows = dp.user_domain("rows of an even number", lambda rows: len(rows) % 2 == 0)

    def noisy(slope: float) -> Any:
        return dp.m.make_user_measurement(
            rows,
            dp.symmetric_distance(),
            dp.max_divergence(),
            lambda rows: 0.0,
            lambda distance: slope * (distance // 2),
            TO=float,
        )

    with pytest.raises(ClaimMismatch, match="one size"):
        from_opendp(noisy(1.0), neighbouring="add-or-remove-one", unit="row")
    from_opendp(noisy(0.0), neighbouring="add-or-remove-one", unit="row")
    from_opendp(noisy(1.0), neighbouring="replace-one", unit="row")


@pytest.mark.parametrize("d_in", [0.7, 0.1, 1.0, 3.3, 16777217.0, 2**24 + 1, 1e-46])
def test_a_distance_is_never_rounded_down(d_in: float) -> None:
    """Between two floats of single precision OpenDP takes the nearest: 0.7 would become 0.69999999."""
    vectors = dp.vector_domain(dp.atom_domain(T="f32", nan=False)), dp.l1_distance(T="f32")
    found = only(dp.m.make_laplace(*vectors, scale=2.0), d_in=d_in)
    assert isinstance(found, OpaquePureDP)
    assert Fraction(d_in) <= 2 * Fraction(found.epsilon)
    assert found.epsilon * 2 <= max(d_in * (1 + 2e-7), 2e-45)


def test_a_distance_of_doubles_is_never_rounded_down() -> None:
    vectors = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    found = only(dp.m.make_laplace(*vectors, scale=1.0), d_in=2**53 + 1)
    assert isinstance(found, OpaquePureDP)
    assert found.epsilon >= 2**53 + 1


@pytest.mark.parametrize(("type_name", "d_in"), [("f32", 1e39), ("f32", 3.5e38), (float, 10**400)])
def test_a_distance_beyond_its_type_is_refused(type_name: Any, d_in: float) -> None:
    vectors = dp.vector_domain(dp.atom_domain(T=type_name, nan=False)), dp.l1_distance(T=type_name)
    with pytest.raises(InvalidParameter, match="d_in"):
        imported(dp.m.make_laplace(*vectors, scale=2.0), d_in=d_in)


def test_what_only_polars_reads_is_refused() -> None:
    tree = written(noisy_sum())
    tree["__kwargs__"]["measurement1"]["__kwargs__"]["scale"] = {"__expr__": "gASVIAAAAAAAAACMBXBvc2l4"}
    refused(tree, CannotBound, "may run code")


def test_another_version_is_refused() -> None:
    tree = written(noisy_sum())
    tree["__version__"] = "0.12.0"
    refused(tree, said=r"pip install opendp==0\.12\.0")


@pytest.mark.parametrize("thing", [{}, [], 3, "make_laplace", {"__function__": 3}, None])
def test_what_is_no_measurement_is_refused(thing: Any) -> None:
    refused(thing)


def test_a_transformation_is_no_measurement() -> None:
    with pytest.raises(UsageError, match="only a measurement draws noise"):
        imported(integer_sum())


def test_a_tree_of_a_thousand_levels_is_refused() -> None:
    tree: dict[str, Any] = written(dp.m.make_laplace(*SCALAR, scale=1.0))
    deep: Any = 1.0
    for _ in range(900):
        deep = [deep]
    tree["__kwargs__"]["scale"] = deep
    refused(tree, said="levels", d_in=1.0)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp.mod", None)
    refused({}, MissingExtra, r"dpaudit\[opendp\]")
