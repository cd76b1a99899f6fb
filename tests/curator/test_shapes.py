"""What each shape of release accepts, writes and hands out."""

from __future__ import annotations

import math
from collections.abc import Callable
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
    Gaussian,
    GaussianProcess,
    Laplace,
    NoNoise,
    OpaqueZCDP,
    PoissonSampled,
    RandomizedResponse,
    ReportNoisyMax,
    Run,
    SmoothGaussian,
    SparseVector,
    SymmetricGaussian,
    Transcript,
    TreeAggregation,
    run,
)
from dpaudit.accountants.filters.filters import ZCDPFilter
from dpaudit.errors import BudgetExceeded, InvalidParameter, ScheduleBroken, SensitivityTooSmall
from dpaudit.mechanisms import (
    AnyMechanism,
    NegativeBinomial,
    PrivateSelection,
    TrialRelease,
)

TREE = TreeAggregation(sigma=2.0, steps=5, sensitivity=L2(1))
PROCESS = GaussianProcess(sigma=2.0, kernel=ExponentialKernel(beta=3.0), sensitivity=RKHS(1))
SMOOTH = SmoothGaussian(alpha=12.0, beta=0.05, dimension=2, epsilon=1.0, delta=0.1)


def do(work: Callable[[Curator], Any], **options: Any) -> Run:
    return run(lambda _, curator: work(curator), None, **{"seed": 3, **options})


def exactly(work: Callable[[Curator], Any]) -> Any:
    return do(work, seed=None, noise=NoNoise()).output


@pytest.mark.parametrize(
    ("mechanism", "value"),
    [
        (DiscreteGaussian(sigma=1.0, sensitivity=L2(1)), [1.0, 2.5]),
        (DiscreteLaplace(scale=1.0, sensitivity=L1(1)), 0.1),
        (RandomizedResponse(epsilon=1.0), [0, 1, 2]),
        (RandomizedResponse(epsilon=1.0), [-1]),
        (RandomizedResponse(epsilon=1.0, categories=3), [0.5]),
        (SymmetricGaussian(sigma=1.0, dimension=2, sensitivity=Frobenius(1)), [[1.0, 2.0], [2.5, 1.0]]),
        (SymmetricGaussian(sigma=1.0, dimension=2, sensitivity=Frobenius(1)), np.eye(3)),
        (SymmetricGaussian(sigma=1.0, dimension=2, sensitivity=Frobenius(1)), [1.0, 2.0]),
        (Gaussian(sigma=1.0, sensitivity=L2(1)), [math.nan]),
    ],
)
@pytest.mark.parametrize("noise", [None, NoNoise()])
def test_a_value_the_theorem_does_not_speak_of(mechanism: AnyMechanism, value: Any, noise: Any) -> None:
    curators: list[Curator] = []

    def work(curator: Curator) -> Any:
        curators.append(curator)
        return curator.release(value, mechanism, label="x")

    with pytest.raises(InvalidParameter):
        do(work, noise=noise)
    assert curators[0].ledger.releases == (), "what is refused is not written"


@pytest.mark.parametrize(
    ("mechanism", "method"),
    [
        (TREE, "curator.stream"),
        (PROCESS, "curator.function"),
        (SMOOTH, "curator.release_smooth"),
        (Exponential(epsilon=1.0), "curator.select"),
        (ReportNoisyMax(epsilon=1.0), "curator.select"),
        (SparseVector(epsilon=1.0, sensitivity=L1(1.0)), "curator.sparse_vector"),
        (PoissonSampled(rate=0.5, mechanism=Laplace(scale=1.0, sensitivity=L1(1))), "curator.release_sum"),
        (OpaqueZCDP(rho=1.0, justification="x"), "curator.release_opaque"),
    ],
)
def test_a_mechanism_released_by_the_wrong_method_is_told_the_right_one(
    mechanism: AnyMechanism, method: str
) -> None:
    with pytest.raises(InvalidParameter) as caught:
        do(lambda curator: curator.release([1.0], mechanism, label="x"))
    assert method in caught.value.remedy


def test_integers_stay_integers() -> None:
    mechanism = DiscreteGaussian(sigma=3.0, sensitivity=L2(1))
    output = do(lambda curator: curator.release(np.arange(6).reshape(2, 3), mechanism, label="x")).output
    assert output.shape == (2, 3)
    assert np.array_equal(output, np.rint(output))


