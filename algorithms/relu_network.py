"""A small ReLU network of one number, in numpy: forward, backward, and a bound on its slope."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ReLUNetwork:
    """Layers of weights and biases, ReLU between them: a function from numbers to vectors.

    Attributes:
        weights: [inputs, outputs] each; the first has one input.
        biases: [outputs] each.
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]

    @classmethod
    def random(cls, hidden: tuple[int, ...], n_outputs: int, generator: np.random.Generator) -> ReLUNetwork:
        """Uniform within the root of one over the number of inputs, weights and biases alike."""
        sizes = (1, *hidden, n_outputs)
        layers = []
        for inputs, outputs in pairwise(sizes):
            limit = inputs**-0.5
            layers.append(
                (generator.uniform(-limit, limit, (inputs, outputs)), generator.uniform(-limit, limit, outputs))
            )
        return cls(tuple(w for w, _ in layers), tuple(b for _, b in layers))

    def __call__(self, points: Array) -> Array:
        """Values at points [n]: [n, outputs]."""
        return self._activations(points)[-1]

    def descent(self, points: Array, errors: Array, step_size: float) -> ReLUNetwork:
        """One step down the gradient of the mean over points of half the squared error.

        Args:
            points: [n].
            errors: [n, outputs], value less target; zero where there is no target.
            step_size: alpha.
        """
        weights, biases = self.gradient(points, errors / len(points))
        return ReLUNetwork(
            tuple(w - step_size * g for w, g in zip(self.weights, weights, strict=True)),
            tuple(b - step_size * g for b, g in zip(self.biases, biases, strict=True)),
        )

    def gradient(self, points: Array, sensitivities: Array) -> tuple[list[Array], list[Array]]:
        """The gradient, by weights and by biases, of sum(sensitivities * values); sensitivities [n, outputs]."""
        activations = self._activations(points)
        back = sensitivities
        weights: list[Array] = []
        biases: list[Array] = []
        for layer in range(len(self.weights) - 1, -1, -1):
            weights.insert(0, activations[layer].T @ back)
            biases.insert(0, back.sum(axis=0))
            if layer:
                back = (back @ self.weights[layer].T) * (activations[layer] > 0.0)
        return weights, biases

    def moved(self, weights: list[Array], biases: list[Array]) -> ReLUNetwork:
        """With amounts added to weights and biases."""
        return ReLUNetwork(
            tuple(w + d for w, d in zip(self.weights, weights, strict=True)),
            tuple(b + d for b, d in zip(self.biases, biases, strict=True)),
        )

    @property
    def lipschitz(self) -> float:
        """A bound on how steep the vector of values is anywhere: the product of the largest singular values."""
        return float(np.prod([np.linalg.norm(weights, 2) for weights in self.weights]))

    @property
    def parameters(self) -> Array:
        """Everything in one vector."""
        return np.concatenate([part.ravel() for pair in zip(self.weights, self.biases, strict=True) for part in pair])

    def _activations(self, points: Array) -> list[Array]:
        """The input of each layer, [n, inputs], and at last the values."""
        found = [points[:, None]]
        last = len(self.weights) - 1
        for layer, (weights, biases) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = found[-1] @ weights + biases
            found.append(values if layer == last else np.maximum(values, 0.0))
        return found
