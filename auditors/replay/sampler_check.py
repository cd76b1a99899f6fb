"""A chi-square test of every sampler against the noise distribution in the ledger.

Each mechanism of a recording answers the same query many times; the draws are counted in bins whose
probabilities under the stated distribution are known. The true scale passes; a scale that is 5% off fails.
"""

import functools
import itertools
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, assert_never, cast

import numpy as np
import scipy

from dpaudit import mechanisms
from dpaudit.curator.noise import LiveNoise, Question
from dpaudit.errors import InvalidParameter
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import AnyMechanism, Array, DiscreteGaussian, DiscreteLaplace
from dpaudit.noise.bits import SeededBits
from dpaudit.noise.randomness import ExactRandomness, Randomness, SeededRandomness

#: The probability that a correct sampler is reported: in one audit, over all its mechanisms.
FALSE_ALARM = 1e-6
#: Draws of each mechanism: enough for an error of 5% in the scale, which moves the statistic of Gaussian
#: noise by some 400 and that of Laplace noise by 200; it is reported past 60.
DRAWS = 80_000
#: Noise that is drawn one by one: fewer draws; an error of 5% still moves the statistic by some 150.
SLOW_DRAWS = 30_000
CHOICES = 20_000
#: A choice with more candidates (several quantiles have 2^20) is offered only the likeliest candidates.
CANDIDATES = 256
_MECHANISMS = 16
#: Mechanisms with an empty first question.
_OPENED = (
    mechanisms.StreamMechanism | mechanisms.InTurns | mechanisms.GaussianProcess | mechanisms.AboveThreshold
)
_Selection = mechanisms.KeySelection | mechanisms.PrivateSelection
_UNTESTED = mechanisms.HiddenSample | mechanisms.OpaqueMechanism | _Selection
_BINS = 12


class SamplerProbe(LiveNoise):
    """Live noise that keeps the first question to every mechanism.

    Both samplers are tested: the exact one, used by protecting runs, and the seeded one, used by this audit.
    """

    def __init__(self, seed: np.random.SeedSequence) -> None:
        live, self._probing = seed.spawn(2)
        super().__init__(live)
        self._asked: dict[AnyMechanism, Question] = {}
        self._drawn: dict[int, Release] = {}  # by their places in the run
        self._tested: set[AnyMechanism] = set()

    def answer(self, question: Question) -> Array:
        """Return the answer of a live run."""
        if question.given:
            self._drawn[question.number] = question.release
        if len(self._asked) < _MECHANISMS:
            self._asked.setdefault(question.release.mechanism, question)
        return super().answer(question)

    def faulty(self) -> Iterator[tuple[str, float]]:
        """Draw the samples; return labels and p-values of the releases with noise that is not as stated."""
        seeded, exact = (np.random.default_rng(seed) for seed in self._probing.spawn(2))
        samplers = SeededRandomness(seeded), ExactRandomness(SeededBits(exact))
        for mechanism, question in self._asked.items():
            tables = []
            for randomness in samplers:
                with suppress(InvalidParameter):  # a value too large for exact noise
                    tables.append(_table(mechanism, question, randomness))
            p_values = [_p_value(*tested) for tested in tables if tested is not None]
            self._tested |= {mechanism} if p_values else set()
            if p_values and min(p_values) < FALSE_ALARM / (_MECHANISMS * len(samplers)):
                yield question.release.label, min(p_values)

    def untested(self) -> list[str]:
        """Return the labels of the releases with noise that `faulty` did not compare."""
        return [release.label for release in self._drawn.values() if release.mechanism not in self._tested]


def sampler_is_tested(mechanism: AnyMechanism) -> bool:
    """Return whether the draws of such a mechanism are compared with its distribution."""
    if mechanism.kind not in mechanisms.OWN_KINDS:
        by_density = mechanisms.ValueMechanism | mechanisms.Choice | mechanisms.AboveThreshold
        return isinstance(mechanism, by_density) and not mechanism.integer_noise
    in_turns = mechanisms.SampledMatrix | mechanisms.RandomAllocation
    return isinstance(mechanism, in_turns) or not isinstance(mechanism, _UNTESTED)


def _p_value(counts: Array, probabilities: Array) -> float:
    expected = counts.sum() * probabilities
    # With nearly empty bins the statistic would not be chi-square distributed: they are merged.
    rare = expected < 20.0
    counts, expected = (
        np.append(values[~rare], values[rare].sum()) if rare.any() else values
        for values in (counts, expected)
    )
    if expected[-1] < 1.0:
        if counts[-1] > 30.0:
            return 0.0
        counts, expected = counts[:-1], expected[:-1]
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return float(scipy.special.chdtrc(max(len(expected) - 1, 1), statistic))


