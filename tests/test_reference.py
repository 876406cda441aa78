"""The reference for plugin authors has every public name, and says what the code says."""

import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

import hookgw
import hookgw.connectors
import hookgw.testing
from tests.public.plugins import HOOKS
from tests.support import reference

FILES = [*reference.PAGES, "errors.md"]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference.pages()


@pytest.mark.parametrize("file", FILES)
def test_the_page_is_that_of_the_code(file: str, pages: dict[str, str]) -> None:
    written = (reference.FOLDER / file).read_text(encoding="utf-8")
    assert written == pages[file], "run nox -s reference, and commit docs/reference"


def test_the_fields_of_set_are_those_of_the_code() -> None:
    written = reference.HTTP.read_text(encoding="utf-8")
    assert written == reference.http_page(), "run nox -s reference, and commit docs/http.md"


def test_the_keys_of_the_configuration_are_those_of_the_code() -> None:
    written = reference.CONFIGURATION.read_text(encoding="utf-8")
    assert written == reference.configuration_page(), "run nox -s reference, and commit docs/configuration.md"


@pytest.mark.parametrize("package", [hookgw, hookgw.connectors, hookgw.testing])
def test_no_public_name_is_that_of_a_module(package: ModuleType) -> None:
    """Whoever imports such a module turns the name into the module, for everybody."""
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert modules.isdisjoint(package.__all__)


def test_there_are_no_other_pages(pages: dict[str, str]) -> None:
    assert {file.name for file in reference.FOLDER.iterdir()} == set(pages) == set(FILES)


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("hookgw.md", hookgw.__all__),
        ("hooks.md", HOOKS),
        ("testing.md", hookgw.testing.__all__),
    ],
)
def test_every_public_name_has_a_heading(file: str, names: list[str], pages: dict[str, str]) -> None:
    headings = re.findall(r"^### (\w+)$", pages[file], re.MULTILINE)
    assert set(names) <= set(headings)
    assert len(headings) == len(set(headings))


def test_a_public_name_without_a_place_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hookgw, "__all__", [*hookgw.__all__, "Newcomer"])
    with pytest.raises(LookupError, match="Newcomer"):
        reference.pages()


def test_a_field_without_a_description_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hookgw.QRCode, "__doc__", "A code.\n\nAttributes:\n    code: the text.\n")
    with pytest.raises(LookupError, match=r"QRCode\.base64"):
        reference.pages()


@pytest.mark.parametrize("file", FILES)
def test_no_markup_of_docstrings_is_left(file: str, pages: dict[str, str]) -> None:
    prose = re.sub(r"^```.*?^```$", "", pages[file], flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r":\w+:`|``|<class |0x[0-9a-f]{6}", prose) == []


def test_it_is_written_by_nox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: dict[str, str]) -> None:
    monkeypatch.setattr(reference, "FOLDER", tmp_path / "reference")
    reference.write()
    assert {file.name: file.read_text("utf-8") for file in (tmp_path / "reference").iterdir()} == pages
