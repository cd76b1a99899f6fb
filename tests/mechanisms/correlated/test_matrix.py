"""Streams with correlated noise: exact rows, the joint law of what comes out, and what is refused."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpaudit import L2, Curator, Ledger, Release, account, run
from dpaudit.accountants.filters.filters import ZCDPFilter
from dpaudit.errors import BudgetExceeded, InputError, InvalidParameter, NormMismatch, ScheduleBroken
from dpaudit.mechanisms import BufferedToeplitz, LowerTriangular, MatrixMechanism, Toeplitz
from dpaudit.mechanisms.correlated import strategies
from dpaudit.mechanisms.correlated.matrix import CorrelatedSums
from dpaudit.mechanisms.correlated.strategies import Strategy
from dpaudit.noise.randomness import Randomness, SeededRandomness
from tests import make

ALARM = 1e-6
BANDED = Toeplitz(coefficients=(1.0, 0.5, 0.375))
ROWS = LowerTriangular(rows=((2.0,), (0.5, 1.0), (-0.25, 0.5), (0.1, 0.0, 0.3, 1.5)))
BUFFERED = BufferedToeplitz(decays=(0.9, 0.3), scales=(0.3, 0.2))


def mechanism(strategy: Strategy, steps: int, sigma: float = 2.0, **schema: int) -> MatrixMechanism:
    return MatrixMechanism(sigma=sigma, steps=steps, strategy=strategy, sensitivity=L2(1.0), **schema)


def dense(strategy: Strategy, steps: int) -> Any:
    """The strategy as a matrix, by its definition."""
    found = np.zeros((steps, steps))
    for i, j in itertools.product(range(steps), repeat=2):
        if isinstance(strategy, LowerTriangular):
            row = strategy.rows[i]
            found[i, j] = row[j - i - 1] if 0 <= i - j < len(row) else 0.0
        elif isinstance(strategy, Toeplitz):
            found[i, j] = strategy.coefficients[i - j] if 0 <= i - j < len(strategy.coefficients) else 0.0
        elif i >= j:
            terms = zip(strategy.scales, strategy.decays, strict=True)
            found[i, j] = 1.0 if i == j else sum(scale * decay ** (i - j - 1) for scale, decay in terms)
    return found


CASES = [(BANDED, 6), (ROWS, 4), (BUFFERED, 5)]


@pytest.mark.parametrize(("strategy", "steps"), CASES)
def test_sums_are_exact_but_for_their_noise(strategy: Strategy, steps: int) -> None:
    items = np.random.default_rng(0).integers(-9, 9, size=(steps, 2, 3)).astype(float)
    nearly = mechanism(strategy, steps, sigma=1e-7).running((2, 3))
    for step, item in enumerate(items):
        nearly.push(item)
        assert np.array_equal(nearly.exact(), items[: step + 1].sum(axis=0))
        assert nearly.noisy(Randomness.live()) == pytest.approx(nearly.exact(), abs=1e-5)


@pytest.mark.parametrize(("strategy", "steps"), CASES)
def test_log_density_is_that_of_the_joint_prefix_sums(strategy: Strategy, steps: int) -> None:
    generator, sigma = np.random.default_rng(0), 1.7
    items, outputs = generator.normal(size=(steps, 2)), generator.normal(size=(steps, 2))
    decoded = np.tril(np.ones((steps, steps))) @ np.linalg.inv(dense(strategy, steps))
    covariance = sigma**2 * decoded @ decoded.T
    expected = sum(
        stats.multivariate_normal(np.cumsum(items[:, j]), covariance).logpdf(outputs[:, j]) for j in range(2)
    )
    found = mechanism(strategy, steps, sigma=sigma).log_density(outputs, items)
    assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("strategy", "steps"), CASES)
@pytest.mark.parametrize("exactly", [False, True])
def test_noise_has_the_stated_covariance(strategy: Strategy, steps: int, exactly: bool) -> None:
    """Whitened by the inverse of the matrix that it is said to be made with: chi-square, step by step."""
    from dpaudit.noise.bits import SeededBits
    from dpaudit.noise.randomness import ExactRandomness

    size, sigma = 4000, 3.0
    generator = np.random.default_rng(1)
    randomness = ExactRandomness(SeededBits(generator)) if exactly else SeededRandomness(generator)
    stream = mechanism(strategy, steps, sigma=sigma).running((size,))
    outputs = []
    for _ in range(steps):
        stream.push(np.zeros(size))
        outputs.append(stream.noisy(randomness))
    increments = np.diff(outputs, axis=0, prepend=np.zeros((1, size)))
    white = dense(strategy, steps) @ increments / sigma
    for one, other in itertools.combinations_with_replacement(range(steps), 2):
        mixed = (white[one] + white[other]) / (2.0 if one == other else math.sqrt(2.0))
        statistic = float(np.square(mixed).sum())
        law = stats.chi2(size)
        assert 2 * min(law.cdf(statistic), law.sf(statistic)) > ALARM


class Recorder:
    """Draws no noise, and keeps the exact rows that noise would be added to."""

    def __init__(self) -> None:
        self.rows: list[list[Fraction]] = []
        self._exact = Randomness.live()

    def weighted(self, weights: Any, values: Any) -> Any:
        return self._exact.weighted(weights, values)

    def total(self, value: Any) -> Any:
        return self._exact.total(value)

    def gaussian(self, value: Any, sigma: float) -> Any:
        del sigma
        scale = Fraction(2) ** value.exponent
        self.rows.append([Fraction(int(m)) * scale for m in value.integers.ravel()])
        return value.to_doubles()


@pytest.mark.parametrize(("strategy", "steps"), CASES)
def test_rows_are_added_up_without_rounding(strategy: Strategy, steps: int) -> None:
    """Items of very different sizes: in doubles, digits would be lost, and with them the sensitivity."""
    items = np.random.default_rng(2).normal(size=(steps, 3)) * 10.0 ** np.array([0, 15, -15])
    items[1] *= 1e-9
    recorder, stream = Recorder(), mechanism(strategy, steps).running((3,))
    for item in items:
        stream.push(item)
        stream.noisy(recorder)
    for step, found in enumerate(recorder.rows, start=1):
        row = strategy.row(step).tolist()
        latest = items[step - len(row) : step].tolist()
        expected = [
            sum((Fraction(c) * Fraction(x[j]) for c, x in zip(row, latest, strict=True)), Fraction(0))
            for j in range(3)
        ]
        assert found == expected


def test_memory_is_that_of_the_bands() -> None:
    stream = mechanism(BANDED, 3000).running((4,))
    randomness = SeededRandomness(0)
    for _ in range(3000):
        stream.push(np.zeros(4))
        stream.noisy(randomness)
    assert len(stream._items) == 3
    assert len(stream._estimates) == 2
    with pytest.raises(InvalidParameter):
        stream.push(np.zeros(4))


def test_after_an_item_without_an_answer_there_is_no_wrong_sum() -> None:
    stream, exact = mechanism(BANDED, 8, sigma=1e-3).running(()), Randomness.live()
    stream.push(np.array(1.0))
    assert stream.noisy(exact) == pytest.approx(1.0, abs=0.1)
    stream.push(np.array(1e300))
    with pytest.raises(InvalidParameter, match="or more under noise"):
        stream.noisy(exact)
    stream.push(np.array(1.0))
    with pytest.raises(InvalidParameter, match="item 3 after one without an answer"):
        stream.noisy(exact)


def test_a_strategy_whose_inverse_explodes_is_refused_before_it_releases_infinities() -> None:
    def algorithm(x: float, curator: Curator) -> None:
        stream = curator.stream(mechanism(Toeplitz(coefficients=(1.0, 1e60)), 50), "s")
        for _ in range(50):
            stream.add(x)

    with pytest.raises(InvalidParameter, match="beyond every double"):
        run(algorithm, 0.0, seed=0)


def test_a_stream_through_the_curator_is_one_charged_line_that_tells_its_strategy() -> None:
    noise = mechanism(BANDED, 6, participations=2, separation=3)

    def algorithm(x: float, curator: Curator) -> Any:
        stream = curator.stream(noise, "sums", (2,))
        return [stream.add([x, 1.0]).tolist() for _ in range(6)]

    made = run(algorithm, 1.0)
    assert len(made.ledger.releases) == 1
    assert made.ledger.header.noise.sampler == "dpaudit-exact"
    line = made.ledger.releases[0]
    assert Release(**{k: v for k, v in line.to_json().items() if k != "record"}) == line
    assert line.mechanism == noise
    square = 2 * (1.0 + 0.25 + 0.140625) / 4.0  # two columns, orthogonal; sigma is 2
    (bound,) = account(made.ledger).bounds
    assert bound.guarantee.rho == pytest.approx(square / 2, rel=1e-12)
    assert bound.guarantee.rho >= square / 2  # type: ignore[union-attr]
    with pytest.raises(BudgetExceeded):
        run(algorithm, 1.0, budget=ZCDPFilter(0.1, neighbouring="replace-one"))


def test_a_step_past_the_end_is_refused() -> None:
    def algorithm(x: float, curator: Curator) -> None:
        stream = curator.stream(mechanism(BANDED, 3), "sums")
        for _ in range(4):
            stream.add(x)

    with pytest.raises(ScheduleBroken, match="item 4 of a stream of 3 steps"):
        run(algorithm, 1.0)


def test_what_is_no_stream_is_refused_before_anything_is_written() -> None:
    def algorithm(x: Any, curator: Curator) -> None:
        with pytest.raises(InvalidParameter, match="mechanism for a stream"):
            curator.stream(x, "sums")

    for wrong in (make.gaussian(1.0), None, "matrix"):
        assert len(run(algorithm, wrong).ledger.releases) == 0


def test_a_ledger_of_every_strategy_is_read_back(tmp_path: Any) -> None:
    def algorithm(_: float, curator: Curator) -> None:
        for strategy, steps in CASES:
            curator.stream(mechanism(strategy, steps, participations=3, separation=2), "s")

    ledger = run(algorithm, 0.0).ledger
    ledger.write(tmp_path / "ledger.jsonl")
    assert Ledger.read(tmp_path / "ledger.jsonl").releases == ledger.releases


def test_buffered_coefficients_are_deterministic_doubles_whatever_was_asked_before() -> None:
    few, many = BUFFERED.first_column(5).tolist(), BUFFERED.first_column(100).tolist()
    assert few == many[:5]
    assert few == pytest.approx([1.0, 0.5, 0.33, 0.261, 0.2241], rel=1e-15)
    with pytest.raises(ValueError, match="read-only"):
        BUFFERED.first_column(5)[0] = 0.0


GOOD: dict[str, Any] = {"sigma": 1.0, "steps": 4, "strategy": ROWS, "sensitivity": L2(1.0)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 5},
        {"steps": 3},
        {"steps": 0},
        {"participations": 0},
        {"separation": 0},
        {"separation": 1.5},
        {"strategy": {"kind": "toeplitz", "coefficients": []}},
        {"strategy": {"kind": "toeplitz", "coefficients": [0.0, 1.0]}},
        {"strategy": {"kind": "toeplitz", "coefficients": [-1.0]}},
        {"strategy": {"kind": "toeplitz", "coefficients": [1.0, math.nan]}},
        {"strategy": {"kind": "toeplitz", "coefficients": [1.0, 1e200]}},
        {"strategy": {"kind": "toeplitz", "coefficients": [1.0, 1e-200]}},
        {"strategy": {"kind": "toeplitz", "coefficients": [1.0, True]}},
        {"strategy": {"kind": "lower-triangular", "rows": []}},
        {"strategy": {"kind": "lower-triangular", "rows": [[1.0], [], [1.0], [1.0]]}},
        {"strategy": {"kind": "lower-triangular", "rows": [[1.0, 2.0], [1.0], [1.0], [1.0]]}},
        {"strategy": {"kind": "lower-triangular", "rows": [[1.0], [1.0, 0.0], [1.0], [1.0]]}},
        {"strategy": {"kind": "buffered-toeplitz", "decays": [0.5], "scales": [0.5, 0.5]}},
        {"strategy": {"kind": "buffered-toeplitz", "decays": [1.5], "scales": [0.5]}},
        {"strategy": {"kind": "buffered-toeplitz", "decays": [0.5], "scales": [0.5]}, "steps": 1 << 21},
        {"strategy": {"kind": "identity"}},
        {"sensitivity": {"value": 1.0, "norm": "l1"}},
    ],
)
def test_what_is_no_strategy_or_schema_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(NormMismatch if "sensitivity" in wrong else InputError):
        MatrixMechanism(**{**GOOD, **wrong})


def test_too_many_entries_are_not_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "MOST_ENTRIES", 10)
    with pytest.raises(InvalidParameter, match="use fewer bands"):
        BANDED.diagonals(4)


def test_a_group_of_units_moves_a_row_as_often() -> None:
    noise = mechanism(BANDED, 6, participations=2, separation=3)
    grouped = noise.for_group(3, lambda figure, factor: figure * factor)
    assert grouped is not None
    assert grouped[0].dominating_pair().mu == 3 * noise.dominating_pair().mu


def test_the_running_sums_are_those_of_the_mechanism() -> None:
    assert isinstance(mechanism(BANDED, 3).running(()), CorrelatedSums)
