"""How every picture of a page looks: colours, fonts, and the way from a picture to SVG.

The colours are those of Okabe and Ito, which colour-blind people can distinguish; lines also differ in their
dashes. The style sheet of a page selects them by their values, and lightens them where the page is dark.
"""

import importlib.util
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from dpaudit.errors import MissingExtra
from dpaudit.page.printable import all_printable

#: For data, in this order; the last one is for claims and for what goes wrong, where there are any.
COLOURS = ("#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#d55e00")

#: For lines, in the same order.
DASHES = ([1, 0], [2, 2], [8, 3, 2, 3], [12, 3], [4, 2, 1, 2], [6, 3])

#: For what is no data: words and claims, axes, the grid.
INK, AXIS, RULE = "#1f2328", "#8c959f", "#e4e7eb"

GOOD, BAD, BAD_DASH = COLOURS[0], COLOURS[-1], DASHES[-1]

WIDTH, HEIGHT = 560, 280

#: Vega-Lite, as plain JSON; tests hold every picture against its schema.
Spec: TypeAlias = dict[str, Any]

#: A picture, and the words under it.
Drawn: TypeAlias = tuple[Spec, str]

_WORDS = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12}
_LINES = {"domainColor": AXIS, "tickColor": AXIS, "gridColor": RULE}
_TITLE = {"titleFontSize": 12, "titleFontWeight": "normal", "titlePadding": 8}
_PLACE = {"orient": "bottom", "direction": "horizontal", "columns": 3, "columnPadding": 22}
_SYMBOL = {"symbolStrokeWidth": 2, "symbolSize": 200, "symbolOpacity": 1}

_CONFIG: Spec = {
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


def axis(field: str, title: str | None, scale: Mapping[str, Any] | None = None, **more: Any) -> Spec:
    """A position: its field, a number, and how its axis looks."""
    return {**channel(field, "quantitative"), "title": title, "scale": dict(scale or {}), "axis": more}


def by_name(names: Sequence[str], values: Iterable[Any], field: str = "name") -> Spec:
    """A channel with one value a name, such as a dash or a shape, and a legend without a title."""
    scale = {"domain": list(names), "range": list(values)}
    return {**channel(field), "scale": scale, "legend": {"title": None}}


def colour(names: Sequence[str], field: str = "name", colours: Sequence[str] = COLOURS) -> Spec:
    """One colour a name, in the order given."""
    return by_name(names, itertools.islice(itertools.cycle(colours), len(names)), field)


def channel(field: str, kind: str = "nominal") -> Spec:
    """A channel that takes a field unchanged, for example a text label."""
    return {"field": field, "type": kind}


def marks(rows: Iterable[Mapping[str, Any]], kind: str, encoding: Spec, **style: Any) -> Spec:
    """One layer: a mark for rows, or a line through them, its data inside."""
    return {"data": {"values": list(rows)}, "mark": {"type": kind, **style}, "encoding": encoding}


def resolved(**scales: str) -> Spec:
    """Which scales the parts of a picture share, and which are ``independent``."""
    return {"resolve": {"scale": scales}}


def specification(picture: Spec) -> Spec:
    """A picture in Vega-Lite, in the one style."""
    # Half of a surrogate pair would kill vl-convert, and us with it.
    return {**all_printable(picture), "config": _CONFIG}


#: What stands on a page without pictures.
NOT_DRAWN = "Pictures are left out: they need the extra `pictures`, `pip install 'dpaudit[pictures]'`."


def can_draw() -> bool:
    """Whether pictures can be drawn: the extra ``pictures`` is installed."""
    return importlib.util.find_spec("vl_convert") is not None


def require_drawing(where: str) -> None:
    """Raise `MissingExtra` where pictures cannot be drawn."""
    if not can_draw():
        what, remedy = "pictures need the library vl-convert", "pip install 'dpaudit[pictures]'"
        raise MissingExtra(what, where=where, why="without it nothing can be drawn", remedy=remedy)


def svg(picture: Spec, background: str | None = None) -> str:
    """A specification as SVG, on nothing: the page around it has a colour of its own."""
    require_drawing("the picture")
    import vl_convert

    return str(vl_convert.vegalite_to_svg(_on(background, picture)))


def png(picture: Spec) -> bytes:
    """A specification as PNG on white, two pixels to a point."""
    require_drawing("the picture")
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(_on("white", picture), scale=2))


def _on(background: str | None, picture: Spec) -> Spec:
    return {**picture, "config": {**picture["config"], "background": background}}
