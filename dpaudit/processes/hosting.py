"""Put an algorithm, its data and its pairs into another process, so that this one runs none of its code.

This process holds placeholders for the algorithm, data and pairs. They are called and compared like the
objects that they name.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from types import FunctionType, MappingProxyType
from typing import Any, Final

from dpaudit.certificate.conditions import Condition
from dpaudit.certificate.process import IN_PROCESS, Process
from dpaudit.claims.claims import Claim
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.curator.running import name_of
from dpaudit.processes.calls import Kept
from dpaudit.processes.changes import Changeable, records_of, size_of
from dpaudit.processes.engines import carried
from dpaudit.processes.host import AVAILABLE, Host, Limits, Served
from dpaudit.processes.hosted import Hosted, HostedData
from dpaudit.processes.wire import NotPlain, frame

#: Set to run every target in the process that judges it, as a debugger needs.
IN_PROCESS_VARIABLE: Final = "DPAUDIT_IN_PROCESS"

#: Attributes by which an algorithm describes itself.
_ATTRIBUTES: Final = {"claim", "not_checked", "parameters", "stand_in"}

_DATA, _STAND_IN = "data", "stand-in"


def in_process_by_default() -> bool:
    """Return whether targets run in this process by default."""
    return not AVAILABLE or os.environ.get(IN_PROCESS_VARIABLE, "") not in {"", "0"}


@dataclass(frozen=True)
class Target:
    """An algorithm with its data and pairs, in this process or its own.

    Attributes:
        replayed: the algorithm that audits run, with `pairs`.
        process: the processes of the certified run.
        kept: the author's other functions, such as a score, by name.
    """

    algorithm: Any
    data: Any
    pairs: Sequence[Pair]
    replayed: Callable[..., Any]
    process: Process = IN_PROCESS
    kept: Mapping[str, Any] = field(default_factory=dict)


def served(
    algorithm: Callable[..., Any],
    data: Any,
    pairs: Sequence[Pair] = (),
    *,
    own_pairs: bool = False,
    kept: Mapping[str, Any] = MappingProxyType({}),
    stated: Mapping[str, Any] = MappingProxyType({}),
) -> Served:
    """Return a target in the form that its own process holds.

    An algorithm's ``stand_in(users)`` makes public data for a twin. Its argument is the number of users of
    `data` under replace-one, otherwise None. Without that method a twin uses the first pair's stand-in, or
    the neighbour in a public pair. ``stand_in = None`` says that there is no suitable public data.
    `own_pairs`: the pairs are the algorithm's own, a function of public parameters alone. `kept` are the
        author's other functions, and `stated` are
    attributes to set on the algorithm. Facts that a certificate may repeat are sent as plain values.
    """
    for attribute, value in stated.items():
        setattr(algorithm, attribute, value)
    held = {_DATA: data}
    beside: dict[str, str] = {}
    told = []
    for number, pair in enumerate(pairs):
        name = f"pair {number}"
        names = name, name if _same(pair) else f"neighbour {number}"
        held |= {names[1]: pair.neighbour, names[0]: pair.data}
        beside |= {names[1]: names[0], names[0]: names[1]}
        found = records_of(pair.data, pair.neighbour)
        records = None if found is None else list(astuple(found))
        about_it = {"description": pair.description, "unit": pair.unit, "private": pair.stand_ins is not None}
        sizes = size_of(pair.data), size_of(pair.neighbour)
        told.append({"names": names, "records": records, "sizes": sizes, **about_it})
    claim: Claim | None = getattr(algorithm, "claim", None)
    stand_in, users = getattr(algorithm, "stand_in", False), None
    source = None
    if callable(stand_in):
        # Where adding a user makes a neighbour, their number is what is protected.
        public = claim is not None and claim.neighbouring is Neighbouring.REPLACE_ONE
        users = getattr(data, "n_users", None) if public else None
        held[_STAND_IN] = stand_in(users)
        source = "made by the algorithm's stand_in"
    elif stand_in is not None and pairs and pairs[0].stand_ins is not None:
        for held[_STAND_IN] in pairs[0].stand_ins[:1]:
            source = "a table without rows, made from the names and types of the data's columns alone"
    elif stand_in is not None and pairs:
        held[_STAND_IN] = pairs[0].neighbour
        source = (
            "the neighbour in the algorithm's own pair" if own_pairs else "the neighbour in the given pair"
        )
    about = {
        "name": name_of(algorithm),
        "claim": None if claim is None else claim.to_json(),
        "parameters": dict(getattr(algorithm, "parameters", {})),
        "not checked": [condition.to_json() for condition in conditions_of(algorithm)],
        "users": {name: getattr(each, "n_users", None) for name, each in held.items()},
        "pairs": told,
        "stand-in": source,
        "stand-in for users": users is not None,
        "kept": list(kept),
    }
    return Served(algorithm, Changeable(held, beside), about, kept)


def conditions_of(algorithm: object) -> tuple[Condition, ...]:
    """Return the conditions that an algorithm states and its audits leave unchecked."""
    stated = getattr(algorithm, "not_checked", ())
    return tuple(each for each in stated if isinstance(each, Condition)) if isinstance(stated, tuple) else ()


def _stated(algorithm: object) -> dict[str, Any]:
    """Return attributes set on a function, e.g. a claim; an import by name in another process lacks them."""
    if not isinstance(algorithm, FunctionType):
        return {}
    return {name: value for name, value in vars(algorithm).items() if name in _ATTRIBUTES}


def is_own(algorithm: object) -> bool:
    """Return whether an algorithm comes with dpaudit."""
    return type(algorithm).__module__.startswith("dpaudit.algorithms.")


def _carried_pair(pair: Pair) -> Pair:
    """Return a pair with data that other processes can use."""
    stand_ins = None if pair.stand_ins is None else tuple(map(carried, pair.stand_ins))
    return replace(pair, data=carried(pair.data), neighbour=carried(pair.neighbour), stand_ins=stand_ins)


def _same(pair: Pair) -> bool:
    """Return whether both data sets of a pair are known to be the same."""
    try:
        return frame(pair.data) == frame(pair.neighbour)
    except NotPlain:
        return False


def target_in(host: Host, *, utility: bool = False) -> Target:
    """Return placeholders for a host's objects; `utility`: runs measure their output's utility."""
    about = host.about

    def data(name: str) -> HostedData:
        return HostedData(name, about["users"][name])

    claim = None if about["claim"] is None else Claim(**about["claim"])
    algorithm = Hosted(
        host,
        about["name"],
        claim,
        about["parameters"],
        twin=None if about["stand-in"] is None else _STAND_IN,
        with_utility=utility,
        plain=about.get("plain", False),
        not_checked=tuple(Condition(**each) for each in about["not checked"]),
    )
    pairs = []
    for pair in about["pairs"]:
        records = None if pair["records"] is None else tuple(pair["records"])
        one, other = map(data, pair["names"])
        sizes = pair["sizes"]
        sides = replace(one, records=records, size=sizes[0]), replace(other, size=sizes[1])
        stand_ins = (data(_STAND_IN),) if algorithm.twin else ()
        pairs.append(Pair(*sides, pair["description"], pair["unit"], stand_ins if pair["private"] else None))
    kept = {name: Kept(name) for name in about.get("kept", ())}
    return Target(algorithm, data(_DATA), pairs, algorithm.alone(), _process(host), kept)


def _process(host: Host) -> Process:
    source = host.about["stand-in"]
    return Process(kind="worker" if source is None else "twin", stand_in=source)


@contextmanager
def hosting(
    algorithm: Callable[..., Any],
    data: Any,
    pairs: Sequence[Pair],
    *,
    own_pairs: bool = False,
    utility: bool = False,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    trust_model: TrustModel = TrustModel.CENTRAL,
    kept: Mapping[str, Any] = MappingProxyType({}),
    in_process: bool | None,
    limits: Limits,
) -> Iterator[Target]:
    """Keep a target in its own process for the duration of the context.

    `in_process` keeps the target in this process; None means `in_process_by_default`. An algorithm that
    comes with dpaudit is trusted code: its certified run has its own process, its audits have not. `kept`
        are the author's other
    functions; the target has their names. There is no twin under joint trust, where every user sees a view
    of their own data that a twin lacks, or if a stand-in depends on the number of users that the relation
    protects.
    """
    here = in_process_by_default() if in_process is None else in_process
    own = is_own(algorithm)
    if isinstance(algorithm, Hosted):
        target = Target(algorithm, data, pairs, algorithm.alone(), _process(algorithm.host))
        yield replace(_for(neighbouring, trust_model, target), kept=kept)
    elif here or (own and data is None):
        yield Target(algorithm, data, pairs, algorithm, kept=kept)
    else:
        data, pairs = carried(data), [_carried_pair(pair) for pair in pairs]
        make = functools.partial(served, own_pairs=own_pairs, kept=kept, stated=_stated(algorithm))
        with Host(lambda: make(algorithm, data, pairs), limits) as host:
            target = target_in(host, utility=utility)
            if own:
                target = replace(target, pairs=pairs, replayed=algorithm)
            yield _for(neighbouring, trust_model, target)


def _for(neighbouring: Neighbouring, trust_model: TrustModel, target: Target) -> Target:
    """Return the target, without its twin if the certified claim does not allow one."""
    if target.process.kind != "twin":
        return target
    sized = target.algorithm.host.about["stand-in for users"] and neighbouring is not Neighbouring.REPLACE_ONE
    if trust_model is not TrustModel.JOINT and not sized:
        return target
    pairs = (
        [replace(pair, stand_ins=pair.stand_ins and ()) for pair in target.pairs] if sized else target.pairs
    )
    alone = replace(target.algorithm, twin=None)
    return replace(target, algorithm=alone, pairs=pairs, process=Process(kind="worker"))
