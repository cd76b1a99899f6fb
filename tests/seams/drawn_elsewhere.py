"""Samples that the run's curator did not draw: another one did, an author's own code, or an earlier run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dpaudit
from dpaudit import L2, Curator, Gaussian, Header, Ledger, PoissonSampled, Release
from dpaudit.accountants.accounting import account
from dpaudit.certificate.conditions import Code
from dpaudit.curator.noise import LiveNoise
from dpaudit.mechanisms import OpaqueZCDP
from tests.seams.case import Case

HALF = PoissonSampled(rate=0.5, mechanism=Gaussian(sigma=0.01, sensitivity=L2(1.0)))
OWN = PoissonSampled(rate=0.5, mechanism=OpaqueZCDP(rho=0.1, justification="by hand"))
ROWS = np.eye(24)
HEADER = Header(algorithm="a", unit="row", neighbouring="add-or-remove-one")


def curator(ledger: Ledger | None = None) -> Curator:
    return Curator(Ledger(HEADER) if ledger is None else ledger, LiveNoise(3))


def summed(own: Curator, sample: str | None) -> list[int]:
    """Who is in one sum."""
    made = own.release_sum(ROWS, bound=1.0, mechanism=HALF, label="sum", sample=sample)
    return np.flatnonzero(np.rint(made)).tolist()


def in_batch(own: Curator) -> None:
    """Two sums on one draw."""
    first = own.batches(HALF, "sum", (24,), bound=1.0)
    second = own.batches(HALF, "again", (24,), bound=1.0, draw_with=first)
    drawn = first.draw(24)
    for each in (first, second):
        each.add(ROWS[drawn])
        each.noisy()


def again(ledger: Ledger) -> Ledger:
    """The ledger of a run that was cut short, read from its file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.jsonl"
        path.write_bytes(b"".join(ledger.lines()))
        return Ledger.read(path, allow_truncated=True)


def told(work: Callable[[], Ledger]) -> Callable[[], str]:
    """The samples of a ledger and whether its own draws are a condition, or the error."""

    def verdict() -> str:
        try:
            ledger = work()
        except dpaudit.DpauditError as error:
            return f"{error.code} {error.what}; {error.remedy}"
        fresh = Code.FRESH_SAMPLES in {condition.code for condition in account(ledger).not_checked}
        return f"{[one.sample for one in ledger]}, own samples {'not ' if fresh else ''}known"

    return verdict


def by_two(*, restarted: bool, names: tuple[str, str]) -> Callable[[], str]:
    def work() -> Ledger:
        one = curator()
        summed(one, names[0])
        other = curator(again(one.ledger) if restarted else one.ledger)
        summed(other, names[1])
        return other.ledger

    return told(work)


def batches_by_two(*, restarted: bool) -> Callable[[], str]:
    def work() -> Ledger:
        one = curator()
        in_batch(one)
        other = curator(again(one.ledger) if restarted else one.ledger)
        in_batch(other)
        return other.ledger

    return told(work)


def by_author(sample: str | None, times: int = 2) -> Callable[[], str]:
    def work() -> Ledger:
        own = curator()
        for _ in range(times):
            own.release_opaque(0.0, lambda value, _: value, OWN, label="own", sample=sample)
        return own.ledger

    return told(work)


def by_hand(count: int = 1, times: int = 2, **header: Any) -> Callable[[], str]:
    """A ledger that no curator wrote, whatever its header says."""

    def work() -> Ledger:
        ledger = Ledger(HEADER.model_copy(update=header))
        for _ in range(times):
            ledger.append(Release(label="sum", mechanism=HALF, count=count))
        return ledger

    return told(work)


def typed_basis() -> Ledger:
    """A ledger by hand that says that its rows were mapped, which only the curator can know."""
    noise = Gaussian(sigma=1.0, sensitivity=L2(1.0, "mapped"))
    ledger = Ledger(HEADER)
    ledger.append(Release(label="sum", mechanism=PoissonSampled(rate=0.5, mechanism=noise)))
    return ledger


def mapped() -> Ledger:
    own = curator()
    own.release_sum([1.0, 2.0], bound=1.0, mechanism=HALF, label="sum", map=float)
    return own.ledger


def summed_as_drawn(work: Callable[[], Ledger]) -> Callable[[], str]:
    def verdict() -> str:
        found = {condition.code for condition in account(work()).not_checked}
        return "not checked" if Code.SAMPLE_SUMMED in found else "known"

    return verdict


def partly_by_hand() -> Ledger:
    own = curator()
    summed(own, None)
    own.ledger.append(Release(label="sum", mechanism=HALF))
    return own.ledger


def by_curator() -> Ledger:
    own = curator()
    summed(own, None)
    summed(own, None)
    return own.ledger


ELSEWHERE = r"DPA501 sample 'one', which another curator drew; give the draw a name .*"
ONE, TWO = "a sample of another curator", "samples that nobody here drew"
TWICE = r"\['batch 1', 'batch 1', 'batch 2', 'batch 2'\], own samples {}known"
CASES = [
    Case(ONE, "two curators name one sample", True, by_two(restarted=False, names=("one", "one")), ELSEWHERE),
    Case(ONE, "one sample across a restart", True, by_two(restarted=True, names=("one", "one")), ELSEWHERE),
    Case(ONE, "two curators, two names", False, by_two(restarted=False, names=("one", "two")), ".*'two'.*"),
    Case(ONE, "two names across a restart", False, by_two(restarted=True, names=("one", "two")), ".*'two'.*"),
    Case(ONE, "batches of two curators", True, batches_by_two(restarted=False), TWICE.format("")),
    Case(ONE, "batches across a restart", True, batches_by_two(restarted=True), TWICE.format("")),
    Case(TWO, "an own sampler's named draw", True, by_author("one"), r"DPA101 .*; .*one vector.*"),
    Case(TWO, "an own sampler twice", True, by_author(None), ".*own samples not known"),
    Case(TWO, "an own sampler once", False, by_author(None, 1), ".*own samples known"),
    Case(TWO, "a typed run id", True, by_hand(run="0" * 32), ".*own samples not known"),
    Case(
        TWO,
        "a typed seed",
        True,
        by_hand(noise=HEADER.noise.model_copy(update={"seeded": True})),
        ".*own samples not known",
    ),
    Case(TWO, "a thousand runs on one line", True, by_hand(1000, 1), ".*own samples not known"),
    Case(TWO, "one run by hand", False, by_hand(1, 1), ".*own samples known"),
    Case(TWO, "a line added by hand", True, told(partly_by_hand), ".*own samples not known"),
    Case(TWO, "a basis typed by hand", True, summed_as_drawn(typed_basis), "not checked"),
    Case(TWO, "records that the curator mapped", False, summed_as_drawn(mapped), "known"),
    Case(TWO, "two draws of the curator's", False, told(by_curator), ".*own samples known"),
]
