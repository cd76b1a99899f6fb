"""The links that editors follow and the mapping that wheels are built from show the same tree."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
MAPPING: dict[str, str] = SETUPTOOLS["package-dir"]


def packages_below(folder: Path, name: str) -> set[str]:
    """The import names of `folder` and all folders below it with an __init__.py; links are left out."""
    found = {name}
    for below in folder.iterdir():
        if below.is_dir() and not below.is_symlink() and (below / "__init__.py").exists():
            found |= packages_below(below, f"{name}.{below.name}")
    return found


def test_every_mapped_folder_has_its_link_and_every_link_its_mapping() -> None:
    links = {
        f"dpaudit.{path.name}": path.resolve().relative_to(ROOT).as_posix()
        for path in (ROOT / "dpaudit").iterdir()
        if path.is_symlink()
    }
    assert links == MAPPING


def test_links_are_relative() -> None:
    for package, folder in MAPPING.items():
        link = ROOT.joinpath(*package.split("."))
        assert link.readlink() == Path("..") / folder, f"{link} would point nowhere in another clone"


def test_every_package_is_listed() -> None:
    present = packages_below(ROOT / "dpaudit", "dpaudit")
    for package, folder in MAPPING.items():
        present |= packages_below(ROOT / folder, package)
    assert sorted(SETUPTOOLS["packages"]) == sorted(present), "pyproject.toml, [tool.setuptools] packages"


def test_no_module_lies_in_a_folder_that_is_no_package() -> None:
    strays = [
        path.relative_to(ROOT).as_posix()
        for folder in ("dpaudit", *MAPPING.values())
        for path in (ROOT / folder).rglob("*.py")
        if not (path.parent / "__init__.py").exists()
    ]
    assert strays == [], "these would be missing from the wheel"


def test_every_data_file_is_listed() -> None:
    folders = {package: ROOT.joinpath(*package.split(".")) for package in SETUPTOOLS["packages"]}
    listed = {
        path.resolve()
        for package, patterns in SETUPTOOLS["package-data"].items()
        for pattern in patterns
        for path in folders[package].glob(pattern)
    }
    present = {
        path
        for folder in ("dpaudit", *MAPPING.values())
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc"}
    }
    assert listed == present, "pyproject.toml, [tool.setuptools.package-data]"
