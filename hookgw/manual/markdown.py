"""Turns the repository's Markdown into pages: headings, links between pages, tables, code in colours."""

from __future__ import annotations

import html
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from pygments.lexers import get_lexer_by_name
from pygments.token import Token as Kind

from hookgw.manual.contents import Chapter
from hookgw.manual.curl import ADDRESS
from hookgw.manual.examples import block, example

_COLOURS = (
    (Kind.Comment, "c"),
    (Kind.Keyword.Constant, "n"),
    (Kind.Keyword, "k"),
    (Kind.Name.Tag, "k"),
    (Kind.Name.Builtin, "f"),
    (Kind.Name.Function, "f"),
    (Kind.Name.Decorator, "f"),
    (Kind.Name.Variable, "v"),
    (Kind.Literal.String, "s"),
    (Kind.Literal.Number, "n"),
)
"""The class of a kind of token; other kinds have the colour of the text."""
_LEXERS = {
    "sh": "bash",
    "js": "javascript",
    "haproxy": "text",
    "caddyfile": "text",
    "envoy": "yaml",
    "": "text",
}
_SHOWN = {"sh": "Shell", "js": "JavaScript", "javascript": "JavaScript", "json": "JSON", "yaml": "YAML"}
_OUTSIDE = ("plugins/", "tests/")
"""Links to code lead nowhere in a manual, so it shows them as text."""


class Heading(NamedTuple):
    level: int
    text: str
    anchor: str


class Part(NamedTuple):
    """What becomes one page: a file, its introduction, or one of its second-level sections."""

    file: str
    path: str
    title: str
    anchor: str
    headings: list[Heading]
    tokens: list[Token]
    shift: int

    @property
    def levels(self) -> dict[str, int]:
        """The level of each heading on its page, by anchor. None is skipped, for readers who hear a page."""
        found, level = {}, 0
        for heading in self.headings:
            level = min(heading.level - self.shift, level + 1)
            found[heading.anchor] = level
        return found


class BrokenLink(Exception):
    """A page of the manual links to nothing."""


def parts_of(chapter: Chapter, text: str) -> list[Part]:
    """Return the pages of a file."""
    path = chapter.path or chapter.file.removeprefix("docs/").removesuffix(".md")
    if chapter.file == "docs/README.md":
        path = ""
    tokens = _parser().parse(text)
    cuts = [0]
    if chapter.in_sections:
        cuts += [at for at, one in enumerate(tokens) if one.type == "heading_open" and one.tag == "h2"]
    anchors: Counter[str] = Counter()
    parts = []
    for start, end in zip(cuts, [*cuts[1:], len(tokens)], strict=True):
        own = tokens[start:end]
        headings = list(_headings(own, anchors))
        first = headings[0]
        is_section = start > 0
        parts.append(
            Part(
                file=chapter.file,
                path=f"{path}/{first.anchor}" if is_section else path,
                title=first.text,
                anchor=first.anchor,
                headings=headings,
                tokens=own,
                shift=1 if is_section else 0,
            )
        )
    return parts


def _headings(tokens: list[Token], anchors: Counter[str]) -> Iterator[Heading]:
    """Yield the headings, and give each its anchor, by GitHub's rule."""
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            anchor = re.sub(r"[^\w\- ]", "", inline.content.lower()).replace(" ", "-")
            number = anchors[anchor]
            anchors[anchor] += 1
            anchor = f"{anchor}-{number}" if number else anchor
            opening.attrSet("id", anchor)
            yield Heading(int(opening.tag[1]), plain(inline), anchor)


def plain(inline: Token) -> str:
    """Return the words of a paragraph or heading."""
    return "".join(
        " " if one.type in ("softbreak", "hardbreak") else one.content
        for one in inline.children or ()
        if one.type in ("text", "code_inline", "softbreak", "hardbreak")
    )


