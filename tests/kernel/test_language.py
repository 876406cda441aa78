import pytest

from tests.public.kernel import (
    VARIABLE,
    current_language,
    gettext,
    in_language,
    language_of,
    ngettext,
    pgettext,
    preferred_language,
    use_language,
)


@pytest.mark.parametrize(
    ("tag", "language"),
    [
        ("pt", "pt_BR"),
        ("pt-BR", "pt_BR"),
        ("pt_BR.UTF-8", "pt_BR"),
        ("PT-pt", "pt_BR"),
        ("es", "es"),
        ("es-419", "es"),
        ("es_MX@euro", "es"),
        ("en-GB", "en"),
        ("C.UTF-8", None),
        ("ptx", None),
        ("", None),
    ],
)
def test_a_tag_or_a_locale_names_a_language(tag: str, language: str | None) -> None:
    assert language_of(tag) == language


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("pt-BR,pt;q=0.9,en;q=0.8", "pt_BR"),
        ("en;q=0.5, es;q=0.9", "es"),
        ("fr, de;q=0.8, es;q=0.1", "es"),
        ("es;q=0, en", "en"),
        ("es;q=0", None),
        ("fr", None),
        ("*", None),
        ("", None),
        ("es;q=2, \x00, ;;, pt", "pt_BR"),
    ],
)
def test_the_language_that_a_browser_likes_best_is_used(header: str, language: str | None) -> None:
    assert preferred_language(header) == language


@pytest.mark.parametrize(
    ("value", "language"), [("pt_BR.UTF-8", "pt_BR"), ("es", "es"), ("C", "en"), ("xx", "en"), ("", "en")]
)
def test_a_variable_names_the_usual_language(
    value: str, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, value)
    assert current_language() == language
    use_language("es")
    assert current_language() == "es"
    use_language(None)


def test_a_text_without_a_translation_is_english() -> None:
    with in_language("es"):
        assert gettext("Nothing has this: {name}.", name="{x}") == "Nothing has this: {x}."
        assert pgettext("of nothing", "Nothing has {n}.", n=12345.5) == "Nothing has 12.345,5."
        assert ngettext("{n} such thing", "{n} such things", 1) == "1 such thing"
        assert ngettext("{n} such thing", "{n} such things", 0) == "0 such things"
        assert gettext("") == ""
    with in_language("en"):
        assert ngettext("{n} such thing", "{n} such things", 1204) == "1,204 such things"
        assert gettext("{yes} {text}", yes=True, text="1204") == "True 1204"
