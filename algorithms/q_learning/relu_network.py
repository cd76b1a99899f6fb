"""A small ReLU network of one number, in numpy: forward, backward, and a bound on its slope."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dpaudit.algorithms.public_parameters import Array


@dataclass(frozen=True, eq=False)
class ReLUNetwork:
    """Layers of weights and biases, ReLU between them: a function from numbers to vectors."""

    weights: tuple[Array, ...]  # [inputs, outputs] each; the first has one input
    biases: tuple[Array, ...]  # [outputs] each

    @classmethod
    def random(cls, hidden: tuple[int, ...], n_outputs: int, generator: np.random.Generator) -> ReLUNetwork:
        """Uniform within the root of one over the number of inputs, weights and biases alike."""
        weights, biases = [], []
        for inputs, outputs in pairwise((1, *hidden, n_outputs)):
            limit = inputs**-0.5
            weights.append(generator.uniform(-limit, limit, (inputs, outputs)))
            biases.append(generator.uniform(-limit, limit, outputs))
        return cls(tuple(weights), tuple(biases))

    def __call__(self, points: Array) -> Array:
        """Values at points [n]: [n, outputs]."""
        return self._activations(points)[-1]

    def with_parameters(self, parameters: Array) -> ReLUNetwork:
        """A network of the same sizes with other `parameters`."""
        weights, biases, first = [], [], 0
        for old in self.weights:
            inputs, outputs = old.shape
            middle, last = first + inputs * outputs, first + (inputs + 1) * outputs
            weights.append(parameters[first:middle].reshape(inputs, outputs))
            biases.append(parameters[middle:last])
            first = last
        return ReLUNetwork(tuple(weights), tuple(biases))

    def gradient(self, points: Array, errors: Array) -> Array:
        """The gradient by `parameters` of the mean over points of half the squared error: [parameters].

        Errors [n, outputs] are value less target; zero where there is no target.
        """
        activations = self._activations(points)
        back = errors / len(points)
        parts: list[Array] = []
        for layer in range(len(self.weights) - 1, -1, -1):
            parts += [back.sum(axis=0), (activations[layer].T @ back).ravel()]
            if layer:
                back = (back @ self.weights[layer].T) * (activations[layer] > 0.0)
        return np.concatenate(parts[::-1])

    @property
    def lipschitz(self) -> float:
        """A bound on how steep the values are anywhere: the product of the largest singular values."""
        return float(np.prod([np.linalg.norm(weights, 2) for weights in self.weights]))

    @property
    def parameters(self) -> Array:
        """Everything in one vector: each layer's weights, row by row, and then its biases."""
        layers = zip(self.weights, self.biases, strict=True)
        return np.concatenate([part.ravel() for layer in layers for part in layer])

    def _activations(self, points: Array) -> list[Array]:
        """The input of each layer, [n, inputs], and at last the values."""
        found = [points[:, None]]
        last = len(self.weights) - 1
        for layer, (weights, biases) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = found[-1] @ weights + biases
            found.append(values if layer == last else np.maximum(values, 0.0))
        return found
