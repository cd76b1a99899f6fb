"""The quick way through a line against the full one: the same releases, or the same error."""

import hashlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

import dpaudit.ledger.blocks
import dpaudit.ledger.file
from dpaudit import GDP, L1, L2, ZCDP, Gaussian, Laplace, Ledger, Partition, PureDP, Release
from dpaudit.errors import DpauditError, InvalidParameter, LedgerTampered, LedgerTruncated, RecordAfterFooter
from dpaudit.ledger.blocks import in_blocks, read_block, read_line
from dpaudit.ledger.columns import PlainReleases, is_plain
from dpaudit.ledger.file import LedgerStream
from dpaudit.ledger.ledger import encode
from dpaudit.ledger.numbers import canonical
from dpaudit.noise.grid import grid
from tests import make

HEADER = make.header("replace-one", unit="u")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
SCALES = st.floats(5e-324, 1.7e308) | st.sampled_from(
    [1.0, 2.0, 1e-7, 1e-6, 1e20, 1e21, 1e22, 123456789012345.0]
)
SIZES = SCALES | st.just(0.0)
BASES = st.sampled_from(["proved", "clipped", "declared", "mapped"])


def gridded(release: Release) -> list[Release]:
    """The release as a live run writes it; none, where its noise is too little for a grid."""
    try:
        return [release.model_copy(update={"grid": release.mechanism.grid})]
    except InvalidParameter:
        return []


RELEASES = st.builds(
    Release,
    label=TEXT.filter(bool),
    mechanism=st.builds(lambda s, v, b: Gaussian(sigma=s, sensitivity=L2(v, b)), SCALES, SIZES, BASES)
    | st.builds(lambda s, v, b: Laplace(scale=s, sensitivity=L1(v, b)), SCALES, SIZES, BASES),
    count=st.integers(1, 10**10),
    partition=st.none()
    | st.builds(Partition, part=TEXT, split=TEXT, by=st.sampled_from(["position", "values"])),
    claimed=st.none()
    | st.builds(lambda x: ZCDP(rho=x), SIZES)
    | st.builds(lambda x: PureDP(epsilon=x), SIZES)
    | st.builds(lambda x: GDP(mu=x), SIZES),
).flatmap(lambda r: st.sampled_from([r, *gridded(r)]))
SPELLINGS = [
    *b"0 -0 1 2.0 1e0 1E5 1e5 01 1e-7 1e-07 0.0000001 0.000001 1e-06 -1 1e400 1e21 1e+21 1. .5 1.50".split(),
    *b"100000000000000000000 9007199254740993 NaN null true { } ,".split(),
    *b'"1" "l1" "l2" "sigma" "scale" "gaussian" "laplace" "kind" "proved" "values" "zcdp" "pure-dp"'.split(),
    *(b'"a\\u0041"', b'"\xc3\xa4"', b'"\xe4"', b'"\xed\xa0\x80"', b'"\x7f"', b'"\t"', b'""', b" ", b"\r"),
    b"\xef\xbb\xbf",
]
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[0-9][0-9.e+-]*|[{},:]')


def outcome(path: Path) -> Any:
    """What reading says: everything there is to know of the ledger, or of the error."""
    try:
        ledger = Ledger.read(path)
    except DpauditError as error:
        return type(error), str(error)
    return ledger.header, ledger.releases, ledger.complete, ledger.hashed, ledger.hash


