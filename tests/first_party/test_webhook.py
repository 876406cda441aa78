"""The generic way in: proofs, JSON pointers, ids, times, and bodies that are anything."""

import base64
import json
import time
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from hookgw import (
    ConnectionState,
    EventLeftOut,
    IngestRequest,
    Invalid,
    NotSupported,
    ProofRefused,
    TextMessage,
    Unavailable,
)
from hookgw.testing import FakeSession
from tests.public.config import PluginsSettings
from tests.public.delivery import sign
from tests.public.kernel import Signature, make_secret, public_key_of, signing_key
from tests.public.plugins import ContainedConnector, Hooks, LoadedPlugins, load_plugins
from tests.public.records import BUILT_IN_KINDS, Catalog
from tests.support.simulated import connected

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER_SECRET = "whsec_" + base64.b64encode(b"x" * 32).decode()
SIGNED = {"kind": "/event", "secret": SECRET}
BY_HEADER = {"kind": "/event", "header": "X-Token", "value": "t0ken"}
NewSession = Callable[..., FakeSession]
BODY = {"event": "messages.upsert", "n": 1}


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Hooks:
    """All plugins, loaded once: that takes longer than any test here."""
    hooks = Hooks(load_plugins(PluginsSettings(), base=tmp_path_factory.mktemp("plugins")))
    hooks.configure({})
    return hooks


@pytest.fixture(scope="module")
def catalog(hooks: Hooks) -> Catalog:
    return Catalog([*BUILT_IN_KINDS, *hooks.kinds()])


@pytest.fixture
def webhook(hooks: Hooks) -> ContainedConnector:
    return hooks.connectors()["webhook"]


@pytest.fixture
def new_session(catalog: Catalog) -> NewSession:
    def make(**options: Any) -> FakeSession:
        return FakeSession(options=options, catalog=catalog)

    return make


def signed(
    body: Any, *, secret: str = SECRET, message_id: str = "evt_1", age: float = 0, **headers: str
) -> IngestRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    timestamp = int(time.time() - age)
    given = {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign([signing_key(secret)], message_id, timestamp, raw),
    }
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    return IngestRequest(method="POST", query={}, headers=given, body=raw)


def with_token(body: Any, **headers: str) -> IngestRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"x-token": "t0ken", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return IngestRequest(method="POST", query={}, headers=given, body=raw)


# Events


async def test_a_body_is_an_event(webhook: ContainedConnector, new_session: NewSession) -> None:
    session = new_session(**BY_HEADER, id="/meta/id", time="/meta/at")
    body = {"event": "messages.upsert", "meta": {"id": "A-1", "at": "2026-11-20T12:00:00+02:00"}}
    answer = await webhook.ingest(session, with_token(body))
    assert (answer.status, answer.body) == (200, b"")
    [event] = session.events
    assert (event.kind, event.data, event.time) == ("MESSAGES_UPSERT", body, 1795168800.0)
    assert event.event_id is not None
    assert event.event_id.startswith("A-1-MESSAGES-UPSERT-")


async def test_the_body_is_kept_byte_for_byte(webhook: ContainedConnector, new_session: NewSession) -> None:
    session = new_session(**BY_HEADER)
    text = '{"z": 18446744073709551616, "event":"CALL" , "a": 0.10, "e": 1E2, "ü": "\\u00fc\\u0000"}'.encode()
    await webhook.ingest(session, with_token(b" \r\n" + text + b"\n"))
    [event] = session.events
    assert event.data_json == text


@pytest.mark.parametrize("body", [[{"event": "CALL"}, 2], "text", 5, True, None, [], {}])
async def test_a_body_may_be_any_json(
    webhook: ContainedConnector, new_session: NewSession, body: Any
) -> None:
    session = new_session(kind="CALL", header="x-token", value="t0ken", id="/0/event", time="/at")
    await webhook.ingest(session, with_token(body))
    [event] = session.events
    assert (event.kind, event.data, event.time) == ("CALL", body, None)


@pytest.mark.parametrize(
    ("pointer", "body"),
    [
        ("/a~1b/m~0n", {"a/b": {"m~n": "CALL"}}),
        ("/~01", {"~1": "CALL"}),
        ("/1/kind", [0, {"kind": "CALL"}]),
        ("/eventType", {"eventtype": "QRCODE_UPDATED", "eventType": "CALL"}),
        ("//", {"": {"": "CALL"}}),
        ("/0", {"0": "CALL"}),
        ("/ /é", {" ": {"é": "CALL"}}),
    ],
)
async def test_pointers_follow_rfc_6901(
    webhook: ContainedConnector, new_session: NewSession, pointer: str, body: Any
) -> None:
    session = new_session(**{**BY_HEADER, "kind": pointer})
    await webhook.ingest(session, with_token(body))
    assert [event.kind for event in session.events] == ["CALL"]


