"""One mechanism of each kind, from its class: what tests of all kinds try."""

from collections.abc import Mapping
from typing import Any

from dpaudit.mechanisms import OWN_KINDS, AnyMechanism

EXAMPLES: dict[str, Mapping[str, Any]] = {kind: one.example for kind, one in OWN_KINDS.items()}


def example(kind: str) -> AnyMechanism:
    """The example of a kind, as a mechanism."""
    return OWN_KINDS[kind](**EXAMPLES[kind])
