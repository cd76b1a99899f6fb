from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ZCDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import L1, L2, Sensitivity
from dpaudit.curator.curator import Curator
from dpaudit.curator.noise import NoNoise
from dpaudit.curator.running import run
from dpaudit.errors import InvalidParameter, SensitivityTooSmall
from dpaudit.mechanisms import Array, Gaussian, Laplace, SymmetricGaussian

ROOT_2 = 2**0.5


def symmetric(value: float, dimension: int = 3) -> SymmetricGaussian:
    return SymmetricGaussian(
        sigma=1.0, dimension=dimension, sensitivity=Sensitivity(value=value, norm="frobenius")
    )


def released(vectors: Array, bound: float, neighbouring: str = "replace-one") -> tuple[Array, Sensitivity]:
    factor = ROOT_2 if neighbouring == "replace-one" else 1.0

    def algorithm(data: Array, curator: Curator) -> Array:
        return curator.release_gram(
            data, bound=bound, mechanism=symmetric(factor * bound * bound), label="gram"
        )

    claim = Claim(ZCDP(rho=1.0), unit="row", neighbouring=Neighbouring(neighbouring))
    result = run(algorithm, vectors, claim=claim, noise=NoNoise())
    return result.output, result.ledger.releases[0].mechanism.sensitivity  # type: ignore[union-attr]


def test_the_sum_of_outer_products_symmetric_to_the_last_bit() -> None:
    x = np.random.default_rng(0).normal(size=(500, 3))
    gram, sensitivity = released(x, 10.0)
    # An entry loses less than a step of 2^-36 to rounding, a product of two less than 20 such steps.
    np.testing.assert_allclose(gram, sum(np.outer(row, row) for row in x), rtol=0, atol=500 * 20 * 2.0**-36)
    steps = np.trunc(x * 2.0**36).astype(np.int64).tolist()
    exact = [[sum(row[i] * row[j] for row in steps) / 2**72 for j in range(3)] for i in range(3)]
    assert gram.tolist() == exact
    assert np.array_equal(gram, gram.T)
    assert sensitivity.basis == "clipped"


def test_long_and_unusable_rows_cannot_exceed_the_bound() -> None:
    gram, _ = released(np.array([[30.0, 40.0, 0.0], [0.0, 0.0, np.nan], [np.inf, 0.0, 0.0]]), 2.0)
    np.testing.assert_allclose(gram, 4.0 * np.outer([0.6, 0.8, 0.0], [0.6, 0.8, 0.0]), atol=1e-12)


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_no_replaced_row_moves_it_by_more_than_the_ledger_says(relation: str) -> None:
    rng = np.random.default_rng(1)
    largest = 0.0
    for _ in range(100):
        x = 3.0 * rng.normal(size=(4, 3))
        gram, sensitivity = released(x, 1.5, relation)
        if relation == "replace-one":
            neighbour = x.copy()
            neighbour[0] = 3.0 * rng.normal(size=3)
        else:
            neighbour = x[1:]
        moved = np.linalg.norm(gram - released(neighbour, 1.5, relation)[0])
        assert moved <= sensitivity.value * (1 + 1e-12)
        largest = max(largest, moved / sensitivity.value)
    assert largest > 0.97


def test_a_sensitivity_that_the_bound_does_not_support_is_refused() -> None:
    def algorithm(data: Array, curator: Curator) -> Array:
        return curator.release_gram(data, bound=2.0, mechanism=symmetric(4.0), label="gram")

    with pytest.raises(SensitivityTooSmall):
        run(algorithm, np.ones((2, 3)), seed=0, neighbouring="replace-one")
    run(algorithm, np.ones((2, 3)), seed=0, neighbouring="add-or-remove-one")


def test_only_euclidean_norms_follow_from_the_bound() -> None:
    def by(mechanism: Gaussian | Laplace) -> Array:
        def algorithm(data: Array, curator: Curator) -> Array:
            return curator.release_gram(data, bound=1.0, mechanism=mechanism, label="gram")

        output: Array = run(algorithm, np.ones((2, 3)), seed=0).output
        return output

    with pytest.raises(InvalidParameter, match="Gram"):
        by(Laplace(scale=1.0, sensitivity=L1(100.0)))
    assert by(Gaussian(sigma=1.0, sensitivity=L2(ROOT_2))).shape == (3, 3)


@pytest.mark.parametrize("bound", [0.1, 0.3, 1.1, 2.0**0.5, 1e-3, 1e100, 1e-150])
def test_the_sensitivity_covers_the_exact_square_of_the_bound(bound: float) -> None:
    sensitivity = released(np.ones((1, 3)), bound, "add-or-remove-one")[1].value
    assert Fraction(sensitivity) >= Fraction(bound) ** 2
    assert sensitivity <= bound * bound * (1 + 1e-15)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 3)])
def test_vectors_come_one_per_unit(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidParameter, match="give one vector per unit"):
        released(np.ones(shape), 1.0)


@pytest.mark.parametrize("bound", [0.0, -1.0, np.nan, np.inf, 1e200])
def test_the_bound_is_positive_and_its_square_is_finite(bound: float) -> None:
    def algorithm(data: Array, curator: Curator) -> Array:
        return curator.release_gram(data, bound=bound, mechanism=symmetric(4.0), label="gram")

    with pytest.raises(InvalidParameter, match="contribution bound"):
        run(algorithm, np.ones((2, 3)), seed=0)
