"""Try kinds of mechanisms under every relation and in every size of mix, at deltas from 1e-2 to 1e-300.

    python docs/programs/make_sweep.py [FILE]

The truth comes from tests/properties/test_soundness.py, which computes it without the package. The mixes are
the same in every run. It takes about half an hour in one process; a whole run without a fault writes its
figures into docs/proving/accountants.md, and one that finds a fault prints it and writes nothing. With a file
as argument, figures are kept there line by line, and a mix whose figures are there is not tried again.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from wrapping import wrapped

from dpaudit import Neighbouring

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.properties import test_soundness as truth  # noqa: E402  (found by the line above)

PAGE = ROOT / "docs" / "proving" / "accountants.md"
BEGIN, END = "<!-- written by docs/programs/make_sweep.py -->", "<!-- end -->"
Mix = tuple[str, int, Neighbouring]  # the first kind, how many together, and the relation
SIZES = {1: "one kind alone", 2: "with one of any kind", 3: "with two of any kind"}

WORDS = """
{kinds} kinds of mechanisms were tried, each alone under each of {relations} relations, and all but {slow} in
a mix with one and with two others of any kind, under one relation in turn. Each has one to three runs, at delta
= {deltas}. The tables of these {slow} take long to compose; `nox -s nightly` tries ten mixes of each: {names}.

{table}
In an *exact* mix the truth was enumerated without cutting noise into cells; in the others it is bounded
from below. No accountant was below the truth, in {epsilons:,} epsilons and {deltas_found:,} deltas, and no
lower end above it, in {ends:,}. In no mix was `pld` above `rdp`, or `rdp` above `zcdp`, at a delta of 1e-280
or more, and no epsilon was larger for a larger delta, or smaller after one more run: by more than 1e-9 of
itself. A figure is *refused* at a delta that does not exceed the probability that everything is revealed,
which includes 1e-300 for each run. `python docs/programs/make_sweep.py` tries them all again.
"""


def chosen() -> Iterator[Mix]:
    """Every kind alone under every relation, and in a mix of each size under one of them in turn."""
    relations = list(Neighbouring)
    yield from ((kind, 1, relation) for kind in truth.SLOW for relation in relations)
    for turn, kind in enumerate(truth.KINDS):
        for size in SIZES:
            for relation in relations if size == 1 else [relations[(turn + size) % len(relations)]]:
                yield kind, size, relation


def tried(kind: str, size: int, relation: Neighbouring) -> Counter[str]:
    """What was compared in a mix of one first kind, of one size, under one relation."""
    seen, number = Counter[str](), 0

    @seed(int.from_bytes(f"{kind} {size} {relation}".encode()))
    @settings(
        max_examples=2,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(mix=truth.mixes((truth.KINDS | truth.SLOW)[kind], (size, size)))
    def test(mix: list[tuple[object, int]]) -> None:
        nonlocal number
        number += 1
        if number > 1:  # Hypothesis begins with the simplest numbers, whatever the seed
            seen.update(truth.sound(mix, truth.DELTAS, relation))

    test()
    return seen


def words(found: dict[Mix, Counter[str]]) -> str:
    """The section of the page: a row for each size of mix."""
    rows = {size: Counter[str]() for size in SIZES}
    for (_, size, _), seen in found.items():
        rows[size] += seen
    whole = sum(rows.values(), Counter[str]())
    columns = ("mixes", "exact", "runs", "epsilons", "deltas", "lower ends", "refused")
    table = (
        "| mixes | number | exact | runs | epsilons | deltas | lower ends | refused |\n|---|" + "---:|" * 7
    )
    for name, row in [*((SIZES[size], row) for size, row in rows.items()), ("all", whole)]:
        table += f"\n| {name} | " + " | ".join(f"{row[column]:,}" for column in columns) + " |"
    return WORDS.format(
        kinds=len(truth.KINDS | truth.SLOW),
        slow=len(truth.SLOW),
        names=", ".join(truth.SLOW),
        relations=len(Neighbouring),
        deltas=", ".join(f"{delta:g}" for delta in truth.DELTAS),
        table=table + "\n",
        epsilons=whole["epsilons"],
        deltas_found=whole["deltas"],
        ends=whole["lower ends"],
    )


def main() -> int:
    """Try all, printing what was compared, and write the section."""
    faults = 0
    kept = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    lines = kept.read_text(encoding="utf-8").splitlines() if kept and kept.exists() else []
    before = {tuple(mix): Counter(seen) for mix, seen in map(json.loads, lines)}
    found: dict[Mix, Counter[str]] = {}
    for mix in chosen():
        if mix in before:
            found[mix] = before[mix]
            continue
        try:
            found[mix] = tried(*mix)
        except AssertionError:
            faults += 1
            traceback.print_exc(limit=-1)
            continue
        line = json.dumps([mix, found[mix]])
        print(line, flush=True)  # noqa: T201
        if kept:
            with kept.open("a", encoding="utf-8") as figures:
                figures.write(line + "\n")
    if faults:
        print(f"{faults} mixes with a fault; nothing was written")  # noqa: T201
        return 1
    text = words(found)
    print(text)  # noqa: T201
    start, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    page = f"{start}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}"
    PAGE.write_text(wrapped(page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
