"""What a condition means, and that the look at the bytes of a payload sees what is there."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw import Event
from tests.public.records import Condition, EventFilter, FilterOp, split_pointer

DATA = {
    "key": {"remoteJid": "5511@s.whatsapp.net", "fromMe": False, "id": "M1"},
    "message": {"conversation": "Oi"},
    "count": 1,
    "share": 1.5,
    "none": None,
    "list": [{"a": 1}, "two", []],
    "a/b": {"m~n": 8, 'q"\\': 9, "": 10, "0": "zero", "é😀": 11},
}


def event(data: Any = DATA, **fields: Any) -> Event:
    made = Event(id="msg_1", kind="CALL", instance="loja1", data_json=Event.encode(data), time=0.0)
    return msgspec.structs.replace(made, **fields)


def passes(pointer: str, op: str, value: Any = None, of: Event | None = None) -> bool:
    condition = Condition(pointer, FilterOp(op), value)
    return EventFilter([condition]).unmet(of or event()) is None


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/event", "CALL"),
        ("/instance", "loja1"),
        ("/date_time", "1970-01-01T00:00:00.000Z"),
        ("/data/key/remoteJid", "5511@s.whatsapp.net"),
        ("/data/key/fromMe", False),
        ("/data/count", 1),
        ("/data/count", 1.0),
        ("/data/share", 1.5),
        ("/data/none", None),
        ("/data/list/0/a", 1),
        ("/data/list/1", "two"),
        ("/data/a~1b/m~0n", 8),
        ("/data/a~1b/", 10),
        ("/data/a~1b/é😀", 11),
        ("/data/a~1b/0", "zero"),
    ],
)
def test_equals(pointer: str, value: Any) -> None:
    assert passes(pointer, "equals", value)
    assert passes(pointer, "in", ("x", value))
    assert passes(pointer, "exists")
    assert not passes(pointer, "notEquals", value)
    assert not passes(pointer, "notIn", (value,))
    assert not passes(pointer, "notExists")


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/event", "call"),
        ("/data/key/fromMe", 0),
        ("/data/key/fromMe", "false"),
        ("/data/count", True),
        ("/data/count", "1"),
        ("/data/none", False),
        ("/data/key", "key"),
        ("/data/list/2", ""),
    ],
)
def test_another_value_or_type_is_not_equal(pointer: str, value: Any) -> None:
    assert not passes(pointer, "equals", value)
    assert passes(pointer, "notEquals", value)
    assert passes(pointer, "exists")


@pytest.mark.parametrize(
    "pointer",
    [
        *("/sender", "/event/x", "/data/x", "/data/x/y", "/data/key/x", "/data/count/x", "/data/none/x"),
        *("/data/list/3", "/data/list/-", "/data/list/00", "/data/list/a", "/data/list/0/a/b", "/data/"),
        *("/data/list/-1", "/data/list/+1", "/data/list/1.0", "/data/list/99999999"),
    ],
)
def test_nothing_is_at_the_pointer(pointer: str) -> None:
    assert not passes(pointer, "exists")
    assert not passes(pointer, "equals", None)
    assert not passes(pointer, "prefix", "")
    assert passes(pointer, "notEquals", None)
    assert passes(pointer, "notIn", ("x", None))
    assert passes(pointer, "notPrefix", "x")
    assert passes(pointer, "notExists")


def test_a_prefix_is_of_texts() -> None:
    assert passes("/data/key/remoteJid", "prefix", "5511")
    assert passes("/sender", "prefix", "55", event(sender="5511"))
    assert not passes("/data/key/remoteJid", "prefix", "11")
    assert not passes("/data/count", "prefix", "1")
    assert passes("/data/count", "notPrefix", "1")


@pytest.mark.parametrize("data", [None, 5, "text", [], [[1]], {}])
def test_any_payload_has_a_root_and_perhaps_nothing_below_it(data: Any) -> None:
    assert passes("/data", "exists", of=event(data))
    assert passes("/data/key/fromMe", "notExists", of=event(data))
    assert passes("/data", "equals", 5, event(data)) is (data == 5)


def test_all_conditions_must_hold_and_the_first_that_does_not_is_named() -> None:
    conditions = [
        Condition("/data/key/fromMe", FilterOp.EQUALS, False),
        Condition("/data/key/remoteJid", FilterOp.PREFIX, "99"),
        Condition("/data/x", FilterOp.EXISTS),
    ]
    assert EventFilter(conditions).unmet(event()) is conditions[1]
    assert EventFilter(conditions[:1]).unmet(event()) is None


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        (Condition("/data/a", FilterOp.EQUALS, "é"), '/data/a equals "é"'),
        (Condition("/data/a", FilterOp.NOT_IN, (1, None, True)), "/data/a notIn [1, null, true]"),
        (Condition("/data/a", FilterOp.NOT_EXISTS), "/data/a notExists"),
        (Condition("/data/a", FilterOp.PREFIX, "x" * 200), f'/data/a prefix "{"x" * 79}…'),
    ],
)
def test_a_condition_is_shown_as_it_was_written(condition: Condition, shown: str) -> None:
    assert str(condition) == shown


def test_conditions_on_the_envelope_do_not_read_the_payload() -> None:
    damaged = event(data_json=b"{")
    kinds = Condition("/event", FilterOp.EQUALS, "OTHER")
    assert EventFilter([kinds, Condition("/data/a", FilterOp.EXISTS)]).unmet(damaged) is kinds


@pytest.mark.parametrize(
    "data_json", [b"", b"{", b'{"a": {]}', b'{"a": 1e400}', b'{"a": "\xff"}', b"[" * 9000]
)
def test_a_damaged_payload_stops_nothing(data_json: bytes) -> None:
    look = EventFilter([Condition("/data/a/0", FilterOp.EXISTS), Condition("/data/a", FilterOp.EQUALS, 1)])
    assert look.unmet(event(data_json=data_json)) is not None


@pytest.mark.parametrize("text", [b" 5 ", b"\n5", b'\t{ "a" : 5 }\n', b"[ 5 ]", b'{"a":[{"b": 5 }] }'])
def test_white_space_means_nothing(text: bytes) -> None:
    spaced = event(data_json=text)
    pointers = ("/data", "/data/a", "/data/0", "/data/a/0/b")
    assert [passes(pointer, "equals", 5, spaced) for pointer in pointers].count(True) == 1


def test_a_large_payload_is_read_too() -> None:
    many = event({"list": [[n] for n in range(20_000)], "last": {"x": 1}})
    assert passes("/data/list/19999/0", "equals", 19_999, many)
    assert passes("/data/last/x", "equals", 1, many)


def test_conditions_survive_being_stored_as_json() -> None:
    values = ("x", 1, 2**62, -1.5, True, None, ("x", 1, 1.0, False, None))
    for value in values:
        condition = Condition("/data/a", FilterOp.IN, value)
        stored = msgspec.json.decode(msgspec.json.encode(condition), type=Condition)
        assert (stored, repr(stored)) == (condition, repr(condition))


NAMES = st.sampled_from(["a", "b", "0", "1", "", "/", "~", "é", "😀", "key"])
OTHER_NAMES = st.sampled_from(['"', "\\", "\n"])
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "ab", 1.5, 1e300, 2.0])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | OTHER_NAMES, inner, max_size=4),
)
POINTERS = st.lists(NAMES, max_size=4).map(
    lambda names: "/data" + "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)
)
CONDITIONS = st.one_of(
    st.builds(Condition, POINTERS, st.sampled_from([FilterOp.EQUALS, FilterOp.NOT_EQUALS]), SCALARS),
    st.builds(
        Condition,
        POINTERS,
        st.sampled_from([FilterOp.IN, FilterOp.NOT_IN]),
        st.lists(SCALARS, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(
        Condition,
        POINTERS,
        st.sampled_from([FilterOp.PREFIX, FilterOp.NOT_PREFIX]),
        st.sampled_from(["a", "ab", "b"]),
    ),
    st.builds(Condition, POINTERS, st.sampled_from([FilterOp.EXISTS, FilterOp.NOT_EXISTS])),
)


def resolve(data: Any, tokens: list[str]) -> list[Any]:
    """RFC 6901 by the letter: the value in a list, or an empty list."""
    for token in tokens:
        if isinstance(data, dict) and token in data:
            data = data[token]
        elif isinstance(data, list) and token in map(str, range(len(data))):
            data = data[int(token)]
        else:
            return []
    return [data]


def same(one: Any, other: Any) -> bool:
    return (
        isinstance(one, bool) is isinstance(other, bool) and not isinstance(one, list | dict) and one == other
    )


def expected(condition: Condition, data: Any) -> bool:
    found = resolve(data, split_pointer(condition.pointer)[1:])
    value = condition.value
    positive = {
        FilterOp.EXISTS: lambda: bool(found),
        FilterOp.PREFIX: lambda: (
            bool(found) and isinstance(found[0], str) and found[0].startswith(str(value))
        ),
        FilterOp.EQUALS: lambda: bool(found) and same(found[0], value),
        FilterOp.IN: lambda: isinstance(value, tuple) and any(same(found[0], one) for one in value if found),
    }[condition.op.positive]()
    return positive is (condition.op is condition.op.positive)


@given(
    data=VALUES,
    conditions=st.lists(CONDITIONS, max_size=4),
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 1]),
)
def test_the_look_at_the_bytes_sees_what_the_decoded_payload_has(
    data: Any, conditions: list[Condition], ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(data, ensure_ascii=ascii_only, indent=indent).encode()
    unmet = [condition for condition in conditions if not expected(condition, data)]
    found = EventFilter(conditions).unmet(event(data_json=text))
    assert found == (unmet[0] if unmet else None)
