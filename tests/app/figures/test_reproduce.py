"""The names of figures: by authors and year, by their earlier names, and mistyped."""

from pathlib import Path
from typing import Any

import click
import pytest

from dpaudit.app.figures.reproduce import FIGURES, Figures

ALIASES = {
    "000-figure-1a": "qiao-wang-2023-figure-1a",
    "000-figure-1b": "qiao-wang-2023-figure-1b",
    "001-figure-1": "balle-gomrokchi-precup-2016-figure-1",
    "002-figure-1": "wang-hegde-2019-figure-1",
    "002-figure-2": "wang-hegde-2019-figure-2",
    "003-figure-2": "liao-he-gu-2023-figure-2",
    "004-regret": "ngo-vietri-wu-2022-regret",
}
#: Figures that never had another name.
NEWER = ["qiao-wang-2024-regret", "he-zhou-2025-users"]


def test_alone_it_lists_the_figures(dpaudit: Any, answer: Any) -> None:
    result = dpaudit("reproduce")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in ALIASES.values())
    assert not any(alias in result.stdout for alias in ALIASES)
    assert list(answer("reproduce")[1]["figures"]) == list(FIGURES)
    assert set(FIGURES) == {*ALIASES.values(), *NEWER}


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_a_figure_has_its_name_and_its_alias(alias: str, name: str) -> None:
    group = Figures()
    with click.Context(group) as ctx:
        named = group.get_command(ctx, name)
        assert named is not None
        assert named.name == name
        assert group.get_command(ctx, alias) is named


def test_by_its_alias_a_figure_is_written_under_its_name(answer: Any, tmp_path: Path) -> None:
    small = ("--episodes", 5, "--runs", 1, "--workers", 1)
    code, found = answer("reproduce", "000-figure-1b", "-o", tmp_path, *small)
    assert code == 0
    assert found["figure"] == "qiao-wang-2023-figure-1b"
    assert (tmp_path / "qiao-wang-2023-figure-1b.csv").exists()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("qiao-wong-2023-figure-1a", "qiao-wang-2023-figure-1a"),
        ("wang-hedge-2019-figure-2", "wang-hegde-2019-figure-2"),
        ("004-regrets", "ngo-vietri-wu-2022-regret"),
    ],
)
def test_a_mistyped_name_gets_a_suggestion(refusal: Any, typed: str, meant: str) -> None:
    assert f"no figure '{typed}'; did you mean {meant}?" in refusal("reproduce", typed, "-o", "out")