def outcome_in_blocks(path: Path) -> Any:
    """The same of a file whose lines are read together, however few there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dpaudit.ledger.blocks, "FEWEST_LINES", 1)
        try:
            with LedgerStream(path) as stream:
                releases = [one for block in stream.blocks() for one in each(block)]
        except DpauditError as error:
            return type(error), str(error)
    assert stream.number == len(releases)
    return stream.header, tuple(releases), stream.complete, stream.hashed, stream.hash


def each(block: Release | PlainReleases) -> list[Release]:
    return list(block) if isinstance(block, PlainReleases) else [block]


def both_agree(path: Path) -> Any:
    """Read a file with and without the quick way, and in blocks."""
    quick = outcome(path)
    assert outcome_in_blocks(path) == quick
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dpaudit.ledger.file, "read_line", lambda line, previous: None)
        assert outcome(path) == quick
    return quick


def chained(bodies: list[bytes]) -> bytes:
    """Lines whose hashes follow from their own bytes, canonical or not."""
    previous, lines = "", []
    for body in bodies:
        previous = hashlib.sha256(previous.encode() + body).hexdigest()
        lines.append(body[:-1] + f',"hash":"{previous}"}}\n'.encode())
    return b"".join(lines)


def bodies(releases: list[Release]) -> list[bytes]:
    records = [HEADER.to_json(), *(r.to_json() for r in releases)]
    return [rfc8785.dumps(r) for r in (*records, {"record": "footer", "releases": len(releases)})]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lines") / "ledger.jsonl"


@given(st.lists(RELEASES, max_size=4))
def test_both_ways_read_what_was_written(path: Path, releases: list[Release]) -> None:
    ledger = make.ledger(*releases, **dict(HEADER))
    ledger.write(path)
    found = both_agree(path)
    assert found == (HEADER, tuple(releases), True, True, ledger.hash)


@given(RELEASES, st.data())
def test_both_ways_agree_on_lines_hashed_by_somebody_else(path: Path, release: Release, data: Any) -> None:
    """Any token replaced, and the hashes made to fit: only what is canonical may pass."""
    lines = bodies([release])
    body = lines[1]
    for _ in range(data.draw(st.integers(0, 2))):
        token = data.draw(st.sampled_from(list(TOKEN.finditer(body))))
        body = body[: token.start()] + data.draw(st.sampled_from(SPELLINGS)) + body[token.end() :]
    path.write_bytes(chained([lines[0], body, lines[2]]))
    both_agree(path)


@given(st.lists(RELEASES, min_size=1, max_size=3), st.data())
def test_both_ways_agree_on_files_that_were_edited(path: Path, releases: list[Release], data: Any) -> None:
    whole = bytearray(chained(bodies(releases)))
    for _ in range(data.draw(st.integers(1, 2))):
        position = data.draw(st.integers(0, len(whole) - 1))
        match data.draw(st.sampled_from(["change", "insert", "delete", "cut"])):
            case "change":
                whole[position] = data.draw(st.integers(0, 255))
            case "insert":
                whole.insert(position, data.draw(st.sampled_from(b' \t\n\r"\\0e.{}')))
            case "delete":
                del whole[position]
            case _:
                del whole[position:]
        if not whole:
            break
    path.write_bytes(bytes(whole))
    both_agree(path)


@given(RELEASES)
def test_the_quick_way_takes_the_common_lines(release: Release) -> None:
    line, digest = encode("before", release.canonical())
    found = read_line(line, "before")
    escaped = b"\\" in line
    whole = re.search(rb"[0-9]{16,}[,}]", line[:-76] + b"}") is not None  # long whole numbers, or fractions
    if found is None:
        assert escaped or whole or release.count >= 10**9 or isinstance(release.claimed, GDP)
    else:
        assert found == (release, digest)
        assert is_plain(release)
        assert read_line(line, "after") is None
        assert read_line(line[:-1], "before") is None


def test_the_documented_mechanisms_take_the_quick_way(tmp_path: Path) -> None:
    made = []
    for sigma in (1.5, 2.0, 1e-7, 3.4641016151377544, 1e22):
        noise = make.gaussian(sigma)
        made.append(make.release(noise, label="zweite Änderung", grid=noise.grid))
        made.append(make.release(make.laplace(sigma, 0.1), claimed=PureDP(epsilon=2.0)))
    ledger = make.ledger(*made, **dict(HEADER))
    with LedgerStream(ledger.write(tmp_path / "l.jsonl")) as stream:
        lines = list(stream)
    assert tuple(lines) == ledger.releases
    assert (stream.number, stream.complete, stream.hash) == (10, True, ledger.hash)
    header, *written, _ = ledger.lines()
    found, digest = read_block(written, header[-67:-3].decode()) or ([], "")
    assert (list(found), digest) == (lines, written[-1][-67:-3].decode())


@pytest.mark.parametrize("odd", [None, 17])
def test_lines_of_one_shape_are_read_by_a_pattern_of_their_own(
    odd: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Partition(split="a.b(c", part="[x+]*")  # signs that a pattern would take for its own
    releases = [
        make.release(make.gaussian(1.5 + i, 1.0 + (i == odd)), partition=place, label=f"{i}")
        for i in range(40)
    ]
    header, *lines, _ = chained(bodies(releases)).splitlines(keepends=True)
    before = header[-67:-3].decode()
    found, digest = read_block(lines, before) or ([], "")
    assert (list(found), digest) == (releases, lines[-1][-67:-3].decode())
    edited = [*lines[:9], lines[9].replace(b'"label":"9"', b'"label":"8"'), *lines[10:]]
    assert read_block(edited, before) is None
    general = dpaudit.ledger.blocks._PIECES
    monkeypatch.setattr(dpaudit.ledger.blocks, "_PIECES", SimpleNamespace(fullmatch=general.fullmatch))
    if odd is None:
        assert read_block(lines, before) is not None
    else:
        with pytest.raises(AttributeError, match="split"):
            read_block(lines, before)


@pytest.mark.parametrize("fault", ["_chained", "_on_grids", "_numbers"])
def test_a_check_that_blocks_lack_is_seen(path: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line whose hash is wrong, whose grid is not its noise's, or whose number is not canonical."""
    noise = make.gaussian(2.5)
    lines = bodies([make.release(noise, grid=noise.grid)] * 3)
    if fault == "_on_grids":
        lines[2] = lines[2].replace(b'"grid":%d' % noise.grid, b'"grid":-3')
    if fault == "_numbers":
        lines[2] = lines[2].replace(b"2.5", b"2.50")
    content = chained(lines)
    path.write_bytes(content.replace(b"2.5", b"3.5", 1) if fault == "_chained" else content)
    assert isinstance(both_agree(path)[0], type)
    innocent = {
        "_chained": lambda *_: True,
        "_on_grids": lambda *_: True,
        "_numbers": lambda column: np.array(list(map(float, column))),
    }
    monkeypatch.setattr(dpaudit.ledger.blocks, fault, innocent[fault])
    with pytest.raises(AssertionError):
        both_agree(path)


