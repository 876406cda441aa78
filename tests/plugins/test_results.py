"""What the hooks of a delivery return or set, against everything that JSON or HTTP cannot express."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from hookgw import Attempt, Delivery, Event, Outcome, Outgoing, Registration, hookimpl
from tests.public.kernel import PluginFailed
from tests.public.plugins import MAX_HOOK_BODY as MAX_BODY
from tests.public.plugins import Hooks

HooksOf = Callable[..., Hooks]


class Liar(str):
    """A text that claims to equal any other, and shows itself with a line break."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__

    def __str__(self) -> str:
        return "a\r\nx-injected: 1"

    def __format__(self, spec: str) -> str:
        return str(self)


class Explosive:
    """Raises at every look."""

    def __eq__(self, other: object) -> bool:
        raise SystemExit(1)

    __ne__ = __eq__
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise SystemExit(2)

    def __repr__(self) -> str:
        raise SystemExit(3)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise SystemExit(4)


def plugin(**functions: Any) -> SimpleNamespace:
    return SimpleNamespace(**{f"hookgw_{name}": hookimpl(function) for name, function in functions.items()})


@pytest.fixture
def outgoing() -> Outgoing:
    return Outgoing(url="https://app.example/hook", body=b"{}", headers={"x-first": "1"}, attempt=1)


@pytest.mark.parametrize("make", [Explosive, int, str, bytes, list, object])
async def test_a_filter_returns_a_bool(
    hooks_of: HooksOf, event: Event, registration: Registration, make: Any
) -> None:
    with pytest.raises(PluginFailed, match="'mine' failed in hookgw_filter"):
        await hooks_of(mine=plugin(filter=lambda: make())).filter(event, registration)


@pytest.mark.parametrize(
    "change",
    [
        {"data_json": None},
        {"data_json": '{"text":"a str"}'},
        {"data_json": bytearray(b"{}")},
        {"data_json": b""},
        {"data_json": b'{"text":'},
        {"data_json": b'{} {"more":1}'},
        {"data_json": b'{"number":NaN}'},
        {"data_json": b'"\xff"'},
        {"data_json": b"[" * 1_000_000},
        {"sender": object()},
        {"sender": 5},
        {"sender": "\ud800"},
        {"sender": "me\0"},
        {"server_url": b"https://gateway.example"},
        {"time": None},
        {"time": "now"},
        {"time": float("nan")},
        {"time": float("inf")},
        {"time": 1e300},
        {"time": -1.0},
        {"time": True},
        {"kind": None},
        {"kind": Explosive()},
        {"id": Explosive()},
        {"instance": None},
    ],
    ids=lambda change: f"{next(iter(change))}-{type(next(iter(change.values()))).__name__}",
)
async def test_a_transformed_event_can_be_sent(
    hooks_of: HooksOf, event: Event, registration: Registration, change: dict[str, Any]
) -> None:
    mine = plugin(transform=lambda event: msgspec.structs.replace(event, **change))
    with pytest.raises(PluginFailed, match="'mine' failed in hookgw_transform"):
        await hooks_of(mine=mine).transform(event, registration)


async def test_a_transformed_event_is_a_plain_record(
    hooks_of: HooksOf, event: Event, registration: Registration
) -> None:
    class Own(Event, frozen=True, kw_only=True, dict=True):
        @property
        def date_time(self) -> str:
            raise SystemExit(1)

    def transform(event: Event) -> Event:
        fields: dict[str, Any] = {**msgspec.structs.asdict(event), "sender": Liar("me"), "kind": Liar("KIND")}
        return Own(**fields)

    result = await hooks_of(mine=plugin(transform=transform)).transform(event, registration)
    assert type(result) is Event
    assert [type(text) for text in (result.sender, result.kind)] == [str, str]
    assert (str(result.sender), str(result.kind), result.id) == ("me", "KIND", event.id)


async def test_the_decoded_payload_that_a_transform_changed_in_place_is_not_sent_on(
    hooks_of: HooksOf, event: Event, registration: Registration
) -> None:
    def change_in_place(event: Event) -> Event:
        event.data["text"] = "changed"
        return msgspec.structs.replace(event, sender="me")

    result = await hooks_of(mine=plugin(transform=change_in_place)).transform(event, registration)
    assert result.data == {"text": "hello"}


@pytest.mark.parametrize("make", [Explosive, str, bytearray, int, dict])
async def test_a_body_is_bytes(
    hooks_of: HooksOf, event: Event, registration: Registration, make: Any
) -> None:
    with pytest.raises(PluginFailed, match="'mine' failed in hookgw_encode"):
        await hooks_of(mine=plugin(encode=lambda: make())).encode(event, registration)


async def test_a_subclass_of_bytes_becomes_bytes(
    hooks_of: HooksOf, event: Event, registration: Registration
) -> None:
    class Own(bytes):
        def __bytes__(self) -> bytes:
            raise SystemExit(1)

        def __len__(self) -> int:
            return 0

    body = await hooks_of(mine=plugin(encode=lambda: Own(b"body"))).encode(event, registration)
    assert type(body) is bytes
    assert body == b"body"


class Short(bytes):
    def __len__(self) -> int:
        return 0


