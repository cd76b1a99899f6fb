"""diffprivlib routed through a curator: its own faults are found, what is correct is not refuted.

Its noise layer is held to what the adapter knows of it: where the library moves, the first tests fail.
"""

import importlib
import inspect
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit import Claim, Neighbouring, Pair, PureDP
from dpaudit.auditors.libraries.diffprivlib_noise import AFTERWARDS, KNOWN
from dpaudit.auditors.libraries.routed import Routed
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.conditions import Code
from dpaudit.certificate.verdicts import Audit, Experiment
from dpaudit.curator.curator import Curator
from dpaudit.curator.noise import LiveNoise, NoNoise, Transcript
from dpaudit.curator.running import run
from dpaudit.errors import InvalidParameter, UsageError
from tests.sweeps import sweep

mechanisms, models, tools, utils, forest = (
    importlib.import_module(f"diffprivlib.{name}")
    for name in ("mechanisms", "models", "tools", "utils", "models.forest")
)
pytestmark = pytest.mark.filterwarnings("default")  # other libraries' own

REPLACE, ADD = Neighbouring.REPLACE_ONE, Neighbouring.ADD_OR_REMOVE_ONE
VALUES = np.linspace(0.0, 1.0, 10)
LAST_ZERO = np.append(VALUES[:-1], 0.0)
POINTS = np.column_stack([np.linspace(0.1, 0.4, 8)] * 2)
FAR = np.vstack([POINTS[:-1], [[0.9, 0.9]]])
SPREAD = np.linspace(0.0, 1.0, 8)
LINE, TILTED = np.column_stack([SPREAD, SPREAD]), np.column_stack([SPREAD, np.append(SPREAD[:-1], 0.0)])
TILTED[-1, 0] = 0.0

#: Each class that defines `randomise`, with the keywords of its constructor and of what it takes them from.
CLASSES = {
    "Binary": "epsilon random_state value0 value1",
    "Bingham": "epsilon random_state sensitivity",
    "Exponential": "candidates epsilon measure monotonic random_state sensitivity utility",
    "ExponentialCategorical": "epsilon random_state utility_list",
    "Gaussian": "delta epsilon random_state sensitivity",
    "GaussianDiscrete": "delta epsilon random_state sensitivity",
    "Geometric": "epsilon random_state sensitivity",
    "GeometricFolded": "epsilon lower random_state sensitivity upper",
    "GeometricTruncated": "epsilon lower random_state sensitivity upper",
    "Laplace": "delta epsilon random_state sensitivity",
    "LaplaceBoundedDomain": "delta epsilon lower random_state sensitivity upper",
    "LaplaceBoundedNoise": "delta epsilon random_state sensitivity",
    "LaplaceFolded": "delta epsilon lower random_state sensitivity upper",
    "LaplaceTruncated": "delta epsilon lower random_state sensitivity upper",
    "PermuteAndFlip": "candidates epsilon monotonic random_state sensitivity utility",
    "Snapping": "epsilon lower random_state sensitivity upper",
    "Staircase": "epsilon gamma random_state sensitivity",
    "Uniform": "delta random_state sensitivity",
    "Vector": "alpha data_sensitivity dimension epsilon function_sensitivity random_state",
}


def all_below(kind: type) -> set[type]:
    below = set(kind.__subclasses__())
    return below.union(*(all_below(each) for each in below)) if below else below


def test_the_mechanisms_are_those_that_are_routed() -> None:
    library = {
        each for each in all_below(mechanisms.DPMechanism) if each.__module__.startswith("diffprivlib.")
    }
    writing = {each.__name__: each for each in library if "randomise" in vars(each)}
    assert set(writing) == set(CLASSES) == {*KNOWN, *AFTERWARDS}
    for name, kind in writing.items():
        assert list(inspect.signature(kind.randomise).parameters) == ["self", "value"], name
        known = set(inspect.signature(kind).parameters) - {"n"}  # of Vector, since 0.6.6
        assert " ".join(sorted(known)) == CLASSES[name]
    assert {each.__name__ for each in library} - set(writing) == {
        "ExponentialHierarchical",
        "GaussianAnalytic",
    }


def test_what_else_is_replaced_is_there() -> None:
    assert list(inspect.signature(utils.check_random_state).parameters) == ["seed", "secure"]
    assert list(inspect.signature(forest._FittingTree.fit).parameters) == ["self", "X", "y"]
    assert isinstance(mechanisms.Laplace(epsilon=1.0, sensitivity=1.0)._rng, random.SystemRandom)


