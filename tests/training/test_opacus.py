"""Training with Opacus whose samples and noise are a curator's: gradients, batches, ledger and refusals."""

import contextlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import dpaudit
from dpaudit import ApproxDP, Claim, Curator, Pair
from dpaudit.accountants.filters.renyi import RDPFilter
from dpaudit.errors import BudgetExceeded, InvalidParameter, ScheduleBroken, UsageError
from dpaudit.opacus import attach
from dpaudit.torch import public_randomness
from tests.make import curator

pytestmark = [
    pytest.mark.training,
    pytest.mark.filterwarnings("default"),  # torch's own warnings are not ours
]

ROWS = np.random.default_rng(0).normal(size=(24, 5))
CLAIM = Claim(ApproxDP(epsilon=30.0, delta=1e-5), unit="record", neighbouring="add-or-remove-one")


def dataset(rows: Any = ROWS) -> Any:
    import torch

    columns = torch.from_numpy(rows).float()
    return torch.utils.data.TensorDataset(columns[:, :4], columns[:, 4:])


def made(
    rate: float = 1.0, rows: Any = ROWS, noise: float = 1e-6, **options: Any
) -> tuple[Any, Any, Any, Any]:
    """Engine, module, optimizer and loader."""
    import torch
    from opacus import PrivacyEngine
    from opacus.data_loader import DPDataLoader

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 1)
    engine = options.pop("engine", None) or PrivacyEngine()
    loader = options.pop("loader", None) or DPDataLoader(dataset(rows), sample_rate=rate)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    about = {"noise_multiplier": noise, "max_grad_norm": 0.5, **options}
    return engine, *engine.make_private(module=model, optimizer=optimizer, data_loader=loader, **about)


def train(model: Any, optimizer: Any, loader: Any, steps: int = 1) -> None:
    for _ in range(steps):
        for inputs, targets in loader:
            optimizer.zero_grad()
            (model(inputs) - targets).square().sum(dim=1).mean().backward()
            optimizer.step()


def weights(model: Any) -> Any:
    return np.concatenate([each.detach().numpy().ravel() for each in model.parameters()])


def stepped(records: int = 24, bound: float = 0.5) -> Any:
    """One step over all records, computed without torch's gradients."""
    _, model, _, _ = made()
    before = weights(model).astype(np.float64)
    errors = 2 * (ROWS[:, :4] @ before[:4] + before[4] - ROWS[:, 4])
    rows = errors[:, None] * np.column_stack([ROWS[:, :4], np.ones(24)])
    rows *= np.minimum(1.0, bound / np.linalg.norm(rows, axis=1))[:, None]
    return before - rows.sum(axis=0) / records


def test_a_step_is_the_mean_of_clipped_gradients() -> None:
    own = curator()
    _, model, optimizer, loader = made()
    attach(optimizer, own, loader, rate=loader.sample_rate, records=12)
    train(model, optimizer, loader)
    assert weights(model) == pytest.approx(stepped(12), abs=1e-4)
    [release] = own.ledger.releases
    assert (release.mechanism.kind, release.mechanism.sensitivity.basis) == ("gaussian", "declared")


@pytest.mark.parametrize("before", [True, False])
def test_physical_batches_are_parts_of_one(before: bool) -> None:
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    own = curator()
    _, model, optimizer, loader = made()
    if before:
        attach(optimizer, own, loader, rate=loader.sample_rate, records=24)
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=5, optimizer=optimizer) as small:
        if not before:
            attach(optimizer, own, small, rate=1.0, records=24)
        train(model, optimizer, small)
    assert weights(model) == pytest.approx(stepped(24), abs=1e-4)
    assert len(own.ledger.releases) == 1


def test_an_engine_attaches_what_it_makes_private() -> None:
    import torch
    from opacus import PrivacyEngine

    own, engine = curator("zero-out"), PrivacyEngine()
    attach(engine, own, label="step")
    loader = torch.utils.data.DataLoader(dataset(), batch_size=6)
    _, model, optimizer, loader = made(engine=engine, loader=loader, noise=2.0)
    train(model, optimizer, loader, steps=2)
    [release] = set(own.ledger.releases)
    assert len(own.ledger.releases) == 8
    assert (release.label, release.mechanism.rate, release.mechanism.noise) == ("step", 0.25, ("sigma", 1.0))
    assert engine.get_epsilon(1e-5) > 0.0  # its own accountant goes on
    proved = dpaudit.epsilon(release.mechanism, 1e-5, count=8).guarantee.epsilon
    assert proved == pytest.approx(engine.get_epsilon(1e-5), rel=0.3)


