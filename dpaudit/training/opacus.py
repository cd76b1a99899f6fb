"""Training with Opacus while dpaudit draws the samples and the noise, and writes the ledger.

The curator replaces the optimizer's own clipping, sampling and noise: it clips the gradient of every sampled
record, sums them exactly and adds noise. Physical batches (`BatchMemoryManager`) are
parts of one batch. Opacus computes the per-record gradients, and their rounding depends on
the batch size: the ledger says that the sensitivity is declared.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dpaudit.claims.arguments import require_kind
from dpaudit.claims.relations import Neighbouring
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter, UsageError
from dpaudit.ledger.places import passed_over
from dpaudit.training.gradients import (
    LayerSums,
    PublicDraws,
    group_size,
    load_ahead,
    missing,
    on_rows,
    set_gradients,
)

_WHERE: Final = "dpaudit.opacus.attach"

load_ahead()


def attach(
    to: Any,
    curator: Curator,
    loader: Any = None,
    *,
    rate: float | None = None,
    records: int | None = None,
    layers: bool = False,
    label: str = "gradient",
) -> None:
    """Let a curator draw the samples and the noise of Opacus's training.

    Args:
        to: a `PrivacyEngine`, before it makes anything private: what its `make_private` returns is attached.
            Or a `DPOptimizer`, with its loader.
        curator: the run's curator. Every step is a line of its ledger, and its budget, if it has one, is
            charged before it. A step that does not fit raises `BudgetExceeded`; the parameters stay.
        loader: the `DPDataLoader` of the optimizer's batches.
        rate: the loader's public sampling rate. Opacus computes it, and the number of steps, from the number
            of records, except for a loader made by ``DPDataLoader(..., sample_rate=rate)``. It may be left
            out if the number of records is public because none may be added or removed.
        records: the public number of records, for averaging gradients. Default: the data set's own number,
            which is public unless a record may be added or removed.
        layers: whether each parameter tensor is clipped to the optimizer's norm and noised by itself. All are
            made on the same sample.
        label: the steps' label in the ledger.

    Raises:
        UsageError: an optimizer that adds up gradients before they can be clipped (fast gradient clipping),
            clips layer by layer or adaptively, or trains on several machines; or batches that are no
            Poisson samples.
        InvalidParameter: neither engine nor optimizer, no rate or number of records where the data's is
            private, another rate than the loader's, or parameters in less than single precision; in
            training, gradients in less (autocast).
        MissingExtra: Opacus is not installed.
    """
    try:
        from opacus import PrivacyEngine
        from opacus.optimizers import DPOptimizer
    except ImportError as error:
        raise missing("opacus", "opacus", error) from None
    require_kind(curator, Curator, _WHERE)
    if isinstance(to, PrivacyEngine) and loader is None:
        _attach_engine(to, curator, rate, records, label, layers=layers)
        return
    if not isinstance(to, DPOptimizer):
        what = f"a {type(to).__name__}" if loader is None else f"a {type(to).__name__} with a loader"
        remedy = "give a PrivacyEngine, or the optimizer and the loader that its make_private returned"
        raise InvalidParameter(what, where=_WHERE, remedy=remedy)
    if type(to) is not DPOptimizer:
        what, why = f"a {type(to).__name__}", "its gradients are not those of single records, clipped as one"
        remedy = 'use clipping="flat" on one machine; `dpaudit audit --library opacus` audits others'
        raise UsageError(what, where=_WHERE, why=why, remedy=remedy)
    _require_single(to.params, "parameters")
    sampler = _poisson(loader)
    rate, bound = _public_rate(curator, float(sampler.sample_rate), rate), float(to.max_grad_norm)
    sizes = {str(place): each.numel() for place, each in enumerate(to.params)}
    parts = sizes if layers else {"": sum(sizes.values())}
    own: Any = {"rate": rate, "bound": bound, "noise_multiplier": float(to.noise_multiplier)}
    if to.loss_reduction == "mean":
        to.expected_batch_size = group_size(curator, rate, records, sampler.num_samples)
    _Attached.to(to, sampler, LayerSums(curator, parts, **own, label=label, declared=True))


def _require_single(numbers: Any, what: str) -> None:
    """Raise `InvalidParameter` for tensors whose rounding may exceed what is declared."""
    if short := sorted({str(each.dtype) for each in numbers} - {"torch.float32", "torch.float64"}):
        why = "one record more may then change the others' rounding by more than is declared"
        remedy = "train in float32 without autocast; dpaudit.torch.PrivateGradient takes any precision"
        raise InvalidParameter(f"{what} of type {short[0]}", where=_WHERE, why=why, remedy=remedy)


def _public_rate(curator: Curator, own: float, stated: float | None) -> float:
    """Return a loader's rate, which must be the same for neighbouring data."""
    if stated is None and curator.ledger.header.neighbouring is not Neighbouring.ADD_OR_REMOVE_ONE:
        return own
    why = "Opacus computes a loader's rate from the number of records, unless its DPDataLoader states it"
    remedy = "give DPDataLoader(..., sample_rate=RATE), and attach(rate=RATE), a public number"
    if stated is None:
        raise InvalidParameter("no sampling rate", where="rate", why=why, remedy=remedy)
    if stated != own:
        raise InvalidParameter(f"rate = {stated} is not the loader's", where="rate", why=why, remedy=remedy)
    return own