def audited(target: Callable[[Any], Any], one: Any, other: Any, relation: Neighbouring = REPLACE) -> Audit:
    claim = Claim(PureDP(epsilon=1.0), neighbouring=relation)
    about: dict[str, Any] = {"claim": claim, "replays": 2, "extreme_outputs": False}
    return replay(Routed(target, "diffprivlib"), [Pair(one, other)], **about)


def centers(rows: Any) -> Any:
    return models.KMeans(2, epsilon=1.0, bounds=(0.0, 1.0)).fit(rows).cluster_centers_


def slope(rows: Any, least: float = 0.0) -> Any:
    bounds = {"bounds_X": (least, 1.0), "bounds_y": (least, 1.0)}
    model = models.LinearRegression(epsilon=1.0, fit_intercept=False, **bounds)
    return model.fit(rows[:, :1], rows[:, 1]).coef_


def symmetric_slope(rows: Any) -> Any:
    return slope(rows, least=-1.0)


def mean(values: Any) -> Any:
    return tools.mean(values, epsilon=1.0, bounds=(0.0, 1.0))


def nanmean(values: Any) -> Any:
    return tools.nanmean(values, epsilon=1.0, bounds=(0.0, 1.0))


def histogram(values: Any) -> Any:
    return tools.histogram(values, epsilon=1.0, bins=4, range=(0.0, 1.0))[0]


@pytest.mark.usefixtures("own_processes")
def test_an_empty_cluster_that_is_skipped_is_found() -> None:
    found = audited(centers, POINTS, FAR)
    assert found.verdict is Experiment.REFUTED
    named = {(each.kind, each.label) for each in found.findings}
    assert ("control-flow", "cluster_count in _update_centers") in named
    assert all("models/k_means.py:" in each.where for each in found.findings)
    assert "nondeterminism" not in {kind for kind, _ in named}  # where the clusters begin is public


def test_a_sensitivity_of_zero_is_found_by_the_name_of_the_query() -> None:
    found = audited(slope, LINE, TILTED)
    assert found.verdict is Experiment.REFUTED
    [finding] = found.findings
    assert (finding.kind, finding.label) == ("sensitivity", "coefs[2][i, i] in _construct_regression_obj")
    assert (finding.declared, finding.measured) == (0.0, pytest.approx(1.0))


@sweep(
    "target, one, other, relation, epsilon",
    [
        (mean, VALUES, LAST_ZERO, REPLACE, 1.0),
        (histogram, VALUES, VALUES[:-1], ADD, 1.0),
        (nanmean, VALUES, LAST_ZERO, REPLACE, 1.0),
        (symmetric_slope, LINE, TILTED, REPLACE, None),
    ],
    everyday=(0, 1),
)
def test_what_is_correct_is_not_refuted(
    target: Callable[[Any], Any], one: Any, other: Any, relation: Neighbouring, epsilon: float | None
) -> None:
    found = audited(target, one, other, relation)
    assert found.verdict is Experiment.NOT_REFUTED, found.findings
    assert found.epsilon_lower is not None
    assert found.epsilon_lower <= 1.0
    if epsilon is not None:  # the pair moves the query by all of its sensitivity
        assert found.epsilon_lower == pytest.approx(epsilon, rel=1e-6)
    [routed] = [each for each in found.not_checked if each.code is Code.ROUTED_NOISE]
    assert str(routed.text).startswith("diffprivlib 0.6.")


@pytest.mark.nightly
def test_missing_values_shrink_the_divisor_of_a_mean() -> None:
    few = np.append(np.full(8, np.nan), [0.0, 1.0])
    found = audited(nanmean, few, np.append(few[:-1], 0.0))
    assert found.verdict is Experiment.REFUTED
    assert found.findings[0].label == "actual_mean in _mean"


def leaking(values: Any) -> Any:
    return mean(values) + 1e-9 * values.sum()


def halved(values: Any) -> Any:
    return mechanisms.Laplace(epsilon=1.0, sensitivity=0.5).randomise(float(values.sum()))


def test_faults_of_the_target_itself_are_found() -> None:
    assert [each.kind for each in audited(leaking, VALUES, LAST_ZERO).findings] == ["leak"]
    [finding] = audited(halved, VALUES, LAST_ZERO).findings
    assert (finding.kind, finding.label) == ("sensitivity", "float(values.sum()) in halved")
    assert finding.where.endswith(f"{__name__.rpartition('.')[2]}.py:{halved.__code__.co_firstlineno + 1}")