@pytest.mark.parametrize(
    ("pointer", "body"),
    [
        ("/event", {}),
        ("/event", "event"),
        ("/event/0", {"event": "CALL"}),
        ("/01", ["CALL", "CALL"]),
        ("/-1", ["CALL"]),
        ("/-", ["CALL"]),
        ("/+0", ["CALL"]),
        ("/٠", ["CALL"]),
        ("/9999999999", ["CALL"]),
    ],
)
async def test_a_body_without_a_kind_is_refused(
    webhook: ContainedConnector, new_session: NewSession, pointer: str, body: Any
) -> None:
    session = new_session(**{**BY_HEADER, "kind": pointer})
    with pytest.raises(Invalid, match="The body has no kind at "):
        await webhook.ingest(session, with_token(body))


@pytest.mark.parametrize("spelling", ["messages.upsert", "messages-upsert", "Messages.Upsert"])
async def test_kinds_may_have_any_spelling(
    webhook: ContainedConnector, new_session: NewSession, spelling: str
) -> None:
    session = new_session(**BY_HEADER)
    await webhook.ingest(session, with_token({"event": spelling}))
    assert [event.kind for event in session.events] == ["MESSAGES_UPSERT"]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (
            "order.paid",
            "The kind of the event, at /event of the body: 'order.paid' is not a known ",
        ),
        ("messages.upser", "Did you mean MESSAGES_UPSERT?"),
        ("", "'' is not a known event kind"),
        (7, "must be the name of an event kind, a string"),
        (None, "must be the name of an event kind, a string"),
        (["CALL"], "must be the name of an event kind, a string"),
        ("x" * 100_000, "'" + "x" * 64 + "…' is not a known event kind"),
    ],
)
async def test_an_unknown_kind_is_refused_by_its_name(
    webhook: ContainedConnector, new_session: NewSession, kind: Any, said: str
) -> None:
    session = new_session(**BY_HEADER)
    with pytest.raises(Invalid) as caught:
        await webhook.ingest(session, with_token({"event": kind}))
    assert said in str(caught.value)
    assert session.events == []


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b'{"event": "CALL"} {}',
        b"payload=%7B%7D",
        b'{"event": "CALL", "n": 1e999}',
        b'{"event": "CALL", "t": "\xff"}',
        b"\xff\xfe{\x00}\x00",
    ],
)
async def test_a_body_that_is_not_json_is_refused(
    webhook: ContainedConnector, new_session: NewSession, raw: bytes
) -> None:
    session = new_session(**BY_HEADER)
    with pytest.raises(Invalid, match="The body "):
        await webhook.ingest(session, with_token(raw))
    assert session.events == []


@pytest.mark.parametrize(
    ("raw", "data"),
    [
        (b'{"event": "CALL", "t": "hi \\ud83d"}', {"event": "CALL", "t": "hi \ufffd"}),
        (b'{"event": "CALL", "n": NaN}', {"event": "CALL", "n": None}),
    ],
)
async def test_one_odd_value_does_not_cost_the_event(
    webhook: ContainedConnector, new_session: NewSession, raw: bytes, data: dict[str, Any]
) -> None:
    session = new_session(**BY_HEADER)
    await webhook.ingest(session, with_token(raw))
    assert [event.data for event in session.events] == [data]


@pytest.mark.parametrize("raw", [b"[" * 100_000 + b"]" * 100_000, b"[" + b"[]," * 20_000 + b"1]"])
async def test_a_body_with_too_many_values_is_left_out(
    webhook: ContainedConnector, new_session: NewSession, raw: bytes
) -> None:
    session = new_session(**BY_HEADER)
    with pytest.raises(EventLeftOut):
        await webhook.ingest(session, with_token(raw))
    assert session.left_out == [raw]
    assert session.events == []


async def test_a_byte_order_mark_before_a_body_is_nothing(
    webhook: ContainedConnector, new_session: NewSession
) -> None:
    session = new_session(**BY_HEADER)
    await webhook.ingest(session, with_token(b'\xef\xbb\xbf{"event": "CALL"}'))
    assert [event.kind for event in session.events] == ["CALL"]


