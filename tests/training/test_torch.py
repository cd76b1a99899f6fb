"""Training in PyTorch through a curator: gradients against autograd's own, what is refused, and replay."""

from typing import Any

import numpy as np
import pytest

import dpaudit
from dpaudit import ApproxDP, Claim, Curator, Pair
from dpaudit.accountants.filters.renyi import RDPFilter
from dpaudit.curator.batches import Batches
from dpaudit.errors import BudgetExceeded, DataError, InvalidParameter, UsageError
from dpaudit.torch import PrivateGradient, public_randomness
from tests.make import curator

pytestmark = pytest.mark.filterwarnings("default")  # torch's own warnings are not ours
on_processor = pytest.mark.training

RNG = np.random.default_rng(0)
INPUTS, TARGETS = RNG.normal(size=(30, 4)), RNG.normal(size=(30, 1))
QUIET: dict[str, Any] = {"rate": 1.0, "bound": 0.5, "noise_multiplier": 1e-6, "records": 30}
CLAIM = Claim(ApproxDP(epsilon=30.0, delta=1e-5), unit="record", neighbouring="add-or-remove-one")


def module(dtype: str = "float64", device: str = "cpu") -> Any:
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    return made.to(device, getattr(torch, dtype))


def loss(outputs: Any, targets: Any) -> Any:
    return (outputs - targets).square().sum()


def tensors(dtype: str = "float64") -> list[Any]:
    import torch

    return [torch.from_numpy(each).to(getattr(torch, dtype)) for each in (INPUTS, TARGETS)]


def by_autograd(model: Any, bound: float) -> Any:
    """The mean of clipped gradients, one backward pass a record."""
    import torch

    total = torch.zeros(sum(each.numel() for each in model.parameters()), dtype=torch.float64)
    for row, target in zip(*tensors(str(next(model.parameters()).dtype).rpartition(".")[2]), strict=True):
        model.zero_grad()
        loss(model(row[None]), target[None]).backward()
        flat = torch.cat([each.grad.double().ravel() for each in model.parameters()])
        total += flat * min(1.0, bound / float(flat.norm()))
    model.zero_grad()
    return total.numpy() / 30


def gradients_of(model: Any) -> Any:
    return np.concatenate([each.grad.double().cpu().numpy().ravel() for each in model.parameters()])


@on_processor
@pytest.mark.parametrize(("dtype", "near"), [("float64", 3e-7), ("float32", 1e-5)])
@pytest.mark.parametrize("together", [1, 7, 64])
def test_gradients_are_the_mean_of_clipped_ones(dtype: str, near: float, together: int) -> None:
    model = module(dtype)
    expected = by_autograd(model, 0.5)
    own = curator()
    PrivateGradient(model, loss, own, together=together, **QUIET).backward(*tensors(dtype))
    assert gradients_of(model) == pytest.approx(expected, abs=near)
    assert all(each.grad.dtype == each.dtype for each in model.parameters())
    assert len(own.ledger.releases) == 1


@pytest.mark.graphics
def test_gradients_come_to_the_device_of_the_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without which it does not repeat itself
    model = module("float32", "cuda")
    PrivateGradient(model, loss, curator(), **QUIET).backward(*tensors("float32"))
    assert all(each.grad.device == each.device for each in model.parameters())
    assert gradients_of(model) == pytest.approx(by_autograd(module("float32"), 0.5), abs=1e-5)


