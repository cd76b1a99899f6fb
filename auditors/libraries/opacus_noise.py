"""Opacus: the noise that an optimizer adds to clipped gradients is the curator's, and so are the samples.

Each step of a `DPOptimizer` releases the sum of its clipped gradients, all parameters as one vector, with the
sensitivity `max_grad_norm`; adaptive clipping also the number of gradients below the norm, whose sensitivity
the theorem behind it takes to be 1/2. The optimizer's own code runs, with noise of 0 in place of
`_generate_noise`, and is then given the curator's answer.

On a batch that holds every record for certain, which Poisson sampling at rate 1 draws, noise is Gaussian. At
any other rate the curator draws the sample, and in a run that is compared it is taken of the rows of all
records: the optimizer's own code clips each of them by itself, and what comes out is its row. Optimizers that
count or clip in another way, and batches of another sampler, are known by the cost that a release has without
amplification, and by no density. Their Poisson samples draw the same coins on both sides, one for each record
in order; records that follow an added one in a data set get other coins, so that it should be the last.

Whatever else torch draws from its global generator, such as initial weights, is public.
"""

import functools
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from dpaudit.auditors.libraries.adapter import NO_NOISE, Adapter, Asked, folder_of, refused, replaced
from dpaudit.claims.sensitivity import L2
from dpaudit.curator.batches import draw_sample, noisy_sum
from dpaudit.curator.curator import Curator
from dpaudit.mechanisms import Array, Gaussian, OpaqueZCDP, PoissonSampled
from dpaudit.noise.contributions import clip_rows
from dpaudit.noise.grid import FINEST, grid_of_bound
from dpaudit.training.gradients import ROUNDED, PublicDraws, load_ahead, on_rows, public_randomness

#: What the theorem of adaptive clipping takes for the sensitivity of the number of unclipped gradients.
UNCLIPPED: Final = 0.5

#: How many times its sensitivity a row may be long before it is cut: exact sums need a bound.
_LONGEST: Final = 1024.0

#: Optimizers that are refused.
DISTRIBUTED: Final = (
    "DistributedDPOptimizer",
    "DistributedDPOptimizerFastGradientClipping",
    "FSDPOptimizerFastGradientClipping",
    "SimpleDistributedPerLayerOptimizer",
)
_DISTRIBUTED: Final = (
    "a distributed optimizer of Opacus",
    "its processes add noise to gradients that other processes hold",
)
_GHOST: Final = (
    "Opacus's adaptive clipping with fast gradient clipping",
    "it draws noise of its own inside the loss, with a scale that depends on the private size of the batch",
)