def test_few_long_lines_wait_at_a_time() -> None:
    made = []

    def lines(short: int) -> Iterator[bytes]:
        for i in range(40):
            made.append(i)
            yield b"x" * (1 if i < short else 1 << 21)

    for read, block in enumerate(in_blocks(lines(0), lambda block: tuple(map(len, block)))):
        assert len(made) <= 4 * (read + 1)
        assert len(block) == 4
    made.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dpaudit.ledger.blocks, "AT_ONCE", 2)
        sizes = [sum(map(len, block)) for block in in_blocks(lines(9), tuple)]
    assert sum(sizes) == 9 + (31 << 21)
    assert max(sizes) <= (1 << 23) + 2 * (1 << 21)  # two more that were read with short ones


@given(st.integers(1, 40), st.sets(st.integers(0, 39), max_size=6), st.integers(1, 5))
def test_every_line_is_in_one_block_in_its_order(number: int, odd: set[int], fewest: int) -> None:
    lines = [b"odd %d" % i if i in odd else b"even %d" % i for i in range(number)]

    def taken(block: list[bytes]) -> tuple[bytes, ...] | None:
        return None if any(line.startswith(b"odd") for line in block) else tuple(block)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dpaudit.ledger.blocks, "FEWEST_LINES", fewest)
        patch.setattr(dpaudit.ledger.blocks, "MOST_LINES", 16)
        found = list(in_blocks(iter(lines), taken))
    assert list(itertools.chain(*found)) == lines
    left = [line for block in found if isinstance(block, list) for line in block]
    assert [line for line in left if line.startswith(b"odd")] == [lines[i] for i in sorted(odd) if i < number]
    assert all(len(block) <= 16 for block in found)


@given(st.floats(0.0, 1.7e308))
def test_canonical_digits_of_a_double_are_read(value: float) -> None:
    digits = rfc8785.dumps(value).decode()
    found = canonical(digits)
    assert found == value or (found is None and digits.isdigit() and len(digits) > 15)


@given(
    st.text("0123456789.e+-", min_size=1, max_size=20) | st.sampled_from(["1e999", "00", "0.0", "2.", "1e5"])
)
def test_no_other_digits_are_read(digits: str) -> None:
    found = canonical(digits)
    if found is not None:
        assert rfc8785.dumps(found).decode() == digits


