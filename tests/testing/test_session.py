import httpx
import pytest
import trio
import trio.testing

from hookgw import Conflict, ConnectionState, InstanceSettings, Invalid, NewEvent, QRCode, Session, TooLarge
from hookgw.testing import EmittedEvent, FakeMediaSink, FakeSession


def new_event(event_id: str | None = None, **data: object) -> NewEvent:
    return NewEvent(kind="MESSAGES_UPSERT", data=data, event_id=event_id)


async def test_it_is_a_session_with_options_and_settings() -> None:
    settings = InstanceSettings(groups_ignore=True)
    fake = FakeSession("bot", options={"a": 1}, settings=settings, wants_base64=True)
    session: Session = fake
    assert (session.instance, session.options, session.settings) == ("bot", {"a": 1}, settings)
    assert session.wants_base64()
    assert session.ingest_url is not None
    assert session.ingest_url.startswith("https://hookgw.example/ingest/bot/")


async def test_events_pass_through_json(autojump_clock: trio.testing.MockClock) -> None:
    session = FakeSession()
    await trio.sleep(2)
    await session.emit("MESSAGES_UPSERT", {"a": (1, 2)}, event_id="one")
    await session.emit_all([NewEvent(kind="CALL", data=None, time=7.0)])
    assert session.events == [
        EmittedEvent(kind="MESSAGES_UPSERT", data={"a": [1, 2]}, event_id="one", at=2.0),
        EmittedEvent(kind="CALL", data=None, time=7.0, at=2.0),
    ]


async def test_a_repeated_id_is_left_out_and_the_state_is_stored() -> None:
    session = FakeSession()
    await session.emit_all([new_event("one", n=1)], state={"cursor": 1})
    await session.emit_all([new_event("one", n=1), new_event("two", n=2)], state={"cursor": 2})
    assert session.data_of("MESSAGES_UPSERT") == [{"n": 1}, {"n": 2}]
    assert [event.event_id for event in session.repeated] == ["one"]
    assert await session.load_state() == {"cursor": 2}


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (new_event("$abc:server"), "event_id_of makes one"),
        (new_event(n=float("nan")), "The data of MESSAGES_UPSERT"),
    ],
)
async def test_a_wrong_event_stores_nothing(event: NewEvent, said: str) -> None:
    session = FakeSession(state={"cursor": 0})
    with pytest.raises(Invalid, match=said):
        await session.emit_all([new_event("one"), event], state={"cursor": 1})
    assert session.events == []
    assert await session.load_state() == {"cursor": 0}


async def test_the_state_is_a_copy() -> None:
    session, state = FakeSession(), {"tokens": ["a"]}
    assert await session.load_state() is None
    await session.save_state(state)
    state["tokens"].append("b")
    (await session.load_state())["tokens"].append("c")
    assert await session.load_state() == {"tokens": ["a"]}
    await session.emit_all([], state=None)
    assert await session.load_state() is None


async def test_a_state_that_cannot_be_kept() -> None:
    session = FakeSession()
    with pytest.raises(Invalid, match="The state"):
        await session.save_state({"a": object()})
    with pytest.raises(Invalid, match="at most 1,048,576 are kept"):
        await session.save_state("x" * 2**20)


async def test_codes_and_states_raise_their_events() -> None:
    session = FakeSession()
    code = QRCode(code="2@a", base64="data:,", pairing_code="A1")
    await session.set_state(ConnectionState.CONNECTING)
    await session.show_qr_code(code)
    await session.show_qr_code(QRCode(code="2@b", base64="data:,"))
    await session.set_state(ConnectionState.OPEN, wuid="a@x")
    await session.set_state(ConnectionState.OPEN, wuid="a@x")
    assert session.qr_codes[0] is code
    assert [state for state, _, _ in session.states] == ["connecting", "open", "open"]
    assert session.data_of("QRCODE_UPDATED") == [
        {"qrcode": {"instance": "shop", "pairingCode": "A1", "code": "2@a", "base64": "data:,"}},
        {"qrcode": {"instance": "shop", "pairingCode": None, "code": "2@b", "base64": "data:,"}},
    ]
    assert session.data_of("CONNECTION_UPDATE") == [
        {"instance": "shop", "state": "connecting", "statusReason": 200},
        {"instance": "shop", "state": "open", "statusReason": 200, "wuid": "a@x"},
    ]


async def test_waiting() -> None:
    session = FakeSession()

    async def emit() -> None:
        for n in range(3):
            await session.emit("MESSAGES_UPSERT", n)
        await session.set_state(ConnectionState.CLOSE, 401)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(emit)
        assert await session.wait_for("MESSAGES_UPSERT", 3) == [0, 1, 2]
        await session.wait_until(ConnectionState.CLOSE)
    assert session.states == [(ConnectionState.CLOSE, 401, {})]


async def test_a_session_that_is_over() -> None:
    session = FakeSession()
    session.end()
    for call in (
        session.emit("CALL", None),
        session.emit_all([]),
        session.save_state(1),
        session.set_state(ConnectionState.OPEN),
    ):
        with pytest.raises(Conflict, match="is over"):
            await call


async def test_links_are_recorded() -> None:
    session = FakeSession()
    url = session.media_url("mxc://x/1?a", mimetype="image/png", file_name="a.png")
    assert url == "https://hookgw.example/media/shop/mxc%3A%2F%2Fx%2F1%3Fa"
    assert session.media == {url: ("mxc://x/1?a", "image/png", "a.png")}


async def test_http_is_the_given_client_or_fails() -> None:
    with pytest.raises(httpx.ConnectError, match="FakeSession has no network"):
        await FakeSession().http.get("https://net.example/")
    client = httpx.AsyncClient(transport=httpx.MockTransport(lambda request: httpx.Response(204)))
    assert (await FakeSession(http=client).http.get("https://net.example/")).status_code == 204


async def test_a_file_is_fetched_by_the_given_client() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=b"png", headers={"content-type": "image/png"})

    session = FakeSession(http=httpx.AsyncClient(transport=httpx.MockTransport(answer)))
    file = await session.fetch("https://files.example/a.png", limit=3)
    assert (file, file.mimetype) == (b"png", "image/png")
    with pytest.raises(Invalid, match="more than 2B"):
        await session.fetch("https://files.example/a.png", limit=2)
    with pytest.raises(Invalid, match="FakeSession has no network"):
        await FakeSession().fetch("https://files.example/a.png", limit=3)


async def test_a_sink_keeps_what_is_written() -> None:
    sink = FakeMediaSink()
    await sink.begin(mimetype="text/plain", size=4, file_name="a.txt")
    for chunk in (b"ab", b"cd"):
        await sink.write(chunk)
    assert (sink.mimetype, sink.size, sink.file_name, sink.content) == ("text/plain", 4, "a.txt", b"abcd")


async def test_a_sink_refuses_what_the_gateway_refuses() -> None:
    with pytest.raises(RuntimeError, match="before begin"):
        await FakeMediaSink().write(b"x")
    sink = FakeMediaSink(limit=3)
    await sink.begin(mimetype="text/plain")
    with pytest.raises(RuntimeError, match="second time"):
        await sink.begin(mimetype="text/plain")
    await sink.write(b"abc")
    with pytest.raises(TooLarge):
        await sink.write(b"d")
    with pytest.raises(TooLarge):
        await FakeMediaSink(limit=3).begin(mimetype="text/plain", size=4)
