"""Canaries for a one-run audit: what is put in by fair coins, and how the output betrays it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from dpaudit.auditors.sampling.scores import Array
from dpaudit.auditors.sampling.trial import Auditable, Side, require_seed
from dpaudit.auditors.statistics.claim_points import Curve
from dpaudit.auditors.statistics.one_run import one_run
from dpaudit.certificate.verdicts import Audit
from dpaudit.claims.claims import Claim
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import InvalidParameter

#: Left out, so many of the canaries are guessed: the clearest tenth on either end.
GUESSED = 0.2
#: Coins are drawn apart from every trial's noise, whose sides are 0 and 1.
_COINS = 2


@dataclass(frozen=True)
class Canaries:
    """m records, each of which may be in the data or not, and is a unit of privacy of its own.

    Attributes:
        number: m.
        insert: from m booleans to the data set that holds exactly these canaries. A claim under
            replace-one says so: a canary that is out is then another record in its place.
        score: from the algorithm's output to [m] numbers, each higher the more its canary looks as if
            it had been in.
    """

    number: int
    insert: Callable[[NDArray[np.bool_]], Any]
    score: Callable[[Any], Any]


def coin_relation(claim: Claim | None) -> Neighbouring:
    """How two data sets differ in one coin: in a canary more or less, unless the claim says otherwise."""
    return (claim and claim.neighbouring) or Neighbouring.ADD_OR_REMOVE_ONE


def audit_in_one_run(
    algorithm: Auditable,
    canaries: Canaries,
    *,
    guesses: int | None = None,
    claim: Claim | None = None,
    curve: Curve | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    run_options: Mapping[str, Any] | None = None,
) -> Audit:
    """Toss the coins, run the algorithm once, guess the coins.

    Args:
        algorithm: any callable ``(data, curator) -> output``, or a `Plain`.
        canaries: what is put in and how it is scored.
        guesses: how many coins to guess, half of them "in"; left out, a fifth of the canaries.
        claim: what to refute; left out, the algorithm's own. A relation that it leaves open is
            adding or removing a unit: that is what a coin decides.
        curve: delta(epsilon) of the claimed guarantee; needed for zCDP, GDP and RDP.
        delta: where to state the bound.
        confidence: of the bound and the verdict.
        seed: the root seed, of the coins and of the run.
        run_options: further arguments of `dpaudit.run`; `neighbouring` is the claim's, left out.

    Raises:
        InvalidParameter: no canaries, or more guesses than canaries.
        TrialFailed: the algorithm or the score raised.
        DataError: not one score for each canary.
    """
    m = canaries.number
    if m < 1:
        raise InvalidParameter(f"{m!r} canaries", where="canaries", remedy="put in 1 or more")
    guessed = max(1, round(GUESSED * m)) if guesses is None else guesses
    coins = np.random.default_rng(SeedSequence((require_seed(seed), _COINS))).random(m) < 0.5
    claim = claim if claim is not None else getattr(algorithm, "claim", None)
    relation = coin_relation(claim)
    if claim is not None:
        claim = claim.model_copy(update={"neighbouring": relation})
    options = {"neighbouring": relation, **(run_options or {})}
    side = Side(algorithm, canaries.insert(coins), 0, seed, canaries.score, options=options)
    scores: Array = np.atleast_1d(side.chunk(0, 1)[0])
    return one_run(
        scores,
        coins,
        guess_in=(guessed + 1) // 2,
        guess_out=guessed // 2,
        claim=claim,
        curve=curve,
        delta=delta,
        confidence=confidence,
        seed=seed,
    )
