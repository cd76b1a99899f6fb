"""Theory beside practice: slopes and bounds by hand, and the page that its program makes."""

import importlib
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

DOCS = Path(__file__).parents[3] / "docs"
SIZES = [100, 1000, 10_000]
EVERYDAY = ("dp-apvi", "dp-lsw", "functional-noise")


@pytest.fixture(scope="module")
def script() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS / "programs")
        return importlib.import_module("make_theory")


@pytest.fixture(scope="module")
def studies(script: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS / "programs")
        return importlib.import_module("papers.theory_studies")


@pytest.mark.parametrize("exponent", [-2.0, -0.5, 0.75, 1.0])
def test_a_planted_power_law_is_found_and_another_one_is_told_apart(script: Any, exponent: float) -> None:
    noise = np.random.default_rng(0).lognormal(sigma=0.1, size=(3, 40))
    found = script.slope(SIZES, np.array(SIZES, float)[:, None] ** exponent * noise)
    assert found.low < exponent < found.high
    assert found.high - found.low < 0.05
    assert script.told(found, (exponent, exponent)) == "yes"
    worse = script.told(found, (exponent - 0.2, exponent - 0.2))
    assert worse == ("no: more slowly" if exponent < 0.2 else "no: more steeply")
    better = script.told(found, (exponent + 0.2, exponent + 0.2))
    assert better == ("at least as fast" if exponent < -0.2 else "no faster")


def test_where_nothing_is_lost_there_is_no_slope(script: Any) -> None:
    assert script.power(SIZES, np.array([1.0, 0.1, 0.0])) == pytest.approx(-1.0)
    found = script.slope(SIZES, np.zeros((3, 5)))
    assert str(found) == "none"
    assert script.told(found, (-0.5, -1.0)) == "nothing is lost"
    assert str(script.Slope(-0.001, -0.002, 1.0)) == "0.00 (0.00 to 1.00)"


def test_visits_are_distributions_and_earn_the_value(studies: Any) -> None:
    mdp = studies.APVI_PROCESS
    found = studies.occupancy(mdp, mdp.optimal_policy())
    assert found.sum(axis=(1, 2)) == pytest.approx(np.ones(mdp.horizon))
    assert float((found * mdp.rewards).sum()) == pytest.approx(float(mdp.initial @ mdp.optimal_values()[0]))


def test_the_bound_of_dp_apvi_by_hand(studies: Any) -> None:
    mdp, total = studies.APVI_PROCESS, mpmath.mpf(0)
    horizon, n_states, n_actions = mdp.rewards.shape
    values, policy = mdp.optimal_values(), mdp.optimal_policy()
    iota = mpmath.log(horizon * n_states * n_actions / mpmath.mpf("0.1"))
    noise = 4 * mpmath.sqrt(
        horizon * mpmath.log(4 * horizon * n_states**2 * n_actions / mpmath.mpf("0.1")) / 2
    )
    best, uniform = mdp.initial, mdp.initial
    for h in range(horizon):
        for s in range(n_states):
            row = mdp.transitions[h, s, policy[h, s]]
            variance = float(row @ values[h + 1] ** 2 - (row @ values[h + 1]) ** 2)
            visits = 1000 * uniform[s] / n_actions
            main = 4 * mpmath.sqrt(2 * variance * iota / visits)
            total += best[s] * (main + mpmath.mpf(256) / 3 * n_states * horizon * noise * iota / visits)
        best = sum(best[s] * mdp.transitions[h, s, policy[h, s]] for s in range(n_states))
        uniform = sum(uniform[s] * mdp.transitions[h, s].mean(axis=0) for s in range(n_states))
    assert studies.apvi_bound(2.0, 1000) == pytest.approx(float(total), rel=1e-9)


