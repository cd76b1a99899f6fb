"""`dpaudit completion`: the script with which a shell completes verbs, options and mechanisms."""

import click
from click.shell_completion import get_completion_class

from dpaudit.app.text.output import print_text, unwrapped

_VARIABLE = "_DPAUDIT_COMPLETE"  # click reads it when the shell asks


@click.command(
    epilog="""\b
Examples:
  eval "$(dpaudit completion bash)"     (in ~/.bashrc; for zsh in ~/.zshrc)
  dpaudit completion fish > ~/.config/fish/completions/dpaudit.fish
"""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(*, shell: str) -> None:
    """Print the script with which SHELL completes what is typed after `dpaudit`."""
    kind = get_completion_class(shell)
    if kind is not None:
        script = kind(click.get_current_context().find_root().command, {}, "dpaudit", _VARIABLE)
        print_text(unwrapped(script.source().rstrip()))