class Renderer:
    """Renders parts to HTML, with links to each other.

    Args:
        parts: all of them.
        files: the name of the page's file in what is made, by the path of the page.
        has_images: whether pages show pictures. They are as large as all the rest, and a gateway has the real
            thing: its dashboard.
    """

    def __init__(self, parts: Sequence[Part], files: Mapping[str, str], *, has_images: bool) -> None:
        self._files = files
        self._has_images = has_images
        self._of_file: dict[str, list[Part]] = {}
        for part in parts:
            self._of_file.setdefault(part.file, []).append(part)
        self._parser = _parser()
        rules: dict[str, Any] = {
            "heading_open": self._heading_open,
            "heading_close": self._heading_close,
            "link_open": self._link_open,
            "link_close": self._link_close,
            "fence": self._fence,
            "code_block": self._fence,
            "table_open": lambda *_: (
                '<div class="table" role="group" aria-label="Table" tabindex="0"><table>\n'
            ),
            "table_close": lambda *_: "</table></div>\n",
            "th_open": self._cell_open,
            "td_open": self._cell_open,
            "html_block": self._comment,
            "html_inline": self._comment,
            "image": self._image,
        }
        self._html = RendererHTML()
        self._html.rules |= rules
        self.images: set[str] = set()

    def render(self, part: Part) -> str:
        text: str = self._html.render(part.tokens, self._parser.options, {"part": part})
        return text

    def link(self, part: Part, target: str) -> str | None:
        """Return where a link of a page leads, or None if that is no page of the manual."""
        if re.match(r"[a-z]+:", target):
            return target
        name, _, anchor = unquote(target).partition("#")
        file = posixpath.normpath(posixpath.join(posixpath.dirname(part.file), name)) if name else part.file
        if file not in self._of_file:
            if file == "docs/networks" or f"{file}/README.md" in self._of_file:
                file = f"{file}/README.md"
            elif f"{file}/".startswith(_OUTSIDE):
                return None
            else:
                raise BrokenLink(f"{part.file} links to {target}, which is no page of the manual.")
        for other in self._of_file[file]:
            if not anchor or anchor in [heading.anchor for heading in other.headings]:
                to = relative(self._files[part.path], self._files[other.path])
                fragment = f"#{anchor}" if anchor and anchor != other.anchor else ""
                return f"{'' if other is part and fragment else to}{fragment}" or "#top"
        raise BrokenLink(f"{part.file} links to {target}, and {file} has no such heading.")

    def _heading_open(self, tokens: Sequence[Token], at: int, *rest: Any) -> str:
        part: Part = rest[1]["part"]
        anchor = str(tokens[at].attrGet("id"))
        return f'<h{part.levels[anchor]} id="{anchor}">'

    def _heading_close(self, tokens: Sequence[Token], at: int, *rest: Any) -> str:
        part: Part = rest[1]["part"]
        anchor, text = str(tokens[at - 2].attrGet("id")), html.escape(plain(tokens[at - 1]))
        level = part.levels[anchor]
        link = f' <a class="here" href="#{anchor}" aria-label="Link to {text}">#</a>' if level > 1 else ""
        return f"{link}</h{level}>\n"

    def _link_open(self, tokens: Sequence[Token], at: int, *rest: Any) -> str:
        found = self.link(rest[1]["part"], str(tokens[at].attrGet("href")))
        tokens[at].meta["is_link"] = found is not None
        return "<span>" if found is None else f'<a href="{html.escape(found)}"{_at(found)}>'

    def _link_close(self, tokens: Sequence[Token], at: int, *_: Any) -> str:
        depth = 0
        for one in reversed(tokens[:at]):
            depth += {"link_open": -1, "link_close": 1}.get(one.type, 0)
            if depth < 0:
                return "</a>" if one.meta["is_link"] else "</span>"
        raise AssertionError("a link ends that has not begun")

    def _fence(self, tokens: Sequence[Token], at: int, *_: Any) -> str:
        words = tokens[at].info.split()
        language, text = (words[0] if words else ""), tokens[at].content
        shown = example(text, code) if language == "sh" else None
        return shown or f'<div class="code">{code(text, language)}</div>\n'

    def _cell_open(self, tokens: Sequence[Token], at: int, *_: Any) -> str:
        side = str(tokens[at].attrGet("style") or "").removeprefix("text-align:")
        return f'<{tokens[at].tag} class="{side}">' if side else f"<{tokens[at].tag}>"

    def _comment(self, tokens: Sequence[Token], at: int, *rest: Any) -> str:
        if not tokens[at].content.startswith("<!--"):
            raise BrokenLink(f"{rest[1]['part'].file} has HTML, which the manual does not show.")
        return ""

    def _image(self, tokens: Sequence[Token], at: int, *rest: Any) -> str:
        part: Part = rest[1]["part"]
        file = posixpath.normpath(
            posixpath.join(posixpath.dirname(part.file), str(tokens[at].attrGet("src")))
        )
        self.images.add(file)
        if not self._has_images:
            return ""
        source = relative(self._files[part.path], file.removeprefix("docs/"))
        return f'<img src="{source}" alt="{html.escape(tokens[at].content)}" loading="lazy">'


def _at(url: str) -> str:
    """Return the attribute of a link to the gateway itself, for readers with another address of it."""
    return f' data-at="{html.escape(url.removeprefix(ADDRESS))}"' if url.startswith(f"{ADDRESS}/") else ""


def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table")


def relative(start: str, target: str) -> str:
    """Return the relative URL of one file from another one."""
    folder = _way(posixpath.dirname(start), posixpath.dirname(target))
    return folder + posixpath.basename(target)


@cache
def _way(start: str, target: str) -> str:
    way = posixpath.relpath(target or ".", start or ".")
    return "" if way == "." else f"{way}/"


def code(text: str, language: str) -> str:
    """Return a block of code in colours."""
    lexer = get_lexer_by_name(_LEXERS.get(language, language), stripnl=False, ensurenl=False)
    runs: list[tuple[str, str]] = []
    for kind, piece in lexer.get_tokens(text):
        colour = next((name for parent, name in _COLOURS if kind in parent), "")
        if runs and (runs[-1][0] == colour or piece.isspace()):
            runs[-1] = (runs[-1][0], runs[-1][1] + piece)
        else:
            runs.append((colour, piece))
    shown = "".join(
        f'<span class="{colour}">{html.escape(piece, quote=False)}</span>'
        if colour
        else html.escape(piece, quote=False)
        for colour, piece in runs
    )
    return block(shown, _SHOWN.get(language, language.capitalize()) or "Text")
