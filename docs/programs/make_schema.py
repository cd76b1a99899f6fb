"""Write docs/spec/certificate.schema.json and docs/spec/ledger.schema.json from the types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpaudit.certificate.certificate import Certificate
from dpaudit.ledger.header import Header
from dpaudit.ledger.releases import Release
from dpaudit.models import Model

DOCS = Path(__file__).parents[1]
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def certificate_schema() -> dict[str, Any]:
    """Return the schema of a certificate file."""
    return {"$schema": DIALECT, **Certificate.model_json_schema(mode="serialization", by_alias=True)}


def ledger_schema() -> dict[str, Any]:
    """Return the schema of one line of a ledger file: a header, a release or a footer."""
    shared: dict[str, Any] = {"hash": {"pattern": "^[0-9a-f]{64}$", "type": "string"}}
    definitions: dict[str, Any] = {}

    def record(model: type[Model], name: str) -> dict[str, Any]:
        schema = model.model_json_schema(mode="validation", by_alias=True)
        definitions.update(schema.pop("$defs"))
        schema["properties"] |= {"record": {"const": name}, **shared}
        schema["required"] = sorted({*schema["required"], "record"})
        return schema

    footer = {
        "type": "object",
        "properties": {
            "record": {"const": "footer"},
            "releases": {"type": "integer", "minimum": 0},
            **shared,
        },
        "required": ["record", "releases"],
        "additionalProperties": False,
    }
    kinds = [record(Header, "header"), record(Release, "release"), footer]
    return {"$schema": DIALECT, "$defs": definitions, "title": "Line", "oneOf": kinds}


def schemas() -> Iterator[tuple[Path, str]]:
    """Yield each schema's file with its text."""
    for name, schema in (("certificate", certificate_schema()), ("ledger", ledger_schema())):
        yield DOCS / "spec" / f"{name}.schema.json", json.dumps(schema, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    for file, text in schemas():
        file.write_text(text, encoding="utf-8")
