"""Whatever stands in data is shown, and never read as HTML, Markdown or LaTeX."""

import html
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpaudit.page.blocks import (
    Badges,
    Block,
    Code,
    Grid,
    Heading,
    Items,
    Paragraph,
    Picture,
    html_page,
    latex,
    markdown,
)

NASTY = (
    "<script>alert(1)</script>", "a|b", "$x$", "100%", "_x_", "**b**", "[l](javascript:x)", "# h", "- i",
    "1. n", "&lt;", "a & b", "{", "}", "\\", "\\input{x}", "^", "~", '"><img src=x onerror=y>', "{{ 7*7 }}",
    "{% if %}", "`", "``<b>`", "a\nb", "</svg>", "===", "#", "+", "![x](y)",
)  # fmt: skip

words = st.one_of(
    st.sampled_from(NASTY), st.text(max_size=30), st.lists(st.sampled_from(NASTY)).map(" ".join)
)


def page(text: str) -> list[Block]:
    return [
        Heading(text),
        Paragraph(text, lead=True),
        Badges([(text, text, "good")]),
        Items([text, text]),
        Code(text),
        Grid(("one", text), [(text, text), (text, text)], numbers=("one",)),
        Picture("p.svg", text),
    ]


class Tags(HTMLParser):
    """Every tag with its attributes, and all text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "code":
            # How a cell is broken follows from the length of its words.
            given = (f"{name}={value}" for name, value in attrs)
            self.tags.append((tag, tuple(text for text in given if text != "class=long")))

    def handle_data(self, data: str) -> None:
        self.text += data


def tags_of(text: str) -> Tags:
    parser = Tags()
    parser.feed(html_page(page(text), {"p.svg": "<svg></svg>"}))
    return parser


PLAIN = tags_of("plain").tags


@given(text=words)
def test_html_has_the_same_tags_whatever_the_text(text: str) -> None:
    assert tags_of(text).tags == PLAIN


@pytest.mark.parametrize("text", [text for text in NASTY if "`" not in text and "\n" not in text])
def test_html_shows_the_text(text: str) -> None:
    found = tags_of(text).text
    assert found.count(text) >= 11
    assert html.escape("<script>") not in found


def test_code_is_code_everywhere() -> None:
    blocks = [Heading("t"), Paragraph("run `a_b <x>` now")]
    assert "<code>a_b &lt;x&gt;</code>" in html_page(blocks, {})
    assert "run `a_b <x>` now" in markdown(blocks)
    assert r"run \texttt{a\_b \textless{}x\textgreater{}} now" in latex(blocks)


@given(text=words)
def test_every_row_of_a_markdown_table_has_as_many_cells(text: str) -> None:
    rows = [
        line for line in markdown([Heading("t"), Grid(("a", "b"), [(text, text)])]).split("\n") if "|" in line
    ]
    assert len(rows) == 3
    assert [len(re.findall(r"(?<!\\)\|", row.replace("\\\\", ""))) for row in rows] == [3, 3, 3]


def test_markdown_escapes() -> None:
    lines = markdown(
        [Heading("a < b"), Items(["# h", "- i", "1. n", "+", "_x_", "x_y", "&lt;", "a & b", "$1$"])]
    )
    assert lines == (
        "# a \\< b\n\n- \\# h\n- \\- i\n- 1\\. n\n- \\+\n- \\_x\\_\n- x_y\n- &amp;lt;\n- a & b\n- \\$1\\$\n"
    )


def test_a_markdown_fence_is_longer_than_what_it_holds() -> None:
    found = markdown([Heading("t"), Code("a\n````\nb")])
    assert "`````\na\n````\nb\n`````" in found


def unescaped(text: str) -> str:
    """LaTeX without what a backslash made harmless."""
    return re.sub(r"\\[{}$&#%_\\]", "", text)


@given(text=words)
def test_latex_balances_and_holds_no_live_character(text: str) -> None:
    found = latex(page(text))
    depth = 0
    for character in re.sub(r"\\[{}]", "", found):
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    rest = unescaped(found)
    assert not set(rest) & set('$%#^~_<>|"')
    environments = re.findall(r"\\(begin|end)\{(\w+)\}", rest)
    assert environments == [
        ("begin", "itemize"), ("end", "itemize"), ("begin", "itemize"), ("end", "itemize"),
        ("begin", "flushleft"), ("end", "flushleft"), ("begin", "tabular"), ("end", "tabular"),
    ]  # fmt: skip
    body = rest[rest.index(r"\midrule") : rest.index(r"\bottomrule")]
    assert body.count("&") == 2
    known = {
        "section", "textbf", "item", "begin", "end", "texttt", "toprule", "midrule", "bottomrule",
        "linewidth",
        "textbackslash", "textasciicircum", "textasciitilde", "textless", "textgreater", "textbar",
        "textquotedbl", "ensuremath", "geq",
    }  # fmt: skip
    assert set(re.findall(r"\\([A-Za-z]+)", rest)) <= known


def test_latex_rows_begin_with_nothing_that_a_lines_end_takes_for_its_own() -> None:
    found = latex([Grid(("a ≥", "b"), [("*", "1"), ("[x]", "2")])])
    rows = found.partition("\\midrule\n")[2].partition("\n\\bottomrule")[0].split("\n")
    assert rows == [r"{*} & 1 \\", r"{[}x{]} & 2 \\"]
    assert r"a \ensuremath{\geq} & b" in found


def test_pictures_have_names_of_their_own() -> None:
    picture = '<svg><clipPath id="clip1"></clipPath><g clip-path="url(#clip1)"></g></svg>'
    found = html_page([Heading("t"), Picture("a", ""), Picture("b", "")], {"a": picture, "b": picture})
    assert sorted(re.findall(r'id="([^"]+)"', found)) == ["picture-0-0", "picture-1-0"]
    assert sorted(re.findall(r"url\(#([^)]+)\)", found)) == ["picture-0-0", "picture-1-0"]
