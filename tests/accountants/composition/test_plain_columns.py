"""Plain noise counted in columns against the same noise counted one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpaudit.accountants.composition.composition
import dpaudit.accountants.composition.plain_columns
from dpaudit import L1, L2, Gaussian, Laplace, Neighbouring, Partition, PureDP, Release
from dpaudit.accountants.composition.composition import Composition
from dpaudit.accountants.composition.costs import mu_squared, pure_epsilon, rho
from dpaudit.accountants.composition.plain_columns import PlainCounts
from dpaudit.accountants.conditions import TrustedConditions
from dpaudit.accountants.release_accounts import ReleaseAccounts
from dpaudit.ledger.columnar import PlainNoise, PlainRelease, plain_release
from dpaudit.ledger.columns import PlainReleases
from dpaudit.mechanisms import RandomizedResponse

SCALES = st.sampled_from([0.5, 1.0, 3.0, 1e-160, 1e200, 7.25])
BASES = st.sampled_from(["proved", "declared"])
NOISE = st.builds(lambda s, b: Gaussian(sigma=s, sensitivity=L2(1.0, b)), SCALES, BASES) | st.builds(
    lambda s, b: Laplace(scale=s, sensitivity=L1(0.1, b)), SCALES, BASES
)
WAYS = st.sampled_from(["position", "values"])
PARTS = st.none() | st.builds(Partition, part=st.sampled_from("ab"), by=WAYS)
CLAIMS = st.none() | st.builds(lambda epsilon: PureDP(epsilon=epsilon), st.sampled_from([0.01, 3.0]))


def plain(release: Release) -> PlainRelease:
    found = plain_release(release)
    assert found is not None
    return found


def releases(
    parts: st.SearchStrategy[Partition | None], claims: Any = None
) -> st.SearchStrategy[list[PlainRelease]]:
    claimed = st.none() if claims is None else claims
    one = st.builds(
        Release,
        label=st.sampled_from(["a 1", "a 2", "b\n1", "c"]),
        mechanism=NOISE,
        count=st.integers(1, 3),
        partition=parts,
        claimed=st.none() if claimed is None else claimed,
    )
    return st.lists(one.map(plain), min_size=1, max_size=12)


@pytest.fixture(autouse=True)
def columns_however_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpaudit.accountants.composition.composition, "FEW", 0)
    monkeypatch.setattr(dpaudit.accountants.composition.composition, "_MANY", 0)
    monkeypatch.setattr(dpaudit.accountants.composition.plain_columns, "_FEWEST_ROWS", 3)


def composed(blocks: Sequence[Sequence[PlainRelease]], *, together: bool, units: int = 1) -> Composition:
    composition = Composition(Neighbouring.REPLACE_ONE, units)
    composition.add(Release(label="other", mechanism=RandomizedResponse(epsilon=0.5)))
    composition.add(Release(label="alone", mechanism=Laplace(scale=3.0, sensitivity=L1(0.1))))
    for block in blocks:
        for one in [PlainReleases.of(block)] if together else block:
            composition.add(one)
    return composition


def agree(blocks: Sequence[Sequence[PlainRelease]], units: int = 1) -> None:
    one, two = (composed(blocks, together=way, units=units) for way in (False, True))
    for cost in (rho, mu_squared, pure_epsilon, lambda mechanism: float(mechanism.kind == "laplace")):
        totals = []
        for composition in (one, two):
            try:
                totals.append(composition.total(cost))
            except Exception as error:  # noqa: BLE001  (whatever one says, the other says)
                totals.append(str(error))
        assert totals[0] == totals[1]
    assert one.others() == two.others()
    assert one.distinct == two.distinct
    exposures = [{frozenset(e.items()) for e in composition.exposures()} for composition in (one, two)]
    assert exposures[0] == exposures[1]
    for kind in ("gaussian", "laplace"):
        rows: list[Counter[Any]] = [Counter(), Counter()]
        for composition, seen in zip((one, two), rows, strict=True):
            for exposure in composition.exposures():
                seen.update(map(tuple, np.array(exposure.columns(kind)).T.tolist()))
        assert rows[0] == rows[1]
    assert one.mechanisms() == two.mechanisms()


@given(st.lists(releases(st.none()), max_size=4))
def test_columns_hold_what_was_put_there_one_by_one(blocks: list[list[PlainRelease]]) -> None:
    agree(blocks)


@given(st.lists(releases(PARTS), max_size=3), st.integers(1, 2))
def test_blocks_with_parts_and_for_groups_count_one_by_one(
    blocks: list[list[PlainRelease]], units: int
) -> None:
    agree(blocks, units)


def test_a_count_that_is_lost_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    block = [plain(Release(label="a", mechanism=Gaussian(sigma=1.0, sensitivity=L2(1.0))))] * 5
    agree([block, block])
    whole = dpaudit.accountants.composition.plain_columns._merged
    monkeypatch.setattr(
        dpaudit.accountants.composition.plain_columns,
        "_merged",
        lambda parts: whole(parts)._replace(runs=np.minimum(whole(parts).runs, 9.0)),
    )
    with pytest.raises(AssertionError):
        agree([block, block])


def test_a_release_is_taken_out_of_columns() -> None:
    one = Release(label="a", mechanism=Gaussian(sigma=1.0, sensitivity=L2(1.0)))
    composition = composed([[plain(one)] * 4], together=True)
    composition.remove(one)
    assert dict(composition.exposures()[0])[one.mechanism] == 3


@pytest.mark.parametrize("lines", [1, 2, 1023, 1024, 1025, 2047, 2048, 2049])
def test_a_block_whose_runs_would_wrap_round_as_integers_is_not_taken(lines: int) -> None:
    """2,048 lines of 2^53 - 1 runs are 2^64 - 2,048: -2,048 as an int64."""
    one = PlainRelease("", PlainNoise("gaussian", "declared", 1.0, 2.0), 2**53 - 1)
    together = PlainCounts()
    assert together.add(PlainReleases.of([one] * lines)) is (lines == 1)
    assert sum(count for _, count in together.items()) == (2**53 - 1 if lines == 1 else 0)


def test_more_runs_than_doubles_count_are_counted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpaudit.accountants.composition.plain_columns, "_MOST_RUNS", 10)
    one = Release(label="a", mechanism=Gaussian(sigma=1.0, sensitivity=L2(1.0)), count=2)
    composition = composed([[plain(one)] * 3] * 3, together=True)
    assert dict(composition.exposures()[0])[one.mechanism] == 18


@given(st.lists(releases(PARTS, CLAIMS), max_size=3))
def test_blocks_are_judged_as_their_releases_are(blocks: list[list[PlainRelease]]) -> None:
    def found(*, together: bool) -> Any:
        accounts = ReleaseAccounts(lambda release: PureDP(epsilon=1.0), 5)
        trusted = TrustedConditions()
        for block in blocks:
            for one in [PlainReleases.of(block)] if together else block:
                accounts.add(one)
                trusted.add(one)
        overview = accounts.overview()
        # Of several releases that cost the most, any one stands for its group.
        groups = [(g.pattern, g.number, g.claimed, g.failed, g.costliest.proved) for g in overview.groups]
        counts = overview.total, overview.claimed, overview.failed
        return accounts.rows(), counts, groups, trusted.found()

    assert found(together=True) == found(together=False)
