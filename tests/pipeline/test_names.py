"""The names at the top of the package: lazily loaded, typed, and the same everywhere."""

import ast
import subprocess
import sys
from pathlib import Path

import dpaudit

SLOW = "numpy", "scipy", "pydantic", "click"


def imported_for_type_checkers() -> dict[str, str]:
    """Name -> module, as the block under TYPE_CHECKING has them; each is exported under its own name."""
    tree = ast.parse(Path(dpaudit.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    names = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname == alias.name
            names[alias.name] = str(node.module).removeprefix("dpaudit.")
    return names


def test_type_checkers_and_python_see_the_same_names() -> None:
    assert imported_for_type_checkers() == dpaudit._MODULES
    assert sorted(dpaudit.__all__) == sorted(dpaudit._MODULES)


def test_every_name_is_there() -> None:
    for name in dpaudit.__all__:
        assert getattr(dpaudit, name) is not None
    wanted = {"certify", "audit", "account", "replay", "verify", "calibrate", "convert", "one_run", "run"}
    assert wanted <= set(dpaudit.__all__)


def test_importing_the_package_loads_no_library() -> None:
    program = f"import sys, dpaudit; assert not set({SLOW}) & set(sys.modules), sorted(sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
