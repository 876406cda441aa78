import pytest

from tests.public.kernel import parse_rate


@pytest.mark.parametrize(
    ("text", "shown", "interval", "burst"),
    [
        ("20/s", "20/s", 0.05, 2),
        ("100/m", "100/m", 0.6, 10),
        ("1000 / H", "1000/h", 3.6, 100),
        ("1/h", "1/h", 3600.0, 1),
        ("999999/s", "999999/s", 1 / 999_999, 99_999),
    ],
)
def test_a_rate_has_an_interval_and_a_burst(text: str, shown: str, interval: float, burst: int) -> None:
    rate = parse_rate(text)
    assert str(rate) == shown
    assert parse_rate(str(rate)) == rate
    assert rate.interval == pytest.approx(interval)
    assert rate.burst == burst


@pytest.mark.parametrize(
    "value", ["", "20", "0/s", "-1/s", "1.5/s", "1000000/s", "20/d", "20/sec", 20, None, "x" * 99]
)
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected a rate such as 20/s"):
        parse_rate(value)
