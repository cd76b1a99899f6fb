"""`dpaudit list`: what is built in."""

import click

from dpaudit.algorithms.catalogue import CATALOGUE
from dpaudit.algorithms.environments.builtin_data import BUILTIN_DATA
from dpaudit.app.main import VERBS
from dpaudit.app.text.output import line, output_format_option, print_json, print_text, table
from dpaudit.mechanisms import KINDS

_DATA = {
    "treatment": "20 000 simulated patients, 4 states of health, 4 visits",
    "frozen-lake": "800 recorded episodes of Gymnasium's FrozenLake-v1",
}


@click.command("list", epilog="Example: dpaudit list")
@output_format_option
def listing(*, output_format: str) -> None:
    """Name every built-in algorithm with its parameters, data set, mechanism and verb."""
    parameters = {name: dict(builtin.parameters) for name, builtin in CATALOGUE.items()}
    found = {
        "algorithms": {name: builtin.summary for name, builtin in CATALOGUE.items()},
        "data": {name: _DATA.get(name, "") for name in BUILTIN_DATA},
        "mechanisms": {kind: (one.__doc__ or "").partition("\n")[0] for kind, one in KINDS.items()},
        "verbs": {verb: summary for verb, (_, _, summary) in VERBS.items()},
    }
    if output_format == "json":
        print_json({**found, "parameters": parameters})
        return
    of_algorithms = {f"-P of {name}": entries for name, entries in parameters.items()}
    for title, entries in {**found, **of_algorithms}.items():
        print_text(table((title, ""), entries.items(), whole=(title,)), line())
