"""A page of headings, sentences, tables and pictures, as HTML, as Markdown and as LaTeX."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias, assert_never

from dpaudit.page.printable import all_printable, printable_lines

#: Longer words are broken where a table needs the room.
_LONGEST_WORD = 24

#: How a badge looks; its words say the same without colour.
Tone = Literal["good", "bad", "unclear"]


class Linked(str):
    """Words that link to another page in HTML, and are plain words elsewhere."""

    __slots__ = ("address",)

    def __new__(cls, words: str, address: str) -> Self:
        """The words, and the page's address from this one."""
        new = super().__new__(cls, words)
        new.address = address
        return new

    address: str


@dataclass(frozen=True)
class Heading:
    """A heading; the first of a page is its title."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Sentences; a lead is set in larger type."""

    text: str
    lead: bool = False


@dataclass(frozen=True)
class Badges:
    """Verdicts, each with what it is about and how it looks: (subject, verdict, tone)."""

    verdicts: Sequence[tuple[str, str, Tone]]


@dataclass(frozen=True)
class Items:
    """A bulleted list of sentences."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Code:
    """A text to be copied as it stands."""

    text: str


@dataclass(frozen=True)
class Grid:
    """A table; columns named in `numbers` are aligned to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[str] = ()


@dataclass(frozen=True)
class Picture:
    """A picture in the file `name`; in HTML it may also be something to work with."""

    name: str
    caption: str


Block: TypeAlias = Heading | Paragraph | Badges | Items | Code | Grid | Picture


def _printable(block: Block) -> Block:
    """Remove characters that reverse text or control the program that displays it."""
    if isinstance(block, Code):
        return Code(printable_lines(block.text))
    return type(block)(**all_printable(vars(block)))


