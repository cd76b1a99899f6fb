"""PipelineDP: the numbers that its additive mechanisms release are the curator's answers.

`add_noise` of `LaplaceMechanism` and `GaussianMechanism`, and the functions that apply either, pass
their scale and sensitivity to the curator. The exponential mechanism asks the curator for a selection.
Pipelines are local ones. Groups come in the order of their keys, so that a release stands for the same
partition on both sides; and where a privacy unit has more contributions than are kept, which are kept follows
from a public seed and that unit's own contributions.

Refused is what C++ draws inside: the selection of private partitions, and quantiles.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from dpaudit.auditors.libraries.adapter import Adapter, Asked, folder_of, refused, replaced
from dpaudit.claims.sensitivity import L1, L2
from dpaudit.curator.curator import Curator
from dpaudit.mechanisms import Exponential, Gaussian, Laplace

_SELECTED: Final = (
    "PipelineDP's selection of private partitions",
    "it is drawn in C++, and which partitions there are looks like a leak; give public_partitions",
)
_QUANTILES: Final = ("PipelineDP's quantiles", "they are drawn in C++")


@contextmanager
def _routing(curator: Curator) -> Iterator[None]:
    from pipeline_dp import dp_computations, partition_selection, pipeline_backend, sampling_utils

    asked = Asked((folder_of("pipeline_dp"),))
    seed = int(curator.public("pipelinedp").integers(2**63))

    def laplace(value: Any, scale: float, sensitivity: float) -> Any:
        noise = Laplace(scale=scale, sensitivity=L1(sensitivity))
        return _like(value, curator.release(np.asarray(value, dtype=np.float64), noise, label=_KIND))

    def gaussian(value: Any, sigma: float, sensitivity: float) -> Any:
        noise = Gaussian(sigma=sigma, sensitivity=L2(sensitivity))
        return _like(value, curator.release(np.asarray(value, dtype=np.float64), noise, label=_KIND))

    def add_noise(self: Any, value: Any) -> Any:
        if isinstance(self, dp_computations.LaplaceMechanism):
            return laplace(value, self.noise_parameter, self.sensitivity)
        if isinstance(self, dp_computations.GaussianMechanism):
            return gaussian(value, self.std, self.sensitivity)
        raise refused(
            f"{type(self).__qualname__}, a mechanism that is not PipelineDP's", "it is not known here"
        )

    def apply_laplace(value: float, eps: float, l1_sensitivity: float) -> Any:
        made = dp_computations.LaplaceMechanism.create_from_epsilon(eps, l1_sensitivity)
        return made.add_noise(value)

    def apply_gaussian(value: float, eps: float, delta: float, l2_sensitivity: float) -> Any:
        made = dp_computations.GaussianMechanism.create_from_epsilon_delta(eps, delta, l2_sensitivity)
        return made.add_noise(value)

    def choose(self: Any, eps: float, inputs_to_score_col: list[Any]) -> Any:
        scoring = self._scoring_function  # it has no public name
        scores = [scoring.score(each) for each in inputs_to_score_col]
        about: dict[str, Any] = {"label": "a choice", "monotone": bool(scoring.is_monotonic)}
        noise = Exponential(epsilon=eps)
        return inputs_to_score_col[
            curator.select(scores, noise, score_sensitivity=float(scoring.global_sensitivity), **about)
        ]

    def kept(values: Sequence[Any], size: int) -> list[Any]:
        """So many of a unit's contributions, by a seed and themselves alone."""
        if len(values) <= size:
            return list(values)
        words = hashlib.sha256(f"{seed} {list(values)!r}".encode()).digest()
        own = np.random.default_rng(np.frombuffer(words, dtype=np.uint32).tolist())
        return [values[index] for index in own.choice(len(values), size, replace=False)]

    def sample_fixed_per_key(self: Any, col: Any, n: int, stage_name: str | None = None) -> Any:
        def samples() -> Iterator[tuple[Any, list[Any]]]:
            for key, values in self.group_by_key(col, stage_name):
                yield key, kept(values, n)

        return pipeline_backend.ReiterableLazyIterable(samples())

    def group_by_key(self: Any, col: Any, stage_name: str | None = None) -> Any:
        def groups() -> Iterator[tuple[Any, list[Any]]]:
            found = sorted(
                own(self, col, stage_name), key=lambda item: (type(item[0]).__name__, repr(item[0]))
            )
            yield from found

        return pipeline_backend.ReiterableLazyIterable(groups())

    own = pipeline_backend.LocalBackend.group_by_key
    places: list[tuple[Any, str, Any]] = [
        (dp_computations.AdditiveMechanism, "add_noise", add_noise),
        (dp_computations, "apply_laplace_mechanism", apply_laplace),
        (dp_computations, "apply_gaussian_mechanism", apply_gaussian),
        (dp_computations.ExponentialMechanism, "apply", choose),
        (dp_computations, "compute_dp_quantiles", _refusing(*_QUANTILES)),
        (pipeline_backend.LocalBackend, "sample_fixed_per_key", sample_fixed_per_key),
        (pipeline_backend.LocalBackend, "group_by_key", group_by_key),
        (sampling_utils, "choose_from_list_without_replacement", kept),
    ]
    names = "create_partition_selection_strategy", "create_weighted_gaussian_thresholding"
    places += [(partition_selection, name, _refusing(*_SELECTED)) for name in names]
    with asked.passed_over(), replaced(places):
        yield


_KIND: Final = "an aggregate of one partition"


def _like(value: Any, noisy: Any) -> Any:
    return noisy if isinstance(value, np.ndarray) else float(noisy)


def _refusing(*words: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise refused(*words)

    return refuse


ADAPTER = Adapter(
    module="pipeline_dp",
    distribution="pipeline-dp",
    install="pip install 'dpaudit[pipelinedp]'",
    versions=("0.3", "0.4"),
    routing=_routing,
)
