"""Shuffled answers: every user's answer is randomized locally, and only the counts are released."""

import math
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from dpaudit.claims.relations import TrustModel
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.base import Answer, Array, BaseMechanism, Move, Queries, fields
from dpaudit.mechanisms.opaque import OpaquePureDP
from dpaudit.mechanisms.selection import RandomizedResponse
from dpaudit.models import Count
from dpaudit.noise.randomness import Randomness


class Shuffled(BaseMechanism):
    """One answer from each of `users` users, randomized by `local`, in secret random order.

    In random order the answers reveal only the count of each answer; the counts are the output.

    Obligation: every user's answer is randomized by an independent run of `local`, which is epsilon0-DP for
    that user, and nothing else links an answer to its user; between neighbouring data sets the answer of one
    user differs. For any such mechanism the privacy profile is at most the profile of C + 1 coins: C fair
    coins, and one with heads probability e^epsilon0/(e^epsilon0 + 1) or 1/(e^epsilon0 + 1). C is binomial
    with users - 1 trials of probability e^-epsilon0 (Feldman, McMillan and Talwar 2021, Theorem 3.1). With
    randomized response among k categories, another user's answer is a fair coin between the two answers in
    question with probability 2/(e^epsilon0 + k - 1), and the user's own answer is one of these two with
    probability (e^epsilon0 + 1)/(e^epsilon0 + k - 1) (after Balle, Bell, Gascon and Nissim 2019). Both are
    upper bounds and may not be tight. (According to their errata, Theorems 3.1 and 3.2 of Feldman, McMillan
    and Talwar 2023 do not hold for every mechanism; they are not used.)
    """

    released_by = "release_shuffled"
    condition = "one-answer-per-unit"
    trusted_to = "put the answers in a secret order"
    drawn_exactly = True

    example = fields(local={"kind": "randomized-response", "epsilon": 1.0, "categories": 2}, users=10000)

    kind: Literal["shuffled"] = "shuffled"
    local: Annotated[RandomizedResponse | OpaquePureDP, Field(discriminator="kind")]
    users: Count

    def dominating_pair(self) -> dominating.Shuffled:
        """Return the pair for the local epsilon, and for the categories of randomized response."""
        categories = self.local.categories if isinstance(self.local, RandomizedResponse) else None
        return dominating.Shuffled(self.local.epsilon, self.users, categories)

    def lacks(self, trust: TrustModel) -> str | None:
        """As `BaseMechanism.lacks`; joint trust lacks it too: all other users together know their answers."""
        if trust is TrustModel.JOINT:
            return "keep the other users' answers from one another"
        return super().lacks(trust)

    def require_fits(self, answers: Array, where: str) -> RandomizedResponse:
        """Return the local mechanism; raises `InvalidParameter` if it cannot randomize these answers."""
        if not isinstance(self.local, RandomizedResponse):
            why = "a guarantee alone does not say how to randomize"
            remedy = "shuffle randomized response, or write the ledger line by hand"
            what = f"answers for a {self.local.kind} mechanism"
            raise InvalidParameter(what, where=where, why=why, remedy=remedy)
        if answers.shape != (self.users,):
            remedy = "give one answer of each user"
            what = f"answers of shape {answers.shape} for {self.users} users"
            raise InvalidParameter(what, where=where, remedy=remedy)
        self.local.require_fits(answers, where)
        return self.local

    def sample(self, answers: Array, randomness: Randomness) -> Array:
        """Randomize every answer [users], and return the count of each category [categories]."""
        local = self.require_fits(answers, "sample")
        return counted(local.sample(answers, randomness), local.categories)

    def log_likelihood(self, answers: Sequence[Answer], queries: Queries) -> float | None:
        """Return the log probability of the counts, or None for more than two categories."""
        counts, given = answers[0].output, queries[0].query
        local = self.local
        if not isinstance(local, RandomizedResponse) or local.categories != 2:
            return None
        ones, found = int(given.sum()), float(counts[1])
        if not (found.is_integer() and 0 <= found <= self.users and counts.sum() == self.users):
            return -math.inf
        # `kept` of the true ones were kept; the other released ones are changed zeros.
        fewest, most = max(0.0, found - (self.users - ones)), min(float(ones), found)
        kept = fewest + np.arange(most - fewest + 1.0)
        log_keep = -math.log1p(math.exp(-local.epsilon))
        terms = _log_binomial(ones, kept, log_keep, log_keep - local.epsilon)
        terms += _log_binomial(self.users - ones, found - kept, log_keep - local.epsilon, log_keep)
        return float(np.logaddexp.reduce(terms))

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """Return the number of users with different answers."""
        return [Move(float(np.count_nonzero(one[0].query - other[0].query)), 1.0, "in changed answers")]

    def nearest_output(self, value: Array, query: Array) -> None:
        """Return None: a possible output is a table of counts that add up to the number of users."""


def counted(answers: Array, categories: int) -> Array:
    """Return the count of each category 0 .. categories - 1: [categories]."""
    return np.bincount(answers.astype(np.int64), minlength=categories).astype(np.float64)


def _log_binomial(trials: int, heads: Array, log_heads: float, log_tails: float) -> Array:
    import scipy

    gammaln = scipy.special.gammaln
    choices = gammaln(trials + 1.0) - gammaln(heads + 1.0) - gammaln(trials - heads + 1.0)
    return np.asarray(choices + heads * log_heads + (trials - heads) * log_tails)