def test_the_curator_draws_the_batches() -> None:
    """Those of the loader's own generator would be the same twice."""
    import torch

    found = []
    for _ in range(2):
        torch.manual_seed(0)
        _, _, optimizer, loader = made(0.5)
        attach(optimizer, curator(), loader, rate=loader.sample_rate, records=24)
        found.append(
            [len(inputs) for inputs, _ in loader] + [int(inputs.sum() * 1e3) for inputs, _ in loader]
        )
    assert found[0] != found[1]


def test_a_batch_that_is_left_out_is_noticed() -> None:
    """A loop that leaves a batch out by what is in it would make a step's being there private."""
    _, model, optimizer, loader = made(0.5)
    attach(optimizer, curator(), loader, rate=loader.sample_rate, records=24)
    batches = [batch for _ in range(8) for batch in [next(iter(loader))]]
    assert len({len(inputs) for inputs, _ in batches}) > 1
    ahead = iter(loader)
    first, second = next(ahead), next(ahead)
    while len(first[0]) >= len(second[0]):
        ahead = iter(loader)
        first, second = next(ahead), next(ahead)
    with pytest.raises(ScheduleBroken, match="twice the bound"):
        train(model, optimizer, [second])


def test_a_budget_stops_training_before_it_would_be_exceeded() -> None:
    inner = dpaudit.Gaussian(sigma=2.0, sensitivity=dpaudit.L2(0.5))
    mechanism = dpaudit.PoissonSampled(rate=0.25, mechanism=inner, contribution=0.5)
    own = curator(budget=RDPFilter.within(ApproxDP(epsilon=1.5, delta=1e-5), mechanism))
    _, model, optimizer, loader = made(0.25, noise=4.0)
    attach(optimizer, own, loader, rate=loader.sample_rate, records=24)
    with pytest.raises(BudgetExceeded):
        train(model, optimizer, loader, steps=500)
    before = weights(model).tolist()
    with pytest.raises(BudgetExceeded):
        train(model, optimizer, loader)
    assert weights(model).tolist() == before
    assert 5 < len(own.ledger.releases) < 2000
    assert dpaudit.epsilon(mechanism, 1e-5, count=len(own.ledger.releases)).guarantee.epsilon <= 1.5


def test_the_ledger_says_that_the_sensitivity_is_declared() -> None:
    """Of a replaced record too, whose own part clipping does not bound where it is rounded with others."""
    for relation, moves in (("add-or-remove-one", 0.505), ("replace-one", 1.01)):
        own = curator(relation)
        _, model, optimizer, loader = made(0.5, noise=2.0)
        attach(optimizer, own, loader, rate=loader.sample_rate, records=24)
        train(model, optimizer, loader)
        mechanism: Any = own.ledger.releases[0].mechanism
        sensitivity = mechanism.sensitivity
        assert (sensitivity.value, sensitivity.basis) == (moves, "declared")
        assert mechanism.contribution is None
        [condition] = [
            each for each in dpaudit.account(own.ledger).not_checked if each.code == "declared-sensitivity"
        ]
        assert condition.releases.number == 2


def test_batches_that_are_no_poisson_samples_are_refused() -> None:
    import torch

    loader = torch.utils.data.DataLoader(dataset(), batch_size=6, shuffle=True)
    _, _, optimizer, shuffled = made(loader=loader, poisson_sampling=False)
    for other in (shuffled, None, [1, 2]):
        with pytest.raises(UsageError, match="Poisson sample"):
            attach(optimizer, curator(), other, records=24)


@pytest.mark.parametrize(
    "options", [{"clipping": "per_layer", "max_grad_norm": [0.5, 0.5]}, {"clipping": "adaptive"}]
)
def test_clipping_that_is_not_that_of_whole_gradients_is_refused(options: Any) -> None:
    if options["clipping"] == "adaptive":
        options = {**options, "target_unclipped_quantile": 0.5, "clipbound_learning_rate": 0.2}
        options |= {"max_clipbound": 10.0, "min_clipbound": 0.1, "unclipped_num_std": 1.0}
    _, _, optimizer, loader = made(**options)
    with pytest.raises(UsageError, match="not those of single records"):
        attach(optimizer, curator(), loader, rate=loader.sample_rate, records=24)


def test_several_machines_and_ghosts_are_refused() -> None:
    import torch
    from opacus import optimizers

    own = torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.1)
    for name in ("DistributedDPOptimizer", "DPOptimizerFastGradientClipping"):
        kind = vars(optimizers)[name]
        optimizer = kind.__new__(kind)
        optimizer.original_optimizer = own
        with pytest.raises(UsageError, match=name):
            attach(optimizer, curator(), made()[3], rate=1.0, records=24)


