import json
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hookgw import Event, EventKind, Invalid, TooLarge
from tests.public.events import MAX_REASONS, EmitLimits, EventReader, id_of_message, items_of
from tests.public.kernel import parse_rfc3339
from tests.public.records import MARK, Catalog, without_file
from tests.support.emits import parse_events

CATALOG = Catalog(
    EventKind(name=name, meaning="…")
    for name in ("MESSAGES_UPSERT", "MESSAGES_UPDATE", "SEND_MESSAGE", "CONNECTION_UPDATE", "QRCODE_UPDATED")
)
PAYLOADS = sorted((Path(__file__).parent.parent / "payloads").glob("*.json"))
NOW = 1_700_000_000.0
TOO_MANY_FOR_3 = "The batch has too many events: at most 3 are allowed."
GOOD = {"event": "MESSAGES_UPSERT", "data": {"a": 1}}


def read(body: Any, **options: Any) -> list[Event]:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse_events(text, "loja1", CATALOG, now=NOW, **options).events


def problems(body: Any, **options: Any) -> tuple[str, ...]:
    with pytest.raises(Invalid) as caught:
        read(body, **options)
    return caught.value.messages


def test_a_single_event() -> None:
    (event,) = read({"event": "messages.upsert", "data": {"b": 1, "a": [2.50]}, "id": "x-1"})
    assert (event.id, event.kind, event.instance, event.time) == ("x-1", "MESSAGES_UPSERT", "loja1", NOW)
    assert (event.sender, event.server_url) == (None, None)


def test_the_payload_keeps_its_bytes() -> None:
    data = '{"z": 18446744073709551615, "a" : 1.50, "é": "\\u00e9\\ud83d\\ude00", "n": [ ]}'
    (event,) = read(f'{{"event": "MESSAGES_UPSERT", "data": {data}}}'.encode())
    assert event.data_json == data.encode()


def test_a_payload_cannot_pass_for_one_with_a_file_of_a_connector() -> None:
    data = MARK + rb'message":{"base64" : "a\"b"}}'
    for event in (
        *read(b'{"event": "MESSAGES_UPSERT", "data": %b}' % data),
        *read(data, path_kind="MESSAGES_UPSERT"),
    ):
        assert event.data == {"message": {"base64": 'a"b'}}
        assert without_file(event) is event


@pytest.mark.parametrize("path", PAYLOADS, ids=lambda path: path.name)
def test_envelopes_of_other_gateways_are_accepted_unchanged(path: Path) -> None:
    text = path.read_bytes()
    envelope = json.loads(text)
    batch = parse_events(text, envelope["instance"], CATALOG, now=NOW)
    (event,) = batch.events
    assert batch.warnings == []
    assert event.data_json in text
    assert event.data == envelope["data"]
    assert list(event.data) == list(envelope["data"])
    assert event.time == parse_rfc3339(envelope["date_time"])
    assert (event.sender, event.server_url) == (envelope.get("sender"), envelope.get("server_url"))


def test_there_are_payloads_to_try() -> None:
    assert len(PAYLOADS) >= 12


def test_an_array_is_a_batch_in_its_order() -> None:
    events = read([GOOD | {"id": str(number)} for number in range(200)])
    assert [event.id for event in events] == [str(number) for number in range(200)]


def test_lines_are_a_batch() -> None:
    line = json.dumps(GOOD).encode()
    assert len(read(b"\n" + line + b"\r\n\n  " + line + b"\n", lines=True)) == 2
    assert read(b"", lines=True) == []


@pytest.mark.parametrize("body", [b"[]", b" \r\n\t[ ]"])
def test_an_empty_batch_has_no_events(body: bytes) -> None:
    assert read(body) == []


def test_events_without_an_id_get_one_each() -> None:
    first, second = read([GOOD, GOOD | {"id": None}])
    assert first.id.startswith("msg_")
    assert first.id != second.id


def test_times_may_have_any_offset() -> None:
    (event,) = read(GOOD | {"date_time": "2023-11-14T23:13:20+01:00"})
    assert event.time == NOW


