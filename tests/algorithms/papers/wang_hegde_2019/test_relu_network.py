"""The network against one written out by hand, and against differences."""

import numpy as np
import pytest

from dpaudit.algorithms.papers.wang_hegde_2019.q_learning import ReLUNetwork


def network(seed: int = 0) -> ReLUNetwork:
    return ReLUNetwork.random((16, 16), 2, np.random.default_rng(seed))


def test_forward_by_hand() -> None:
    net = ReLUNetwork(
        (np.array([[1.0, -2.0]]), np.array([[3.0], [5.0]])), (np.array([0.5, 1.0]), np.array([-1.0]))
    )
    # relu(0.25 + 0.5) = 0.75, relu(-0.5 + 1) = 0.5; relu(1.5) = 1.5, relu(-1) = 0.
    np.testing.assert_allclose(net(np.array([0.25, 1.0])), [[3.75], [3.5]])


def loss(net: ReLUNetwork, points: np.ndarray, targets: np.ndarray) -> float:
    return float(0.5 * ((net(points) - targets) ** 2).sum(axis=1).mean())


@pytest.mark.parametrize("seed", range(5))
def test_the_gradient_is_what_differences_show(seed: int) -> None:
    net, rng = network(seed), np.random.default_rng(seed)
    points, targets = rng.random(7), rng.normal(size=(7, 2))
    found = net.gradient(points, net(points) - targets)
    at = net.parameters
    assert found.shape == at.shape == (16 + 16 + 256 + 16 + 32 + 2,)
    step = 1e-6
    for index in range(at.size):
        moved = np.zeros_like(at)
        moved[index] = step
        ends = [loss(net.with_parameters(at + sign * moved), points, targets) for sign in (1.0, -1.0)]
        assert found[index] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)


def test_parameters_and_back() -> None:
    net, points = network(), np.linspace(0, 1, 9)
    assert (net.with_parameters(net.parameters)(points) == net(points)).all()
    assert not (net.with_parameters(net.parameters + 0.1)(points) == net(points)).any()


@pytest.mark.parametrize("seed", range(20))
def test_no_slope_exceeds_the_bound(seed: int) -> None:
    net = network(seed)
    points = np.linspace(0.0, 1.0, 4001)
    slopes = np.linalg.norm(np.diff(net(points), axis=0), axis=1) / np.diff(points)
    assert slopes.max() <= net.lipschitz * (1 + 1e-9)


def test_the_bound_is_reached_where_everything_is_linear() -> None:
    one = ReLUNetwork((np.array([[3.0]]), np.array([[2.0]])), (np.array([1.0]), np.array([0.0])))
    assert one.lipschitz == pytest.approx(6.0)
    values = one(np.array([0.0, 1.0]))
    assert values[1, 0] - values[0, 0] == pytest.approx(6.0)
