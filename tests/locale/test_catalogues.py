"""The catalogues have every marked text of the code, and nothing else; each translation fits its text.

If a test fails, run ``nox -s texts``, and translate what it prints.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest
from babel.messages import Catalog, Message

from tests.public.kernel import LANGUAGES, in_language, ngettext
from tests.public.locale import catalogue, sources
from tests.public.records import retold
from tests.support import texts

languages = pytest.mark.parametrize("language", texts.translated_languages())
_PLACEHOLDER = re.compile(r"\{(\w+)(?:![rs])?(?::[^{}]*)?\}", re.ASCII)
_PASS_A_PHRASE_ON = ("as_object", "check_name", "json_of", "refuse_unknown", "resolve")
"""Functions with an argument that a sentence has in it."""
_TAG = re.compile(r"</?[a-z][^<>]*>")


@cache
def _marked() -> Catalog:
    return texts.messages()


@cache
def _kept(language: str) -> Catalog:
    return texts.kept(language)


def _entries(language: str) -> list[Message]:
    return [one for one in _kept(language) if one.id]


@languages
def test_each_marked_text_is_in_the_catalogue_and_nothing_else(language: str) -> None:
    marked = {(one.id, one.context) for one in _marked() if one.id}
    found = {(one.id, one.context) for one in _entries(language)}
    assert (sorted(map(str, marked - found)), sorted(map(str, found - marked))) == ([], [])


def test_no_marked_text_is_inside_an_f_string() -> None:
    """Babel finds it with Python 3.12 and later only: each Python would need other catalogues."""
    inside = [
        f"{file.relative_to(texts.ROOT)}:{call.lineno}"
        for folder in ("hookgw", "plugins")
        for file in sorted((texts.ROOT / folder).rglob("*.py"))
        for outer in ast.walk(ast.parse(file.read_bytes()))
        if isinstance(outer, ast.JoinedStr)
        for call in ast.walk(outer)
        if isinstance(call, ast.Call)
        and getattr(call.func, "id", getattr(call.func, "attr", None)) in texts.KEYWORDS
    ]
    assert inside == []


def test_what_fills_a_marked_text_is_not_written_in_english() -> None:
    """An f-string with words, in the call or in a variable: a sentence of two languages came of it."""
    allowed = {
        " --label ": "an option of a command",
        "it ": "before why a text is no JSON, which the decoder says in English",
    }
    found = []
    for folder in ("hookgw", "plugins"):
        for file in sorted((texts.ROOT / folder).rglob("*.py")):
            for function in ast.walk(ast.parse(file.read_bytes())):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    found += [(file.name, words) for words in _english_values(function)]
    assert [one for one in found if one[1] not in allowed] == []


def _english_values(function: ast.AST) -> Iterator[str]:
    """Yield the words of f-strings that are values of marked texts in a function."""
    assigned: dict[str, ast.expr] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            assigned[node.targets[0].id] = node.value
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("_", "ngettext", "pgettext"):
            for keyword in node.keywords:
                value = keyword.value
                value = assigned.get(value.id, value) if isinstance(value, ast.Name) else value
                for part in ast.walk(value):
                    if isinstance(part, ast.JoinedStr):
                        words = "".join(
                            str(one.value) for one in part.values if isinstance(one, ast.Constant)
                        )
                        if re.search("[A-Za-z]{2}", words):
                            yield words


@languages
def test_each_text_is_translated(language: str) -> None:
    assert texts.untranslated(_kept(language)) == []


def _alternatives(value: ast.expr) -> Iterator[str]:
    """Yield the texts that an expression may be, without those that it calls something with."""
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.BoolOp(values=parts):
            for part in parts:
                yield from _alternatives(part)
        case ast.IfExp(body=one, orelse=other):
            yield from _alternatives(one)
            yield from _alternatives(other)


@languages
def test_a_phrase_that_fills_a_sentence_is_translated(language: str) -> None:
    """Else a translated sentence has English words in it."""
    phrases = {
        text
        for folder in ("hookgw", "plugins")
        for file in (texts.ROOT / folder).rglob("*.py")
        for call in ast.walk(ast.parse(file.read_bytes()))
        if isinstance(call, ast.Call)
        for name in [getattr(call.func, "id", getattr(call.func, "attr", ""))]
        if name in ("of", "Sentence", *_PASS_A_PHRASE_ON) or name.isupper()
        for given in [one.value for one in call.keywords] + (call.args if name in _PASS_A_PHRASE_ON else [])
        for text in _alternatives(given)
        if re.search("[A-Za-z] [A-Za-z]", text)
    }
    assert "The body" in phrases
    with in_language(language):
        assert {one for one in phrases if retold(one, language) == one} == set()


@languages
def test_a_translation_has_the_placeholders_of_its_text(language: str) -> None:
    wrong = []
    for message in _entries(language):
        wanted = {name for text in texts.ids_of(message) for name in _PLACEHOLDER.findall(text)}
        for translation in filter(None, texts.strings_of(message)):
            given = set(_PLACEHOLDER.findall(translation))
            # A form for one thing may say it in words.
            if not (given == wanted or (isinstance(message.id, tuple) and wanted - given <= {"n"})):
                wrong.append((message.id, translation))
            # Templates are filled with str.format: what else it knows could reach into the values.
            if wanted and re.search(r"\{[^{}:]*[.\[]", translation):
                wrong.append((message.id, translation))
    assert wrong == []


@languages
def test_a_translation_is_text_and_ends_as_its_text(language: str) -> None:
    wrong = []
    for message in _entries(language):
        text = texts.ids_of(message)[-1]
        for translation in filter(None, texts.strings_of(message)):
            has_tag = _TAG.search(translation) and not _TAG.search(text)
            same_end = (text[-1] in ".:…?!") == (translation[-1] in ".:…?!") or text == "No."
            if has_tag or not same_end or translation != translation.strip():
                wrong.append((text, translation))
    assert wrong == []


@pytest.mark.parametrize(
    ("language", "foreign"),
    [
        ("es", r"\w*[ãõçêôâ]\w*|\w*nh\w*|um|uma|em|com|ou|do|das|pelo|pela|após|no arquivo|qualquer|regras?"),
        ("pt_BR", r"\w*[ñ¿¡]\w*|\w+ci[óo]n(?:es)?|el|los|las|del|un|una|con|y|hay|sin|al|cualquiera|reglas?"),
    ],
    ids=["es", "pt_BR"],
)
def test_a_translation_has_no_words_of_the_neighbouring_language(language: str, foreign: str) -> None:
    # Not parts of what is written together: example.com, enviá-los, {com}.
    word = re.compile(rf"(?<![\w./{{`-])(?:{foreign})(?![\w./}}`-]*\w)", re.IGNORECASE)
    found = [
        (translation, match[0])
        for message in _entries(language)
        for translation in filter(None, texts.strings_of(message))
        if (match := word.search(translation))
    ]
    assert found == []


@languages
def test_files_are_as_the_tool_writes_them(language: str) -> None:
    """So that a translation changes its own lines only."""
    assert texts.source_of(language).read_text("utf-8") == texts.text_of(texts.kept(language))


@pytest.mark.parametrize(
    ("language", "count", "text"),
    [
        ("pt_BR", 0, "0 entrega"),
        ("pt_BR", 1, "1 entrega"),
        ("pt_BR", 1204, "1.204 entregas"),
        ("es", 0, "0 entregas"),
        ("es", 1, "1 entrega"),
        ("es", 12041, "12.041 entregas"),
    ],
)
def test_plurals_are_those_of_the_language(language: str, count: int, text: str) -> None:
    with in_language(language):
        assert ngettext("{n} delivery", "{n} deliveries", count) == text


def test_a_language_without_a_catalogue_is_english() -> None:
    assert catalogue("xx").gettext("Save") == "Save"
    assert {"en"} | {language for language, _ in sources(texts.FOLDER)} == {*LANGUAGES}