@on_processor
def test_an_optimizer_trains_by_them_and_the_ledger_proves_every_step() -> None:
    import torch

    def train(rows: Any, own: Curator) -> Any:
        model = module()
        private = PrivateGradient(model, loss, own, rate=0.5, bound=1.0, noise_multiplier=2.0, records=30)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(20):
            private.backward(*rows)
            optimizer.step()
        return [each.detach().numpy() for each in model.parameters()]

    made = dpaudit.run(train, tensors(), claim=CLAIM)
    [release] = set(made.ledger.releases)
    assert len(made.ledger.releases) == 20
    assert (release.mechanism.kind, release.mechanism.rate, release.mechanism.noise) == (
        "poisson-sampled",
        0.5,
        ("sigma", 2.0),
    )
    assert release.mechanism.sensitivity.basis == "clipped"
    proved = dpaudit.account(made.ledger).bounds[0].guarantee
    assert proved == dpaudit.epsilon(release.mechanism, 1e-5, count=20).guarantee
    assert not np.allclose(made.output[0], module()[0].weight.detach().numpy())


@on_processor
def test_a_replaced_record_is_given_twice_the_noise_and_costs_as_much() -> None:
    own = curator("replace-one")
    PrivateGradient(module(), loss, own, rate=0.5, bound=0.5, noise_multiplier=2.0).backward(*tensors())
    mechanism: Any = own.ledger.releases[0].mechanism
    assert (mechanism.sensitivity.value, mechanism.contribution, mechanism.noise[1]) == (1.0, 0.5, 1.0)


def wide() -> Any:
    """Layers of sizes for which rounding differs between numbers of rows, with a kink in the middle."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(4, 67), torch.nn.ReLU(), torch.nn.Linear(67, 1))


@on_processor
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_no_other_record_has_a_part_in_a_gradient_not_even_in_its_last_bit(
    dtype: str, mixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that nothing is charged for rounding, in whatever precision."""
    import torch

    added: list[Any] = []
    monkeypatch.setattr(Batches, "add", lambda self, rows: added.append(rows.copy()))
    monkeypatch.setattr(Batches, "noisy", lambda self: np.zeros(403))

    def rows(first: int) -> Any:
        added.clear()
        own, model = curator(), wide().to(getattr(torch, dtype))
        private = PrivateGradient(model, loss, own, together=16, **QUIET)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mixed):
            private.backward(*(each[first:] for each in tensors(dtype)))
        [layer] = private._batches._layers
        assert layer.mechanism.sensitivity.value == QUIET["bound"]
        return {row.tobytes() for row in np.vstack(added)}

    whole = rows(0)
    for first in (1, 23, 29):
        less = rows(first)
        assert (len(whole), len(less)) == (30, 30 - first)
        assert less < whole


@on_processor
def test_gradients_that_are_computed_together_are_rounded_by_their_number() -> None:
    """What the test above would find: torch's own gradients of 30 records and of some of them."""
    import torch

    private = PrivateGradient(wide(), loss, curator(), **QUIET)
    trained = {name: each.detach() for name, each in private._trained.items()}

    def rows(first: int) -> Any:
        found = private._of_many(trained, *(each[first:] for each in tensors("float32")))
        return torch.cat([each.flatten(1) for each in found.values()], dim=1)

    assert not all(torch.equal(rows(0)[first:], rows(first)) for first in (1, 23, 27, 28, 29))


@on_processor
def test_a_budget_stops_training_before_it_would_be_exceeded() -> None:
    import torch

    model = module()
    mechanism = dpaudit.PoissonSampled(
        rate=0.5, mechanism=dpaudit.Gaussian(sigma=4.0, sensitivity=dpaudit.L2(1.0)), contribution=1.0
    )
    own = curator(budget=RDPFilter.within(ApproxDP(epsilon=1.5, delta=1e-5), mechanism))
    private = PrivateGradient(model, loss, own, rate=0.5, bound=1.0, noise_multiplier=4.0, records=30)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(500):
            private.backward(*tensors())
            optimizer.step()

    with pytest.raises(BudgetExceeded):
        train()
    before = gradients_of(model).tolist()
    with pytest.raises(BudgetExceeded):
        private.backward(*tensors())
    assert gradients_of(model).tolist() == before
    made = len(own.ledger.releases)
    assert 5 < made < 500
    assert dpaudit.epsilon(mechanism, 1e-5, count=made).guarantee.epsilon <= 1.5


