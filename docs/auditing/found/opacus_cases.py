"""What docs/auditing/found.md audits of Opacus: trainings of a linear model, and pairs of neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from opacus import PrivacyEngine
from opacus.data_loader import DPDataLoader
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer

LIBRARY = "opacus"
ADD = "add-or-remove-one"


def records(number: int) -> Any:
    features = np.random.default_rng(0).normal(size=(number, 3))
    features[-1] = [3.0, -3.0, 1.0]
    return np.column_stack([features, features @ [1.0, 2.0, 3.0]])


ROWS = records(18)


def dataset(rows: Any) -> Any:
    columns = torch.from_numpy(rows).float()
    return torch.utils.data.TensorDataset(columns[:, :3], columns[:, 3:])


def weights_after(steps: int, model: Any, optimizer: Any, batches: Any) -> list[Any]:
    for _, (features, target) in zip(range(steps), batches, strict=False):
        optimizer.zero_grad()
        (model(features) - target).square().mean().backward()
        optimizer.step()
    return [each.detach().numpy().copy() for each in model.parameters()]


def engine(rows: Any, **options: Any) -> list[Any]:
    """One pass, made private as the library's introduction does."""
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(dataset(rows), batch_size=9)
    about = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, **options}
    made = PrivacyEngine().make_private(module=model, optimizer=optimizer, data_loader=loader, **about)
    return weights_after(2, *made)


def adaptive_clipping(rows: Any) -> list[Any]:
    about = {"target_unclipped_quantile": 0.5, "clipbound_learning_rate": 0.2, "unclipped_num_std": 1.0}
    return engine(rows, clipping="adaptive", max_clipbound=10.0, min_clipbound=0.1, **about)


def public_numbers(rows: Any, rate: float = 1.0) -> list[Any]:
    """Two steps; the rate, the number of steps and what a sum is divided by are public."""
    model = GradSampleModule(torch.nn.Linear(3, 1))
    descent = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = DPOptimizer(descent, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=9)
    return weights_after(2, model, optimizer, forever(DPDataLoader(dataset(rows), sample_rate=rate)))


def public_numbers_sampled(rows: Any) -> list[Any]:
    return public_numbers(rows, rate=0.5)


def forever(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def removed_record() -> Any:
    return ROWS, ROWS[:-1]


def missing_value() -> Any:
    other = ROWS.copy()
    other[-1, 0] = np.nan
    return ROWS, other


#: Each: name of the target, name of the pair, relation, what is expected, and what it shows.
CASES: list[tuple[str, str, str, str, str]] = [
    (
        "engine",
        "removed_record",
        ADD,
        "REFUTED",
        "gradients are averaged over a number that follows from the number of records (issues 571, 819)",
    ),
    (
        "adaptive_clipping",
        "removed_record",
        ADD,
        "REFUTED",
        "the same; besides, the clipping norm is adapted to a share of the private batch",
    ),
    ("public_numbers", "removed_record", ADD, "NOT_REFUTED", "the optimizer itself, with public numbers"),
    ("public_numbers", "missing_value", "replace-one", "REFUTED", "NaN passes through clipping and noise"),
    (
        "public_numbers_sampled",
        "removed_record",
        ADD,
        "INCONCLUSIVE",
        "unlike records have too many samples to add up",
    ),
]
SAMPLED: dict[str, list[str]] = {}
#: What two steps with sigma 1 cost without amplification, rounded up.
CLAIM = ["--epsilon", "6.6", "--delta", "1e-5"]
