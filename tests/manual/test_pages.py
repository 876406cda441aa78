"""The pages that are made of ``docs/``: links, weight, and nothing inline."""

import gzip
import posixpath
import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urljoin

import pytest
import trio

from hookgw.manual.contents import CONTENTS, HOME, REFERENCE, Chapter
from hookgw.manual.make import GATEWAY, SITE, make
from hookgw.manual.markdown import BrokenLink, Renderer, parts_of
from tests.manual.conftest import ROOT
from tests.support.html_reader import Reader
from tests.support.site import write

Files = dict[str, bytes]
FIRST_PAINT = 50 * 1024


def pages_of(files: Files) -> dict[str, Reader]:
    is_asset = re.compile(r"\.(js|css|json|svg|png)$")
    return {name: Reader(content.decode()) for name, content in files.items() if not is_asset.search(name)}


def test_every_link_and_anchor_of_a_site_leads_somewhere(tmp_path: Path) -> None:
    """With the HTTP reference, which is on none of the pages of ``docs``."""
    trio.run(write, tmp_path)
    files = {
        path.relative_to(tmp_path).as_posix(): path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert f"{REFERENCE}/schemas.html" in files
    check_links(files)


def test_every_link_and_anchor_leads_somewhere(manual: Files) -> None:
    check_links(manual)


def check_links(manual: Files) -> None:
    pages = pages_of(manual)
    assert len(pages) > 100
    anchors = {name: page.every("id") for name, page in pages.items()}
    for name, page in pages.items():
        assert len(anchors[name]) == len(set(anchors[name])), name
        for link in {*page.every("href"), *page.every("src"), *page.every("data-home")}:
            if re.match("[a-z]+:", link):
                continue
            target, _, anchor = urljoin(f"/{name}", link).partition("#")
            target = unquote(target.partition("?")[0])[1:]
            if target not in manual and posixpath.splitext(target)[0] in (REFERENCE, f"docs/{REFERENCE}"):
                continue  # the gateway makes it, and the command for the site
            assert target in manual, f"{name} links to {link}"
            assert not anchor or unquote(anchor) in anchors[target], f"{name} links to {link}"


def test_nothing_is_inline(manual: Files) -> None:
    """The policy of the pages forbids it."""
    for name, page in pages_of(manual).items():
        assert "style" not in {tag for tag, _ in page.tags}, name
        assert page.every("style") == [], name
        assert not [one for _, attrs in page.tags for one in attrs if one.startswith("on")], name
        assert re.findall(rb"<script[^>]*>[^<]", manual[name]) == [], name


def test_the_first_paint_of_every_page_is_small(manual: Files) -> None:
    """The page, and what it waits for before it is painted, as they are transferred."""
    before = [name for name in manual if name.endswith(("assets/manual.css", "assets/theme.js"))]
    assert len(before) == 2
    blocking = sum(len(gzip.compress(manual[name])) for name in before)
    heavy = {
        name: size
        for name in pages_of(manual)
        if (size := len(gzip.compress(manual[name])) + blocking) > FIRST_PAINT
    }
    assert heavy == {}


def test_every_page_has_a_title_one_heading_and_the_navigation(manual: Files) -> None:
    titles: Counter[str] = Counter()
    for name, page in pages_of(manual).items():
        assert [tag for tag, _ in page.tags].count("h1") == 1, name
        assert page.every("aria-current") == ["page"], name
        titles.update(re.findall("<title>(.*?)</title>", manual[name].decode()))
    assert [title for title, count in titles.items() if count > 1] == []


def test_a_site_has_the_pictures_and_a_gateway_does_not(manuals: dict[str, Files]) -> None:
    assert [name for name in manuals["gateway"] if name.endswith(".png")] == []
    assert [name for name in manuals["site"] if name.endswith(".png")] != []


def test_two_manuals_are_equal(manuals: dict[str, Files]) -> None:
    assert make(ROOT, GATEWAY, "1.2.3") == manuals["gateway"]
    assert make(ROOT, SITE, "1.2.3") == manuals["site"]


def test_the_address_of_examples_is_marked(manual: Files) -> None:
    """A gateway writes its own there; a page that tells of a default keeps it."""
    for name in pages_of(manual):
        for block in re.findall(r"<pre.*?</pre>", manual[name].decode(), re.DOTALL):
            marked = block.count('<span class="at">http://127.0.0.1:8080</span>')
            assert marked == re.sub("<[^>]+>", "", block).count("http://127.0.0.1:8080"), name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# A\n\n[b](nothing.md)\n", "docs/a.md links to nothing.md, which is no page of the manual"),
        ("# A\n\n[b](#nothing)\n", "docs/a.md links to #nothing, and docs/a.md has no such heading"),
        ("# A\n\n<b>x</b>\n", "docs/a.md has HTML"),
    ],
)
def test_a_broken_page_is_not_made(text: str, message: str) -> None:
    parts = parts_of(Chapter("docs/a.md"), text)
    renderer = Renderer(parts, {"a": "docs/a"}, has_images=False)
    with pytest.raises(BrokenLink, match=message):
        renderer.render(parts[0])


def test_a_chapter_in_sections_is_a_page_for_each() -> None:
    text = "# A\n\nSee [d](#d).\n\n## B\n\n### C\n\n## B\n\n### D\n\nSee [b](#b-1), [c](a.md#c).\n"
    parts = parts_of(Chapter("docs/a.md", in_sections=True), text)
    assert [(part.path, part.title) for part in parts] == [("a", "A"), ("a/b", "B"), ("a/b-1", "B")]
    files = {part.path: GATEWAY.file(part.path) for part in parts}
    first, _, last = (Renderer(parts, files, has_images=False).render(part) for part in parts)
    assert '<a href="a/b-1#d">d</a>' in first
    assert '<h1 id="b-1">' in last
    assert '<h2 id="d">' in last
    assert '<a href="b-1">b</a>, <a href="b#c">c</a>' in last


def test_paths_of_the_site_have_a_suffix() -> None:
    assert SITE.file(HOME.path) == "index.html"
    assert SITE.file("networks/gowa") == "networks/gowa.html"
    assert "Guides" in CONTENTS
