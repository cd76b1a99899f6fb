"""Trials in processes of their own: one for each chunk, of which the scores alone come back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from dpaudit.auditors.sampling.scores import Scored
from dpaudit.auditors.sampling.trial import Side
from dpaudit.errors import DpauditError, ScoreShape, TargetDied, TargetRaised, TrialFailed
from dpaudit.mechanisms import Array
from dpaudit.processes.calls import NOTE
from dpaudit.processes.host import Host, Started


@dataclass(frozen=True)
class HostedSide(Side):
    """A side whose algorithm, data and score a host holds: each chunk is run in a fork of it."""

    host: Host = field(kw_only=True)

    def bare(self) -> Side:
        """The side as it is called there."""
        return Side(**{each.name: getattr(self, each.name) for each in fields(Side)})

    def begun(self, first: int, trials: int) -> Started:
        """Begin a chunk of trials."""
        return self.host.call(unnamed, _chunk, self.bare(), first, trials, NOTE)

    def ended(self, run: Started, first: int, trials: int) -> Scored:
        """Its outcomes, as `Side.chunk` has them."""
        return Scored(*in_trials(run, self.seed, self.side, first, trials if self.batched else 1))

    def chunk(self, first: int, trials: int, note: Callable[[int], object] | None = None) -> Scored:
        """As `Side.chunk`."""
        del note
        return self.ended(self.begun(first, trials), first, trials)

    def one(self, index: int) -> Any:
        """As `Side.one`, where the score is plain."""
        return in_trials(
            self.host.call(unnamed, Side.one, self.bare(), index), self.seed, self.side, index, 1
        )


def _chunk(side: Side, first: int, trials: int, note: Callable[[int], object]) -> tuple[Array, Array]:
    scores, kinds = side.chunk(first, trials, note)
    return scores, kinds


def unnamed(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function there; what a trial raised is raised as such, and named where its audit is."""
    try:
        return function(*arguments)
    except TrialFailed as failed:
        raised = failed.__cause__ or failed
    raise raised


def sides_of(host: Host | None) -> Callable[..., Side]:
    """How sides are made: in this process, or in that of a host."""
    return Side if host is None else partial(HostedSide, host=host)


def in_trials(run: Started, seed: int, side: int, first: int, trials: int) -> Any:
    """What comes back of trials from `first` on, or of one batch of `trials`.

    `TrialFailed` or `TargetDied`, which name the trial, are raised where it raised or its process ended.
    """
    at = first

    def noted(index: int) -> None:
        nonlocal at
        at = index

    try:
        return run.result(noted)
    except ScoreShape:
        raise
    except TargetDied as error:
        where = f"seed {seed}, side {side}, trial {at}"
        raise TargetDied(error.what, where=where, why=TrialFailed.default_why, remedy=error.remedy) from None
    except (DpauditError, TargetRaised) as error:
        kind = error.kind if isinstance(error, TargetRaised) else error.code
        if kind == KeyboardInterrupt.__name__:
            raise KeyboardInterrupt from None
        raise TrialFailed.in_trial(kind, seed=seed, side=side, index=at, trials=trials) from error


def compute_elsewhere(
    sides: Sequence[HostedSide], chunks: Sequence[tuple[int, int, int]], workers: int
) -> Generator[Scored, None, None]:
    """The outcomes of chunks (side, first trial, number), in order, as many at once as there are workers."""
    begun: deque[tuple[Started, tuple[int, int, int]]] = deque()

    def next_one() -> Scored:
        run, (side, first, trials) = begun.popleft()
        return sides[side].ended(run, first, trials)

    try:
        for chunk in chunks:
            side, first, trials = chunk
            begun.append((sides[side].begun(first, trials), chunk))
            if len(begun) == workers:
                yield next_one()
        while begun:
            yield next_one()
    finally:
        for run, _ in begun:
            run.end()
