"""Keys by noise: probabilities against the definition, thresholds against tails, the curator's call."""

import importlib
import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.optimize import linprog

from dpaudit import ApproxDP, Claim, Curator, KeySelection, NoNoise, account, run
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms.selecting.keys import decoded, encode
from tests import oracles
from tests.sweeps import sweep

PARAMETERS = [
    (1.0, 1e-6, 1),
    (0.1, 1e-9, 3),
    (3.0, 0.3, 2),
    (1e-3, 1e-4, 1),
    (700.0, 1e-300, 1),
    (1e9, 0.5, 10**6),
    (0.5, 0.999, 1),
    (1.0, 1e-17, 1),
]


def selection(method: str, epsilon: float, delta: float, changes: int) -> KeySelection:
    return KeySelection(method=method, epsilon=epsilon, delta=delta, changes=changes)


@pytest.mark.parametrize(("epsilon", "delta", "changes"), PARAMETERS)
def test_each_coin_is_private_for_one_unit(epsilon: float, delta: float, changes: int) -> None:
    """The four inequalities of (a, b)-DP for a coin, from 60 digits: no theorem is used."""
    chances = selection("optimal", epsilon, delta, changes).probabilities(10**6)
    with mp.workdps(60):
        growth, slack = mp.exp(mpf(epsilon) / changes), mpf(delta) / changes
        assert chances[0] == 0.0
        for p, q in itertools.pairwise([*map(mpf, chances), mpf(chances[-1])]):
            assert p <= q <= 1
            assert q <= growth * p + slack
            assert p <= growth * q + slack
            assert 1 - p <= growth * (1 - q) + slack
            assert 1 - q <= growth * (1 - p) + slack


def test_no_coin_could_be_much_likelier() -> None:
    """The recurrence in 60 digits, which is the optimum, is met to 1e-12."""
    epsilon, delta = 0.7, 1e-7
    chances = selection("optimal", epsilon, delta, 1).probabilities(10**6)
    with mp.workdps(60):
        p, growth = mpf(0), mp.exp(mpf(epsilon))
        for found in chances[1:]:
            p = min(growth * p + delta, 1 - (1 - p - delta) / growth, mpf(1))
            assert abs(found - p) <= 1e-12 * p
    assert chances[-1] == 1.0


@pytest.mark.parametrize(("epsilon", "delta"), [(0.7, 1e-7), (1.0, 1e-3), (0.01, 0.3), (5.0, 1e-12)])
def test_the_probabilities_are_those_of_the_theorem(epsilon: float, delta: float) -> None:
    """Desfontaines, Voss, Gipson and Mandayam 2022, Theorem 1: its closed form, in 60 digits."""
    found = selection("optimal", epsilon, delta, 1).probabilities(10**6)
    with mp.workdps(60):
        e, d = mpf(epsilon), mpf(delta)
        growth = mp.expm1(e)
        first = 1 + int(mp.floor(mp.log1p(mp.tanh(e / 2) * (1 / d - 1)) / e))
        reached = mp.expm1(first * e) / growth * d
        second = first + int(mp.floor(mp.log1p(growth / d * (1 - reached)) / e))
        for n, chance in enumerate(found):
            if n <= first:
                expected = mp.expm1(n * e) / growth * d
            elif n <= second:
                expected = reached - (1 - reached + d / growth) * mp.expm1(-(n - first) * e)
            else:
                expected = mpf(1)
            assert expected * (1 - mpf(10) ** -12) <= chance <= expected
        assert len(found) == second + 2


@pytest.mark.interoperability
@pytest.mark.parametrize("changes", [1, 4])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.7, 1e-7), (1.0, 1e-3), (0.01, 0.3), (5.0, 1e-12)])
def test_the_authors_library_keeps_keys_as_often(epsilon: float, delta: float, changes: int) -> None:
    """Google's, of one key: for several it divides epsilon as is done here, and delta a little otherwise."""
    library = importlib.import_module("pydp.algorithms.partition_selection")
    other = library.create_partition_strategy("truncated_geometric", epsilon / changes, delta / changes, 1)
    found = selection("optimal", epsilon, delta, changes).probabilities(10**6)
    assert found == pytest.approx([other.probability_of_keep(n) for n in range(len(found))], rel=1e-8)
    several = library.create_partition_strategy("truncated_geometric", epsilon, delta, changes)
    assert all(0.0 <= several.probability_of_keep(n) - p <= delta for n, p in enumerate(found[:2]))