@pytest.mark.parametrize("make", [bytes, Short])
async def test_a_body_has_a_largest_size(
    hooks_of: HooksOf, event: Event, registration: Registration, make: type[bytes]
) -> None:
    """A store refuses a body of a gigabyte, which would end hookgw."""
    size: int = MAX_BODY
    hooks = hooks_of(mine=plugin(encode=lambda: make(size)))
    assert await hooks.encode(event, registration) == bytes(MAX_BODY)
    size += 1
    with pytest.raises(PluginFailed, match="'mine' failed in hookgw_encode") as failed:
        await hooks.encode(event, registration)
    assert "a body of 67,108,865 bytes; the limit is 64MiB" in str(failed.value)


async def test_a_transformed_event_has_a_largest_size(
    hooks_of: HooksOf, event: Event, registration: Registration
) -> None:
    size = MAX_BODY - 2
    mine = plugin(
        transform=lambda event: msgspec.structs.replace(event, data_json=b'"%b"' % (b"x" * size), sender=None)
    )
    hooks = hooks_of(mine=mine)
    assert len((await hooks.transform(event, registration)).data_json) == MAX_BODY
    size += 1
    with pytest.raises(PluginFailed, match="'mine' failed in hookgw_transform") as failed:
        await hooks.transform(event, registration)
    assert "data_json has 67,108,865 bytes; the limit is 64MiB" in str(failed.value)


def set_headers(headers: object) -> Any:
    return lambda request: setattr(request, "headers", headers)


def update_headers(headers: dict[Any, Any]) -> Any:
    return lambda request: request.headers.update(headers)


class ExplosiveDict(dict[str, str]):
    def items(self) -> Any:
        raise SystemExit(1)

    __iter__ = items
    keys = items
    __eq__ = items  # type: ignore[assignment]


@pytest.mark.parametrize(
    "prepare",
    [
        set_headers(None),
        set_headers([("x-a", "1")]),
        set_headers("x-a: 1"),
        set_headers(Explosive()),
        lambda request: delattr(request, "headers"),
        lambda request: delattr(request, "body"),
        update_headers({"x-first": None}),
        update_headers({"x-first": Explosive()}),
        update_headers({"x-first": Liar("a\r\nx-injected: 1")}),
        update_headers({None: "1"}),
        lambda request: setattr(request, "body", Explosive()),
        lambda request: setattr(request, "url", Liar("https://other.example")),
    ],
)
async def test_a_prepared_request_can_be_sent(
    hooks_of: HooksOf, event: Event, registration: Registration, outgoing: Outgoing, prepare: Any
) -> None:
    with pytest.raises(PluginFailed, match="'mine' failed in hookgw_prepare"):
        await hooks_of(mine=plugin(prepare=prepare)).prepare(outgoing, event, registration)


async def test_prepared_headers_are_plain(
    hooks_of: HooksOf, event: Event, registration: Registration, outgoing: Outgoing
) -> None:
    def prepare(request: Outgoing) -> None:
        request.headers = ExplosiveDict({"x-first": Liar("1"), Liar("x-own"): "2"})
        request.attempt = Explosive()  # type: ignore[assignment]

    await hooks_of(mine=plugin(prepare=prepare)).prepare(outgoing, event, registration)
    assert type(outgoing.headers) is dict
    assert outgoing.headers == {"x-first": "1", "x-own": "2"}
    assert {type(text) for item in outgoing.headers.items() for text in item} == {str}
    assert outgoing.attempt == 1


async def test_an_observer_changes_nothing(hooks_of: HooksOf) -> None:
    event = Event(id="msg_1", kind="K", instance="shop", data_json=b'{"text":"hello"}', time=1.0)
    registration = Registration(id="reg_1", instance="shop", url="u", plugins={"mine": {"a": [1]}})
    delivery = Delivery(
        seq=7, event=event, registration="reg_1", lane="reg_1:0", accepted_at=1.0, position=7, queued_at=1.0
    )
    attempt = Attempt(number=1, at=1.0, duration=0.1, outcome=Outcome.FAILED)
    seen: list[Any] = []

    def spoil(attempt: Attempt, delivery: Any, registration: Registration) -> None:
        delivery.seq = delivery.lane = delivery.next_at = None
        delivery.event.data["text"] = "spoiled"
        registration.headers["x-spoiled"] = "1"
        registration.plugins["mine"]["a"].append(2)

    def observe(delivery: Delivery, registration: Registration) -> None:
        seen.append((delivery.seq, delivery.event.data, registration.headers, registration.plugins))

    hooks = hooks_of(first=plugin(attempt=spoil), second=plugin(attempt=observe))
    await hooks.notify("hookgw_attempt", attempt=attempt, delivery=delivery, registration=registration)
    assert (delivery.seq, delivery.lane, delivery.next_at) == (7, "reg_1:0", 0.0)
    assert event.data == {"text": "hello"}
    assert (registration.headers, registration.plugins) == ({}, {"mine": {"a": [1]}})
    assert seen == [(7, {"text": "hello"}, {}, {"mine": {"a": [1]}})]


async def test_an_observer_of_events_changes_nothing(hooks_of: HooksOf, event: Event) -> None:
    mine = plugin(event_accepted=lambda event: event.data.clear())
    assert event.data == {"text": "hello"}
    await hooks_of(mine=mine).notify("hookgw_event_accepted", event=event)
    assert event.data == {"text": "hello"}
