"""Where a figure's files go, and its data as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from dpaudit.app.figure_picture import Row
from dpaudit.errors import UsageError


def prepare(folder: Path) -> None:
    """Make the folder.

    Raises:
        UsageError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot be made a folder: {error.strerror}",
            where=f"-o {folder}",
            why="nothing could be kept",
            remedy="name another folder",
        ) from None


def table_csv(rows: Sequence[Row]) -> bytes:
    """One line for each row, under the columns of the first."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
