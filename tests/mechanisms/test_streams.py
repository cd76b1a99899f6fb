"""Tree aggregation against direct sums, and its variance against the binary digits."""

import numpy as np
import pytest
from scipy import stats

from dpaudit.claims.sensitivity import L2, Frobenius
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Array, Tree, TreeAggregation
from dpaudit.noise.randomness import Randomness, SeededRandomness

ALARM = 1e-6


def nodes_of(step: int) -> list[tuple[int, int]]:
    """The intervals (first, last) of items whose sums make prefix `step`: by hand, from its digits."""
    found, end = [], step
    while end:
        size = 1
        while end % (2 * size) == 0:
            size *= 2
        found.append((end - size + 1, end))
        end -= size
    return found


def test_without_noise_prefix_sums_are_exact() -> None:
    items = np.random.default_rng(0).integers(-9, 9, size=(37, 2, 3)).astype(float)
    tree = Tree(TreeAggregation(sigma=1.0, steps=37, sensitivity=L2(1)), (2, 3))
    for step, item in enumerate(items):
        tree.push(item)
        assert np.array_equal(tree.exact(), items[: step + 1].sum(axis=0))


def test_variance_is_one_node_for_each_digit_and_nodes_are_shared() -> None:
    """Exact chi-square at each step; the noise of steps 4 and 6 differs by one node alone."""
    size, sigma = 20_000, 3.0
    randomness = SeededRandomness(5)
    tree = Tree(TreeAggregation(sigma=sigma, steps=7, sensitivity=L2(1)), (size,))
    noise = {}
    for step in range(1, 8):
        tree.push(np.zeros(size))
        noise[step] = tree.noisy(randomness)

    def p(values: Array, nodes: float) -> float:
        law, statistic = stats.chi2(size), np.square(values).sum() / (nodes * sigma**2)
        return float(2 * min(law.cdf(statistic), law.sf(statistic)))

    for step in range(1, 8):
        assert p(noise[step], step.bit_count()) > ALARM
        assert p(noise[step], step.bit_count() * 1.05**2) < ALARM
        assert p(noise[step], step.bit_count() * 0.95**2) < ALARM
    assert p(noise[6] - noise[4], 1.0) > ALARM
    assert p(noise[7] - noise[6], 1.0) > ALARM
    assert p(noise[3] - noise[4], 3.0) > ALARM


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 8, 9, 100, 1000, 1023, 1024])
def test_an_item_sits_in_at_most_levels_nodes(steps: int) -> None:
    nodes = {node for step in range(1, steps + 1) for node in nodes_of(step)}
    depth = max(sum(first <= item <= last for first, last in nodes) for item in {1, steps // 2 + 1, steps})
    levels = TreeAggregation(sigma=1.0, steps=steps, sensitivity=L2(1)).levels
    assert depth == levels == int(np.floor(np.log2(steps))) + 1


def test_levels_are_exact_where_floating_logarithms_are_not() -> None:
    assert TreeAggregation(sigma=1.0, steps=2**60 - 1, sensitivity=L2(1)).levels == 60
    assert TreeAggregation(sigma=1.0, steps=2**60, sensitivity=L2(1)).levels == 61


def test_after_an_item_without_an_answer_there_is_no_wrong_sum() -> None:
    """The sixth item's node would be the second's, in the sum of seven: 1 + 2 + 4 where 7 items are 7."""
    tree, exact = Tree(TreeAggregation(sigma=1e-3, sensitivity=L2(1.0), steps=8), ()), Randomness.live()
    for item in (1.0, 1.0, 1.0, 1.0, 1.0):
        tree.push(np.array(item))
        assert tree.noisy(exact) == pytest.approx(tree.taken, abs=0.1)
    tree.push(np.array(1e300))
    with pytest.raises(InvalidParameter, match="or more under noise"):
        tree.noisy(exact)
    tree.push(np.array(1.0))
    with pytest.raises(InvalidParameter, match="item 7 after one without an answer"):
        tree.noisy(exact)


def test_memory_grows_with_the_logarithm() -> None:
    tree, randomness = (
        Tree(TreeAggregation(sigma=1.0, steps=5000, sensitivity=L2(1)), ()),
        SeededRandomness(0),
    )
    for _ in range(5000):
        tree.push(np.zeros(()))
        tree.noisy(randomness)
    assert len(tree._sums) == len(tree._totals) == len(tree._noisy) == 13
    with pytest.raises(InvalidParameter):
        tree.push(np.zeros(()))


def test_log_density_is_that_of_the_joint_prefix_sums() -> None:
    steps, sigma = 11, 1.7
    generator = np.random.default_rng(0)
    items, outputs = generator.normal(size=(steps, 2)), generator.normal(size=(steps, 2))
    nodes = sorted({node for step in range(1, steps + 1) for node in nodes_of(step)})
    membership = np.array([[node in nodes_of(step) for node in nodes] for step in range(1, steps + 1)], float)
    covariance = sigma**2 * membership @ membership.T
    expected = sum(
        stats.multivariate_normal(np.cumsum(items[:, j]), covariance).logpdf(outputs[:, j]) for j in range(2)
    )
    mechanism = TreeAggregation(sigma=sigma, steps=steps, sensitivity=L2(1))
    assert mechanism.log_density(outputs, items) == pytest.approx(expected, rel=1e-10)


def test_log_density_of_symmetric_items() -> None:
    generator = np.random.default_rng(0)
    noise = generator.normal(size=(2, 2, 2))
    noise = noise + np.swapaxes(noise, 1, 2)
    mechanism = TreeAggregation(sigma=1.7, steps=2, sensitivity=Frobenius(1))
    expected = sum(
        stats.norm(scale=1.7).logpdf(node[0, 0])
        + stats.norm(scale=1.7).logpdf(node[1, 1])
        + stats.norm(scale=1.7 / np.sqrt(2)).logpdf(node[0, 1])
        for node in noise  # step 2 closes one node over both items, without the first's noise
    )
    assert mechanism.log_density(noise, np.zeros((2, 2, 2))) == pytest.approx(expected, rel=1e-12)
