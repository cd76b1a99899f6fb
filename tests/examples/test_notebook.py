"""The notebook in examples/ runs from its first cell to its last, and shows what its words promise."""

import ast
import json
from pathlib import Path
from typing import Any

from dpaudit import ApproxDP

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "first_claim.ipynb"


def shown_by(cell: str, names: dict[str, Any]) -> Any:
    """What a notebook shows under a cell: the value of its last line, if that is an expression."""
    body = ast.parse(cell).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102  (the notebook's own code)
    return None if last is None else eval(ast.unparse(last), names)  # noqa: S307


def test_every_cell_runs_and_shows_its_answer() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert not any(cell.get("outputs") for cell in cells)  # which would be of another version
    names: dict[str, Any] = {}
    shown = [value for cell in code if (value := shown_by(cell, names)) is not None]
    epsilon, sigma, *tables = shown
    assert isinstance(epsilon, ApproxDP)
    assert sigma > names["NOISE"].sigma
    pages = [table._repr_html_() for table in tables]
    verdicts = ("Ledger of column_sums", "PROVED", "NOT_REFUTED", "NOT_REFUTED")
    assert len(pages) == len(verdicts)
    assert all(verdict in page for verdict, page in zip(verdicts, pages, strict=True))
