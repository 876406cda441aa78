"""What networks post to an instance's ``ingestUrl``, once their proof was right."""

from contextlib import suppress
from itertools import product

import trio

from hookgw import ConnectionState, Event, IngestRequest, Invalid, Recent
from hookgw.connectors import mapping, read_object
from hookgw.testing import FakeSession
from plugins.evolution.connection import Connection
from plugins.evolution.connector import Evolution
from plugins.evolution.receiving import Receiver
from plugins.evolution.state import State
from plugins.evolution.webhook import PROOF
from plugins.gateway_kinds import KINDS
from plugins.gowa import events as gowa_events
from plugins.gowa.qr_picture import read_qr_code
from plugins.telegram import events as telegram_events
from plugins.waha import content as waha_content
from plugins.waha import events as waha_events
from plugins.webhook.body import event_of, read_body
from plugins.webhook.form import fields_of, json_of
from plugins.webhook.options import read_options
from plugins.whatsapp_cloud.events import Knowledge, translate
from plugins.whatsapp_cloud.webhooks import read_changes
from tests.fuzz.sentences import check_sentences
from tests.public.kernel import decode_json_of_json_decoding as decode_json
from tests.public.kernel import finish
from tests.public.records import BUILT_IN_KINDS, EVENT_ID, Catalog, SchemaBook

CATALOG = Catalog(BUILT_IN_KINDS)
ALL_KINDS = Catalog([*BUILT_IN_KINDS, *KINDS])
SCHEMAS = SchemaBook(ALL_KINDS)
_KNOWN = Knowledge(
    media_url=lambda reference, *, mimetype="", file_name="": reference,
    is_received=lambda _: False,
    has_kind=lambda _: True,
)
_HEADER = {"header": "x-token", "value": "v"}
_WEBHOOKS = (
    read_options({"kind": "CALL", "id": "/id", "time": "/time", **_HEADER}),
    read_options({"kind": "/event", "id": "/0/a~1b", **_HEADER}),
    read_options({"kind": "/event", "otherwise": "NETWORK_EVENT", "scheme": "stripe", "secret": "s"}),
)


def webhook(data: bytes) -> None:
    """A body, or the form in it, becomes an event that can be stored as it is, or a sentence."""
    request = IngestRequest(method="POST", query={}, headers={"webhook-id": "w1"}, body=data)
    for options, is_form in product(_WEBHOOKS, (False, True)):
        try:
            text = json_of(finish(fields_of(request)), "payload") if is_form else data
            event = event_of(request, *read_body(text), options, CATALOG)
        except Invalid as error:
            check_sentences(*error.messages)
            continue
        assert event.kind in CATALOG
        assert event.event_id is not None
        assert EVENT_ID.fullmatch(event.event_id)
        assert event.time is None or 0 <= event.time < 253402300800
        assert event.data_json is not None
        decode_json(event.data_json)


def whatsapp_cloud(data: bytes) -> None:
    """A notification of Meta becomes valid events, or a sentence."""
    try:
        changes = list(read_changes(trio.run(read_object, FakeSession(), data), data))
    except Invalid as error:
        check_sentences(*error.messages)
        return
    for change in changes:
        for one in translate(change, _KNOWN):
            event = one.event
            assert EVENT_ID.fullmatch(event.event_id or "")
            data_json = Event.encode(event.data) if event.data_json is None else event.data_json
            stored = Event(id="e", kind=event.kind, instance="shop", data_json=data_json, time=0.0)
            assert SCHEMAS.problem(stored) is None


def telegram(data: bytes) -> None:
    """An update of Telegram becomes valid events, or none, or the body is no JSON."""
    try:
        update = mapping(decode_json(data))
    except ValueError:
        return
    bot = telegram_events.Bot(id="7", media_url=_link, has_done=lambda *what: what[1] == what[2], now=1.0)
    found = telegram_events.translate(update, bot)
    for event in telegram_events.unknown(update, bot, data) if found is None else found:
        assert EVENT_ID.fullmatch(event.event_id or "")
        data_json = Event.encode(event.data) if event.data_json is None else event.data_json
        stored = Event(id="e", kind=event.kind, instance="shop", data_json=data_json, time=0.0)
        assert SCHEMAS.problem(stored) is None


def waha(data: bytes) -> None:
    """A report of WAHA becomes a valid event, or none, or the body is refused with a sentence."""
    try:
        envelope = trio.run(read_object, FakeSession(), data)
    except Invalid as error:
        check_sentences(*error.messages)
        return
    account = waha_events.Account(jid="", media_url=_link, report="r", sent=Recent(9), done=Recent(9))
    event = waha_events.translate(envelope, account, data)
    if event is None:
        return
    assert event.event_id is not None
    assert EVENT_ID.fullmatch(event.event_id)
    data_json = Event.encode(event.data) if event.data_json is None else event.data_json
    stored = Event(id="e", kind=event.kind, instance="a", data_json=data_json, time=0.0)
    assert SCHEMAS.problem(stored) is None
    if isinstance(event.data, dict):
        reference = waha_content.file_of(mapping(envelope.get("payload")))
        assert not reference or ".." not in (waha_content.path_of(reference) or [".."])


def gowa(data: bytes) -> None:
    """A report of GOWA becomes valid events, or none, or the body is no JSON object."""
    try:
        envelope = trio.run(read_object, FakeSession(), data)
    except Invalid as error:
        check_sentences(*error.messages)
        return
    for event in gowa_events.translate(envelope, gowa_events.Account(media_url=_link, report="r"), data):
        assert EVENT_ID.fullmatch(event.event_id or "")
        data_json = Event.encode(event.data) if event.data_json is None else event.data_json
        stored = Event(id="e", kind=event.kind, instance="a", data_json=data_json, time=0.0)
        assert SCHEMAS.problem(stored) is None


def qr_picture(data: bytes) -> None:
    """A picture has a code, or is refused."""
    with suppress(ValueError):
        read_qr_code(b"\x89PNG\r\n\x1a\n" + data)


def _link(reference: str, *, mimetype: str = "", file_name: str = "") -> str:
    return f"{reference}{mimetype}{file_name}"


def evolution(data: bytes) -> None:
    """A webhook of Evolution API is answered in such a way that it is not dropped, unless it is no JSON."""

    async def post() -> None:
        connector, session = Evolution(), FakeSession(catalog=ALL_KINDS)
        connection = Connection(session, State(secret="s"))
        await connection.report(ConnectionState.OPEN)
        request = IngestRequest(method="POST", query={}, headers={PROOF: "s"}, body=data, path="call")
        with connector.connections.joined(session, Receiver(connection)):
            for _ in range(2):
                answer = await connector.ingest(session, request)
                assert answer.status in (200, 408)
        ids = [event.event_id for event in session.events if event.event_id]
        assert len(ids) == len(set(ids))

    trio.run(post)
