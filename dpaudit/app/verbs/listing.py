"""`dpaudit list`: built-in algorithms, those of installed packages, and the support for each mechanism."""

from typing import Any

import click

from dpaudit.accountants.bridges.imported_ledger import IMPORTERS
from dpaudit.algorithms.catalogue import CATALOGUE
from dpaudit.algorithms.environments.builtin_data import BUILTIN_DATA
from dpaudit.app.main import COMMANDS, verb_lines
from dpaudit.app.options.option import Words
from dpaudit.app.text.output import line, output_format_option, print_json, print_text, table
from dpaudit.app.text.streams import note
from dpaudit.auditors.libraries.routed import LIBRARIES
from dpaudit.errors import BrokenPackage
from dpaudit.mechanisms import KINDS
from dpaudit.pipeline.audit import METHODS
from dpaudit.pipeline.supports import Support, supports
from dpaudit.progress import Work
from dpaudit.registry import Registry

_DATA = {
    "treatment": "20 000 simulated patients, 4 states of health, 4 visits",
    "frozen-lake": "800 recorded episodes of Gymnasium's FrozenLake-v1",
}
_REGISTRIES: tuple[Registry[Any], ...] = (CATALOGUE, KINDS, METHODS, LIBRARIES, IMPORTERS, COMMANDS)


@click.command("list", epilog="Examples:\n\n  dpaudit list\n\n  dpaudit list mechanisms")
@click.argument("what", type=Words(["mechanisms"]), required=False)
@output_format_option
def listing(*, what: str | None, output_format: str) -> None:
    """Name every algorithm with its parameters, data set, mechanism, audit method and verb.

    `dpaudit list mechanisms` prints which accountants bound each mechanism, which
    method of the curator draws it, and which audits judge it.
    """
    for _, one in (entry for registry in _REGISTRIES for entry in registry.added()):
        if isinstance(one, BrokenPackage):
            note(f"error: {one}")
    if what == "mechanisms":
        _show_mechanisms(output_format)
        return
    algorithms, kinds = CATALOGUE.working(), KINDS.working()
    parameters = {name: dict(builtin.parameters) for name, builtin in algorithms.items()}
    found = {
        "algorithms": {name: builtin.summary for name, builtin in algorithms.items()},
        "data": {name: _DATA.get(name, "") for name in BUILTIN_DATA},
        "mechanisms": {kind: (one.__doc__ or "").partition("\n")[0] for kind, one in kinds.items()},
        "verbs": verb_lines(),
    }
    if output_format == "json":
        print_json({**found, "parameters": parameters})
        return
    of_algorithms = {f"-P of {name}": entries for name, entries in parameters.items()}
    for title, entries in {**found, **of_algorithms}.items():
        print_text(table((title, ""), entries.items(), whole=(title,)), line())


def _show_mechanisms(output_format: str) -> None:
    """Return the support for one example of each mechanism."""
    found: list[Support] = []
    kinds = [kind for kind, one in KINDS.working().items() if one.example]
    with Work("asking the accountants", len(kinds)) as work:
        for kind in kinds:
            found.append(supports(kind))
            work(len(found))
    if output_format == "json":
        print_json({one.kind: vars(one) for one in found})
        return
    rows = [
        (
            one.kind,
            ", ".join(one.parameters),
            ", ".join(one.accountants),
            "nobody" if one.drawn_by is None else f"{one.drawn_by} ({one.sampler})",
            ", ".join(one.audits) or "none",
        )
        for one in found
    ]
    columns = ("mechanism", "parameters", "accountants", "drawn by", "audits")
    print_text(table(columns, rows, whole=("mechanism",)))
