"""`dpaudit init`: a configuration and a workflow to begin with; nothing that is there is touched."""

import json
import sys
import tomllib
from importlib import resources
from math import inf
from pathlib import Path
from typing import Final

import click

from dpaudit.accountants.curves.implied import budget_for
from dpaudit.app.gate.configuration import read_configuration
from dpaudit.app.options.option import NUMBER, PATH, option
from dpaudit.app.origin import origin
from dpaudit.app.text.output import line, print_text, unwrapped
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.errors import UsageError
from dpaudit.ledger.files import replace_file, require_folder

WORKFLOW: Final = Path(".github", "workflows", "dpaudit.yml")

_FILES: Final = resources.files(__package__)
CONFIGURATION: Final = _FILES.joinpath("templates", "configuration.toml").read_text(encoding="utf-8")
ACTIONS: Final = _FILES.joinpath("templates", "workflow.yml").read_text(encoding="utf-8")


@click.command(epilog="Example: dpaudit init --max-epsilon 2 && dpaudit gate")
@click.argument("folder", type=PATH, default=Path())
@option(
    "--max-epsilon", float, "The largest epsilon that the gate lets pass, at delta 1e-6; else you are asked."
)
@option(
    "--install",
    str,
    "What the workflow gives to pip. Default: the repository and commit, or the version, of this dpaudit.",
    metavar="REQUIREMENT",
)
def init(folder: Path, max_epsilon: float | None, install: str | None) -> None:
    """Write [tool.dpaudit] into FOLDER's pyproject.toml, and a GitHub workflow.

    Existing content stays unchanged, to the byte.
    """
    require_folder(folder)
    project, workflow = folder / "pyproject.toml", folder / WORKFLOW
    there = workflow.is_symlink() or workflow.exists()
    files = {
        project: _with_configuration(project, max_epsilon),
        workflow: None if there else _workflow(install),
    }
    workflow.parent.mkdir(parents=True, exist_ok=True)
    for path, new in files.items():
        if new is not None:
            replace_file(path, new)
    lines = [f"written: {path}" for path, new in files.items() if new is not None]
    lines += [f"kept as it was: {path}" for path, new in files.items() if new is None]
    print_text(unwrapped("\n".join(lines)), line("next: dpaudit gate"))


def _workflow(install: str | None) -> bytes:
    """The workflow, with what pip is to install."""
    requirement = install or origin().requirement
    if requirement is None or not requirement.isprintable():
        what = "what the workflow is to install is not known"
        why = "this dpaudit was installed from a folder, which the workflow cannot reach"
        if requirement is not None:
            what, why = f"{requirement!r}", "it has characters that cannot be printed"
        remedy = "add --install, for example --install 'dpaudit @ git+https://HOST/OWNER/dpaudit@COMMIT'"
        raise UsageError(what, where="--install", why=why, remedy=remedy)
    # A string of JSON is one of YAML, and one word of a shell between single quotes.
    command = json.dumps("pip install '" + requirement.replace("'", "'\\''") + "'")
    return ACTIONS.replace("PIP_INSTALL", command).encode()


def _configuration(max_epsilon: float | None) -> str:
    """The configuration with a limit, and an example that keeps within it."""
    if max_epsilon is None and sys.stdin.isatty():
        words = "The largest epsilon that the gate lets pass, at delta 1e-6"
        max_epsilon = click.prompt(words, type=NUMBER, err=True)
    if max_epsilon is None:
        why = "how much privacy loss is acceptable is for you to decide"
        raise UsageError(
            "no limit is given", where="--max-epsilon", why=why, remedy="add it, for example --max-epsilon 2"
        )
    if not 0 < max_epsilon < inf:
        why = "the limit must be positive and finite"
        raise UsageError(f"{max_epsilon}", where="--max-epsilon", why=why, remedy="give a number such as 2")
    rho = budget_for(ApproxDP(epsilon=max_epsilon, delta=1e-6)).rho
    example = float(f"{rho:.2g}")
    if example > rho:
        example = float(f"{0.9 * rho:.2g}")
    return CONFIGURATION.replace("MAX_EPSILON", repr(max_epsilon)).replace("RHO", repr(example))


def _with_configuration(project: Path, max_epsilon: float | None) -> bytes | None:
    """A pyproject.toml's content with a configuration at its end; None where it has one."""
    if not project.exists():
        return _configuration(max_epsilon).encode()
    found = read_configuration(project)
    if found.gate is not None:
        return None
    content = project.read_bytes()
    gap = b"\n" if content.endswith(b"\n") or not content else b"\n\n"
    new = content + gap + _configuration(max_epsilon).encode()
    try:
        tomllib.loads(new.decode("utf-8-sig"))
    except tomllib.TOMLDecodeError:
        what = "[tool.dpaudit] cannot be added at its end"
        why = "`tool` is defined there in a way that lets no table be added"
        remedy = "write it as [tool.NAME] tables, and run `dpaudit init` again"
        raise UsageError(what, where=str(project), why=why, remedy=remedy) from None
    return new
