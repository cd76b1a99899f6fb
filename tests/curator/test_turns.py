"""Sums over the units whose turn it is, and over sampled records: who is in them, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy

import dpaudit
from dpaudit import (
    L2,
    Curator,
    Gaussian,
    Header,
    Ledger,
    LiveNoise,
    MatrixMechanism,
    MixtureOfGaussians,
    Neighbouring,
    NoNoise,
    OpaquePureDP,
    Pair,
    PoissonSampled,
    RandomAllocation,
    SampledMatrix,
    SampledRecords,
    Toeplitz,
)
from dpaudit.auditors.replay import sampler_check
from dpaudit.certificate.conditions import Code
from dpaudit.curator.noise import Transcript
from dpaudit.errors import InvalidParameter, ScheduleBroken, SensitivityTooSmall
from dpaudit.mechanisms import InTurns
from dpaudit.noise.bits import SeededBits
from dpaudit.noise.grid import OnGrid
from dpaudit.noise.randomness import ExactRandomness, Randomness, SeededRandomness
from tests.certified import certified

QUIET = Gaussian(sigma=2.0**-10, sensitivity=L2(1.0))
STEPS = 6
ALLOCATED = RandomAllocation(steps=STEPS, mechanism=QUIET)
STRATEGY = Toeplitz(coefficients=(1.0, 0.5, 0.25))
RECORDS = SampledRecords(rate=0.25, records=4, mechanism=QUIET)
NEVER = 1e-6 / 4  # of false alarms, over the tests of counts below


def banded(rate: float, sigma: float = 2.0**-10, steps: int = 12) -> SampledMatrix:
    inner = MatrixMechanism(steps=steps, sigma=sigma, sensitivity=L2(1.0), separation=3, strategy=STRATEGY)
    return SampledMatrix(rate=rate, mechanism=inner)


def curator(noise: Any = None, relation: str = "add-or-remove-one", **options: Any) -> Curator:
    header = Header(algorithm="a", unit="row", neighbouring=Neighbouring(relation))
    return Curator(Ledger(header), noise or LiveNoise(), **options)


def taking_part(mechanism: Any, units: int, noise: Any) -> np.ndarray:
    """Who is in which step, [steps, units]: each unit has a coordinate of its own, under little noise."""
    stream = curator(noise).sampled_stream(mechanism, "it", bound=1.0, shape=(units,))
    found = np.array([stream.add(np.eye(units)) for _ in range(mechanism.length)])
    if isinstance(mechanism, SampledMatrix):
        found = np.diff(found, axis=0, prepend=0.0)
    assert np.abs(found - np.rint(found)).max() < 0.1
    return np.rint(found)


def p_value(counts: Any, probabilities: Any) -> float:
    expected = np.sum(counts) * np.asarray(probabilities)
    statistic = float(((np.asarray(counts) - expected) ** 2 / expected).sum())
    return float(scipy.special.chdtrc(len(expected) - 1, statistic))


@pytest.mark.parametrize("noise", [LiveNoise, lambda: LiveNoise(seed=3)])
def test_every_unit_has_one_turn_and_keeps_it(noise: Callable[[], LiveNoise]) -> None:
    found = taking_part(ALLOCATED, 60, noise())
    assert (found.sum(axis=0) == 1).all()
    again = taking_part(banded(1.0), 60, noise())
    assert (again == np.tile(again[:3], (4, 1))).all()
    assert (again[:3].sum(axis=0) == 1).all()


def test_turns_are_even_and_independent_of_each_other() -> None:
    """And the test sees turns that are not: one in twelve of the last turn is moved to the first."""
    found = taking_part(ALLOCATED, 600, LiveNoise(seed=1))
    counts, even = found.sum(axis=1), np.full(STEPS, 1 / STEPS)
    assert p_value(counts, even) > NEVER
    turn = found.argmax(axis=0)
    pairs = np.bincount(turn[::2] * STEPS + turn[1::2], minlength=STEPS**2)
    assert p_value(pairs, np.full(STEPS**2, STEPS**-2)) > NEVER
    counts[0], counts[-1] = counts[0] + 0.5 * counts[-1], 0.5 * counts[-1]
    assert p_value(counts, even) < NEVER


def test_a_unit_takes_part_in_its_turns_by_independent_coins() -> None:
    found = taking_part(banded(0.4), 300, LiveNoise(seed=2)).reshape(4, 3, -1)
    assert ((found.sum(axis=0) > 0).sum(axis=0) <= 1).all()  # never out of its turn
    times = np.bincount(found.sum(axis=(0, 1)).astype(int), minlength=5)
    binomial = [math.comb(4, k) * 0.4**k * 0.6 ** (4 - k) for k in range(5)]
    assert p_value(times, binomial) > NEVER
    assert p_value(times, binomial[::-1]) < NEVER


def test_records_are_sampled_one_by_one() -> None:
    units = 200
    rows = np.eye(units * 4).reshape(units, 4, -1)
    noisy = curator(LiveNoise(seed=5)).release_sum(rows, bound=1.0, mechanism=RECORDS, label="it")
    drawn = np.rint(noisy).reshape(units, 4)
    times = np.bincount(drawn.sum(axis=1).astype(int), minlength=5)
    assert p_value(times, [math.comb(4, k) * 0.25**k * 0.75 ** (4 - k) for k in range(5)]) > NEVER
    fewer = curator().release_sum(np.ones((3, 2, 1)), bound=1.0, mechanism=RECORDS, label="it")
    assert fewer.shape == (1,)


@pytest.mark.parametrize("mechanism", [RandomAllocation(steps=4, mechanism=QUIET), banded(0.5, steps=4)])
@pytest.mark.parametrize("exactly", [True, False])
def test_the_noise_is_the_inner_mechanisms(mechanism: Any, exactly: bool) -> None:
    """Of rows of zeros nothing but noise comes out: standard normal, and independent."""
    width, sigma = 2000, 2.0**-10
    stream = curator(None if exactly else LiveNoise(seed=7)).sampled_stream(
        mechanism, "it", bound=1.0, shape=(width,)
    )
    found = np.array([stream.add(np.zeros((2, width))) for _ in range(4)])
    if isinstance(mechanism, SampledMatrix):
        found = mechanism.mechanism.noise_in(found, np.zeros_like(found))
    assert np.abs(found @ found.T / (width * sigma**2) - np.eye(4)).max() < 7 * math.sqrt(2 / width)


def test_the_first_units_keep_their_turns_when_there_are_more_and_then_fewer() -> None:
    answer = ALLOCATED.answering()
    randomness = SeededRandomness(1)
    stream = [answer(rows, randomness) for rows in (_grid(np.eye(units, 9)) for units in (5, 9, 2, 0, 9, 9))]
    found = np.rint(np.array(stream))
    assert found.max() == 1
    assert found.sum(axis=0).max() <= 1  # nobody twice
    with pytest.raises(InvalidParameter, match="step 7 of 6"):
        answer(_grid(np.eye(9)), randomness)


def _grid(rows: np.ndarray) -> Any:
    return OnGrid((rows * 2.0**30).astype(np.int64), -30)


def test_a_step_that_noise_refused_is_taken_again() -> None:
    """Else the last steps would begin the turns anew, and a unit would be in two sums."""
    answer, found = ALLOCATED.answering(), []
    exact = ExactRandomness(SeededBits(np.random.default_rng(1)))
    for _ in range(STEPS):
        huge = OnGrid(np.full((40, 40), 2**62, dtype=object) * 2**40, -30)
        with pytest.raises(InvalidParameter):
            answer(huge, exact)
        found.append(np.rint(answer(_grid(np.eye(40)), exact)))
    assert (np.sum(found, axis=0) == 1).all()


def test_rows_are_clipped_and_the_ledger_says_so() -> None:
    made = curator()
    stream = made.sampled_stream(ALLOCATED, "it", bound=1.0, shape=(2,))
    rows = np.array([[3e300, 4e300], [math.nan, 1.0], [0.0, math.inf]])
    total = sum(stream.add(rows) for _ in range(STEPS))
    assert total == pytest.approx([0.6, 0.8], abs=0.05)  # the others count as zero
    (line,) = made.ledger.releases
    assert line.mechanism.sensitivity.basis == "clipped"
    with pytest.raises(ScheduleBroken, match="step 7 of a stream of 6 steps"):
        stream.add(rows)


def test_without_noise_a_step_is_what_is_expected_of_it() -> None:
    rows = np.array([0.5, 0.25])
    stream = curator(NoNoise()).sampled_stream(ALLOCATED, "it", bound=1.0)
    assert [float(stream.add(rows)) for _ in range(2)] == pytest.approx([0.75 / 6] * 2)
    prefixes = curator(NoNoise()).sampled_stream(banded(0.5), "it", bound=1.0)
    assert [float(prefixes.add(rows)) for _ in range(2)] == pytest.approx([0.75 / 6, 0.75 / 3])
    summed = curator(NoNoise()).release_sum(np.ones((2, 4, 1)), bound=1.0, mechanism=RECORDS, label="it")
    assert summed == pytest.approx([2.0])


@pytest.mark.parametrize(
    ("opened", "error", "match"),
    [
        (lambda c: c.sampled_stream(ALLOCATED, "it", bound=1.5), SensitivityTooSmall, "1.5 follows"),
        (lambda c: c.sampled_stream(ALLOCATED, "it", bound=0.0), InvalidParameter, "bound 0.0"),
        (lambda c: c.sampled_stream(ALLOCATED, "it", bound=math.nan), InvalidParameter, "bound nan"),
        (lambda c: c.sampled_stream(QUIET, "it", bound=1.0), InvalidParameter, "curator.release, or"),
        (lambda c: c.sampled_stream(3, "it", bound=1.0), InvalidParameter, "a int mechanism"),
        (lambda c: c.stream(ALLOCATED, "it"), InvalidParameter, "it has no steps"),
        (lambda c: c.release(1.0, ALLOCATED, label="it"), InvalidParameter, "curator.sampled_stream"),
        (
            lambda c: c.release_sum(np.ones((4, 1)), bound=1.0, mechanism=ALLOCATED, label="it"),
            InvalidParameter,
            "curator.sampled_stream",
        ),
        (
            lambda c: c.release_sum(np.ones((4, 5, 1)), bound=1.0, mechanism=RECORDS, label="it"),
            InvalidParameter,
            "up to 4 records",
        ),
        (
            lambda c: c.release_sum(np.ones(4), bound=1.0, mechanism=RECORDS, label="it"),
            InvalidParameter,
            "zeros where it has fewer",
        ),
    ],
)
def test_what_does_not_fit_is_refused_and_not_written(
    opened: Callable[[Any], Any], error: type[Exception], match: str
) -> None:
    made = curator()
    with pytest.raises(error, match=match):
        opened(made)
    assert made.ledger.releases == ()


def test_two_rows_may_point_in_opposite_directions() -> None:
    made = curator(relation="replace-one")
    with pytest.raises(SensitivityTooSmall, match=r"1\.2 follows"):
        made.sampled_stream(ALLOCATED, "it", bound=0.6)
    made.sampled_stream(ALLOCATED, "it", bound=0.5)


@pytest.mark.parametrize("rows", [np.ones(2), np.ones((2, 3)), 1.0, [["a", "b"]], [[1.0, 2.0], [3.0]]])
def test_rows_of_another_shape_are_refused_and_cost_no_step(rows: Any) -> None:
    stream = curator().sampled_stream(ALLOCATED, "it", bound=1.0, shape=(2,))
    for _ in range(STEPS):
        with pytest.raises(InvalidParameter):
            stream.add(rows)
        stream.add(np.ones((1, 2)))


MIXTURE = MixtureOfGaussians(sigma=1.0, sensitivities=(0.0, 1.0), probabilities=(0.5, 0.5))


@pytest.mark.parametrize("mechanism", [QUIET, RECORDS, ALLOCATED, MIXTURE, 1])
def test_what_the_library_draws_takes_no_sampler_of_its_own(mechanism: Any) -> None:
    made = curator()
    with pytest.raises(InvalidParameter, match="with your own sampler"):
        made.release_opaque(1.0, lambda value, _: value, mechanism, label="it")
    assert made.ledger.releases == ()


def test_a_sample_of_what_is_justified_takes_one() -> None:
    own = PoissonSampled(rate=0.5, mechanism=OpaquePureDP(epsilon=1.0, justification="x"))
    made = curator()
    assert made.release_opaque(1.0, lambda value, _: value + 1, own, label="it") == 2.0
    conditions = {one.code for one in dpaudit.account(made.ledger).not_checked}
    assert {Code.HIDDEN_SAMPLE, Code.JUSTIFIED_GUARANTEE} <= conditions


def test_no_curator_runs_a_mixture_and_it_says_why() -> None:
    with pytest.raises(InvalidParameter, match="a value does not reveal the sampling probability"):
        curator().release(1.0, MIXTURE, label="it")


# Replay: the unit's row is clipped, so that what can go wrong is what other units' rows make of it.

DATA = np.ones((5, 2))
PAIR = Pair(DATA, DATA[:4], "one row less", unit=4)


def allocated(data: Any, c: Curator, *, leak: bool = False, mechanism: InTurns | None = None) -> Any:
    stream = c.sampled_stream(
        mechanism or RandomAllocation(steps=3, mechanism=Gaussian(sigma=1.0, sensitivity=L2(1.0))),
        "it",
        bound=1.0,
        shape=(2,),
    )
    rows = data * (0.1 if leak and len(data) < 5 else 1.0)
    return [stream.add(rows) for _ in range(3)]


@pytest.mark.parametrize("mechanism", [None, banded(0.5, sigma=1.0, steps=3)])
@pytest.mark.parametrize("leak", [False, True])
def test_replay_measures_how_far_a_step_moves(mechanism: Any, leak: bool) -> None:
    audit = dpaudit.replay(
        lambda data, c: allocated(data, c, leak=leak, mechanism=mechanism),
        [PAIR],
        replays=2,
        run_options={"neighbouring": "add-or-remove-one"},
        in_process=True,
    )
    assert {finding.kind for finding in audit.findings} == ({"sensitivity"} if leak else set())


@pytest.mark.usefixtures("full_sampler_check")
@pytest.mark.parametrize("mechanism", [ALLOCATED, banded(0.5)])
@pytest.mark.parametrize("off", [1.0, 1.05])
def test_their_noise_is_part_of_what_is_audited(
    mechanism: Any, off: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = SeededRandomness.gaussian

    def wrong(self: Randomness, value: Any, sigma: float) -> Any:
        return right(self, value, off * sigma)

    monkeypatch.setattr(SeededRandomness, "gaussian", wrong)
    question: Any = SimpleNamespace(query=np.empty(0))
    tested = sampler_check._table(mechanism, question, SeededRandomness(1))
    assert tested is not None
    assert (sampler_check._p_value(*tested) < sampler_check.FALSE_ALARM) is (off > 1.0)


def test_a_recording_is_of_all_rows_whoever_was_drawn() -> None:
    kept = Transcript()
    made = curator(transcript=kept)
    stream = made.sampled_stream(ALLOCATED, "it", bound=1.0, shape=(2,))
    stream.add(DATA / 2)
    opening, step = kept.entries
    assert opening.output.size == 0
    assert step.query == pytest.approx([2.5, 2.5])


@pytest.mark.nightly
def test_it_runs_in_a_process_of_its_own() -> None:
    """The holder draws turns and noise: with one seed, the answers are those of a run in one process."""
    claim = dpaudit.Claim(
        dpaudit.ApproxDP(epsilon=50.0, delta=1e-3), unit="row", neighbouring="add-or-remove-one"
    )

    def run(in_process: bool) -> Any:
        return certified(allocated, DATA, claim=claim, pairs=(), seed=3, curves=False, in_process=in_process)

    apart, inside = run(in_process=False), run(in_process=True)
    assert np.array_equal(apart.run.output, inside.run.output)
    assert Code.HIDDEN_TURNS in {condition.code for condition in apart.certificate.not_checked}


@pytest.mark.nightly
def test_steps_of_many_units_stay_within_the_reach_of_the_noise() -> None:
    """Every step's sum is small beside what noise can be added to, however many steps there are."""
    claim = dpaudit.Claim(
        dpaudit.ApproxDP(epsilon=50.0, delta=1e-3), unit="row", neighbouring="add-or-remove-one"
    )
    mechanism = RandomAllocation(steps=40, mechanism=Gaussian(sigma=1.0, sensitivity=L2(1.0)))

    def many(data: Any, c: Curator) -> Any:
        stream = c.sampled_stream(mechanism, "it", bound=1.0)
        return [float(stream.add(data)) for _ in range(40)]

    made = certified(many, np.ones(2000), claim=claim, pairs=(), seed=3, curves=False)
    assert made.divergences == ()
    assert sum(made.run.output) == pytest.approx(2000.0, abs=60.0)