@dataclass
class _Routing:
    """One run: its curator, whether every batch was whole so far, and the noise that a step asks for."""

    curator: Curator
    whole: bool | None = None
    asked: list[tuple[float, Any]] = field(default_factory=list)
    apart: bool = True  # whether every optimizer clips record by record
    rate: float | None = None  # of the samples that the curator drew
    #: How many are in each sample, and its draw's number.
    drawn: deque[tuple[int, int | None]] = field(default_factory=deque)
    rows: list[Array] = field(default_factory=list)
    draws: PublicDraws = field(default_factory=lambda: PublicDraws("library"))

    def zeros(self, std: float, reference: Any, *_: Any, **__: Any) -> Any:
        """In place of `_generate_noise`: no noise, and a note of what was to get it."""
        import torch

        self.asked.append((float(std), reference))
        return torch.zeros_like(reference)

    def batches(self, sampler: Any) -> Iterator[list[int]]:
        """The batches of a Poisson sampler, as the curator draws them.

        Where rows are not known: one public coin for each record, the first for the first.
        """
        rate, units = sampler.sample_rate, sampler.num_samples
        if rate < 1.0:
            self.whole = False
        elif self.whole is None:
            self.whole = True
        if self.rate not in {None, rate}:
            self.apart = False
        self.rate = rate
        self.drawn.clear()
        for _ in range(sampler.steps):
            self.draws.begin()
            if rate < 1.0 and self.apart:
                sampled = PoissonSampled(rate=rate, mechanism=Gaussian(sigma=1.0, sensitivity=L2(1.0)))
                drawn = draw_sample(self.curator, sampled, units)
                self.drawn.append((int(drawn.chosen.sum()), drawn.number))
                yield np.flatnonzero(drawn.chosen).tolist()
                continue
            coins = np.random.default_rng(int(self.curator.public("opacus samples").integers(2**63)))
            yield np.flatnonzero(coins.random(units) < rate).tolist()

    def clipped(self, optimizer: Any, own: Callable[[Any], None]) -> None:
        """Run an optimizer's own `clip_and_accumulate`; where rows are asked for, on one record at a time."""
        import torch
        from opacus.optimizers.optimizer import _mark_as_processed

        if self.rate is not None:
            self.draws.require_none()
        if self.whole is not False or not self.apart:
            own(optimizer)
            return
        parts, given = list(optimizer.params), [part.grad_sample for part in optimizer.params]
        before, samples = [part.summed_grad for part in parts], optimizer.grad_samples
        for i in range(len(samples[0])):
            for part, sample in zip(parts, samples, strict=True):
                part.grad_sample, part.summed_grad = sample[i : i + 1], None
            own(optimizer)
            self.rows.append(on_rows([part.summed_grad[None] for part in parts])[0].astype(np.float64))
        for part, sums, sample in zip(parts, before, given, strict=True):
            part.summed_grad = torch.zeros_like(part) if sums is None else sums
            part.grad_sample = sample
            _mark_as_processed(sample)

    def answer(self, std: float, query: Array, sensitivity: float, label: str) -> Array:
        """The noisy answer to a query."""
        sigma, moves = std or NO_NOISE, L2(sensitivity)
        if self.whole:
            return self.curator.release(query, Gaussian(sigma=sigma, sensitivity=moves), label=label)
        why = "Gaussian noise, whatever sample of the records it is added to"
        cost = OpaqueZCDP(rho=(sensitivity / sigma) ** 2 / 2.0, justification=why, sensitivity=moves)
        return self.curator.release_opaque(
            query,
            lambda value, random: value + random.normal(scale=sigma, size=value.shape),
            cost,
            label=label,
        )

    def of_rows(self, noise: Gaussian, size: int, label: str) -> Array:
        """The noisy sum of a sample of the rows; they are as long as the optimizer left them."""
        units, draw = self.drawn.popleft() if self.drawn else (0, None)
        if len(self.rows) != units:
            why = "another sample than the stated one would be released"
            raise refused("a batch of Opacus of which not every record has its gradient", why)
        mechanism = PoissonSampled(rate=self.rate or 1.0, mechanism=noise)
        longest = _LONGEST * noise.sensitivity.value
        exponent = grid_of_bound(longest, mechanism.grid or FINEST, label)
        rows = clip_rows(np.array(self.rows).reshape(len(self.rows), size), longest, "l2", exponent)
        self.rows.clear()
        return noisy_sum(self.curator, self.curator.line(label, mechanism), mechanism, rows, draw)

    def add_noise(self, optimizer: Any, own: Callable[[Any], None]) -> None:
        """Run an optimizer's own `add_noise` without noise, and hand it the curator's answers."""
        import torch

        self.asked.clear()
        counted = hasattr(optimizer, "unclipped_num")
        own(optimizer)
        parts = list(optimizer.params)
        gradients, others = self.asked[: len(parts)], self.asked[len(parts) :]
        if len({std for std, _ in gradients}) != 1 or len(others) != counted:
            raise refused("an optimizer of Opacus that is not known", "it adds noise in another way")
        sums = [reference.detach().double().cpu().numpy() for _, reference in gradients]
        norm = float(optimizer.max_grad_norm)
        rounding = ROUNDED if any(each.dtype != torch.float64 for each in parts) else 0.0
        label = f"the sum of clipped gradients of {len(parts)} parameters"
        std, moves = gradients[0][0], norm * (1.0 + rounding)
        flat = np.concatenate([each.ravel() for each in sums])
        if self.whole is False and self.apart and self.rate is not None:
            noisy = self.of_rows(Gaussian(sigma=std or NO_NOISE, sensitivity=L2(moves)), flat.size, label)
        else:
            noisy = self.answer(std, flat, moves, label)
        for part, of in zip(
            parts, np.split(noisy, np.cumsum([each.size for each in sums])[:-1]), strict=True
        ):
            part.grad = torch.from_numpy(of.copy()).to(part.device, part.dtype).view_as(part)
        for std, reference in others:
            number = self.answer(std, reference.detach().double().cpu().numpy(), UNCLIPPED, "unclipped_num")
            optimizer.unclipped_num = torch.from_numpy(number.copy()).to(reference.device, reference.dtype)


