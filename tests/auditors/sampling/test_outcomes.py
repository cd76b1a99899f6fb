"""Whatever tells the two sides apart is an event that an audit tests, and never an error of the audit."""

import copy
import math
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpaudit import Claim, Curator, Pair, PureDP
from dpaudit.auditors.sampling.curatorless import Plain
from dpaudit.auditors.sampling.sampling import SamplingPlan, audit_by_sampling
from dpaudit.auditors.sampling.scores import outcome
from dpaudit.certificate.verdicts import Audit, Experiment
from tests.sweeps import sweep

PAIR = Pair(np.zeros(10), np.zeros(9), "one record fewer")


def deep(levels: int) -> Any:
    return [deep(levels - 1)] if levels else []


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass
class Holds:
    value: Any


class Attributes:
    def __init__(self, value: Any) -> None:
        self.value = value


TOLD_APART: list[Any] = [
    None,
    "yes",
    "no",
    b"yes",
    ["yes", "no"],
    ["no", "yes"],
    np.array(["yes"]),
    np.array(["no"]),
    {"yes"},
    set(),
    {"a": 1},
    {"b": 1},
    {},
    [],
    (),
    [[]],
    Colour.RED,
    Colour.BLUE,
    1,
    2,
    1 + 1j,
    [1],
    [1, 1],
    np.zeros(2),
    np.zeros((2, 1)),
    math.nan,
    math.inf,
    -math.inf,
    Holds(1),
    Holds("x"),
    Attributes(1),
    Attributes("x"),
    2**60,
    2**60 + 1,
    10**400,
    10**400 + 1,
    -(10**400),
    [2**64 - 1, 0],
    Decimal("0.1"),
    np.datetime64("2020-01-01"),
    np.array([None, 1]),
    np.array([1, None]),
    object(),
    pd.DataFrame({"a": [1]}),
    pd.DataFrame({"b": [1]}),
    deep(20),
    deep(21),
]


def test_whatever_an_adversary_can_tell_apart_has_an_outcome_of_its_own() -> None:
    found = [outcome(value) for value in TOLD_APART]
    for i, (numbers, kind) in enumerate(found):
        for other, (numbers_other, kind_other) in enumerate(found[:i]):
            same = kind == kind_other and np.array_equal(numbers, numbers_other, equal_nan=True)
            assert not same, (TOLD_APART[i], TOLD_APART[other])
    # The same again, and objects that differ in their address alone.
    for value, (numbers, kind) in zip(TOLD_APART, found, strict=True):
        again = outcome(copy.deepcopy(value))
        assert again.kind == kind
        assert np.array_equal(again.numbers, numbers, equal_nan=True)
    assert outcome(object()).kind == outcome(object()).kind


def audited(mechanism: Any, method: Any, trials: int = 700, epsilon: float = 1.0, **options: Any) -> Audit:
    claim = Claim(PureDP(epsilon=epsilon))
    return audit_by_sampling(
        Plain(mechanism), [PAIR], SamplingPlan(trials, seed=3), method=method, claim=claim, **options
    )


def _raises(more: bool, random: np.random.Generator) -> Any:
    if random.random() < (0.7 if more else 0.05):
        raise ValueError
    return random.laplace()


def _says(more: bool, random: np.random.Generator) -> Any:
    if random.random() < 0.5:
        raise ValueError("too many" if (random.random() < 0.9) == more else "too few")
    return random.normal(size=3)


#: Likelier on one side than on the other: True for more records.
FAULTS: dict[str, Any] = {
    "raises": _raises,
    "another message": _says,
    "NaN": lambda more, random: math.nan if (random.random() < 0.9) == more else random.laplace(),
    "a NaN in a vector": lambda more, random: [random.laplace(), math.nan if more else 0.0],
    "infinite": lambda more, random: math.inf if (random.random() < 0.9) == more else -math.inf,
    "text": lambda more, random: ["no", "yes", "who"][
        random.choice(3, p=[0.05, 0.7, 0.25][:: 1 if more else -1])
    ],
    "a category in a table": lambda more, random: {
        "label": "b" if (random.random() < 0.9) == more else "a",
        "value": random.normal(),
    },
    "a code between two": lambda more, random: (
        [random.choice(3, p=[0.1, 0.8, 0.1] if more else [0.45, 0.1, 0.45])] * 2
    ),
    "a missing key": lambda more, random: (
        {"a": 1.0} if (random.random() < 0.9) == more else {"a": 1.0, "b": 0.0}
    ),
    "longer": lambda more, random: np.zeros(1 + random.binomial(3, 0.5) + 2 * more),
    "another shape": lambda more, random: random.normal(
        size=(2, 3) if (random.random() < 0.9) == more else (3, 2)
    ),
    "no value": lambda more, random: None if (random.random() < 0.9) == more else 0.0,
    "the scale of noise": lambda more, random: random.normal(scale=1 / (10 if more else 9), size=300),
    "equal entries": lambda more, random: np.round(random.normal(size=6), 1 if more else 9) % 1,
    "the larger first": lambda more, random: np.sort(random.normal(size=2))[:: 1 if more else -1] * [1, 1],
}


