"""The gate of the merge base: a change is judged by the rules in force before it.

What the working tree's configuration loosens, removes or waives compared with the merge base is a finding;
what it tightens or adds counts. Exceptions are in `policy.allowed-changes` of the merge base.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

from dpaudit.app.gate.audit_plan import Profile, effort_of, gate_confidence
from dpaudit.app.gate.configuration import Configuration, parse_configuration
from dpaudit.app.gate.report import GateFinding, Place
from dpaudit.app.gate.settings import ClaimSettings, Gate, Target, Waiver
from dpaudit.app.git import SUBMODULE, git, modes_at, path_in_repository, regular_file_at
from dpaudit.auditors.replay.replay import MOST
from dpaudit.errors import UsageError
from dpaudit.pipeline.files import LEDGER


@dataclass(frozen=True)
class Held:
    """The gate to judge by.

    `findings` are about what the change loosened; `baselines` are the merge base's certificates, as files, by
    the paths that the configuration gives them.
    """

    gate: Gate
    findings: tuple[GateFinding, ...] = ()
    baselines: Mapping[str, Path] = field(default_factory=dict)


def held_to_base(
    configuration: Configuration, reference: str, *, profile: Profile, scratch: Path, at: Callable[..., Place]
) -> Held:
    """The gate of the working tree, with every loosened value as it is at the merge base with `reference`.

    Args:
        configuration: the working tree's.
        reference: a branch, tag or commit.
        profile: whose efforts count; findings are about those of the other one too.
        scratch: an empty folder, into which the baselines of the merge base are written.
        at: the place of a key of the working tree's configuration.

    Raises:
        UsageError: there is no repository, no such reference or no merge base; a baseline or the
            configuration stood behind a link or a submodule; or the merge base names a baseline it lacks.
        ConfigurationError: the configuration of the merge base cannot be followed.
    """
    folder, name = configuration.path.parent, configuration.path.name
    commit = _merge_base(folder, reference)
    _require_same_repository(folder, name, reference)
    working = configuration.gate or Gate()
    content = regular_file_at(folder, commit, name)
    if content is None:
        return Held(working)
    base = parse_configuration(folder / f"{name} at {commit[:12]}", content).gate
    if base is None:
        return Held(working)
    findings: dict[tuple[object, ...], GateFinding] = {}
    gate = _Comparison(base, working, profile, at, findings).held()
    for other in get_args(Profile):  # a later run would be judged by this configuration
        _Comparison(base, working, other, at, findings).held()
    known = _baselines(base)
    found = {}
    for path in _baselines(gate):
        file = _baseline_at(folder, commit, path, scratch)
        if file is not None:
            found[path] = file
        elif path in known and path_in_repository(folder, path) is not None:
            why = "the working tree's copy is what the change says, and no baseline of it"
            remedy = "commit the baseline before the change, or leave the key out"
            raise UsageError(f"{path} is not at {commit[:12]}", where="baseline", why=why, remedy=remedy)
    return Held(gate, tuple(findings.values()), found)


def _baselines(gate: Gate) -> set[str]:
    checks = (*gate.targets.values(), *gate.ledgers.values())
    return {check.baseline for check in checks if check.baseline is not None}


def require_no_link(configuration: Path) -> None:
    """Raise `UsageError` for a configuration behind a link: the merge base has none under that other name.

    A link above the outermost repository, such as /tmp on macOS, is no part of any change.
    """
    absolute = Path(os.path.abspath(configuration))  # noqa: PTH100  (which follows links)
    repositories = (folder for folder in reversed(absolute.parents) if (folder / ".git").exists())
    root = next(repositories, Path(absolute.anchor))
    if root.resolve() / absolute.relative_to(root) != absolute.resolve():
        what, why = f"{configuration} is a link, or lies behind one", "the rules are those of one file"
        raise UsageError(what, where="--base", why=why, remedy="put the file itself there, or name it")


def _require_same_repository(folder: Path, name: str, reference: str) -> None:
    """Raise `UsageError` if a submodule replaced the folder that held the configuration.

    Otherwise the change could choose its own rules through the submodule's commits.
    """
    outer = (git(folder, "rev-parse", "--show-superproject-working-tree") or b"").decode().strip()
    if not outer:
        return
    try:
        commit = _merge_base(Path(outer), reference)
    except UsageError:  # the reference exists only in the submodule
        return
    if SUBMODULE in modes_at(Path(outer), commit, str(folder / name)).values():
        return
    if regular_file_at(Path(outer), commit, str(folder / name)) is not None:
        what, why = f"{name} now lies in a submodule", "the rules are those of the outer repository"
        raise UsageError(what, where="--base", why=why, remedy="keep the configuration where it was")


def _larger(before: Any, after: Any) -> bool:
    return before is not None and (after is None or isinstance(after, str) or before < after)


def _delta_larger(before: Any, after: Any) -> bool:
    return isinstance(before, str) or _larger(before, after)


def _smaller(before: Any, after: Any) -> bool:
    return before is not None and (after is None or after < before)


def _fewer(before: Any, after: Any) -> bool:
    """As many replays as may decide, which None stands for, may be fewer than any number that is stated."""
    return after is None or after < (MOST if before is None else before)


def _wider(before: Any, after: Any) -> bool:
    return before is not None and (after is None or not set(after) <= set(before))


def _dropped(before: bool, after: bool) -> bool:
    return before and not after


def _taken_up(before: bool, after: bool) -> bool:
    return after and not before


def _removed_or_changed(before: Any, _after: Any) -> bool:
    return before is not None


def _chosen(_before: Any, after: Any) -> bool:
    return bool(after != "fresh")


def _changed(_before: Any, _after: Any) -> bool:
    return True


def _claim_looser(before: ClaimSettings | None, after: ClaimSettings | None) -> bool:
    """Whether a claim is no longer at least as strong; claims of different kinds are not compared."""
    if before is None or after is None:
        return True
    numbers = {"epsilon", "delta", "rho", "mu"}
    same_kind = all((getattr(before, n) is None) == (getattr(after, n) is None) for n in numbers)
    weaker = any(_larger(getattr(before, n), getattr(after, n)) for n in numbers)
    return not same_kind or weaker or before.model_dump(exclude=numbers) != after.model_dump(exclude=numbers)


#: Whether a key's new value, which differs from the old one, asks for less. What `_changed` compares may ask
#: for less, and is judged as it is now.
_POLICY: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "max_epsilon": _larger,
    "delta_at_most": _delta_larger,
    "allowed_samplers": _wider,
    "fail_on_increase": _dropped,
    "allowed_changes": _wider,
}
_CHECK: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "claim": _claim_looser,
    "n": _smaller,
    "baseline": _removed_or_changed,
    "allow_unhashed": _taken_up,
    **dict.fromkeys(("ledger", "target", "data", "pair", "parameters", "users"), _changed),
    "budget_rho": _larger,
    "budget_mu": _larger,
}
_EFFORT: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "method": _removed_or_changed,
    "trials": _fewer,
    "time_limit": _smaller,
    "seed": _chosen,
}


class _Comparison:
    """Compares the working gate with its base, key by key, and keeps the stricter of the two.

    `findings` get one for every key that is loosened, unless they have one.
    """

    def __init__(
        self,
        base: Gate,
        working: Gate,
        profile: Profile,
        at: Callable[..., Place],
        findings: dict[tuple[object, ...], GateFinding],
    ) -> None:
        self._base, self._working, self._profile, self._at = base, working, profile, at
        self._allowed = set(base.policy.allowed_changes)
        self._findings = findings

    def held(self) -> Gate:
        """The working gate, with the base's value of each key that was loosened."""
        base, working = self._base, self._working
        kept: dict[str, Any] = {
            "policy": self._table(base.policy, working.policy, _POLICY, ("policy",)),
            "targets": self._checks("targets", base.targets, working.targets),
            "ledgers": self._checks("ledgers", base.ledgers, working.ledgers),
            "waivers": [waiver for i, waiver in enumerate(working.waivers) if self._stands(i, waiver)],
        }
        before, after = gate_confidence(base, self._profile), gate_confidence(working, self._profile)
        if before < after and not self._loosened(("audit", "confidence"), before, after, "confidence"):
            profile = getattr(working.profile, self._profile).model_copy(update={"confidence": before})
            kept["profile"] = working.profile.model_copy(update={self._profile: profile})
        return working.model_copy(update=kept)

    def _checks(self, kind: str, base: Mapping[str, Any], working: Mapping[str, Any]) -> dict[str, Any]:
        held = dict(working)
        for name, old in base.items():
            new = working.get(name)
            if new is None:
                message = f"[tool.dpaudit.{kind}] has {name} at the merge base, and no longer here"
                self._finds("target-removed", name, message, (kind,), check=name)
                continue
            held[name] = self._table(old, new, _CHECK, (kind, name), check=name)
            if isinstance(old, Target):
                before = effort_of(self._base, self._profile, old.audit)
                after = effort_of(self._working, self._profile, new.audit)
                effort = self._table(before, after, _EFFORT, (kind, name, "audit"), check=name)
                if effort.trials is None and after.trials is not None:  # nor may a wider table say it
                    effort = effort.model_copy(update={"trials": MOST})
                held[name] = held[name].model_copy(update={"audit": effort})
        return held

    def _table(
        self,
        old: Any,
        new: Any,
        looser: Mapping[str, Callable[[Any, Any], bool]],
        key: tuple[str, ...],
        *,
        check: str = "",
    ) -> Any:
        """One table, with the base's value of each key that is loosened."""
        kept: dict[str, Any] = {}
        for name in looser.keys() & type(old).model_fields.keys():
            before, after = getattr(old, name), getattr(new, name)
            if before == after or not looser[name](before, after):
                continue
            allowed = self._loosened((*key, name.replace("_", "-")), before, after, check)
            if not allowed and looser[name] is not _changed:
                kept[name] = before
        return new.model_copy(update=kept)

    def _loosened(self, key: tuple[str, ...], before: Any, after: Any, check: str) -> bool:
        message = f"{'.'.join(key)} is {_shown(before)} at the merge base, and {_shown(after)} here"
        message += f", in the profile {self._profile}" if "audit" in key else ""
        return self._finds("policy-loosened", check or key[-1], message, key, check=check)

    def _stands(self, position: int, waiver: Waiver) -> bool:
        """Whether a waiver counts: the base has it, until the same day or later, or allows new ones."""
        known = {(old.check, old.finding): old.expires for old in self._base.waivers}
        until = known.get((waiver.check, waiver.finding))
        if until is not None and waiver.expires <= until:
            return True
        before = "the merge base has none" if until is None else f"at the merge base it ends on {until}"
        message = f"a waiver of {waiver.finding} until {waiver.expires}; {before}"
        return self._finds("waiver-added", waiver.check, message, ("waivers", position), check=waiver.check)

    def _finds(self, rule: str, name: str, message: str, key: tuple[str | int, ...], *, check: str) -> bool:
        """Note a change, and return whether the base allows it: by its rule, or by rule and name."""
        allowed = not self._allowed.isdisjoint({rule, f"{rule}:{name}"})
        words = f"{message}; allowed by allowed-changes at the merge base" if allowed else message
        shown = "allowed-change" if allowed else rule
        self._findings.setdefault((rule, check, *key), GateFinding(shown, check, words, self._at(*key)))
        return allowed


