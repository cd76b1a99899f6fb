"""Parameters that mean one thing to a mechanism's page and another to its constructor or accountant."""

from __future__ import annotations

from collections.abc import Callable

from click.testing import CliRunner

import dpaudit
from dpaudit.app.main import main
from dpaudit.claims.guarantees import leading_figure
from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import L1, L2
from dpaudit.mechanisms import (
    AnyMechanism,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    MatrixMechanism,
    PoissonSampled,
    SampledMatrix,
    Toeplitz,
    TruncatedPoissonSampled,
)
from tests.mechanisms import worst_pairs as exactly
from tests.seams.case import Case

ADDED, REPLACED = Neighbouring.ADD_OR_REMOVE_ONE, Neighbouring.REPLACE_ONE
_DELTA = 1e-6


def _beside(mechanism: AnyMechanism, relation: Neighbouring, pair: exactly.Pair) -> Callable[[], str]:
    """The bound beside the exact epsilon of a pair that the obligation allows."""

    def verdict() -> str:
        bound = dpaudit.epsilon(mechanism, _DELTA, neighbouring=relation).guarantee
        found, truth = leading_figure(bound), pair.epsilon(_DELTA)
        place = "below" if found < truth * (1 - 1e-4) else "not below"
        return f"{place} the truth: at most {found:.4f}, truth {truth:.4f}"

    return verdict


def _printed(command: str) -> Callable[[], str]:
    """What a command prints, on one line, with its exit code."""

    def verdict() -> str:
        result = CliRunner().invoke(main, command.split(), prog_name="dpaudit")
        return " ".join(f"exit {result.exit_code}: {result.stdout} {result.stderr}".split())

    return verdict


def _cut(rate: float, most: int, units: int, sigma: float, *, moved: float, own: float) -> AnyMechanism:
    noise = Gaussian(sigma=sigma, sensitivity=L2(moved))
    return TruncatedPoissonSampled(mechanism=noise, rate=rate, most=most, units=units, contribution=own)


def _alone(rate: float, sigma: float, one: float, other: float) -> exactly.Pair:
    """A data set of one unit and another: with another row, or (0) without it."""
    laws = (exactly.poisson([row], rate) for row in (one, other))
    return exactly.shifted(*laws, exactly.gaussian(sigma), 14.0 * sigma)


_NOT_BELOW = r"not below the truth: .*"
_ASKS = r"exit 2: .*needs --sensitivity why: .* do: add --sensitivity 2{} for rows clipped to the norm 1"
_DISCRETE = DiscreteLaplace(scale=1.0, sensitivity=L1(1.0))
_LAPLACE = Laplace(scale=0.4, sensitivity=L1(1.0))
_ONE_TURN = MatrixMechanism(sigma=0.4, steps=1, strategy=Toeplitz(coefficients=(1.0,)), sensitivity=L2(1.0))


def _integers(rate: float, one: int, other: int) -> exactly.Pair:
    laws = (exactly.poisson([row], rate) for row in (one, other))
    return exactly.on_integers(*laws, lambda k: -abs(k), 60)


def _continuous(rate: float, one: float, other: float) -> exactly.Pair:
    laws = (exactly.poisson([row], rate) for row in (one, other))
    return exactly.shifted(*laws, exactly.laplace(0.4), 16.0)


_MEANING = "a parameter that means two things"
_SURPRISE = "a default that would surprise"
CASES = [
    *(
        Case(_MEANING, f"{name}, rows between 1 and 2", True, _beside(mechanism, relation, pair), _NOT_BELOW)
        for name, mechanism, relation, pair in (
            ("cut to 1 of 1", _cut(0.3, 1, 1, 0.4, moved=1, own=2), ADDED, _alone(0.3, 0.4, 2, 0)),
            ("cut to 3 of 4", _cut(0.3, 3, 4, 1.0, moved=1, own=2), ADDED, _alone(0.3, 1.0, 2, 0)),
            ("cut to 30 of 50", _cut(0.1, 30, 50, 2.0, moved=1, own=2), ADDED, _alone(0.1, 2.0, 2, 0)),
            (
                "cut to 1 of 1, replaced",
                _cut(0.3, 1, 1, 0.4, moved=1, own=2),
                REPLACED,
                _alone(0.3, 0.4, 2, 1),
            ),
            (
                "Poisson sample of integers",
                PoissonSampled(rate=0.3, mechanism=_DISCRETE, contribution=2.0),
                ADDED,
                _integers(0.3, 2, 0),
            ),
            (
                "Poisson sample, Laplace noise, replaced",
                PoissonSampled(rate=0.3, mechanism=_LAPLACE, contribution=2.0),
                REPLACED,
                _continuous(0.3, 2.0, 1.0),
            ),
            (
                "one sampled turn of a stream",
                SampledMatrix(rate=0.3, mechanism=_ONE_TURN, contribution=2.0),
                ADDED,
                _alone(0.3, 0.4, 2, 0),
            ),
        )
    ),
    *(
        Case(_MEANING, f"{name}, rows of norm 1", False, _beside(mechanism, relation, pair), _NOT_BELOW)
        for name, mechanism, relation, pair in (
            ("cut to 1 of 1", _cut(0.3, 1, 1, 0.4, moved=2, own=1), ADDED, _alone(0.3, 0.4, 1, 0)),
            (
                "cut to 1 of 1, replaced",
                _cut(0.3, 1, 1, 0.4, moved=2, own=1),
                REPLACED,
                _alone(0.3, 0.4, 1, -1),
            ),
        )
    ),
    Case(
        _SURPRISE,
        "fixed size without a sensitivity",
        True,
        _printed("epsilon gaussian --sigma 1.1 --size 256 --units 60000 --steps 4688"),
        _ASKS.format(""),
    ),
    Case(
        _SURPRISE,
        "fixed size for rows of norm 1",
        False,
        _printed(
            "epsilon gaussian --sigma 1.1 --size 256 --units 60000 --steps 4688 --sensitivity 2"
            " --delta 1e-5 --output-format json"
        ),
        r'exit 0: .*"epsilon": 8\.784.*',
    ),
    Case(
        _SURPRISE,
        "a cut sample without a sensitivity",
        True,
        _printed("epsilon gaussian --sigma 1 --rate 0.01 --most 30 --units 1000"),
        _ASKS.format(" and --contribution 1"),
    ),
    Case(
        _SURPRISE,
        "calibrating a replaced unit's sample without a sensitivity",
        True,
        _printed("calibrate gaussian --rate 0.01 --epsilon 1 --delta 1e-6 --neighbouring replace-one"),
        _ASKS.format(" and --contribution 1"),
    ),
    Case(
        _SURPRISE,
        "noise on a sum of replaced units without a sensitivity",
        True,
        _printed("epsilon laplace --scale 1 --neighbouring replace-one"),
        _ASKS.format(""),
    ),
    Case(
        _SURPRISE,
        "noise on a sum of added units without a sensitivity",
        False,
        _printed("epsilon laplace --scale 1 --delta 1e-6"),
        r"exit 0: .*sensitivity 1 l1 declared \(add-or-remove-one\).*",
    ),
]
