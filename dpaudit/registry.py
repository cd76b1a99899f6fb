"""Registries of mechanisms, algorithms, verbs, importers, libraries and auditors, open to other packages.

An installed package adds a name by an entry point in the group of its kind, without a change of this tree:

    [project.entry-points."dpaudit.mechanisms"]
    staircase = "staircase:Staircase"

Our own names come first and are found without reading the metadata of other packages, which takes longer than
a short command. `FROM_WINGS` lists the functions that the core uses from its wings, as text that is imported
on first use.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from dpaudit.errors import BrokenPackage

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Entry = TypeVar("Entry")


class Registry(Mapping[str, Entry], Generic[Entry]):
    """The entries of one kind by name: our own, and the entries of installed packages.

    Iterating, or looking up a name that is not ours, reads the metadata of all installed packages.

    Args:
        kind: the group of entry points is ``dpaudit.KIND``.
        type_: the type of every entry.
        own: our own entries, or the place of each as text: ``"module:attribute"``.
    """

    def __init__(self, kind: str, type_: Any, own: Mapping[str, Entry | str]) -> None:
        self.kind, self.type_, self.own = kind, type_, own

    def refusal(self, name: str, entry: object) -> str | None:
        """Return the reason that an added object cannot be the entry of a name, or None."""
        del name
        wanted = f"{self.type_.__module__}.{self.type_.__qualname__}"
        return None if isinstance(entry, self.type_) else f"it is no {wanted}"

    def __getitem__(self, name: str) -> Entry:
        """Return the entry of a name.

        Raises:
            KeyError: no entry has this name.
            BrokenPackage: a package adds the name, but its entry cannot be imported or has another type.
        """
        if name in self.own:
            entry = self.own[name]
            return cast("Entry", defined_at(entry) if isinstance(entry, str) else entry)
        return self._added_entry(name)

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self._added

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from (name for name in self._added if name not in self.own)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def package(self, name: str) -> str | None:
        """Return the package that adds a name, with its version, or None for our own name."""
        return None if name in self.own else _package(self._added[name][0])

    def added(self) -> Iterator[tuple[str, Entry | BrokenPackage]]:
        """Yield the names that packages add, each with its entry or the reason that it is unusable."""
        for name, found in self._added.items():
            if name in self.own:  # our own entry has precedence
                what = f"the name {name!r} in the group dpaudit.{self.kind} is dpaudit's own"
                yield name, _broken(found[0], what, "choose another name for the entry, which is ignored")
                continue
            try:
                yield name, self._added_entry(name)
            except BrokenPackage as error:
                yield name, error

    def working(self) -> dict[str, Entry]:
        """Return all usable entries, ours first."""
        added = {name: one for name, one in self.added() if not isinstance(one, BrokenPackage)}
        return {name: self[name] for name in self.own} | added

    @cached_property
    def _added(self) -> dict[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = {}
        for point in _entry_points(f"dpaudit.{self.kind}"):
            found.setdefault(point.name, []).append(point)
        return dict(sorted(found.items()))

    def _added_entry(self, name: str) -> Entry:
        point, *others = self._added[name]
        if others:
            packages = " and ".join(map(_package, (point, *others)))
            what = f"{name!r} in the group dpaudit.{self.kind} is added by {packages}"
            raise _broken(point, what, "uninstall one of them")
        try:
            entry = point.load()
        except Exception as error:  # an import may raise anything
            what = f"{name!r} cannot be imported from {point.value!r}: {type(error).__name__}: {error}"
            raise _broken(point, what) from error
        refusal = self.refusal(name, entry)
        if refusal is not None:
            raise _broken(point, f"{name!r} in the group dpaudit.{self.kind}: {refusal}")
        return cast("Entry", entry)


#: Functions of the wings that the core uses without importing them, so a wing can be left out.
FROM_WINGS: Final = {
    "table": "dpaudit.tables.table:made",
    "frame-pairs": "dpaudit.tables.sources:frame_pairs",
    "enclosure": "dpaudit.accountants.bridges.dp_accounting_check:enclose",
    "second-opinion": "dpaudit.accountants.bridges.dp_accounting_check:second_opinion",
}


def from_wing(name: str) -> Any:
    """Import one entry of `FROM_WINGS`."""
    return defined_at(FROM_WINGS[name])


def defined_at(place: str) -> Any:
    """Import ``"module:attribute"`` of this package on demand."""
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _entry_points(group: str) -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # slow to import, and needed only for other packages' names

    return entry_points(group=group)


def _package(point: EntryPoint) -> str:
    return "an unnamed package" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _broken(point: EntryPoint, what: str, remedy: str = "") -> BrokenPackage:
    package = _package(point)
    remedy = remedy or f"correct the package, or remove it: pip uninstall {package.partition(' ')[0]}"
    return BrokenPackage(what, where=f"package {package}", remedy=remedy)
