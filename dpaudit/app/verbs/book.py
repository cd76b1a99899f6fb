"""`dpaudit book`: how much budget a data set has left over all runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from dpaudit.accountants.book import Book
from dpaudit.accountants.curves.implied import budget_for
from dpaudit.app.options.claim_options import NEIGHBOURING, TRUST_MODEL, StatedClaim, figure_options
from dpaudit.app.options.option import PATH, option
from dpaudit.app.text.book_text import about, account_json, account_text
from dpaudit.app.text.failures import EXIT_NOT_PROVED
from dpaudit.app.text.output import output_format_option, print_json, print_text, unwrapped
from dpaudit.app.text.streams import note
from dpaudit.claims.guarantees import AnyGuarantee, ApproxDP
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.errors import BudgetExceeded, UsageError
from dpaudit.ledger.ledger import Ledger
from dpaudit.models import named_by

DEFAULT_BOOK = "dpaudit-book.sqlite"

#: Where budgets are shown as (epsilon, delta), unless other deltas are asked for.
DEFAULT_DELTAS = (1e-6,)

_book_option = option(
    "--book address",
    str,
    "A file, or postgresql://user@host/database (or set DPAUDIT_BOOK).",
    envvar="DPAUDIT_BOOK",
    default=DEFAULT_BOOK,
)


_cost_options = figure_options(rho="rho, zCDP.", mu="mu, Gaussian DP.", epsilon="Pure epsilon.")


@click.group(epilog="Example: dpaudit book open patients --rho 1 --unit patient --neighbouring replace-one")
def book() -> None:
    """Keep a data set's budget over many runs: reserve, spend, refuse.

    A reservation counts until it is spent or cancelled, so a crash between the two leaks nothing. Several
    processes may use one book at once: no two of them can spend the same budget.
    """


@book.command(
    "open",
    epilog="""\b
Examples:
  dpaudit book open patients --rho 1 --unit patient
  dpaudit book open patients --epsilon 2 --delta 1e-6 --unit patient
""",
)
@click.argument("dataset")
@figure_options(
    rho="rho, zCDP.",
    mu="mu, Gaussian DP.",
    epsilon="Pure epsilon; with --delta, the rho that keeps all runs together within (epsilon, delta)-DP.",
    delta="The delta of (epsilon, delta)-DP, with --epsilon.",
)
@option("--unit", str, "Unit of privacy: trajectory, user, row, ...", required=True)
@option(
    "--neighbouring",
    NEIGHBOURING,
    "How neighbouring data sets differ.",
    default=str(Neighbouring.REPLACE_ONE),
)
@option("--trust-model", TRUST_MODEL, "Who sees private data.", default=str(TrustModel.CENTRAL))
@_book_option
def open_account(*, dataset: str, stated: StatedClaim, address: str) -> None:
    """Give DATASET a budget, which cannot be changed later."""
    budget = wanted = _figure(stated)
    if isinstance(wanted, ApproxDP):  # whose costs do not add up
        budget = budget_for(wanted)
    about_whom = {name: getattr(stated, name) for name in ("unit", "neighbouring", "trust_model")}
    with Book(address) as found:
        account = found.open_account(dataset, budget, **about_whom)
    within = f": {budget} is the most that proves {wanted} of all runs together" if budget != wanted else ""
    note(f"opened {about(account)}{within}")


@book.command(epilog="Example: dpaudit book reserve patients --rho 0.1 --note 'mortality by ward'")
@click.argument("dataset")
@_cost_options
@option("--note words", str, "What the run is for.", default="", show_default=False)
@_book_option
def reserve(*, dataset: str, stated: StatedClaim, words: str, address: str) -> None:
    """Reserve a run's cost before it starts; prints the reservation's name.

    Exits 1 if it does not fit.
    """
    cost = _figure(stated)
    with _refusals(), Book(address, make=False) as found:
        reservation = found.reserve(dataset, cost, note=words)
        left = found.account(dataset).remaining
    print_text(unwrapped(reservation))
    note(f"reserved {cost} of {dataset}; {left} is left")


@book.command(
    epilog="""\b
Examples:
  dpaudit book spend 1f0c3a9e out/ledger.jsonl
  dpaudit book spend 1f0c3a9e                   (spends the whole reservation of an interrupted run)
"""
)
@click.argument("reservation")
@click.argument("ledger", required=False, type=PATH)
@option("--published", bool, "The output is known already: enter the cost even if it does not fit.")
@_book_option
def spend(*, reservation: str, ledger: Path | None, published: bool, address: str) -> None:
    """Replace RESERVATION by the cost of its run, according to its LEDGER.

    Exits 1 if the run cost more than was reserved and the rest does not fit: its output must then not be
    published. Nor must it where nothing bounds the cost: a premise of the claim fails, or the noise had a
    seed. A ledger given twice counts once.
    """
    read = None if ledger is None else Ledger.read(ledger)
    with _refusals(), Book(address, make=False) as found:
        account = found.spend(reservation, read, published=published)
    entry = next(entry for entry in account.entries if entry.reservation == reservation)
    note(f"spent {entry.cost} of {account.dataset}; {account.remaining} is left")


@book.command(epilog="Example: dpaudit book cancel 1f0c3a9e --note 'the run never started'")
@click.argument("reservation")
@option("--note words", str, "Why it is certain that nothing was released.", required=True)
@_book_option
def cancel(*, reservation: str, words: str, address: str) -> None:
    """Give RESERVATION back, if nothing was released under it."""
    with Book(address, make=False) as found:
        account = found.cancel(reservation, note=words)
    note(f"cancelled; {account.remaining} of {account.dataset} is left")


@book.command(epilog="Example: dpaudit book show patients --delta 1e-6")
@click.argument("dataset", required=False)
@option("--delta deltas", float, "Repeatable; show (epsilon, delta) there too.", multiple=True)
@option("--history", bool, "List every event, not only how reservations stand.")
@_book_option
@output_format_option
def show(
    *, dataset: str | None, deltas: tuple[float, ...], history: bool, address: str, output_format: str
) -> None:
    """Print budget, spent, reserved and remaining, on every scale."""
    with named_by("--".__add__):
        for delta in deltas:
            ApproxDP(epsilon=0.0, delta=delta)  # refuses what is no probability
    with Book(address, make=False) as found:
        accounts = [found.account(name) for name in ([dataset] if dataset else found.datasets)]
    if output_format == "json":
        print_json([account_json(account, deltas or DEFAULT_DELTAS) for account in accounts])
        return
    if not accounts:
        note(f"no accounts in {address}; open one with `dpaudit book open`")
    for account in accounts:
        print_text(*account_text(account, deltas or DEFAULT_DELTAS, history=history))


def _figure(stated: StatedClaim) -> AnyGuarantee:
    found = stated.guarantee()
    if found is None:
        raise UsageError("no figure", where="--rho", remedy="give --rho, --mu or --epsilon")
    return found


@contextmanager
def _refusals() -> Iterator[None]:
    """A refusal is an answer, no mistake of the caller's: it exits with 1."""
    try:
        yield
    except BudgetExceeded as error:
        note(f"refused: {error}")
        click.get_current_context().exit(EXIT_NOT_PROVED)
