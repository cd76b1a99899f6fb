"""Training with Opacus: the public names of `dpaudit.training.opacus`."""

from dpaudit.training.opacus import attach

__all__ = ["attach"]