@on_processor
def test_what_is_private_or_no_number_is_refused() -> None:
    import torch

    fine = {**QUIET, "rate": 0.5}
    for changed in (
        {"rate": 0.0},
        {"rate": 1.5},
        {"rate": float("nan")},
        {"bound": 0.0},
        {"bound": float("inf")},
        {"noise_multiplier": 0.0},
        {"noise_multiplier": -1.0},
        {"together": 0},
        {"together": 1.5},
    ):
        with pytest.raises((InvalidParameter, UsageError)):
            PrivateGradient(module(), loss, curator(), **{**fine, **changed})
    for records in (None, 0, -3, 1.5, True):
        private = PrivateGradient(module(), loss, curator(), **{**fine, "records": records})
        with pytest.raises((InvalidParameter, UsageError), match="records"):
            private.backward(*tensors())
    for wrong in ("module", torch.nn.ReLU()):
        with pytest.raises((InvalidParameter, UsageError)):
            PrivateGradient(wrong, loss, curator(), **fine)
    with pytest.raises((InvalidParameter, UsageError), match="curator"):
        PrivateGradient(module(), loss, "curator", **fine)  # type: ignore[arg-type]
    own = curator()
    with pytest.raises(DataError, match="30 inputs and 29 targets"):
        PrivateGradient(module(), loss, own, **fine).backward(tensors()[0], tensors()[1][:-1])
    assert len(own.ledger.releases) == 0


@on_processor
@pytest.mark.parametrize("together", [4, 64])
def test_a_record_moves_no_masks_of_others(together: int) -> None:
    import torch

    def summed(first: int) -> Any:
        own, steps = curator(), []
        with public_randomness(own):
            model = torch.nn.Sequential(module(), torch.nn.Linear(1, 8), torch.nn.Dropout(0.5)).double()
            before = torch.get_rng_state()
            private = PrivateGradient(model, loss, own, together=together, **QUIET)
            for _ in range(2):
                private.backward(*(each[first:] for each in tensors()))
                steps.append(gradients_of(model) * 30)
            assert torch.equal(before, torch.get_rng_state())
        return steps

    for whole, less in zip(summed(0), summed(1), strict=True):
        assert 0.0 < np.linalg.norm(whole - less) <= 0.5 * (1.0 + 1e-4)
    first, second = summed(0)
    assert not np.allclose(first, second)  # every step has masks of its own


def trains(rows: Any, own: Curator) -> Any:
    """On whole batches, so that replay knows every density."""
    import torch

    with public_randomness(own):
        model = torch.nn.Linear(4, 1)
        private = PrivateGradient(model, loss, own, rate=1.0, bound=0.5, noise_multiplier=4.0, records=9)
        for _ in range(3):
            private.backward(*(torch.from_numpy(each).float() for each in (rows[:, :4], rows[:, 4:])))
            torch.optim.SGD(model.parameters(), lr=0.1).step()
    return [each.detach().numpy() for each in model.parameters()]


def centred(rows: Any, own: Curator) -> Any:
    """The fault: features are centred by their private mean, so that a record moves every gradient."""
    return trains(np.column_stack([rows[:, :4] - rows[:, :4].mean(axis=0), rows[:, 4:]]), own)


@on_processor
@pytest.mark.parametrize("refuted", [False, True])
def test_replay_finds_records_that_move_the_gradients_of_others(refuted: bool) -> None:
    rows = np.column_stack([INPUTS, TARGETS])[:9]
    rows[8] = [50.0, -50.0, 50.0, 0.0, 1.0]
    audit = dpaudit.replay(
        centred if refuted else trains, [Pair(rows, rows[:8], "the last record")], claim=CLAIM, replays=5
    )
    assert {finding.kind for finding in audit.findings} == ({"sensitivity"} if refuted else set())
