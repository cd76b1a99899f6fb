"""diffprivlib: every `DPMechanism.randomise` asks the curator.

Each mechanism for Laplace, geometric or Gaussian noise, randomized response or selection is replaced by the
curator's mechanism with the same distribution, sensitivity and scale. What truncates or
folds such noise does so to the curator's answer. All others draw with their own code and the curator's
generator: of these the guarantee and the sensitivity are known, but no density.

Randomness without a seed that is not a mechanism's, such as where k-means begins, is public: the same on both
sides. Refused is what replay would misjudge, because a mechanism's answer is not what is published or not all
of the noise: `Vector` returns a function that holds the data, an `Exponential` with a measure an interval
between two records, and a tree draws the classes of its empty leaves by itself.
"""

import functools
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from dpaudit.auditors.libraries.adapter import NO_NOISE, Adapter, Asked, folder_of, refused, replaced
from dpaudit.claims.sensitivity import L1, L2
from dpaudit.curator.curator import Curator
from dpaudit.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    Laplace,
    OpaqueApproxDP,
    OpaquePureDP,
    RandomizedResponse,
    ReportNoisyMax,
)

#: Mechanisms that clamp a value to their domain before they add noise.
_CLAMPING: Final = ("LaplaceBoundedDomain", "Snapping")

#: How a mechanism that is known by its class answers: (mechanism, value, curator, label) -> output.
Answers = Callable[[Any, Any, Curator, str], Any]

_VECTOR: Final = (
    "diffprivlib's Vector mechanism, which logistic regression uses",
    "it returns a perturbed function that still holds the data; only its minimum is published",
)
_TREE: Final = (
    "diffprivlib's decision trees and forests",
    "a leaf without records draws its class outside any mechanism; replay would take that for a leak",
)
_MEASURE: Final = (
    "diffprivlib's Exponential mechanism with a measure, which quantiles, percentiles and medians use",
    "it chooses an interval between two records; only a point drawn from inside is published",
)


def _laplace(mechanism: Any, value: Any, curator: Curator, label: str) -> float:
    spare = -math.log1p(-mechanism.delta) if mechanism.delta < 1.0 else math.inf
    scale = mechanism.sensitivity / (mechanism.epsilon + spare)
    noise = Laplace(scale=scale or NO_NOISE, sensitivity=L1(mechanism.sensitivity))
    return float(curator.release(value, noise, label=label))


def _geometric(mechanism: Any, value: Any, curator: Curator, label: str) -> int:
    scale = mechanism.sensitivity / mechanism.epsilon
    noise = DiscreteLaplace(scale=scale or NO_NOISE, sensitivity=L1(mechanism.sensitivity))
    return int(curator.release(value, noise, label=label))


def _gaussian(mechanism: Any, value: Any, curator: Curator, label: str) -> float:
    # The scale is found by the mechanism's constructor; it has no public name.
    noise = Gaussian(sigma=mechanism._scale or NO_NOISE, sensitivity=L2(mechanism.sensitivity))  # noqa: SLF001
    return float(curator.release(value, noise, label=label))


def _discrete_gaussian(mechanism: Any, value: Any, curator: Curator, label: str) -> int:
    scale = float(mechanism._scale) or NO_NOISE  # noqa: SLF001
    noise = DiscreteGaussian(sigma=scale, sensitivity=L2(mechanism.sensitivity))
    return int(curator.release(value, noise, label=label))


def _binary(mechanism: Any, value: Any, curator: Curator, label: str) -> str:
    answers = [mechanism.value0, mechanism.value1]
    noise = RandomizedResponse(epsilon=mechanism.epsilon)
    return str(answers[int(curator.release(answers.index(value), noise, label=label))])


def _choice(kind: type[Exponential | ReportNoisyMax]) -> Answers:
    def choose(mechanism: Any, value: Any, curator: Curator, label: str) -> Any:
        del value
        if mechanism.measure:
            raise refused(*_MEASURE)
        about: dict[str, Any] = {"label": label, "monotone": mechanism.monotonic}
        sensitivity = mechanism.sensitivity or NO_NOISE
        noise = kind(epsilon=mechanism.epsilon)
        index = curator.select(mechanism.utility, noise, score_sensitivity=sensitivity, **about)
        return mechanism.candidates[index] if mechanism.candidates else index

    return choose


def _refused(*words: str) -> Answers:
    def refuse(*_: Any) -> Any:
        raise refused(*words)

    return refuse


