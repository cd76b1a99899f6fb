"""Open a target in a separate process: this process neither imports nor runs the target's code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import click

from dpaudit.algorithms.catalogue import CATALOGUE
from dpaudit.app.options import targets
from dpaudit.app.options.foreign_code import foreign_code
from dpaudit.app.options.option import option
from dpaudit.auditors.sampling.curatorless import Plain
from dpaudit.claims.claims import Claim
from dpaudit.claims.pairs import Pair
from dpaudit.processes.host import NO_LIMITS, Host, Limits, Served
from dpaudit.processes.hosting import in_process_by_default, served, target_in
from dpaudit.tables.sources import frame_pairs

_MEGABYTE = 2**20


@dataclass(frozen=True)
class Processes:
    """Where targets run: here or in processes of their own, and what each run may take."""

    in_process: bool | None = None
    limits: Limits = NO_LIMITS


DEFAULT = Processes()


@dataclass(frozen=True)
class Opened:
    """A target, its data and its pairs, here or by the names that they have in its process.

    `own_pairs` is whether the pairs are a built-in algorithm's own; `told` is what was asked about the
    algorithm, where it is; `plain` is whether it draws its own noise, and `kept` are the author's other
    functions.
    """

    algorithm: Callable[..., Any]
    data: Any
    pairs: Sequence[Pair]
    claim: Claim | None
    plain: bool
    told: Mapping[str, Any]
    own_pairs: bool = False
    kept: Mapping[str, Any] = field(default_factory=dict)


_Verb = TypeVar("_Verb", bound=Callable[..., Any])


def process_options(verb: _Verb) -> _Verb:
    """``--in-process``, ``--timeout`` and ``--memory``, handed over as `where`."""

    def gathered(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
        given = ctx.meta.setdefault("dpaudit.processes", {})
        given[str(parameter.name)] = value
        memory = given.get("memory")
        limits = Limits(given.get("timeout"), None if memory is None else memory * _MEGABYTE)
        ctx.params["where"] = Processes(given.get("in_process") or None, limits)

    about = {"expose_value": False, "callback": gathered}
    decorated: Any = verb
    for words in (
        option(
            "--memory",
            click.IntRange(min=1),
            "Memory limit of one run of TARGET in megabytes, libraries included; default: no limit.",
            metavar="MB",
            **about,
        ),
        option(
            "--timeout",
            click.FloatRange(min=0, min_open=True),
            "Time limit in seconds for loading TARGET, and for each run; default: no limit.",
            metavar="SECONDS",
            **about,
        ),
        option(
            "--in-process",
            bool,
            "Run TARGET in the judging process, for a debugger; the certificate records it. "
            "DPAUDIT_IN_PROCESS=1 does the same.",
            **about,
        ),
    ):
        decorated = words(decorated)
    found: _Verb = decorated
    return found


@contextmanager
def open_target(
    reference: str,
    *,
    data_file: str | None = None,
    parameters: Mapping[str, Any],
    pair: str | None = None,
    plain: bool = False,
    library: str | None = None,
    needs_data: bool = True,
    processes: Processes = DEFAULT,
    tell: Callable[[Any], Mapping[str, Any]] = lambda _: {},
    keep: Callable[[], Mapping[str, Any]] = dict,
    claimed: Callable[[Claim | None], Claim | None] = lambda own: own,
) -> Iterator[Opened]:
    """A target and its pairs, for as long as the context lasts.

    `keep` gives the author's other functions by name, `claimed` the claim that is judged, from the target's
    own: a table that has its unit as a column brings its own pairs. A built-in algorithm is no foreign code:
    it is opened here. Raises as `targets.load_target`, `load_pair` and, with `needs_data`, `data_for`; and
    `TargetDied` where a process of its own ends while it is opened.
    """

    def make() -> tuple[targets.Target, Any, Sequence[Pair]]:
        chosen = targets.load_target(
            reference,
            data_file=data_file,
            parameters=parameters,
            plain=plain,
            library=library,
            claimed=claimed,
        )
        given = None if pair is None else targets.load_pair(pair)
        data = targets.data_for(chosen, given) if needs_data else chosen.data
        pairs = targets.pairs_of(chosen, given)
        if not pairs and not hasattr(chosen.algorithm, "worst_pairs"):
            pairs = frame_pairs(data, claimed(chosen.claim))
        return chosen, data, pairs

    def prepare() -> Served:
        chosen, data, pairs = make()
        found = served(chosen.algorithm, data, pairs, own_pairs=pair is None, kept=keep())
        more = {"plain": isinstance(chosen.algorithm, Plain), "told": dict(tell(chosen.algorithm))}
        return replace(found, about={**found.about, **more})

    here = in_process_by_default() if processes.in_process is None else processes.in_process
    ours = targets.is_builtin(reference) and CATALOGUE.package(reference) is None
    if here or (ours and pair is None):
        chosen, data, pairs = make()
        is_plain = isinstance(chosen.algorithm, Plain)
        told = tell(chosen.algorithm)
        yield Opened(chosen.algorithm, data, pairs, chosen.claim, is_plain, told, pair is None, keep())
        return
    with foreign_code(reference, "starting it"):
        host = Host(prepare, processes.limits)
    with host:
        target = target_in(host, utility=True)
        claim: Claim | None = getattr(target.algorithm, "claim", None)
        told = host.about["told"]
        hosted = target.algorithm, target.data, target.pairs, claim, target.algorithm.plain
        yield Opened(*hosted, told, kept=target.kept)