def _shown(value: Any) -> str:
    if isinstance(value, ClaimSettings):
        return str({name: str(part) for name, part in value if part is not None})
    return "not set" if value is None else str(value)


def _baseline_at(folder: Path, commit: str, path: str, scratch: Path) -> Path | None:
    """A certificate of the merge base with the ledger beside it, as files; None where it has none there.

    Raises `UsageError` as `regular_file_at`.
    """
    content = regular_file_at(folder, commit, path)
    if content is None:
        return None
    own = scratch / str(len(list(scratch.iterdir())))
    own.mkdir()
    (own / Path(path).name).write_bytes(content)
    ledger = regular_file_at(folder, commit, str(Path(path).with_name(LEDGER)))
    if ledger is not None:
        (own / LEDGER).write_bytes(ledger)
    return own / Path(path).name


def _merge_base(folder: Path, reference: str) -> str:
    """Return the last common commit of the working tree and `reference`."""
    why = "the rules of a change are those of its merge base"
    remedy = "fetch it with its history: `git fetch --unshallow`, or fetch-depth: 0 in actions/checkout"
    if shutil.which("git") is None:
        raise UsageError("git is not installed", where="--base", remedy="install it, or leave --base out")
    commit = git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}")
    if commit is None:
        what = f"no commit is called {reference!r} in the repository of {folder}"
        raise UsageError(what, where="--base", why=why, remedy=remedy)
    found = git(folder, "merge-base", commit.decode().strip(), "HEAD")
    if found is None:
        what = f"{reference!r} and HEAD have no common commit"
        raise UsageError(what, where="--base", why=why, remedy=remedy)
    return found.decode().strip()