def _opaque(draw: Callable[[Any, Any], Any]) -> Answers:
    """With the mechanism's own code `draw`, its generator replaced by one that follows from the curator's."""

    def answer(mechanism: Any, value: Any, curator: Curator, label: str) -> Any:
        # Text is released as its place in the domain.
        domain = sorted({each for pair in getattr(mechanism, "utility_list", ()) for each in pair[:2]})
        number = domain.index(value) if domain else value
        if type(mechanism).__name__ in _CLAMPING:
            number = min(max(value, mechanism.lower), mechanism.upper)

        def sampled(_: Any, generator: np.random.Generator) -> Any:
            own, mechanism._rng = mechanism._rng, np.random.RandomState(generator.integers(2**32))  # noqa: SLF001
            try:
                drawn = draw(mechanism, value)
            finally:
                mechanism._rng = own  # noqa: SLF001
            return domain.index(drawn) if domain else drawn

        output = curator.release_opaque(number, sampled, _guarantee(mechanism, value), label=label)
        if domain:
            return domain[int(output)]
        return output if output.ndim else float(output)

    return answer


def _guarantee(mechanism: Any, value: Any) -> OpaquePureDP | OpaqueApproxDP:
    """What a mechanism states of itself; of a matrix's sensitivity the library does not say in which norm."""
    stated = getattr(mechanism, "sensitivity", None)
    about: Any = {"justification": f"diffprivlib states it of {type(mechanism).__name__}"}
    about |= {} if stated is None or np.ndim(value) else {"sensitivity": L1(stated)}
    if mechanism.delta == 0.0:
        return OpaquePureDP(epsilon=mechanism.epsilon, **about)
    return OpaqueApproxDP(epsilon=mechanism.epsilon, delta=mechanism.delta, **about)


#: The classes that define `randomise`, by name, and how each answers; None: with its own code. A class that
#: inherits it, or that changes the answer of the one that it inherits from, is routed through that one.
KNOWN: Final[dict[str, Answers | None]] = {
    "Binary": _binary,
    "Bingham": None,
    "Exponential": _choice(Exponential),
    "ExponentialCategorical": None,
    "Gaussian": _gaussian,
    "GaussianDiscrete": _discrete_gaussian,
    "Geometric": _geometric,
    "Laplace": _laplace,
    "LaplaceBoundedDomain": None,
    "LaplaceBoundedNoise": None,
    "PermuteAndFlip": _choice(ReportNoisyMax),
    "Snapping": None,
    "Staircase": None,
    "Uniform": None,
    "Vector": _refused(*_VECTOR),
}
#: Mechanisms that call their parent class, then truncate or fold its answer.
AFTERWARDS: Final = ("GeometricFolded", "GeometricTruncated", "LaplaceFolded", "LaplaceTruncated")


@contextmanager
def _routing(curator: Curator) -> Iterator[None]:
    from diffprivlib import mechanisms, utils
    from diffprivlib.models import forest

    asked = Asked((folder_of("diffprivlib.mechanisms"),))
    at_random, initialised = utils.check_random_state, mechanisms.DPMechanism.__init__
    known = {*KNOWN, *AFTERWARDS}

    def answered(own: Callable[[Any, Any], Any], answer: Answers) -> Callable[..., Any]:
        @functools.wraps(own)
        def randomise(self: Any, value: Any = None) -> Any:
            self._check_all(value)
            return answer(self, value, curator, asked.label())

        return randomise

    def checked(self: Any, *args: Any, **options: Any) -> None:
        written_by = next(each for each in type(self).__mro__ if "randomise" in vars(each))
        if written_by.__name__ not in known or vars(mechanisms).get(written_by.__name__) is not written_by:
            what = f"{written_by.__module__}.{written_by.__qualname__}, a mechanism that is not diffprivlib's"
            raise refused(what, "its noise is drawn by code that is not known here")
        initialised(self, *args, **options)

    def public(seed: Any = None, secure: bool = False) -> Any:  # noqa: FBT001, FBT002  (the library's own signature)
        if seed is None or seed is np.random.mtrand._rand:  # noqa: SLF001  (as the library tells it)
            return np.random.RandomState(curator.public("diffprivlib").integers(2**32))
        return at_random(seed, secure)

    places: list[tuple[Any, str, Any]] = [(mechanisms.DPMechanism, "__init__", checked)]
    places.append((forest._FittingTree, "fit", _refused(*_TREE)))  # noqa: SLF001
    for name, answer in KNOWN.items():
        kind = vars(mechanisms)[name]
        own = vars(kind)["randomise"]
        places.append((kind, "randomise", answered(own, answer or _opaque(own))))
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "diffprivlib" and vars(module).get("check_random_state") is at_random:
            places.append((module, "check_random_state", public))
    with asked.passed_over(), replaced(places):
        yield


ADAPTER = Adapter(
    module="diffprivlib",
    distribution="diffprivlib",
    install="pip install 'dpaudit[diffprivlib]'",
    versions=("0.6.5", "0.7"),
    routing=_routing,
)
