"""Makes the manual of ``docs/``: for gateways, as one archive, and as a static site.

It runs when hookgw is packaged, and in a checkout when somebody first opens ``/docs``. It imports nothing of
hookgw that needs a dependency, because a build has none of hookgw's.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from hookgw.kernel.language import LANGUAGES
from hookgw.manual import shell
from hookgw.manual.archive import pack
from hookgw.manual.contents import CONTENTS, HOME, REFERENCE, SHARED_ASSETS
from hookgw.manual.markdown import Heading, Part, Renderer, parts_of, plain, relative

_HERE = Path(__file__).parent
_WORD = re.compile(r"\w[\w.\-]+\w")
_EXCERPT = 140
_COMMON = 0.08
"""Words in a larger part of all places are found in their headings only: they tell nothing apart."""


class Layout(NamedTuple):
    """Where the files of a manual are.

    Attributes:
        folder: with the pages, below the root; empty or with a slash at its end.
        home: the file of the first page.
        suffix: of the files of pages.
        has_images: see :class:`Renderer`.
    """

    folder: str
    home: str
    suffix: str
    has_images: bool

    def file(self, path: str) -> str:
        return f"{self.folder}{path}{self.suffix}" if path else self.home


GATEWAY = Layout("docs/", "docs", "", has_images=False)
SITE = Layout("", "index.html", ".html", has_images=True)


class Page(NamedTuple):
    part: Part
    section: str
    chapter: str


def make(root: Path, layout: Layout, version: str) -> dict[str, bytes]:
    """Return all files of the manual.

    Raises:
        BrokenLink: a page links to a page or a heading that does not exist.
    """
    pages = list(_pages(root))
    files = {page.part.path: layout.file(page.part.path) for page in pages} | {
        REFERENCE: layout.file(REFERENCE)
    }
    if len(files) <= len(pages):
        raise ValueError("Two pages of the manual have the same address.")
    renderer = Renderer([page.part for page in pages], files, has_images=layout.has_images)
    sources = [*sorted((_HERE / "assets").iterdir()), *SHARED_ASSETS]
    assets = {f"{layout.folder}assets/{file.name}": file.read_bytes() for file in sources}
    assets[f"{layout.folder}assets/search.json"] = _search_index(pages, files)
    versions = {name: hashlib.sha256(content).hexdigest()[:12] for name, content in assets.items()}
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # A gateway translates the texts around a page when it serves it: see hookgw/manual/shell.py.
    mark = (lambda text: text) if layout.has_images else shell.marked
    environment.globals.update(
        _=mark,
        languages=LANGUAGES,
        language="en" if layout.has_images else shell.LANGUAGE,
        script_texts="{}" if layout.has_images else shell.SCRIPT_TEXTS,
    )
    template = environment.get_template("page.html")
    made = dict(assets)
    for index, page in enumerate(pages):
        file = files[page.part.path]
        levels = page.part.levels

        def to(path: str, file: str = file) -> str:
            return relative(file, files[path])

        def asset(name: str, file: str = file) -> str:
            name = f"{layout.folder}assets/{name}"
            return f"{relative(file, name)}?v={versions[name]}"

        # Pages are made for one place of it, so that links need no rewriting when they are served.
        text = template.render(
            version=version,
            page=page,
            body=renderer.render(page.part),
            navigation=_navigation(pages, page),
            sections=_sections_below(pages, page),
            before=pages[index - 1] if index else None,
            after=pages[index + 1] if index + 1 < len(pages) else None,
            headings=[one for one in page.part.headings[1:] if levels[one.anchor] == 2],
            to=to,
            asset=asset,
            reference=REFERENCE,
            root=relative(file, layout.home),
            is_site=layout.has_images,
        )
        made[file] = text.encode()
    if layout.has_images:
        made |= {name.removeprefix("docs/"): (root / name).read_bytes() for name in sorted(renderer.images)}
    return made


def _pages(root: Path) -> Iterator[Page]:
    for section, chapters in {"": [HOME], **CONTENTS}.items():
        for chapter in chapters:
            text = (root / chapter.file).read_text(encoding="utf-8")
            if chapter.file.endswith(".yaml"):
                text = f"# {chapter.title}\n\n```yaml\n{text}```\n"
            parts = parts_of(chapter, text)
            for part in parts:
                yield Page(part, section, chapter.title or parts[0].title)


class Entry(NamedTuple):
    """A line of the navigation. ``children``: the pages of the chapter that is open."""

    path: str
    title: str
    is_here: bool
    children: list[Entry]


def _navigation(pages: list[Page], here: Page) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for page in pages:
        entries = found.setdefault(page.section, [])
        is_here = page.part is here.part
        if page.part.shift == 0:
            entries.append(Entry(page.part.path, page.chapter, is_here, []))
        elif page.part.file == here.part.file:
            entries[-1].children.append(Entry(page.part.path, page.part.title, is_here, []))
    return found


def _sections_below(pages: list[Page], here: Page) -> list[Page]:
    """Return the pages of a chapter, for its first page, unless its text leads to them."""
    if here.part.shift:
        return []
    linked = {
        str(token.attrGet("href"))
        for inline in here.part.tokens
        for token in inline.children or ()
        if token.type == "link_open"
    }
    below = [page for page in pages if page.part.file == here.part.file and page.part.shift]
    return [] if any(f"#{page.part.anchor}" in linked for page in below) else below


def _search_index(pages: list[Page], files: Mapping[str, str]) -> bytes:
    """Return what the search reads: pages, and for each heading its text and the words that are below it."""
    home = files[""]
    listed = [
        [relative(home, files[one.part.path]), one.part.title, one.section or "Manual"] for one in pages
    ]
    places: list[tuple[int, str, str, str, set[str]]] = []
    for number, page in enumerate(pages):
        first = page.part.anchor
        for heading, text in _texts(page.part):
            words = {word.lower() for word in _WORD.findall(text)}
            excerpt = text if len(text) <= _EXCERPT else f"{text[:_EXCERPT].rsplit(' ', 1)[0]} …"
            anchor = "" if heading.anchor == first else heading.anchor
            places.append((number, anchor, heading.text, excerpt, words))
    counts = Counter(word for *_, words in places for word in words)
    most = len(places) * _COMMON
    entries = [
        [
            number,
            anchor,
            title,
            excerpt,
            " ".join(sorted(word for word in words if counts[word] < most and word not in excerpt.lower())),
        ]
        for number, anchor, title, excerpt, words in places
    ]
    index = {"pages": listed, "entries": entries}
    return json.dumps(index, ensure_ascii=False, separators=(",", ":")).encode()


def _texts(part: Part) -> Iterator[tuple[Heading, str]]:
    headings = iter(part.headings)
    heading, pieces = next(headings), list[str]()
    is_title, is_first = False, True
    for token in part.tokens:
        if token.type == "heading_open":
            if not is_first:
                yield heading, " ".join(" ".join(pieces).split())
                heading, pieces = next(headings), []
            is_title, is_first = True, False
        elif token.type in ("fence", "code_block"):
            pieces.append(token.content)
        elif token.type == "inline":
            if not is_title:
                pieces.append(plain(token))
            is_title = False
    yield heading, " ".join(" ".join(pieces).split())


def packed(root: Path, version: str) -> bytes:
    """Return the archive of a gateway's manual."""
    return pack(make(root, GATEWAY, version), GATEWAY.home)
