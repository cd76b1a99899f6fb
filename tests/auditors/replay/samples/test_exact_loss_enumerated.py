"""What follows from losses: each e-value has the expectation 1 at most, by enumeration, and is not far below.

The pairs have few outcomes, so that every set of recordings can be made, with its probability.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest

from dpaudit import (
    L1,
    L2,
    Claim,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    Laplace,
    PoissonSampled,
    RandomizedResponse,
    Release,
    ReportNoisyMax,
)
from dpaudit.auditors.replay import exact_loss, likelihood
from dpaudit.auditors.replay.exact_loss import (
    DEFAULT_DELTA,
    Direction,
    FixedPair,
    Losses,
    loss_figures,
)
from dpaudit.auditors.replay.likelihood import NoDensity, log_ratio, queries_of
from dpaudit.auditors.statistics.gaussian_pair import LARGEST_EPSILON, epsilon_below
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.mechanisms import Asked

P = np.array([0.55, 0.25, 0.15, 0.05])
Q = np.array([0.10, 0.25, 0.25, 0.40])
LOSS = np.log(P / Q)
#: Another distribution from which recordings are drawn, with importance weights.
TILTED = np.array([0.7, 0.1, 0.1, 0.1])


def delta_of(epsilon: float) -> float:
    return float(np.maximum(P - math.exp(epsilon) * Q, 0.0).sum())


def divergence(alpha: float) -> float:
    return math.log(float((P**alpha * Q ** (1 - alpha)).sum())) / (alpha - 1)


def recordings(number: int, drawn: np.ndarray) -> Iterator[tuple[float, Losses]]:
    """Every outcome of so many recordings, with its probability."""
    for chosen in itertools.product(range(len(P)), repeat=number):
        at = np.array(chosen)
        yield float(drawn[at].prod()), Losses(LOSS[at], np.log(P[at] / drawn[at]), 4.0)


#: The least figure that is true of the pair, and what share of it is surely too little.
TRUE: list[AnyGuarantee] = [
    *(ApproxDP(epsilon=epsilon, delta=delta_of(epsilon)) for epsilon in (0.0, 0.4, 1.2)),
    *(RDP(alpha=alpha, epsilon=divergence(alpha)) for alpha in (1.5, 2.0, 4.0)),
    ZCDP(rho=max(divergence(alpha) / alpha for alpha in np.linspace(1.01, 4.0, 400).tolist())),
]


@pytest.mark.parametrize("drawn", [P, TILTED], ids=["as stated", "tilted"])
@pytest.mark.parametrize("guarantee", TRUE, ids=str)
def test_the_e_value_of_a_true_claim_expects_at_most_one(guarantee: AnyGuarantee, drawn: np.ndarray) -> None:
    """Of the least figure that is true, and of larger ones."""
    leading = "rho" if isinstance(guarantee, ZCDP) else "epsilon"
    for number in (1, 2, 3):
        expected = sum(
            probability * math.exp(losses.evidence(guarantee))
            for probability, losses in recordings(number, drawn)
        )
        assert expected <= 1.0
        # Exactly 1 but for the margins: all but the divergences of other orders are attained.
        assert expected > (0.5 if isinstance(guarantee, ZCDP) else 1.0 - 1e-6)
    for more in (1.5, 4.0):
        claimed = guarantee.model_copy(update={leading: more * getattr(guarantee, leading) + 0.1})
        assert (
            sum(
                probability * math.exp(losses.evidence(claimed))
                for probability, losses in recordings(2, drawn)
            )
            <= 1.0
        )


def test_the_e_value_of_a_true_gaussian_claim_expects_at_most_one() -> None:
    """A claim of mu-GDP is tested at three points of its curve, which lies above the pair's."""
    mu = 2.5
    assert all(
        delta_of(epsilon) <= float(exact_delta(epsilon, mu)) for epsilon in np.linspace(0, 3, 61).tolist()
    )
    expected = sum(
        probability * math.exp(losses.evidence(GDP(mu=mu))) for probability, losses in recordings(2, P)
    )
    assert 0.3 < expected <= 1.0
    assert Losses(np.ones(3), np.zeros(3)).evidence(GDP(mu=0.0)) == -math.inf


def exact_delta(epsilon: float, mu: float) -> mpmath.mpf:
    e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
    return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


def test_a_gaussian_claim_is_tested_at_points_of_its_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, float]] = []
    point = Losses._point
    monkeypatch.setattr(
        Losses, "_point", lambda self, e, delta: asked.append((e, delta)) or point(self, e, delta)
    )
    Losses(np.ones(3), np.zeros(3)).evidence(GDP(mu=1.3))
    assert len(asked) == 3
    for (epsilon, delta), at in zip(asked, (0.1, 1e-3, 1e-5), strict=True):
        assert exact_delta(epsilon, 1.3) <= delta == pytest.approx(at, rel=1e-9)


