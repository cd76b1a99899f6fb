"""Which release made the budget grow, told from certificates and from ledgers."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit import (
    L2,
    RDP,
    ZCDP,
    ApproxDP,
    Claim,
    Gaussian,
    Ledger,
    Partition,
    PureDP,
    Release,
    judge,
)
from dpaudit.accountants.accounting import account
from dpaudit.app.text.compared import Comparison, Side
from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.claims.relations import View
from tests import make

Write = Callable[..., Path]


CLAIMED = ZCDP(rho=2.0)


def gaussian(rho: float, label: str, count: int = 1, partition: str | None = None) -> Release:
    mechanism = Gaussian(sigma=(0.5 / rho) ** 0.5, sensitivity=L2(1.0, "proved"))
    part = None if partition is None else Partition(part=partition)
    return Release(label=label, mechanism=mechanism, count=count, partition=part)


def ledger_of(*releases: Release, claim: AnyGuarantee | None = CLAIMED, **header: Any) -> Ledger:
    about = {"neighbouring": "replace-one", **header}
    return make.ledger(*releases, claim=None if claim is None else Claim(claim), **about)


NAMES = map("ledger-{}".format, itertools.count())


@pytest.fixture(params=["certificate", "ledger"])
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Write:
    """Both kinds of file say the same."""

    def written(*releases: Release, **options: Any) -> Path:
        ledger, path = ledger_of(*releases, **options), tmp_path / next(NAMES)
        if request.param == "ledger":
            return ledger.write(path)
        return judge(ledger, account(ledger), [], command="c").write(path)

    return written


BASE = (gaussian(0.25, "counts"), gaussian(0.5, "sums"), gaussian(0.125, "means"))


def test_nothing_changed(write: Write, answer: Any, dpaudit: Any) -> None:
    one, two = write(*BASE), write(*BASE)
    status, found = answer("diff", one, two)
    assert (status, found["grew"], found["releases"]) == (0, False, [])
    assert "every release is the same" in dpaudit("diff", one, two).stdout


@pytest.mark.parametrize(
    ("head", "label", "status", "growth"),
    [
        ((gaussian(0.5, "counts"), *BASE[1:]), "counts", "costlier", 0.25),
        ((*BASE, gaussian(0.375, "new")), "new", "new", 0.375),
        ((*BASE, BASE[0]), "counts", "new", 0.25),
        ((BASE[0], gaussian(0.5, "sums", count=2), BASE[2]), "sums", "costlier", 0.5),
    ],
)
def test_the_release_that_grew_comes_first(
    write: Write, answer: Any, dpaudit: Any, head: tuple[Release, ...], label: str, status: str, growth: float
) -> None:
    one, two = write(*BASE), write(*head)
    code, found = answer("diff", one, two)
    assert (code, found["grew"], found["total"]["grew"], found["claim"]["grew"]) == (1, True, True, False)
    first, *rest = found["releases"]
    assert (first["label"], first["status"], rest) == (label, status, [])
    assert first["growth"] == pytest.approx(growth)
    text = dpaudit("diff", one, two)
    assert text.exit_code == 1
    assert "the budget GREW" in text.stdout
    assert f"+{growth:g}" in text.stdout
    # The other way round it shrank, which is no reason to fail.
    code, found = answer("diff", two, one)
    assert (code, found["grew"]) == (0, False)
    assert found["releases"][0]["status"] in {"gone", "cheaper"}


def test_one_release_may_grow_while_the_budget_shrinks(write: Write, answer: Any) -> None:
    head = (gaussian(0.3, "counts"), gaussian(0.25, "sums"), BASE[2])
    code, found = answer("diff", write(*BASE), write(*head))
    assert (code, found["grew"]) == (0, False)
    assert [(r["label"], r["status"]) for r in found["releases"]] == [
        ("counts", "costlier"),
        ("sums", "cheaper"),
    ]
    assert "sigma" in found["releases"][0]["why"]


def test_a_part_that_became_the_whole(write: Write, answer: Any) -> None:
    halves = (gaussian(0.5, "one", partition="left"), gaussian(0.5, "two", partition="right"))
    whole = (halves[0].model_copy(update={"partition": None}), halves[1])
    code, found = answer("diff", write(*halves), write(*whole))
    assert (code, found["grew"]) == (1, True)
    (release,) = found["releases"]
    assert (release["label"], release["status"], release["growth"]) == ("one", "changed", 0.0)
    assert "partition part left -> none" in release["why"]


def test_a_looser_claim_is_growth_too(write: Write, answer: Any) -> None:
    tight, loose, none = (write(*BASE, claim=ZCDP(rho=rho)) for rho in (1.0, 2.0, 1.0 + 1e-12))
    assert answer("diff", tight, loose)[1]["claim"]["grew"] is True
    assert answer("diff", tight, loose)[0] == 1
    assert answer("diff", loose, tight)[0] == 0
    assert answer("diff", tight, none)[0] == 0  # within the tolerance of claims


@pytest.mark.parametrize(
    ("options", "term"),
    [
        ({"unit": "user"}, "unit"),
        ({"neighbouring": "zero-out"}, "neighbouring"),
        ({"group_size": 2}, "group_size"),
        ({"trust_model": "local"}, "trust_model"),
        ({"schedule": "filtered", "budget": ZCDP(rho=2.0)}, "schedule"),
    ],
)
def test_other_terms_are_not_compared(write: Write, answer: Any, options: dict[str, Any], term: str) -> None:
    code, found = answer("diff", write(*BASE), write(*BASE, **options))
    assert (code, found["grew"]) == (1, None)
    assert [changed["name"] for changed in found["terms"]] == [term]


def test_certificates_on_two_scales_are_not_compared(dpaudit: Any, tmp_path: Path) -> None:
    ledgers = [ledger_of(*BASE), ledger_of(*BASE, claim=ApproxDP(epsilon=9.0, delta=1e-6))]
    files = [
        judge(x, account(x), [], command="c").write(tmp_path / f"{i}.json") for i, x in enumerate(ledgers)
    ]
    result = dpaudit("diff", *files)
    assert result.exit_code == 1
    assert "cannot be compared" in result.stdout


def test_ledgers_are_accounted_for_on_the_scale_of_the_new_claim(answer: Any, tmp_path: Path) -> None:
    one = ledger_of(*BASE).write(tmp_path / "one")
    two = ledger_of(*BASE[:2], claim=ApproxDP(epsilon=9.0, delta=1e-6)).write(tmp_path / "two")
    code, found = answer("ledger", "diff", one, two)
    assert code == 1  # the claims are on two scales
    assert found["total"]["grew"] is False
    assert found["total"]["base"].startswith("(")
    free = ledger_of(*BASE, claim=None).write(tmp_path / "free")
    assert answer("ledger", "diff", free, free)[0] == 0
    assert answer("ledger", "diff", one, free)[0] == 1  # a claim was taken back


def test_a_certificate_and_its_ledger_say_the_same(answer: Any, tmp_path: Path) -> None:
    ledger = ledger_of(*BASE)
    file = ledger.write(tmp_path / "ledger.jsonl")
    certificate = judge(ledger, account(ledger), [], command="c").write(tmp_path / "certificate.json")
    for pair in ((file, certificate), (certificate, file)):
        code, found = answer("diff", *pair)
        assert (code, found["grew"], found["releases"]) == (0, False, [])
    assert answer_code(answer, "ledger", "diff", file, certificate) == 2


def answer_code(answer: Any, *arguments: object) -> int:
    try:
        code: int = answer(*arguments)[0]
    except json.JSONDecodeError:
        return 2
    return code


@pytest.mark.parametrize(
    ("base", "head", "grew"),
    [
        (PureDP(epsilon=1.0), PureDP(epsilon=1.1), True),
        (PureDP(epsilon=1.0), PureDP(epsilon=1.0 + 1e-12), False),
        (PureDP(epsilon=1.0), ZCDP(rho=0.1), None),
        (ApproxDP(epsilon=1.0, delta=1e-6), ApproxDP(epsilon=1.0, delta=1e-5), True),
        (ApproxDP(epsilon=1.0, delta=1e-6), ApproxDP(epsilon=0.9, delta=1e-5), None),
        (ApproxDP(epsilon=1.0, delta=1e-5), ApproxDP(epsilon=0.9, delta=1e-6), False),
        (RDP(alpha=2.0, epsilon=1.0), RDP(alpha=2.0, epsilon=2.0), True),
        (RDP(alpha=2.0, epsilon=1.0), RDP(alpha=3.0, epsilon=1.0), None),
        (None, PureDP(epsilon=1.0), False),
        (PureDP(epsilon=1.0), None, True),
        (None, None, False),
    ],
)
def test_when_a_claim_grew(base: AnyGuarantee | None, head: AnyGuarantee | None, grew: bool | None) -> None:
    sides = [Side(terms={}, claim=claim, total=None, releases=()) for claim in (base, head)]
    assert Comparison(*sides).claim_grew is grew


def test_views_are_terms() -> None:
    ledger = ledger_of(*BASE, claim=None)
    sides = [
        Side.of_ledger(ledger.header, account(ledger, Claim(ZCDP(rho=2.0), view=view)))
        for view in (View.ALL_RELEASES, View.FINAL_OUTPUT)
    ]
    assert [name for name, _, _ in Comparison(*sides).terms] == ["view"]


def test_damaged_files_exit_2_or_3(dpaudit: Any, tmp_path: Path) -> None:
    ledger = ledger_of(*BASE)
    good = ledger.write(tmp_path / "good.jsonl")
    certificate = judge(ledger, account(ledger), [], command="c").write(tmp_path / "good.json")
    damaged = tmp_path / "damaged"
    dice = np.random.default_rng(7)
    codes = set()
    for source in (good.read_bytes(), certificate.read_bytes()):
        for _ in range(30):
            content = bytearray(source)
            content[dice.integers(len(content))] ^= 1 << int(dice.integers(8))
            damaged.write_bytes(content)
            result = dpaudit("diff", good, damaged)
            assert "fault in dpaudit" not in result.stderr, result.stderr
            # A flip within free text of a certificate, such as its command, is no damage that it could tell.
            assert result.exit_code in {2, 3} or (source.startswith(b"{\n") and result.exit_code in {0, 1})
            codes.add(result.exit_code)
        damaged.write_bytes(source[: len(source) // 2])
        assert dpaudit("diff", damaged, good).exit_code in {2, 3}
    assert {2, 3} <= codes
    for path in (tmp_path, tmp_path / "nowhere"):
        assert dpaudit("diff", path, good).exit_code == 2
        assert dpaudit("ledger", "diff", good, path).exit_code == 2
