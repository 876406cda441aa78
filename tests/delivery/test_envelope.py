"""The envelope: its keys and their order, and payloads byte for byte."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw import Event
from tests.public.delivery import MOST_BEGINNINGS as MOST_KEPT
from tests.public.delivery import Envelope

PAYLOADS = Path(__file__).parent.parent / "payloads"
URL = "https://example.com/hook"


def event(data_json: bytes, *, sender: str | None = None, server_url: str | None = None) -> Event:
    return Event(
        id="msg_1",
        kind="MESSAGES_UPSERT",
        instance="loja1",
        data_json=data_json,
        time=1_795_176_000.25,
        sender=sender,
        server_url=server_url,
    )


def test_unknown_fields_are_omitted() -> None:
    assert Envelope(URL, None).encode(event(b'{"b":1,"a":2}')) == (
        b'{"event":"MESSAGES_UPSERT","instance":"loja1","data":{"b":1,"a":2},'
        b'"destination":"https://example.com/hook","date_time":"2026-11-20T12:00:00.250Z"}'
    )


@pytest.mark.parametrize(
    ("of_the_event", "ours", "sent"),
    [
        ("https://a", "https://b", "https://a"),
        (None, "https://b", "https://b"),
        ("https://a", None, "https://a"),
    ],
)
def test_all_keys_in_order(of_the_event: str | None, ours: str | None, sent: str) -> None:
    body = Envelope(URL, ours).encode(event(b"[]", sender="55@s", server_url=of_the_event))
    assert list(json.loads(body).items()) == [
        ("event", "MESSAGES_UPSERT"),
        ("instance", "loja1"),
        ("data", []),
        ("destination", URL),
        ("date_time", "2026-11-20T12:00:00.250Z"),
        ("sender", "55@s"),
        ("server_url", sent),
    ]


@pytest.mark.parametrize("path", sorted(PAYLOADS.glob("*.json")), ids=lambda path: path.name)
def test_payloads_are_sent_unchanged(path: Path) -> None:
    data_json = path.read_bytes().strip()
    body = Envelope(URL, None).encode(event(data_json))
    assert body.count(data_json) == 1
    assert json.loads(body)["data"] == json.loads(data_json)


@pytest.mark.parametrize(
    "number", [b"9007199254740993", b"-0", b"1.0", b"1e400", b"123456789012345678901234567890"]
)
def test_numbers_are_not_reformatted(number: bytes) -> None:
    body = Envelope(URL, None).encode(event(b'{"n":%b}' % number))
    assert b'"data":{"n":%b},' % number in body


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=50))
def test_any_text_is_escaped(text: str) -> None:
    given_event = msgspec.structs.replace(event(b"null", sender=text, server_url=text), instance=text)
    decoded = json.loads(Envelope(text, None).encode(given_event))
    assert [decoded[key] for key in ("instance", "destination", "sender", "server_url")] == [text] * 4


@pytest.mark.parametrize("ours", [None, "https://gw"])
def test_events_of_many_instances_and_kinds_in_turn_get_their_own_envelopes(ours: str | None) -> None:
    envelope = Envelope(URL, ours)
    for number in (*range(MOST_KEPT + 2), 0, 1):
        for changed in (
            event(b"{}"),
            event(b"{}", sender="55@s"),
            event(b"{}", server_url="https://other"),
            event(b"{}", server_url="https://gw"),
        ):
            of_one = msgspec.structs.replace(changed, instance=f"i{number}", kind=f"K{number % 3}")
            expected = Envelope(URL, ours).encode(of_one)
            assert envelope.encode(of_one) == expected
            assert json.loads(expected)["instance"] == f"i{number}"
