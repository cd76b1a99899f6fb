"""Nine faults that a recorder of releases can let pass, each with its innocent twin.

Each is found with the kind that its check reports, in both directions of a pair; with the one check taken
out it is not: most then pass, and where later steps rely on the check, these break. The twin does the same
thing rightly and passes in silence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dpaudit import L2, Curator, Experiment, Gaussian, Pair, SmoothGaussian, Tabulated
from dpaudit.auditors.replay import recording
from dpaudit.auditors.replay import replay as replay_module
from dpaudit.auditors.replay.replay import replay
from dpaudit.auditors.replay.rng_tripwire import Watch
from dpaudit.auditors.replay.sampler_check import SamplerProbe
from dpaudit.curator.noise import ReplayedNoise
from tests.sweeps import sweep

PAIR = Pair(np.array([0.2, 0.9, 0.4]), np.array([0.2, 0.1, 0.4]), "the second record replaced")
NOISE = Gaussian(sigma=5.0, sensitivity=L2(1.0))
Work = Callable[[Any, Curator], Any]


def total(data: Any, curator: Curator) -> Any:
    return curator.release(data.sum(), NOISE, label="sum")


def high(data: Any) -> bool:
    """Something that differs between the two sides."""
    return bool(data[1] > 0.5)


def added_afterwards(data: Any, curator: Curator) -> Any:
    return total(data, curator) + 1e-6 * data[1]


def public_added_afterwards(data: Any, curator: Curator) -> Any:
    return total(data, curator) + 1e-6 * len(data)


def raw_value(data: Any, curator: Curator) -> Any:
    total(data, curator)
    return data.sum()


def fewer_releases(data: Any, curator: Curator) -> Any:
    for _ in range(3 if high(data) else 2):
        total(data, curator)


def releases_by_what_came_out(data: Any, curator: Curator) -> Any:
    for _ in range(3):
        if total(data, curator) > 0.0:
            break


def nan_query(data: Any, curator: Curator) -> Any:
    return curator.release(math.nan if high(data) else 0.0, NOISE, label="x")


def zero_query(data: Any, curator: Curator) -> Any:
    return curator.release(1.0 if high(data) else 0.0, NOISE, label="x")


def smooth(beta: float, curator: Curator) -> Any:
    noise = SmoothGaussian(alpha=1.0, beta=beta, dimension=1, epsilon=1.0, delta=1e-6)
    return curator.release_smooth(np.zeros(1), 1.0, noise, label="x")


def table(at: int, curator: Curator) -> Any:
    masses = [0.0] * 1500
    masses[at] = 1.0
    losses = tuple(np.linspace(0, 1, 1500).tolist())
    known = Tabulated(losses=losses, probabilities=tuple(masses), justification="known")
    return curator.release_opaque(0.0, lambda value, generator: value, known, label="x")


def noise_of_its_own(data: Any, curator: Curator) -> Any:
    return total(data, curator) + np.random.default_rng().normal()


def noise_of_the_curator(data: Any, curator: Curator) -> Any:
    return total(data, curator) + curator.public("jitter").normal()


def five_percent_off(patch: pytest.MonkeyPatch) -> None:
    true = Gaussian.sample

    def sample(self: Gaussian, *arguments: Any) -> Any:
        return true(self.model_copy(update={"sigma": 1.05 * self.sigma}), *arguments)

    patch.setattr(Gaussian, "sample", sample)


def without_leaks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recording.Runs, "leaks", lambda self, one, other: [])


def without_flow(patch: pytest.MonkeyPatch) -> None:
    for module in (recording, replay_module):
        patch.setattr(module, "flow_difference", lambda one, other: None)


def without_finite(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "dpaudit.curator.curator.as_query", lambda value, label: np.asarray(value, dtype=np.float64)
    )


def without_same_release(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReplayedNoise, "_difference", lambda self, question: None)


def without_watch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Watch, "drawn", property(lambda self: None, lambda self, value: None), raising=False)
    for name in ("repeat_difference", "first_difference"):
        patch.setattr(replay_module, name, lambda one, other: None)


def without_probe(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SamplerProbe, "faulty", lambda self: [])


@dataclass(frozen=True)
class Fault:
    """One of the nine.

    Attributes:
        guilty: an algorithm that has it.
        twin: one that does the same rightly.
        kind: of the finding.
        unchecked: takes the one check out that finds it.
        plant: what else it takes to make it.
    """

    guilty: Work
    twin: Work
    kind: str
    unchecked: Callable[[pytest.MonkeyPatch], None]
    plant: Callable[[pytest.MonkeyPatch], None] = lambda patch: None


FAULTS = {
    "an un-noised leak added after the release": Fault(
        added_afterwards, public_added_afterwards, "leak", without_leaks
    ),
    "returning the raw value": Fault(raw_value, total, "leak", without_leaks),
    "fewer releases on the neighbour": Fault(
        fewer_releases, releases_by_what_came_out, "control-flow", without_flow
    ),
    "a NaN query": Fault(nan_query, zero_query, "control-flow", without_finite),
    "a second named parameter that depends on data": Fault(
        lambda data, curator: smooth(0.5 + high(data), curator),
        lambda data, curator: smooth(0.5, curator),
        "control-flow",
        without_same_release,
    ),
    "noise drawn elsewhere": Fault(noise_of_its_own, noise_of_the_curator, "nondeterminism", without_watch),
    # Printed, an array that long is cut short in its middle: both sides print alike.
    "a parameter of over 1000 elements": Fault(
        lambda data, curator: table(700 + high(data), curator),
        lambda data, curator: table(700, curator),
        "control-flow",
        without_same_release,
    ),
    # Their difference broadcasts: subtracting one from the other raises nothing.
    "shapes (5,) against (1,)": Fault(
        lambda data, curator: curator.release(np.zeros(5 if high(data) else 1), NOISE, label="x"),
        lambda data, curator: curator.release(np.zeros(5), NOISE, label="x"),
        "control-flow",
        without_same_release,
    ),
    "a wrong scale inside the sampler": Fault(total, total, "sampler", without_probe, five_percent_off),
}
NAMES = list(FAULTS)


def kinds(algorithm: Work, pair: Pair) -> set[str]:
    audit = replay(algorithm, [pair], replays=1)
    assert (audit.verdict is Experiment.REFUTED) == bool(audit.findings)
    return {finding.kind for finding in audit.findings}


def test_there_are_nine() -> None:
    assert len(FAULTS) == 9


@sweep("pair", [PAIR, Pair(PAIR.neighbour, PAIR.data)], ids=["forth", "back"], everyday=(0,))
@pytest.mark.parametrize("name", NAMES)
def test_the_fault_is_found_and_its_twin_is_not(
    name: str, pair: Pair, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    fault = FAULTS[name]
    if fault.kind == "sampler":
        request.getfixturevalue("full_sampler_check")
    assert kinds(fault.twin, pair) == set()
    fault.plant(monkeypatch)
    assert kinds(fault.guilty, pair) == {fault.kind}


@pytest.mark.parametrize("name", NAMES)
def test_without_its_check_it_is_not_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[name]
    fault.plant(monkeypatch)
    fault.unchecked(monkeypatch)
    try:
        found = kinds(fault.guilty, PAIR)
    except Exception:  # noqa: BLE001  (of what relies on the check)
        found = set()
    assert fault.kind not in found