def test_a_whole_minute_may_come_without_its_seconds() -> None:
    """Java's ``OffsetDateTime`` writes it so, as Feign and Retrofit do in queries."""
    (event,) = read(GOOD | {"date_time": "2023-11-14T23:13+01:00"})
    assert event.time == NOW - 20


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"event": None}, "event is missing: it is the name of an event kind."),
        ({"event": 5}, "event must be the name of an event kind, a string."),
        (
            {"event": "MESSAGE_UPSERT"},
            "event: 'MESSAGE_UPSERT' is not a known event kind. Did you mean MESSAGES_UPSERT?",
        ),
        ({"id": ""}, "id must be 1 to 255 characters of A-Z a-z 0-9 _ -."),
        ({"id": "a.b"}, "id must be 1 to 255 characters of A-Z a-z 0-9 _ -."),
        ({"id": "a\n"}, "id must be 1 to 255 characters of A-Z a-z 0-9 _ -."),
        ({"id": "é"}, "id must be 1 to 255 characters of A-Z a-z 0-9 _ -."),
        ({"id": "x" * 256}, "id must be 1 to 255 characters of A-Z a-z 0-9 _ -."),
        ({"id": 7}, "id must be 1 to 255 characters of A-Z a-z 0-9 _ -."),
        ({"sender": 5}, "sender must be a string of at most 2,048 characters, none of them NUL."),
        ({"sender": "\0"}, "sender must be a string of at most 2,048 characters, none of them NUL."),
        (
            {"server_url": "x" * 2049},
            "server_url must be a string of at most 2,048 characters, none of them NUL.",
        ),
        *(
            ({"date_time": wrong}, "date_time must be an RFC 3339 time such as 2026-11-20T12:00:00.000Z.")
            for wrong in (
                "yesterday",
                5,
                "",
                "1969-12-31T23:59:59Z",
                "9999-12-31T23:59:59-23:59",
                "0001-01-01T00:00:00Z",
            )
        ),
    ],
)
def test_each_broken_rule_is_reported(changes: dict[str, Any], problem: str) -> None:
    assert problems(GOOD | changes) == (problem,)
    assert problems([GOOD, GOOD | changes]) == (f"events[1].{problem}",)


def test_an_id_of_255_characters_is_accepted() -> None:
    assert read(GOOD | {"id": "x" * 255})[0].id == "x" * 255


