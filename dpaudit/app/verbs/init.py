"""`dpaudit init`: a configuration and a workflow to begin with; nothing that is there is touched."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

import click

from dpaudit.app.gate.configuration import read_configuration
from dpaudit.app.text.failures import traceback_option
from dpaudit.app.text.output import line, print_text, unwrapped
from dpaudit.errors import UsageError
from dpaudit.ledger.files import replace_file, require_folder

WORKFLOW: Final = Path(".github", "workflows", "dpaudit.yml")

CONFIGURATION: Final = """\
# What `dpaudit gate` holds to its claims; docs/gate.md has every key.

[tool.dpaudit.policy]
max-epsilon = 10.0               # every ledger must be proved (max-epsilon, delta-at-most)-DP
delta-at-most = 1e-6             # or "1/n", with n on every check

[tool.dpaudit.audit]
confidence = 0.999999            # no true claim is refuted, with this probability, all audits together

[tool.dpaudit.profile.pr]        # the profile of `dpaudit gate`: the same seeds every time
trials = 100
time-limit = 120                 # seconds a target

[tool.dpaudit.profile.nightly]   # `dpaudit gate --profile nightly`: longer, a fresh seed each time
trials = 1000
time-limit = 1800

# A built-in algorithm on its built-in data, to see the gate work: put your own in its place.
[tool.dpaudit.targets.example]
target = "dp-apvi"
claim = { rho = 1.0, unit = "trajectory", neighbouring = "replace-one" }

# [tool.dpaudit.targets.means]
# target = "means.py:column_sums"
# pair = "means.py:pair"           # returns (data, neighbour)
# claim = { rho = 0.125, unit = "row", neighbouring = "replace-one" }

# [tool.dpaudit.ledgers.march]
# ledger = "ledgers/march.jsonl"
# claim = { epsilon = 1.0, delta = 1e-6 }

# [[tool.dpaudit.waivers]]
# check = "means"
# finding = "max-epsilon"
# reason = "agreed in review until the new noise is in"
# expires = 2030-01-31
"""

ACTIONS: Final = """\
name: dpaudit

on:
  pull_request:
  push:
    branches: [main]
  schedule:
    - cron: "17 3 * * *"

permissions:
  contents: read
  security-events: write   # for the upload of the SARIF file

jobs:
  gate:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.11"
      - run: pip install dpaudit
      - name: dpaudit gate
        run: >
          dpaudit gate --output-format github --report sarif=dpaudit.sarif
          --profile ${{ github.event_name == 'schedule' && 'nightly' || 'pr' }}
      - uses: github/codeql-action/upload-sarif@v3
        if: always() && hashFiles('dpaudit.sarif') != ''
        with:
          sarif_file: dpaudit.sarif
"""


@click.command(epilog="Example: dpaudit init && dpaudit gate")
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@traceback_option
def init(folder: Path) -> None:
    """Write [tool.dpaudit] into FOLDER's pyproject.toml, and a GitHub workflow.

    What is there already stays as it is, to the byte.
    """
    require_folder(folder)
    project, workflow = folder / "pyproject.toml", folder / WORKFLOW
    if workflow.is_symlink() or workflow.exists():
        to_write, kept = {}, [workflow]
    else:
        to_write, kept = {workflow: ACTIONS.encode()}, []
    content = _with_configuration(project)
    if content is None:
        kept.insert(0, project)
    else:
        to_write = {project: content, **to_write}
    workflow.parent.mkdir(parents=True, exist_ok=True)
    for path, new in to_write.items():
        replace_file(path, new)
    lines = [f"written: {path}" for path in to_write]
    lines += [f"kept as it was: {path}" for path in kept]
    print_text(unwrapped("\n".join(lines)), line("next: dpaudit gate"))


def _with_configuration(project: Path) -> bytes | None:
    """A pyproject.toml's content with a configuration at its end; None where it has one.

    Raises:
        UsageError: the file cannot be read, is no TOML, or defines `tool` so that nothing can be added.
    """
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
        raise UsageError(
            "[tool.dpaudit] cannot be added at its end",
            where=str(project),
            why="`tool` is defined there in a way that lets no table be added",
            remedy="write it as [tool.NAME] tables, and run `dpaudit init` again",
        ) from None
    return new