def select(
    scores: Any, epsilon: float = 1.0, sensitivity: float = 1.0, kind: Any = Exponential
) -> Callable[[Curator], int]:
    mechanism = kind(epsilon=epsilon)
    return lambda curator: curator.select(scores, mechanism, label="s", score_sensitivity=sensitivity)


@pytest.mark.parametrize("kind", [Exponential, ReportNoisyMax])
def test_selection_prefers_the_best(kind: Any) -> None:
    assert exactly(select([1, 5, 2], kind=kind)) == 1
    chosen = do(select([1, 5, 2], epsilon=1e3, kind=kind)).output
    assert chosen == 1
    assert type(chosen) is int


@pytest.mark.parametrize(
    ("scores", "sensitivity"),
    [([], 1.0), ([[1.0]], 1.0), ([math.inf], 1.0), ([1.0], 0.0), ([1.0], math.nan), ([1e300], 1e-300)],
)
def test_selection_refuses_what_has_no_meaning(scores: Any, sensitivity: float) -> None:
    for kind in (Exponential, ReportNoisyMax):
        with pytest.raises(InvalidParameter):
            do(select(scores, sensitivity=sensitivity, kind=kind))


def test_a_stream_is_one_release_of_exact_sums_and_ends_with_its_steps() -> None:
    def work(curator: Curator) -> list[Any]:
        stream = curator.stream(TREE, "counts", (2,))
        return [stream.add([k, 1.0]).tolist() for k in range(5)]

    assert exactly(work) == [[0, 1], [1, 2], [3, 3], [6, 4], [10, 5]]
    assert [release.label for release in do(work).ledger.releases] == ["counts"]

    def longer(curator: Curator) -> None:
        stream = curator.stream(TREE, "counts")
        for _ in range(6):
            stream.add(0.0)

    with pytest.raises(ScheduleBroken, match="item 6"):
        do(longer)


@pytest.mark.parametrize(("shape", "item"), [((2,), [1.0]), ((), [1.0]), ((1,), [math.nan])])
def test_a_stream_refuses_other_items(shape: tuple[int, ...], item: Any) -> None:
    with pytest.raises(InvalidParameter):
        do(lambda curator: curator.stream(TREE, "x", shape).add(item))


def test_a_frobenius_stream_keeps_matrices_symmetric() -> None:
    tree = TreeAggregation(sigma=2.0, steps=4, sensitivity=Frobenius(1))

    def work(curator: Curator) -> list[Any]:
        stream = curator.stream(tree, "gram", (3, 3))
        return [stream.add(np.eye(3)) for _ in range(4)]

    for matrix in do(work).output:
        assert np.array_equal(matrix, matrix.T)
    with pytest.raises(InvalidParameter, match="symmetric"):
        do(lambda curator: curator.stream(tree, "x", (2, 2)).add([[0.0, 1.0], [0.0, 0.0]]))


def test_a_function_answers_a_point_once() -> None:
    asked: list[float] = []

    def mean(point: float) -> list[float]:
        asked.append(point)
        return [point, -point]

    def work(curator: Curator) -> Any:
        noisy = curator.function(PROCESS, mean, "q", (2,))
        return noisy([0.5, 0.1, 0.5]), noisy(0.1), noisy([[0.5]])

    first, again, nested = do(work).output
    assert asked == [0.5, 0.1]
    assert first.shape == (3, 2)
    assert np.array_equal(first[0], first[2])
    assert np.array_equal(first[1], again)
    assert nested.shape == (1, 1, 2)
    assert not np.array_equal(first[0], [0.5, -0.5])
    assert np.array_equal(exactly(work)[0], [[0.5, -0.5], [0.1, -0.1], [0.5, -0.5]])


def test_a_function_refuses_what_is_not_finite_or_of_another_shape() -> None:
    for mean, points in ((lambda x: x, math.nan), (lambda _: math.inf, 0.0), (lambda x: [x], 0.0)):
        with pytest.raises(InvalidParameter):
            do(lambda curator, m=mean, p=points: curator.function(PROCESS, m, "q")(p))


def test_the_scale_that_data_chose_is_for_the_transcript_alone() -> None:
    transcript = Transcript()
    scale = 1234.5678
    result = do(lambda c: c.release_smooth([1.0, 2.0], scale, SMOOTH, label="w"), transcript=transcript)
    assert b"1234" not in b"".join(result.ledger.lines())
    assert [entry.scale for entry in transcript.entries] == [scale]
    assert np.abs(result.output).max() > 10
    do(lambda c: c.release_smooth([1.0, 2.0], 1e-3, SMOOTH, label="w"))
    for value, bad in (([1.0], 1.0), ([1.0, 2.0], 0.0), ([1.0, 2.0], math.nan), ([1.0, 2.0], math.inf)):
        with pytest.raises(InvalidParameter):
            do(lambda c, v=value, s=bad: c.release_smooth(v, s, SMOOTH, label="w"))


