"""One side of an experiment: how a trial is seeded, run and scored.

Trial i on side s (0 the data, 1 the neighbour) draws from ``SeedSequence((root seed, s, i))`` only, so that
any trial can be run again. A batch of n trials that starts at trial i draws
from ``SeedSequence((root seed, s, i), spawn_key=(n,))``.
"""

import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.random import SeedSequence

from dpaudit.auditors.replay.likelihood import NoDensity
from dpaudit.auditors.sampling.curatorless import Plain, Rows
from dpaudit.auditors.sampling.scores import (
    Outcome,
    Score,
    Scored,
    flatten,
    outcome,
    raised,
    scored_batch,
    stack,
)
from dpaudit.curator.curator import Curator
from dpaudit.curator.noise import LiveNoise
from dpaudit.curator.running import name_of, run
from dpaudit.errors import DpauditError, InvalidParameter, ScoreShape, TrialFailed
from dpaudit.processes.hosted import Hosted

#: Any callable ``(data, curator) -> output``, or a `Plain`.
Auditable = Callable[[Any, Curator], Any]


@dataclass(frozen=True)
class Side:
    """An algorithm on one of the two data sets (0 or 1), ready to run any of its trials.

    The data are copied before each run, so that no trial sees another's changes; where `batched`, chunks are
    run by the algorithm's batch form; `options` are further arguments of `dpaudit.run`.
    """

    algorithm: Auditable
    data: Any
    side: int
    seed: int
    score: Score = flatten
    batched: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def chunk(self, first: int, trials: int, note: Callable[[int], object] | None = None) -> Scored:
        """The outcomes of trials ``first`` to ``first + trials - 1``, among them those that raised.

        `note` is told the index of each trial of the single form before it is run. `TrialFailed`, which names
        the trial, is raised where the score raised, or a batch, of which nobody knows which trial it was.
        """
        with _global_generators_kept():
            if self.batched:
                with self._named(first, trials):
                    return scored_batch(self.score, self.batch(first, trials), trials)
            found = []
            for index in range(first, first + trials):
                if note is not None:
                    note(index)
                found.append(self.outcome(index))
            return stack(found)

    def one(self, index: int) -> Any:
        """The score of one trial, as it is; `TrialFailed` where the algorithm or the score raised."""
        with _global_generators_kept(), self._named(index, 1):
            return self.score(self.trial(index))

    def outcome(self, index: int) -> Outcome:
        """The outcome of one trial, also of one that raised; `TrialFailed` where the score raised."""
        try:
            output = self.trial(index)
        except NoDensity as error:  # of the audit, not of what it audits
            raise self._failed(error, index, 1) from error
        except (Exception, SystemExit) as error:  # noqa: BLE001  (that a run raised is an outcome)
            return raised(error)
        with self._named(index, 1):
            return outcome(output if self.score is flatten else self.score(output))

    def trial(self, index: int) -> Any:
        """The output of one trial of the single form."""
        sequence = SeedSequence((self.seed, self.side, index))
        seed_global_generators(sequence)
        data = copy.deepcopy(self.data)
        if isinstance(self.algorithm, Plain):
            return self.algorithm.function(data, np.random.default_rng(sequence))
        return run(self.algorithm, data, noise=LiveNoise(sequence), **self._own_options()).output

    def batch(self, first: int, trials: int) -> Any:
        """The outputs of one run of the batch form, each array with a leading axis over the trials."""
        require_batch_form(self.algorithm)
        sequence = SeedSequence((self.seed, self.side, first), spawn_key=(trials,))
        seed_global_generators(sequence)
        data = copy.deepcopy(self.data)
        if isinstance(self.algorithm, Plain):
            rows = cast("Rows", self.algorithm.rows)
            return rows(data, np.random.default_rng(sequence), trials)
        batch = _Batch(self.algorithm, trials)
        return run(batch, data, noise=LiveNoise(sequence), **self._own_options()).output

    def _own_options(self) -> dict[str, Any]:
        """Copies: a budget that one run spends must be whole again for the next."""
        return copy.deepcopy(dict(self.options))

    @contextmanager
    def _named(self, index: int, trials: int) -> Iterator[None]:
        """Name the trial in whatever is raised."""
        try:
            yield
        except ScoreShape:
            raise
        except (Exception, SystemExit) as error:
            raise self._failed(error, index, trials) from error

    def _failed(self, error: BaseException, index: int, trials: int) -> TrialFailed:
        # The kind of a foreign error alone: its message may contain private data.
        kind = error.code if isinstance(error, DpauditError) else type(error).__name__
        return TrialFailed.in_trial(kind, seed=self.seed, side=self.side, index=index, trials=trials)


