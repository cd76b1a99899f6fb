"""More programs that misuse a draw in the ways that training loops do, each beside one that does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpaudit import Curator
from tests.seams.case import Case
from tests.seams.samples import FIRST as PAIR
from tests.seams.samples import (
    FIXED,
    FOUND,
    GRADIENT,
    LAST,
    OF_TWO,
    POISSON,
    REMOVED,
    RIGHT,
    SENSITIVE,
    STEPS,
    WIDTH,
    removed,
    replaced,
    told,
    turned,
)

#: From the rows, the places drawn and what the loop keeps to the rows that are added.
Loop = Callable[[Any, Any, dict[Any, Any]], Any]


def kept(step: Loop) -> Callable[[], str]:
    """The verdict on a loop that keeps something from step to step."""

    def run(rows: Any, curator: Curator) -> Any:
        batches = curator.batches(POISSON, "gradient", (WIDTH,), bound=1.0)
        state: dict[Any, Any] = {}
        made = []
        for _ in range(STEPS):
            drawn = batches.draw(len(rows))
            batches.add(np.asarray(step(rows, drawn, state)).reshape(len(drawn), WIDTH))
            made.append(batches.noisy())
        return np.array(made)

    return lambda: told(run, PAIR, REMOVED)


def epochs(rows: Any, drawn: Any, state: dict[Any, Any]) -> Any:
    """The next ones of a shuffled epoch, as many as were drawn."""
    order = np.random.default_rng(5).permutation(len(rows))
    first = state.get("first", 0)
    state["first"] = first + len(drawn)
    return rows[np.resize(np.roll(order, -first), len(drawn))] if len(drawn) else rows[drawn]


def last_part_left_out(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    """Parts of four; of the last one, which is smaller, nothing."""
    del number, curator
    made = rows[drawn].copy()
    if len(drawn) > 4:
        made[len(drawn) // 4 * 4 :] = 0.0
    return made


def balanced(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    """As many of either class, from among those who were drawn."""
    del number, curator
    of_class = [drawn[rows[drawn][:, 0] > 0], drawn[rows[drawn][:, 0] <= 0]]
    if not all(map(len, of_class)):
        return rows[drawn]
    half = len(drawn) // 2
    return rows[np.concatenate([np.resize(of_class[0], half), np.resize(of_class[1], len(drawn) - half)])]


def by_size(rows: Any, drawn: Any, state: dict[Any, Any]) -> Any:
    """Rows that were computed for an earlier batch of the same size."""
    return state.setdefault(len(drawn), rows[drawn])


def by_place_in_batch(rows: Any, drawn: Any, state: dict[Any, Any]) -> Any:
    return [state.setdefault(place, rows[record]) for place, record in enumerate(drawn)]


def by_record(rows: Any, drawn: Any, state: dict[Any, Any]) -> Any:
    return [state.setdefault(record, rows[record]) for record in drawn]


def without_repeats(rows: Any, drawn: Any, state: dict[Any, Any]) -> Any:
    """Nothing of a record that was in an earlier batch."""
    seen = state.setdefault("seen", np.zeros(len(rows), dtype=bool))
    made = np.where(seen[drawn][:, None], 0.0, rows[drawn])
    seen[drawn] = True
    return made


def centred_by_earlier(rows: Any, drawn: Any, state: dict[Any, Any]) -> Any:
    """By a running mean of the batches, which has no noise."""
    mean = state.get("mean", np.zeros(WIDTH))
    state["mean"] = 0.9 * mean + 0.1 * rows[drawn].sum(axis=0) / max(1, len(drawn))
    return (rows[drawn] - mean) / 2.0


def one_further(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    """One place off, and the last one twice."""
    del number, curator
    return rows[np.minimum(drawn + 1, len(rows) - 1)]


def one_further_round(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    """One place off, and the first one after the last."""
    del number, curator
    return rows[(drawn + 1) % len(rows)]


def sorted_in_batch(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    """In an order of their own within the batch, as sorting by length for padding is."""
    del number, curator
    return rows[drawn][np.argsort(rows[drawn][:, 0])]


def small_drawn_again(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    """A batch of one is drawn again, as if it had been an error."""
    del number
    return rows[curator.public("again").choice(len(rows), len(drawn)) if len(drawn) == 1 else drawn]


def small_left_out(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    """Nothing of a batch of one, which has no variance."""
    del number, curator
    return rows[drawn] * (len(drawn) > 1)


def small_kept_smaller(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    """Half of a row that is alone in its batch, as a warm-up by the batch's size."""
    del number, curator
    return rows[drawn] / (2.0 if len(drawn) == 1 else 1.0)


