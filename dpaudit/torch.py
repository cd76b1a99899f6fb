"""Training with PyTorch: the public names of `dpaudit.training.torch`."""

from dpaudit.training.torch import PrivateGradient, public_randomness

__all__ = ["PrivateGradient", "public_randomness"]
