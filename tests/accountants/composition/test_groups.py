"""Groups of units against brute force: every way to place the group's units, and chains of neighbours."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpaudit import (
    L1,
    ZCDP,
    Claim,
    Curator,
    Exponential,
    Gaussian,
    Ledger,
    Neighbouring,
    OpaqueApproxDP,
    OpaquePureDP,
    OpaqueZCDP,
    Partition,
    RandomizedResponse,
    Release,
    ReportNoisyMax,
    SmoothGaussian,
    SparseVector,
    Tabulated,
    run,
)
from dpaudit.accountants.accounting import account
from dpaudit.accountants.composition.composition import compose, for_group
from dpaudit.accountants.composition.costs import mu_squared, pure_epsilon, rho
from dpaudit.accountants.pairs.smooth import smooth_delta
from dpaudit.errors import CannotBound, InvalidParameter
from tests import make
from tests.accountants.composition.placements import placements

GAUSSIAN = make.gaussian(2.0)
LAPLACE = make.laplace(2.0)
SAMPLED = make.poisson(GAUSSIAN, 0.1)
PARTITION = st.builds(
    Partition,
    part=st.sampled_from("abc"),
    split=st.sampled_from("xy"),
    by=st.sampled_from(["position", "values"]),
)
RELEASES = st.lists(
    st.builds(
        Release,
        label=st.just("r"),
        mechanism=st.sampled_from([GAUSSIAN, LAPLACE]),
        count=st.integers(1, 3),
        partition=st.none() | PARTITION,
    ),
    max_size=6,
)


def brute_force(releases: list[Release], relation: Neighbouring, size: int) -> Fraction:
    """The largest sum of squared sensitivities."""
    return max(
        sum((release.count * square(release.mechanism, units) for release, units in way), Fraction(0))
        for way in placements(releases, relation, size)
    )


def square(mechanism: Any, units: int) -> Fraction:
    scale = Fraction(mechanism.sigma if isinstance(mechanism, Gaussian) else mechanism.scale)
    return (Fraction(mechanism.sensitivity.value) * units / scale) ** 2


@given(RELEASES, st.sampled_from(list(Neighbouring)), st.integers(1, 3))
def test_totals_are_those_of_the_worst_placement(
    releases: list[Release], relation: Neighbouring, size: int
) -> None:
    def cost(mechanism: Any) -> float:
        return float(square(mechanism, 1))

    composition = compose(releases, relation, size)
    worst = brute_force(releases, relation, size)
    assert composition.total(cost) == pytest.approx(float(worst), rel=1e-12)
    listed = [
        sum((square(m, 1) * n for m, n in exposure.items()), Fraction(0))
        for exposure in composition.exposures()
    ]
    assert max(listed) == worst
    assert all(set(exposure) <= composition.mechanisms() for exposure in composition.exposures())


@pytest.mark.parametrize("size", [1, 2, 5])
def test_sensitivities_scale_and_the_figures_follow(size: int) -> None:
    for mechanism in (GAUSSIAN, LAPLACE, make.discrete_gaussian(2.0)):
        grouped, times = for_group(mechanism, size)
        assert times == 1
        assert grouped.sensitivity.value == size
        assert grouped.sensitivity.norm == mechanism.sensitivity.norm
    assert rho(for_group(GAUSSIAN, size)[0]) == pytest.approx(size**2 * rho(GAUSSIAN))
    assert mu_squared(for_group(GAUSSIAN, size)[0]) == pytest.approx(size**2 * mu_squared(GAUSSIAN))
    for mechanism in (
        LAPLACE,
        make.discrete_laplace(2.0),
        Exponential(epsilon=0.5),
        ReportNoisyMax(epsilon=0.5),
        SparseVector(epsilon=0.5, sensitivity=L1(1.0)),
        OpaquePureDP(epsilon=0.5, justification="x"),
        RandomizedResponse(epsilon=0.5),
    ):
        grouped, times = for_group(mechanism, size)
        assert times * pure_epsilon(grouped) == pytest.approx(0.5 * size)
    assert rho(for_group(OpaqueZCDP(rho=0.1, justification="x"), size)[0]) == pytest.approx(0.1 * size**2)


def test_an_approximate_guarantee_is_chained() -> None:
    """delta_k = delta + e^epsilon delta_(k-1): one neighbour after the other."""
    grouped, _ = for_group(OpaqueApproxDP(epsilon=0.3, delta=1e-6, justification="x"), 4)
    assert isinstance(grouped, OpaqueApproxDP)
    delta = 0.0
    for _ in range(4):
        delta = 1e-6 + math.exp(0.3) * delta
    assert delta <= grouped.delta <= delta * math.exp(4 * 0.3)
    assert grouped.epsilon >= 1.2
    with pytest.raises(CannotBound):
        for_group(OpaqueApproxDP(epsilon=20.0, delta=1e-6, justification="x"), 4)


@pytest.mark.nightly
def test_smooth_noise_covers_every_chain() -> None:
    smooth = SmoothGaussian(alpha=10.0, beta=0.1, dimension=2, epsilon=1.0, delta=1e-6)
    grouped, _ = for_group(smooth, 3)
    assert isinstance(grouped, SmoothGaussian)
    assert grouped.beta >= 0.3
    rng = np.random.default_rng(0)
    for _ in range(2000):
        logs = np.concatenate([[0.0], np.cumsum(rng.choice([-1.0, 1.0, 0.3], 3) * 0.1)]) / 2.0
        scales = np.exp(logs)
        shift = sum(min(a, b) / 10.0 for a, b in itertools.pairwise(scales))
        assert shift <= min(scales[0], scales[-1]) / grouped.alpha * (1 + 1e-12)
    assert smooth_delta(1.0, grouped.alpha, grouped.beta, 2) > smooth_delta(1.0, 10.0, 0.1, 2)


def test_randomized_response_of_a_group_is_that_of_several_entries() -> None:
    """Two units' entries both differ: enumerate the four answers."""
    keep = math.exp(0.7) / (1 + math.exp(0.7))
    p = Counter({(a, b): (keep, 1 - keep)[a] * (keep, 1 - keep)[b] for a in (0, 1) for b in (0, 1)})
    q = {(a, b): p[1 - a, 1 - b] for a, b in p}
    delta = sum(max(0.0, p[o] - math.exp(0.9) * q[o]) for o in p)
    composition = make.composition(
        RandomizedResponse(epsilon=0.7), relation=Neighbouring.REPLACE_ONE, units=2
    )
    assert min(make.figures(composition, delta).values()) == pytest.approx(0.9, rel=1e-9)


