"""Texts of pages in the language of their reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jinja2 import Environment
from markupsafe import Markup, escape

from hookgw.kernel.language import LANGUAGES, translated, translated_in, translated_plural, written
from hookgw.locale.catalogues import packaged
from hookgw.records.told_sentences import sentence_text


def install_texts(environment: Environment) -> None:
    """Let templates mark texts.

    A translation is text: what it has of HTML is shown, as is that of values, unless these are ``Markup``.
    """
    for language in LANGUAGES:
        packaged(language)
    environment.globals.update(
        _=_marked(translated),
        ngettext=_marked_plural,
        pgettext=_marked(translated_in),
        sentence=sentence_text,
        languages=LANGUAGES,
    )


def _marked(look_up: Callable[..., str]) -> Callable[..., Markup]:
    def text(*key: str, **values: object) -> Markup:
        found = escape(look_up(*key))
        return _filled(found, values) if values else found

    return text


def _marked_plural(one: str, many: str, n: int, /, **values: object) -> Markup:
    return _filled(escape(translated_plural(one, many, n)), {"n": n, **values})


def _filled(text: Markup, values: Mapping[str, object]) -> Markup:
    # Not Markup.format, which takes ten times as long; placeholders have no formats.
    return Markup(str(text).format_map({name: escape(one) for name, one in written(values).items()}))  # noqa: S704
