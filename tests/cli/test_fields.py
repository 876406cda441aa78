"""What options may hold."""

import time

import click
import pytest

from hookgw.command import fields
from tests.public.web import MAX_LIMIT

CONTEXT = click.Context(click.Command("x"))
OPTION = click.Option(["--x"])


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (None, None),
        ("2026-11-20T12:00:00Z", "2026-11-20T12:00:00.000Z"),
        ("2026-11-20T12:00:00+02:00", "2026-11-20T10:00:00.000Z"),
    ],
)
def test_a_time_is_converted_to_utc(given: str | None, read: str | None) -> None:
    assert fields.read_time(CONTEXT, OPTION, given) == read


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone cannot be set")
def test_a_time_without_an_offset_is_local_as_in_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/Sao_Paulo")
        time.tzset()
        read = fields.read_time(CONTEXT, OPTION, "2026-11-20 12:00:00")
        moment = fields.read_moment(CONTEXT, OPTION, "2026-11-20T12:00:00")
    time.tzset()
    assert read == moment == "2026-11-20T15:00:00.000Z"


@pytest.mark.parametrize("given", ["", "2h", "2026-13-01T00:00:00Z", "0001-01-01T00:00:00"])
def test_a_duration_is_no_moment(given: str) -> None:
    assert fields.read_moment(CONTEXT, OPTION, None) is None
    with pytest.raises(click.BadParameter, match="is not a time"):
        fields.read_moment(CONTEXT, OPTION, given)


def test_a_duration_counts_back_from_the_gateways_time_which_is_asked_later() -> None:
    ago = fields.read_time(CONTEXT, OPTION, "90m")
    assert isinstance(ago, fields.Ago)
    assert ago == 5_400.0


@pytest.mark.parametrize("given", ["", "yesterday", "5", "99999999w", "2026-13-01"])
def test_anything_else_is_not_a_time(given: str) -> None:
    with pytest.raises(click.BadParameter, match="or a duration before now: 10m, 2h, 3d"):
        fields.read_time(CONTEXT, OPTION, given)


def test_a_page_is_as_long_as_the_api_allows() -> None:
    assert fields.PAGE.max == MAX_LIMIT


def test_secrets_become_keys() -> None:
    assert fields.read_keys(CONTEXT, OPTION, ("whsec_AAAA", "whsec_//8=")) == (b"\0\0\0", b"\xff\xff")


@pytest.mark.parametrize("given", ["", "AAAA", "whsec_A", "whsec_é", "whsec_AA-_"])
def test_anything_else_is_not_a_secret(given: str) -> None:
    with pytest.raises(click.BadParameter, match="a secret has the form whsec_… in base64"):
        fields.read_keys(CONTEXT, OPTION, (given,))
