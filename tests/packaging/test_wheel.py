"""What a user gets: the wheel alone, in an environment that holds nothing else, used from another folder."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
MAPPING: dict[str, str] = SETUPTOOLS["package-dir"]

#: What `python -m build` asks of the build system, without an interpreter for each question.
BUILD = """import os, sys, tarfile
from setuptools import build_meta
made, sources = sys.argv[1:]
os.makedirs(made)
os.chdir(sources)
archive = os.path.join(made, build_meta.build_sdist(made))
with tarfile.open(archive) as file:
    file.extractall(os.path.join(made, "unpacked"))
os.chdir(os.path.join(made, "unpacked", os.path.basename(archive).removesuffix(".tar.gz")))
build_meta.build_wheel(made)
"""


def run(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command outside of the source tree, without what would let Python see into it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def copy_of_the_sources(folder: Path) -> Path:
    """The files that packaging reads, links as links: what earlier builds left behind must not get in."""
    folder.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, folder / name)
    for name in ("dpaudit", *MAPPING.values()):
        shutil.copytree(
            ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    return folder


def expected_files() -> set[str]:
    """Every module and data file, under the name that the wheel must give it."""
    folders = {"dpaudit": "dpaudit"} | {name.replace(".", "/"): folder for name, folder in MAPPING.items()}
    return {
        f"{installed}/{path.relative_to(ROOT / folder).as_posix()}"
        for installed, folder in folders.items()
        for path in (ROOT / folder).rglob("*")  # does not follow links
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_wheel_alone_does_the_main_job(tmp_path: Path, nightly: bool) -> None:
    """The libraries are this environment's; that the declared ones suffice `.ci/run` shows in a fresh one."""
    sources = copy_of_the_sources(tmp_path / "sources")
    # The source distribution first, the wheel from it: a file that either of them drops is missed here.
    command: tuple[str | Path, ...]
    if nightly:
        command = (sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path / "dist", sources)
    else:
        command = (sys.executable, "-c", BUILD, tmp_path / "dist", sources)
    built = run(*command, folder=tmp_path)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")

    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    assert len(names) == len(set(names)), "a file is in the wheel twice"
    assert set(names) == expected_files()

    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    install = (
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
        "--target",
        site,
    )
    installed = run(*install, wheel, folder=tmp_path)
    assert installed.returncode == 0, installed.stderr
    # -S: an editable installation in this environment is not seen; its other libraries are.
    path = [site, *map(Path, (sysconfig.get_path(name) for name in ("purelib", "platlib")))]
    start = f"import sys; sys.path += {[str(folder) for folder in dict.fromkeys(path)]}; "
    for folder in MAPPING.values():
        imported = run(sys.executable, "-IS", "-c", f"{start}import {folder}", folder=elsewhere)
        assert imported.returncode == 1, imported.stderr
        assert "ModuleNotFoundError" in imported.stderr

    main = f"{start}from dpaudit.app.main import main; main()"
    certified = run(sys.executable, "-IS", "-c", main, "certify", "dp-apvi", "-o", "out", folder=elsewhere)
    assert certified.returncode == 0, certified.stdout + certified.stderr
    lines = (elsewhere / "out" / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["record"] for line in (lines[0], lines[-1])] == ["header", "footer"]
    assert json.loads((elsewhere / "out" / "certificate.json").read_text(encoding="utf-8"))
