import pytest
import trio
import trio.testing

from hookgw import (
    ConnectionState,
    IngestRequest,
    IngestResponse,
    InstanceSettings,
    MediaKind,
    MediaMessage,
    MediaSink,
    MessageKey,
    NetworkRefused,
    NotFound,
    NotSupported,
    Session,
    TextMessage,
)
from hookgw.testing import ConnectorCall, FakeConnector, FakeMediaSink, FakeSession, SentMessage
from tests.public.plugins import Boundary, ContainedConnector, check_connector

HELLO = TextMessage(number="123", text="hello")
KEY = MessageKey(remote_jid="123@fake", id="A1", from_me=True)


async def test_it_opens_and_has_a_session() -> None:
    connector, session = FakeConnector(), FakeSession()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connector.run, session)
        await session.wait_until(ConnectionState.OPEN)
        await trio.testing.wait_all_tasks_blocked()
        await connector.session("shop").emit("MESSAGES_UPSERT", {"a": 1})
        connector.log_out("shop")
    assert [state for state, _, _ in session.states] == [ConnectionState.CONNECTING, ConnectionState.OPEN]
    assert session.data_of("MESSAGES_UPSERT") == [{"a": 1}]
    assert session.states[1][2]["wuid"] == "shop@fake"
    assert connector.runs == 1
    with pytest.raises(KeyError):
        connector.session("shop")


async def test_a_script_that_raises_fails_the_run() -> None:
    async def broken(session: Session) -> None:
        raise ConnectionError(f"{session.instance} lost")

    connector = FakeConnector(script=broken)
    for _ in range(2):
        with pytest.raises(ConnectionError, match="shop lost"):
            await connector.run(FakeSession())
    assert connector.runs == 2


async def test_it_records_sent_messages() -> None:
    connector, session = FakeConnector("net"), FakeSession()
    message = await connector.send(session, HELLO, key="k")
    assert message["key"] == {"remoteJid": "123@fake", "fromMe": True, "id": "FAKE1"}
    assert message["message"] == {"conversation": "hello"}
    media = MediaMessage(number="123", kind=MediaKind.IMAGE, url="https://files.example/a.png")
    await connector.send(session, media, key="l")
    assert connector.sent == [SentMessage("shop", HELLO, "k"), SentMessage("shop", media, "l")]


@pytest.mark.parametrize(
    "refusal", ["The number is blocked.", NetworkRefused("The number is blocked.", code="B")]
)
async def test_it_refuses_while_refusal_is_set(refusal: str | Exception) -> None:
    connector = FakeConnector()
    connector.refusal = refusal
    with pytest.raises(NetworkRefused, match="The number is blocked"):
        await connector.send(FakeSession(), HELLO, key="k")
    assert connector.sent == []


async def test_it_has_every_optional_method_and_records_the_calls() -> None:
    connector, session, sink = FakeConnector(), FakeSession(), FakeMediaSink()
    connector.files["r"] = (b"content", "image/png")
    contained = ContainedConnector(check_connector(connector), "fake", Boundary())
    request = IngestRequest(method="GET", query={}, headers={}, body=b"")
    settings = InstanceSettings(groups_ignore=True)
    assert await contained.ingest(session, request) == IngestResponse()
    await contained.mark_read(session, [KEY])
    await contained.set_presence(session, "composing", number="123", delay=1.0)
    edited = await contained.edit(session, KEY, "new", number="123")
    deleted = await contained.delete(session, KEY)
    await contained.settings(session, settings)
    await contained.restart(session)
    found = await contained.find_numbers(session, ["1"])
    await contained.open_media(session, "r", sink)
    assert connector.calls == [
        ConnectorCall("shop", "ingest", {"request": request}),
        ConnectorCall("shop", "mark_read", {"keys": [KEY]}),
        ConnectorCall("shop", "set_presence", {"presence": "composing", "number": "123", "delay": 1.0}),
        ConnectorCall("shop", "edit", {"key": KEY, "text": "new", "number": "123"}),
        ConnectorCall("shop", "delete", {"key": KEY}),
        ConnectorCall("shop", "settings", {"settings": settings}),
        ConnectorCall("shop", "restart", {}),
        ConnectorCall("shop", "find_numbers", {"numbers": ["1"]}),
        ConnectorCall("shop", "open_media", {"reference": "r"}),
    ]
    assert edited["message"] == {"conversation": "new"}
    assert deleted == {"remoteJid": "123@fake", "fromMe": True, "id": "A1", "status": "DELETED"}
    assert found == [{"number": "1", "exists": True, "jid": "1@fake"}]
    assert (sink.content, sink.mimetype, sink.size) == (b"content", "image/png", 7)
    assert connector.calls_of("delete") == [{"key": KEY}]


async def test_a_method_can_be_missing_or_fail() -> None:
    connector, session = FakeConnector(without=("edit", "ingest")), FakeSession()
    connector.faults["delete"] = NetworkRefused("Slow down.", code="LIMIT", status=429, retry_after=30)
    connector.faults["send"] = NetworkRefused("Gone.", status=410)
    contained = ContainedConnector(check_connector(connector), "fake", Boundary())
    assert not contained.methods & {"edit", "ingest"}
    with pytest.raises(NotSupported):
        await contained.edit(session, KEY, "new", number="123")
    with pytest.raises(NetworkRefused, match="Slow down") as caught:
        await contained.delete(session, KEY)
    assert (caught.value.code, caught.value.status, caught.value.retry_after) == ("LIMIT", 429, 30)
    with pytest.raises(NetworkRefused, match="Gone"):
        await contained.send(session, HELLO, key="k")
    assert [call.method for call in connector.calls] == ["delete"]


async def test_requests_and_files_can_be_scripted() -> None:
    async def answer(session: Session, request: IngestRequest) -> IngestResponse:
        await session.emit("MESSAGES_UPSERT", {"body": request.body.decode()})
        return IngestResponse(status=202)

    async def stream(session: Session, reference: str, sink: MediaSink) -> None:
        await sink.begin(mimetype="text/plain")
        for part in (session.instance, reference):
            await sink.write(part.encode())

    connector = FakeConnector(ingest=answer, open_media=stream)
    session, sink = FakeSession(), FakeMediaSink()
    request = IngestRequest(method="POST", query={}, headers={}, body=b"hi")
    assert (await connector.ingest(session, request)).status == 202
    assert session.data_of("MESSAGES_UPSERT") == [{"body": "hi"}]
    await connector.open_media(session, "/r", sink)
    assert sink.content == b"shop/r"


async def test_a_file_that_is_gone() -> None:
    with pytest.raises(NotFound, match="no file 'r'"):
        await FakeConnector().open_media(FakeSession(), "r", FakeMediaSink())


def test_it_is_a_plugin() -> None:
    connector = FakeConnector("net", message_types=(TextMessage,), options_schema={"type": "object"})
    assert connector.hookgw_connectors() == [connector]
    checked = check_connector(connector)
    assert (checked.name, checked.message_types) == ("net", frozenset({TextMessage}))
    assert checked.options_schema == {"type": "object"}
