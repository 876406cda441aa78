"""Pages in other languages have the examples of their originals, and lead to each other."""

import re
from pathlib import Path

import pytest

from tests.manual.conftest import ROOT

TRANSLATED = {
    "README.md": ("README.pt-BR.md", "README.es.md"),
    "docs/start.md": ("docs/pt-BR/start.md", "docs/es/start.md"),
}
PAIRS = [(original, one) for original, several in TRANSLATED.items() for one in several]


def _text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def _blocks(text: str) -> list[str]:
    """Return the code without its comments, which are translated."""
    found = re.findall(r"^```.*?^```$", text, re.MULTILINE | re.DOTALL)
    return [re.sub(r"(^|\s)# .*$", "", block, flags=re.MULTILINE) for block in found]


@pytest.mark.parametrize(("original", "translation"), PAIRS)
def test_a_translation_has_the_examples_of_its_original(original: str, translation: str) -> None:
    assert _blocks(_text(translation)) == _blocks(_text(original))


@pytest.mark.parametrize(("original", "translation"), PAIRS)
def test_a_translation_has_the_parts_of_its_original(original: str, translation: str) -> None:
    """A new section, row or point of the original must be translated."""
    for part in (r"^#+ ", r"^\|", r"^- \*\*"):
        counts = [len(re.findall(part, _text(name), re.MULTILINE)) for name in (original, translation)]
        # The translations have one more point, about languages.
        assert 0 <= counts[1] - counts[0] <= (part == r"^- \*\*"), part


@pytest.mark.parametrize(("original", "translation"), PAIRS)
def test_pages_lead_to_each_other_in_their_first_lines(original: str, translation: str) -> None:
    names = {original, *TRANSLATED[original]}
    for name in (original, translation):
        begin = _text(name).split("\n## ", 1)[0].split("\n\n")[1]
        linked = {
            (ROOT / name).parent.joinpath(link).resolve().relative_to(ROOT).as_posix()
            for link in re.findall(r"\]\(([^)]+)\)", begin)
        }
        assert linked == names - {name}, Path(name)
