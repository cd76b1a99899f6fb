"""What every mechanism of the union states about itself fits the rest of dpaudit."""

from typing import Any, get_args, get_type_hints

import pytest

from dpaudit import Curator
from dpaudit.certificate.conditions import Code
from dpaudit.mechanisms import AnyMechanism, ValueMechanism, dominating

KINDS: list[Any] = list(get_args(AnyMechanism))


@pytest.mark.parametrize("mechanism", KINDS, ids=lambda kind: kind.__name__)
def test_its_facts_name_what_exists(mechanism: Any) -> None:
    if mechanism.released_by is None:  # then its page says why
        assert "No curator runs it" in mechanism.__doc__
    else:
        assert callable(getattr(Curator, mechanism.released_by))
    assert (mechanism.released_by == "release") == issubclass(mechanism, ValueMechanism)
    assert mechanism.condition is None or Code(mechanism.condition)
    assert mechanism.noise_field is None or mechanism.noise_field in mechanism.model_fields


def test_every_pair_dominates_some_mechanism() -> None:
    stated = {name for mechanism in KINDS for name in get_types(mechanism)}
    assert stated == {pair.__name__ for pair in get_args(dominating.Pair) if pair is not dominating.Added}


def get_types(mechanism: Any) -> list[str]:
    """The pairs that `dominating_pair` is annotated to return."""
    stated = get_type_hints(mechanism.dominating_pair)["return"]
    return [each.__name__ for each in get_args(stated) or (stated,)]
