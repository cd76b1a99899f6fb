"""`dpaudit init`: a configuration and a workflow to begin with; nothing that is there is touched."""

import tomllib
from importlib import resources
from pathlib import Path
from typing import Final

import click

from dpaudit.app.gate.configuration import read_configuration
from dpaudit.app.options.option import PATH
from dpaudit.app.text.output import line, print_text, unwrapped
from dpaudit.errors import UsageError
from dpaudit.ledger.files import replace_file, require_folder

WORKFLOW: Final = Path(".github", "workflows", "dpaudit.yml")

_FILES: Final = resources.files(__package__)
CONFIGURATION: Final = _FILES.joinpath("init_pyproject.toml").read_text(encoding="utf-8")
ACTIONS: Final = _FILES.joinpath("init_workflow.yml").read_text(encoding="utf-8")


@click.command(epilog="Example: dpaudit init && dpaudit gate")
@click.argument("folder", type=PATH, default=Path())
def init(folder: Path) -> None:
    """Write [tool.dpaudit] into FOLDER's pyproject.toml, and a GitHub workflow.

    What is there already stays as it is, to the byte.
    """
    require_folder(folder)
    project, workflow = folder / "pyproject.toml", folder / WORKFLOW
    there = workflow.is_symlink() or workflow.exists()
    files = {project: _with_configuration(project), workflow: None if there else ACTIONS.encode()}
    workflow.parent.mkdir(parents=True, exist_ok=True)
    for path, new in files.items():
        if new is not None:
            replace_file(path, new)
    lines = [f"written: {path}" for path, new in files.items() if new is not None]
    lines += [f"kept as it was: {path}" for path, new in files.items() if new is None]
    print_text(unwrapped("\n".join(lines)), line("next: dpaudit gate"))


def _with_configuration(project: Path) -> bytes | None:
    """A pyproject.toml's content with a configuration at its end; None where it has one."""
    if not project.exists():
        return CONFIGURATION.encode()
    found = read_configuration(project)
    if found.gate is not None:
        return None
    content = project.read_bytes()
    gap = b"\n" if content.endswith(b"\n") or not content else b"\n\n"
    new = content + gap + CONFIGURATION.encode()
    try:
        tomllib.loads(new.decode("utf-8-sig"))
    except tomllib.TOMLDecodeError:
        what = "[tool.dpaudit] cannot be added at its end"
        why = "`tool` is defined there in a way that lets no table be added"
        remedy = "write it as [tool.NAME] tables, and run `dpaudit init` again"
        raise UsageError(what, where=str(project), why=why, remedy=remedy) from None
    return new