#: A mechanism of each class that is routed, a query for it, and one that is half its sensitivity away.
ONE_EACH: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "Binary": (lambda: mechanisms.Binary(epsilon=1.0, value0="no", value1="yes"), "no", "yes"),
    "Bingham": (lambda: mechanisms.Bingham(epsilon=1.0), np.eye(2), np.diag([1.0, 0.5])),
    "ExponentialCategorical": (
        lambda: mechanisms.ExponentialCategorical(epsilon=1.0, utility_list=[["a", "b", 1.0]]),
        "a",
        "b",
    ),
    "Gaussian": (lambda: mechanisms.Gaussian(epsilon=1.0, delta=1e-3, sensitivity=2.0), 0.0, 1.0),
    "GaussianAnalytic": (
        lambda: mechanisms.GaussianAnalytic(epsilon=2.0, delta=1e-3, sensitivity=2.0),
        0.0,
        1.0,
    ),
    "GaussianDiscrete": (lambda: mechanisms.GaussianDiscrete(epsilon=1.0, delta=1e-3, sensitivity=2), 0, 1),
    "Geometric": (lambda: mechanisms.Geometric(epsilon=1.0, sensitivity=2), 0, 1),
    "Laplace": (lambda: mechanisms.Laplace(epsilon=1.0, delta=0.1, sensitivity=2.0), 0.0, 1.0),
    "LaplaceBoundedDomain": (
        lambda: mechanisms.LaplaceBoundedDomain(epsilon=1.0, sensitivity=2.0, lower=0.0, upper=3.0),
        0.0,
        1.0,
    ),
    "LaplaceBoundedNoise": (
        lambda: mechanisms.LaplaceBoundedNoise(epsilon=1.0, delta=0.1, sensitivity=2.0),
        0.0,
        1.0,
    ),
    "LaplaceFolded": (
        lambda: mechanisms.LaplaceFolded(epsilon=1.0, sensitivity=2.0, lower=0.0, upper=math.inf),
        0.0,
        1.0,
    ),
    "Snapping": (lambda: mechanisms.Snapping(epsilon=1.0, sensitivity=2.0, lower=0.0, upper=3.0), 0.0, 1.0),
    "Staircase": (lambda: mechanisms.Staircase(epsilon=1.0, sensitivity=2.0), 0.0, 1.0),
    "Uniform": (lambda: mechanisms.Uniform(delta=0.1, sensitivity=2.0), 0.0, 1.0),
}


def draws(make: Callable[[], Any], query: Any, number: int) -> tuple[list[Any], Transcript]:
    def target(value: Any) -> list[Any]:
        mechanism = make()
        return [mechanism.randomise(value) for _ in range(number)]

    transcript = Transcript()
    ran = run(Routed(target, "diffprivlib"), query, noise=LiveNoise(0), transcript=transcript)
    return ran.output, transcript


@pytest.mark.parametrize("name", ONE_EACH)
def test_every_mechanism_answers_what_it_answers_by_itself(name: str) -> None:
    make, query, other = ONE_EACH[name]
    found, transcript = draws(make, query, 5)
    own = make().randomise(query)
    assert {type(each) for each in found} <= {type(own), float}
    assert len({str(each) for each in found}) > 1
    again, moved = draws(make, query, 5)[0], draws(make, other, 1)[1]
    assert list(map(str, again)) == list(map(str, found))
    if isinstance(query, float | int):
        entry = transcript.entries[0]
        [move] = entry.release.mechanism.moves([entry], moved.entries)
        assert (move.measured, move.declared) == (1.0, 2.0)


@pytest.mark.parametrize("kind", ["LaplaceBoundedDomain", "Snapping"])
def test_a_query_is_clamped_as_the_mechanism_clamps_it(kind: str) -> None:
    make = ONE_EACH[kind][0]
    for value, clamped in ((-7.0, 0.0), (2.0, 2.0), (9.0, 3.0)):
        assert draws(make, value, 1)[1].entries[0].query == clamped


@sweep("name", ["Gaussian", "GaussianAnalytic", "Laplace", "Geometric"], everyday=(3,))
def test_the_curators_noise_has_the_librarys_variance(name: str) -> None:
    """Their own closed forms of the variance are the oracle."""
    make, query, _ = ONE_EACH[name]
    number = 1_000 if name == "Geometric" else 4_000
    noise = np.array(draws(make, query, number)[0], dtype=np.float64)
    # The kurtosis of Laplace noise is 6: the variance of a sample variance is at most 5/n of its square.
    ratio = float(noise.var() / make().variance(query))
    assert abs(ratio - 1.0) < 5.0 * math.sqrt(5.0 / number)
    assert abs(2.25 * ratio - 1.0) > 5.0 * math.sqrt(5.0 / number)  # a scale that is half as large again


