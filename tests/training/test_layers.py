"""Several sums of one step: layers with noise each, and the number of clipped records, on one sample."""

import math
from typing import Any

import numpy as np
import pytest

from dpaudit import Header, Ledger, epsilon
from dpaudit.curator.curator import Curator
from dpaudit.curator.noise import LiveNoise, NoNoise, Transcript
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import PoissonSampled
from dpaudit.training.gradients import LayerSums

SIZES = {"weight": 3, "bias": 1}


def curator(noise: Any = None, **more: Any) -> Curator:
    header = Header(algorithm="a", unit="row", neighbouring="add-or-remove-one")
    return Curator(Ledger(header), LiveNoise(1) if noise is None else noise, **more)


def sums(own: Curator, **more: Any) -> LayerSums:
    stated: dict[str, Any] = {"rate": 0.5, "bound": 1.0, "noise_multiplier": 2.0, "label": "gradient"}
    return LayerSums(own, SIZES, **{**stated, **more})


def step(layers: LayerSums, rows: np.ndarray) -> np.ndarray:
    drawn = layers.draw(len(rows))
    layers.add(rows[drawn][:1])
    layers.add(rows[drawn][1:])
    return layers.noisy()


@pytest.mark.parametrize("recorded", [False, True])
def test_layers_and_the_count_are_made_on_one_sample(recorded: bool) -> None:
    own = curator(transcript=Transcript() if recorded else None)
    layers = sums(own, count_noise=3.0)
    for _ in range(2):
        assert step(layers, np.ones((6, 4))).shape == (4,)
        assert layers.clipped is not None
    labels = ["gradient weight", "gradient bias", "gradient clipped"]
    assert [line.label for line in own.ledger] == labels * 2
    assert [line.sample for line in own.ledger] == ["batch 1"] * 3 + ["batch 2"] * 3


def test_each_layer_is_clipped_to_its_own_bound_and_long_ones_are_counted() -> None:
    rows = np.array([[3.0, 0.0, 0.0, 0.25], [0.0, 0.5, 0.0, 0.75], [0.0, 0.0, 0.5, 0.25]])
    layers = sums(curator(NoNoise()), rate=1.0, bound=[1.0, 0.5], count_noise=1.0)
    found = step(layers, rows)
    assert found == pytest.approx([1.0, 0.5, 0.5, 1.0], abs=1e-6)
    assert layers.clipped == 2.0


def test_eight_layers_cost_what_one_vector_does() -> None:
    own = curator()
    sizes = {str(place): 1 for place in range(8)}
    layers = LayerSums(own, sizes, rate=0.01, bound=1.0, noise_multiplier=math.sqrt(8.0), label="gradient")
    for _ in range(5):
        layers.draw(100)
        layers.drop()
    found = layers.draw(100)
    layers.add(np.zeros((len(found), 8)))
    layers.noisy()
    whole = epsilon([line.model_copy(update={"count": 1000}) for line in own.ledger], 1e-5)
    assert 1.7782 <= whole.guarantee.epsilon <= 1.8283  # type: ignore[union-attr]


def test_one_sum_a_step_names_no_sample() -> None:
    own = curator()
    layers = LayerSums(own, {"": 4}, rate=0.5, bound=1.0, noise_multiplier=2.0, label="gradient")
    step(layers, np.ones((6, 4)))
    (line,) = own.ledger
    assert (line.label, line.sample) == ("gradient", None)
    assert isinstance(line.mechanism, PoissonSampled)


@pytest.mark.parametrize("wrong", [{"bound": [1.0]}, {"noise_multiplier": [1.0, 2.0, 3.0]}])
def test_another_number_of_bounds_than_layers_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match="for 2 layers"):
        sums(curator(), **wrong)


@pytest.mark.training
def test_a_module_of_torch_by_layers() -> None:
    import torch

    from dpaudit.torch import PrivateGradient

    own = curator()
    module = torch.nn.Linear(3, 1)
    gradient = PrivateGradient(
        module,
        torch.nn.functional.mse_loss,
        own,
        rate=0.5,
        bound=1.0,
        noise_multiplier=2.0,
        records=8,
        layers=True,
        count_noise=2.0,
    )
    assert gradient.clipped is None
    gradient.backward(torch.ones(8, 3), torch.ones(8, 1))
    assert gradient.clipped is not None
    assert [line.label for line in own.ledger] == ["gradient weight", "gradient bias", "gradient clipped"]
    assert {line.sample for line in own.ledger} == {"batch 1"}
    assert all(each.grad is not None for each in module.parameters())


@pytest.mark.training
@pytest.mark.filterwarnings("ignore:Secure RNG:UserWarning", "ignore:Full backward hook")
def test_opacus_by_layers() -> None:
    import torch
    from opacus import PrivacyEngine

    from dpaudit.opacus import attach

    own = curator()
    module = torch.nn.Linear(3, 1)
    data = torch.utils.data.TensorDataset(torch.ones(16, 3), torch.ones(16, 1))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    engine = PrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=module, optimizer=optimizer, data_loader=loader, noise_multiplier=2.0, max_grad_norm=1.0
    )
    rate = float(loader.sample_rate)
    attach(optimizer, own, loader, rate=rate, records=16, layers=True)
    for inputs, targets in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        break
    assert [(line.label, line.sample) for line in own.ledger] == [
        ("gradient 0", "batch 1"),
        ("gradient 1", "batch 1"),
    ]


@pytest.mark.training
@pytest.mark.filterwarnings("default")
def test_jax_by_layers() -> None:
    from dpaudit.jax import PrivateGradient

    own = curator()

    def loss(params: Any, x: Any) -> Any:
        return ((params["w"] * x).sum() + params["b"]) ** 2

    gradient = PrivateGradient(
        loss, own, rate=0.5, bound=1.0, noise_multiplier=[2.0, 3.0], records=8, layers=True, count_noise=2.0
    )
    found = gradient({"w": np.ones(3, np.float32), "b": np.float32(0.0)}, np.ones((8, 3), np.float32))
    assert found["w"].shape == (3,)
    assert gradient.clipped is not None
    assert [line.label for line in own.ledger] == ["gradient 0", "gradient 1", "gradient clipped"]
    assert {line.sample for line in own.ledger} == {"batch 1"}
