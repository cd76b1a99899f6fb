"""Noisy sums of clipped gradients, batch by batch: the common part of training in every library."""

import hashlib
import importlib
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpaudit.claims.arguments import require_kind
from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import L2, Basis
from dpaudit.curator.batches import Batches
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter, MissingExtra, UsageError
from dpaudit.mechanisms import Array, Gaussian, PoissonSampled

#: Positions among records, [n].
Places: TypeAlias = NDArray[np.int64]

#: By how much more a sum of Opacus's gradients is declared to move than by one of them, relative to it: it
#: rounds other records' gradients otherwise in a batch with one record more. That it suffices is not proved.
ROUNDED: Final = 1e-2


def gradients(
    curator: Curator,
    size: int,
    *,
    rate: float,
    bound: float,
    noise_multiplier: float,
    label: str,
    declared: bool = False,
    draw_with: Batches | None = None,
) -> Batches:
    """Noisy sums [size] of gradients, each clipped to `bound`, over Poisson samples.

    Args:
        curator: the run's curator; it draws samples and noise, and records each step in its ledger.
        size: the number of parameters.
        rate: sampling probability of each record; 1 means no sampling.
        bound: the norm to which each record's gradient is clipped.
        noise_multiplier: the noise's standard deviation over `bound`.
        label: the steps' label in the ledger.
        declared: whether a record may change the gradients of others, by rounding: the sensitivity is then
            `ROUNDED` more, and the ledger says that it is declared.
        draw_with: as in `Curator.batches`.

    Raises:
        InvalidParameter: a number out of its range, or no curator.
    """
    require_kind(curator, Curator, "curator")
    # A replaced record moves a sum by two gradients.
    moves = curator.ledger.header.neighbouring.sum_sensitivity(bound, "l2", acute=False)
    moves *= 1.0 + (ROUNDED if declared else 0.0)
    noise = Gaussian(sigma=noise_multiplier * bound, sensitivity=L2(moves))
    basis: Basis = "declared" if declared else "clipped"
    mechanism = _sampled(rate, noise)
    return curator.batches(mechanism, label, (size,), bound=bound, basis=basis, draw_with=draw_with)


def _sampled(rate: float, noise: Gaussian) -> Gaussian | PoissonSampled:
    return noise if rate == 1.0 else PoissonSampled(rate=rate, mechanism=noise)


class LayerSums:
    """Noisy sums of gradients, clipped and noised layer by layer, and perhaps the number of clipped records.

    All are made on the same draws, and their lines name the same sample. It has the same methods as `Batches`
    of the whole gradient.

    Args:
        curator: as in `gradients`, and so are `rate`, `label` and `declared`.
        sizes: the number of parameters of each layer by its name, in the order of the gradient's columns.
        bound: the norm to which a record's gradient is clipped in each layer; one number, or one a layer.
        noise_multiplier: the noise's standard deviation over the layer's bound; one number, or one a layer.
        count_noise: the standard deviation of the noise on the number of records whose gradient is longer
            than its bound in some layer; None: that number is not released.

    Raises:
        InvalidParameter: no layers, not one number a layer, or a number out of its range.
    """

    def __init__(
        self,
        curator: Curator,
        sizes: Mapping[str, int],
        *,
        rate: float,
        bound: float | Sequence[float],
        noise_multiplier: float | Sequence[float],
        label: str,
        declared: bool = False,
        count_noise: float | None = None,
    ) -> None:
        require_kind(curator, Curator, "curator")
        bounds, noise = (_each(given, len(sizes)) for given in (bound, noise_multiplier))
        self._bounds = bounds
        self._ends = np.cumsum(list(sizes.values()))[:-1]
        self._layers: list[Batches] = []
        own: Any = {"rate": rate, "declared": declared}
        for (name, size), most, multiplier in zip(sizes.items(), bounds, noise, strict=True):
            first = self._layers[0] if self._layers else None
            stated: Any = {"bound": most, "noise_multiplier": multiplier, "draw_with": first}
            line = label if len(sizes) == 1 else f"{label} {name}"
            self._layers.append(gradients(curator, size, **own, **stated, label=line))
        self._counts: Batches | None = None
        if count_noise is not None:
            moves = curator.ledger.header.neighbouring.sum_sensitivity(1.0, "l2", acute=False)
            of_counts = _sampled(rate, Gaussian(sigma=count_noise, sensitivity=L2(moves)))
            first = self._layers[0]
            self._counts = curator.batches(of_counts, f"{label} clipped", (), bound=1.0, draw_with=first)
        #: The noisy number of clipped records in the last batch; None where it is not released.
        self.clipped: float | None = None

    def draw(self, units: int) -> Places:
        """Draw as `Batches.draw`, for all sums."""
        return self._layers[0].draw(units)

    def drop(self) -> None:
        """Drop as `Batches.drop`, for all sums."""
        self._layers[0].drop()

    def add(self, contributions: Array) -> None:
        """Add gradients [m, p] of some records of the batch."""
        rows = np.asarray(contributions)
        parts = np.split(rows, self._ends, axis=1)
        for layer, part in zip(self._layers, parts, strict=True):
            layer.add(part)
        if self._counts is not None:
            longer = [
                np.sqrt((part.astype(np.float64) ** 2).sum(axis=1)) > most
                for part, most in zip(parts, self._bounds, strict=True)
            ]
            self._counts.add(np.any(longer, axis=0).astype(np.float64))

    def noisy(self) -> Array:
        """Return the batch's noisy sum [p], layer by layer; set `clipped`."""
        found = np.concatenate([layer.noisy() for layer in self._layers])
        self.clipped = None if self._counts is None else float(self._counts.noisy())
        return found


