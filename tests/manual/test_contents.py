"""Each page of ``docs/`` is in the navigation, once."""

from collections import Counter

from hookgw.manual.contents import CONTENTS, HOME
from tests.manual.conftest import ROOT

LISTED = [HOME.file, *(chapter.file for chapters in CONTENTS.values() for chapter in chapters)]


def test_every_page_is_in_the_list_of_contents_once() -> None:
    """A new page: add it to hookgw/manual/contents.py, below the question that it answers."""
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages - set(LISTED) == set()
    assert [file for file, count in Counter(LISTED).items() if count > 1] == []


def test_every_page_of_the_list_exists() -> None:
    assert [file for file in LISTED if not (ROOT / file).is_file()] == []
