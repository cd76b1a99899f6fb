"""A private group-by over a Dask cluster: `python benchmarks/cluster.py [ROWS ...] [--write]`.

A cluster of two worker processes on this machine makes visits in partitions and adds up the minutes of each
ward, at most eight rows a patient, who has twenty, spread over all partitions. The page of tables holds what
it prints (--write): for each number of rows the CPU time of all processes, the most memory that each of them
ever held, added up, and what went through the network.

A patient's visits are all alike, so that any eight of them have the same sum: the answer is computed a second
time, without dpaudit, from how often each patient occurs.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import psutil

from dpaudit import ZCDP, Claim, Curator, run
from dpaudit.curator.noise import NoNoise

PAGE = Path(__file__).parents[1] / "docs" / "proving" / "tables.md"
BEGIN, END = "<!-- written by benchmarks/cluster.py -->\n", "<!-- end -->\n"
WARDS = np.array(["ICU", "ER", "ENT", "other"])
MOST, VISITS, WORKERS, PART = 8, 20, 2, 250_000
CLUSTER: dict[str, Any] = {
    "n_workers": WORKERS,
    "threads_per_worker": 1,
    "processes": True,
    "memory_limit": "1GB",
    "dashboard_address": None,
}
CLAIM = Claim(ZCDP(rho=0.1), unit="patient", neighbouring="add-or-remove-one")


def minutes(patient: Any) -> Any:
    """How long each visit of a patient takes: multiples of 1/4, whose sums are exact."""
    return patient * 7919 % 400 / 4.0


def visits(number: int, rows: int, patients: int) -> pd.DataFrame:
    """One partition."""
    patient = np.random.default_rng(number).integers(0, patients, rows)
    return pd.DataFrame({"patient": patient, "ward": WARDS[patient % 4], "minutes": minutes(patient)})


def weekly(frame: Any, curator: Curator) -> Any:
    """The minutes of each ward."""
    table = curator.table(frame, unit="patient").bound(rows_per_unit=MOST)
    wards = table.group_by("ward", keys=WARDS.tolist())
    return wards.sum("minutes", lower=0.0, upper=128.0, cost=ZCDP(rho=0.1))


def expected(parts: int, patients: int) -> dict[str, float]:
    """The same sums from the patients' numbers of rows."""
    seen = np.zeros(patients, dtype=np.int64)
    for number in range(parts):
        drawn = np.random.default_rng(number).integers(0, patients, PART)
        seen += np.bincount(drawn, minlength=patients)
    every = np.arange(patients)
    total = np.minimum(seen, MOST) * minutes(every)
    return {str(ward): float(total[every % 4 == i].sum()) for i, ward in enumerate(WARDS)}


def processes() -> list[psutil.Process]:
    """This one and all that it has started."""
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def seconds() -> float:
    """Of CPU, user and system, in all processes."""
    return sum(sum(each.cpu_times()[:2]) for each in processes())


def most_memory() -> int:
    """The most bytes that each process ever held, added up; pages that several share are counted in each."""
    found = [Path(f"/proc/{each.pid}/status").read_text(encoding="ascii") for each in processes()]
    return sum(1024 * int(match[1]) for text in found if (match := re.search(r"VmHWM:\s+(\d+)", text)))


def count_bytes() -> None:
    """Count in this process what it sends through sockets, as `TCP.sent`."""
    from distributed.comm.tcp import TCP

    write, TCP.sent = TCP.write, 0

    async def counted(self: Any, *message: Any, **options: Any) -> Any:
        number = await write(self, *message, **options)
        TCP.sent += number
        return number

    TCP.write = counted


def measured(rows: int) -> str:
    """A row of the page's table."""
    parts = rows // PART
    patients = rows // VISITS
    meta = visits(0, 0, patients)
    frame = dd.from_map(visits, range(parts), rows=PART, patients=patients, meta=meta)
    with (
        tempfile.TemporaryDirectory() as folder,
        dask.config.set({"temporary-directory": folder}),
        distributed.LocalCluster(**CLUSTER) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(WORKERS)
        client.run(count_bytes)
        before, began = seconds(), time.monotonic()
        found = run(weekly, frame, claim=CLAIM, noise=NoNoise()).output
        used, took, memory = seconds() - before, time.monotonic() - began, most_memory()
        sent = sum(client.run(lambda: distributed.comm.tcp.TCP.sent).values())
    assert found == expected(parts, patients), found
    return (
        f"| {rows:,} | {parts} | {used:,.0f} s | {took:,.0f} s | {memory / 1e9:.2f} GB "
        f"| {sent / 1e9:.2f} GB |"
    )


def main() -> None:
    """Print the table, and write it into the page if that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "rows", type=lambda given: int(float(given)), nargs="*", default=[10**6, 10**7, 10**8]
    )
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    lines = ["| rows | partitions | CPU | wall clock | memory | between workers |", "|---" * 6 + "|"]
    for rows in given.rows:
        lines.append(measured(rows))
        sys.stderr.write(f"{lines[-1]}\n")
    if given.write:
        text = PAGE.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        table = "\n".join(lines)
        PAGE.write_text(f"{before}{BEGIN}{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