async def test_a_body_that_is_too_long_for_an_event_is_not_decoded(
    webhook: ContainedConnector, new_session: NewSession
) -> None:
    session = new_session(**BY_HEADER)
    session.max_data = 100
    with pytest.raises(Invalid, match=r"^The body has 101 bytes; the limit is 100B\.$"):
        await webhook.ingest(session, with_token(b"[" * 101))
    with pytest.raises(Invalid, match="not JSON"):
        await webhook.ingest(session, with_token(b"[" * 100))


# Ids


async def test_a_repeated_id_is_one_event(webhook: ContainedConnector, new_session: NewSession) -> None:
    session = new_session(**BY_HEADER, id="/id")
    for number in range(3):
        await webhook.ingest(session, with_token({**BODY, "id": 2**70, "attempt": number}))
    await webhook.ingest(session, with_token({**BODY, "id": 2**70 + 1}))
    # Another happening: an order is created, and then paid, with the same number.
    await webhook.ingest(session, with_token({"event": "CALL", "id": 2**70}))
    assert [event.data.get("attempt") for event in session.events] == [0, None, None]
    assert len(session.repeated) == 2


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("msg_p5jXN8AQM9LWM0D4loKWxJek", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        # Other characters, and the form of hookgw's own ids, which it forgets sooner.
        ("wamid.HBgL==", "wamid-HBgL-z3xg"),
        ("msg_" + "0" * 32, "msg-" + "0" * 28 + "-"),
    ],
)
async def test_the_header_webhook_id_is_the_id(
    webhook: ContainedConnector, new_session: NewSession, given: str, kept: str
) -> None:
    session = new_session(**SIGNED)
    for _ in range(2):
        await webhook.ingest(session, signed(BODY, message_id=given))
    [event] = session.events
    assert str(event.event_id).startswith(kept[:11])
    assert (event.event_id == kept) == (given == kept)
    assert len(session.repeated) == 1


async def test_an_id_in_the_body_comes_before_headers(
    webhook: ContainedConnector, new_session: NewSession
) -> None:
    session = new_session(**BY_HEADER, id="/id")
    for number in range(2):
        await webhook.ingest(session, with_token({**BODY, "id": "A"}, webhook_id=f"w{number}"))
    assert len(session.events) == 1
    for body in ({**BODY}, {**BODY, "id": None}, {**BODY, "id": ""}):
        if body.get("id") != "":
            await webhook.ingest(session, with_token(body, webhook_id="w9"))
    assert [event.event_id for event in session.events][1:] == ["w9"]
    await webhook.ingest(session, with_token(BODY, idempotency_key="k1"))
    assert session.events[-1].event_id == "k1"


async def test_without_any_id_each_post_is_a_new_event(
    webhook: ContainedConnector, new_session: NewSession
) -> None:
    session = new_session(**BY_HEADER)
    for _ in range(2):
        await webhook.ingest(session, with_token(BODY))
    assert [event.event_id for event in session.events] == [None, None]


@pytest.mark.parametrize("found", ["", 1.5, True, {}, ["A"]])
async def test_what_cannot_be_an_id_is_refused(
    webhook: ContainedConnector, new_session: NewSession, found: Any
) -> None:
    session = new_session(**BY_HEADER, id="/id")
    with pytest.raises(Invalid, match="The id of the event, at /id of the body, must be a text or an "):
        await webhook.ingest(session, with_token({**BODY, "id": found}))


# Times


@pytest.mark.parametrize(
    ("found", "seconds"),
    [
        ("2026-11-20T10:00:00Z", 1795168800.0),
        ("2026-11-20t12:00:00.250+02:00", 1795168800.25),
        (1795168800, 1795168800.0),
        (1795168800.5, 1795168800.5),
        (1795168800123, 1795168800.123),
        ("1795168800", 1795168800.0),
        ("1795168800.5", 1795168800.5),
        ("1795168800123", 1795168800.123),
        (0, 0.0),
        ("9999-12-31T23:59:59Z", 253402300799.0),
        (None, None),
    ],
)
async def test_times(
    webhook: ContainedConnector, new_session: NewSession, found: Any, seconds: float | None
) -> None:
    session = new_session(**BY_HEADER, time="/at")
    await webhook.ingest(session, with_token({**BODY, "at": found}))
    assert [event.time for event in session.events] == [seconds]