def _each(given: float | Sequence[float], layers: int) -> list[float]:
    """Return one number for each layer."""
    found = list(given) if isinstance(given, Sequence) else [given] * layers
    if not layers or len(found) != layers:
        what = f"{len(found)} numbers for {layers} layers"
        raise InvalidParameter(what, where="layers", remedy="give one number for all layers, or one for each")
    return found


def add_one_by_one(
    batches: Batches | LayerSums, records: Sequence[bytes], together: int, compute: Callable[[Places], Array]
) -> None:
    """Add gradients to a batch; each gradient depends only on its own record, to the last digit.

    Libraries compute many gradients together. Each gradient's rounding depends on their number and its own
    position, but never on the values of the others. So every computation has `together` gradients, and a
    record determines its own position. Adding a record then changes only its own row, and clipping that row
    bounds the change of the sum; rounding errors need no bound.

    Args:
        batches: the batches that receive the gradients.
        records: the bytes of each record that was drawn.
        together: the number of gradients in one computation, and of positions in it.
        compute: from `together` positions among `records` to as many gradients [together, p], in a
            computation whose steps do not depend on what it computes with.
    """
    numbers = Counter(records)  # records that are equal have one gradient
    first = {record: position for position, record in reversed(list(enumerate(records)))}
    places: list[list[int]] = [[] for _ in range(together)]
    for record in numbers:
        digest = hashlib.blake2b(record, digest_size=8).digest()
        places[int.from_bytes(digest, "big") % together].append(first[record])
    for line in itertools.zip_longest(*places, fillvalue=-1):
        positions = np.array(line)
        taken = positions >= 0
        found = compute(np.where(taken, positions, positions.max()))[taken]
        often = np.array([numbers[records[position]] for position in positions[taken]])
        for time in range(often.max()):
            batches.add(found[often > time])


def group_size(curator: Curator, rate: float, records: int | None, known: int | None = None) -> float:
    """Return the expected batch size, for averages, from the public number of records.

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


def load_ahead() -> None:
    """Load what torch's optimizers and `torch.func` load at their first use, for a second, if torch is there.

    Every run that is forked would load it again.
    """
    with suppress(ImportError):
        importlib.import_module("torch._dynamo")


def missing(what: str, extra: str, error: ImportError) -> MissingExtra:
    """Return the error for a library that is not installed."""
    remedy = f"pip install 'dpaudit[{extra}]'"
    return MissingExtra(f"{what} cannot be imported: {error}", where=f"dpaudit.{extra}", remedy=remedy)


#: Whether `public_randomness` lasts.
_PUBLIC: Final = ContextVar("public_randomness", default=False)


@contextmanager
def public_randomness(curator: Curator) -> Iterator[None]:
    """While the context lasts, torch's global generator is public, and it computes in one thread.

    So initial weights are the same whenever a run is repeated, and nobody takes them for noise. Nothing may
    be drawn for each place of a batch, as dropout does in an Opacus loop: one record would move the gradients
    of those behind it. `PublicDraws` refuses that. A forked process has none of the threads that its parent
    began.
    """
    import torch

    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(curator.public("torch").integers(2**63)))
        torch.set_num_threads(1)
        public = _PUBLIC.set(True)
        try:
            yield
        finally:
            _PUBLIC.reset(public)
            torch.set_num_threads(threads)


class PublicDraws:
    """Check that a loop draws nothing from torch's public generator between a batch and its gradients."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.begin()

    def begin(self) -> None:
        """Record the generator's states at the start of a batch."""
        self._before = self._states()

    def require_none(self) -> None:
        """Raise `UsageError` if anything was drawn since then."""
        if self._before != (now := self._states()) and now:
            what = "random numbers drawn from torch's public generator between a batch and its gradients"
            why = "dropout draws one mask for each place in a batch, so that a record moves those behind it"
            remedy = "leave dropout out, or take dpaudit.torch.PrivateGradient, with one mask for all records"
            raise UsageError(what, where=self._where, why=why, remedy=remedy)

    def _states(self) -> list[bytes]:
        import torch

        if not _PUBLIC.get():
            return []
        on_devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        return [each.numpy().tobytes() for each in (torch.get_rng_state(), *on_devices)]


@contextmanager
def repeatable() -> Iterator[None]:
    """While the context lasts, torch computes the same gradients again from the same numbers, or raises."""
    import torch

    before = torch.are_deterministic_algorithms_enabled()
    lenient = torch.is_deterministic_algorithms_warn_only_enabled()
    tuned, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, False
    torch.use_deterministic_algorithms(mode=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=lenient)
        torch.backends.cudnn.benchmark = tuned


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
