"""Every live sampler passes; one with a scale 5% off, or a tie broken wrongly, does not."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpaudit import (
    L1,
    L2,
    RKHS,
    Curator,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    ExponentialKernel,
    Frobenius,
    GaussianProcess,
    Laplace,
    OpaquePureDP,
    Pair,
    PoissonSampled,
    RandomizedResponse,
    ReportNoisyMax,
    SmoothGaussian,
    SymmetricGaussian,
    TreeAggregation,
)
from dpaudit.auditors.replay import sampler_check
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.conditions import Code, Condition, Releases
from dpaudit.mechanisms import ValueMechanism, selection, streams
from dpaudit.noise import paths
from dpaudit.noise.randomness import ExactRandomness, Randomness, SeededRandomness
from tests.sweeps import sweep

pytestmark = pytest.mark.usefixtures("full_sampler_check")

PAIR = Pair(0.0, 0.0)
#: The factors by which a scale is wrong, and the log weights of the largest noisy score.
OFF, WEIGHTS_OFF = 1.05, 1.2


def value(mechanism: Any, shape: tuple[int, ...] = (50,)) -> Callable[[Any, Curator], Any]:
    return lambda data, curator: curator.release(np.zeros(shape), mechanism, label="x")


def smooth(data: Any, curator: Curator) -> Any:
    noise = SmoothGaussian(alpha=0.1, beta=0.1, dimension=50, epsilon=1.0, delta=1e-6)
    return curator.release_smooth(np.zeros(50), 3.0, noise, label="x")


def choice(data: Any, curator: Curator) -> Any:
    return curator.select([1.0, 2.0, 0.0, -30.0], Exponential(epsilon=1.0), label="x", score_sensitivity=1.0)


def stream(data: Any, curator: Curator) -> Any:
    curator.stream(TreeAggregation(sigma=2.0, steps=4, sensitivity=L2(1.0)), "x").add(0.0)


def function(data: Any, curator: Curator) -> Any:
    noise = GaussianProcess(sigma=2.0, kernel=ExponentialKernel(beta=1.0), sensitivity=RKHS(1.0))
    return curator.function(noise, lambda x: 0.0, "x")(0.5)


def scaled(kind: Any, name: str) -> Callable[[pytest.MonkeyPatch], None]:
    true = getattr(kind, name)

    def plant(patch: pytest.MonkeyPatch) -> None:
        def sample(self: Any, *arguments: Any) -> Any:
            scale = "scale" if hasattr(self, "scale") else "sigma"
            wrong = self.model_copy(update={scale: OFF * getattr(self, scale)})
            return true(wrong, *arguments)

        patch.setattr(kind, name, sample)

    return plant


def smooth_off(patch: pytest.MonkeyPatch) -> None:
    true = SmoothGaussian.sample
    patch.setattr(
        SmoothGaussian, "sample", lambda self, v, scale, generator: true(self, v, OFF * scale, generator)
    )


def response_off(patch: pytest.MonkeyPatch) -> None:
    true = RandomizedResponse.sample
    patch.setattr(
        selection.RandomizedResponse,
        "sample",
        lambda self, *a: true(self.model_copy(update={"epsilon": 1.2 * self.epsilon}), *a),
    )


def choice_off(patch: pytest.MonkeyPatch) -> None:
    true = Exponential.sample
    patch.setattr(Exponential, "sample", lambda self, w, *rest: true(self, WEIGHTS_OFF * w, rest[0]))


def function_off(patch: pytest.MonkeyPatch) -> None:
    true = paths.FloatPath.at
    patch.setattr(paths.FloatPath, "at", lambda self, *a: OFF * true(self, *a))


def noisy_max(law: Any) -> Callable[[Any, Curator], Any]:
    mechanism = ReportNoisyMax(epsilon=1.0, noise_law=law)
    return lambda data, curator: curator.select([1, 2, 0, -30], mechanism, label="x", score_sensitivity=1.0)


def weights_off(name: str, of: Any = SeededRandomness) -> Callable[[pytest.MonkeyPatch], None]:
    """Of one sampler alone: both are held to the law, and either is reported."""
    true = getattr(of, name)

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(of, name, lambda self, w, exactly=None: true(self, WEIGHTS_OFF * w))

    return plant


CASES = [
    (value(Laplace(scale=3.0, sensitivity=L1(1.0))), scaled(Laplace, "sample")),
    (value(DiscreteGaussian(sigma=3.0, sensitivity=L2(1.0))), scaled(DiscreteGaussian, "sample")),
    (value(DiscreteLaplace(scale=3.0, sensitivity=L1(1.0))), scaled(DiscreteLaplace, "sample")),
    (
        value(SymmetricGaussian(sigma=3.0, dimension=6, sensitivity=Frobenius(1.0)), (6, 6)),
        scaled(SymmetricGaussian, "sample"),
    ),
    (value(RandomizedResponse(epsilon=1.0)), response_off),
    (choice, choice_off),
    (noisy_max("exponential"), weights_off("permute_and_flip")),
    (noisy_max("laplace"), weights_off("noisy_max")),
    (smooth, smooth_off),
    (stream, scaled(streams.TreeAggregation, "sample_node")),
    (function, function_off),
]


@sweep("algorithm, plant", CASES, everyday=(0, 4))
def test_the_true_sampler_passes_and_one_five_percent_off_does_not(
    algorithm: Callable[[Any, Curator], Any],
    plant: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert replay(algorithm, [PAIR], replays=1).findings == ()  # false alarm below 1e-6, seed fixed
    plant(monkeypatch)
    (finding,) = replay(algorithm, [PAIR], replays=1).findings
    assert (finding.kind, finding.label) == ("sampler", "x")
    assert finding.where.startswith(os.path.relpath(__file__))


def scale_off(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Noise with a scale 5% off in the exact sampler alone, which no seeded run draws from."""
    true = getattr(ExactRandomness, name)

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(ExactRandomness, name, lambda self, value, scale: true(self, value, OFF * scale))

    return plant


