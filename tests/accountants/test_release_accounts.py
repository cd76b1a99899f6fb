"""Release by release: a stream and a ledger in memory say the same, and no failing release is lost."""

import math
from pathlib import Path
from typing import Any

import pytest

from dpaudit import (
    GDP,
    L2,
    ZCDP,
    ApproxDP,
    Claim,
    Gaussian,
    Ledger,
    OpaquePureDP,
    Proof,
    PureDP,
    RandomizedResponse,
    Release,
)
from dpaudit.accountants.accounting import account, bounds
from dpaudit.accountants.composition.composition import compose
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.errors import CannotBound
from dpaudit.ledger.file import LedgerStream
from tests import make
from tests.sweeps import sweep

HEADER = make.header("replace-one", unit="u", claim=Claim(ZCDP(rho=1e6)), schedule="fixed")
GAUSSIAN = make.gaussian(2.0)  # rho = 1/8
LAPLACE = make.laplace(2.0)  # epsilon = 1/2


def ledger(*releases: Release) -> Ledger:
    return make.ledger(*releases, **dict(HEADER))


def claimed(
    label: str, mechanism: Any, claim: Any = None, count: int = 1, part: str | None = None
) -> Release:
    return make.release(mechanism, count, part=part, label=label, claimed=claim)


MIXED = [
    claimed("plain 1", GAUSSIAN, ZCDP(rho=0.125)),
    claimed("plain 2", GAUSSIAN, ZCDP(rho=0.124)),
    claimed("pure", LAPLACE, PureDP(epsilon=0.5)),
    claimed("pure, too little", LAPLACE, PureDP(epsilon=0.49)),
    claimed("no pure bound", GAUSSIAN, PureDP(epsilon=100.0)),
    claimed("answers", RandomizedResponse(epsilon=1.0), PureDP(epsilon=1.0)),
    claimed("other scale", GAUSSIAN, GDP(mu=0.5)),
    claimed("other scale, too little", GAUSSIAN, GDP(mu=0.49)),
    claimed("approximate", GAUSSIAN, ApproxDP(epsilon=2.5, delta=1e-6)),
    claimed("many", LAPLACE, None, count=10**12),
    claimed("three", GAUSSIAN, ZCDP(rho=0.375), count=3, part="a"),
    claimed("three", GAUSSIAN, ZCDP(rho=0.374), count=3, part="a"),
    claimed("extreme", Gaussian(sigma=1e70, sensitivity=L2(1.0, "proved")), ZCDP(rho=0.0)),
    claimed("vendor", OpaquePureDP(epsilon=0.1, justification="w")),
]
FAILING = {"plain 2", "pure, too little", "no pure bound", "other scale, too little", "three", "extreme"}


def test_each_release_costs_what_it_costs_alone() -> None:
    found = account(ledger(*MIXED))
    assert [row.label for row in found.releases] == [release.label for release in MIXED]
    for row, release in zip(found.releases, MIXED, strict=True):
        wanted = release.claimed or ZCDP(rho=0.0)
        alone = compose([release], HEADER.neighbouring)
        (exact, *_) = bounds(alone, wanted) or bounds(alone, ZCDP(rho=0.0))
        assert row.proved.kind == exact.guarantee.kind
        single, many = leading_figure(exact.guarantee), leading_figure(row.proved)
        assert single <= many <= single * (1 + 1e-12)
    failing = [row.label for row in found.releases if row.verdict is Proof.NOT_PROVED]
    assert (set(failing), len(failing)) == (FAILING, 6)
    assert (found.overview.total, found.overview.claimed, found.overview.failed) == (14, 12, 6)
    assert not found.all_proved


def test_a_stream_is_accounted_for_as_its_ledger_in_memory(tmp_path: Path) -> None:
    whole = ledger(*MIXED)
    path = whole.write(tmp_path / "l.jsonl")
    with LedgerStream(path) as stream:
        assert account(stream) == account(whole)
    assert account(Ledger.read(path)) == account(whole)


@sweep("repeat", [1, 700], everyday=(0,))  # fewer and more than are judged at once
def test_of_more_rows_than_are_kept_the_failing_ones_come_first(repeat: int) -> None:
    good = [claimed(f"good {i}", GAUSSIAN, ZCDP(rho=0.125)) for i in range(20 * repeat)]
    bad = [claimed(f"bad {i}", LAPLACE, PureDP(epsilon=0.1)) for i in range(3)]
    both = ledger(*good[:-1], *bad, good[-1])
    found = account(both, most_rows=10)
    assert [row.label for row in found.releases] == [
        *(f"bad {i}" for i in range(3)),
        *(f"good {i}" for i in range(7)),
    ]
    assert (found.overview.total, found.overview.failed) == (len(good) + 3, 3)
    few = account(both, most_rows=2)
    assert [row.label for row in few.releases] == ["bad 0", "bad 1"]
    assert few.overview.failed == 3
    assert not few.all_proved
    everything = account(both, most_rows=len(good) + 3)
    assert [row.label for row in everything.releases] == [release.label for release in both.releases]
    assert everything == account(both)


