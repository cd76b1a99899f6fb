"""Releases of one sample: what a plan and a ledger made by hand say of them, and what a user is told.

Planted: several releases on one sample, with a claim that only samples of their own would meet. The innocent
twin is the same plan with a claim that holds on one sample, or with samples of their own.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

from dpaudit import L2, ApproxDP, Claim, Gaussian, Header, Ledger, Pair, Release, certify
from dpaudit.app.main import main
from dpaudit.curator.curator import Curator
from dpaudit.mechanisms import PoissonSampled
from tests.seams.case import Case

_KIND = "several releases on one sample"
_SUM = 'mechanism = "gaussian"\nsigma = {sigma}\nrate = 0.01\nsteps = 1000'
_FIXED = 'mechanism = "gaussian"\nsigma = 3\nsize = 100\nunits = 10000\nsensitivity = 2\nsteps = 1000'
_CUT = _FIXED.replace("size = 100", "rate = 0.01\nmost = 150\ncontribution = 2")
_LAPLACE = 'mechanism = "laplace"\nscale = 20\nrate = 0.1\nsteps = 100'
_WHOLE = 'mechanism = "discrete-gaussian"\nsigma = 1.5\nrate = 0.01\nsteps = 1000'


def _plan(*releases: str, sample: str | None) -> str:
    more = "" if sample is None else f'\nsample = "{sample}"'
    return "\n".join(f"[[release]]\n{release}{more}\n" for release in releases)


def _printed(answer: Mapping[str, Any], condition: Any) -> str:
    claim = next(iter(answer["claims"]))
    bound = next(b for b in answer["bounds"] if b.get("delta") == claim["delta"])
    known = [one for one in condition if one["code"] == "fresh-samples"]
    said = f", {known[0]['releases']['number']} releases state no sample" if known else ""
    return f"{claim['verdict']} {bound['epsilon']:.4f}{said}"


def _asked(plan: str, claim: float) -> Callable[[], str]:
    def verdict() -> str:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plan.toml"
            path.write_text(plan)
            asked = ["epsilon", str(path), "--delta", "1e-5", "--claim", str(claim)]
            made = CliRunner().invoke(main, [*asked, "--output-format", "json"])
        if made.exit_code not in {0, 1}:
            return made.stderr.partition("\n")[0]
        answer = json.loads(made.stdout)
        return _printed(answer, answer["not_checked"])

    return verdict


def _verified(sample: str | None, claim: float) -> Callable[[], str]:
    """A ledger made by hand, as `dpaudit verify` reads it."""

    def verdict() -> str:
        stated = Claim(ApproxDP(epsilon=claim, delta=1e-5), unit="client", neighbouring="add-or-remove-one")
        ledger = Ledger(
            Header(algorithm="rounds", unit="client", neighbouring="add-or-remove-one", claim=stated)
        )
        mechanism = PoissonSampled(rate=0.01, mechanism=Gaussian(sigma=1.5, sensitivity=L2(1.0)))
        for step in range(1000):
            name = None if sample is None else f"{sample} {step}"
            for label in ("update", "clipped"):
                ledger.append(Release(label=label, mechanism=mechanism, sample=name))
        with tempfile.TemporaryDirectory() as folder:
            path = ledger.write(Path(folder) / "ledger.jsonl")
            made = CliRunner().invoke(main, ["verify", str(path), "--output-format", "json"])
        (answer,) = json.loads(made.stdout) if made.stdout.startswith("[") else (json.loads(made.stdout),)
        known = [one for one in answer["not_checked"] if one["code"] == "fresh-samples"]
        said = f", {known[0]['releases']['number']} releases state no sample" if known else ""
        return f"{answer['verdict']} {answer['bounds'][0]['epsilon']:.4f}{said}"

    return verdict


def _certified(claim: float) -> Callable[[], str]:
    """A run whose two sums are made on one draw of the curator's."""

    def verdict() -> str:
        mechanism = PoissonSampled(rate=0.3, mechanism=Gaussian(sigma=2.0, sensitivity=L2(1.0)))

        def sums(data: Any, curator: Curator) -> Any:
            first = curator.batches(mechanism, "update", (), bound=1.0)
            second = curator.batches(mechanism, "clipped", (), bound=1.0, draw_with=first)
            places = first.draw(len(data))
            for each in (first, second):
                each.add(data[places])
            return [each.noisy().tolist() for each in (first, second)]

        data = np.array([1.0, 0.5, 0.2, 0.0])
        stated = Claim(ApproxDP(epsilon=claim, delta=1e-3), unit="row", neighbouring="add-or-remove-one")
        made = certify(sums, data, claim=stated, pairs=[Pair(data, data[1:])], seed=1)
        known = {str(one.code) for one in made.not_checked}
        said = ", fresh samples not checked" if "fresh-samples" in known else ""
        return f"{made.proof} {made.experiment}{said}"

    return verdict