@pytest.mark.parametrize(
    "found",
    [
        *("yesterday", "", "2026-11-20", "2026-02-30T00:00:00Z", "1e9", "-5", "0001-01-01T00:00:00Z", "９"),
        *(-1, True, {}, [1], 1e300, 10**400, 1795168800123456),
    ],
)
async def test_what_cannot_be_a_time_is_refused(
    webhook: ContainedConnector, new_session: NewSession, found: Any
) -> None:
    session = new_session(**BY_HEADER, time="/at")
    with pytest.raises(Invalid, match="The time of the event, at /at of the body, must be RFC 3339"):
        await webhook.ingest(session, with_token({**BODY, "at": found}))


# Proofs


async def test_one_of_several_signatures_is_enough(
    webhook: ContainedConnector, new_session: NewSession
) -> None:
    session = new_session(**SIGNED)
    request = signed(BODY)
    other = "v1," + base64.b64encode(bytes(32)).decode()
    for signature in (
        f"{other} {request.headers['webhook-signature']}",
        f"v1a,xyz v2,abc {request.headers['webhook-signature']} {other}",
    ):
        headers = {**request.headers, "webhook-signature": signature}
        await webhook.ingest(
            session, IngestRequest(method="POST", query={}, headers=headers, body=request.body)
        )
    assert len(session.events) == 1


async def test_a_public_key_verifies_as_well(webhook: ContainedConnector, new_session: NewSession) -> None:
    private = make_secret(Signature.V1A)
    session = new_session(kind="/event", secret=public_key_of(private))
    await webhook.ingest(session, signed(BODY, secret=private))
    with pytest.raises(ProofRefused):
        await webhook.ingest(session, signed(BODY, secret=make_secret(Signature.V1A)))
    assert len(session.events) == 1


@pytest.mark.parametrize("age", [-295, 295])
async def test_a_clock_may_be_five_minutes_off(
    webhook: ContainedConnector, new_session: NewSession, age: float
) -> None:
    session = new_session(**SIGNED)
    await webhook.ingest(session, signed(BODY, age=age))
    assert len(session.events) == 1


@pytest.mark.parametrize(
    ("request_of", "said"),
    [
        (partial(signed, BODY, age=310), "s in the past"),
        (partial(signed, BODY, age=-310), "s in the future"),
        (
            partial(signed, BODY, secret=OTHER_SECRET),
            "no signature of this body",
        ),
        (partial(signed, BODY, webhook_id="evt_2"), "no signature of this body"),
        (partial(signed, BODY, webhook_id=""), "webhook-id is missing"),
        (partial(signed, BODY, webhook_signature=""), "webhook-signature is missing"),
        (partial(signed, BODY, webhook_signature="v1,é"), "no signature of this body"),
        (partial(signed, BODY, webhook_timestamp="1e9"), "not a whole number"),
        (partial(signed, BODY, webhook_timestamp="٣"), "not a whole number"),
        (partial(signed, BODY, webhook_timestamp="9" * 5000), "not a whole number"),
        (partial(with_token, BODY), "webhook-id is missing"),
        # Not read: the proof comes first.
        (partial(with_token, b"not json"), "webhook-id is missing"),
    ],
)
async def test_a_wrong_signature_is_refused(
    webhook: ContainedConnector, new_session: NewSession, request_of: Callable[[], IngestRequest], said: str
) -> None:
    session = new_session(**SIGNED)
    with pytest.raises(ProofRefused, match=said):
        await webhook.ingest(session, request_of())
    assert session.events == []


@pytest.mark.parametrize("given", [None, "", "t0ke", "t0ken ", "T0KEN", "t0kené", "\udc80"])
async def test_a_wrong_header_is_refused(
    webhook: ContainedConnector, new_session: NewSession, given: str | None
) -> None:
    session = new_session(**BY_HEADER)
    headers = {} if given is None else {"x-token": given}
    with pytest.raises(ProofRefused, match="The header x-token is missing or wrong"):
        await webhook.ingest(session, IngestRequest(method="POST", query={}, headers=headers, body=b"{}"))
    assert session.events == []


async def test_with_both_proofs_both_are_needed(webhook: ContainedConnector, new_session: NewSession) -> None:
    session = new_session(**BY_HEADER, secret=SECRET)
    for refused in (signed(BODY), with_token(BODY), signed(BODY, x_token="other")):
        with pytest.raises(ProofRefused):
            await webhook.ingest(session, refused)
    await webhook.ingest(session, signed(BODY, x_token="t0ken"))
    assert len(session.events) == 1


