"""Which libraries are routed, from which entrance, and what is said where one is not."""

import functools
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit import Claim, PureDP
from dpaudit.app.main import main
from dpaudit.auditors.libraries.adapter import replaced
from dpaudit.auditors.libraries.routed import COMPILED, LIBRARIES, Routed, adapter_of
from dpaudit.errors import InvalidParameter, MissingExtra, UsageError

MODULE = """
import numpy as np
from diffprivlib.mechanisms import Laplace
from dpaudit import Claim, Pair, PureDP

def total(values):
    return Laplace(epsilon=1.0, sensitivity=1.0).randomise(float(values.sum()))

def halved(values):
    return Laplace(epsilon=1.0, sensitivity=0.5).randomise(float(values.sum()))

total.claim = halved.claim = Claim(PureDP(epsilon=1.0))

def two(values, curator):
    return 0.0

pair = Pair(np.array([0.0, 1.0]), np.array([0.0, 0.0]))
"""


@pytest.fixture
def target(tmp_path: Path) -> str:
    (tmp_path / "theirs.py").write_text(MODULE, encoding="utf-8")
    return str(tmp_path / "theirs.py")


def audit(target: str, name: str, *options: str) -> Any:
    arguments = [f"{target}:{name}", "--pair", f"{target}:pair", "--trials", "2", *options]
    return CliRunner().invoke(main, ["audit", *arguments])


@pytest.mark.nightly
@pytest.mark.filterwarnings("default")  # other libraries' own
@pytest.mark.usefixtures("own_processes")
def test_the_command_routes_where_the_target_runs(target: str) -> None:
    innocent = audit(target, "total", "--library", "diffprivlib")
    assert innocent.exit_code == 0, innocent.output
    assert "epsilon >= 1 at delta 0" in innocent.output
    assert "the samplers of diffprivlib 0.6" in " ".join(innocent.output.split())
    faulty = audit(target, "halved", "--library", "diffprivlib")
    assert faulty.exit_code == 1, faulty.output
    assert "sensitivity in 'float(values.sum()) in halved'" in faulty.output
    assert "theirs.py:10" in faulty.output


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("total", ["--library", "opendp"], "Rust"),
        ("total", ["--library", "diffprivlib", "--plain"], "--library of a plain target"),
        ("two", ["--library", "diffprivlib"], "cannot be called with the data alone"),
        ("total", ["--library", "difprivlib"], "diffprivlib"),
    ],
)
@pytest.mark.filterwarnings("default")  # other libraries' own
def test_what_cannot_be_is_refused(target: str, name: str, options: list[str], words: str) -> None:
    result = audit(target, name, *options)
    assert result.exit_code == 2, result.output
    assert words in result.output
    assert "fault in dpaudit" not in result.output


def test_a_built_in_algorithm_is_of_no_library() -> None:
    result = CliRunner().invoke(main, ["audit", "dp-apvi", "--library", "diffprivlib"])
    assert result.exit_code == 2
    assert "built-in algorithms release through a curator" in result.output


@pytest.mark.parametrize("library", COMPILED)
def test_compiled_noise_is_named_with_what_to_do(library: str) -> None:
    with pytest.raises(UsageError, match=r"draws its noise in [\s\S]*audit by sampling"):
        adapter_of(library)


def test_a_wrong_name_is_told_the_right_one() -> None:
    with pytest.raises(UsageError, match=r"did you mean 'diffprivlib'\?"):
        adapter_of("difprivlib")


@pytest.mark.parametrize("given", [{"function": 3}, {"library": 3}, {"claim": "epsilon 1"}])
def test_arguments_of_another_type(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        Routed(**{"function": len, "library": "diffprivlib", **given})


@pytest.mark.parametrize("library", LIBRARIES)
def test_each_is_late_and_known_by_its_versions(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = LIBRARIES[library]
    monkeypatch.setattr("importlib.import_module", lambda _: None)
    least, below = adapter.versions
    for version, known in ((least, True), (f"{least}rc1", True), ("0.0.1", False), (below, False)):
        monkeypatch.setattr(metadata, "version", lambda _, version=version: version)
        if known:
            assert adapter.installed() == version
        else:
            with pytest.raises(UsageError, match=r"known are versions from"):
                adapter.installed()


@pytest.mark.parametrize("library", LIBRARIES)
def test_one_that_is_not_installed_is_named_with_its_extra(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = LIBRARIES[library]
    monkeypatch.setitem(__import__("sys").modules, adapter.module, None)
    with pytest.raises(MissingExtra, match=r"pip install"):
        adapter.installed()


@pytest.mark.filterwarnings("default")  # other libraries' own
def test_a_partial_function_keeps_its_claim_where_one_is_given() -> None:
    claim = Claim(PureDP(epsilon=2.0))
    routed = Routed(functools.partial(pow, exp=2), "diffprivlib", claim)
    assert (routed.claim, routed.name) == (claim, "partial")


class Owner:
    value = 1


def test_what_is_replaced_comes_back_after_an_error() -> None:
    def places() -> Any:
        yield Owner, "value", 2
        raise OSError("between two patches")

    with pytest.raises(OSError, match="between"), replaced(places()):
        pass
    assert Owner.value == 1
