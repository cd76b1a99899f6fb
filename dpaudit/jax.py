"""Training with JAX: the public names of `dpaudit.training.jax`."""

from dpaudit.training.jax import PrivateGradient

__all__ = ["PrivateGradient"]
