import pytest

from tests.public.site import duration_text, number_element, size_text, time_element


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.0421, "42 ms"),
        (1, "1 s"),
        (12.34, "12.3 s"),
        (90, "1 min 30 s"),
        (3600, "1 h"),
        (7265, "2 h 1 min"),
        (3 * 86_400 + 3_600, "3 d 1 h"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 * 2**30, "3 GiB")]
)
def test_sizes(count: int, text: str) -> None:
    assert size_text(count) == text


def test_times_have_the_exact_utc_time_in_their_title() -> None:
    assert time_element(1_700_000_000.25) == (
        '<time datetime="2023-11-14T22:13:20.250Z" title="2023-11-14 22:13:20 UTC" data-style="full">'
        "2023-11-14 22:13:20 UTC</time>"
    )
    assert time_element(None) == "–"


def test_numbers_have_separators() -> None:
    assert number_element(1234567) == '<data value="1234567">1,234,567</data>'