def test_an_opaque_sampler_draws_from_the_curator() -> None:
    mechanism = OpaqueZCDP(rho=0.5, justification="Gaussian noise of the vendor")

    def work(curator: Curator) -> Any:
        return curator.release_opaque([1.0], lambda v, g: v + g.normal(), mechanism, label="o")

    assert do(work).output == do(work).output != 1.0
    assert exactly(work) == 1.0


def test_a_sampled_sum_is_clipped_sampled_and_noised() -> None:
    mechanism = PoissonSampled(rate=0.25, mechanism=Gaussian(sigma=1e-9, sensitivity=L2(2.0)))
    rows = np.array([[3.0], [-0.5]] * 500)

    def work(curator: Curator) -> Any:
        return curator.release_sum(rows, bound=1.0, mechanism=mechanism, label="s")

    assert exactly(work) == pytest.approx([0.25 * 250.0])
    result = do(work)
    assert 0 < result.output[0] < 250
    assert 2 * result.output[0] == pytest.approx(round(2 * result.output[0]), abs=1e-6)
    inner = result.ledger.releases[0].mechanism
    assert isinstance(inner, PoissonSampled)
    assert inner.sensitivity.basis == "clipped"
    assert inner.contribution == 1.0
    small = PoissonSampled(rate=0.25, mechanism=Gaussian(sigma=1.0, sensitivity=L2(1.9)))
    with pytest.raises(SensitivityTooSmall):
        do(lambda c: c.release_sum(rows, bound=1.0, mechanism=small, label="s"))


def test_whole_sums_stay_whole_when_they_are_clipped() -> None:
    """A record past the bound must not abort the run: that would tell that it exists."""
    mechanism = DiscreteLaplace(scale=1.0, sensitivity=L1(6.0))
    rows = np.array([[2.0, 1.0], [7.0, -7.0], [0.5, 0.0]])
    assert exactly(lambda c: c.release_sum(rows, bound=3.0, mechanism=mechanism, label="s")).tolist() == [
        3.0,
        0.0,
    ]
    cells = np.array([[0, 0, 0, 0], [0, 1, 1, 2]])
    counts = DiscreteGaussian(sigma=1.0, sensitivity=L2(4.0))
    table = exactly(lambda c: c.release_counts(cells, shape=(3,), bound=2.5, mechanism=counts, label="n"))
    assert table.tolist() == [1.0, 2.0, 1.0]
    # Under noise on a fine grid a record past the bound counts in part.
    fine = Gaussian(sigma=1.0, sensitivity=L2(4.0))
    table = exactly(lambda c: c.release_counts(cells, shape=(3,), bound=2.5, mechanism=fine, label="n"))
    assert table == pytest.approx([1.0 + 2.5, 2.0, 1.0], abs=1e-9)


def test_contributions_far_below_their_noise_lie_on_a_grid_that_it_reaches() -> None:
    small = Gaussian(sigma=1.0, sensitivity=L2(2e-15))
    rows = np.full((4, 1), 1e-15)
    found = exactly(lambda c: c.release_sum(rows, bound=1e-15, mechanism=small, label="s"))
    assert found == pytest.approx([4e-15], rel=1e-6)
    noisy = do(lambda c: c.release_sum(rows, bound=1e-15, mechanism=small, label="s"), seed=None)
    assert abs(noisy.output[0]) < 9.0


def test_a_symmetric_sum() -> None:
    mechanism = SymmetricGaussian(sigma=1.0, dimension=2, sensitivity=Frobenius(2.0))
    features = np.random.default_rng(0).normal(size=(20, 2))
    grams = features[:, :, None] * features[:, None, :]
    result = do(lambda c: c.release_sum(grams, bound=1.0, mechanism=mechanism, label="gram"))
    assert np.array_equal(result.output, result.output.T)


def test_one_user_gives_as_many_answers_as_are_accounted_for() -> None:
    response = RandomizedResponse(epsilon=1.0)

    def work(answers: list[int], count: int) -> Callable[[Any, Curator], None]:
        def algorithm(_: Any, curator: Curator) -> None:
            with curator.user(0) as user:
                user.release(answers, response, label="answer", count=count)

        return algorithm

    options: dict[str, Any] = {"trust_model": "local", "users": 1}
    with pytest.raises(InvalidParameter, match="3 answers of one user"):
        run(work([0, 1, 1], 1), None, **options)
    run(work([0, 1, 1], 3), None, **options)


