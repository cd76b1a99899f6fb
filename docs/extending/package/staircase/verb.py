"""A verb: `dpaudit staircase --epsilon 0.5`."""

import click

from staircase.mechanism import best_split


@click.command("staircase")
@click.option("--epsilon", type=float, required=True, help="Of pure differential privacy.")
def staircase(*, epsilon: float) -> None:
    """Print where a step of the staircase falls."""
    click.echo(f"{best_split(epsilon):.6f}")
