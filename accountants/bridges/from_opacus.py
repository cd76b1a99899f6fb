"""Read the history of Opacus' accountants as a ledger.

A history of any accountant (``rdp``, ``prv`` or ``gdp``) is a list of (noise multiplier, sample rate, steps).
Each step is a Poisson sample of the examples with Gaussian noise on the sum of clipped gradients. A
multiplier is the noise over the clipping norm, and adding or removing an example moves the sum by that norm.
So a step is noise `noise_multiplier` on a sensitivity of 1, under add-or-remove-one.

With gradient accumulation Opacus writes the sample rate times the number of batches of a step. An example is
then drawn anew for each batch and may be in several batches, which one draw at that rate does not cover. The
epsilon computed from such a history is too small, and the history does not show it.
"""

import numbers
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpaudit.accountants.bridges.imported_ledger import Importer, declared_ledger, has_field, releases_of
from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import L2
from dpaudit.errors import ClaimMismatch, InvalidParameter, MissingExtra, UsageError
from dpaudit.ledger.ledger import Ledger
from dpaudit.mechanisms import Gaussian, PoissonSampled

#: The key of the accountant's state in a checkpoint from `PrivacyEngine.save_checkpoint`.
IN_CHECKPOINT = "privacy_accountant_state_dict"

#: Assumptions about a history.
TAKEN_ON_TRUST = (
    "that batches were Poisson samples: with poisson_sampling=False Opacus writes the same history",
    "that the noise cannot be predicted: a fixed seed, or secure_mode=False, leaves no trace in a history",
    "that each step was one batch: gradient accumulation, which costs more, leaves only a larger sample rate",
    "that nothing else was released: a history holds no noisy counts of AdaClip, no losses and no accuracies",
    "that neither the clipping norm, nor the number of steps, nor any other setting depends on the examples",
)

_ENTRY = ("noise multiplier", "sample rate", "number of steps")
_MOST_STEPS = 10**9  # more than any training needs; a ledger cannot hold counts beyond 2^53
_SAFE_TORCH = (2, 6)  # before, a file could run code even in weights-only mode (CVE-2025-32434)


def from_opacus(
    state: Any,
    *,
    unit: str = "example",
    neighbouring: Neighbouring | str = Neighbouring.ADD_OR_REMOVE_ONE,
    algorithm: str = "opacus",
) -> Ledger:
    """Return a ledger with one release for each pair of noise multiplier and sample rate; its count is steps.

    `state` is the result of ``accountant.state_dict()``, possibly read back from JSON, or a checkpoint that
    holds it. Opacus' accountants know add-or-remove-one only. The unit is one example of the data loader;
    name another unit only if each unit has one example.

    Raises `UsageError`: this is not an accountant's state, or it holds two; `ClaimMismatch`: another
    relation; `InvalidParameter`: a noise multiplier, sample rate or number of steps outside its range.
    """
    if neighbouring != Neighbouring.ADD_OR_REMOVE_ONE:
        what = f"Opacus' history for a ledger under {str(neighbouring)!r}"
        why = "a multiplier is the noise over the clipping norm, the change from adding an example"
        remedy = f"leave it out: a history is about {str(Neighbouring.ADD_OR_REMOVE_ONE)!r}"
        raise ClaimMismatch(what, where="neighbouring", why=why, remedy=remedy)
    if isinstance(state, Mapping) and "history" in state and IN_CHECKPOINT in state:
        what = "two histories"
        remedy = f"give accountant.state_dict() alone, or a checkpoint with its {IN_CHECKPOINT!r}"
        raise UsageError(what, where="state", why="it does not say which one is the run's", remedy=remedy)
    inner = state.get(IN_CHECKPOINT, state) if isinstance(state, Mapping) else state
    history = inner.get("history") if isinstance(inner, Mapping) else None
    if not isinstance(inner, Mapping) or not isinstance(history, list | tuple):
        why = "only an accountant's history shows the releases"
        remedy = f"give accountant.state_dict(), or a checkpoint with its {IN_CHECKPOINT!r}"
        raise UsageError("no history of an accountant", where="state", why=why, remedy=remedy)
    releases = releases_of(history, "history", _ENTRY, "give the history of accountant.state_dict()", _step)
    accountant = str(inner.get("mechanism", "not named"))
    parameters = {"source": "opacus", "accountant": accountant, "taken on trust": list(TAKEN_ON_TRUST)}
    return declared_ledger(releases, algorithm, unit, Neighbouring.ADD_OR_REMOVE_ONE, parameters)


def read_checkpoint(path: str | Path) -> Mapping[str, Any]:
    """Return a checkpoint file's content, read by torch in weights-only mode: numbers and containers.

    Raises `MissingExtra`: torch is not installed, or too old to read foreign files safely; `UsageError`: this
    is not a checkpoint, or it holds objects of other kinds.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtra("a checkpoint needs torch", where=str(path), remedy=_WITHOUT_TORCH) from None
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < _SAFE_TORCH:
        what = f"a checkpoint needs torch 2.6 or newer, this is {torch.__version__}"
        why = "older versions can run code from the file, even in weights-only mode"
        raise MissingExtra(what, where=str(path), why=why, remedy=_WITHOUT_TORCH)
    try:
        with Path(path).open("rb") as file:
            state = torch.load(file, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001  (torch specifies no error type for a broken file)
        what = f"torch does not read it as weights: {str(error).splitlines()[0] if str(error) else error!r}"
        where = str(path)
        why = "reading objects of other kinds could run code"
        raise UsageError(what, where=where, why=why, remedy="write accountant.state_dict() as JSON") from None
    if not isinstance(state, Mapping):
        what = f"a checkpoint that holds a {type(state).__name__}"
        remedy = "give a file that PrivacyEngine.save_checkpoint wrote"
        raise UsageError(what, where=str(path), why="an accountant's state is a dictionary", remedy=remedy)
    return state


_WITHOUT_TORCH = "pip install 'dpaudit[opacus]', or write accountant.state_dict() as JSON"


def _step(place: str, multiplier: Any, rate: Any, steps: Any) -> tuple[PoissonSampled, int]:
    whole = isinstance(steps, numbers.Integral) and not isinstance(steps, bool)
    if not whole or not 0 < int(steps) <= _MOST_STEPS:
        why = "the number of steps is an integer of at most a billion"
        remedy = "give the number of optimizer steps as an integer, such as 5, not 5.0 or '5'"
        raise InvalidParameter(f"{steps!r:.40} steps", where=place, why=why, remedy=remedy)
    noise = Gaussian(sigma=multiplier, sensitivity=L2(1.0))
    return PoissonSampled(rate=rate, mechanism=noise), int(steps)


IMPORTER = Importer(has_field("history", IN_CHECKPOINT), from_opacus, Neighbouring.ADD_OR_REMOVE_ONE)