async def test_a_get_gets_a_sentence(webhook: ContainedConnector, new_session: NewSession) -> None:
    request = IngestRequest(method="GET", query={"challenge": "x"}, headers={}, body=b"")
    answer = await webhook.ingest(new_session(**SIGNED), request)
    assert (answer.status, answer.body) == (200, b"Send each event to this URL as a POST with a JSON body.\n")


# Options


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"kind": "/event"},
            "The sender must prove itself: set secret, if it signs by Standard Webhooks, or ",
        ),
        ({"kind": "/event", "header": "x-token"}, "value is missing: header and value belong together."),
        ({"kind": "/event", "value": "t0ken"}, "header is missing: header and value belong together."),
        ({"kind": "/event", "secret": "planted-secret"}, "secret must be whsec_ and the secret in base64"),
        ({"kind": "/event", "secret": "whsec_%%%"}, "secret must be whsec_"),
        ({"kind": "/a~2", "secret": SECRET}, "kind must be a JSON pointer"),
        ({"kind": "/event", "id": "id", "secret": SECRET}, "id must be a JSON pointer"),
        ({"kind": "/event", "time": 5, "secret": SECRET}, "time must be a text"),
        ({"secret": SECRET}, "kind is missing: a JSON pointer"),
    ],
)
async def test_wrong_options_are_refused_with_a_sentence(
    webhook: ContainedConnector, new_session: NewSession, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await webhook.check_options(options, public_url=None)
    [sentence] = caught.value.messages
    assert sentence.startswith(said)
    assert "planted" not in sentence
    # An instance may have them all the same, from before.
    session = new_session(**options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(webhook.run, session)
        await session.wait_until(ConnectionState.CLOSE)
        assert session.states == [(ConnectionState.CLOSE, 400, {"message": sentence})]
        with pytest.raises(Unavailable):  # the sender repeats it, and the options may be right by then
            await webhook.ingest(session, signed(BODY))
        nursery.cancel_scope.cancel()


async def test_a_kind_of_all_events_must_exist(
    new_session: NewSession,
    loaded: LoadedPlugins,
    module_of: Callable[[str], ModuleType],
    catalog: Catalog,
    autojump_clock: MockClock,
) -> None:
    webhook = Hooks(loaded).connectors()["webhook"]
    options = {"kind": "messages.upser", "secret": SECRET}
    await webhook.check_options(options, public_url=None)  # the gateway does not run yet
    session = new_session(**options)
    with trio.move_on_after(1):
        await webhook.run(session)
    said = "kind: 'messages.upser' is not a known event kind. Did you mean MESSAGES_UPSERT? A JSON pointer "
    said += "begins with /."
    assert session.states[-1][2] == {"message": said}

    class Gateway:
        pass

    gateway: Any = Gateway()
    gateway.catalog = catalog
    await module_of("webhook").hookgw_run(gateway)
    with pytest.raises(Invalid, match="Did you mean MESSAGES_UPSERT"):
        await webhook.check_options(options, public_url=None)
    await webhook.check_options({**options, "kind": "messages.upsert"}, public_url=None)


async def test_it_is_open_at_once_and_sends_nothing(
    webhook: ContainedConnector, new_session: NewSession
) -> None:
    session = new_session(**SIGNED)
    async with connected(webhook, session):
        assert [state for state, _, _ in session.states] == [ConnectionState.OPEN]
        with pytest.raises(NotSupported):
            await webhook.send(session, TextMessage(number="1", text="hi"), key="k")


# Event kinds of the configuration


def test_the_configuration_adds_kinds(loaded: LoadedPlugins) -> None:
    hooks = Hooks(loaded)
    hooks.configure({"webhook": {"kinds": {"ORDER_PAID": "An order was paid."}}})
    [kind] = [kind for kind in hooks.kinds() if kind.plugin == "webhook"]
    assert (kind.name, kind.dotted_name, kind.schema) == ("ORDER_PAID", "order.paid", {})
    hooks.configure({"webhook": {"kinds": None}})


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"kind": {}}, "kind is unknown: the only option is kinds"),
        ({"kinds": ["ORDER_PAID"]}, "kinds must map names to sentences"),
        ({"kinds": {"ORDER_PAID": ""}}, "kinds.ORDER_PAID must be a sentence"),
        ({"kinds": {"ORDER_PAID": 5}}, "kinds.ORDER_PAID must be a sentence"),
    ],
)
def test_a_wrong_block_is_refused(module_of: Callable[[str], ModuleType], block: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        module_of("webhook").hookgw_configure(block)