ROWS = np.array([[1.0], [1.0]])
CLIPPED = Gaussian(sigma=1.0, sensitivity=L2(2.0))
TRIALS = PrivateSelection(
    releases=(TrialRelease(mechanism=CLIPPED),), repetitions=NegativeBinomial(eta=1.0, gamma=0.5)
)


def best(curator: Curator, rows: Any) -> Any:
    def trial(own: Curator, _: int) -> tuple[float, Any]:
        return 0.0, own.release_sum(rows, bound=1.0, mechanism=CLIPPED, label="sum")

    return curator.select_best(trial, TRIALS, label="best", default=np.zeros(1))


OF_ONE_USER: dict[str, Callable[[Curator, Any], Any]] = {
    "sum": lambda c, rows: c.release_sum(rows, bound=1.0, mechanism=CLIPPED, label="sum"),
    "gram": lambda c, rows: c.release_gram(rows, bound=1.0, mechanism=CLIPPED, label="gram"),
    "counts": lambda c, rows: c.release_counts(
        rows.astype(np.int64), shape=(2,), bound=1.0, mechanism=CLIPPED, label="counts"
    ),
    "stream": lambda c, rows: c.stream(
        TreeAggregation(sigma=2.0, steps=5, sensitivity=L2(2)), "stream", (1,), bound=1.0
    ).add(rows),
    "batches": lambda c, rows: c.batches(CLIPPED, "batch", (1,), bound=1.0).draw(len(rows)),
    "trial": best,
}


@pytest.mark.parametrize("work", OF_ONE_USER.values(), ids=list(OF_ONE_USER))
def test_one_user_is_one_row_of_a_sum(work: Callable[[Curator, Any], Any]) -> None:
    """Two rows that are clipped one by one move the sum twice as far as the ledger says."""

    def algorithm(rows: Any, curator: Curator) -> None:
        with curator.user(0) as user:
            work(user, rows)

    options: dict[str, Any] = {"trust_model": "local", "users": 1}
    with pytest.raises(InvalidParameter, match="2 units' rows of one user"):
        run(algorithm, ROWS, **options)
    run(algorithm, ROWS[:1], **options)
    run(lambda rows, curator: work(curator, rows), ROWS)


def test_opening_a_stream_is_charged_at_once() -> None:
    """rho = 3 nodes * (1/2)^2 / 2."""
    budget = ZCDPFilter(rho=0.375)
    do(lambda c: c.stream(TREE, "first"), budget=budget)
    assert budget.spent == 0.375
    with pytest.raises(BudgetExceeded):
        do(lambda c: c.function(PROCESS, lambda x: x, "second"), budget=budget)


def test_every_component_has_a_path_of_its_own_whatever_is_asked_first() -> None:
    """Answers through the curator, asked one by one in a muddled order, against the dense kernel.

    600 functions of 8 components; each of the entries of the 4 x 4 covariance, and each covariance of a
    component with its neighbour, lies within 5.5 of its standard deviations but for a chance below 1e-6.
    """
    points, rows = [0.7, 0.1, 0.4, 0.41], []
    mechanism = GaussianProcess(sigma=2.0, kernel=ExponentialKernel(beta=3.0), sensitivity=RKHS(1.0))

    def algorithm(data: Any, curator: Curator) -> None:
        for number in range(600):
            noisy = curator.function(mechanism, lambda _: data, f"f{number}", (8,))
            rows.append([noisy(point) for point in points])

    run(algorithm, np.arange(8.0), seed=0)
    values = np.array(rows) - np.arange(8.0)  # [600, 4, 8]
    columns = values.transpose(1, 0, 2).reshape(4, -1)
    dense = 4.0 * np.exp(-3.0 * np.abs(np.subtract.outer(points, points)))
    white = np.linalg.solve(np.linalg.cholesky(dense), columns)
    n = white.shape[1]
    spread = np.where(np.eye(4) == 1, math.sqrt(2 / n), math.sqrt(1 / n))
    assert (np.abs(white @ white.T / n - np.eye(4)) < 5.5 * spread).all()
    beside = (values[:, :, :-1] * values[:, :, 1:]).mean() / 4.0
    # Points of one path are correlated: no more than 600 * 7 of the products are independent.
    assert abs(beside) < 5.5 / math.sqrt(600 * 7)