def test_what_is_private_or_changes_is_refused() -> None:
    _, model, optimizer, loader = made()
    with pytest.raises(InvalidParameter, match="number of records"):
        attach(optimizer, curator(), loader, rate=1.0)
    for wrong in (None, "engine", model):
        with pytest.raises(InvalidParameter, match="PrivacyEngine"):
            attach(wrong, curator(), loader, rate=1.0, records=24)
    with pytest.raises((InvalidParameter, UsageError), match="curator"):
        attach(optimizer, "curator", loader, rate=loader.sample_rate, records=24)  # type: ignore[arg-type]
    own = curator()
    attach(optimizer, own, loader, rate=loader.sample_rate, records=24)
    optimizer.noise_multiplier = 5.0
    with pytest.raises(InvalidParameter, match="has changed"):
        train(model, optimizer, loader)
    assert len(own.ledger.releases) == 0


def test_a_rate_that_follows_from_the_number_of_records_is_no_public_one() -> None:
    """Opacus makes of a batch size the rate 1 / len(loader): one record more, and it is another."""
    import torch

    for rows, rate in ((ROWS, 0.25), (np.vstack([ROWS, ROWS[:1]]), 0.2)):
        loader = torch.utils.data.DataLoader(dataset(rows), batch_size=6)
        _, _, optimizer, private = made(loader=loader)
        assert private.sample_rate == pytest.approx(rate)
        with pytest.raises(InvalidParameter, match="no sampling rate"):
            attach(optimizer, curator(), private, records=24)
        attach(optimizer, curator("zero-out"), private)
    with pytest.raises(InvalidParameter, match=r"rate = 0\.25 is not the loader's"):
        attach(optimizer, curator(), private, rate=0.25, records=24)


def test_gradients_in_half_precision_are_refused() -> None:
    """Those of autocast too, whose parameters are in single precision."""
    import torch

    own = curator()
    _, model, optimizer, loader = made()
    attach(optimizer, own, loader, rate=loader.sample_rate, records=24)
    inputs, targets = next(iter(loader))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = (model(inputs) - targets).square().mean()
    loss.backward()
    with pytest.raises(InvalidParameter, match=r"(?s)gradients of type torch\.bfloat16.*autocast"):
        optimizer.step()
    assert len(own.ledger.releases) == 0
    _, _, optimizer, loader = made()
    for group in optimizer.param_groups:
        for part in group["params"]:
            part.data = part.data.to(torch.bfloat16)
    with pytest.raises(InvalidParameter, match=r"parameters of type torch\.bfloat16"):
        attach(optimizer, curator(), loader, rate=loader.sample_rate, records=24)


@pytest.mark.parametrize(("rate", "public"), [(0.5, True), (0.5, False), (0.0, True)])
def test_public_dropout_is_refused(rate: float, public: bool) -> None:
    """Masks that are known and drawn for each place move the gradients behind a record that is taken out."""
    import torch
    from opacus import PrivacyEngine
    from opacus.data_loader import DPDataLoader

    own, refused = curator(), public and rate > 0.0
    with public_randomness(own) if public else contextlib.nullcontext():
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(rate), torch.nn.Linear(3, 1))
        loader = DPDataLoader(dataset(), sample_rate=0.5)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        about: Any = {"module": model, "optimizer": optimizer, "data_loader": loader}
        made_private = PrivacyEngine().make_private(**about, noise_multiplier=1.0, max_grad_norm=0.5)
        attach(made_private[1], own, made_private[2], rate=made_private[2].sample_rate, records=24)
        if refused:
            with pytest.raises(UsageError, match="one mask for each place"):
                train(*made_private)
        else:
            train(*made_private)
    assert len(own.ledger.releases) == (0 if refused else 2)


@pytest.mark.parametrize("module", ["dpaudit.opacus", "dpaudit.auditors.libraries.opacus_noise"])
def test_what_torch_loads_at_its_first_use_is_loaded_before_runs_are_forked(module: str) -> None:
    """Every run would load it again: a second each."""
    code = f"import sys, {module}; sys.exit('torch._dynamo' not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def trains(rows: Any, own: Curator) -> Any:
    with public_randomness(own):
        _, model, optimizer, loader = made(rows=rows, noise=4.0)
        attach(optimizer, own, loader, rate=loader.sample_rate, records=9)
        train(model, optimizer, loader, steps=3)
    return [each.detach().numpy() for each in model.parameters()]


def centred(rows: Any, own: Curator) -> Any:
    """The fault: features are centred by their private mean, so that a record moves every gradient."""
    return trains(np.column_stack([rows[:, :4] - rows[:, :4].mean(axis=0), rows[:, 4:]]), own)


@pytest.mark.parametrize("refuted", [False, True])
def test_replay_finds_records_that_move_the_gradients_of_others(refuted: bool) -> None:
    rows = ROWS[:9].copy()
    rows[8] = [50.0, -50.0, 50.0, 0.0, 1.0]
    pairs = [Pair(rows, rows[:8], "the last record")]
    audit = dpaudit.replay(centred if refuted else trains, pairs, claim=CLAIM, replays=5)
    assert {finding.kind for finding in audit.findings} == ({"sensitivity"} if refuted else set())
