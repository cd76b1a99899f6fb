"""Under joint trust: a score of every user's view but the changed user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpaudit.auditors.sampling.scores import Score
from dpaudit.auditors.sampling.trial import Auditable, Side
from dpaudit.claims.claims import Claim
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import TrustModel, View
from dpaudit.curator.views import UserViews
from dpaudit.errors import ScoreShape, UsageError


def spares_own_view(claim: Claim | None) -> bool:
    """Whether a claim says nothing of what the changed user sees."""
    return claim is not None and (claim.trust_model is TrustModel.JOINT or claim.view is View.ALL_BUT_OWN)


@dataclass(frozen=True)
class AllButOwn:
    """Another score, of the views that the claim speaks of.

    Attributes:
        score: takes the tuple of the other users' views.
        unit: the changed user.
        users: how many users there are on the side that has the changed one; a side with fewer lacks
            that user, and all its views are compared.
    """

    score: Score
    unit: int
    users: int

    def __call__(self, output: Any) -> Any:
        """The score of one output.

        Raises:
            ScoreShape: the output is no `UserViews`.
        """
        views = _views(output)
        return self.score(views.without(self.unit) if len(views.views) == self.users else views.views)


def all_but_own(
    algorithm: Auditable, pair: Pair, score: Score, *, seed: int, options: Mapping[str, Any]
) -> AllButOwn:
    """The score for a pair.

    Raises:
        UsageError: the pair does not say which user is changed.
        ScoreShape: an output is no `UserViews`.
        TrialFailed: the algorithm raised in its first trial.
    """
    if pair.unit is None:
        raise UsageError(
            "the pair does not say which user is changed",
            where=f"pair {pair.description!r}",
            why="under joint trust the changed user's own view is not compared",
            remedy="return Pair(data, neighbour, unit=POSITION)",
        )
    sides = ((0, pair.data), (1, pair.neighbour))
    users = [
        int(Side(algorithm, data, side, seed, _number_of_views, options=options).chunk(0, 1)[0])
        for side, data in sides
    ]
    return AllButOwn(score, pair.unit, max(users))


def _number_of_views(output: Any) -> int:
    return len(_views(output).views)


def _views(output: Any) -> UserViews:
    if isinstance(output, UserViews):
        return output
    raise ScoreShape(
        f"an output of type {type(output).__name__} under joint trust",
        where="output",
        why="the changed user's own view is not compared, and cannot be told apart",
        remedy="return UserViews, one view for each user",
    )