def test_a_loss_is_lowered_by_its_margin_and_an_infinite_one_is_not() -> None:
    given = np.array([0.0, 3.0, -3.0, 1e6, math.inf])
    found = Losses(given, np.array([0.0, 1.0, 0.0, 0.0, 0.0]))
    assert found.losses[-1] == math.inf
    lowered = given[:-1] - found.losses[:-1]
    assert lowered == pytest.approx(1e-9 * (1.0 + np.abs(given[:-1])), rel=1e-3)
    assert found.log_weights == pytest.approx(np.array([0.0, 1.0, 0.0, 0.0, 0.0]) - 1e-9, rel=1e-12)


@pytest.mark.parametrize("delta", [0.3, 1e-3])
@pytest.mark.parametrize("error", [0.05, 1e-4])
def test_the_bound_is_the_last_epsilon_that_the_e_value_rejects(delta: float, error: float) -> None:
    losses = Losses(np.array([0.3, 2.0, 2.5, 4.0] * 8), np.log(np.linspace(0.5, 1.5, 32)))
    found = losses.epsilon_lower(delta, error)

    def evidence(epsilon: float) -> float:
        """By its definition: the mean over stakes of the product of 1 + c (f - 1)."""
        f = np.exp(losses.log_weights) * np.maximum(-np.expm1(epsilon - losses.losses), 0.0) / delta
        stakes = np.array([*np.geomspace(1e-3, 0.1, 6), *np.linspace(0.15, 0.95, 17), 0.98, 0.995])
        return float(np.log(np.mean(np.prod(1 + stakes[:, None] * (f - 1), axis=1))))

    assert 0.0 < found < 4.0
    assert evidence(found) >= math.log(1 / error) - 1e-9
    assert evidence(found + 1e-9) < math.log(1 / error) + 1e-9
    assert losses.evidence(ApproxDP(epsilon=1.7, delta=delta)) == pytest.approx(evidence(1.7), rel=1e-12)
    assert Losses(np.zeros(5), np.zeros(5)).epsilon_lower(delta, error) == 0.0


def test_one_recording_bounds_a_pure_epsilon() -> None:
    losses = Losses(np.array([-1.0, 0.7, 0.2]), np.zeros(3))
    assert losses.epsilon_lower(0.0, 0.05) == pytest.approx(0.7, abs=1e-8)
    assert losses.epsilon_lower(0.0, 0.05) < 0.7
    assert losses.p_value(PureDP(epsilon=0.7)) == 1.0
    assert losses.p_value(PureDP(epsilon=losses.epsilon_lower(0.0, 0.05))) == 1.0
    assert losses.p_value(PureDP(epsilon=0.699)) == 0.0
    assert Losses(np.array([-1.0]), np.zeros(1)).epsilon_lower(0.0, 0.05) == 0.0
    assert Losses(np.zeros(0), np.zeros(0)).epsilon_lower(0.0, 0.05) == 0.0
    assert Losses(np.array([math.inf]), np.zeros(1)).epsilon_lower(0.0, 0.05) == LARGEST_EPSILON
    for guarantee in (ApproxDP(epsilon=0.1, delta=0.01), ZCDP(rho=5.0)):
        evidence = losses.evidence(guarantee)
        assert losses.p_value(guarantee) == pytest.approx(math.exp(min(0.0, -evidence)), rel=1e-12)


@pytest.mark.parametrize(
    ("guarantee", "delta", "tests"),
    [
        (None, None, 1),
        (None, 0.1, 1),
        (ApproxDP(epsilon=1.0, delta=0.1), None, 1),
        (ApproxDP(epsilon=1.0, delta=0.1), 0.1, 1),
        (ApproxDP(epsilon=1.0, delta=0.1), 0.2, 2),
        (PureDP(epsilon=1.0), None, 1),
        (PureDP(epsilon=1.0), 0.1, 2),
        (ZCDP(rho=1.0), None, 2),
        (GDP(mu=1.0), 1e-5, 2),
    ],
)
def test_bound_and_p_value_share_the_error_unless_they_are_one_test(
    guarantee: AnyGuarantee | None, delta: float | None, tests: int
) -> None:
    assert [exact_loss.number_of_tests(directions, guarantee, delta) for directions in (1, 2, 6)] == [
        tests,
        2 * tests,
        6 * tests,
    ]
    one = Losses(np.full(40, 3.0), np.zeros(40))
    other = Losses(np.full(30, 2.0), np.zeros(30))
    nothing = FixedPair(0.0, 0.0)
    claim = None if guarantee is None else Claim(guarantee)
    found = loss_figures([Direction(one, nothing), Direction(other, nothing)], claim, delta, 0.95)
    own = {ApproxDP: 0.1, PureDP: 0.0}.get(type(guarantee), DEFAULT_DELTA)
    at = own if delta is None else delta
    assert found["delta"] == at
    assert found["epsilon_lower"] == max(each.epsilon_lower(at, 0.05 / (2 * tests)) for each in (one, other))
    assert "30 to 40 replays in each of 2 directions" in found["event"]
    if guarantee is not None:
        p_values = [each.p_value(guarantee) for each in (one, other)]
        assert found["p_value"] == pytest.approx(min(1.0, 2 * tests * min(p_values)), rel=1e-12)
        assert ("epsilon_claimed" in found) is (isinstance(guarantee, PureDP | ApproxDP))