def _table(mechanism: AnyMechanism, question: Question, randomness: Randomness) -> tuple[Array, Array] | None:
    """Return each bin's number of draws and probability; None if the mechanism is not tested."""
    query = question.query
    opens = isinstance(mechanism, _OPENED)
    if not (query.size or opens):
        return None
    match mechanism:
        case mechanisms.Gaussian():
            return _gaussian_bins(_noise(question, mechanism, randomness, DRAWS) / mechanism.sigma)
        case mechanisms.SmoothGaussian():
            if question.scale is None:
                return None
            values = np.repeat(query[np.newaxis], -(-SLOW_DRAWS // query.size), axis=0)
            drawn = mechanism.sample(values, question.scale, randomness)
            return _gaussian_bins((drawn - values) / question.scale)
        case mechanisms.Laplace():
            noise = _noise(question, mechanism, randomness, DRAWS)
            return _equal_bins(_laplace_levels(noise, mechanism.scale))
        case mechanisms.SymmetricGaussian():
            rows, columns = np.triu_indices(query.shape[-1])
            draws = _noise(question, mechanism, randomness, DRAWS)[..., rows, columns]
            sigmas = mechanism.sigma * np.where(rows == columns, 1.0, math.sqrt(0.5))
            return _gaussian_bins(draws / sigmas)
        case mechanisms.TreeAggregation():
            shape = (DRAWS, 1, 1) if mechanism.norm == "frobenius" else (DRAWS,)
            return _gaussian_bins(mechanism.sample_node(np.zeros(shape), randomness) / mechanism.sigma)
        case mechanisms.MatrixMechanism():
            return _gaussian_bins(_correlated(mechanism, randomness))
        case mechanisms.SampledMatrix(mechanism=inner):
            return _gaussian_bins(_correlated(inner, randomness))
        case mechanisms.RandomAllocation(mechanism=inner):
            return _gaussian_bins(inner.sample(np.zeros(DRAWS), randomness) / inner.sigma)
        case mechanisms.GaussianProcess():
            path = mechanism.path((SLOW_DRAWS,), randomness)
            return _gaussian_bins(path.at(0.0, np.zeros(SLOW_DRAWS)) / mechanism.sigma)
        case DiscreteGaussian() | DiscreteLaplace():
            return _integers(mechanism, _noise(question, mechanism, randomness, DRAWS))
        case mechanisms.RandomizedResponse():
            kept = _noise(question, mechanism, randomness, DRAWS) == 0
            same = float(kept.sum())
            keep = 1.0 / (1.0 + (mechanism.categories - 1) * math.exp(-mechanism.epsilon))
            return np.array([same, kept.size - same]), np.array([keep, 1.0 - keep])
        case mechanisms.Shuffled():
            return _table(mechanism.local, question, randomness)
        case mechanisms.AboveThreshold():
            return _compared(mechanism, randomness)
        case mechanisms.Choice():
            if mechanism.log_probability(0, query) is None:
                return None
            few = np.sort(np.argsort(query, kind="stable")[-CANDIDATES:])
            query, (_, scores, factor) = query[few], cast("tuple[Any, ...]", question.given)
            logs = [mechanism.log_probability(index, query) for index in range(query.size)]
            one = functools.partial(question.answering, query, scores[few], factor, randomness)
            chosen = np.array([one() for _ in range(CHOICES)]).astype(np.int64)
            shares = np.exp(np.array(logs, dtype=np.float64))
            return np.bincount(chosen, minlength=query.size).astype(np.float64), shares / shares.sum()
        case mechanisms.ValueMechanism():  # a new one
            if query.size == 1 and not mechanism.integer_noise:
                return _by_density(mechanism, query, _noise(question, mechanism, randomness, DRAWS))
        case _ if mechanism.kind in mechanisms.OWN_KINDS and not isinstance(mechanism, _UNTESTED):
            assert_never(mechanism)
    return None


def _compared(mechanism: mechanisms.AboveThreshold, randomness: Randomness) -> tuple[Array, Array]:
    """Return answers to three values, near the threshold and on either side of it, in all combinations."""
    scale = max(mechanism.scales)
    ahead = scale * np.array([0.0, -1.0, 1.0])
    answers = np.array(list(itertools.product((False, True), repeat=len(ahead))))
    found = np.zeros(len(answers))
    for _ in range(CHOICES):
        level = mechanism.level(randomness)
        place = 0
        for one in ahead.tolist():
            place = 2 * place + level.reached(one, 0.0, mechanism.scales[1])
        found[place] += 1
    logs = np.array([mechanism.log_probability(yes, ahead) for yes in answers], dtype=np.float64)
    return found, np.exp(logs)


def _noise(
    question: Question, mechanism: mechanisms.ValueMechanism, randomness: Randomness, least: int
) -> Array:
    """Return the noise on many copies of one query at once, [n, ...]: at least `least` numbers."""
    copies = -(-least // question.query.size)
    values = np.repeat(question.query[np.newaxis], copies, axis=0)
    return mechanism.sample(values, randomness) - values


def _correlated(mechanism: mechanisms.MatrixMechanism, randomness: Randomness) -> Array:
    """Return the summed noise of a stream's first steps: standard normal if it is correlated as stated.

    The sum is over as many steps as there are bands, but at most 8, so it includes neighbouring steps' noise.
    """
    steps = min(mechanism.steps, mechanism.strategy.bands(mechanism.steps) + 1, 8)
    sums = mechanism.running((DRAWS,))
    outputs = []
    for _ in range(steps):
        sums.push(np.zeros(DRAWS))
        outputs.append(sums.noisy(randomness))
    noise = mechanism.noise_in(np.stack(outputs), np.zeros((steps, DRAWS)))
    return np.asarray(noise.sum(axis=0) / (math.sqrt(steps) * mechanism.sigma))


def _equal_bins(levels: Array) -> tuple[Array, Array]:
    places = np.clip((levels.ravel() * _BINS).astype(np.int64), 0, _BINS - 1)
    return np.bincount(places, minlength=_BINS).astype(np.float64), np.full(_BINS, 1.0 / _BINS)


def _gaussian_bins(standard: Array) -> tuple[Array, Array]:
    return _equal_bins(scipy.special.ndtr(standard))


def _by_density(mechanism: mechanisms.ValueMechanism, query: Array, noise: Array) -> tuple[Array, Array]:
    """Count in bins over three typical sizes of the noise to either side, and one bin for the tails.

    Each bin's probability is the mean of 400 densities times its width.
    """
    edges = 3.0 * mechanism.typical_noise * np.linspace(-1.0, 1.0, _BINS + 1)
    width = edges[1] - edges[0]
    points = edges[:-1, np.newaxis] + width * (np.arange(400) + 0.5) / 400
    log_density = [mechanism.log_density(query + point, query) for point in points.ravel()]
    probabilities = width * np.exp(log_density).reshape(points.shape).mean(axis=1)
    counts = np.histogram(noise, edges)[0].astype(np.float64)
    tails = max(0.0, 1.0 - probabilities.sum())
    return np.append(counts, noise.size - counts.sum()), np.append(probabilities, tails)


def _integers(mechanism: DiscreteGaussian | DiscreteLaplace, noise: Array) -> tuple[Array, Array]:
    """Count in bins of equal width over three scales to either side, and one bin for each tail."""
    gaussian = isinstance(mechanism, DiscreteGaussian)
    scale = mechanism.sigma if isinstance(mechanism, DiscreteGaussian) else mechanism.scale
    reach = math.ceil(3.0 * scale)
    width = max(1, math.ceil(2 * reach / _BINS))
    support = np.arange(-reach, reach + 1, dtype=np.float64)
    if len(support) >= 200_000:
        # At this scale the integers approximate the real line: one step is 1e-5 of a scale.
        return _gaussian_bins(noise / scale) if gaussian else _equal_bins(_laplace_levels(noise, scale))
    masses = np.array([math.exp(mechanism.log_density(np.array([k]), np.zeros(1))) for k in support])
    bins = (support.astype(np.int64) + reach) // width
    probabilities = np.bincount(bins, weights=masses)
    inside = np.abs(noise) <= reach
    places = (noise[inside].astype(np.int64).ravel() + reach) // width
    counts = np.bincount(places, minlength=len(probabilities)).astype(np.float64)
    outside = float((~inside).sum())
    return np.append(counts, outside), np.append(probabilities, max(0.0, 1.0 - probabilities.sum()))


def _laplace_levels(noise: Array, scale: float) -> Array:
    tail = 0.5 * np.exp(-np.abs(noise) / scale)
    return np.where(noise < 0, tail, 1.0 - tail)
