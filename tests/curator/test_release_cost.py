"""A release costs the same, whichever it is in a run; what recurs is checked and written once, not less."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from dpaudit import L1, L2, ZCDP, Curator, Gaussian, Laplace, OpaquePureDP, PureDP, Release, run
from dpaudit.curator.admission import new_release
from dpaudit.curator.noise import LiveNoise
from dpaudit.errors import InvalidParameter
from dpaudit.ledger.header import Header, canonical_bytes
from dpaudit.ledger.releases import Partition
from dpaudit.noise.reals import flint
from dpaudit.processes.wire import frame
from dpaudit.processes.worker import AskedNoise, Counted

NOISE = Gaussian(sigma=1.5, sensitivity=L2(1.0))
Count = Callable[[Callable[[], object]], int]


def releasing(number: int) -> Callable[[Any, Curator], None]:
    def algorithm(data: Any, curator: Curator) -> None:
        for i in range(number):
            curator.release(1.0, NOISE, label=f"step {i}", claimed=ZCDP(rho=0.25))

    return algorithm


@pytest.fixture(autouse=True)
def _balls() -> None:
    """A draw in some 16,000 is decided in ball arithmetic, whose library the first of them imports."""
    flint()


def test_a_scalar_release_makes_few_calls(python_calls: Count) -> None:
    run(releasing(1), None)
    few, many = (python_calls(lambda n=n: run(releasing(n), None)) for n in (100, 200))
    # Measured: 145, with the line in the code where each stands; 201 when what all lines have in common was
    # written for each, 419 when every line was validated twice, too. Some 45 of them draw exact noise:
    # the operating system's bits, the grid, the enclosure of one number.
    assert (many - few) / 100 < 165


class Answers:
    """A holder that answers every question at once."""

    def sendall(self, _asked: bytes) -> None:
        pass

    def recv(self, _most: int) -> bytes:
        return frame(("answer", 0.0))


def test_a_release_that_another_process_answers_makes_few_calls(python_calls: Count) -> None:
    about: Any = {"neighbouring": "replace-one", "noise": LiveNoise().description}
    header = Header(algorithm="any", unit="row", **about)
    channel: Any = Answers()
    asking = Curator(Counted(header), AskedNoise(channel, header.noise, None))
    releasing(10)(None, asking)
    # Measured: 178, of which some 25 make the answer; 194 if its place in the code were looked up twice.
    assert python_calls(lambda: releasing(100)(None, asking)) / 100 < 186


@pytest.mark.nightly
def test_calls_grow_linearly_and_memory_not_at_all_where_lines_go_to_a_file(
    python_calls: Count, tmp_path: Path
) -> None:
    path = tmp_path / "l.jsonl"
    run(releasing(10), None, path=path)
    calls = [python_calls(lambda n=n: run(releasing(n), None, path=path)) for n in (10, 100, 1000)]
    steps = (calls[1] - calls[0]) / 90, (calls[2] - calls[1]) / 900
    assert steps[1] == pytest.approx(steps[0], rel=0.05)
    peaks = []
    for number in (3000, 6000):  # past the first block of random bits
        tracemalloc.start()
        try:
            run(releasing(number), None, path=path)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    # Seven bytes a release, for a block of random bits more or less; its line alone has two hundred.
    assert peaks[1] < peaks[0] + 20_000


LABELS = st.text(st.characters(codec="utf-8"), min_size=1)
MECHANISMS = st.one_of(
    st.builds(Gaussian, sigma=st.floats(1e-300, 1e300), sensitivity=st.builds(L2, st.floats(0.0, 1e300))),
    st.builds(Laplace, scale=st.floats(1e-9, 1e25), sensitivity=st.builds(L1, st.integers(0, 5))),
    st.builds(OpaquePureDP, epsilon=st.floats(0.1, 9.0), justification=LABELS),
)
PARTITIONS = st.none() | LABELS | st.builds(Partition, part=st.text(st.characters(codec="utf-8")))
CLAIMS = st.none() | st.builds(ZCDP, rho=st.floats(0.0, 1e9)) | st.builds(PureDP, epsilon=st.floats(0.0, 1e9))


@given(LABELS, MECHANISMS, st.integers(1, 2**53 - 1), PARTITIONS, CLAIMS)
def test_a_line_has_the_bytes_of_its_records_canonical_json(
    label: str, mechanism: Any, count: int, partition: Any, claimed: Any
) -> None:
    release = new_release(label, mechanism, count, partition=partition, claimed=claimed)
    for one in (release, release.model_copy(update={"label": "label"})):  # the second's line is half made
        assert one.canonical() == canonical_bytes(one.to_json()) == rfc8785.dumps(one.to_json())
    part = Partition(part=partition) if isinstance(partition, str) else partition
    assert release == Release(label=label, mechanism=mechanism, count=count, partition=part, claimed=claimed)


def test_a_release_that_no_line_can_hold_is_refused_under_its_own_label() -> None:
    whole = "its count is past 2^53"
    with pytest.raises(InvalidParameter, match="a record that JSON cannot hold") as refused:
        new_release(whole, NOISE, 2**53 + 1).canonical()
    assert repr(whole) in refused.value.where


@pytest.mark.parametrize("label", ['"label":"label"', "label\\", "\n\x00", "étape", "😀"])
def test_a_label_that_looks_like_json_is_written_as_what_it_is(label: str) -> None:
    release = new_release(label, NOISE, partition=Partition(part='"label":"label"', split="label"))
    assert release.canonical() == rfc8785.dumps(release.to_json())


class Weaker(Gaussian):
    def sample(self, value: Any, generator: Any) -> Any:
        return value


def test_a_subclass_is_refused_after_its_equal_was_accepted() -> None:
    assert new_release("x", NOISE).mechanism == NOISE
    for _ in range(2):
        with pytest.raises(InvalidParameter, match="type Weaker that cannot be read back"):
            new_release("x", Weaker(sigma=1.5, sensitivity=L2(1.0)))


def test_a_mechanism_changed_after_it_was_accepted_is_read_back_again() -> None:
    changed = Gaussian(sigma=1.5, sensitivity=L2(1.0))
    assert new_release("x", changed).mechanism == NOISE
    object.__setattr__(changed, "sigma", -1.5)
    with pytest.raises(InvalidParameter, match="is not above 0"):
        new_release("x", changed)


@pytest.mark.parametrize("count", [True, 1.0, [1], 0])
def test_a_count_equal_to_an_accepted_one_is_checked_for_itself(count: Any) -> None:
    new_release("x", NOISE, 1)
    with pytest.raises(InvalidParameter, match="count"):
        new_release("x", NOISE, count)


@pytest.mark.parametrize("label", ["", None, 3, "\ud800"])
def test_a_label_is_checked_although_everything_else_is_known(label: Any) -> None:
    new_release("x", NOISE)
    with pytest.raises(InvalidParameter, match="label"):
        new_release(label, NOISE)
