"""The discrete samplers, enumerated: every branch of Algorithms 1 to 3 with its exact probability.

A sampler is run on scripted choices; where the script ends, the run is repeated once for every possible
next choice. Each layer is enumerated over the one below, whose law has been checked before it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import pytest
from mpmath import mp, mpf

from dpaudit.noise import rational as discrete
from tests.sweeps import sweep

TINY = mpf(10) ** -36  # all branches that are as rare together weigh less than CLOSE
CLOSE = mpf(10) ** -30


@pytest.fixture(autouse=True)
def digits() -> Iterable[None]:
    with mp.workdps(60):
        yield


class Branch(Exception):
    def __init__(self, options: list[tuple[Any, mpf]]) -> None:
        self.options = options


class Restart(Exception):
    """A proposal was rejected: from here on the law is that of the beginning."""


class Script:
    def __init__(self, choices: list[Any]) -> None:
        self.choices = choices
        self.position = 0

    def choose(self, options: list[tuple[Any, mpf]]) -> Any:
        if self.position == len(self.choices):
            raise Branch(options)
        self.position += 1
        return self.choices[self.position - 1]


class Threshold:
    """A uniform draw below `bound` that is only ever compared."""

    def __init__(self, script: Script, bound: int) -> None:
        self.script, self.bound = script, bound

    def __lt__(self, n: int) -> bool:
        p = mpf(n) / self.bound
        return bool(self.script.choose([(True, p), (False, 1 - p)]))


def law(sampler: Callable[[Script], Any]) -> dict[Any, mpf]:
    found: dict[Any, mpf] = defaultdict(lambda: mpf(0))
    open_runs: list[tuple[list[Any], mpf]] = [([], mpf(1))]
    while open_runs:
        choices, p = open_runs.pop()
        try:
            found[sampler(Script(choices))] += p
        except Branch as branch:
            open_runs += [([*choices, value], p * q) for value, q in branch.options if p * q > TINY]
        except Restart:
            pass
    total = sum(found.values())
    return {value: p / total for value, p in found.items()}


class Thresholds:
    def __init__(self, script: Script) -> None:
        self.script = script

    def below(self, bound: int) -> Any:
        return Threshold(self.script, bound)


@pytest.mark.parametrize("gamma", ["0", "1/3", "1", "7/5", "2"])
def test_bernoulli_exp(gamma: str) -> None:
    exact = Fraction(gamma)
    found = law(
        lambda script: discrete._bernoulli_exp(exact.numerator, exact.denominator, Thresholds(script))
    )  # type: ignore[arg-type]
    assert abs(found[True] - mp.exp(-mpf(exact.numerator) / exact.denominator)) < CLOSE


class Uniforms:
    """Enumerates uniform draws; the second one below `first` is a rejected proposal's new beginning."""

    def __init__(self, script: Script, first: int) -> None:
        self.script, self.first, self.begun = script, first, False

    def below(self, bound: int) -> int:
        if bound == self.first:
            if self.begun:
                raise Restart
            self.begun = True
        return int(self.script.choose([(value, mpf(1) / bound) for value in range(bound)]))


def exact_bernoulli(numerator: int, denominator: int, bits: Any) -> bool:
    p = mp.exp(-mpf(numerator) / denominator)
    return bool(bits.script.choose([(True, p), (False, 1 - p)]))


@sweep("scale", ["3/2", "1", "1/3", "7", "5/3"], everyday=(1, 2))
def test_discrete_laplace(scale: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discrete, "_bernoulli_exp", exact_bernoulli)
    exact = Fraction(scale)
    found = law(lambda script: discrete.discrete_laplace(exact, Uniforms(script, exact.numerator)))  # type: ignore[arg-type]
    decay = mp.exp(-mpf(exact.denominator) / exact.numerator)
    for k in range(-12, 13):
        assert abs(found[k] - (1 - decay) / (1 + decay) * decay ** abs(k)) < CLOSE


@sweep("variance", ["9/4", "1/5", "1", "16", "53/7"], everyday=(1,))
def test_discrete_gaussian(variance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = Fraction(variance)

    class Proposals:
        def __init__(self, script: Script) -> None:
            self.script, self.begun = script, False

    def proposal(scale: Fraction, bits: Any) -> int:
        if bits.begun:
            raise Restart
        bits.begun = True
        decay = mp.exp(-mpf(scale.denominator) / scale.numerator)
        norm = (1 - decay) / (1 + decay)
        return int(bits.script.choose([(k, norm * decay ** abs(k)) for k in range(-120, 121)]))

    monkeypatch.setattr(discrete, "_bernoulli_exp", exact_bernoulli)
    monkeypatch.setattr(discrete, "discrete_laplace", proposal)
    found = law(lambda script: discrete.discrete_gaussian(exact, Proposals(script)))  # type: ignore[arg-type]
    double_variance = 2 * mpf(exact.numerator) / exact.denominator
    normaliser = mp.nsum(lambda k: mp.exp(-k * k / double_variance), [-mp.inf, mp.inf])
    for k in range(-12, 13):
        expected = mp.exp(-(mpf(k) ** 2) / double_variance) / normaliser
        assert abs(found.get(k, mpf(0)) - expected) < CLOSE


def test_the_enumeration_sees_a_double_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classic slip, 0 reached with both signs, gives another law."""

    def slipped(scale: Fraction, bits: Any) -> int:
        low = bits.below(scale.numerator)
        if not exact_bernoulli(low, scale.numerator, bits):
            raise Restart
        high = 0
        while exact_bernoulli(1, 1, bits):
            high += 1
        magnitude = (low + scale.numerator * high) // scale.denominator
        return -magnitude if bits.below(2) else magnitude

    found = law(lambda script: slipped(Fraction(1), Uniforms(script, 1)))
    decay = mp.exp(mpf(-1))
    assert abs(found[0] - (1 - decay) / (1 + decay)) > mpf("0.1")