def test_no_linear_programme_finds_a_better_coin() -> None:
    """The most that all p(n) can add up to, under the four inequalities alone."""
    epsilon, delta, most = 0.6, 0.02, 14
    rows, limits = [], []
    for n, side in itertools.product(range(most), (1, -1)):
        one, other = (n, n + 1) if side > 0 else (n + 1, n)
        kept, left = np.zeros(most + 1), np.zeros(most + 1)
        kept[[one, other]] = 1.0, -np.exp(epsilon)
        left[[one, other]] = -1.0, np.exp(epsilon)
        rows += [kept, left]
        limits += [delta, delta + np.exp(epsilon) - 1.0]
    ranges = [(0.0, 0.0)] + [(0.0, 1.0)] * most
    solved = linprog(-np.ones(most + 1), A_ub=np.array(rows), b_ub=limits, bounds=ranges)
    found = selection("optimal", epsilon, delta, 1).probabilities(most)
    assert solved.success
    assert found == pytest.approx(solved.x[: len(found)], abs=1e-8)


def keep_chances(mechanism: KeySelection, most: int) -> list[Any]:
    """The probability of a key with 0, 1, ... units, from the definition of each method."""
    if mechanism.method == "optimal":
        found = mechanism.probabilities(most)
        return [mpf(found[min(n, len(found) - 1)]) for n in range(most + 1)]
    scale, threshold = map(mpf, mechanism.noise_and_threshold())
    away = [(threshold - n) / scale for n in range(most + 1)]
    if mechanism.method == "gaussian":
        tails = [mp.erfc(x / mp.sqrt(2)) / 2 for x in away]
    else:
        tails = [mp.exp(-x) / 2 if x >= 0 else 1 - mp.exp(x) / 2 for x in away]
    return [mpf(0), *tails[1:]]


def largest_delta(mechanism: KeySelection, keys: int, most: int = 5) -> Any:
    """Of all pairs of tables whose `keys` keys differ by one unit each, over all sets that may be kept."""
    with mp.workdps(30):
        chances, growth = keep_chances(mechanism, most + 1), mp.exp(mpf(mechanism.epsilon))
        largest = mpf(0)
        # Each key has one unit more in one table: in the same one, or, after a replacement, in either.
        for units in itertools.combinations_with_replacement(range(most), keys):
            for signs in itertools.product((0, 1), repeat=keys):
                pairs = [(chances[n + s], chances[n + 1 - s]) for n, s in zip(units, signs, strict=True)]
                excess = mpf(0)
                for kept in itertools.product((True, False), repeat=keys):
                    p = mp.fprod(a if one else 1 - a for one, (a, _) in zip(kept, pairs, strict=True))
                    q = mp.fprod(b if one else 1 - b for one, (_, b) in zip(kept, pairs, strict=True))
                    excess += max(p - growth * q, 0)
                largest = max(largest, excess)
        return largest


@pytest.mark.parametrize("method", ["optimal", "laplace", "gaussian"])
@sweep("epsilon, delta, keys", [(0.8, 0.01, 1), (1.0, 0.05, 2), (2.0, 0.2, 3)], everyday=(0, 1))
def test_no_neighbour_tells_more_of_all_keys_together(
    method: str, epsilon: float, delta: float, keys: int
) -> None:
    found = largest_delta(selection(method, epsilon, delta, keys), keys)
    assert delta / 3 <= found <= delta  # a threshold for Gaussian noise spends half of it on new keys
    # The parameters for one key fewer are not enough.
    assert largest_delta(selection(method, epsilon, delta, 1), max(keys, 2)) > delta


@pytest.mark.parametrize(("epsilon", "delta", "changes"), PARAMETERS[:4])
@pytest.mark.parametrize("method", ["laplace", "gaussian"])
def test_thresholds_keep_both_halves_of_the_guarantee(
    method: str, epsilon: float, delta: float, changes: int
) -> None:
    scale, threshold = selection(method, epsilon, delta, changes).noise_and_threshold()
    with mp.workdps(60):
        s, e, d = mpf(scale), mpf(epsilon), mpf(delta)
        distance = (mpf(threshold) - mpf(2) ** -32 * s - 1) / s  # the grid rounds up by half a step
        if method == "laplace":
            assert changes / s <= e
            unseen, moved = mp.exp(-distance) / 2, mpf(0)
        else:
            unseen, mu = mp.erfc(distance / mp.sqrt(2)) / 2, mp.sqrt(changes) / s
            moved = oracles.gaussian_delta(mu, e)
        assert 1 - (1 - unseen) ** changes + moved <= d
        # And neither is wasted.
        assert unseen * changes + moved >= d * (1 - mpf(10) ** -4)


