"""What training in every library shares: noisy sums of clipped gradients, one batch after another."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from dpaudit.claims.arguments import require_kind
from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import L2
from dpaudit.curator.batches import Batches
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter, MissingExtra
from dpaudit.mechanisms import Array, Gaussian, PoissonSampled

#: By how much more a sum may move than by one clipped gradient, relative to it: other records' gradients are
#: rounded otherwise in a batch with one record more. 100,000 that point one way, in single precision, add up
#: to that.
SINGLE: Final = 1e-2
#: The same in double precision.
_DOUBLE: Final = 1e-9


def gradients(
    curator: Curator,
    size: int,
    *,
    rate: float,
    bound: float,
    noise_multiplier: float,
    label: str,
    double: bool = False,
) -> Batches:
    """Noisy sums [size] of gradients, each clipped to `bound`, over Poisson samples.

    Args:
        curator: of the run; it draws samples and noise, and its ledger gets a line for each step.
        size: the number of parameters.
        rate: the probability with which each record is in a batch; with 1 nothing is hidden by sampling.
        bound: the norm to which each record's gradient is clipped.
        noise_multiplier: the noise's standard deviation over `bound`.
        label: of the steps, in the ledger.
        double: whether gradients are computed in double precision.

    Raises:
        InvalidParameter: a number out of its range, or no curator.
    """
    require_kind(curator, Curator, "curator")
    # A replaced record moves a sum by two gradients.
    moves = curator.ledger.header.neighbouring.sum_sensitivity(bound, "l2", acute=False)
    moves *= 1.0 + (_DOUBLE if double else SINGLE)
    noise = Gaussian(sigma=noise_multiplier * bound, sensitivity=L2(moves))
    mechanism = noise if rate == 1.0 else PoissonSampled(rate=rate, mechanism=noise)
    return curator.batches(mechanism, label, (size,), bound=bound)


def all_double(kinds: Iterable[Any]) -> bool:
    """Whether gradients of parameters of these types are computed in double precision; else in single.

    Raises `InvalidParameter`: one is of neither type. In fewer bits a few records' rounding exceeds `SINGLE`.
    """
    names = {str(kind).rpartition(".")[2] for kind in kinds}
    if strange := sorted(names - {"float32", "float64"}):
        what, why = (
            f"parameters of type {strange[0]}",
            "other records' gradients would be rounded too coarsely",
        )
        raise InvalidParameter(what, where="parameters", why=why, remedy="train in float32 or float64")
    return names == {"float64"}


def group_size(curator: Curator, rate: float, records: int | None, known: int | None = None) -> float:
    """The expected size of a batch, for averages, from the number of records as it is publicly known.

    `known` is how many there are, which is public where neighbours have as many. Raises `InvalidParameter`:
    `records` is left out where it is not, or no positive whole number.
    """
    if records is None and curator.ledger.header.neighbouring is not Neighbouring.ADD_OR_REMOVE_ONE:
        records = known
    if records is None:
        what, why = "no number of records", "the data's own is private where one may be added or removed"
        remedy = "give records=, a public estimate; it sets the step size alone"
        raise InvalidParameter(what, where="records", why=why, remedy=remedy)
    require_kind(records, int, "records")
    if records < 1:
        raise InvalidParameter(f"records = {records}", where="records", remedy="give a positive number")
    return rate * records


def missing(what: str, extra: str, error: ImportError) -> MissingExtra:
    """The error where a library is not installed."""
    remedy = f"pip install 'dpaudit[{extra}]'"
    return MissingExtra(f"{what} cannot be imported: {error}", where=f"dpaudit.{extra}", remedy=remedy)


@contextmanager
def public_randomness(curator: Curator) -> Iterator[None]:
    """While the context lasts, torch's global generator is public, and it computes in one thread.

    So initial weights are the same whenever a run is repeated, and nobody takes them for noise. Dropout in it
    must give all records one mask: with a mask for each place in a batch, one record would move the gradients
    of those behind it. A forked process has none of the threads that its parent began.
    """
    import torch

    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(curator.public("torch").integers(2**63)))
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def set_gradients(parameters: Sequence[Any], flat: Array) -> None:
    """Set the gradients of torch's parameters to the parts of one vector, each on its own device."""
    import torch

    ends = np.cumsum([each.numel() for each in parameters])[:-1]
    for part, own in zip(parameters, np.split(flat, ends), strict=True):
        part.grad = torch.from_numpy(own.copy()).to(part.device, part.dtype).view_as(part)


def on_rows(tensors: Iterable[Any]) -> Array:
    """Gradients [m, ...] of torch, of all parameters side by side: [m, p], in single or double precision."""
    import torch

    columns = [each.detach().reshape(len(each), math.prod(each.shape[1:])) for each in tensors]
    double = any(each.dtype == torch.float64 for each in columns)
    kind = torch.float64 if double else torch.float32  # of a shorter kind every number is one of these
    rows: Array = torch.cat([each.to("cpu", kind) for each in columns], dim=1).numpy()
    return rows