def test_data_is_needed_and_may_be_any_json() -> None:
    assert problems({"event": "MESSAGES_UPSERT"}) == ("data is missing: it is the payload.",)
    payloads: list[Any] = [None, 0, "x", []]
    assert [event.data for event in read([GOOD | {"data": value} for value in payloads])] == payloads


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "The body is empty: JSON is expected."),
        (b"x", "The body is not JSON"),
        (b"5", "The body must be an object with event and data, not a number."),
        (b"[5]", "events[0] must be an object with event and data, not a number."),
        (b"[{}", "The body is not JSON"),
        (b"[" * 1_000_000, "The body is nested too deeply"),
        (b'{"event": "CALL", "data": "\xff"}', "The body is not UTF-8."),
        (b'[{"event": "CALL", "data": "\xff"}]', "events[0] is not UTF-8."),
        (
            '{"event": “CALL”}'.encode(),
            'The body is not JSON: JSON is malformed: invalid character (byte 10). Write " as the ',
        ),
        (
            '[{"event": “CALL”}]'.encode(),
            'The body is not JSON: JSON is malformed: invalid character (byte 11). Write " as the ',
        ),
        (
            b'{"event": "CALL", "event": "CALL", "data": 1}',
            "The body has the name 'event' twice in one object.",
        ),
        (b'{"event": "CALL", "data": {"a": 1, "a": 2}}', "The body has the name 'a' twice in one object."),
        (
            b'{"event": "CALL", "data": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
            "The body is nested too deeply",
        ),
        (b'{"event": "CALL", "data": NaN}', "The body is not JSON"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_malformed_json_is_refused(body: bytes, problem: str) -> None:
    assert problems(body)[0].startswith(problem)


def test_lines_are_named_too() -> None:
    assert problems(b'{"event": "QRCODE_UPDATED", "data": 1}\n{\n', lines=True)[0].startswith(
        "events[1] is not JSON"
    )


def test_every_bad_index_of_a_batch_is_named() -> None:
    bad = [GOOD | {"event": "NOPE"}] * (MAX_REASONS + 3)
    found = problems([GOOD, *bad])
    assert len(found) == MAX_REASONS + 1
    assert found[0].startswith("events[1].event: 'NOPE' is not a known event kind.")
    assert found[-1].endswith(
        f"events[{MAX_REASONS + 1}], events[{MAX_REASONS + 2}], events[{MAX_REASONS + 3}]."
    )


def test_a_batch_has_a_limit() -> None:
    limits = EmitLimits(max_events=3)
    assert len(read([GOOD] * 3, limits=limits)) == 3
    assert problems([GOOD] * 4, limits=limits) == (TOO_MANY_FOR_3,)
    lines = json.dumps(GOOD).encode() + b"\n\n \n"
    assert len(read(lines * 3, limits=limits, lines=True)) == 3
    assert problems(lines * 4, limits=limits, lines=True) == (TOO_MANY_FOR_3,)


@pytest.mark.parametrize(
    ("body", "lines"), [(b"[" + b"{}," * 300_000 + b"1]", False), (b"12\n" * 300_000, True)]
)
def test_a_batch_of_tiny_things_is_not_taken_apart(body: bytes, lines: bool) -> None:
    tracemalloc.start()
    try:
        assert problems(body, limits=EmitLimits(max_events=3), lines=lines) == (TOO_MANY_FOR_3,)
        assert tracemalloc.get_traced_memory()[1] < 2**20 + len(body)
    finally:
        tracemalloc.stop()


LARGE = GOOD | {"data": {"text": "x" * 1000, "list": [{"a": [1, "]"]}, {}, "},{"]}}


@pytest.mark.parametrize("space", ["", " \r\n\t ", " " * 70_000])
def test_a_large_list_is_read_part_by_part(space: str) -> None:
    # The items begin alike, and then do not; one is larger than a part.
    items = [LARGE | {"id": f"e{number}"} for number in range(200)]
    items += [{"id": "odd", **GOOD}, LARGE | {"id": "large", "data": "y" * 200_000}, GOOD | {"id": "last"}]
    body = space + "[" + f"{space},{space}".join(map(json.dumps, items)) + space + "]" + space
    events = read(body.encode(), limits=EmitLimits(max_data=2**20))
    assert [event.id for event in events] == [item["id"] for item in items]
    assert [event.data for event in events] == [item["data"] for item in items]


@pytest.mark.parametrize("size", [8192, 16384, 40_000])
@pytest.mark.parametrize("token", ["true", "-1.5e-10", "12345678901234567890", '"\\u00e9\\\\"', "{}", "null"])
def test_no_token_is_cut_where_a_part_ends(size: int, token: str) -> None:
    # Wherever the window in which the end of an item is sought ends, the whole item is found.
    filler = "1," * 60_000
    for shift in range(size - 40, size + 2):
        data = f'["{"x" * shift}",{token},{token}]'
        body = f'[{{"data":{data},"event":"MESSAGES_UPSERT"}},{{"event":"CALL","data":[{filler}1]}}]'
        items = [item for item in items_of(body.encode(), 2**20) if item is not None]
        assert items[0] == f'{{"data":{data},"event":"MESSAGES_UPSERT"}}'.encode()
        assert len(items) == 2


def test_values_that_are_no_events_are_items_too() -> None:
    filler = "x" * 140_000
    body = f'[1,-2.5e3,"a",null,true,[],[[]],{{}},  12  ,"{filler}",123]'.encode()
    items = [item.strip() for item in items_of(body, 2**20) if item is not None]
    assert items == [
        *(b"1", b"-2.5e3", b'"a"', b"null", b"true", b"[]", b"[[]]", b"{}", b"12"),
        f'"{filler}"'.encode(),
        b"123",
    ]
    assert [item for item in items_of(b"[" + b" " * 140_000 + b"]", 2**20) if item is not None] == []


@pytest.mark.parametrize(
    ("end", "problem"),
    [
        ("", "The body is not JSON: "),
        ("]]", "The body is not JSON: trailing characters (byte 140040)."),
        ("] x", "The body is not JSON: trailing characters (byte 140041)."),
        (",]", "The body is not JSON: JSON is malformed: invalid character (byte 140039)."),
        (" 1]", "The body is not JSON: expected ',' or ']' (byte 140040)."),
        (",{]", "The body is not JSON: JSON is malformed: "),
        (',{"event":}]', "The body is not JSON: JSON is malformed: invalid character (byte 140048)."),
        (",tru", "The body is not JSON: "),
        (",-", "The body is not JSON: "),
        ("," + "[" * 1_000_000, "The body is nested too deeply."),
        (f',"{"x" * 1_200_000}"]', "events[1] has more than 1,114,112 bytes, the maximum"),
    ],
)
def test_a_large_list_that_is_malformed(end: str, problem: str) -> None:
    first = f'{{"event":"MESSAGES_UPSERT","data":"{"x" * 140_000}"}}'
    assert problems(f"[{first}{end}".encode())[0].startswith(problem)


def test_each_step_of_a_batch_is_short() -> None:
    # Between two steps, the gateway serves other requests.
    body = json.dumps([GOOD | {"id": f"e{number}"} for number in range(100)]).encode()
    for text, lines in ((body, False), (body[1:-1].replace(b"}, {", b"}\n{"), True)):
        reader = EventReader("loja1", CATALOG, now=NOW, limits=EmitLimits(max_data=2**20))
        assert sum(1 for _ in reader.read(text, lines=lines)) == 100


@pytest.mark.parametrize("lines", [False, True])
def test_white_space_is_skipped_step_by_step(lines: bool) -> None:
    body = b"[" * (not lines) + b" \n" * 500_000 + b"]" * (not lines)
    reader = EventReader("loja1", CATALOG, now=NOW, limits=EmitLimits())
    assert sum(1 for _ in reader.read(body, lines=lines)) >= len(body) // (64 * 1024)


def test_a_line_has_the_limit_of_an_event() -> None:
    limits = EmitLimits(max_data=1000, max_single=1000)
    long = json.dumps(GOOD).encode() + b" " * 70_000
    assert problems(b"{}\n" + long, lines=True, limits=limits) == (
        "events[1] has more than 66,536 bytes, the maximum for an event of a batch.",
    )


def test_an_event_has_a_limit_of_values() -> None:
    limits = EmitLimits(max_values=1000)
    assert read([GOOD | {"data": [0] * 900}], limits=limits)
    assert problems([GOOD, GOOD | {"data": [0] * 1000}], limits=limits) == (
        "events[1] has too many JSON values: at most 1,000 are allowed.",
    )
    assert problems(GOOD | {"data": [0] * 1000}, limits=limits) == (
        "The body has too many JSON values: at most 1,000 are allowed.",
    )


def test_data_has_a_limit() -> None:
    limits = EmitLimits(max_data=12)
    assert read(GOOD | {"data": "x" * 10}, limits=limits)
    assert problems(GOOD | {"data": "x" * 11}, limits=limits) == (
        "data has 13 bytes; at most 12B are allowed.",
    )


def test_a_single_event_has_a_limit_that_a_batch_has_not() -> None:
    size = len(json.dumps(GOOD))
    assert read(GOOD, limits=EmitLimits(max_single=size))
    with pytest.raises(TooLarge):
        read(GOOD, limits=EmitLimits(max_single=size - 1))
    assert read([GOOD], limits=EmitLimits(max_single=size - 1))


@pytest.mark.parametrize("key", ["abc", '"abc"'])
def test_the_idempotency_key_is_the_id_of_a_single_event(key: str) -> None:
    assert read(GOOD, key=key)[0].id == "abc"
    assert read([GOOD], key=key)[0].id == "abc"
    assert read(GOOD | {"id": "abc"}, key=key)[0].id == "abc"


@pytest.mark.parametrize(
    ("body", "key", "problem"),
    [
        (GOOD | {"id": "x"}, "y", "id differs from the Idempotency-Key header: send one of them."),
        ([GOOD, GOOD], "y", "Idempotency-Key is the id of a single event, but the batch has several."),
        (GOOD, "a b", "Idempotency-Key must be 1 to 255 characters of A-Z a-z 0-9 _ -."),
        (GOOD, '"', "Idempotency-Key must be 1 to 255 characters of A-Z a-z 0-9 _ -."),
        (GOOD, "", "Idempotency-Key must be 1 to 255 characters of A-Z a-z 0-9 _ -."),
    ],
)
def test_an_idempotency_key_that_cannot_be_the_id(body: Any, key: str, problem: str) -> None:
    assert problems(body, key=key) == (problem,)


def test_each_ignored_field_is_reported_once() -> None:
    odd = GOOD | {"instance": "loja2", "colour": 1, "apikey": "x", "destination": "y", "acceptedAt": "z"}
    batch = parse_events(json.dumps([odd, odd]).encode(), "loja1", CATALOG, now=NOW)
    assert sorted(batch.warnings) == [
        "colour is an unknown field; it was ignored.",
        "instance was ignored: the path says loja1.",
    ]
    assert {event.instance for event in batch.events} == {"loja1"}


def test_warnings_have_an_end() -> None:
    body = GOOD | {f"x{number}": 1 for number in range(100)}
    assert len(parse_events(json.dumps(body).encode(), "loja1", CATALOG, now=NOW).warnings) == 20


def test_a_raw_payload_can_be_written_again_as_it_was() -> None:
    (event,) = read(b'{"event":"SEND_MESSAGE","data":{"n":1.0}}')
    assert msgspec.json.encode({"data": msgspec.Raw(event.data_json)}) == b'{"data":{"n":1.0}}'


def test_at_the_path_of_a_kind_the_body_may_be_the_payload() -> None:
    (event,) = read(b' {"b": 1.50,\n"a": 2} ', path_kind="messages-upsert")
    assert (event.kind, event.data_json, event.time) == ("MESSAGES_UPSERT", b'{"b": 1.50,\n"a": 2}', NOW)
    # What has "event" or "data" alone is no envelope.
    assert [
        event.data for event in read([{"event": 1}, {"data": 1}, [5], GOOD], path_kind="messages.upsert")
    ] == [
        {"event": 1},
        {"data": 1},
        [5],
        {"a": 1},
    ]
    (event,) = read({"a": 1}, path_kind="messages-upsert", key="k-1")
    assert event.id == "k-1"
    (event,) = read(GOOD | {"id": "x-1"}, path_kind="messages-upsert")
    assert event.id == "x-1"
    small = EmitLimits(max_data=8)
    assert problems(b'["123456"]', path_kind="messages-upsert", limits=small, lines=True) == (
        "events[0].data has 10 bytes; at most 8B are allowed.",
    )


MESSAGE = {"key": {"remoteJid": "551@s.whatsapp.net", "fromMe": False, "id": "3EB0C0BD05DCA97A7C09CB"}}
UPDATE = {"keyId": "3EB0C0BD05DCA97A7C09CB", "remoteJid": "551@s.whatsapp.net", "status": "READ"}
OLD_UPDATE = {**MESSAGE["key"], "status": "READ"}


def id_of(kind: str, data: Any) -> str | None:
    return id_of_message(kind, data, json.dumps(data).encode())


@pytest.mark.parametrize(
    ("kind", "data", "other"),
    [
        ("MESSAGES_UPSERT", MESSAGE, MESSAGE | {"message": {"conversation": "Oi"}}),
        ("MESSAGES_UPDATE", UPDATE, UPDATE | {"messageId": "c1"}),
        # Of Evolution API 1, with the time of the request.
        ("MESSAGES_UPDATE", OLD_UPDATE, OLD_UPDATE | {"datetime": 1773027346012}),
        ("MESSAGES_UPDATE", MESSAGE | {"status": "READ"}, MESSAGE | {"status": "READ", "a": 1}),
    ],
)
def test_the_same_message_has_the_same_id(kind: str, data: Any, other: Any) -> None:
    found = id_of(kind, data)
    assert found is not None
    assert id_of(kind, other) == found
    (event,) = read({"event": kind, "data": other}, by_message=True)
    assert event.id == found
    (event,) = read({"event": kind, "data": other}, by_message=True, key="k")
    assert event.id == "k"
    (event,) = read({"event": kind, "data": other, "id": "own"}, by_message=True)
    assert event.id == "own"
    assert "551" not in found  # no phone number
    short = id_of(kind, {**data, "key": {**MESSAGE["key"], "id": "A"}} if "key" in data else data)
    assert short is not None
    assert "551" not in short


def test_the_id_of_a_message_never_changes() -> None:
    """Otherwise the messages of the last week would come again after an update."""
    assert (
        id_of("MESSAGES_UPSERT", MESSAGE)
        == "3EB0C0BD05DCA97A7C09CB-MESSAGES--5eoweodbld5shl7jcfwugp4ttwsak4rr"
    )
    assert (
        id_of("MESSAGES_UPDATE", UPDATE)
        == "3EB0C0BD05DCA97A7C09CB-MESSAGES--p3y5ibdxrgz4m6nxgeulmgxvbgbcvhsv"
    )


def test_other_messages_have_other_ids() -> None:
    key = MESSAGE["key"]
    events = [
        ("MESSAGES_UPSERT", MESSAGE),
        ("SEND_MESSAGE", MESSAGE),
        *[
            ("MESSAGES_UPSERT", {"key": key | change})
            for change in (
                {"id": "B"},
                {"remoteJid": "552@s.whatsapp.net"},
                {"fromMe": True},
                {"participant": "553"},
                {"remoteJid": None},
            )
        ],
        ("MESSAGES_UPDATE", UPDATE),
        *[
            ("MESSAGES_UPDATE", UPDATE | change)
            for change in (
                {"status": "PLAYED"},
                {"participant": "553"},
                {"keyId": "B"},
                {"remoteJid": "552"},
                {"message": {"editedMessage": {"message": {"conversation": "Oi"}}}},
                {"message": {"editedMessage": {"message": {"conversation": "Olá"}}}},
            )
        ],
        ("MESSAGES_EDITED", MESSAGE),
        ("MESSAGES_EDITED", MESSAGE | {"message": {"conversation": "Oi"}}),
    ]
    ids = [id_of(kind, data) for kind, data in events]
    assert None not in ids
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("MESSAGES_UPSERT", {}),
        ("MESSAGES_UPSERT", []),
        ("MESSAGES_UPSERT", {"id": "A"}),
        ("MESSAGES_UPSERT", UPDATE),
        ("MESSAGES_UPSERT", {"key": {"id": ""}}),
        ("MESSAGES_UPSERT", {"key": {"id": 5}}),
        ("MESSAGES_UPSERT", {"key": "A"}),
        ("MESSAGES_UPDATE", MESSAGE),
        ("MESSAGES_UPDATE", {"keyId": "A", "remoteJid": "551"}),
        ("MESSAGES_UPDATE", UPDATE | {"pollUpdates": [{"name": "yes", "voters": []}]}),
        ("CONNECTION_UPDATE", {"state": "open"}),
    ],
)
def test_without_the_id_of_a_message_no_event_is_a_repetition(kind: str, data: Any) -> None:
    assert id_of(kind, data) is None
    first, second = read([{"event": kind, "data": data}] * 2, by_message=True)
    assert first.id != second.id
