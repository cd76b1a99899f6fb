"""The published schemas are those of the types, and every ledger of the suite is judged by them."""

import json
import runpy
from pathlib import Path
from typing import Any

import jsonschema

DOCS = Path(__file__).parents[2] / "docs"
SUITE = DOCS / "spec" / "conformance"


def test_the_published_schemas_are_up_to_date() -> None:
    made = dict(runpy.run_path(str(DOCS / "programs" / "make_schema.py"))["schemas"]())
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, "run: python docs/programs/make_schema.py"
    assert set(made) == set((DOCS / "spec").glob("*.schema.json"))


def test_the_ledger_schema_admits_the_valid_ledgers_and_no_unknown_field() -> None:
    schema = json.loads((DOCS / "spec" / "ledger.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    cases: list[dict[str, Any]] = json.loads((SUITE / "expected.json").read_text(encoding="utf-8"))
    for case in cases:
        if case["answer"] == "valid" or case["reason"] == "field":
            text = (SUITE / case["file"]).read_text(encoding="utf-8")
            valid = all(validator.is_valid(json.loads(line)) for line in text.splitlines())
            assert valid == (case["answer"] == "valid"), case["file"]
