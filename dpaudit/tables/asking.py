"""Suggestions for methods that a table does not have."""

from collections.abc import Iterable
from typing import Final

from dpaudit.models import did_you_mean

#: What is asked of a table by which method, in the words of data frames and of other libraries.
_MEANT: Final = {
    **dict.fromkeys(("agg", "aggregate", "apply", "describe"), "count` or `sum"),
    **dict.fromkeys(("average", "avg"), "mean"),
    **dict.fromkeys(("size", "len", "rows", "value_counts", "shape"), "count"),
    **dict.fromkeys(("nunique", "n_unique", "distinct", "unique", "count_distinct"), "count_distinct_units"),
    **dict.fromkeys(("median", "percentile", "quantiles", "percentiles"), "quantile"),
    **dict.fromkeys(("std", "stddev", "var"), "variance"),
    **dict.fromkeys(("min", "max"), "quantile"),
    **dict.fromkeys(("partition_by", "by"), "group_by"),
    **dict.fromkeys(("get_groups", "private_keys", "partitions"), "select_keys"),
    **dict.fromkeys(("enforce", "limit", "head", "truncate", "truncate_per_group", "clip"), "bound"),
}
#: What changes rows or columns.
_BEFORE: Final = ("merge", "join", "filter", "query", "where", "assign", "with_columns", "select", "rename")


def no_such(name: str, known: Iterable[str]) -> str:
    """Return the message for a method that does not exist."""
    methods = list(known)
    meant = _MEANT.get(name)
    if name in _BEFORE:
        hint = "do that to the frame before `curator.table`; units are bounded after it"
    elif meant is not None:
        hint = f"did you mean `{meant}`?"
    else:
        hint = did_you_mean(name, methods).strip().replace("'", "`") or f"it has {', '.join(methods)}"
    return f"a table has no {name!r}: {hint}"
