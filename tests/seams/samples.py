"""Samples that are drawn and not summed, or summed twice, and programs that look like these and are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import dpaudit
from dpaudit import (
    L2,
    ApproxDP,
    Claim,
    Curator,
    FixedSizeSampled,
    Gaussian,
    Pair,
    PoissonSampled,
    RandomAllocation,
)
from tests.seams.case import Case

RECORDS, WIDTH, STEPS = 12, 3, 3
ROWS = np.random.default_rng(0).normal(size=(RECORDS, WIDTH))
ROWS /= np.linalg.norm(ROWS, axis=1, keepdims=True)
#: So large that no figure decides: what a sample is worth is the ledger's to say.
WIDE = ApproxDP(epsilon=30.0, delta=1e-5)
REMOVED = Claim(WIDE, unit="record", neighbouring="add-or-remove-one")
REPLACED = Claim(WIDE, unit="record", neighbouring="replace-one")
POISSON = PoissonSampled(rate=0.1, mechanism=Gaussian(sigma=1.5, sensitivity=L2(1.0)))
#: The same where a record is replaced, and moves a sum by two rows.
OF_TWO = PoissonSampled(rate=0.1, mechanism=Gaussian(sigma=1.5, sensitivity=L2(2.0)))
FIXED = FixedSizeSampled(size=4, units=RECORDS, mechanism=Gaussian(sigma=1.5, sensitivity=L2(2.0)))
FIRST = Pair(ROWS, ROWS[1:], "the first record")
LAST = Pair(ROWS, ROWS[:-1], "the last record")
TURNED = Pair(ROWS, np.vstack([-ROWS[:1], ROWS[1:]]), "the first record turned round")

#: From the rows, the places drawn, the step and the curator to the rows that are added.
Step = Callable[[Any, Any, int, Curator], Any]


def told(target: Any, pair: Pair, claim: Claim) -> str:
    """What a user is told, by default."""
    made = dpaudit.certify(target, pair.data, claim=claim, pairs=pair, curves=False)
    found = [f"{one.kind} {one.label}" for audit in made.audits for one in audit.findings]
    return ", ".join([f"{made.proof}, {made.experiment}", *dict.fromkeys(found)])


def summed(step: Step, mechanism: Any = POISSON) -> Any:
    """Three sums over samples, of the rows that a step makes."""

    def run(rows: Any, curator: Curator) -> Any:
        rows = np.asarray(rows)
        batches = curator.batches(mechanism, "gradient", (WIDTH,), bound=1.0)
        made = []
        for number in range(STEPS):
            drawn = batches.draw(len(rows))
            batches.add(np.asarray(step(rows, drawn, number, curator)).reshape(len(drawn), WIDTH))
            made.append(batches.noisy())
        return np.array(made)

    return run


def removed(step: Step, pair: Pair = FIRST) -> Callable[[], str]:
    return lambda: told(summed(step), pair, REMOVED)


def replaced(step: Step, mechanism: Any = FIXED) -> Callable[[], str]:
    return lambda: told(summed(step, mechanism), TURNED, REPLACED)


def turned(target: Any) -> Callable[[], str]:
    return lambda: told(target, TURNED, REPLACED)


def used(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    del number, curator
    return rows[drawn]


def size_alone(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    del number, curator
    return rows[: len(drawn)]


def clipped_as_a_whole(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    del number, curator
    made, total = np.zeros((len(drawn), WIDTH)), rows[drawn].sum(axis=0)
    made[:1] = total / max(1.0, float(np.linalg.norm(total)))
    return made


def clipped_one_by_one(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    del number, curator
    return rows[drawn] / np.maximum(1.0, np.linalg.norm(rows[drawn], axis=1, keepdims=True))


def first_few(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    """The first three that were drawn, again and again."""
    del number, curator
    return rows[np.resize(drawn[:3], len(drawn))]


def drawn_again(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    """A bootstrap of the batch: some stand in it twice."""
    del number
    return rows[curator.public("bootstrap").choice(drawn, len(drawn))]


def modulo(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    del number, curator
    return rows[drawn % 7]


def centred(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    """By the mean of the batch, as a batch normalisation does."""
    del number, curator
    return (rows[drawn] - rows[drawn].sum(axis=0) / max(1, len(drawn))) / 2.0


def among_the_hardest(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    """By their loss, the hardest first, of which all are there."""
    del number, curator
    return rows[np.argsort(-rows[:, 0])][drawn]


def by_size_of_the_hardest(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    del number, curator
    return rows[np.argsort(-rows[:, 0])][: len(drawn)]


def counted_from_the_end(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    """A negative index names one record too, and another for each place."""
    del number, curator
    return rows[-drawn]


def shuffled(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    del number
    return rows[curator.public("shuffle").permutation(len(rows))[drawn]]


def kept_sample(every: int = STEPS) -> Any:
    """A sample is kept for so many steps, though each draws one."""

    def run(rows: Any, curator: Curator) -> Any:
        batches = curator.batches(FIXED, "gradient", (WIDTH,), bound=1.0)
        made, kept = [], np.zeros(0, dtype=np.int64)
        for number in range(STEPS):
            drawn = batches.draw(len(rows))
            kept = drawn if number % every == 0 else kept
            batches.add(rows[kept])
            made.append(batches.noisy())
        return np.array(made)

    return run


def two_sums(rows: Any, curator: Curator, *, own: bool) -> Any:
    """Two sums a step, the second over a sample of its own or not."""
    first, second = (curator.batches(FIXED, label, (WIDTH,), bound=1.0) for label in ("sums", "squares"))
    made = []
    for _ in range(STEPS):
        drawn = first.draw(len(rows))
        first.add(rows[drawn])
        again = second.draw(len(rows))
        second.add(rows[again if own else drawn] ** 2)
        made += [first.noisy(), second.noisy()]
    return np.array(made)


def one_sample(rows: Any, curator: Curator) -> Any:
    return two_sums(rows, curator, own=False)


def two_samples(rows: Any, curator: Curator) -> Any:
    return two_sums(rows, curator, own=True)


def drawn_until(least: int) -> Any:
    """Small batches are thrown away, and drawn again."""

    def run(rows: Any, curator: Curator) -> Any:
        batches = curator.batches(OF_TWO, "gradient", (WIDTH,), bound=1.0)
        drawn = batches.draw(len(rows))
        while len(drawn) < least:
            batches.drop()
            drawn = batches.draw(len(rows))
        batches.add(rows[drawn])
        return batches.noisy()

    return run


def empty_batches(*, skipped: bool) -> Any:
    """Nothing is released of a batch without records; or its noise is."""

    def run(rows: Any, curator: Curator) -> Any:
        batches = curator.batches(OF_TWO, "gradient", (WIDTH,), bound=1.0)
        made = []
        for _ in range(STEPS):
            drawn = batches.draw(len(rows))
            if skipped and len(drawn) == 0:
                batches.drop()
                continue
            batches.add(rows[drawn])
            made.append(batches.noisy())
        return np.array(made)

    return run


def mean(mechanism: Any) -> Any:
    """The noisy sum over how many were drawn: of Poisson samples a secret, of samples of one size not."""

    def run(rows: Any, curator: Curator) -> Any:
        batches = curator.batches(mechanism, "gradient", (WIDTH,), bound=1.0)
        drawn = batches.draw(len(rows))
        batches.add(rows[drawn])
        return batches.noisy() / max(1, len(drawn))

    return run


def of_the_hardest(*, of_all: bool) -> Any:
    """A draw among the five records with the largest loss, or among those above a public number."""

    def run(rows: Any, curator: Curator) -> Any:
        order = np.argsort(-rows[:, 0])[:5] if of_all else np.flatnonzero(rows[:, 0] > 0.1)
        batches = curator.batches(POISSON, "gradient", (WIDTH,), bound=1.0)
        batches.add(rows[order][batches.draw(len(order))])
        return batches.noisy()

    return run


def in_turns(order: Callable[[Any, int, Curator], Any]) -> Any:
    """Sums over turns, in each step with the rows in some order."""

    def run(rows: Any, curator: Curator) -> Any:
        stream = curator.sampled_stream(ALLOCATED, "gradient", bound=1.0, shape=(WIDTH,))
        return np.array([stream.add(rows[order(rows, step, curator)]) for step in range(STEPS)])

    return run


ALLOCATED = RandomAllocation(steps=STEPS, mechanism=Gaussian(sigma=1.5, sensitivity=L2(1.0)))
FEW = Pair(ROWS[:5], ROWS[1:5], "the first of five records")


def allocated(order: Callable[[Any, int, Curator], Any]) -> Callable[[], str]:
    return lambda: told(in_turns(order), FEW, REMOVED)


def as_given(rows: Any, step: int, curator: Curator) -> Any:
    del step, curator
    return np.arange(len(rows))


def by_one_column_a_step(rows: Any, step: int, curator: Curator) -> Any:
    """By their loss, which is another one in each step."""
    del curator
    return np.argsort(-rows[:, step % WIDTH])


def shuffled_a_step(rows: Any, step: int, curator: Curator) -> Any:
    del step
    return np.argsort(curator.public("order").permutation(12)[: len(rows)])


def shuffled_once(rows: Any, step: int, curator: Curator) -> Any:
    del step, curator
    return np.argsort(np.random.default_rng(3).random(len(rows)))


def on_one_sample(first: Any, second: Any) -> Callable[[], str]:
    """Two sums that name one sample, each of the rows as a function of its own arranges them."""

    def run(rows: Any, curator: Curator) -> Any:
        made = []
        for label, arranged, power in (("sums", first, 1), ("squares", second, 2)):
            stated: Any = {"map": (lambda row, power=power: row**power), "shape": (WIDTH,), "label": label}
            made.append(
                curator.release_sum(arranged(rows), bound=1.0, mechanism=POISSON, sample="one", **stated)
            )
        return made

    def verdict() -> str:
        try:
            return told(run, FEW, REMOVED)
        except dpaudit.DpauditError as error:
            return f"{error.code} {error.what}; {error.remedy}"

    return verdict


def turned_where_they_stand(rows: Any) -> Any:
    """The same array, whose rows have moved."""
    rows[:] = rows[::-1].copy()
    return rows


HARDEST = Pair(ROWS, np.delete(ROWS, np.argmax(ROWS[:, 0]), axis=0), "the hardest record")


def hardest(*, of_all: bool) -> Callable[[], str]:
    return lambda: told(of_the_hardest(of_all=of_all), HARDEST, REMOVED)


#: Records of another kind than rows of an array.
VISITS = [{"patient": number, "values": row.tolist()} for number, row in enumerate(ROWS)]


def of_visits(*, size_alone: bool) -> Any:
    def run(visits: Any, curator: Curator) -> Any:
        batches = curator.batches(POISSON, "visits", (WIDTH,), bound=1.0)
        drawn = batches.draw(len(visits))
        chosen = visits[: len(drawn)] if size_alone else [visits[place] for place in drawn]
        batches.add(np.array([visit["values"] for visit in chosen]).reshape(len(drawn), WIDTH))
        return batches.noisy()

    return run


def visits(*, size_alone: bool) -> Callable[[], str]:
    pair = Pair(VISITS, VISITS[1:], "the first visit")
    return lambda: told(of_visits(size_alone=size_alone), pair, REMOVED)


def physical(rows: Any, curator: Curator) -> Any:
    """A batch in parts of five, each computed by one matrix product in single precision."""
    weights = np.random.default_rng(1).normal(size=(WIDTH, WIDTH)).astype(np.float32)
    batches = curator.batches(POISSON, "gradient", (WIDTH,), bound=1.0)
    made = []
    for _ in range(STEPS):
        drawn = batches.draw(len(rows))
        for first in range(0, len(drawn), 5):
            batches.add(rows[drawn[first : first + 5]].astype(np.float32) @ weights)
        made.append(batches.noisy())
    return np.array(made)


FOUND = "PROVED, REFUTED, sampling {}"
RIGHT = "PROVED, NOT_REFUTED"
GRADIENT = FOUND.format("gradient")
SENSITIVE = "PROVED, REFUTED, sensitivity gradient"
AMONG_OTHERS = "PROVED, REFUTED.*sampling gradient"

OTHERS = r"DPA101 other records than the first release on sample 'one': .*; give every release .* map= .*"


def as_they_are(rows: Any) -> Any:
    return rows


class Row:
    """A record that is no plain value."""

    def __init__(self, row: Any) -> None:
        self.row = row

    def __pow__(self, power: int) -> Any:
        return self.row**power


def objects_of(rows: Any) -> list[Row]:
    return [Row(row) for row in rows]


CASES = [
    Case("sample not used", "the size of the draw alone", True, removed(size_alone), GRADIENT),
    Case("sample not used", "the size alone, last record", True, removed(size_alone, LAST), GRADIENT),
    Case("sample not used", "the size alone, samples of one size", True, replaced(size_alone), GRADIENT),
    Case(
        "sample not used", "hardest first, as many as drawn", True, removed(by_size_of_the_hardest), GRADIENT
    ),
    Case(
        "sample not used",
        "the size alone, a list of records",
        True,
        visits(size_alone=True),
        FOUND.format("visits"),
    ),
    Case("sample not used", "the first few drawn, again and again", True, removed(first_few), AMONG_OTHERS),
    Case("sample not used", "a bootstrap of the batch", True, removed(drawn_again), AMONG_OTHERS),
    Case(
        "sample not used",
        "places modulo seven",
        True,
        removed(modulo),
        SENSITIVE,
    ),
    Case("sample not used", "the drawn rows", False, removed(used), RIGHT),
    Case("sample not used", "the drawn rows, last record", False, removed(used, LAST), RIGHT),
    Case("sample not used", "the drawn rows, one size", False, replaced(used), RIGHT),
    Case("sample not used", "the drawn rows, replaced record", False, replaced(used, OF_TWO), RIGHT),
    Case("sample not used", "the drawn ones of a list", False, visits(size_alone=False), RIGHT),
    Case("sample not used", "sorted by loss, all there", False, removed(among_the_hardest), RIGHT),
    Case("sample not used", "places counted from the end", False, removed(counted_from_the_end), RIGHT),
    Case("sample not used", "a public shuffle a step", False, replaced(shuffled, OF_TWO), RIGHT),
    Case(
        "sample not used",
        "physical batches, single precision",
        False,
        lambda: told(physical, FIRST, REMOVED),
        RIGHT,
    ),
    Case(
        "sample used twice",
        "the second sum over the first sample",
        True,
        turned(one_sample),
        FOUND.format("squares"),
    ),
    Case("sample used twice", "two sums, two samples", False, turned(two_samples), RIGHT),
    Case("sample used twice", "one sample for all steps", True, turned(kept_sample()), GRADIENT),
    Case("sample used twice", "a sample kept for a second step", True, turned(kept_sample(2)), GRADIENT),
    Case("sample used twice", "a sample a step", False, turned(kept_sample(1)), RIGHT),
    Case("rows of others", "batch clipped as a whole", True, removed(clipped_as_a_whole), AMONG_OTHERS),
    Case("rows of others", "each clipped", False, removed(clipped_one_by_one), RIGHT),
    Case("rows of others", "centred by the batch", True, replaced(centred, OF_TWO), SENSITIVE),
    Case("membership by data", "of the five hardest", True, hardest(of_all=True), AMONG_OTHERS),
    Case("membership by data", "of those above a number", False, hardest(of_all=False), RIGHT),
    Case("sample told", "small batches drawn again", True, turned(drawn_until(4)), AMONG_OTHERS),
    Case("sample told", "drawn once", False, turned(drawn_until(0)), RIGHT),
    Case(
        "sample told", "over the number drawn", True, turned(mean(OF_TWO)), "PROVED, REFUTED, sampling None"
    ),
    Case("sample told", "over the number drawn, of one size", False, turned(mean(FIXED)), RIGHT),
    Case(
        "unit out of place",
        "sorted by the loss of each step",
        True,
        allocated(by_one_column_a_step),
        GRADIENT,
    ),
    Case("unit out of place", "turns of rows shuffled each step", True, allocated(shuffled_a_step), GRADIENT),
    Case("unit out of place", "turns of rows as given", False, allocated(as_given), RIGHT),
    Case("unit out of place", "turns of rows shuffled once", False, allocated(shuffled_once), RIGHT),
    *(
        Case("other records on one sample", name, True, on_one_sample(first, second), OTHERS)
        for name, first, second in (
            ("rows turned round", as_they_are, lambda rows: rows[::-1]),
            ("rows sorted by value", as_they_are, lambda rows: rows[np.argsort(rows[:, 0])]),
            ("rows moved in the array itself", as_they_are, turned_where_they_stand),
            ("a generator in another order", iter, lambda rows: (rows[-1 - i] for i in range(len(rows)))),
            ("counts in another order", lambda rows: rows > 0, lambda rows: rows[::-1] > 0),
            ("one row fewer", as_they_are, lambda rows: rows[1:]),
            ("objects made anew", objects_of, objects_of),
        )
    ),
    *(
        Case("other records on one sample", name, False, on_one_sample(first, second), RIGHT)
        for name, first, second in (
            ("rows as they are", as_they_are, as_they_are),
            ("a view of the rows, and a copy", lambda rows: rows[:], lambda rows: rows.copy()),
            ("a list, and a generator", list, iter),
        )
    ),
    Case(
        "sample told",
        "an empty batch skipped",
        True,
        turned(empty_batches(skipped=True)),
        ".*REFUTED, sampling gradient",
    ),
    Case("sample told", "an empty batch released", False, turned(empty_batches(skipped=False)), RIGHT),
]
