"""Training with JAX by clipped gradients with noise, for optax or any other optimizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpaudit.claims.arguments import require_kind
from dpaudit.curator.clipping import require_unmasked
from dpaudit.curator.curator import Curator
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.training.gradients import LayerSums, Places, add_one_by_one, group_size, missing


class PrivateGradient:
    """The noisy mean gradient of a Poisson sample, in place of `jax.grad`.

    Call it with the parameters and the columns of all records; it returns a tree like the parameters. A
    curator clips each record's gradient, adds the gradients up and adds noise. What an optimizer computes
    from noisy gradients costs nothing more. A record's gradient does not depend on the others, not even
    by rounding: see `dpaudit.training.gradients.add_one_by_one`. So the sensitivity of a sum is `bound`.

    Args:
        loss: ``(params, *record) -> loss`` of one record, in JAX's functions. Or what `clipped_grad` of
            jax-privacy returned: its own code then clips every record's gradient, in a batch of one.
        curator: the run's curator. Every step is a line of its ledger, and its budget, if it has one, is
            charged before the step: a step that does not fit raises `BudgetExceeded`.
        rate: sampling probability of each record.
        bound: the norm to which a record's gradient, of all parameters together, is clipped; of a
            `clipped_grad` it may be left out, and is its own.
        noise_multiplier: the noise's standard deviation over `bound`.
        records: the public number of records, for averaging gradients. Default: the data's own number,
            which is public unless a record may be added or removed.
        together: the fixed number of gradients in one computation.
        layers: whether each array of the parameters is clipped and noised by itself. `bound` and
            `noise_multiplier` are then a number for all of them, or one for each. All are made on the same
            sample.
        count_noise: the standard deviation of the noise on the number of records that are clipped, which
            adaptive clipping needs; it is made on the same sample, and stands in `clipped` after a step. Left
            out, it is not released.
        label: the steps' label in the ledger.

    Raises:
        MissingExtra: JAX is not installed.
        InvalidParameter: a number out of its range, no bound, or a `clipped_grad` that returns more than
            the gradient.
    """

    def __init__(
        self,
        loss: Callable[..., Any],
        curator: Curator,
        *,
        rate: float,
        bound: float | Sequence[float] | None = None,
        noise_multiplier: float | Sequence[float],
        records: int | None = None,
        together: int = 64,
        layers: bool = False,
        count_noise: float | None = None,
        label: str = "gradient",
    ) -> None:
        try:
            import jax
            from jax.flatten_util import ravel_pytree
        except ImportError as error:
            raise missing("jax", "jax", error) from None
        require_kind(together, int, "PrivateGradient(together=)")
        if together < 1:
            raise InvalidParameter(
                f"together = {together}", where="PrivateGradient", remedy="give at least 1"
            )
        clips = hasattr(loss, "l2_norm_bound")  # jax-privacy's BoundedSensitivityCallable
        bound = getattr(loss, "l2_norm_bound", None) if bound is None else bound
        if bound is None or getattr(loss, "has_aux", False):
            what = "no bound" if bound is None else "a clipped_grad that returns more than the gradient"
            remedy = "give bound=" if bound is None else "leave out has_aux and return_grad_norms"
            raise InvalidParameter(what, where="PrivateGradient", remedy=remedy)
        self._stated: Any = {
            "rate": rate,
            "bound": bound,
            "noise_multiplier": noise_multiplier,
            "count_noise": count_noise,
            "label": label,
        }
        self._by_layer = layers
        self._curator, self._rate, self._records, self._together = curator, rate, records, together
        self._batches: dict[tuple[int, ...], LayerSums] = {}
        self._leaves = jax.tree_util.tree_leaves
        self._ravel = ravel_pytree
        #: The noisy number of records that the last step clipped; None where it is not released.
        self.clipped: float | None = None

        def of_many(params: Any, *columns: Any) -> Any:
            def of_one(*record: Any) -> Any:
                gradient = loss if clips else jax.grad(loss)
                found = ravel_pytree(gradient(params, *(each[None] if clips else each for each in record)))[0]
                return found.astype(jax.numpy.promote_types(found.dtype, jax.numpy.float32))

            return jax.vmap(of_one)(*columns)

        self._of_many = jax.jit(of_many)
        number = next((len(each) for each in (bound, noise_multiplier) if isinstance(each, Sequence)), 1)
        self._sums(tuple([1] * (number if layers else 1)))  # refused now, and not at the first step

    def __call__(self, params: Any, *columns: Any) -> Any:
        """Return the noisy mean gradient at `params`, in their form, from one sample of the records.

        Args:
            params: a tree of arrays.
            *columns: arrays [n, ...], whose i-th entries together are the i-th record.

        Raises:
            DataError: no columns, or columns of different lengths.
            InvalidParameter: a masked array.
            BudgetExceeded: the budget does not suffice.
        """
        require_unmasked(columns, "PrivateGradient")
        rows = [np.asarray(column) for column in columns]
        if len({len(each) for each in rows}) != 1:
            what, remedy = f"columns of lengths {[len(each) for each in rows]}", "give one entry a record"
            raise DataError(what, where="PrivateGradient", remedy=remedy)
        expected = group_size(self._curator, self._rate, self._records, len(rows[0]))
        flat, back = self._ravel(params)
        sizes = tuple(int(np.size(leaf)) for leaf in self._leaves(params)) if self._by_layer else (flat.size,)
        if sizes not in self._batches:
            self._batches[sizes] = self._sums(sizes)
        batches = self._batches[sizes]
        drawn = batches.draw(len(rows[0]))
        chosen = [each[drawn] for each in rows]

        def compute(positions: Places) -> Any:
            return np.asarray(self._of_many(params, *(each[positions] for each in chosen)))

        records = [b"".join(entry.tobytes() for entry in record) for record in zip(*chosen, strict=True)]
        add_one_by_one(batches, records, self._together, compute)
        noisy = batches.noisy() / expected
        self.clipped = batches.clipped
        return back(np.asarray(noisy, dtype=flat.dtype))

    def _sums(self, sizes: tuple[int, ...]) -> LayerSums:
        """Return noisy sums for gradients of arrays with these sizes."""
        named = {str(place): size for place, size in enumerate(sizes)}
        return LayerSums(self._curator, named, **self._stated)
