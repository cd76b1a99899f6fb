"""The page on design shows the rooms of the package on the floors where they are."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.test_structure import PRODUCT, lengths

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "programs" / "make_structure.py"), run_name="structure")


def test_each_room_stands_on_its_floor(script: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    shown = {room: int(floor) for floor, room in re.findall(r"^ ?(\d+)  (\w+)", page, flags=re.MULTILINE)}
    measured = script["structure"](ROOT)
    assert shown == measured.floors, "print docs/design.md's outputs again"
    assert script["circles"](measured.files) == []


def test_the_tree_names_each_folder() -> None:
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    tree = page.partition("## The tree\n")[2].partition("## Layers")[0]
    files = lengths(ROOT, (*PRODUCT, "docs/programs"))
    folders = {path.parent.name for path in map(Path, files)}
    assert {"samples", "verbs", "programs"} <= folders
    assert {name for name in folders if not re.search(rf"\b{name}\b", tree)} == set()


def test_circles_and_floors_are_found(script: dict[str, Any]) -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}
    rooms = {name: frozenset(found) for name, found in imports.items()}
    assert script["circles"](rooms) == [frozenset("bc")]
    floors = script["Structure"](rooms=rooms, files=rooms, folders=1, lines=0).floors
    assert floors == {"a": 3, "b": 2, "c": 2, "d": 1}
