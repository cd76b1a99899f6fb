"""The options of `dpaudit audit` about runs and scores, and the methods that accept each option."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from dpaudit.app.options.claim_options import grouped
from dpaudit.app.options.foreign_code import foreign_code, load
from dpaudit.app.options.option import COUNT, FILE, option
from dpaudit.auditors.sampling.one_run import Canaries
from dpaudit.errors import UsageError
from dpaudit.pipeline.audit import TRIALS

METHODS = {
    "replay": "force the same noise on both data sets and compare the remaining differences",
    "sequential": "sample; valid whenever you stop, shown while it runs",
    "threshold": "sample; one event, tested exactly at the end",
    "gdp": "sample; lower-bounds mu only",
    "one-run": "one run with many canaries",
}
SAMPLING = ("sequential", "threshold", "gdp")


@dataclass(frozen=True)
class Settings:
    """The command line's options about runs; None for omitted options."""

    trials: int | None = None
    score: str | None = None
    workers: int | None = None
    dask: str | None = None
    chunk: int | None = None
    time_limit: float | None = None
    resume: Path | None = None
    stop_when_refuted: bool | None = None
    canaries: str | None = None
    guesses: int | None = None
    search_pairs: bool | None = None

    def of(self, target: str) -> "Settings":
        """Return the options with `canaries` of the target's own file if --canaries is a number."""
        if self.canaries is None or not self.canaries.isdecimal():
            return self
        if self.trials is not None or self.canaries.strip("0") == "":
            what = f"--canaries {self.canaries}" + ("" if self.trials is None else f" --trials {self.trials}")
            raise UsageError(what, where="--canaries", remedy="give their number once, 1 or more")
        place, found, _ = target.rpartition(":")
        if not found:
            what, why = f"--canaries {self.canaries} for {target}", "it has no file with `canaries`"
            remedy = "name a function: --canaries MODULE:CALLABLE"
            raise UsageError(what, where="--canaries", why=why, remedy=remedy)
        return replace(self, trials=int(self.canaries), canaries=f"{place}:canaries")

    @property
    def number(self) -> int:
        """The number of canaries."""
        return TRIALS["one-run"] if self.trials is None else self.trials

    def require_used(self, method: str) -> None:
        """Raise `UsageError` for an option that the method would ignore."""
        like = method if method in METHODS else "threshold"  # an auditor of another package tests runs too
        for name, methods in _USED_BY.items():
            if getattr(self, name) is not None and like not in methods:
                option = "--" + name.replace("_", "-")
                why = "an option that is ignored would look as if it had an effect"
                remedy = f"leave it out, or use --method {' or '.join(methods)}"
                raise UsageError(f"{option} with --method {method}", where=option, why=why, remedy=remedy)
        if self.dask is not None and self.workers is not None:
            why, remedy = "the cluster sets the number of workers", "give one of them"
            raise UsageError("--dask and --workers at once", where="--workers", why=why, remedy=remedy)

    def functions(self, method: str | None) -> dict[str, Any]:
        """Return the functions that ``--score`` and ``--canaries`` name, for this or the default method."""
        if method == "one-run":
            canaries = self._made_canaries()
            return {"insert": canaries.insert, "score": canaries.score}
        if method == "replay" or self.score is None or self.score in {"exact", "logistic", "boosting"}:
            return {}
        if ":" not in self.score:
            remedy = "give exact, logistic, boosting, path.py:NAME or package.module:NAME"
            raise UsageError(f"no score {self.score!r}", where="--score", remedy=remedy)
        return {"score": _callable(self.score, "--score", "it is called with each output")}

    def canaries_with(self, functions: Mapping[str, Any]) -> Canaries:
        """The canaries, with their `functions`."""
        return Canaries(self.number, functions["insert"], functions["score"])

    def _made_canaries(self) -> Canaries:
        """Call the function named by ``--canaries`` with the number of canaries."""
        number = self.number
        if self.canaries is None:
            why, kind = "a one-run audit guesses which of them were in the data", "one_run.Canaries"
            called = "--canaries MODULE:CALLABLE, which is called with their number and returns"
            remedy = f"add {called} dpaudit.auditors.sampling.{kind}"
            raise UsageError("no canaries", where="--method one-run", why=why, remedy=remedy)
        make = _callable(self.canaries, "--canaries", "it is called with the number of canaries")
        named = {} if self.score is None else {"score": self.score}
        with foreign_code(self.canaries, "making the canaries"):
            made = make(number, **named)
        if not isinstance(made, Canaries) or made.number != number:
            found = f"{made.number} canaries" if isinstance(made, Canaries) else f"a {type(made).__name__}"
            what = f"{self.canaries} returned {found}, asked for {number}"
            remedy = "return dpaudit.auditors.sampling.one_run.Canaries(number, insert, score)"
            raise UsageError(what, where="--canaries", remedy=remedy)
        return made


_USED_BY: dict[str, tuple[str, ...]] = {
    "score": (*SAMPLING, "one-run"),
    **dict.fromkeys(("workers", "dask", "chunk", "time_limit", "resume"), SAMPLING),
    "stop_when_refuted": ("sequential",),
    "search_pairs": ("replay",),
    **dict.fromkeys(("canaries", "guesses"), ("one-run",)),
}


def _callable(reference: str, option: str, why: str) -> Callable[..., Any]:
    found = load(reference, option)
    if not callable(found):
        what = f"{reference} is of type {type(found).__name__}, not callable"
        raise UsageError(what, where=option, why=why, remedy="name a function")
    called: Callable[..., Any] = found
    return called


_OPTIONS = (
    option(
        "--trials",
        COUNT,
        "Runs on each side of a pair, default 5000; for replay, recordings in each direction, default 6, and "
        "up to 100 if more may decide; for one-run, canaries, default 1000.",
        metavar="N",
    ),
    option(
        "--score",
        str,
        "How runs are compared. path.py:NAME: function from an output to a number or vector. logistic, "
        "boosting: learned from the output's numbers (extra `learn`). exact: the log-likelihood ratio "
        "of all releases. Default: the output if it is one number, otherwise logistic. For one-run: the "
        "argument `score` of the --canaries function.",
        metavar="SCORE",
    ),
    option("--workers", COUNT, "Processes on this machine; default 1."),
    option("--dask", str, "Run on a cluster: tcp://HOST:8786 (extra `dask`).", metavar="ADDRESS"),
    option("--chunk", COUNT, "Runs between two progress reports; default 250, or 10000 in batch form."),
    option(
        "--time-limit",
        click.FloatRange(min=0, min_open=True),
        "Start no new chunk of runs after this time.",
        metavar="SECONDS",
    ),
    option(
        "--resume",
        FILE,
        "Store finished runs in this SQLite file and continue from the stored runs.",
        metavar="FILE",
    ),
    option(
        "--stop-when-refuted", bool, "End a sequential audit as soon as the claim is refuted.", default=None
    ),
    option(
        "--canaries",
        str,
        "For one-run: a function of the number of canaries; it returns "
        "dpaudit.auditors.sampling.one_run.Canaries. A number stands for `canaries` in TARGET's file.",
        metavar="MODULE:CALLABLE|N",
    ),
    option(
        "--search-pairs/--no-search-pairs",
        bool,
        "For replay: also search for a worse pair with other values and audit it; or search no other pair. "
        "Default: try other pairs of the given records.",
        default=None,
    ),
    option("--guesses", COUNT, "For one-run: number of guessed coins; default: chosen for the claim."),
)


#: Gives a verb these options; it receives them together, as ``settings``.
settings_options = functools.partial(grouped, options=_OPTIONS, kind=Settings, name="settings")