def test_no_epsilon_is_claimed_below_the_claims_own_delta() -> None:
    direction = Direction(Losses(np.ones(5), np.zeros(5)), FixedPair(0.0, 0.0))
    claim = Claim(ApproxDP(epsilon=1.0, delta=0.1))
    assert "epsilon_claimed" not in loss_figures([direction], claim, 0.05, 0.95)
    assert loss_figures([direction], claim, 0.1, 0.95)["epsilon_claimed"] == 1.0
    assert "5 replays in each of 1 directions" in loss_figures([direction], claim, 0.1, 0.95)["event"]


def test_a_loss_in_closed_form_is_certain() -> None:
    """Of several directions the largest counts; what a claim's tolerance covers contradicts nothing."""
    nothing = Losses(np.zeros(5), np.zeros(5))
    directions = [Direction(nothing, FixedPair(1.3, 2.0)), Direction(nothing, FixedPair(0.5, 0.7))]
    found = loss_figures(directions, None, 1e-5, 0.95)
    assert (found["mu_lower"], found["epsilon_lower"]) == (1.3, epsilon_below(1e-5, 1.3))
    assert "at least mu = 1.3" in found["event"]
    assert loss_figures(directions, None, 0.0, 0.95)["epsilon_lower"] == 2.0
    at = epsilon_below(1e-5, 1.3)
    for exactly, less in (
        (PureDP(epsilon=2.0), PureDP(epsilon=2.0 * (1 - 1e-8))),
        (ApproxDP(epsilon=at, delta=1e-5), ApproxDP(epsilon=at * (1 - 1e-8), delta=1e-5)),
        (ZCDP(rho=0.845), ZCDP(rho=0.845 * (1 - 1e-8))),
        (RDP(alpha=3.0, epsilon=2.535), RDP(alpha=3.0, epsilon=2.535 * (1 - 1e-8))),
        (GDP(mu=1.3), GDP(mu=1.3 * (1 - 1e-8))),
    ):
        p_values = [loss_figures(directions, Claim(g), None, 0.95)["p_value"] for g in (exactly, less)]
        assert p_values == [1.0, 0.0]


def entry(mechanism: Any, query: Any, number: int = 0) -> Any:
    value = np.asarray(query, dtype=np.float64)
    release = Release(label="x", mechanism=mechanism)
    return SimpleNamespace(
        release=release, query=value, output=value, number=number, scale=None, rows=None, at=None
    )


GAUSSIAN = Gaussian(sigma=2.0, sensitivity=L2(1.0))


@pytest.mark.parametrize(
    ("mechanism", "one", "other", "mu", "largest"),
    [
        (GAUSSIAN, [1.0, 2.0], [0.0, 0.0], math.sqrt(5.0) / 2.0, math.inf),
        (GAUSSIAN, [1.0], [1.0], 0.0, 0.0),
        (Laplace(scale=2.0, sensitivity=L1(1.0)), [1.0, 2.0], [0.0, 4.0], 0.0, 1.5),
        (DiscreteLaplace(scale=4.0, sensitivity=L1(1.0)), [1.0], [4.0], 0.0, 0.75),
        (RandomizedResponse(epsilon=0.7, categories=3), [1.0, 2.0, 1.0], [0.0, 2.0, 0.0], 0.0, 1.4),
        (Exponential(epsilon=1.0), [3.0, 0.0], [0.0, 0.0], 0.0, None),
    ],
)
def test_the_first_question_has_a_loss_in_closed_form(
    mechanism: Any, one: Sequence[float], other: Sequence[float], mu: float, largest: float | None
) -> None:
    found = FixedPair.of([entry(mechanism, one)], [entry(mechanism, other)], whole=False)
    if largest is None:  # of a choice: the log ratio of the probabilities of the candidate that gains most
        weights = [mechanism.log_density(np.array(0.0), np.array(query)) for query in (one, other)]
        largest = weights[0] - weights[1]
        assert largest > 0.0
    assert mu * (1 - 1e-12) <= found.mu <= mu
    assert (found.largest == largest == math.inf) or largest * (1 - 1e-12) <= found.largest <= largest
    assert found.epsilon(0.0) == min(found.largest, LARGEST_EPSILON)