_TWO = [_SUM.format(sigma=1.5)] * 2
_EIGHT = [_SUM.format(sigma=2.8284271)] * 8


def _case(name: str, plan: str, claim: float, expected: str, *, planted: bool = True) -> Case:
    return Case(_KIND, name, planted, _asked(plan, claim), expected)


def _twins(name: str, releases: list[str], claim: float, one: str, own: str) -> list[Case]:
    """On one sample, and on samples of their own, which meet the claim."""
    apart = "".join(_plan(release, sample=f"s{i}") for i, release in enumerate(releases))
    return [
        _case(name, _plan(*releases, sample="s"), claim, f"NOT_PROVED {one}"),
        _case(f"{name}, each on its own", apart, claim, f"PROVED {own}", planted=False),
    ]


CASES: list[Case] = [
    _case("two sums on one sample", _plan(*_TWO, sample="clients"), 1.4, r"NOT_PROVED 1\.6238"),
    _case(
        "two sums on one sample, claimed so",
        _plan(*_TWO, sample="clients"),
        1.63,
        r"PROVED 1\.6238",
        planted=False,
    ),
    _case(
        "two sums, no sample stated",
        _plan(*_TWO, sample=None),
        1.4,
        r"PROVED 1\.3228, 2 releases state no sample",
    ),
    _case(
        "two sums, each on a sample of its own",
        _plan(_TWO[0], sample="one") + _plan(_TWO[1], sample="other"),
        1.4,
        r"PROVED 1\.3228",
        planted=False,
    ),
    _case("eight layers on one batch", _plan(*_EIGHT, sample="batch"), 1.3, r"NOT_PROVED 1\.8282"),
    _case(
        "eight layers on one batch, claimed so",
        _plan(*_EIGHT, sample="batch"),
        1.83,
        r"PROVED 1\.8282",
        planted=False,
    ),
    Case(_KIND, "ledger by hand on one sample a step", True, _verified("step", 1.4), r"NOT_PROVED 1\.6238"),
    Case(
        _KIND,
        "ledger by hand on one sample a step, claimed so",
        False,
        _verified("step", 1.63),
        r"PROVED 1\.6238",
    ),
    Case(
        _KIND,
        "ledger by hand, no sample stated",
        True,
        _verified(None, 1.4),
        r"PROVED 1\.3228, 2000 releases state no sample",
    ),
    *_twins("sums on one sample of a fixed size", [_FIXED] * 2, 1.4, r"1\.6238", r"1\.3228"),
    *_twins("sums on one sample that is cut", [_CUT] * 2, 1.4, r"1\.623\d", r"1\.3228"),
    *_twins("Laplace noise twice on one sample", [_LAPLACE] * 2, 0.3, r"0\.3397", r"0\.2309"),
    *_twins("Gaussian and whole noise on one sample", [_TWO[0], _WHOLE], 1.4, r"\d\.\d+", r"1\.3\d+"),
    Case(_KIND, "a run on one draw", True, _certified(0.75), r"NOT_PROVED \w+"),
    Case(_KIND, "a run on one draw, claimed so", False, _certified(1.3), r"PROVED NOT_REFUTED"),
    _case(
        "a sample that names no draw",
        _plan('mechanism = "gaussian"\nsigma = 2', sample="s"),
        9.0,
        r"error: DPA101 .*release 1: .*sample 's' for a gaussian mechanism.*",
    ),
    _case(
        "two rates for one sample",
        _plan(_TWO[0], _TWO[0].replace("0.01", "0.02"), sample="s"),
        9.0,
        r"error: DPA101 .*sample 's' with rate 0\.02, which an earlier release states with rate 0\.01",
    ),
    _case(
        "two relations for one sample",
        _plan(_TWO[0], f'{_TWO[0]}\nneighbouring = "replace-one"', sample="s"),
        9.0,
        r"error: DPA105 .*release 2: neighbouring: a relation of its own, 'replace-one'",
    ),
]
