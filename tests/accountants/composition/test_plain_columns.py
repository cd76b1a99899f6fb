"""Plain noise counted in columns against the same noise counted one by one."""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpaudit.accountants.composition.composition
import dpaudit.accountants.composition.plain_columns
from dpaudit import L1, L2, Gaussian, Laplace, Neighbouring, Partition, PureDP, RandomizedResponse, Release
from dpaudit.accountants.composition.composition import Composition
from dpaudit.accountants.composition.costs import mu_squared, pure_epsilon, rho
from dpaudit.accountants.composition.plain_columns import PlainCounts
from dpaudit.accountants.conditions import TrustedConditions
from dpaudit.accountants.release_accounts import ReleaseAccounts
from dpaudit.errors import CannotBound
from dpaudit.ledger.columns import Kind, PlainNoise, PlainReleases
from tests import make

SCALES = st.sampled_from([0.5, 1.0, 3.0, 1e-160, 1e200, 7.25])
BASES = st.sampled_from(["proved", "declared"])
SIZES = st.sampled_from([1.0, 2.0])
NOISE = st.builds(lambda s, d, b: Gaussian(sigma=s, sensitivity=L2(d, b)), SCALES, SIZES, BASES) | st.builds(
    lambda s, d, b: Laplace(scale=s, sensitivity=L1(d / 10.0, b)), SCALES, SIZES, BASES
)
WAYS = st.sampled_from(["position", "values"])
PARTS = st.none() | st.builds(Partition, part=st.sampled_from("ab"), by=WAYS)
CLAIMS = st.none() | st.builds(lambda epsilon: PureDP(epsilon=epsilon), st.sampled_from([0.01, 3.0]))


def releases(
    parts: st.SearchStrategy[Partition | None], claims: Any = None
) -> st.SearchStrategy[list[Release]]:
    claimed = st.none() if claims is None else claims
    one = st.builds(
        Release,
        label=st.sampled_from(["a 1", "a 2", "b\n1", "c"]),
        mechanism=NOISE,
        count=st.integers(1, 3),
        partition=parts,
        claimed=st.none() if claimed is None else claimed,
    )
    return st.lists(one, min_size=1, max_size=12)


@pytest.fixture(autouse=True)
def columns_however_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpaudit.accountants.composition.composition, "FEW", 0)
    monkeypatch.setattr(dpaudit.accountants.composition.composition, "_MANY", 0)
    monkeypatch.setattr(dpaudit.accountants.composition.plain_columns, "_FEWEST_ROWS", 3)


def composed(blocks: Sequence[Sequence[Release]], *, together: bool, units: int = 1) -> Composition:
    composition = Composition(Neighbouring.REPLACE_ONE, units)
    composition.add(make.release(RandomizedResponse(epsilon=0.5), label="other"))
    composition.add(make.release(make.laplace(3.0, 0.1), label="alone"))
    for block in blocks:
        for one in [PlainReleases.of(block)] if together else block:
            composition.add(one)
    return composition


def rows(composition: Composition) -> Counter[Any]:
    """Every row of the columns."""
    kinds: tuple[Kind, Kind] = ("gaussian", "laplace")
    return Counter(
        (kind, *row)
        for exposure, kind in itertools.product(composition.exposures(), kinds)
        for row in np.array(exposure.columns(kind)).T.tolist()
    )


#: Each is asked of a composition of its own: some answers take everything out of the columns.
QUESTIONS: dict[str, Callable[[Composition], Any]] = {
    "rho": lambda composition: composition.total(rho),
    "mu^2": lambda composition: composition.total(mu_squared),
    "epsilon": lambda composition: composition.total(pure_epsilon),
    "number": lambda composition: composition.total(lambda mechanism: float(mechanism.kind == "laplace")),
    "others": Composition.others,
    "distinct": lambda composition: composition.distinct,
    "exposures": lambda composition: {frozenset(e.items()) for e in composition.exposures()},
    "columns": rows,
    "mechanisms": Composition.mechanisms,
}


def agree(blocks: Sequence[Sequence[Release]], units: int = 1) -> None:
    for name, question in QUESTIONS.items():
        answers = []
        for together in (False, True):
            try:
                answers.append(question(composed(blocks, together=together, units=units)))
            except CannotBound as error:  # whatever one says, the other says
                answers.append(str(error))
        assert answers[0] == answers[1], name


@given(st.lists(releases(st.none()), max_size=4))
def test_columns_hold_what_was_put_there_one_by_one(blocks: list[list[Release]]) -> None:
    agree(blocks)


@given(st.lists(releases(PARTS), max_size=3), st.integers(1, 2))
def test_blocks_with_parts_and_for_groups_count_one_by_one(blocks: list[list[Release]], units: int) -> None:
    agree(blocks, units)


def test_a_count_that_is_lost_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    block = [make.release(make.gaussian(1.0), label="a")] * 5
    agree([block, block])
    whole = dpaudit.accountants.composition.plain_columns._merged
    monkeypatch.setattr(
        dpaudit.accountants.composition.plain_columns,
        "_merged",
        lambda parts: whole(parts)._replace(runs=np.minimum(whole(parts).runs, 9.0)),
    )
    with pytest.raises(AssertionError):
        agree([block, block])


@pytest.mark.parametrize("lines", [1, 4])
def test_a_release_is_taken_out_of_columns(lines: int) -> None:
    one = make.release(make.gaussian(1.0), label="a")
    composition = composed([[one] * lines], together=True)
    composition.remove(one)
    left = dict(composition.exposures()[0])
    assert left.get(one.mechanism) == (lines - 1 or None)
    assert composition.distinct == len(left) == 2 + (lines > 1)


def test_as_many_runs_are_taken_as_doubles_count() -> None:
    noise = PlainNoise("gaussian", "declared", 1.0, 2.0)
    one = PlainReleases.of([make.release(noise.mechanism(), label="a")])
    counts = PlainCounts()
    assert counts.add_counts([])
    assert len(counts) == 0
    assert not counts.add_counts([(noise, 2**53)])
    assert counts.add_counts([(noise, 2**53 - 2)])
    assert counts.add(one)
    assert not counts.add(one)
    assert not counts.add_counts([(noise, 1), (noise, 10**30)])  # of which int64 has none
    assert dict(counts.items()) == {noise: 2**53 - 1}


@pytest.mark.parametrize("lines", [1, 2, 1023, 1024, 1025, 2047, 2048, 2049])
def test_a_block_whose_runs_would_wrap_round_as_integers_is_not_taken(lines: int) -> None:
    """2,048 lines of 2^53 - 1 runs are 2^64 - 2,048: -2,048 as an int64."""
    one = PlainNoise("gaussian", "declared", 1.0, 2.0), 2**53 - 1
    together = PlainCounts()
    assert together.add_counts([one] * lines) is (lines == 1)
    assert sum(count for _, count in together.items()) == (2**53 - 1 if lines == 1 else 0)


def test_more_runs_than_doubles_count_are_counted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpaudit.accountants.composition.plain_columns, "_MOST_RUNS", 10)
    one = make.release(make.gaussian(1.0), 2, label="a")
    composition = composed([[one] * 3] * 3, together=True)
    assert dict(composition.exposures()[0])[one.mechanism] == 18


@given(st.lists(releases(PARTS, CLAIMS), max_size=3))
def test_blocks_are_judged_as_their_releases_are(blocks: list[list[Release]]) -> None:
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
