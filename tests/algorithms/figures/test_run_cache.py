"""Runs are kept whatever equals what: before a run, its numbers are NaN, which equals nothing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dpaudit.algorithms.figures.run_cache import RunCache
from dpaudit.errors import UsageError


@dataclass(frozen=True)
class Curve:
    name: str
    budget: float


@dataclass(frozen=True)
class Point:
    curve: Curve
    seed: int
    place: int
    found: float = math.nan


def wanted(seeds: Sequence[int]) -> list[Point]:
    # Every point has a NaN of its own.
    curves = [Curve("plain", math.inf), Curve("private, noisy", 0.1)]
    return [Point(curve, seed, k, float("nan")) for curve in curves for k in (1, 2, 3) for seed in seeds]


@pytest.fixture
def ran() -> list[int]:
    return []


@pytest.fixture
def cache(ran: list[int]) -> RunCache[Point]:
    def run(points: Sequence[Point]) -> list[Point]:
        ran.append(len(points))
        budget = min(points[0].curve.budget, 7.0)
        return [replace(p, found=budget * p.seed / 3.0 + p.place) for p in points]

    return RunCache(frozenset({"found"}), run, frozenset({"place"}))


def test_points_of_one_run_are_computed_together_and_each_once(
    cache: RunCache[Point], ran: list[int]
) -> None:
    told: list[int] = []
    points = cache.finished(wanted((0, 1)) + wanted((0,)), progress=told.append)
    assert ran == [3, 3, 3, 3]
    assert told == [0, 1, 2, 3, 4]
    assert [replace(p, found=0.0) for p in points] == [replace(p, found=0.0) for p in wanted((0, 1))]


def test_what_a_file_holds_is_not_computed_again(
    cache: RunCache[Point], ran: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "runs.csv"
    first = cache.finished(wanted((0,)), path=path)
    assert path.read_text().splitlines()[0] == "name,budget,seed,place,found"
    assert cache.kept(wanted((0, 1)), path) == 2
    both = cache.finished(wanted((0, 1)), path=path)
    assert ran == [3, 3, 3, 3]
    assert set(first) < set(both)
    assert both == cache.finished(wanted((0, 1)))
    # Cut short in its last line, a run is not kept; only what is missing of it is computed.
    path.write_text(path.read_text()[:-2])
    assert cache.kept(wanted((0, 1)), path) == 3
    ran.clear()
    assert cache.finished(wanted((0, 1)), path=path) == both
    assert ran == [1]


HEADER = "name,budget,seed,place,found\n"


@pytest.mark.parametrize("text", ["a,b\n1,2\n", HEADER + "plain,inf,0,1,x\n", HEADER + "plain\n"])
def test_another_file_is_refused(cache: RunCache[Point], tmp_path: Path, text: str) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(text)
    with pytest.raises(UsageError):
        cache.finished(wanted((0,)), path=path)
    assert path.read_text() == text
