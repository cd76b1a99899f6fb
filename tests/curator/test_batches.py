"""Sums over batches that are drawn first: the same release as `release_sum`, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy

import dpaudit
from dpaudit import (
    L2,
    ApproxDP,
    Claim,
    Curator,
    DiscreteGaussian,
    FixedSizeSampled,
    Gaussian,
    Header,
    Laplace,
    Ledger,
    LiveNoise,
    MatrixMechanism,
    NoNoise,
    Pair,
    PoissonSampled,
    RandomizedResponse,
)
from dpaudit.accountants.filters.renyi import RDPFilter
from dpaudit.claims.sensitivity import L1
from dpaudit.curator import batches as batches_module
from dpaudit.curator.noise import ReplayedNoise, Transcript
from dpaudit.errors import BudgetExceeded, InvalidParameter, ScheduleBroken, SensitivityTooSmall
from tests.certified import certified

QUIET = Gaussian(sigma=2.0**-20, sensitivity=L2(1.0))
HALF = PoissonSampled(rate=0.5, mechanism=QUIET)
ROWS = np.eye(40) * np.linspace(0.2, 2.0, 40)
CLIPPED = np.minimum(np.linspace(0.2, 2.0, 40), 1.0)


def curator(noise: Any = None, relation: str = "add-or-remove-one", **options: Any) -> Curator:
    return Curator(Ledger(Header(algorithm="a", unit="row", neighbouring=relation)), noise, **options)


def test_a_batch_is_the_sum_of_its_clipped_rows_however_they_are_handed_in() -> None:
    own = curator()
    batches = own.batches(HALF, "gradient", (40,), bound=1.0)
    for pieces in (1, 3):
        places = batches.draw(40)
        assert 0 < len(places) < 40
        for piece in np.array_split(places, pieces):
            batches.add(ROWS[piece].astype(np.float32 if pieces == 3 else np.float64))
        inside = np.zeros(40)
        inside[places] = CLIPPED[places]
        assert batches.noisy() == pytest.approx(inside, abs=1e-4)
    like = curator()
    like.release_sum(ROWS, bound=1.0, mechanism=HALF, label="gradient")
    assert own.ledger.releases == like.ledger.releases * 2


def test_everybody_is_drawn_with_the_stated_probability() -> None:
    """Fixed seed; a false alarm has a probability below 1e-6."""
    batches = curator(LiveNoise(3)).batches(
        PoissonSampled(rate=0.1, mechanism=QUIET), "gradient", (1,), bound=1.0
    )
    counts = np.zeros(50)
    for _ in range(200):
        places = batches.draw(50)
        counts[places] += 1
        batches.add(np.zeros((len(places), 1)))
        batches.noisy()
    tails = scipy.stats.binom.cdf(counts, 200, 0.1), scipy.stats.binom.sf(counts - 1, 200, 0.1)
    assert np.minimum(*tails).min() > 1e-6 / 100


def test_an_empty_batch_is_noise_and_a_fixed_size_is_one() -> None:
    never = PoissonSampled(rate=1e-12, mechanism=QUIET)
    batches = curator().batches(never, "gradient", (3, 2), bound=1.0)
    assert batches.draw(5).tolist() == []
    noisy = batches.noisy()
    assert noisy.shape == (3, 2)
    assert 0.0 < np.abs(noisy).max() < 1e-4
    fixed = FixedSizeSampled(size=7, units=40, mechanism=Gaussian(sigma=1.0, sensitivity=L2(2.0)))
    assert len(curator(relation="replace-one").batches(fixed, "g", (40,), bound=1.0).draw(40)) == 7


def test_without_a_sample_everybody_is_in_the_sum() -> None:
    batches = curator().batches(QUIET, "gradient", (40,), bound=1.0)
    assert batches.draw(40).tolist() == list(range(40))
    batches.add(ROWS)
    assert batches.noisy() == pytest.approx(CLIPPED, abs=1e-4)

    exact = curator(NoNoise()).batches(QUIET, "gradient", (), bound=1.0)
    exact.draw(3)
    exact.add([0.25, 3.0, -0.5])
    assert float(exact.noisy()) == pytest.approx(0.75, abs=1e-10)
    exact.draw(1)
    with pytest.raises(InvalidParameter, match="rows of shape"):
        exact.add(0.5)


def test_whole_noise_has_rows_that_are_cut_to_whole_numbers() -> None:
    noise = DiscreteGaussian(sigma=2.0, sensitivity=L2(5.0))
    for bound, rows in ((5.0, [[1.75, -2.5], [0.5, 9.0]]), (2.0**45, [[1e300, 0.5], [7.0, 2.0**20]])):
        sized = noise.with_sensitivity(L2(bound))
        batches = curator(NoNoise()).batches(sized, "gradient", (2,), bound=bound)
        batches.draw(2)
        batches.add(rows)
        like = curator(NoNoise()).release_sum(rows, bound=bound, mechanism=sized, label="gradient")
        found = batches.noisy()
        assert found == pytest.approx(like, rel=2.0**-38)
        assert bound > 5.0 or found.tolist() == [1.0, 2.0]


def test_int64_adds_the_rows_of_fewer_than_so_many_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches_module, "MOST_ROWS", 4)
    batches = curator().batches(QUIET, "gradient", (1,), bound=1.0)
    batches.draw(9)
    kinds = []
    for _ in range(3):
        batches.add(np.ones((3, 1)))
        kinds.append(batches._parts[0].dtype)
    assert kinds == [np.int64, object, object]


def test_a_sample_of_a_stated_size_knows_how_many_units_there_are() -> None:
    """Where a unit is added or removed there may be more of them, else there may not."""
    fixed = FixedSizeSampled(size=3, units=5, mechanism=Gaussian(sigma=1.0, sensitivity=L2(2.0)))

    def draw(relation: str, units: int) -> None:
        curator(relation=relation).batches(fixed, "g", (1,), bound=1.0).draw(units)

    def sum_of(relation: str, units: int) -> None:
        curator(relation=relation).release_sum(np.ones((units, 1)), bound=1.0, mechanism=fixed, label="g")

    for made in (draw, sum_of):
        made("add-or-remove-one", 6)
        made("replace-one", 5)
        with pytest.raises(InvalidParameter, match="more units"):
            made("replace-one", 6)


def test_a_recorded_run_is_that_of_a_sum_of_all_rows() -> None:
    """So that replay judges both alike, and repeats a run with what was recorded."""
    kept, like = Transcript(), Transcript()
    batches = curator(LiveNoise(1), transcript=kept).batches(HALF, "gradient", (40,), bound=1.0)
    assert batches.draw(40).tolist() == list(range(40))
    batches.add(ROWS[:30])
    batches.add(ROWS[30:])
    output = batches.noisy()
    curator(LiveNoise(1), transcript=like).release_sum(ROWS, bound=1.0, mechanism=HALF, label="gradient")
    [entry], [other] = kept.entries, like.entries
    assert (entry.release, entry.query.tolist()) == (other.release, other.query.tolist())
    assert output.tolist() == other.output.tolist()
    again = curator(ReplayedNoise(kept)).batches(HALF, "gradient", (40,), bound=1.0)
    again.draw(39)
    again.add(ROWS[:39])
    assert again.noisy().tolist() == output.tolist()
    exact = curator(NoNoise()).batches(HALF, "gradient", (40,), bound=1.0)
    exact.draw(40)
    exact.add(ROWS)
    assert exact.noisy() == pytest.approx(CLIPPED / 2, abs=1e-9)


@pytest.mark.parametrize("noise", [None, NoNoise()])
def test_a_batch_is_drawn_filled_and_released_once(noise: Any) -> None:
    batches = curator(noise).batches(HALF, "gradient", (40,), bound=1.0)
    with pytest.raises(ScheduleBroken, match="no batch drawn"):
        batches.noisy()
    with pytest.raises(ScheduleBroken, match="2 rows in a batch of 0"):
        batches.add(ROWS[:2])
    places = batches.draw(40)
    batches.add(ROWS[places])
    with pytest.raises(ScheduleBroken, match="twice the bound"):
        batches.add(ROWS[places[:1]])
    batches.noisy()
    places = batches.draw(40)
    batches.add(ROWS[places[1:]])
    with pytest.raises(ScheduleBroken, match="add the row of every drawn unit"):
        batches.noisy()


def test_batches_that_were_drawn_ahead_are_filled_in_their_order() -> None:
    batches = curator().batches(HALF, "gradient", (40,), bound=1.0)
    ahead = [batches.draw(40) for _ in range(3)]
    for places in ahead[:2]:
        batches.add(ROWS[places])
        assert np.flatnonzero(batches.noisy() > 0.1).tolist() == places.tolist()
    batches.add(ROWS[ahead[2][:1]])
    batches.drop()
    with pytest.raises(ScheduleBroken, match="no batch drawn"):
        batches.noisy()
    batches.add(ROWS[batches.draw(40)])
    batches.drop()
    places = batches.draw(40)
    batches.add(ROWS[places])
    assert np.flatnonzero(batches.noisy() > 0.1).tolist() == places.tolist()


@pytest.mark.parametrize("rows", [np.zeros((1, 39)), np.zeros(40), 1.0, [["a"] * 40], np.zeros((1, 40)) * 1j])
def test_rows_of_another_form_are_refused(rows: Any) -> None:
    batches = curator().batches(HALF, "gradient", (40,), bound=1.0)
    batches.draw(40)
    with pytest.raises(InvalidParameter, match="rows of shape"):
        batches.add(rows)


def test_what_cannot_be_batched_is_refused_before_anything_is_written() -> None:
    own = curator()
    with pytest.raises(SensitivityTooSmall):
        own.batches(HALF, "g", (2,), bound=2.0)
    replaced = Gaussian(sigma=1.0, sensitivity=L2(1.9))  # two opposed rows are 2 apart
    with pytest.raises(SensitivityTooSmall):
        curator(relation="replace-one").batches(replaced, "g", (2,), bound=1.0)
    for bound in (0.0, -1.0, np.nan):
        with pytest.raises(InvalidParameter, match="contribution bound"):
            own.batches(HALF, "g", (2,), bound=bound)
    tree = MatrixMechanism(
        steps=2, sigma=1.0, sensitivity=L2(1.0), strategy=dpaudit.Toeplitz(coefficients=(1.0,))
    )
    for mechanism in (tree, RandomizedResponse(epsilon=1.0)):
        with pytest.raises(InvalidParameter):
            own.batches(mechanism, "g", (2,), bound=1.0)
    assert len(own.ledger.releases) == 0


@pytest.mark.parametrize("units", [-1, 1.5, True, "3", None])
def test_only_a_number_of_units_is_drawn_from(units: Any) -> None:
    batches = curator().batches(Gaussian(sigma=1.0, sensitivity=L2(1.0)), "g", (2,), bound=1.0)
    with pytest.raises(InvalidParameter, match="units="):
        batches.draw(units)
    assert batches.draw(np.int64(2)).tolist() == [0, 1]


def test_laplace_noise_goes_by_the_sum_of_magnitudes() -> None:
    noise = PoissonSampled(rate=1.0, mechanism=Laplace(scale=2.0**-20, sensitivity=L1(1.0)))
    batches = curator().batches(noise, "g", (2,), bound=1.0)
    batches.draw(1)
    batches.add([[3.0, 1.0]])
    assert batches.noisy() == pytest.approx([0.75, 0.25], abs=1e-3)


def test_a_filter_stops_before_its_budget_would_be_exceeded() -> None:
    noise = PoissonSampled(rate=0.5, mechanism=Gaussian(sigma=3.0, sensitivity=L2(1.0)))
    held = RDPFilter.within(ApproxDP(epsilon=2.0, delta=1e-5), noise)
    own = curator(budget=held)
    batches = own.batches(noise, "g", (1,), bound=1.0)

    def train() -> None:
        for _ in range(1000):
            batches.add(np.ones((len(batches.draw(9)), 1)))
            batches.noisy()

    with pytest.raises(BudgetExceeded):
        train()
    made = len(own.ledger.releases)
    assert 3 < made < 1000
    assert dpaudit.epsilon(noise, 1e-5, count=made).guarantee.epsilon <= 2.0


def quickly(target: Any, pairs: Any, **options: Any) -> Any:
    return dpaudit.replay(target, pairs, claim=options["claim"], replays=1, extreme_outputs=False)


def trained(rows: Any, own: Curator) -> Any:
    noise = PoissonSampled(rate=0.5, mechanism=Gaussian(sigma=0.1, sensitivity=L2(1.0)))
    batches = own.batches(noise, "gradient", (40,), bound=1.0)
    found = []
    for _ in range(2):
        for piece in np.array_split(batches.draw(len(rows)), 3):
            batches.add(rows[piece])
        found.append(batches.noisy())
    return np.array(found)


@pytest.mark.usefixtures("own_processes")
def test_batches_are_drawn_beside_the_data_and_noise_elsewhere() -> None:
    """The target's process draws the sample, its twin without data another, and neither is sent.

    A number is 10 standard deviations from what it must not be near.
    """
    claim = Claim(ApproxDP(epsilon=1e9, delta=1e-5), unit="row", neighbouring="add-or-remove-one")
    rows = 2.0 * np.eye(40)
    pair = Pair(rows[:2], rows[:1], "one")
    made = certified(trained, rows, curves=False, claim=claim, pairs=pair, auditor=quickly)
    inside = made.run.output > 0.5
    assert np.abs(made.run.output - inside).max() < 0.8
    assert 0 < inside.sum() < 80
    assert not made.divergences
