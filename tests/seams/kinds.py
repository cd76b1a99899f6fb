"""Parameters that mean one thing to a mechanism's page and another to its constructor or accountant."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from click.testing import CliRunner

import dpaudit
from dpaudit.app.main import main
from dpaudit.claims.guarantees import leading_figure
from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import L1, L2
from dpaudit.curator.curator import Curator
from dpaudit.errors import DpauditError
from dpaudit.mechanisms import (
    AnyMechanism,
    DiscreteGaussian,
    DiscreteLaplace,
    FixedSizeSampled,
    Gaussian,
    KeySelection,
    Laplace,
    MatrixMechanism,
    NegativeBinomial,
    PoissonSampled,
    PrivateSelection,
    RandomizedResponse,
    SampledMatrix,
    Shuffled,
    Toeplitz,
    TrialRelease,
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


def _lower_end(mechanism: AnyMechanism, count: int, truth: float) -> Callable[[], str]:
    """The two ends of a bound at 1e-6 beside the exact epsilon of so many runs."""

    def verdict() -> str:
        bound = dpaudit.epsilon(mechanism, _DELTA, count=count)
        if bound.at_least is None:
            return "no lower end"
        between = bound.at_least <= truth <= leading_figure(bound.guarantee)
        return f"truth between the ends: {'yes' if between else 'NO'}, {bound.at_least:.6f} and {truth:.6f}"

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


def _verified(mechanism: AnyMechanism, trust: str) -> Callable[[], str]:
    """What `dpaudit verify` says of a ledger file by hand, with a claim that its figure proves."""

    def verdict() -> str:
        claim = {"guarantee": {"kind": "approx-dp", "epsilon": 0.5, "delta": 1e-6}}
        header = {
            "record": "header",
            "schema": "dpaudit.ledger/1",
            "algorithm": "survey",
            "unit": "user",
            "neighbouring": "replace-one",
            "trust_model": trust,
            "claim": claim,
        }
        line = {"record": "release", "label": "answers", "mechanism": mechanism.to_json()}
        with TemporaryDirectory() as folder:
            path = Path(folder) / "ledger.jsonl"
            path.write_text(f"{json.dumps(header)}\n{json.dumps(line)}\n")
            said = _printed(f"verify {path} --allow-unhashed")().replace(str(path), path.name)
        proved = re.search(r"proof (\w+) - (\(.+?\))", said)
        return f"{proved[1]} {proved[2]}" if proved else said

    return verdict


def _ran(work: Callable[[Curator], object], trust: str) -> Callable[[], str]:
    """What a run says in which every user's curator, or under another trust the only one, does some work."""

    def algorithm(data: object, curator: Curator) -> None:
        del data
        if trust != "local":
            work(curator)
            return
        with curator.user(0) as user:
            work(user)

    def verdict() -> str:
        try:
            ran = dpaudit.run(
                algorithm,
                None,
                unit="user",
                neighbouring="replace-one",
                trust_model=trust,
                users=1 if trust == "local" else None,
            )
        except DpauditError as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
        return f"ran: {', '.join(one.mechanism.kind for one in ran.ledger)}"

    return verdict


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


_ANSWER = RandomizedResponse(epsilon=1.0)
_SHUFFLED = Shuffled(local=_ANSWER, users=1000)
_NOISE = Gaussian(sigma=20.0, sensitivity=L2(2.0))
_TRIED = PrivateSelection(
    releases=(TrialRelease(mechanism=PoissonSampled(rate=0.01, mechanism=_NOISE, contribution=1.0)),),
    repetitions=NegativeBinomial(eta=1.0, gamma=0.5),
)


def _sampled_sum(curator: Curator) -> object:
    sampled = PoissonSampled(rate=0.01, mechanism=_NOISE)
    return curator.release_sum(np.ones((1, 2)), bound=1.0, mechanism=sampled, label="sum")


def _kept(curator: Curator) -> object:
    keys = KeySelection(epsilon=0.1, delta=1e-7, changes=1)
    return curator.release_keys([("ward",)], [1], keys, label="keys")


def _discrete(sigma: float) -> AnyMechanism:
    return DiscreteGaussian(sigma=sigma, sensitivity=L2(1.0))


_UNTRUSTED = r".*DPA405 {}: a {} mechanism under {} trust why: nobody is trusted to {}.*"
_MEANING = "a parameter that means two things"
_TRUST = "nobody is trusted with it"
_LOWER = "a lower end of another pair"
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
    *(
        Case(_TRUST, f"a ledger by hand, {name}", True, _verified(mechanism, trust), _UNTRUSTED.format(*said))
        for name, mechanism, trust, said in (
            (
                "shuffled answers, local trust",
                _SHUFFLED,
                "local",
                ("ledger.jsonl:2", "shuffled", "local", "put the answers in a secret order"),
            ),
            (
                "shuffled answers, joint trust",
                _SHUFFLED,
                "joint",
                ("ledger.jsonl:2", "shuffled", "joint", "keep the other users' answers from one another"),
            ),
            (
                "a sample of fixed size, local trust",
                FixedSizeSampled(size=1, units=1000, mechanism=_NOISE),
                "local",
                ("ledger.jsonl:2", "fixed-size-sampled", "local", "draw who is in the sample"),
            ),
            (
                "trials on a secret sample, local trust",
                _TRIED,
                "local",
                ("ledger.jsonl:2", "private-selection", "local", "draw who is in the sample"),
            ),
        )
    ),
    Case(
        _TRUST,
        "a ledger by hand, shuffled answers, central trust",
        False,
        _verified(_SHUFFLED, "central"),
        r"PROVED \(0\.148\d+, 1e-06\)",
    ),
    Case(
        _TRUST,
        "a ledger by hand, noise of a user's own, local trust",
        False,
        _verified(Gaussian(sigma=20.0, sensitivity=L2(2.0)), "local"),
        r"PROVED \(0\.396\d+, 1e-06\)",
    ),
    *(
        Case(_TRUST, f"a run, {name}, local trust", True, _ran(work, "local"), _UNTRUSTED.format(*said))
        for name, work, said in (
            ("a secret sample", _sampled_sum, ("release 'sum'", "poisson-sampled", "local", "draw who")),
            ("keys that enough units have", _kept, ("release 'keys'", "key-selection", "local", "count the")),
        )
    ),
    *(
        Case(_TRUST, f"a run, {name}, joint trust", False, _ran(work, "joint"), f"ran: {kind}")
        for name, work, kind in (
            ("a secret sample", _sampled_sum, "poisson-sampled"),
            ("keys that enough units have", _kept, "key-selection"),
        )
    ),
    *(
        Case(_LOWER, name, wide, _lower_end(mechanism, count, truth), r"truth between the ends: yes, .*")
        for name, wide, mechanism, count, truth in (
            # Convolutions of the noise's own law; tests/accountants/pairs/test_discrete_gaussian.py has them.
            ("1e4 runs of sigma 100", True, _discrete(100.0), 10_000, 4.886554132),
            ("2 runs of sigma 27", True, _discrete(27.0), 2, 0.1988375416),
            ("1 run of sigma 27", True, _discrete(27.0), 1, 0.1372915077492),
            ("3 runs of sigma 26", False, _discrete(26.0), 3, 0.2571036806607),
        )
    ),
]
