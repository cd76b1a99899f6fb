"""Training a PyTorch module by clipped gradients with noise, in place of `loss.backward()`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpaudit.claims.arguments import require_kind
from dpaudit.curator.curator import Curator
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.training.gradients import (
    LayerSums,
    Places,
    add_one_by_one,
    group_size,
    load_ahead,
    missing,
    on_rows,
    public_randomness,
    repeatable,
    set_gradients,
)

__all__ = ["PrivateGradient", "public_randomness"]

load_ahead()


class PrivateGradient:
    """The noisy mean gradient of a Poisson sample, in place of a loss's gradient.

    A curator clips each record's gradient, adds the gradients up and adds noise. Any torch optimizer
    can use the result: computing with noisy gradients has no further privacy cost.

    Dropout draws one mask for all records of a step, from the curator's public randomness. With one mask per
    record, adding or removing a record would change the masks and gradients of the records after it.

    A record's gradient does not depend on the others, not even by rounding: see
    `dpaudit.training.gradients.add_one_by_one`. So the sensitivity of a sum is `bound`, in any precision.

    Args:
        module: the trained module. Its outputs for one record must not depend on other records, as those
            of batch normalisation do in training.
        loss: function from one record's outputs [1, ...] and targets [1, ...] to its loss.
        curator: the run's curator. Every step is a line of its ledger, and its budget, if it has one, is
            charged before the step: a step that does not fit raises `BudgetExceeded`, and the gradients stay.
        rate: sampling probability of each record.
        bound: the norm to which a record's gradient, of all parameters together, is clipped.
        noise_multiplier: the noise's standard deviation over `bound`.
        records: the public number of records, for averaging gradients. Default: the data's own number,
            which is public unless a record may be added or removed.
        together: the fixed number of gradients in one computation.
        layers: whether each parameter tensor is clipped and noised by itself. `bound` and `noise_multiplier`
            are then a number for all of them, or one for each. All are made on the same sample.
        count_noise: the standard deviation of the noise on the number of records that are clipped, which
            adaptive clipping needs; it is made on the same sample, and stands in `clipped` after a step. Left
            out, it is not released.
        label: the steps' label in the ledger.

    Raises:
        MissingExtra: torch is not installed.
        InvalidParameter: a number out of its range, or nothing to train.
    """

    def __init__(
        self,
        module: Any,
        loss: Callable[[Any, Any], Any],
        curator: Curator,
        *,
        rate: float,
        bound: float | Sequence[float],
        noise_multiplier: float | Sequence[float],
        records: int | None = None,
        together: int = 64,
        layers: bool = False,
        count_noise: float | None = None,
        label: str = "gradient",
    ) -> None:
        try:
            import torch
        except ImportError as error:
            raise missing("torch", "torch", error) from None
        where = "PrivateGradient"
        require_kind(module, torch.nn.Module, f"{where}(module=)")
        require_kind(together, int, f"{where}(together=)")
        self._trained = {name: each for name, each in module.named_parameters() if each.requires_grad}
        if not self._trained or together < 1:
            what = f"together = {together}" if self._trained else "a module without parameters to train"
            raise InvalidParameter(what, where=where, remedy="give at least one")
        sizes = {name: each.numel() for name, each in self._trained.items()}
        stated: Any = {"bound": bound, "noise_multiplier": noise_multiplier, "count_noise": count_noise}
        parts = sizes if layers else {"": sum(sizes.values())}
        self._batches = LayerSums(curator, parts, rate=rate, label=label, **stated)
        self._curator, self._rate, self._records, self._together = curator, rate, records, together

        def of_one(trained: Any, inputs: Any, targets: Any) -> Any:
            outputs = torch.func.functional_call(module, trained, (inputs[None],))
            return loss(outputs, targets[None])

        one = torch.func.grad(of_one)
        self._of_many = torch.func.vmap(one, in_dims=(None, 0, 0), randomness="same")

    @property
    def clipped(self) -> float | None:
        """The noisy number of records that the last step clipped; None where it is not released."""
        return self._batches.clipped

    def backward(self, inputs: Any, targets: Any) -> None:
        """Set the gradients of the module's parameters, on their own device, from one sample of the records.

        Args:
            inputs: tensor [n, ...] of all records; those that are drawn are moved to the parameters' device.
            targets: tensor [n, ...].

        Raises:
            DataError: not as many targets as inputs.
            BudgetExceeded: the budget does not suffice; no gradient was changed.
            RuntimeError: by torch, for a gradient that it does not compute twice alike on this device.
        """
        import torch

        if len(inputs) != len(targets):
            what, remedy = f"{len(inputs)} inputs and {len(targets)} targets", "give one of each a record"
            raise DataError(what, where="PrivateGradient.backward", remedy=remedy)
        expected = group_size(self._curator, self._rate, self._records, len(inputs))
        trained = {name: each.detach() for name, each in self._trained.items()}
        device = next(iter(trained.values())).device
        drawn = self._batches.draw(len(inputs))
        columns = [each[drawn] for each in (inputs, targets)]
        seed = int(self._curator.public("masks").integers(2**63))

        def compute(positions: Places) -> Any:
            # The same masks again, and torch's own state as before: it must not tell how many were drawn.
            with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), repeatable():
                torch.manual_seed(seed)
                found = self._of_many(trained, *(each[positions].to(device) for each in columns))
            return on_rows(found.values())

        add_one_by_one(self._batches, _bytes(columns), self._together, compute)
        noisy = self._batches.noisy() / expected
        set_gradients(list(self._trained.values()), np.asarray(noisy))


def _bytes(columns: list[Any]) -> list[bytes]:
    """Of the tensors [n, ...] of n records, the bytes of each record."""
    import torch

    parts = (each.detach().cpu().reshape(len(each), math.prod(each.shape[1:])) for each in columns)
    rows = np.hstack([part.contiguous().view(torch.uint8).numpy() for part in parts])
    return [row.tobytes() for row in rows]