def _attach_engine(
    engine: Any, curator: Curator, rate: float | None, records: int | None, label: str, *, layers: bool
) -> None:
    make = engine.make_private

    @functools.wraps(make)
    def make_private(**options: Any) -> Any:
        made = make(**options)
        attach(made[1], curator, made[-1], rate=rate, records=records, layers=layers, label=label)
        return made

    engine.make_private = make_private


def _poisson(loader: Any) -> Any:
    """The sampler of a loader's Poisson samples; raises `UsageError` for any other batches."""
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler

    sampler = getattr(loader, "batch_sampler", None)
    while hasattr(sampler, "max_batch_size"):  # batches that are split into physical ones
        sampler = getattr(sampler, "sampler", None)
    if not isinstance(sampler, UniformWithReplacementSampler):
        what = "no loader" if loader is None else f"batches of a {type(sampler).__name__}"
        why = "a step's cost assumes a Poisson sample, and shuffled batches are not Poisson samples"
        remedy = "give the loader of make_private(poisson_sampling=True), or a DPDataLoader"
        raise UsageError(what, where=_WHERE, why=why, remedy=remedy)
    return sampler


@dataclass
class _Attached:
    """One optimizer whose clipping and noise are the curator's, and the sampler of its batches."""

    optimizer: Any
    batches: LayerSums
    stated: tuple[float, float]
    draws: PublicDraws

    @classmethod
    def to(cls, optimizer: Any, sampler: Any, batches: LayerSums) -> None:
        """Replace what is the curator's: an instance's own methods, and the sampler's batches."""
        stated, draws = (optimizer.max_grad_norm, optimizer.noise_multiplier), PublicDraws(_WHERE)
        own = cls(optimizer, batches, stated, draws)
        optimizer.clip_and_accumulate, optimizer.add_noise = own.clip_and_accumulate, own.add_noise

        def drawn(self: Any) -> Iterator[list[int]]:
            batches.drop()
            for _ in range(self.steps):
                draws.begin()
                yield batches.draw(self.num_samples).tolist()

        kind = type(sampler)
        sampler.__class__ = type(kind.__name__, (kind,), {"__iter__": drawn})

    def clip_and_accumulate(self) -> None:
        """Hand the gradients of a physical batch to the curator."""
        from opacus.optimizers import optimizer as its_own

        parts = self.optimizer.params
        for part in parts:
            its_own._check_processed_flag(part.grad_sample)  # noqa: SLF001  (not the last step's gradients)
        _require_single(self.optimizer.grad_samples, "gradients")
        self.draws.require_none()
        self.batches.add(on_rows(self.optimizer.grad_samples))
        for part in parts:
            its_own._mark_as_processed(part.grad_sample)  # noqa: SLF001

    def add_noise(self) -> None:
        """Set every parameter's gradient to its part of the curator's noisy sum."""
        if (self.optimizer.max_grad_norm, self.optimizer.noise_multiplier) != self.stated:
            what = "a clipping norm or a noise multiplier that has changed since the optimizer was attached"
            why, remedy = "its ledger's lines say the first ones", "train without schedulers of either"
            raise InvalidParameter(what, where=_WHERE, why=why, remedy=remedy)
        import opacus
        import torch

        folders = (str(Path(each.__file__).parent) + os.sep for each in (opacus, torch))
        with passed_over(tuple(folders)):
            noisy = self.batches.noisy()
        set_gradients(self.optimizer.params, noisy)
