"""A folder of ledgers: one summary that parts add up to, whose size does not grow, with every fault named."""

import itertools
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit import L2, ZCDP, ApproxDP, Claim, Gaussian, Laplace, PureDP
from dpaudit.claims.sensitivity import L1
from dpaudit.errors import UsageError
from dpaudit.mechanisms import AnyMechanism
from dpaudit.pipeline.many import EDGES, MOST_NAMED, Summary, ledgers_in, verify_folder
from tests import make


def write(path: Path, *mechanisms: AnyMechanism, claim: Any = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"unit": "user", "neighbouring": "replace-one", "claim": None if claim is None else Claim(claim)}
    return make.ledger(*mechanisms, **about).write(path)


def noise(rho: float) -> Gaussian:
    return Gaussian(sigma=(0.5 / rho) ** 0.5, sensitivity=L2(1.0))


def users(folder: Path, number: int) -> list[float]:
    """So many ledgers in folders of ten, whose rho is drawn; the claim is rho 0.5."""
    rhos = np.random.default_rng(0).uniform(0.01, 0.6, number).round(3).tolist()
    for i, rho in enumerate(rhos):
        write(folder / f"{i // 10}" / f"user-{i:05}.jsonl", noise(rho), claim=ZCDP(rho=0.5))
    return list(rhos)


def test_totals_are_counted_and_the_largest_named(tmp_path: Path) -> None:
    rhos = users(tmp_path, 40)
    summary, whole = verify_folder(tmp_path)
    assert whole
    assert (summary.ledgers, summary.releases) == (40, 40)
    assert summary.not_proved == sum(rho > 0.5 for rho in rhos)
    assert summary.proved == 40 - summary.not_proved
    largest = sorted(rhos, reverse=True)[:MOST_NAMED]
    assert [figure for figure, _ in summary.worst["rho"]] == pytest.approx(largest, rel=1e-9)
    counted = Counter(max(i for i, edge in enumerate(EDGES) if edge <= rho) for rho in rhos)
    found = summary.bins["rho"]
    assert sum(found.values()) == 40
    assert (
        sum(abs(found[i] - counted[i]) for i in found | counted) <= 2
    )  # a figure is rounded up, past an edge


def test_a_stated_claim_sets_the_scale(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", Laplace(scale=2.0, sensitivity=L1(1.0)))
    write(tmp_path / "b.jsonl", noise(0.1))
    for claim, scale, proved in (
        (ApproxDP(epsilon=9.0, delta=1e-6), "epsilon at delta 1e-06", 2),
        (PureDP(epsilon=1.0), "pure epsilon", 1),
    ):
        summary, _ = verify_folder(tmp_path, Claim(claim))
        assert (list(summary.bins), summary.proved, summary.not_proved) == ([scale], proved, 2 - proved)
        assert summary.without_bound == 2 - proved


def test_parts_add_up_in_every_order() -> None:
    def part(i: int) -> Summary:
        bins, worst = {"rho": Counter({i % 3: 1})}, {"rho": [(float(i % 5), f"{i:02}")]}
        return Summary(proved=i % 2, broken=1 - i % 2, bins=bins, worst=worst, failing=[f"{i:02}"])

    whole = Summary()
    for i in range(24):
        whole.add(part(i))
    for order in itertools.islice(itertools.permutations(range(4)), 0, 24, 5):
        quarters = []
        for start in order:
            quarters.append(Summary())
            for i in range(start, 24, 4):
                quarters[-1].add(part(i))
        other = Summary()
        for quarter in quarters:
            other.add(quarter)
        assert other == whole
    assert len(whole.worst["rho"]) == len(whole.failing) == MOST_NAMED
    assert [name for _, name in whole.worst["rho"]][:5] == ["04", "09", "14", "19", "03"]


def test_what_cannot_be_read_is_named_and_not_counted_as_proved(tmp_path: Path) -> None:
    for name in ("good", "edited", "cut", "empty"):
        write(tmp_path / f"{name}.jsonl", noise(0.1), noise(0.1), claim=ZCDP(rho=0.5))
    write(tmp_path / "nothing.jsonl", noise(0.1))
    write(tmp_path / "no releases.jsonl", claim=ZCDP(rho=0.5))
    edited, cut = tmp_path / "edited.jsonl", tmp_path / "cut.jsonl"
    edited.write_bytes(edited.read_bytes().replace(b'"label":"r"', b'"label":"R"', 1))
    cut.write_bytes(b"".join(cut.read_bytes().splitlines(keepends=True)[:-1]))
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "running.jsonl.partial").write_bytes(b"{")
    (tmp_path / "notes.txt").write_text("no ledger")
    summary, _ = verify_folder(tmp_path)
    counts = summary.proved, summary.not_proved, summary.nothing_claimed, summary.broken, summary.unfinished
    assert counts == (1, 0, 2, 4, 1)
    errors = dict(summary.errors)
    assert list(errors) == ["cut.jsonl", "edited.jsonl", "empty.jsonl", "gone.jsonl"]
    assert [error.split()[0] for error in errors.values()] == ["DPA205", "DPA206", "DPA205", "DPA201"]
    assert errors["edited.jsonl"].endswith("(line 2)")


def test_links_are_followed_once(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    write(inside / "a" / "1.jsonl", noise(0.1))
    write(outside / "2.jsonl", noise(0.1))
    for name, target in (("out", outside), ("again", outside), ("up", tmp_path), ("own", inside)):
        (inside / name).symlink_to(target)
    (outside / "loop").symlink_to(outside)
    found = sorted(ledgers_in(inside))
    assert [Path(name).name for name in found] == ["1.jsonl", "2.jsonl"]


def test_ctrl_c_leaves_what_was_done(tmp_path: Path) -> None:
    users(tmp_path, 12)

    def stop(done: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    summary, whole = verify_folder(tmp_path, progress=stop)
    assert (summary.ledgers, whole) == (5, False)


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        verify_folder(tmp_path / "nowhere")


@pytest.mark.nightly
@pytest.mark.filterwarnings("default")  # the cluster's libraries warn of each other
def test_a_cluster_says_the_same(tmp_path: Path) -> None:
    users(tmp_path, 300)
    told: list[int] = []
    there = verify_folder(tmp_path, cluster="local", progress=told.append)
    assert there == verify_folder(tmp_path)
    assert told[-1] == 300


MEMORY = """
import sys
from pathlib import Path
from dpaudit.pipeline.many import verify_folder
for folder in sys.argv[1:]:
    summary, whole = verify_folder(Path(folder))
    status = Path("/proc/self/status").read_text()
    print(summary.ledgers, status.partition("VmHWM:")[2].split()[0])
"""


def peaks(*folders: Path) -> list[list[int]]:
    """How many ledgers of each folder one process verifies, and its largest memory so far in kilobytes."""
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, *map(str, folders)], check=True, capture_output=True, text=True
    )
    return [[int(number) for number in line.split()] for line in run.stdout.splitlines()]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
@pytest.mark.parametrize("number", [500, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_memory_does_not_grow_with_the_number_of_ledgers(tmp_path: Path, number: int) -> None:
    one = write(tmp_path / "few" / "0.jsonl", *(noise(0.1 + i / 1e4) for i in range(4)), claim=ZCDP(rho=9.0))
    (tmp_path / "many").mkdir()
    for i in range(number):
        (tmp_path / "many" / f"user {i}.jsonl").hardlink_to(one)
    (few, little), (many, much) = peaks(tmp_path / "few", tmp_path / "many")
    assert (few, many) == (1, number)
    assert much < little + 8_000  # a name alone takes a hundred bytes
