"""What an algorithm keeps, returns or does to other users between runs hides nothing."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from dpaudit import L2, ZCDP, Claim, Curator, Experiment, Gaussian, Pair, Partition
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.conditions import Code, Condition

NOISE = Gaussian(sigma=1.0, sensitivity=L2(1.0))
DATA = np.arange(1.0, 11.0) / 10.0
NEIGHBOUR = DATA.copy()
NEIGHBOUR[3] = 0.9
PAIR = Pair(DATA, NEIGHBOUR, "one value changed", unit=3)


def kinds(algorithm: Any, pair: Pair = PAIR, **options: Any) -> set[str]:
    return {finding.kind for finding in replay(algorithm, [pair], replays=3, **options).findings}


class Scaler:
    """Fits itself to the first data it sees."""

    top: float | None = None

    def __call__(self, data: Any, curator: Curator) -> Any:
        if self.top is None:
            self.top = float(data[3])
        return curator.release(data.sum(), NOISE, label="sum") * self.top


class Cached:
    """Asks of the first data it saw, far beyond its sensitivity."""

    query: float | None = None

    def __call__(self, data: Any, curator: Curator) -> Any:
        if self.query is None:
            self.query = 100.0 * data.sum()
        return curator.release(self.query, NOISE, label="sum")


def test_what_an_algorithm_keeps_from_its_first_run_hides_no_leak() -> None:
    assert kinds(Scaler()) == {"leak"}
    assert kinds(Cached()) == {"sensitivity"}


def test_an_output_that_cannot_be_seen_hides_no_other_finding() -> None:
    def unseen(data: Any, curator: Curator) -> Any:
        return (value for value in [curator.release(1000.0 * data.sum(), NOISE, label="sum")])

    audit = replay(unseen, [PAIR], replays=3)
    assert audit.verdict is Experiment.REFUTED
    assert {finding.kind for finding in audit.findings} == {"sensitivity"}


class Unpickled:
    """Drops what it was fitted to when it is copied or pickled, and shows it to whoever holds it."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __reduce__(self) -> tuple[Any, ...]:
        return Unpickled, (None,)


def test_what_a_copy_of_the_output_leaves_out_is_not_passed_over() -> None:
    def view(data: Any, curator: Curator) -> Any:
        return np.append(curator.release(data.sum(), NOISE, label="sum"), data)[:1]

    def unpickled(data: Any, curator: Curator) -> Any:
        curator.release(data.sum(), NOISE, label="sum")
        return Unpickled(data)

    def innocent(data: Any, curator: Curator) -> Any:
        return np.append(curator.release(data.sum(), NOISE, label="sum"), np.arange(5.0))[:1]

    for algorithm, place in ((view, "output (base)"), (unpickled, "output.rows")):
        audit = replay(algorithm, [PAIR], replays=3)
        assert audit.verdict is Experiment.INCONCLUSIVE
        assert f"{place} differs" in str(audit.inconclusive)
    assert replay(innocent, [PAIR], replays=3).verdict is Experiment.NOT_REFUTED


def test_a_pair_of_the_same_data_tells_nothing() -> None:
    def leaky(data: Any, curator: Curator) -> Any:
        return curator.release(data.sum(), NOISE, label="sum"), data

    same = Pair(DATA, DATA, "forgot to copy")
    audit = replay(leaky, [same], replays=3)
    assert audit.verdict is Experiment.INCONCLUSIVE
    assert "are the same: give two that differ in one unit of privacy" in str(audit.inconclusive)
    assert kinds(leaky) == {"leak"}


LOCAL = Claim(ZCDP(rho=0.5), unit="user", trust_model="local", neighbouring="replace-one")


def test_under_local_trust_one_users_data_move_one_users_releases() -> None:
    def honest(data: Any, curator: Curator) -> None:
        for index, value in enumerate(data):
            with curator.user(index) as own:
                own.release(value, NOISE, label="answer")

    def leaky(data: Any, curator: Curator) -> None:
        for index in range(len(data)):
            with curator.user(index) as own:
                own.release(data[3], NOISE, label="answer")

    options = {"claim": LOCAL, "run_options": {"users": len(DATA)}}
    assert kinds(honest, **options) == set()
    assert kinds(leaky, **options) == {"sensitivity"}


def test_how_many_parts_one_unit_touches_is_the_relations_to_say() -> None:
    def both(data: Any, curator: Curator) -> None:
        for part in ("a", "b"):
            where = {"part": part, "by": "values"}
            curator.release(data.sum(), NOISE, label=part, partition=Partition(**where))

    replaced = Claim(ZCDP(rho=1.0), unit="row", neighbouring="replace-one")
    removed = Claim(ZCDP(rho=0.5), unit="row", neighbouring="add-or-remove-one")
    pair = Pair(DATA, DATA[1:], "the first row removed")
    assert kinds(both, claim=replaced) == set()
    assert kinds(both, pair, claim=removed) == {"sensitivity"}


def test_printing_is_outside_and_the_audit_says_so(capsys: Any) -> None:
    def prints(data: Any, curator: Curator) -> Any:
        print(data[3], file=io.StringIO())
        return curator.release(data.sum(), NOISE, label="sum")

    audit = replay(prints, [PAIR], replays=3)
    assert audit.verdict is Experiment.NOT_REFUTED
    assert Condition(code=Code.BESIDE_RELEASES) in audit.not_checked
