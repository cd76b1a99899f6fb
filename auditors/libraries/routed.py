"""Targets written without dpaudit: `Routed` runs one, and a curator draws its library's noise."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from dpaudit.auditors.libraries.adapter import Adapter
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.claims.arguments import require_kind
from dpaudit.claims.claims import Claim
from dpaudit.curator.curator import Curator
from dpaudit.curator.running import name_of
from dpaudit.errors import UsageError
from dpaudit.models import did_you_mean
from dpaudit.registry import Registry

#: The libraries with noise that can be routed, each with its adapter.
LIBRARIES: Registry[Adapter] = Registry(
    "libraries",
    Adapter,
    {
        name: f"dpaudit.auditors.libraries.{name}_noise:ADAPTER"
        for name in ("diffprivlib", "opacus", "smartnoise", "pipelinedp")
    },
)
#: Libraries that draw noise outside Python, with the place of the draw.
COMPILED: Final = {
    "opendp": "OpenDP draws its noise in Rust",
    "pydp": "PyDP draws its noise in C++",
    "tmlt.analytics": "Tumult Analytics draws its noise in C, inside jobs of Spark",
}


def adapter_of(library: str) -> Adapter:
    """Return the adapter of a library, after a check of its version.

    Raises:
        UsageError: there is no adapter, none is possible, or none for the installed version.
        MissingExtra: the library is not installed.
    """
    if library in COMPILED:
        what = f"library {library!r}: {COMPILED[library]}"
        why = "replay needs every query before noise is added to it, and that code cannot be entered"
        remedy = "audit by sampling, without the library: --plain --method sequential, or Plain in Python"
        raise UsageError(what, where="library", why=why, remedy=remedy)
    if library not in LIBRARIES:
        remedy = f"{did_you_mean(library, LIBRARIES)}give one of {', '.join(LIBRARIES)}"
        raise UsageError(f"no library {library!r}", where="library", remedy=remedy)
    adapter = LIBRARIES[library]
    adapter.installed()
    return adapter


@dataclass(frozen=True)
class Routed:
    """A target ``(data) -> output`` that uses another library, with noise drawn by a curator.

    It is an algorithm like any other: it can be replayed, and its ledger holds the statements of the
    library's mechanisms. The target is not changed, but the library's noise layer is replaced while it runs.

    Attributes:
        function: the target.
        library: one of `LIBRARIES`.
        claim: the claim about it; default: the function's own ``claim``, if it has one.

    Raises:
        UsageError: as `adapter_of`; or the function does not take the data alone.
        MissingExtra: the library is not installed.
    """

    function: Callable[[Any], Any]
    library: str
    claim: Claim | None = None

    def __post_init__(self) -> None:
        require_kind(self.function, Callable, "Routed(function=)")
        require_kind(self.library, str | str, "Routed(library=)")
        if self.claim is None:
            object.__setattr__(self, "claim", getattr(self.function, "claim", None))
        if self.claim is not None:
            require_kind(self.claim, Claim, "Routed(claim=)")
        adapter_of(self.library)
        try:
            inspect.signature(self.function).bind(None)
        except TypeError:
            what = f"{self.name!r} cannot be called with the data alone"
            why = "a target of another library knows of no curator"
            remedy = "give a function (data) -> output; functools.partial sets other arguments"
            raise UsageError(what, where="Routed", why=why, remedy=remedy) from None
        except ValueError:  # no signature is known
            return

    @property
    def name(self) -> str:
        """The name of the function."""
        return name_of(self.function)

    @property
    def not_checked(self) -> tuple[Condition, ...]:
        """Return further conditions that its audits leave unchecked."""
        source = f"{self.library} {adapter_of(self.library).installed()}"
        return (Condition(code=Code.ROUTED_NOISE, text=source),)

    def __call__(self, data: Any, curator: Curator) -> Any:
        """Call the function, its noise routed through the curator."""
        with adapter_of(self.library).routing(curator):
            return self.function(data)
