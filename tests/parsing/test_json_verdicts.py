"""Which texts are refused, by rules written once more, slowly and without a look at how it is done."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import hookgw
from tests.public.events import EmitLimits
from tests.public.kernel import MAX_DEPTH, Invalid, decode_strict
from tests.public.records import BUILT_IN_KINDS, OPERATIONAL_KINDS, Catalog
from tests.support.emits import parse_events

CATALOG = Catalog(BUILT_IN_KINDS)
PIECES = (
    *("{", "}", "[", "]", ",", ":", '"', "\\", " ", "\n", "e", "-"),
    *("1", "0.5", "1e5", "-2E-3", "1e999", "NaN", "Infinity", "true", "null", '""', '"a"', '"a:b,[{"'),
    *('{"a":1}', '{"a":1,"b":2}', '{"a":1,"a":2}', r'{"a":1,"\u0061":2}', r'"\u003a"', '[{"a":{}},{"a":{}}]'),
    *(r'"\\"', r'"\""', r'"\ud83d\ude00"', r'"\ud800"', '"é"', "9" * 70, '"' + "9" * 600 + '"', "8" * 600),
)
# What makes a text long, and nothing else.
PADS = ("", '"' + "x" * 5000 + '"', '"' + 'e\\",:[{' * 1000 + '"', "[" + "[],{}," * 1500 + "0]", "9, " * 3000)


def fault(text: bytes, most: int) -> str | None:
    """Return which rule a text breaks."""
    if values_of(text) > most:
        return "values"
    try:
        value = json.loads(
            text.decode(), object_pairs_hook=unique, parse_constant=refuse, parse_float=finite, parse_int=len
        )
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        return "depth"
    except ValueError:
        return "syntax"
    return "depth" if depth_of(value) > MAX_DEPTH else None


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name twice")
    return dict(pairs)


def refuse(text: str) -> None:
    raise ValueError(text)


def finite(text: str) -> int:
    if abs(float(text)) == float("inf"):
        raise ValueError("out of range")
    return 0


def depth_of(value: Any) -> int:
    """Count the levels without recursion, of which a test has less left than a server."""
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, (dict, list))]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


def values_of(text: bytes) -> int:
    """Count the values of a JSON text; 0 if it is something else. Slow numbers count as ten."""
    slow = 0

    def integer(digits: str) -> None:
        nonlocal slow
        slow += len(digits.lstrip("-")) // 64

    def decimal(digits: str) -> None:
        nonlocal slow
        slow += sum(len(part) // 64 for part in digits.lower().replace("e", ".").split("."))
        slow += "e" in digits.lower()

    def count(value: Any) -> int:
        # A list of pairs stands for an object: what a duplicate name hides counts, too.
        if isinstance(value, Pairs):
            return 1 + sum(count(inner) for _, inner in value)
        return 1 + (sum(map(count, value)) if isinstance(value, list) else 0)

    try:
        value = json.loads(text, object_pairs_hook=Pairs, parse_int=integer, parse_float=decimal)
        return count(value) + 9 * slow
    except (ValueError, RecursionError):
        return 0


class Pairs(list[Any]):
    """The names and values of an object."""


def text_of(chance: random.Random) -> bytes:
    def value(levels: int) -> str:
        kind = chance.randrange(4) if levels else 0
        if kind == 1:
            return (
                "["
                + chance.choice((",", ", ")).join(value(levels - 1) for _ in range(chance.randrange(4)))
                + "]"
            )
        if kind == 2:
            names = chance.sample("abcdef", chance.randrange(4))
            return (
                "{"
                + ",".join(f'"{name}"{chance.choice((":", ": "))}{value(levels - 1)}' for name in names)
                + "}"
            )
        return chance.choice(PIECES[12:])

    depth = chance.choice((0, 0, 0, 0, MAX_DEPTH - 4, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 5000))
    whole = "[" * depth + value(4) + "]" * depth
    pad = chance.choice(PADS)
    whole = f"[{whole},{pad.rstrip(', ')}]" if pad else whole
    if chance.random() < 0.4:
        at = chance.randrange(len(whole) + 1)
        whole = whole[:at] + chance.choice(PIECES) + whole[at + chance.randrange(2) :]
    text = whole.encode()
    if chance.random() < 0.1:
        at = chance.randrange(len(text) + 1)
        text = text[:at] + bytes([chance.randrange(256)]) + text[at:]
    return text


TEXTS = st.randoms(use_true_random=False).map(text_of)


@settings(max_examples=400, deadline=None)
@given(TEXTS, st.sampled_from([10, 100, 3000, 10_000, 100_000]))
@example(b'{"a":1,"a":1}', 100_000)
@example(b"[" + b"1e1," * 20_000 + b"1]", 100_000)
def test_a_text_is_refused_for_a_reason(text: bytes, most: int) -> None:
    expected = fault(text, most)
    if expected is None:
        decode_strict(text, most)
        return
    reasons = {"values": "too many JSON values", "depth": "too many JSON values|nested too deeply"}
    with pytest.raises(ValueError, match=reasons.get(expected)):
        decode_strict(text, most)


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.sampled_from([100, 100_000]))
def test_an_event_is_refused_if_its_text_is(text: bytes, most: int) -> None:
    body = b'{"event":"MESSAGES_UPSERT","data":' + text + b"}"
    try:
        [event] = parse_events(body, "a", CATALOG, now=1.0, limits=EmitLimits(max_values=most)).events
    except Invalid:
        assert fault(body, most) is not None
    else:
        assert fault(body, most) is None
        assert event.data == json.loads(text)


ENVELOPES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "event": st.sampled_from(
            ["MESSAGES_UPSERT", "messages.upsert", "MESSAGES_UPDATE", "NOPE", None, 5, {}]
        ),
        "data": st.sampled_from([None, {}, {"a": [1.5]}, "x" * 30]),
        "id": st.sampled_from([None, "a-1", "b", "", "a b", "x" * 256, 7]),
        "date_time": st.sampled_from([None, "1970-01-01T00:00:09Z", "yesterday", "1960-01-01T00:00:00Z", 5]),
        "sender": st.sampled_from([None, "me", "", "\0", "x" * 2049, 5]),
        "server_url": st.sampled_from([None, "https://a.example", "\0", []]),
        "apikey": st.just("k"),
        "colour": st.just("red"),
    },
)


def first_mistake(envelope: dict[str, Any], kind: str | None, key: str | None, most: int) -> str | None:
    """Return the id of the message about an envelope."""

    def is_no_text(given: object) -> bool:
        return given is not None and not (isinstance(given, str) and len(given) <= 2048 and "\0" not in given)

    event_id, name = envelope.get("id"), envelope.get("event")
    rules = (
        ("event.id_form", event_id not in (None, "a-1", "b")),
        ("event.id_differs", None not in (event_id, key) and event_id != key),
        ("event.kind_missing", name is None),
        ("event.kind_not_string", not isinstance(name, str)),
        ("event.not_a_kind", name == "NOPE"),
        ("event.kind_differs", kind is not None and name == "MESSAGES_UPDATE"),
        ("event.data_missing", "data" not in envelope),
        ("event.data_too_long", len(json.dumps(envelope.get("data"))) > most),
        ("event.time_form", envelope.get("date_time") not in (None, "1970-01-01T00:00:09Z")),
        ("event.text_form", is_no_text(envelope.get("sender")) or is_no_text(envelope.get("server_url"))),
    )
    return next((mistake for mistake, is_made in rules if is_made), None)


@settings(max_examples=400, deadline=None)
@given(
    ENVELOPES,
    st.randoms(use_true_random=False),
    st.sampled_from([None, "messages-upsert"]),
    st.sampled_from([None, "a-1"]),
    st.sampled_from([30, 1000]),
)
def test_the_first_mistake_of_an_envelope_is_reported(
    envelope: dict[str, Any], chance: random.Random, kind: str | None, key: str | None, most: int
) -> None:
    # The names come in any order: that of the rules counts.
    envelope = dict(chance.sample(list(envelope.items()), len(envelope)))
    body = json.dumps(envelope, indent=chance.choice((None, 1))).encode()
    is_payload = kind is not None and not {"event", "data"} <= envelope.keys()
    expected = first_mistake(envelope, kind, key, most)
    if is_payload:
        expected = "event.data_too_long" if len(body) > most else None
    options: dict[str, Any] = {"key": key, "path_kind": kind, "limits": EmitLimits(max_data=most)}
    if expected is not None:
        with pytest.raises(Invalid) as caught:
            parse_events(body, "a", CATALOG, now=1.0, **options)
        assert [getattr(message, "id", None) for message in caught.value.messages] == [expected]
        return
    batch = parse_events(body, "a", CATALOG, now=1.0, **options)
    [event] = batch.events
    assert event.id == (key or (None if is_payload else envelope.get("id")) or event.id)
    if is_payload:
        assert (event.data_json, event.time, event.sender, event.server_url) == (body, 1.0, None, None)
        assert batch.warnings == []
        return
    assert event.kind == ("MESSAGES_UPDATE" if envelope["event"] == "MESSAGES_UPDATE" else "MESSAGES_UPSERT")
    assert event.data == envelope["data"]
    assert event.data_json in body
    assert event.time == (9.0 if envelope.get("date_time") else 1.0)
    assert (event.sender, event.server_url) == (envelope.get("sender"), envelope.get("server_url"))
    ignored = ["colour is an unknown field; it was ignored."] if "colour" in envelope else []
    assert batch.warnings == ignored


def test_only_hookgw_raises_operational_events() -> None:
    kind = OPERATIONAL_KINDS[0].name
    catalog = Catalog([*BUILT_IN_KINDS, *OPERATIONAL_KINDS])
    message = f"{kind} is an operational event, which only hookgw raises."
    for body, expected in (
        (b'{"event":"%b","data":{}}' % kind.encode(), message),
        (b'[{"event":"%b","data":{}}]' % kind.encode(), f"events[0]: {message}"),
    ):
        with pytest.raises(Invalid) as caught:
            parse_events(body, "a", catalog, now=1.0)
        assert caught.value.messages == (expected,)
    with pytest.raises(Invalid) as caught:
        parse_events(b"{}", "a", catalog, now=1.0, path_kind=kind)
    assert caught.value.messages == (message,)


def test_who_makes_checked_events() -> None:
    folder = Path(hookgw.__file__).parent
    makers = {file.name for file in folder.rglob("*.py") if "CheckedEvent(" in file.read_text("utf-8")}
    assert makers == {"requests.py", "accept.py"}