DIGITS = st.from_regex(r"[0-9][0-9.e+-]*", fullmatch=True).map(lambda digits: digits[:25])
SMALL_OR_ROUND = ["0.000001", "0.0000001", "0.00001", "0", "00", "01.5", "1.50", "2.0", "10", "1.", "1e5"]
LARGE = ["1.5e+22", "9007199254740993.0", "12345678901234567", "123456789012345680000", "1e999"]


@given(st.lists(SIZES.map(repr) | DIGITS | st.sampled_from(SMALL_OR_ROUND + LARGE), min_size=1))
def test_a_column_is_canonical_where_each_of_its_numbers_is(column: list[str]) -> None:
    each = [canonical(digits) for digits in column]
    found = dpaudit.ledger.blocks._numbers(column)
    assert (None if found is None else found.tolist()) == (None if None in each else each)
    plain = [digits for digits, value in zip(column, each, strict=True) if value is not None]
    again = dpaudit.ledger.blocks._numbers(plain)
    assert again is not None
    assert again.tolist() == [float(digits) for digits in plain]


@pytest.mark.parametrize("sigma", [2.0**53, 1e16, 1e20, 123456789012345680000.0])
def test_whole_doubles_that_are_no_exact_integers_are_read_back(path: Path, sigma: float) -> None:
    release = make.release(make.gaussian(sigma), claimed=GDP(mu=sigma))
    lines = bodies([release])
    path.write_bytes(chained(lines))
    assert both_agree(path)[1] == (release,)
    digits = rfc8785.dumps(sigma)
    path.write_bytes(chained(lines).replace(digits, digits[:-1] + b"1"))  # the same double
    assert both_agree(path)[0] is LedgerTampered


def test_half_a_line_after_the_footer_is_no_killed_run(path: Path) -> None:
    whole = chained(bodies([]))
    path.write_bytes(whole + b'{"rec')
    with pytest.raises(RecordAfterFooter) as caught:
        Ledger.read(path, allow_truncated=True)
    assert str(path) in caught.value.where
    path.write_bytes(whole[: whole.index(b"\n") + 1] + b'{"rec')
    with pytest.raises(LedgerTruncated):
        Ledger.read(path)


def test_a_stream_closes_its_file_whether_or_not_it_was_read(path: Path) -> None:
    path.write_bytes(chained(bodies([])))
    with LedgerStream(path) as stream:
        assert stream.header == HEADER
        assert not stream.complete
    assert list(stream) == []


def test_progress_adds_up_to_what_was_read(path: Path) -> None:
    noise = make.gaussian(1.0)
    path.write_bytes(chained(bodies([make.release(noise)] * 10_000)))
    told: list[int] = []
    with LedgerStream(path, progress=told.append) as stream:
        stream.read_to_the_end()
    assert 1 <= len(told) <= path.stat().st_size >> 20
    assert 0.5 * path.stat().st_size < sum(told) <= path.stat().st_size


@pytest.mark.parametrize(
    ("given", "edited"),
    [(b'"sigma":2.5', b'"sigma":0'), (b'"grid":0', b'"grid":[0]'), (b'"count":3', b'"count":0')],
)
def test_what_the_model_refuses_is_refused_in_columns(path: Path, given: bytes, edited: bytes) -> None:
    """A number that canonical JSON may hold, and the field may not; each beside the line as it was."""
    scale = 2.5 if b"sigma" in given else next(2.0**k for k in range(60) if grid(2.0**k) == 0)
    noise = Gaussian(sigma=scale, sensitivity=L2(1.0))
    exponent = None if b"sigma" in given else noise.grid
    lines = bodies([Release(label="x", mechanism=noise, count=3, grid=exponent)] * 40)
    path.write_bytes(chained(lines))
    assert len(both_agree(path)[1]) == 40
    assert given in lines[20]
    for several in (range(20, 21), range(1, 41)):
        changed = [line.replace(given, edited) if i in several else line for i, line in enumerate(lines)]
        path.write_bytes(chained(changed))
        kind, words = both_agree(path)
        assert issubclass(kind, DpauditError)
        assert f"{path}:{several[0] + 1}" in words