def html_page(blocks: Sequence[Block], pictures: Mapping[str, str], scripts: str = "") -> str:
    """The page, with each picture's SVG or HTML by its name, as a file that needs no other and no network.

    `scripts` is HTML that ends the page.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = PackageLoader("dpaudit.page", ".")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["words"] = _html_words
    environment.tests["long"] = lambda cell: max(map(len, cell.split()), default=0) > _LONGEST_WORD
    blocks = list(map(_printable, blocks))
    title = next(block.text for block in blocks if isinstance(block, Heading))
    drawn = {
        name: Markup(_own_names(picture, f"picture-{number}-"))  # noqa: S704  (vl-convert escapes its texts)
        for number, (name, picture) in enumerate(pictures.items())
    }
    page = environment.get_template("page.html.j2")
    shown = [(type(block).__name__, block) for block in blocks]
    ending = Markup(scripts)  # noqa: S704  (the caller escapes what it holds)
    return page.render(title=title, blocks=shown, pictures=drawn, scripts=ending) + "\n"


def _html_words(text: str) -> str:
    """Text as HTML, with code between backticks as code."""
    from markupsafe import Markup, escape

    if isinstance(text, Linked):
        return Markup('<a href="{}">{}</a>').format(text.address, str(text))
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704  (escaped before)


def _own_names(picture: str, prefix: str) -> str:
    """The SVG with identifiers of its own, the same every time: Vega counts on from picture to picture."""
    names = list(dict.fromkeys(re.findall(r'\sid="([^"]+)"', picture)))
    own = {name: f"{prefix}{number}" for number, name in enumerate(names)}
    return re.sub(r'(\sid="|url\(#)([^")]+)', lambda at: at[1] + own.get(at[2], at[2]), picture)


def markdown(blocks: Iterable[Block], *, pictures: bool = True) -> str:
    """The page as Markdown; pictures are files beside it, or left out."""
    parts: list[str] = []
    for block in map(_printable, blocks):
        match block:
            case Heading():
                parts.append(f"{'##' if parts else '#'} {_md(block.text)}")
            case Paragraph():
                parts.append(_md(block.text))
            case Badges():
                lines = [f"- {_md(about)}: **{_md(word)}**" for about, word, _ in block.verdicts]
                parts.append("\n".join(lines))
            case Items():
                parts.append("\n".join(f"- {_md(text)}" for text in block.lines))
            case Code():
                # Longer than any run of backticks inside, which could end it.
                fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
                parts.append(f"{fence}\n{block.text}\n{fence}")
            case Grid():
                rule = ["---:" if name in block.numbers else "---" for name in block.columns]
                head, *rows = (list(map(_md, row)) for row in (block.columns, *block.rows))
                parts.append("\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *rows)))
            case Picture():
                if pictures:
                    parts.append(f"![{_md(block.caption)}]({block.name})")
            case _:
                assert_never(block)
    return "\n\n".join(parts) + "\n"


_CODE = re.compile("(`[^`]+`)")

#: What Markdown, the HTML that it may hold, or mathematics in dollars would read as more than a character.
_MARKED = re.compile(r"[\\`*\[\]<>|$~]|(?<![^\W_])_|_(?![^\W_])")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_LEADING = re.compile(r"(#+|[-+]|\d+(?=[.)]))(?=[.)]?(\s|$))|[=-]+$")


def _md(text: str) -> str:
    """Return one line of text that Markdown shows unchanged; code between backticks stays code."""
    parts = _CODE.split(" ".join(text.split()))
    parts[1::2] = [code.replace("|", "\\|") for code in parts[1::2]]
    parts[::2] = [_ENTITY.sub("&amp;", _MARKED.sub(r"\\\g<0>", words)) for words in parts[::2]]
    opening = _LEADING.match(parts[0])
    if opening is not None:
        # Of a number the point behind it makes a list, of anything else the first character makes more.
        place = opening.end(1) if opening.group(1) and opening.group(1).isdigit() else 0
        parts[0] = f"{parts[0][:place]}\\{parts[0][place:]}"
    return "".join(parts)


def latex(blocks: Iterable[Block]) -> str:
    """The page's words and tables as LaTeX; needs the package booktabs; pictures are left out."""
    parts: list[str] = []
    for block in map(_printable, blocks):
        match block:
            case Heading():
                parts.append(rf"\{'subsection' if parts else 'section'}*{{{_tex(block.text)}}}")
            case Paragraph():
                parts.append(_tex(block.text))
            case Badges():
                lines = [rf"{_tex(about)}: \textbf{{{_tex(word)}}}" for about, word, _ in block.verdicts]
                parts.append(_tex_list(lines))
            case Items():
                parts.append(_tex_list(map(_tex, block.lines)))
            case Code():
                lines = [rf"\texttt{{{_tex(line)}}}" for line in block.text.splitlines()]
                parts.append("\\begin{flushleft}\n" + "\\\\\n".join(lines) + "\n\\end{flushleft}")
            case Grid():
                parts.append(_tabular(block))
            case Picture():
                continue
            case _:
                assert_never(block)
    return "\n\n".join(parts) + "\n"


_TEX = {character: f"\\{character}" for character in "{}$&#%_"}
_TEX |= {character: f"{{{character}}}" for character in "[]*"}  # after a line's end they would be options
_TEX |= {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "≥": r"\ensuremath{\geq}",
}
_ESCAPES = str.maketrans(_TEX)


def _tex(text: str) -> str:
    parts = _CODE.split(" ".join(text.split()))
    parts[1::2] = [rf"\texttt{{{code[1:-1].translate(_ESCAPES)}}}" for code in parts[1::2]]
    parts[::2] = [words.translate(_ESCAPES) for words in parts[::2]]
    return "".join(parts)


def _tex_list(lines: Iterable[str]) -> str:
    items = "\n".join(rf"\item {line}" for line in lines)
    return f"\\begin{{itemize}}\n{items}\n\\end{{itemize}}" if items else ""


def _tabular(grid: Grid) -> str:
    columns = list(zip(grid.columns, *grid.rows, strict=True))
    # Long texts share the line's width; everything else takes what it needs.
    long = [max(map(len, cells)) > _LONGEST_WORD for cells in columns]
    width = 0.8 / max(1, sum(long))
    form = "".join(
        "r" if cells[0] in grid.numbers else rf"p{{{width:.2f}\linewidth}}" if wide else "l"
        for cells, wide in zip(columns, long, strict=True)
    )
    head, *rows = [" & ".join(map(_tex, row)) + r" \\" for row in (grid.columns, *grid.rows)]
    begin = rf"\begin{{tabular}}{{{form}}}"
    return "\n".join([begin, r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"])
