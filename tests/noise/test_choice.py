"""Coins and choices have exactly the stated probabilities, and draw more bits where a word does not tell."""

from fractions import Fraction

import numpy as np
import pytest
from flint import ctx
from scipy import stats

from dpaudit.noise import choice
from dpaudit.noise.bits import SeededBits
from dpaudit.noise.reals import exact
from tests.noise.reference import Scripted

ALARM = 1e-6


@pytest.mark.parametrize("rate", [0.5, 0.1, 1.0, 2.0**-70, 1.0 - 2.0**-53])
def test_a_coin_is_decided_at_the_very_word(rate: float) -> None:
    """Words below floor(rate 2^64) are True, words above are False; the word itself asks for more bits."""
    first = Fraction(rate) * 2**64
    whole, rest = int(first), int((first - int(first)) * 2**64)
    below, above = max(0, whole - 1), min(whole + 1, 2**64 - 1)
    if below < whole:
        assert choice.sampled(Scripted([below]), 1, rate).tolist() == [True]
    if rate == 1.0:
        assert choice.sampled(Scripted([2**64 - 1]), 1, rate).tolist() == [True]
        return
    assert choice.sampled(Scripted([above]), 1, rate).tolist() == [False]
    for more, found in ((rest + 5, False), (rest - 5, True)):
        if more >= 0:
            bits = Scripted([whole], [more])
            assert choice.sampled(bits, 1, rate).tolist() == [found]
            assert bits.taken == [(more, 64)]


def test_a_probability_too_near_a_word_for_a_first_look_is_decided_bit_by_bit() -> None:
    tiny = exact(2.0**-500)
    found = choice.coins(Scripted([0, 1, 2**63]), 3, lambda: exact(0.5) + tiny * tiny)
    assert found.tolist() == [True, True, False]


def test_the_frequency_of_coins_and_responses() -> None:
    bits = SeededBits(np.random.default_rng(1))
    assert stats.binomtest(int(choice.sampled(bits, 200_000, 0.3).sum()), 200_000, 0.3).pvalue > ALARM
    assert stats.binomtest(int(choice.sampled(bits, 200_000, 0.3).sum()), 200_000, 0.31).pvalue < ALARM
    for categories in (2, 3, 7):
        value = np.repeat(np.arange(float(categories)), 50_000)
        found = choice.responses(bits, value, 1.0, categories).reshape(categories, -1)
        for true, row in enumerate(found):
            p = np.full(categories, np.exp(-1.0))
            p[true] = 1.0
            counts = np.bincount(row.astype(int), minlength=categories)
            assert stats.chisquare(counts, 50_000 * p / p.sum()).pvalue > ALARM


def test_integers_below_a_bound_are_uniform_and_words_that_would_favour_some_are_rejected() -> None:
    # 2^64 leaves the remainder 1 on division by 3: the last word is redrawn.
    assert choice._below(Scripted([2**64 - 1, 5]), 1, 3).tolist() == [2]
    assert choice._below(Scripted([2**64 - 2]), 1, 3).tolist() == [(2**64 - 2) % 3]
    assert choice._below(Scripted([2**64 - 1]), 1, 4).tolist() == [3]
    assert choice._below(Scripted([7]), 1, 1).tolist() == [0]


SCORES = np.array([0.0, 2.0, -1.0, 2.0, -3000.0])


def test_a_choice_is_made_at_the_very_edge() -> None:
    """Around each edge between two candidates: a number on either side leads to its own one."""
    factor = Fraction(1, 3)
    with ctx.workprec(512):
        weights = [exact(factor * Fraction(score)).exp() for score in SCORES.tolist()]
        total = sum(weights)
        for i in range(3):
            edge = sum(weights[: i + 1]) / total * 2**128
            at = int(edge.floor().unique_fmpz())
            for near, found in ((at - 9, i), (at + 9, i + 1)):
                bits = Scripted([], [near >> 64, near & (2**64 - 1)])
                assert choice.choose(bits, SCORES, factor) == found
                assert len(bits.taken) == 2


def test_the_scores_are_not_rounded_before_they_are_weighed() -> None:
    """1/3 of a score is no double: two scores whose products round to one keep their own weights."""
    scores = np.array([0.1, np.nextafter(0.1, 1.0)])
    factor = Fraction(1, 3) * 2**52
    with ctx.workprec(256):
        edge = 1 / (1 + (exact(Fraction(scores[1]) - Fraction(scores[0])) * exact(factor)).exp()) * 2**128
        at = int(edge.floor().unique_fmpz())
    for near, found in ((at - 9, 0), (at + 9, 1)):
        assert choice.choose(Scripted([], [near >> 64, near & (2**64 - 1)]), scores, factor) == found


def test_the_frequency_of_choices() -> None:
    bits = SeededBits(np.random.default_rng(2))
    found = np.bincount([choice.choose(bits, SCORES[:4], Fraction(1)) for _ in range(20_000)], minlength=4)
    p = np.exp(SCORES[:4])
    assert stats.chisquare(found, 20_000 * p / p.sum()).pvalue > ALARM
    assert stats.chisquare(found, 20_000 * p**1.1 / (p**1.1).sum()).pvalue < ALARM


def test_doubles_and_balls_choose_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    words = generator.integers(0, 2**64, 300, dtype=np.uint64).tolist()
    scores = generator.normal(size=50) * 10.0
    quick = [choice.choose(Scripted([], [word]), scores, Fraction(1)) for word in words]
    monkeypatch.setattr(choice, "_MOST_IN_DOUBLES", 0)
    assert quick == [choice.choose(Scripted([], [word]), scores, Fraction(1)) for word in words]


@pytest.mark.parametrize("scores", [[5.0], [1e308, -1e308], [0.0] * 7])
def test_extreme_scores(scores: list[float]) -> None:
    found = choice.choose(Scripted([], [2**64 - 1]), np.array(scores), Fraction(3))
    assert found == (0 if scores[0] > 1.0 else 6)
