"""A registry finds our own names without any metadata, and names every entry of a package that is broken."""

from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from dpaudit import registry
from dpaudit.accountants.bridges.imported_ledger import IMPORTERS
from dpaudit.algorithms.catalogue import CATALOGUE
from dpaudit.app.main import COMMANDS
from dpaudit.auditors.libraries.routed import LIBRARIES
from dpaudit.errors import BrokenPackage
from dpaudit.mechanisms import KINDS
from dpaudit.pipeline.audit import METHODS
from dpaudit.registry import FROM_WINGS, Registry, from_wing

OWN = {"here": 1, "elsewhere": "math:floor"}
#: What a package adds, and a part of the reason why it cannot be used.
BROKEN = [
    ({"x": "no_such_module:thing"}, "ModuleNotFoundError"),
    ({"x": "math:no_such_name"}, "AttributeError"),
    ({"x": "math:pi"}, "it is no collections.abc.Callable"),
    ({"here": "math:ceil"}, "is dpaudit's own"),
]


def numbers(monkeypatch: pytest.MonkeyPatch, *added: tuple[str, str]) -> Registry[Any]:
    points = [EntryPoint(name, value, "dpaudit.numbers") for name, value in added]
    monkeypatch.setattr(registry, "_entry_points", lambda group: points if group == "dpaudit.numbers" else [])
    return Registry("numbers", Callable, OWN)


def test_our_own_names_need_no_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    found = numbers(monkeypatch)
    monkeypatch.setattr(registry, "_entry_points", lambda _: pytest.fail("metadata was read"))
    assert found["here"] == 1
    assert found["elsewhere"](1.5) == 1
    assert "here" in found
    assert found.package("here") is None


def test_added_names_follow_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    found = numbers(monkeypatch, ("up", "math:ceil"))
    assert list(found) == ["here", "elsewhere", "up"]
    assert found["up"](1.5) == 2
    assert found.package("up") == "an unnamed package"
    assert dict(found.added()) == {"up": found["up"]}
    with pytest.raises(KeyError):
        found["down"]


@pytest.mark.parametrize(("added", "reason"), BROKEN)
def test_a_broken_entry_is_named_and_the_others_work(
    added: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = numbers(monkeypatch, *added.items(), ("up", "math:ceil"))
    (name,) = added
    listed = dict(found.added())
    assert isinstance(listed[name], BrokenPackage)
    assert reason in listed[name].what
    assert listed["up"](1.5) == 2
    assert found["here"] == 1
    if name not in OWN:
        with pytest.raises(BrokenPackage, match=reason):
            found[name]


@pytest.mark.parametrize("name", FROM_WINGS)
def test_what_the_core_takes_from_a_wing_is_there(name: str) -> None:
    assert callable(from_wing(name))


@pytest.mark.parametrize("registry", [CATALOGUE, COMMANDS, IMPORTERS, KINDS, LIBRARIES, METHODS])
def test_each_of_our_own_entries_is_there(registry: Registry[Any]) -> None:
    for name in registry.own:
        assert registry[name] is not None
        assert registry.package(name) is None


def test_two_packages_with_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    found = numbers(monkeypatch, ("up", "math:ceil"), ("up", "math:floor"))
    with pytest.raises(BrokenPackage, match="is added by an unnamed package and an unnamed package"):
        found["up"]