def chunk_of_both(sides: Sequence[Side], first: int, trials: int) -> list[Scored]:
    """As `Side.chunk`, of both sides, whose trials are run in one random order, which the seed decides.

    An algorithm in this process may keep something from run to run, such as how often it was called. In a
    random order that is the same for both sides, as far as it does not depend on the data: swapping trial i
    of one side for that of the other changes no probability, whatever the other trials were. One side after
    the other, it would tell the sides apart, and refute a true claim.
    """
    shuffled = np.random.default_rng(SeedSequence((sides[0].seed, len(sides), first)))
    if sides[0].batched:
        found = {int(side): sides[side].chunk(first, trials) for side in shuffled.permutation(len(sides))}
        return [found[side] for side in range(len(sides))]
    outcomes: dict[int, Outcome] = {}
    with _global_generators_kept():
        for place in shuffled.permutation(len(sides) * trials).tolist():
            side, index = divmod(place, trials)
            outcomes[place] = sides[side].outcome(first + index)
    return [stack([outcomes[side * trials + i] for i in range(trials)]) for side in range(len(sides))]


def has_batch_form(algorithm: Auditable) -> bool:
    """Whether many trials can be run at once.

    An algorithm's batch form is a method ``batch(data, curator, trials) -> outputs`` that does what
    `trials` independent runs do and releases each query with ``count=trials``, its first axis over the
    trials. Each array of its outputs has that leading axis too.
    """
    if isinstance(algorithm, Hosted):
        return bool(algorithm.host.call(has_batch_form, algorithm).result())
    if isinstance(algorithm, Plain):
        return algorithm.rows is not None
    return callable(getattr(algorithm, "batch", None))


def require_batch_form(algorithm: Auditable) -> None:
    """Raise `InvalidParameter` where the algorithm has no batch form."""
    if not has_batch_form(algorithm):
        what = f"{name_of(algorithm)!r} has no batch form"
        why = "only the algorithm itself can run many trials at once"
        remedy = "leave batch out, or give the algorithm a method batch(data, curator, trials)"
        raise InvalidParameter(what, where="batch", why=why, remedy=remedy)


def repeat_trial(algorithm: Auditable, data: Any, *, seed: int, side: int, index: int, **options: Any) -> Any:
    """The output of one trial, run again exactly as in the audit.

    From that side's data, the audit's root seed, the side (0 the data, 1 the neighbour), the trial's index
    and the audit's ``run_options``.
    """
    with _global_generators_kept():
        return Side(algorithm, data, side, require_seed(seed), options=options).trial(index)


def repeat_batch(
    algorithm: Auditable, data: Any, *, seed: int, side: int, index: int, trials: int, **options: Any
) -> Any:
    """The outputs of one batch of trials, run again; arguments as in `repeat_trial`."""
    with _global_generators_kept():
        return Side(algorithm, data, side, require_seed(seed), options=options).batch(index, trials)


def require_seed(seed: object) -> int:
    """The seed; `InvalidParameter` if it is not a non-negative integer."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        why = "a trial that cannot be seeded cannot be repeated"
        raise InvalidParameter(f"seed {seed!r}", where="seed", why=why, remedy="give a non-negative integer")
    return int(seed)


@dataclass(frozen=True)
class _Batch:
    """An algorithm's batch form as an algorithm; the ledger's header is that of the single form."""

    algorithm: Any
    trials: int

    def __call__(self, data: Any, curator: Curator) -> Any:
        return self.algorithm.batch(data, curator, self.trials)

    @property
    def name(self) -> str:
        return name_of(self.algorithm)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.algorithm, name)


def seed_global_generators(sequence: SeedSequence) -> None:
    """Seed the generators that all libraries share: an algorithm may draw from them by mistake.

    Its trials are then repeatable nevertheless; a replay reports such draws.
    """
    words = sequence.generate_state(8)
    np.random.seed(words[:4])  # noqa: NPY002  (the shared generator is what is to be seeded)
    random.seed(words[4:].tobytes())


@contextmanager
def _global_generators_kept() -> Iterator[None]:
    """Leave the caller's shared generators as they were."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002  (as above)
    try:
        yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002  (as above)
        random.setstate(python_state)