def small_as_any(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    """A batch of one takes a path of its own to the same row."""
    del number, curator
    return rows[drawn[0]][None] if len(drawn) == 1 else rows[drawn]


def over_expected_size(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    del number, curator
    return rows[drawn] / 1.2


def over_size(rows: Any, drawn: Any, number: int, curator: Curator) -> Any:
    del number, curator
    return rows[drawn] / max(1, len(drawn))


def on_one_draw(second: Callable[[Any, Any], Any], mechanism: Any = POISSON) -> Any:
    """Two sums on each draw, of which the second takes its rows in its own way."""

    def run(rows: Any, curator: Curator) -> Any:
        sums = curator.batches(mechanism, "sums", (WIDTH,), bound=1.0)
        halves = curator.batches(mechanism, "halves", (WIDTH,), bound=1.0, draw_with=sums)
        made = []
        for _ in range(STEPS):
            drawn = sums.draw(len(rows))
            sums.add(rows[drawn])
            halves.add(np.asarray(second(rows, drawn)) / 2.0)
            made += [sums.noisy(), halves.noisy()]
        return np.array(made)

    return run


def shuffled(rows: Any, drawn: Any) -> Any:
    return rows[np.random.default_rng(5).permutation(len(rows))[drawn]]


def from_the_end(rows: Any, drawn: Any) -> Any:
    return rows[::-1][drawn]


def hardest_first(rows: Any, drawn: Any) -> Any:
    return rows[np.argsort(-rows[:, 0])][drawn]


def as_drawn(rows: Any, drawn: Any) -> Any:
    return rows[drawn]


def turned_in_batch(rows: Any, drawn: Any) -> Any:
    return rows[drawn][::-1]


def with_counts(second: Callable[[Any, Any], Any]) -> Any:
    """A sum and a count on each draw; the count's rows are 0 or 1, and many units have the same."""

    def run(rows: Any, curator: Curator) -> Any:
        sums = curator.batches(POISSON, "sums", (WIDTH,), bound=1.0)
        counts = curator.batches(POISSON, "counts", (), bound=1.0, draw_with=sums)
        made = []
        for _ in range(STEPS):
            drawn = sums.draw(len(rows))
            sums.add(rows[drawn])
            counts.add((np.asarray(second(rows, drawn))[:, 0] > 0).astype(float))
            made += [sums.noisy().tolist(), float(counts.noisy())]
        return made

    return run


def counted(second: Callable[[Any, Any], Any], pair: Any = PAIR) -> Callable[[], str]:
    return lambda: told(with_counts(second), pair, REMOVED)


def taken_out(second: Callable[[Any, Any], Any]) -> Callable[[], str]:
    return lambda: told(on_one_draw(second), PAIR, REMOVED)


AMONG_OTHERS = "PROVED, REFUTED.*sampling gradient"
HALVES, COUNTS = FOUND.format("halves"), FOUND.format("counts")

CASES = [
    Case("sample not used", "shuffled epochs, as many as drawn", True, kept(epochs), GRADIENT),
    Case("sample not used", "rows kept by the batch's size", True, kept(by_size), GRADIENT),
    Case("sample not used", "rows kept by place in the batch", True, kept(by_place_in_batch), GRADIENT),
    Case("sample not used", "rows kept by record", False, kept(by_record), RIGHT),
    Case("sample not used", "one place off, cut at the end", True, removed(one_further), SENSITIVE),
    Case("sample not used", "one place off, round", False, removed(one_further_round), RIGHT),
    Case("rows of others", "a small last part left out", True, removed(last_part_left_out), AMONG_OTHERS),
    Case("rows of others", "classes balanced in the batch", True, removed(balanced), GRADIENT),
    Case("rows of others", "nothing of who was drawn before", True, kept(without_repeats), GRADIENT),
    Case("rows of others", "centred by earlier batches", True, kept(centred_by_earlier), AMONG_OTHERS),
    Case("small batches", "a batch of one drawn again", True, removed(small_drawn_again), GRADIENT),
    Case("small batches", "a batch of one left out", True, removed(small_left_out), GRADIENT),
    Case("small batches", "a batch of one counts half", True, removed(small_kept_smaller), GRADIENT),
    Case("small batches", "a batch of one added", False, removed(small_as_any), RIGHT),
    Case("rows of others", "sorted in the batch", False, removed(sorted_in_batch), RIGHT),
    Case("rows of others", "rows over the size drawn", True, removed(over_size), AMONG_OTHERS),
    Case("rows of others", "rows over the expected size", False, removed(over_expected_size), RIGHT),
    Case("other units on one draw", "second sum over shuffled rows", True, taken_out(shuffled), HALVES),
    Case("other units on one draw", "second sum from the end", True, taken_out(from_the_end), HALVES),
    Case("other units on one draw", "second sum, hardest first", True, taken_out(hardest_first), HALVES),
    Case(
        "other units on one draw",
        "second sum over shuffled rows, one size",
        True,
        turned(on_one_draw(shuffled, FIXED)),
        HALVES,
    ),
    Case(
        "other units on one draw",
        "second sum over shuffled rows, replaced record",
        True,
        turned(on_one_draw(shuffled, OF_TWO)),
        HALVES,
    ),
    Case("other units on one draw", "second sum as drawn", False, taken_out(as_drawn), RIGHT),
    Case(
        "other units on one draw",
        "second sum as drawn, one size",
        False,
        turned(on_one_draw(as_drawn, FIXED)),
        RIGHT,
    ),
    Case("other units on one draw", "second sum, batch turned", False, taken_out(turned_in_batch), RIGHT),
    Case("other units on one draw", "counts of shuffled rows", True, counted(shuffled), COUNTS),
    Case("other units on one draw", "counts from the end", True, counted(from_the_end, LAST), COUNTS, True),
    Case(
        "other units on one draw", "counts, hardest first", True, counted(hardest_first, LAST), COUNTS, True
    ),
    Case("other units on one draw", "counts as drawn", False, counted(as_drawn), RIGHT, True),
    Case("other units on one draw", "counts, batch turned", False, counted(turned_in_batch), RIGHT),
    Case("sample not used", "one place off, round, of one size", False, replaced(one_further_round), RIGHT),
]