def exact_choice_off(patch: pytest.MonkeyPatch) -> None:
    true = ExactRandomness.choose
    patch.setattr(ExactRandomness, "choose", lambda self, w, exactly: true(self, WEIGHTS_OFF * w))


def exact_response_off(patch: pytest.MonkeyPatch) -> None:
    true = ExactRandomness.responses
    patch.setattr(ExactRandomness, "responses", lambda self, v, e, k: true(self, v, 1.2 * e, k))


def exact_path_off(patch: pytest.MonkeyPatch) -> None:
    true = ExactRandomness.path
    patch.setattr(ExactRandomness, "path", lambda self, sigma, *rest: true(self, OFF * sigma, *rest))


EXACT_FAULTS = [
    scale_off("laplace"),
    scale_off("discrete_gaussian"),
    scale_off("discrete_laplace"),
    scale_off("symmetric"),
    exact_response_off,
    exact_choice_off,
    weights_off("permute_and_flip", ExactRandomness),
    weights_off("noisy_max", ExactRandomness),
    scale_off("scaled_by_data"),
    scale_off("gaussian"),
    exact_path_off,
]


@sweep(
    "algorithm, plant",
    [(case[0], plant) for case, plant in zip(CASES, EXACT_FAULTS, strict=True)],
    everyday=(0, 3, 4),
)
def test_the_exact_sampler_is_tested_too(
    algorithm: Callable[[Any, Curator], Any],
    plant: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    (finding,) = replay(algorithm, [PAIR], replays=1).findings
    assert (finding.kind, finding.label) == ("sampler", "x")


#: Of these a draw is so dear that every day takes a tenth of the draws, which tell a larger error apart.
DEAR = (1, 2, 5, 6, 7, 8)


@pytest.mark.parametrize("case", DEAR)
def test_a_tenth_of_the_draws_tells_an_error_of_a_quarter(case: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or doubled log weights, which 2,000 choices miss with a probability of 5e-27."""
    for name in ("DRAWS", "SLOW_DRAWS", "CHOICES"):
        monkeypatch.setattr(sampler_check, name, getattr(sampler_check, name) // 10)
    monkeypatch.setattr(sys.modules[__name__], "OFF", 1.25)
    monkeypatch.setattr(sys.modules[__name__], "WEIGHTS_OFF", 2.0)
    algorithm, plant = CASES[case]
    assert replay(algorithm, [PAIR], replays=1).findings == ()
    for one in (plant, EXACT_FAULTS[case]):
        with monkeypatch.context() as planted:
            one(planted)
            (finding,) = replay(algorithm, [PAIR], replays=1).findings
        assert (finding.kind, finding.label) == ("sampler", "x")


class Triangular(ValueMechanism):
    """A mechanism that the check does not know: triangular noise of half-width 2, or a wrong one."""

    kind: str = "triangular"
    drawn: float = 2.0

    def dominating_pair(self) -> Any:
        raise NotImplementedError

    def sample(self, value: Any, randomness: Randomness, /) -> Any:
        return value + randomness.generator.triangular(-self.drawn, 0.0, self.drawn, np.shape(value))

    def log_density(self, output: Any, query: Any) -> float:
        height = 0.5 - abs(float((output - query).sum())) / 4.0
        return np.log(height) if height > 0 else -np.inf


@pytest.mark.parametrize(("drawn", "faulty"), [(2.0, False), (2.1, True)])
def test_a_new_mechanism_is_tested_by_its_density(drawn: float, faulty: bool) -> None:
    mechanism: Any = Triangular(drawn=drawn)
    query = np.array([3.0])
    question: Any = SimpleNamespace(query=query)
    tested = sampler_check._table(mechanism, question, SeededRandomness(1))
    assert tested is not None
    assert (sampler_check._p_value(*tested) < sampler_check.FALSE_ALARM) is faulty


def samples(data: Any, curator: Curator) -> None:
    """A mechanism that is tested; two samples of it, and the caller's own noise, which are not."""
    curator.release(np.zeros(3), Laplace(scale=2.0, sensitivity=L1(1.0)), label="known")
    sampled = PoissonSampled(rate=0.5, mechanism=Laplace(scale=2.0, sensitivity=L1(1.0)))
    for label in "ab":
        curator.release_sum(np.zeros((4, 1)), bound=0.5, mechanism=sampled, label=label)
    own = OpaquePureDP(epsilon=1.0, justification="a theorem")
    curator.release_opaque(0.0, lambda value, noise: value + noise.laplace(), own, label="own")


def several(number: int) -> Callable[[Any, Curator], None]:
    def algorithm(data: Any, curator: Curator) -> None:
        for i in range(number):
            curator.release(0.0, Laplace(scale=2.0 + i, sensitivity=L1(1.0)), label=f"{i}")

    return algorithm


@pytest.mark.parametrize(
    ("algorithm", "untested"), [(samples, ["a", "b", "own"]), (several(16), []), (several(18), ["16", "17"])]
)
def test_the_certificate_names_what_was_not_tested(
    algorithm: Callable[[Any, Curator], None], untested: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler_check, "DRAWS", 8_000)
    found = [one for one in replay(algorithm, [PAIR], replays=1).not_checked if one.code == Code.SAMPLERS]
    assert found == ([Condition(code=Code.SAMPLERS, releases=Releases.of(untested))] if untested else [])


def test_a_new_mechanism_for_vectors_is_left_out_and_an_unknown_one_is_no_case() -> None:
    question: Any = SimpleNamespace(query=np.zeros(2))
    new: Any = Triangular()
    assert sampler_check._table(new, question, SeededRandomness(1)) is None
    unknown: Any = SimpleNamespace(kind="gaussian")  # of our own kind, and none of the cases
    with pytest.raises(AssertionError):
        sampler_check._table(unknown, question, SeededRandomness(1))