@contextmanager
def _routing(curator: Curator) -> Iterator[None]:
    from opacus import optimizers
    from opacus.optimizers import adaclipoptimizer, optimizer, optimizer_fast_gradient_clipping
    from opacus.utils import uniform_sampler
    from opacus.utils.adaptive_clipping import adaptive_clipping_utils

    asked, routing = Asked((folder_of("opacus"),)), _Routing(curator)

    def refusing(*words: str) -> Callable[..., Any]:
        def refuse(*_: Any, **__: Any) -> Any:
            raise refused(*words)

        return refuse

    def answered(own: Callable[[Any], None]) -> Callable[[Any], None]:
        @functools.wraps(own)
        def add_noise(self: Any) -> None:
            if type(self).add_noise is not add_noise:
                raise refused(
                    f"{type(self).__qualname__}, an optimizer that is not Opacus's", "it adds noise itself"
                )
            routing.add_noise(self, own)

        return add_noise

    def batches(self: Any) -> Iterator[list[int]]:
        return routing.batches(self)

    def clipped(own: Callable[[Any], None]) -> Callable[[Any], None]:
        return functools.wraps(own)(lambda self: routing.clipped(self, own))

    def noted(own: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(own)
        def begin(self: Any, *given: Any, **options: Any) -> None:
            routing.apart &= type(self) in by_record
            own(self, *given, **options)

        return begin

    by_record = (optimizers.DPOptimizer, optimizers.DPPerLayerOptimizer)

    ghost = adaptive_clipping_utils.DPTensorFastGradientAdaptiveClipping
    places: list[tuple[Any, str, Any]] = [
        (uniform_sampler.UniformWithReplacementSampler, "__iter__", batches),
        (ghost, "_update_clip_and_noise", refusing(*_GHOST)),
        (optimizers.DPOptimizer, "__init__", noted(vars(optimizers.DPOptimizer)["__init__"])),
        *((kind, "clip_and_accumulate", clipped(vars(kind)["clip_and_accumulate"])) for kind in by_record),
    ]
    for module, kind in (
        (optimizer, optimizers.DPOptimizer),
        (adaclipoptimizer, optimizers.AdaClipDPOptimizer),
        (optimizer_fast_gradient_clipping, optimizers.DPOptimizerFastGradientClipping),
    ):
        places.append((module, "_generate_noise", routing.zeros))
        places.append((kind, "add_noise", answered(vars(kind)["add_noise"])))
    places += [(kind, "__init__", refusing(*_DISTRIBUTED)) for kind in map(vars(optimizers).get, DISTRIBUTED)]
    with public_randomness(curator), asked.passed_over(), replaced(places):
        yield


load_ahead()

ADAPTER = Adapter(
    module="opacus",
    distribution="opacus",
    install="pip install 'dpaudit[opacus]'",
    versions=("1.5", "1.7"),
    routing=_routing,
)
