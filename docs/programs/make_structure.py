"""Measure the package's structure and draw it: `python docs/programs/make_structure.py [--tree FOLDER] [PICTURE.svg]`.

A room is what lies directly in the package: a folder with all that is in it, or a file. An arrow leads from one
room to another that it imports from. A room's floor is one above the highest floor that it imports from; rooms
of a circle share theirs. The root's own names, which are loaded lazily, are left out.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import grimp

HERE = Path(__file__).resolve().parents[2]
PACKAGE = "dpaudit"

Imports = Mapping[str, frozenset[str]]


def circles(imports: Imports) -> list[frozenset[str]]:
    """The largest sets of two or more of which each member imports, perhaps indirectly, each other."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            new = imports[waiting.pop()] - found
            found |= new
            waiting.extend(new)
        return found

    reach = {name: reached(name) for name in imports}
    groups = {
        frozenset({name, *(other for other in reach[name] if name in reach[other])}) for name in imports
    }
    return [group for group in groups if len(group) > 1]


@dataclass(frozen=True)
class Structure:
    """What imports what, by rooms and by files."""

    rooms: Imports
    files: Imports
    folders: int
    lines: int

    @functools.cached_property
    def floors(self) -> dict[str, int]:
        """The floor of each room, counted from 1."""
        group = {room: frozenset({room}) for room in self.rooms}
        group |= {room: circle for circle in circles(self.rooms) for room in circle}

        @functools.cache
        def floor(members: frozenset[str]) -> int:
            below = {group[room] for member in members for room in self.rooms[member]} - {members}
            return 1 + max(map(floor, below), default=0)

        return {room: floor(group[room]) for room in self.rooms}

    def __str__(self) -> str:
        """One line of figures."""
        arrows = sum(map(len, self.rooms.values()))
        return (
            f"{self.lines:,} lines in {len(self.files)} files and {self.folders} folders; {len(self.rooms)} rooms "
            f"on {max(self.floors.values())} floors, {arrows} arrows; circles of files: {len(circles(self.files))}"
        )


def structure(tree: Path) -> Structure:
    """What the imports of the package in `tree` say."""
    sys.path.insert(0, str(tree))
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    inside = graph.modules - {PACKAGE, f"{PACKAGE}.__main__"}  # which starts the app, and is no room
    files = {PACKAGE: frozenset[str]()}
    files |= {one: frozenset(graph.find_modules_directly_imported_by(one)) & inside for one in inside}

    def room(module: str) -> str:
        return module.split(".")[1]

    rooms: dict[str, set[str]] = {room(one): set() for one in inside}
    for one in inside:
        rooms[room(one)] |= {room(other) for other in files[one]} - {room(one)}
    folders = sum(bool(graph.find_children(module)) for module in graph.modules)
    sources = (
        Path(folder, name) for folder, _, names in os.walk(tree / PACKAGE, followlinks=True) for name in names
    )
    lines = sum(len(source.read_bytes().splitlines()) for source in sources if source.suffix == ".py")
    return Structure({name: frozenset(found) for name, found in rooms.items()}, files, folders, lines)


def text(found: Structure) -> str:
    """The rooms from the highest floor down, each with what it imports from."""
    by_floor = sorted(found.rooms, key=lambda room: (-found.floors[room], room))
    width = max(map(len, by_floor))
    rows = [
        f"{found.floors[room]:2}  {room:{width}}  {' '.join(sorted(found.rooms[room], key=by_floor.index))}"
        for room in by_floor
    ]
    return "\n".join(row.rstrip() for row in rows)


ROW, BOX, WIDTH, MARGIN = 70, 26, 1000, 16


def picture(found: Structure) -> str:
    """The same as SVG: a row a floor, a box a room, a line from each room to each that it imports from."""
    highest = max(found.floors.values())
    middle: dict[str, tuple[float, float]] = {}
    boxes: list[str] = []
    for floor in range(1, highest + 1):
        names = sorted(room for room in found.rooms if found.floors[room] == floor)
        y = MARGIN + (highest - floor) * ROW
        for place, room in enumerate(names):
            x = WIDTH * (place + 1) / (len(names) + 1) + (floor % 3 - 1) * WIDTH / (6 * len(names) + 12)
            wide = 7.5 * len(room) + 16
            middle[room] = x, y + BOX / 2
            boxes.append(
                f'<rect x="{x - wide / 2:.1f}" y="{y}" width="{wide:.1f}" height="{BOX}" rx="4" fill="#ffffff" '
                f'stroke="#0072b2"/><text x="{x:.1f}" y="{y + 18}" text-anchor="middle">{room}</text>'
            )
    lines = [
        f'<line x1="{middle[room][0]:.1f}" y1="{middle[room][1]:.1f}" '
        f'x2="{middle[other][0]:.1f}" y2="{middle[other][1]:.1f}"/>'
        for room in sorted(found.rooms)
        for other in sorted(found.rooms[room])
    ]
    height = 2 * MARGIN + (highest - 1) * ROW + BOX
    drawn = "\n".join(['<g stroke="#555555" stroke-opacity="0.45">', *lines, "</g>", *boxes])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="13">\n<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n{drawn}\n</svg>\n'
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tree", type=Path, default=HERE)
    parser.add_argument("picture", type=Path, nargs="?")
    options = parser.parse_args()
    measured = structure(options.tree)
    if options.picture:
        options.picture.write_text(picture(measured), encoding="utf-8")
    sys.stdout.write(f"{text(measured)}\n{measured}\n")
