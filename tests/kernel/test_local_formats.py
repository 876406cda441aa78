import datetime

import pytest

from tests.public.kernel import FORMATS, LANGUAGES, decimal_text, moment_text, number_text


def test_each_language_has_its_formats() -> None:
    assert [*FORMATS] == [*LANGUAGES]


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        ("en", ["0", "-1,204", "12,345.5", "1,234,567"]),
        ("pt_BR", ["0", "-1.204", "12.345,5", "1.234.567"]),
        ("es", ["0", "-1204", "12.345,5", "1.234.567"]),
    ],
)
def test_numbers_are_written_as_the_language_does(language: str, texts: list[str]) -> None:
    assert [number_text(one, language) for one in (0, -1204, 12345.5, 1_234_567)] == texts
    assert decimal_text("1.5", language) == ("1.5" if language == "en" else "1,5")


def test_days_are_written_as_the_language_does() -> None:
    moment = datetime.datetime(2026, 11, 3, 14, 5, 9, tzinfo=datetime.UTC)
    assert moment_text(moment, "en") == "2026-11-03 14:05:09"
    assert moment_text(moment, "pt_BR") == "03/11/2026 14:05:09"