def _run(which: Any) -> Any:
    return lambda data, random: which(len(data) == 10, random)


@sweep("name", list(FAULTS), everyday=(0, 1, 2, 5))
@sweep("method", ["threshold", "sequential"], everyday=(0, 1))
def test_what_only_one_side_does_refutes(name: str, method: Any, nightly: bool) -> None:
    few = not nightly and name != "text"  # a text is told apart from two others
    found = audited(_run(FAULTS[name]), method, trials=350 if few else 700)
    assert found.verdict is Experiment.REFUTED, found.epsilon_lower


@sweep("name", list(FAULTS), everyday=(0, 5))
@sweep("method", ["threshold", "sequential"], everyday=(0, 1))
def test_what_both_sides_do_refutes_nothing(name: str, method: Any, nightly: bool) -> None:
    twin = lambda data, random: FAULTS[name](random.random() < 0.5, random)  # noqa: E731
    found = audited(twin, method, trials=700 if nightly else 350, confidence=1 - 1e-6)
    assert found.epsilon_lower == 0.0


def test_the_scale_of_noise_is_not_seen_by_a_linear_score(
    monkeypatch: pytest.MonkeyPatch, nightly: bool
) -> None:
    from dpaudit.auditors.statistics.learning.features import Features

    runs = 700 if nightly else 300
    assert audited(_run(FAULTS["the scale of noise"]), "threshold", runs).verdict is Experiment.REFUTED
    # The planted fault: without squares, norms and order statistics the same audit finds nothing.
    whole = Features.groups
    monkeypatch.setattr(Features, "groups", lambda *given: whole(*given)[:3])
    found = audited(_run(FAULTS["the scale of noise"]), "threshold", runs)
    assert found.verdict is Experiment.NOT_REFUTED


@pytest.mark.parametrize("method", ["threshold", "sequential"])
def test_what_comes_late_is_an_outcome_too(method: Any, nightly: bool) -> None:
    """Nobody decides by the first runs that there will be no others: one in twenty raises, on one side.

    By day one in ten, and fewer runs.
    """
    often, runs = (0.05, 3000) if nightly else (0.1, 1000)

    def rarely(data: Any, random: np.random.Generator) -> Any:
        if len(data) == 10 and random.random() < often:
            raise KeyError
        return random.laplace(size=(2,) if random.random() < 0.01 else ())

    found = audited(rarely, method, trials=runs, epsilon=0.5)
    assert found.verdict is Experiment.REFUTED
    assert found.trials == runs


def test_a_run_that_raises_has_an_exact_ratio(nightly: bool) -> None:
    """Both sides are replayed with what was released: one of them alone raises."""
    from dpaudit import L1, Laplace

    def fails(data: Any, curator: Curator) -> Any:
        value = curator.release(float(len(data)), Laplace(scale=1.0, sensitivity=L1(1.0)), label="count")
        if len(data) == 10 and value > 10.5:
            raise ValueError
        return value

    found = audit_by_sampling(
        fails,
        [PAIR],
        SamplingPlan(400 if nightly else 200, seed=1),
        method="threshold",
        score="exact",
        claim=Claim(PureDP(epsilon=1.0)),
    )
    assert found.verdict is Experiment.REFUTED
    assert found.epsilon_lower > 2.0


def test_boosting_without_its_library_is_refused_before_the_first_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    from dpaudit.errors import MissingExtra

    monkeypatch.setitem(sys.modules, "sklearn", None)
    runs: list[int] = []
    with pytest.raises(MissingExtra, match="scikit-learn"):
        audited(lambda data, random: runs.append(1), "threshold", score="boosting")
    assert runs == []
    # The default needs no library.
    assert audited(_run(FAULTS["a NaN in a vector"]), "threshold").verdict is Experiment.REFUTED


class _Slots:
    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held


#: How the records may lie in an output that also holds a noisy number, and what an audit then says.
HELD: dict[str, tuple[Any, Experiment]] = {
    "nothing": (lambda more: None, Experiment.NOT_REFUTED),
    "slots": (_Slots, Experiment.REFUTED),
    "iterator": (lambda more: iter([more]), Experiment.REFUTED),
    "index": (lambda more: pd.Series([1.0], index=[len(more)]), Experiment.REFUTED),
    "generator": (lambda more: (each for each in [more]), Experiment.INCONCLUSIVE),
    "closure": (lambda more: lambda: more, Experiment.INCONCLUSIVE),
}


@pytest.mark.parametrize("held", HELD)
def test_what_an_output_holds_is_seen_or_said_to_be_unseen(held: str) -> None:
    make, verdict = HELD[held]
    found = audited(lambda more, random: (random.laplace(), make(more)), "threshold")
    assert found.verdict is verdict, found
