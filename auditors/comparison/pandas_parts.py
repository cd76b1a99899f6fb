"""What a pandas table, column or index holds, by its public parts; pandas itself is never imported."""

from __future__ import annotations

from typing import Any


def pandas_parts(value: Any) -> dict[str, Any] | None:
    """The parts that together are the value, by name; None for what is not of pandas.

    A weak reference and caches inside it would make its pickle useless for comparison.
    """
    kind = next((kind for kind in type(value).__mro__ if kind.__module__.partition(".")[0] == "pandas"), None)
    if kind is None:
        return None
    match kind.__name__:
        case "DataFrame":
            parts = {f"column {position}": value.iloc[:, position] for position in range(value.shape[1])}
            parts |= {"index": value.index, "columns": value.columns, "attrs": value.attrs}
        case "Series":
            parts = {"values": value.array, "index": value.index, "name": value.name, "attrs": value.attrs}
        case "RangeIndex":
            parts = {"range": (value.start, value.stop, value.step), "names": list(value.names)}
        case "MultiIndex":
            parts = {"levels": list(value.levels), "codes": list(value.codes), "names": list(value.names)}
        case "NumpyExtensionArray":
            parts = {"numpy": value.to_numpy()}
        case "Categorical":
            parts = {"categories": value.categories, "codes": value.codes, "ordered": value.ordered}
        case name if name.endswith("Index"):
            parts = {"values": value.array, "names": list(value.names)}
        case name if name.endswith("Array"):
            parts = {"type": str(value.dtype), "values": list(value.astype(object))}
        case _:
            return None
    if kind.__name__ in {"DataFrame", "Series"} or type(value) is not kind:
        own = getattr(value, "__dict__", {})
        parts |= {f".{name}": own[name] for name in sorted(own) if not name.startswith("_")}
    return parts