@pytest.mark.parametrize("kind", [mechanisms.Exponential, mechanisms.PermuteAndFlip])
@pytest.mark.parametrize("monotonic", [False, True])
def test_a_choice_has_the_librarys_probabilities(kind: Any, monotonic: bool) -> None:
    """e^w for the exponential mechanism; of permute-and-flip and two candidates e^-d / 2 for the lesser."""
    mechanism = kind(
        epsilon=1.0, sensitivity=1.0, utility=[0.0, 1.0], candidates=["a", "b"], monotonic=monotonic
    )
    transcript = Transcript()
    ran = run(
        Routed(lambda _: mechanism.randomise(), "diffprivlib"),
        None,
        noise=LiveNoise(0),
        transcript=transcript,
    )
    assert ran.output in {"a", "b"}
    [entry] = transcript.entries
    less = math.exp(-1.0 if monotonic else -0.5)
    expected = less / (1.0 + less) if kind is mechanisms.Exponential else less / 2.0
    assert math.exp(entry.release.mechanism.log_probability(0, entry.query)) == pytest.approx(expected)


@pytest.mark.parametrize(
    "target",
    [
        lambda values: tools.median(values, epsilon=1.0, bounds=(0.0, 1.0)),
        lambda values: models.LogisticRegression(data_norm=2.0).fit(values[:, None], values > 0.5).coef_,
        lambda values: models.DecisionTreeClassifier(bounds=(0.0, 1.0), classes=[0, 1]).fit(
            values[:, None], values > 0.5
        ),
    ],
)
def test_what_replay_would_misjudge_is_refused(target: Callable[[Any], Any]) -> None:
    with pytest.raises(UsageError, match="audit it by sampling"):
        audited(target, VALUES, LAST_ZERO)


class Unknown(mechanisms.Laplace):
    def randomise(self, value: Any) -> Any:
        return value + self._rng.random()


class Renamed(mechanisms.Laplace):
    """Nothing of its own: it is routed as what it inherits."""


def test_a_mechanism_that_is_not_the_librarys_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Unknown, a mechanism that is not diffprivlib's"):
        audited(lambda _: Unknown(epsilon=1.0, sensitivity=1.0).randomise(0.0), VALUES, LAST_ZERO)
    ran = run(
        Routed(lambda _: Renamed(epsilon=1.0, sensitivity=1.0).randomise(3.0), "diffprivlib"),
        None,
        noise=NoNoise(),
    )
    assert ran.output == 3.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: mechanisms.Uniform(delta=0.5, sensitivity=0.0),
        lambda: mechanisms.Laplace(epsilon=math.inf, sensitivity=1.0),
    ],
)
def test_noise_that_the_library_leaves_out_changes_nothing(make: Callable[[], Any]) -> None:
    assert draws(make, 3.0, 2)[0] == pytest.approx([3.0, 3.0], abs=1e-9)


def test_an_infinite_epsilon_has_no_guarantee() -> None:
    with pytest.raises(InvalidParameter, match="finite"):
        draws(lambda: mechanisms.Snapping(epsilon=math.inf, sensitivity=1.0, lower=0.0, upper=1.0), 0.5, 1)


def test_the_library_is_as_it_was_after_each_run() -> None:
    def state() -> list[Any]:
        kept = [mechanisms.DPMechanism.__init__, forest._FittingTree.fit, utils.check_random_state]
        return [*kept, *(getattr(mechanisms, name).randomise for name in KNOWN)]

    before = state()
    assert run(Routed(mean, "diffprivlib"), VALUES, seed=0).output != pytest.approx(VALUES.mean())
    assert state() == before

    def fails(_: Any) -> None:
        assert state() != before
        raise RuntimeError("within")

    with pytest.raises(RuntimeError, match="within"):
        run(Routed(fails, "diffprivlib"), VALUES)
    assert state() == before


def test_an_algorithm_may_call_one_that_is_routed() -> None:
    def outer(data: Any, curator: Curator) -> float:
        return float(Routed(mean, "diffprivlib")(data, curator))

    claim = Claim(PureDP(epsilon=1.0))
    found = replay(outer, [Pair(VALUES, LAST_ZERO)], claim=claim, replays=2)
    assert found.verdict is Experiment.NOT_REFUTED
