"""Training with JAX by clipped gradients with noise, for optax or any other optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpaudit.claims.arguments import require_kind
from dpaudit.curator.batches import Batches
from dpaudit.curator.curator import Curator
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.gradients import all_double, gradients, group_size, missing


class PrivateGradient:
    """The noisy mean gradient of a Poisson sample, in place of `jax.grad`.

    It is called with the parameters and the columns of all records, and returns a tree like the parameters.
    Each record's own gradient is clipped, and they are summed and noised by a curator. What an optimizer
    computes from noisy gradients costs nothing more.

    Args:
        loss: ``(params, *record) -> loss`` of one record, in JAX's functions.
        curator: of the run. Every step is a line of its ledger, and its budget, if it holds one, is charged
            before the step: one that does not fit raises `BudgetExceeded`.
        rate: the probability with which each record is in a batch.
        bound: the norm to which a record's gradient, of all parameters together, is clipped.
        noise_multiplier: the noise's standard deviation over `bound`.
        records: the number of records as it is publicly known, by which gradients are averaged. Left out, it
            is that of the data, which is public unless a record may be added or removed.
        together: how many gradients are computed at once, always so many.
        label: of the steps, in the ledger.

    Raises:
        MissingExtra: JAX is not installed.
        InvalidParameter: a number out of its range.
    """

    def __init__(
        self,
        loss: Callable[..., Any],
        curator: Curator,
        *,
        rate: float,
        bound: float,
        noise_multiplier: float,
        records: int | None = None,
        together: int = 64,
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
        self._stated: Any = {
            "rate": rate,
            "bound": bound,
            "noise_multiplier": noise_multiplier,
            "label": label,
        }
        self._curator, self._rate, self._records, self._together = curator, rate, records, together
        self._batches: dict[tuple[int, bool], Batches] = {}
        self._ravel = ravel_pytree
        self._types: Callable[[Any], list[Any]] = lambda params: [
            jax.numpy.result_type(each) for each in jax.tree.leaves(params)
        ]

        def of_many(params: Any, *columns: Any) -> Any:
            def of_one(*record: Any) -> Any:
                return ravel_pytree(jax.grad(loss)(params, *record))[0]

            return jax.vmap(of_one)(*columns)

        self._of_many = jax.jit(of_many)
        gradients(curator, 1, **self._stated)  # refused now, and not at the first step

    def __call__(self, params: Any, *columns: Any) -> Any:
        """The noisy mean gradient at `params`, of their form, from one sample of the records.

        Args:
            params: a tree of arrays.
            *columns: arrays [n, ...], whose i-th entries together are the i-th record.

        Raises:
            DataError: no columns, or columns of different lengths.
            InvalidParameter: parameters in less than single precision.
            BudgetExceeded: the budget does not suffice.
        """
        rows = [np.asarray(column) for column in columns]
        if len({len(each) for each in rows}) != 1:
            what, remedy = f"columns of lengths {[len(each) for each in rows]}", "give one entry a record"
            raise DataError(what, where="PrivateGradient", remedy=remedy)
        expected = group_size(self._curator, self._rate, self._records, len(rows[0]))
        flat, back = self._ravel(params)
        form = flat.size, all_double(self._types(params))
        if form not in self._batches:
            self._batches[form] = gradients(self._curator, form[0], **self._stated, double=form[1])
        batches = self._batches[form]
        drawn = batches.draw(len(rows[0]))
        for first in range(0, len(drawn), self._together):
            places = drawn[first : first + self._together]
            # One size, so that it is compiled once; what is repeated to fill it up is left out again.
            filled = np.resize(places, self._together)
            found = self._of_many(params, *(each[filled] for each in rows))
            batches.add(np.asarray(found)[: len(places)])
        return back(np.asarray(batches.noisy() / expected, dtype=flat.dtype))