def test_later_questions_count_where_somebody_states_that_queries_are_fixed() -> None:
    one, other = ([entry(GAUSSIAN, [at * move], at) for at in range(3)] for move in (0.0, 1.0))
    assert FixedPair.of(one, other, whole=False).mu == 0.0
    assert FixedPair.of(one, other, whole=True).mu == pytest.approx(math.sqrt(1.0 + 4.0) / 2.0, rel=1e-12)
    # An opening has no output: the question after it is the first.
    opening = entry(GAUSSIAN, [])
    assert FixedPair.of([opening, *one[1:]], [opening, *other[1:]], whole=False).mu == pytest.approx(0.5)
    assert FixedPair.of([opening], [opening], whole=False).mu == 0.0
    noise = Laplace(scale=1.0, sensitivity=L1(1.0))
    one, other = ([entry(noise, [at * move], at) for at in range(3)] for move in (0.0, 1.0))
    assert FixedPair.of(one, other, whole=True).largest == pytest.approx(3.0, rel=1e-12)
    mixed = FixedPair.of([entry(GAUSSIAN, [0.0]), *one[2:]], [entry(GAUSSIAN, [1.0]), *other[2:]], whole=True)
    assert (mixed.mu, mixed.largest) == (pytest.approx(0.5, rel=1e-12), math.inf)


@pytest.mark.parametrize("known", [(None, 1.0), (1.0, None), (None, None)])
def test_a_density_that_is_unknown_on_one_side_is_unknown(known: tuple[float | None, float | None]) -> None:
    sides = iter(known)
    mechanism = SimpleNamespace(log_likelihood=lambda made, asked: next(sides))
    release = SimpleNamespace(mechanism=mechanism, label="x", sample=None)
    one, other = (
        SimpleNamespace(release=release, query=np.array([at]), scale=None, rows=None, number=0)
        for at in (0.0, 1.0)
    )
    with pytest.raises(NoDensity, match="'x' is not known"):
        log_ratio([one], queries_of([one]), queries_of([other]))  # type: ignore[list-item]


def test_a_release_moves_by_its_query_its_scale_or_its_rows() -> None:
    """Rows that add up to the same query count too: another sample would tell them apart."""
    still = Asked(np.array([1.0, 2.0]), 3.0, np.array([[1.0], [2.0]]))
    moved = [
        Asked(np.array([1.0, 2.5]), 3.0, still.rows),
        Asked(np.array([1.0, 2.0]), 3.5, still.rows),
        Asked(np.array([1.0, 2.0]), 3.0, np.array([[1.5], [1.5]])),
        Asked(np.array([1.0, 2.0]), 3.0, np.array([[1.0], [2.0], [0.0]])),
        Asked(np.array([1.0, 2.0]), 3.0, np.array([[1.0, 2.0]])),
    ]
    assert [likelihood._differ(still, other) for other in moved] == [True] * 5
    same = [
        still,
        Asked(np.array([1.0, 2.0]), 3.0, None),
        Asked(np.array([1.0, 2.0]), 3.0, still.rows.copy()),
    ]
    assert [likelihood._differ(still, other) for other in same] == [False] * 3
    assert not likelihood._differ(same[1], same[1])
    assert not likelihood._differ(same[1], still)


def test_a_secret_sample_has_a_density_if_its_rows_are_known() -> None:
    sampled = PoissonSampled(rate=0.5, mechanism=GAUSSIAN)
    unknown, opening = entry(sampled, [1.0]), entry(sampled, [])
    known = entry(sampled, [1.0])
    known.rows = np.ones((3, 1))
    likelihood.require_densities([known, opening, entry(GAUSSIAN, [1.0])])
    with pytest.raises(NoDensity, match="secret sample"):
        likelihood.require_densities([known, unknown])


def test_what_is_not_known_has_no_loss_in_closed_form() -> None:
    unknown: Any = SimpleNamespace(release=SimpleNamespace(mechanism=object()), query=np.zeros(1))
    assert exact_loss._largest_loss(unknown, unknown) == 0.0
    many = ReportNoisyMax(epsilon=1.0, noise_law="laplace")
    assert exact_loss._largest_loss(entry(many, np.eye(500)[0]), entry(many, np.zeros(500))) == 0.0


def test_the_largest_loss_of_a_choice_is_that_of_the_candidate_that_gains_most() -> None:
    """The second, whose weight is 3/4 more: it is neither the likeliest nor the one of the largest sum."""
    mechanism, one, other = Exponential(epsilon=2.0), [2.0, 0.75, 1.0], [2.25, 0.0, 1.5]
    found = exact_loss._largest_loss(entry(mechanism, one), entry(mechanism, other))
    rest = math.log(sum(map(math.exp, other)) / sum(map(math.exp, one)))
    assert found == pytest.approx(0.75 + rest, rel=1e-12)
