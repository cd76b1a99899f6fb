"""A hospital's CSV of patients with the defects that such files have, and how to repair them.

python examples/patients.py export patients.csv rewards.csv     # a hospital's export, simulated
python examples/patients.py words patients.csv step1.csv        # words to numbers
python examples/patients.py twice step1.csv step2.csv           # repeated lines
python examples/patients.py gaps step2.csv repaired.csv         # visits that are missing
dpaudit certify dp-apvi --data repaired.csv -P rewards=rewards.csv
dpaudit audit examples/patients.py:planner

Repairing is part of the algorithm: the guarantee is about the export, so two exports that differ in one
patient must become two repaired files that differ in one patient. Each rule below therefore reads the lines
of one patient only, and none drops a patient, because the number of patients is public. What a rule changed
is private: nothing is printed.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

import numpy as np

from dpaudit import ZCDP
from dpaudit.algorithms.data.loaders import write_csv
from dpaudit.algorithms.data.tables import write_rewards
from dpaudit.algorithms.environments.treatment import treatment_data, treatment_mdp
from dpaudit.algorithms.offline.dp_apvi import DPAPVI, PenaltyConstants

Line = Mapping[str, str]

PATIENTS, VISITS = 2000, 4
#: The public codebook. In the columns below, a word that is not in it is an error, and becomes 0.
CODEBOOK = {"critical": "0", "ill": "1", "recovering": "2", "healthy": "3", "wait": "0", "treat": "1"}
#: Without the episode and step: an error there would mix two patients, so `certify` refuses it.
OBSERVED = ("state", "action", "reward", "next_state")

#: What is certified and audited; the built-in course of treatment has the same sizes.
planner = DPAPVI(treatment_mdp().rewards, guarantee=ZCDP(rho=1.0), constants=PenaltyConstants(privacy=0.1))


def words(lines: Iterable[Line]) -> Iterator[Line]:
    """What was observed as numbers: words by the codebook, anything else 0."""
    for line in lines:
        numbers = {name: _number(CODEBOOK.get(line[name].strip().lower(), line[name])) for name in OBSERVED}
        yield {**line, **numbers}


def twice(lines: Iterable[Line]) -> Iterator[Line]:
    """The first of the lines of one patient's visit."""
    for _, visit in groupby(_sorted(lines), key=_place):
        yield next(visit)


def gaps(lines: Iterable[Line]) -> Iterator[Line]:
    """Every visit; a missing one leads, untreated, from the end of the one before it to the next."""
    for patient, kept in groupby(_sorted(lines), key=lambda line: line["episode"]):
        visits = {int(line["step"]): line for line in kept}
        state = next(iter(visits.values()))["state"]
        for step in range(VISITS):
            visit = visits.get(step)
            if visit is None:
                after = visits.get(step + 1, {"state": state})["state"]
                visit = dict(zip(_COLUMNS, (patient, str(step), state, "0", "0.0", after), strict=True))
            yield visit
            state = visit["next_state"]


def export(path: Path, rewards: Path) -> None:
    """A simulated export with words, repeated lines and missing visits; always the same."""
    data, mdp = treatment_data(PATIENTS)
    write_rewards(mdp.rewards, rewards)
    write_csv(data, path)
    lines, random = list(_read(path)), np.random.default_rng(5)
    names = {"0": "critical", "1": "ill", "2": "recovering", "3": "healthy"}
    kept: list[Line] = []
    for number, line in enumerate(lines):
        defect = random.random()
        if defect < 0.02 and number > 40:
            kept.append({**line, "state": names[line["state"]]})
        elif defect < 0.03:
            kept += [line, line]
        elif defect < 0.04 and 0 < int(line["step"]) < VISITS - 1:
            continue
        else:
            kept.append(line)
    _write(kept, path)


_COLUMNS = ("episode", "step", "state", "action", "reward", "next_state")


def _number(cell: str) -> str:
    try:
        return str(float(cell)) if "." in cell else str(int(cell))
    except ValueError:
        return "0"


def _place(line: Line) -> tuple[int, int]:
    return int(line["episode"]), int(line["step"])


def _sorted(lines: Iterable[Line]) -> list[Line]:
    return sorted(lines, key=_place)


def _read(path: Path) -> list[Line]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _write(lines: Iterable[Line], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


_USAGE = """usage: python examples/patients.py export EXPORT REWARDS
       python examples/patients.py words|twice|gaps SOURCE TARGET"""


def main() -> None:
    """Follow one of the lines at the top."""
    rules = {"words": words, "twice": twice, "gaps": gaps}
    match sys.argv[1:]:
        case ["export", source, target]:
            export(Path(source), Path(target))
        case [rule, source, target] if rule in rules and source != target and Path(source).is_file():
            _write(rules[rule](_read(Path(source))), Path(target))
        case _:
            sys.exit(_USAGE)


if __name__ == "__main__":
    main()
