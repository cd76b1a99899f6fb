"""Scores under joint trust: of every user's view but the changed user's own."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dpaudit.auditors.sampling.elsewhere import sides_of
from dpaudit.auditors.sampling.scores import Score
from dpaudit.auditors.sampling.trial import Auditable, Side
from dpaudit.claims.claims import Claim
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import TrustModel, View
from dpaudit.curator.views import UserViews
from dpaudit.errors import ScoreShape, TrialFailed, UsageError
from dpaudit.processes.host import Host

#: Trials a side that may raise before one returns the views.
_TRIED = 20


def spares_own_view(claim: Claim | None) -> bool:
    """Whether a claim does not cover what the changed user sees."""
    return claim is not None and (claim.trust_model is TrustModel.JOINT or claim.view is View.ALL_BUT_OWN)


@dataclass(frozen=True)
class AllButOwn:
    """A score of the views that the claim covers: `score` takes the tuple of the other users' views.

    `unit` is the changed user and `users` the number of users on the side that has that user; a side with
    fewer lacks that user, and all its views are compared.
    """

    score: Score
    unit: int
    users: int

    def __call__(self, output: Any) -> Any:
        """The score of one output; `ScoreShape` if it is not `UserViews`."""
        views = _views(output)
        return self.score(views.without(self.unit) if len(views.views) == self.users else views.views)


def all_but_own(
    algorithm: Auditable,
    pair: Pair,
    score: Score,
    *,
    seed: int,
    options: Mapping[str, Any],
    host: Host | None = None,
) -> AllButOwn:
    """The score for a pair, whose numbers of users are those of the first trials.

    `UsageError` is raised where the pair does not name the changed user, `ScoreShape` for other outputs.
    """
    if pair.unit is None:
        what, where = "the pair does not name the changed user", f"pair {pair.description!r}"
        why = "under joint trust the changed user's own view is not compared"
        raise UsageError(what, where=where, why=why, remedy="return Pair(data, neighbour, unit=POSITION)")
    sides = (
        sides_of(host)(algorithm, data, side, seed, _users, options=options)
        for side, data in enumerate((pair.data, pair.neighbour))
    )
    return AllButOwn(score, pair.unit, max(map(_first, sides)))


def _first(side: Side) -> int:
    """The score of the first of a few trials that does not raise."""
    for index in range(_TRIED - 1):
        with suppress(TrialFailed):
            return int(side.one(index))
    return int(side.one(_TRIED - 1))


def _users(output: Any) -> int:
    return len(_views(output).views)


def _views(output: Any) -> UserViews:
    if isinstance(output, UserViews):
        return output
    what = f"an output of type {type(output).__name__} under joint trust"
    why = "the changed user's own view is not compared, and cannot be found in it"
    raise ScoreShape(what, where="output", why=why, remedy="return UserViews, one view for each user")
