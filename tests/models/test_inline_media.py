"""A file inside an event: marked, and cut out again."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw import Event
from tests.public.records import MARK, encode_payload, largest_file, unmarked, without_file

FILE = "iVBORw0KGgo="
KEY = {"remoteJid": "55@s.net", "id": "3EB0"}
IMAGE = {"url": "https://hooks.example/media/shop/t", "mimetype": "image/png"}


def encode(data: Any, *, wants_file: bool = True, max_data: int = 2**20) -> bytes:
    return encode_payload(data, wants_file=lambda: wants_file, max_data=max_data)


def event_with(data_json: bytes) -> Event:
    return Event(id="e1", kind="MESSAGES_UPSERT", instance="shop", data_json=data_json, time=0.0)


@pytest.mark.parametrize(
    "data",
    [
        {"key": KEY, "message": {"imageMessage": IMAGE, "base64": FILE}, "messageType": "imageMessage"},
        {"message": {"base64": FILE, "imageMessage": IMAGE}},
        {"message": {"base64": FILE}, "key": KEY},
        {"message": {"base64": FILE}},
        {"message": {"base64": f"data:image/png;base64,{FILE}"}, "n": 1.5},
    ],
)
def test_a_file_can_be_cut_out(data: dict[str, Any]) -> None:
    marked = encode(data)
    assert marked.startswith(MARK)
    assert msgspec.json.decode(marked) == data
    event = event_with(marked)
    assert event.data == data  # decoded and kept, before the cut
    rest = without_file(event)
    del data["message"]["base64"]
    assert rest.data == data == msgspec.json.decode(encode({**data}))
    assert without_file(rest) is rest
    assert event.data_json == marked


@given(
    st.dictionaries(st.text(), st.integers() | st.text()),
    st.dictionaries(st.text(), st.integers() | st.text()),
    st.text(min_size=1),
)
def test_any_payload_keeps_its_values(others: dict[str, Any], message: dict[str, Any], file: str) -> None:
    data = {**others, "message": {**message, "base64": file}}
    encoded = encode(data)
    assert msgspec.json.decode(encoded) == data
    if encoded.startswith(MARK):
        message.pop("base64", None)
        assert without_file(event_with(encoded)).data == {**others, "message": message}


@pytest.mark.parametrize(
    "data",
    [
        {"qrcode": {"base64": FILE}},
        {"message": "base64", "other": {"base64": FILE}},
        {"message": {"base64": 5}, "other": {"base64": FILE}},
        {"message": {"base64": 'a"b'}},
        {"message": {"base64": ""}},
        [{"base64": FILE}],
        {"base64": FILE},
        {"message": {"conversation": "hi"}},
    ],
)
def test_other_payloads_stay_as_they_are(data: Any) -> None:
    assert encode(data) == Event.encode(data)
    event = event_with(encode(data))
    assert without_file(event) is event


def test_a_file_that_nobody_wants_or_that_does_not_fit_is_left_out() -> None:
    data = {"key": KEY, "message": {"imageMessage": IMAGE, "base64": FILE}}
    kept = {"key": KEY, "message": {"imageMessage": IMAGE}}
    assert msgspec.json.decode(encode(data, wants_file=False)) == kept
    size = len(encode(data))
    assert encode(data, max_data=size).startswith(MARK)
    assert msgspec.json.decode(encode(data, max_data=size - 1)) == kept


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("inner", [0, 1])
def test_the_order_stays_with_the_file_and_without_it(place: int, inner: int) -> None:
    message: list[tuple[str, Any]] = [("imageMessage", IMAGE)]
    message.insert(inner, ("base64", FILE))
    fields: list[tuple[str, Any]] = [("key", KEY), ("status", '"base64" : "')]
    fields.insert(place, ("message", dict(message)))
    marked = encode(dict(fields))
    assert marked.startswith(MARK)
    assert marked.replace(b" : ", b":").replace(MARK, b'{"') == msgspec.json.encode(dict(fields)).replace(
        b" : ", b":"
    )
    fields[place] = ("message", {"imageMessage": IMAGE})
    assert without_file(event_with(marked)).data_json == msgspec.json.encode(dict(fields))
    assert encode(dict(fields) | {"message": dict(message)}, wants_file=False) == msgspec.json.encode(
        dict(fields)
    )


@pytest.mark.parametrize(
    ("message", "is_told"),
    [
        ({"imageMessage": {"mimetype": "image/png"}}, True),
        ({"imageMessage": {"url": "https://mmg.whatsapp.net/v/t62.7118-24/1_n.enc"}}, True),
        ({"imageMessage": {"url": "/media/shop/t"}}, True),
        ({"imageMessage": {"url": 7}, "other": "text"}, True),
        ({"imageMessage": IMAGE}, False),
        ({"imageMessage": {}, "mediaUrl": "https://s3.example/a"}, False),
    ],
)
def test_a_wanted_file_without_a_link_is_explained(message: dict[str, Any], is_told: bool) -> None:
    data = {"key": KEY, "message": {**message, "base64": "A" * 100_000}}
    found = msgspec.json.decode(encode(data, max_data=50_000))
    assert list(found) == ["key", "message", "mediaUnavailable"][: 2 + is_told]
    assert found["message"] == message
    if is_told:
        reason = "The file has 75,000 bytes, and an event has room for one of 25,212."
        assert found["mediaUnavailable"] == {"reason": reason, "setting": "events.max_data"}
    assert "mediaUnavailable" not in msgspec.json.decode(encode(data, wants_file=False))


def test_the_largest_file_fits() -> None:
    size = largest_file(2**20)
    file = "A" * ((size + 2) // 3 * 4)
    others = {"key": KEY, "message": {"imageMessage": {**IMAGE, "caption": "x" * 15_000}, "base64": file}}
    assert encode(others).startswith(MARK)
    assert largest_file(1024) == 0


@pytest.mark.parametrize("file", [FILE.encode(), rb"a\"b", b""])
def test_a_payload_from_elsewhere_gets_no_mark(file: bytes) -> None:
    """A producer who writes the mark must not make hookgw cut a value out, or half of one."""
    payload = MARK + b'message":{"base64" : "' + file + b'" }, "n": 1}'
    event = event_with(unmarked(payload))
    assert event.data == msgspec.json.decode(payload)
    assert without_file(event) is event
    assert unmarked(payload[1:]) == payload[1:]
