"""Rerun an algorithm many times on either side of a neighbouring pair, and keep a score of each run."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.auditors.sampling.elsewhere import sides_of
from dpaudit.auditors.sampling.scores import Score, Scored, flatten
from dpaudit.auditors.sampling.store import Store
from dpaudit.auditors.sampling.trial import Auditable, Side, has_batch_form, require_batch_form, require_seed
from dpaudit.auditors.sampling.workers import Chunk, compute
from dpaudit.claims.pairs import Pair
from dpaudit.errors import InvalidParameter, ScoreShape, TrialFailed
from dpaudit.mechanisms import Array
from dpaudit.processes.host import Host

#: Trials in a chunk: what a worker runs before it reports, and what a resumed run does again at most.
SINGLE_CHUNK = 250
BATCH_CHUNK = 10_000


@dataclass(frozen=True)
class Trials:
    """The scores [n] or [n, k] of the trials that were run; row i of either side is trial i, read-only.

    `kinds` [2, n] tells outcomes apart by all that is no number: a run that raised, other keys or shapes.
    The numbers of shorter outcomes are filled up with NaN. `requested` is the number of trials a side that
    were asked for.
    """

    data: Array
    neighbour: Array
    seed: int
    requested: int
    kinds: Array

    def __len__(self) -> int:
        return len(self.data)

    @property
    def complete(self) -> bool:
        """Whether every requested trial was run."""
        return len(self) == self.requested


#: Called after each chunk: trials done and requested, a side, and the scores so far. Returning True ends
#: the run there.
Progress = Callable[[int, int, Trials], bool | None]


def run_trials(
    algorithm: Auditable,
    pair: Pair,
    trials: int,
    *,
    seed: int = 0,
    score: Score = flatten,
    batch: bool | None = None,
    chunk: int | None = None,
    workers: int = 1,
    cluster: str | None = None,
    progress: Progress | None = None,
    resume: str | Path | None = None,
    fixed_size: bool = False,
    run_options: Mapping[str, Any] | None = None,
    host: Host | None = None,
) -> Trials:
    """Run an algorithm `trials` times on either side of a pair.

    The result depends on the algorithm, the pair, the seed and, in batch form, the chunk; never on
    the number of workers, on where they run, or on how often the run was interrupted, unless the algorithm
    keeps something from run to run in one process: then the order of all runs is random. The algorithm's
    public random streams are the same in every trial, and may be chosen by ``public_seed`` in
    `run_options`: what an audit varies is the noise. A trial that raised is an outcome too.

    Ctrl-C, or a `progress` that returns True, ends the run, and the trials until then are returned. A
    fixed-sample test is valid only if that moment did not depend on the scores; a sequential one always.

    The root seed seeds trial i on side s by ``SeedSequence((seed, s, i))``. A score is a number or a vector
    of each output; left out, every number of it. The algorithm's batch form is used where it has one, or as
    `batch` says. A worker runs a `chunk` of trials before it reports: 250, or 10 000 in batch form. `cluster`
    is the address of a `distributed` scheduler, such as ``"tcp://10.0.0.1:8786"``. `resume` is a file that
    keeps finished chunks for a later run of the same configuration; with `fixed_size` it is refused if its
    trials were already evaluated at another number. `run_options` are further arguments of `dpaudit.run`.

    Raises:
        InvalidParameter: no trials, no chunk, a negative seed, or no batch form.
        TrialFailed: all trials raised the same error, or a score or a batch raised; the error names the
            trial and carries the scores before it as ``partial``.
        ScoreShape: all outcomes of one kind are without numbers, or a batch has no axis over the trials.
        StoreMismatch, UsageError: `resume` holds the trials of another configuration, trials that were
            evaluated at another size, or something else.
        TargetDied: a trial's own process ended, or took longer than its limits allow; the error names it.
        WorkersLost: worker processes died again and again.
    """
    require_seed(seed)
    batched = has_batch_form(algorithm) if batch is None else batch
    size = chunk if chunk is not None else BATCH_CHUNK if batched else SINGLE_CHUNK
    counts: dict[str, object] = {"trials": trials, "chunk": size}
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
            raise InvalidParameter(f"{name} = {count!r}", where="run_trials", remedy="give 1 or more")
    if batched:
        require_batch_form(algorithm)
    options = dict(run_options or {})
    how = (seed, score, batched, options)
    sides = sides_of(host)(algorithm, pair.data, 0, *how), sides_of(host)(algorithm, pair.neighbour, 1, *how)
    begins = range(0, trials, size)
    plan = [Chunk(first, side, min(size, trials - first)) for first in begins for side in (0, 1)]
    scores = _Scores(trials, seed)
    with ExitStack() as stack:
        try:
            store = None
            if resume is not None:
                store = stack.enter_context(Store(resume, sides, size))
                if fixed_size:
                    store.require_one_size(trials)
            kept = store.chunks() if store is not None else frozenset()
            # A chunk is made together with that of the other side, or again.
            kept = frozenset(part for part in kept if replace(part, side=1 - part.side) in kept)
            missing = [part for part in plan if part not in kept]
            computed = stack.enter_context(closing(compute(sides, missing, workers=workers, cluster=cluster)))
            for part in plan:
                if store is not None and part in kept:
                    scores.put(part, store.read(part))
                else:
                    found = next(computed)
                    scores.put(part, found)
                    if store is not None:
                        store.write(part, found)
                if part.side == 1 and progress is not None:
                    so_far = scores.so_far()
                    if progress(len(so_far), trials, so_far):
                        break
        except KeyboardInterrupt:
            return scores.so_far()
        except TrialFailed as error:
            error.partial = scores.so_far()
            raise
    _require_outcomes(scores.so_far(), sides[0])
    return scores.so_far()


class _Scores:
    """The outcomes of both sides, scores [2, trials(, k)] and kinds [2, trials], filled from the front."""

    def __init__(self, trials: int, seed: int) -> None:
        self._trials, self._seed, self._done = trials, seed, [0, 0]
        self._sides: Array = np.empty((2, trials))
        self._kinds: Array = np.empty((2, trials))

    def put(self, part: Chunk, found: Scored) -> None:
        scores = found.scores
        if self._done == [0, 0]:
            self._sides = np.empty((2, self._trials, *scores.shape[1:]))
        if scores.shape[1:] != self._sides.shape[2:]:
            width = max(_width(scores[0]), _width(self._sides[0, 0]))
            wider: Array = np.full((2, self._trials, width), np.nan)
            for side, done in enumerate(self._done):
                wider[side, :done] = _widened(self._sides[side, :done], width)
            self._sides, scores = wider, _widened(scores, width)
        self._done[part.side] = part.first + part.trials
        self._sides[part.side, part.first : part.first + part.trials] = scores
        self._kinds[part.side, part.first : part.first + part.trials] = found.kinds

    def so_far(self) -> Trials:
        """The trials that were run on both sides: views, which later chunks do not change."""
        done = min(self._done)
        both, kinds = self._sides[:, :done], self._kinds[:, :done]
        both.setflags(write=False)
        kinds.setflags(write=False)
        return Trials(both[0], both[1], self._seed, self._trials, kinds)


def _width(row: Array) -> int:
    return 1 if row.ndim == 0 else len(row)


def _widened(scores: Array, width: int) -> Array:
    """Scores [n] or [n, k] as [n, width], filled up with NaN."""
    rows = scores.reshape(len(scores), -1) if scores.size else np.empty((len(scores), 0))
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=np.nan)


def _require_outcomes(trials: Trials, side: Side) -> None:
    """Raise an error where all outcomes are the same, without a number, or the same error.

    Nothing distinguishes them: the algorithm most likely returns or raises what it was not meant to.
    """
    if len(trials) == 0 or len(np.unique(trials.kinds)) > 1:
        return
    if trials.kinds[0, 0] < 0:
        side.one(0)
    if trials.data.ndim == 2 and trials.data.shape[1] == 0:
        what = "nothing to compare: an output without numbers, the same in every run"
        remedy = "return what is released, or give a score that makes a number of it"
        raise ScoreShape(what, where="output", remedy=remedy)
