"""How every picture of a page looks: colours, fonts, and the way from a chart to SVG.

The colours are those of Okabe and Ito, which colour-blind people can distinguish; lines also differ in their
dashes. The style sheet of a page selects them by their values, and lightens them where the page is dark.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from dpaudit.app.text.streams import all_printable

#: For data, in this order; the last one is for claims and for what goes wrong, where there are any.
COLOURS = ("#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#d55e00")

#: For lines, in the same order.
DASHES = ([1, 0], [2, 2], [8, 3, 2, 3], [12, 3], [4, 2, 1, 2], [6, 3])

#: For what is no data: words and claims, axes, the grid.
INK, AXIS, RULE = "#1f2328", "#8c959f", "#e4e7eb"

GOOD, BAD, BAD_DASH = COLOURS[0], COLOURS[-1], DASHES[-1]

WIDTH, HEIGHT = 560, 280

#: An Altair chart, and the words under it.
Drawn: TypeAlias = tuple[Any, str]

_WORDS = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12}
_LINES = {"domainColor": AXIS, "tickColor": AXIS, "gridColor": RULE}
_TITLE = {"titleFontSize": 12, "titleFontWeight": "normal", "titlePadding": 8}
_PLACE = {"orient": "bottom", "direction": "horizontal", "columns": 3, "columnPadding": 22}
_SYMBOL = {"symbolStrokeWidth": 2, "symbolSize": 200, "symbolOpacity": 1}

_CONFIG: dict[str, Any] = {
    "background": None,
    "padding": {"left": 8, "right": 16, "top": 6, "bottom": 6},
    # Vega measures words with a font of these metrics; one that is wider would run words into each other.
    "font": "Arial, Liberation Sans, Helvetica, sans-serif",
    "view": {"stroke": None},
    "axis": {**_WORDS, **_LINES, **_TITLE, "labelLimit": 220},
    "legend": {**_WORDS, **_PLACE, **_SYMBOL, "labelLimit": 400, "title": None},
    "title": {"color": INK, "fontSize": 13, "anchor": "start"},
    "text": {"color": INK, "fontSize": 12},
    "line": {"strokeWidth": 2},
    "rule": {"color": INK},
    "range": {"category": list(COLOURS)},
}


def colour(names: Sequence[str], field: str = "name", colours: Sequence[str] = COLOURS) -> Any:
    """One colour a name, in the order given."""
    import altair as alt

    chosen = list(itertools.islice(itertools.cycle(colours), len(names)))
    return alt.Color(f"{field}:N").scale(domain=list(names), range=chosen).legend(title=None)


def chart_of(rows: Iterable[Mapping[str, Any]]) -> Any:
    """A chart with its data inside, to be given marks."""
    import altair as alt

    library: Any = alt  # one of its classes has no annotations
    return library.Chart(library.Data(values=list(rows)))


def specification(chart: Any) -> dict[str, Any]:
    """An Altair chart as Vega-Lite, its data inside and in the one style."""
    from altair.utils import schemapi

    # Half of a surrogate pair would kill vl-convert, and us with it.
    return {**all_printable(chart.to_dict(validate=schemapi.DEBUG_MODE)), "config": _CONFIG}


def unvalidated() -> AbstractContextManager[None]:
    """Charts made inside are not held against Vega-Lite's schema, which takes half of a report's time.

    For charts that tests hold against it.
    """
    from altair.utils import schemapi

    return schemapi.debug_mode(False)


def svg(picture: dict[str, Any], background: str | None = None) -> str:
    """A specification as SVG, on nothing: the page around it has a colour of its own."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(_on(background, picture)))


def png(picture: dict[str, Any]) -> bytes:
    """A specification as PNG on white, two pixels to a point."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(_on("white", picture), scale=2))


def _on(background: str | None, picture: dict[str, Any]) -> dict[str, Any]:
    return {**picture, "config": {**picture["config"], "background": background}}