KEYS = [("ICU", 1), ("ER", 2), ('Ä"\ud800', -(2**63)), ("", 2**63 - 1)]


def test_keys_survive_being_encoded() -> None:
    assert decoded(encode(KEYS)) == KEYS
    assert decoded(encode([])) == decoded(np.zeros(7)) == []
    assert decoded(encode([(True,), (False,)])) == [(True,), (False,)]
    with pytest.raises(InvalidParameter, match="holds no keys"):
        decoded(np.array([65.0]))


def kept(units: Any, mechanism: KeySelection, keys: Any = None, **options: Any) -> Any:
    names = [(f"k{i:03}",) for i in range(len(units))] if keys is None else keys

    def algorithm(data: Any, curator: Curator) -> Any:
        return curator.release_keys(names, data, mechanism, label="keys")

    guarantee = ApproxDP(epsilon=mechanism.epsilon, delta=mechanism.delta)
    return run(algorithm, units, claim=Claim(guarantee, neighbouring="add-or-remove-one"), **options)


@pytest.mark.parametrize("method", ["optimal", "laplace", "gaussian"])
def test_keys_without_units_never_come_out_and_those_with_many_do(method: str) -> None:
    mechanism = selection(method, 1.0, 1e-6, 1)
    for options in ({}, {"seed": 1}):
        found = kept([0, 1, 10_000, 0, 10_000], mechanism, **options)
        assert found.output == [("k002",), ("k004",)]
    assert str(account(found.ledger).bounds[0].guarantee) == "(1, 1e-06)-DP"
    assert kept([0, 1, 3], mechanism, noise=NoNoise()).output == [("k001",), ("k002",)]
    assert kept([], mechanism).output == []


@pytest.mark.parametrize("method", ["optimal", "laplace", "gaussian"])
def test_keys_are_kept_as_often_as_stated(method: str) -> None:
    """Of 4000 keys of n units each; 5.5 sigma, two-sided below 1e-7, and the noise is drawn from seeds."""
    mechanism = selection(method, 1.0, 0.01, 2)
    for units in (1, 6, 12):
        if method == "optimal":
            chance = mechanism.probabilities(units)[-1]
        else:
            scale, threshold = mechanism.noise_and_threshold()
            x = (threshold - units) / scale
            tail = mp.erfc(x / mp.sqrt(2)) / 2 if method == "gaussian" else mp.exp(-abs(x)) / 2
            chance = float(tail if method == "gaussian" or x >= 0 else 1 - tail)
        found = len(kept([units] * 4000, mechanism, seed=7).output)
        assert abs(found - 4000 * chance) <= 5.5 * (4000 * chance * (1 - chance)) ** 0.5 + 1


def test_the_order_of_the_keys_says_nothing_of_the_rows() -> None:
    mechanism, keys = selection("optimal", 9.0, 0.1, 1), [("b",), ("a",), ("c",)]
    assert kept([90, 90, 90], mechanism, keys).output == [("a",), ("b",), ("c",)]


@pytest.mark.parametrize(
    ("units", "keys"),
    [
        ([1.5], [("a",)]),
        ([-1], [("a",)]),
        ([1, 2], [("a",)]),
        ([1, 2], [("a",), ("a",)]),
        ([1], [(None,)]),
        ([1], [(1.5,)]),
        ([float("nan")], [("a",)]),
    ],
)
def test_what_is_no_table_of_keys_is_refused(units: Any, keys: Any) -> None:
    with pytest.raises(InvalidParameter):
        kept(units, selection("optimal", 1.0, 0.1, 1), keys)


def test_a_group_costs_what_any_such_mechanism_does() -> None:
    found, count = selection("optimal", 1.0, 1e-6, 1).for_group(2, lambda figure, n: figure * n) or (None, 0)
    assert count == 1
    assert found is not None
    assert found.epsilon == 2.0
    assert Fraction(found.delta) >= Fraction(1e-6) * (1 + Fraction(2718281828, 10**9))