def test_groups_are_labels_but_for_their_numbers_with_the_costliest_of_each() -> None:
    noise = [make.gaussian(sigma) for sigma in (3.0, 1.0, 2.0)]
    found = account(
        ledger(
            *(claimed(f"step {i} of 3", m, ZCDP(rho=0.2)) for i, m in enumerate(noise)),
            claimed("step 4 of 3", LAPLACE),
            claimed("last", RandomizedResponse(epsilon=1.0)),
        )
    )
    groups = [(g.pattern, g.number, g.claimed, g.failed, g.costliest.label) for g in found.overview.groups]
    assert groups == [
        ("step # of #", 3, 3, 1, "step 1 of 3"),
        ("step # of #", 1, 0, 0, "step 4 of 3"),
        ("last", 1, 0, 0, "last"),
    ]


@pytest.mark.parametrize("batch", [2, 3, 8192])
def test_of_equally_costly_releases_the_first_is_shown(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr("dpaudit.accountants.release_accounts._BATCH", batch)
    sigmas = (3.0, 1.0, 2.0, 1.0, 1.0)
    noise = [make.gaussian(sigma) for sigma in sigmas]
    found = account(ledger(*(claimed(f"step {i}", m) for i, m in enumerate(noise))))
    assert [group.costliest.label for group in found.overview.groups] == ["step 1"]


def test_releases_of_more_kinds_than_groups_are_counted_all_the_same() -> None:
    words = ["".join(chr(97 + int(digit)) for digit in str(i)) for i in range(1500)]
    found = account(ledger(*(claimed(word, GAUSSIAN) for word in words)), most_rows=5)
    assert found.overview.total == 1500
    assert len(found.overview.groups) == 1000


def test_a_release_that_has_no_bound_is_refused_wherever_it_stands() -> None:
    loud = make.gaussian(1e-200)
    with pytest.raises(CannotBound):
        account(ledger(*[claimed("x", GAUSSIAN)] * 9000, claimed("loud", loud), claimed("y", GAUSSIAN)))


@pytest.mark.parametrize("size", [1, 3])
def test_plain_releases_of_a_stream_cost_groups_what_groups_pay(tmp_path: Path, size: int) -> None:
    """Gaussian: rho times k^2. Laplace: epsilon times k. What holds for single units fails for three."""
    rows = [
        claimed("own", LAPLACE, PureDP(epsilon=0.5 * size)),
        claimed("single", LAPLACE, PureDP(epsilon=0.5)),
    ]
    for i in range(50):
        sigma = 2.0 + i / 50
        noise = make.gaussian(sigma)
        rows.append(claimed(f"own {i}", noise, ZCDP(rho=size**2 * 0.5 / sigma**2)))
        rows.append(claimed(f"single {i}", noise, ZCDP(rho=0.5 / sigma**2)))
    stated = {"unit": "u", "group_size": size, "claim": Claim(ZCDP(rho=100.0))}
    made = make.ledger(*rows, neighbouring="replace-one", **stated)
    with LedgerStream(made.write(tmp_path / "l.jsonl")) as stream:
        found = account(stream)
    assert found == account(made)
    failing = {row.label for row in found.releases if row.verdict is Proof.NOT_PROVED}
    assert failing == (set() if size == 1 else {r.label for r in made.releases if "single" in r.label})
    gaussians = sum(size**2 / (2.0 + i / 50) ** 2 for i in range(50))
    x = 0.5 * size
    assert leading_figure(found.bounds[0].guarantee) == pytest.approx(
        gaussians + 2 * (x + math.exp(-x) - 1), rel=1e-12
    )


def test_of_very_many_different_releases_no_more_is_computed_than_proves_the_claim() -> None:
    made = make.ledger(*(make.discrete_laplace(100.0 + i / 5000) for i in range(5000)))
    found = account(made, Claim(ApproxDP(epsilon=10.0, delta=1e-6)))
    assert (found.verdict, [bound.method for bound in found.bounds]) == (Proof.PROVED, ["gdp"])