@pytest.mark.parametrize(
    "mechanism", [SAMPLED, Tabulated(losses=(0.0,), probabilities=(1.0,), justification="x")]
)
def test_what_has_no_bound_for_groups_is_refused(mechanism: Any) -> None:
    with pytest.raises(CannotBound, match="groups of 2"):
        make.figures(make.composition(mechanism, units=2), 1e-6)


def grouped_ledger(size: int, **header: Any) -> Ledger:
    release = make.release(GAUSSIAN, claimed=ZCDP(rho=0.125))
    return make.ledger(release, neighbouring="replace-one", group_size=size, **header)


def test_the_header_says_of_how_many_units_a_claim_speaks(tmp_path: Any) -> None:
    assert account(grouped_ledger(1), Claim(ZCDP(rho=0.125))).all_proved
    accounting = account(grouped_ledger(3), Claim(ZCDP(rho=9 * 0.125)))
    assert accounting.bounds[0].guarantee.rho == pytest.approx(9 * 0.125)
    assert accounting.verdict == "PROVED"
    assert accounting.releases[0].verdict == "NOT_PROVED"
    budget = account(grouped_ledger(3, schedule="filtered", budget=ZCDP(rho=0.2)))
    assert budget.bounds[0].guarantee.rho == pytest.approx(9 * 0.2)
    assert "group_size" not in grouped_ledger(1).header.to_json()
    path = grouped_ledger(3).write(tmp_path / "l.jsonl")
    assert Ledger.read(path).header.group_size == 3
    for bad in (0, -1, 1.5, True):
        with pytest.raises(InvalidParameter):
            grouped_ledger(bad)  # type: ignore[arg-type]


def test_a_run_about_groups_is_accounted_for_as_such() -> None:
    def algorithm(data: float, curator: Curator) -> None:
        curator.release(data, GAUSSIAN, label="x")

    claim = Claim(ZCDP(rho=9 * 0.125), unit="row", neighbouring="replace-one")
    grouped = run(algorithm, 1.0, claim=claim, group_size=3).ledger
    assert grouped.header.group_size == 3
    assert account(grouped).bounds[0].guarantee == ZCDP(rho=9 * 0.125)
    single = run(algorithm, 1.0, claim=claim).ledger
    assert account(single).bounds[0].guarantee == ZCDP(rho=0.125)


@pytest.mark.parametrize("size", [0, -1, 1.5, True, math.nan, None, "2"])
def test_a_run_about_no_whole_group_is_refused_before_it_starts(size: Any, tmp_path: Path) -> None:
    def started(data: float, curator: Curator) -> None:
        raise AssertionError("it ran")

    with pytest.raises(InvalidParameter, match="group_size"):
        run(started, 1.0, group_size=size, path=tmp_path / "l.jsonl")
    assert list(tmp_path.iterdir()) == []