def test_the_orders_by_hand(studies: Any) -> None:
    assert studies.proposition_10(0.4, 100) == pytest.approx(0.8 * math.sqrt(2 / math.pi) / 5 * math.sqrt(1))
    by_hand = 4**1.25 * 6**1.75 * 6000**0.75 * math.log(60) ** 0.25 / 10**0.5
    assert studies.vtr_order(10.0, 1000) == pytest.approx(by_hand)
    below = 5 * 6 * math.sqrt(6000) / (math.exp(0.1) * (math.exp(0.1) - 1))
    assert studies.local_lower(0.1, 1000) == pytest.approx(below)
    assert studies.local_lower(2.0, 1000) == pytest.approx(30 * math.sqrt(6000) / (2 * (math.exp(2) - 1)))
    assert studies.lsvi_order(16.0, 400) == pytest.approx((5**1.5 * 25 + 125 * 5**1.25 / 2) * 20)
    assert studies.risk_order(2.0, 500) == 1e-6
    joint = 36 * 9 * 2 * math.sqrt(6 / 0.1) + math.sqrt(36 * 6 * 600)
    assert studies.ucbvi_order(0.1, 100, local=False) == pytest.approx(joint)
    local = 9 * 2 * math.sqrt(6**5 * 600) / 4 + math.sqrt(36 * 6 * 600)
    assert studies.ucbvi_order(4.0, 100, local=True) == pytest.approx(local)
    assert studies.ucbvi_lower(4.0, 100) == pytest.approx(math.sqrt(36 * 600) / 4 + math.sqrt(36 * 6 * 600))
    # The larger of the two sizes that Theorem 3 asks for is the one at hand.
    for budget, size in ((0.1, 10**3), (10.0, 10**6)):
        alpha = studies.gradient_order(budget, size)
        assert size == pytest.approx(max(alpha**-4, math.sqrt(12) / (alpha**3 * budget)))
    # As K grows the terms of Theorem 4.1 fall as 1/sqrt(K) and 1/K.
    assert studies.vapvi_order(1.0, 10**12) / studies.vapvi_order(1.0, 10**14) == pytest.approx(10, rel=0.05)


def test_the_loss_under_functional_noise_is_none_without_noise_and_at_most_the_whole(studies: Any) -> None:
    assert studies.noisy_value_loss(1e-12, 30, 0) == pytest.approx(0.0, abs=1e-9)
    # The worse action loses at most 0.4 in a step here, 1/(1 - gamma) times in all.
    assert 0.0 <= studies.noisy_value_loss(50.0, 30, 1) <= 0.8


@pytest.fixture(scope="module")
def small(studies: Any, nightly: bool) -> dict[str, Any]:
    """Every study at its least sizes, with two budgets; every day those that take the shortest."""
    one: dict[str, Any] = {}
    for name, study in studies.STUDIES.items():
        sizes = (
            study.sizes
            if study.along is not None
            else tuple(min(n, 400) // d for n, d in zip(study.sizes[:2], (5, 1), strict=True))
        )
        one[name] = replace(study, budgets=study.budgets[-2:], sizes=sizes, runs=2)
    del one["ldp-ucrl-vtr"]  # its single run has all of its users
    return one if nightly else {name: one[name] for name in EVERYDAY}


def test_the_program_at_a_small_size(
    script: Any, studies: Any, small: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(studies, "STUDIES", small)
        patch.setattr(script, "STUDIES", small)
        kept = tmp_path / "runs.csv"
        first = script.measure(list(small.values()), kept)
        page = script.theory_page(first)
        assert script.measure(list(small.values()), kept) == first
        assert script.picture(first)["concat"][0]["title"] == next(iter(small))
    for study in small.values():
        assert f"## {study.title}" in page
        for size in study.sizes:
            assert re.search(rf"^\| {study.budgets[0]:g} \| {size} \| [\d.e+-]+ ± ", page, re.MULTILINE)
    assert "nan" not in page


def test_a_mean_above_its_bound_is_reported(script: Any, studies: Any, small: dict[str, Any]) -> None:
    study = replace(small["dp-apvi"], budgets=(10.0,), bound=lambda *_: 1e-6)
    points = [replace(point, measured=1.0 + point.seed / 10) for point in study.points()]
    assert (
        f"**The mean is above the bound at 2 of 2 places: rho = 10, n = {study.sizes[0]}"
        in script.section(study, points)
    )
    kind = replace(study, bound=lambda *_: 10.0)
    assert "above the bound at none of 2 places" in script.section(kind, points)


def test_the_stored_page_has_every_study_and_its_cheapest_figures(script: Any, studies: Any) -> None:
    stored = (DOCS / "papers" / "theory.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", stored, re.MULTILINE) == [s.title for s in studies.STUDIES.values()]
    for name in ("dp-lsw", "functional-noise"):
        study = studies.STUDIES[name]
        budget, size = study.budgets[0], study.sizes[0]
        runs = np.array([study.measure(budget, size, seed) for seed in range(study.runs)])
        row = re.search(
            rf"^\| {budget:g} \| {size} \| ([\d.e-]+) ± ",
            stored.partition(f"## {study.title}")[2],
            re.MULTILINE,
        )
        assert row is not None
        assert float(row[1]) == pytest.approx(float(runs.mean()), rel=1e-2), (
            "run: python docs/programs/make_theory.py"
        )
