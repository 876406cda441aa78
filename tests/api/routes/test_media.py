"""Inbound files over real sockets: what a link gives, whom it refuses, and what becomes of slow readers."""

import contextlib
import socket
import struct
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw import (
    ConnectionState,
    Gateway,
    HookgwError,
    Invalid,
    MediaSink,
    NetworkRefused,
    NotFound,
    Session,
    TooLarge,
    Unavailable,
)
from hookgw.testing import FakeConnector
from tests.api.conftest import KEY, open_whole_gateway
from tests.api.server.wire import Running, assert_answers, read_answer
from tests.api.test_app import shape_of
from tests.public.config import MediaSettings, PluginsSettings, ServerSettings, Settings
from tests.public.instances import GRACE, HEAD_TIMEOUT, PIECE, SLOWEST
from tests.public.kernel import Duration, Size
from tests.public.messages import MOST, MOST_OF_INSTANCE, RATE, content_disposition
from tests.public.web import AppApplication as Application
from tests.support.waits import until

LIMIT = Size(32 * 2**20)
PICTURE = b"\x89PNG and more"


class Files:
    """What the connector of these tests does with a file; a test replaces :attr:`send`."""

    def __init__(self) -> None:
        self.begun, self.ended = 0, 0
        self.written = 0
        self.paused, self.go_on = trio.Event(), trio.Event()

    async def open_media(self, session: Session, reference: str, sink: MediaSink) -> None:
        self.begun += 1
        try:
            await self.send(session, reference, sink)
        finally:
            self.ended += 1

    async def send(self, session: Session, reference: str, sink: MediaSink) -> None:
        await sink.begin(mimetype="image/png", size=len(PICTURE))
        await sink.write(PICTURE)

    async def endless(self, session: Session, reference: str, sink: MediaSink) -> None:
        """Send pieces of a file without an end, and count the bytes."""
        await sink.begin(mimetype="video/mp4")
        while True:
            await sink.write(bytes(PIECE))
            self.written += PIECE

    async def pausing(self, session: Session, reference: str, sink: MediaSink) -> None:
        """Send a piece, and the next one when the test says so."""
        await sink.begin(mimetype="video/mp4")
        await sink.write(bytes(PIECE))
        self.paused.set()
        await self.go_on.wait()
        await sink.write(b"the end")

    async def hanging(self, session: Session, reference: str, sink: MediaSink) -> None:
        await trio.sleep_forever()


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def connector(files: Files) -> FakeConnector:
    return FakeConnector(open_media=files.open_media)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return Settings(
        server=settings.server,
        auth=settings.auth,
        storage=settings.storage,
        media=MediaSettings(limit=LIMIT, lifetime=Duration(60)),
    )


@pytest.fixture
def server_settings() -> ServerSettings:
    return ServerSettings(bind=("127.0.0.1:0",), write_timeout=Duration(15))


@pytest.fixture
def plugins(connector: FakeConnector) -> dict[str, object]:
    return {"fake": connector}


@pytest.fixture
async def gateway(gateway: Gateway) -> Gateway:
    await gateway.instances.create("shop", integration="fake")
    await gateway.instances.connect("shop")
    return gateway


def link_to(connector: FakeConnector, reference: str = "file-1", **more: str) -> str:
    return connector.session("shop").media_url(reference, **more)


async def settle() -> None:
    await wait_all_tasks_blocked(0.02)


async def request(server: Running, link: str, method: str = "GET") -> trio.SocketStream:
    stream = await server.connect()
    await stream.send_all(f"{method} {link} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    return stream


# What a link gives


async def test_a_link_gives_the_file_without_a_key(
    client: httpx.AsyncClient, connector: FakeConnector
) -> None:
    del client.headers["apikey"]
    link = link_to(connector, "mxc://x/y", mimetype="image/jpeg", file_name="Praça.png")
    assert link.startswith("/media/shop/")
    response = await client.get(link)
    assert (response.status_code, response.content) == (200, PICTURE)
    expected = {
        "content-type": "image/png",
        "content-length": str(len(PICTURE)),
        "content-disposition": "attachment; filename=\"Pra_a.png\"; filename*=UTF-8''Pra%C3%A7a.png",
        "content-security-policy": "sandbox; default-src 'none'",
        "cross-origin-resource-policy": "same-origin",
        "x-content-type-options": "nosniff",
        "cache-control": "private",
    }
    assert {name: response.headers[name] for name in expected} == expected
    assert len(response.headers.get_list("cache-control")) == 1
    assert connector.calls_of("open_media") == [{"reference": "mxc://x/y"}]


async def test_a_file_of_unknown_length_and_type(
    client: httpx.AsyncClient, connector: FakeConnector, files: Files
) -> None:
    async def send(session: Session, reference: str, sink: MediaSink) -> None:
        await sink.begin(mimetype="text/html\r\nx: y")
        await sink.write(b"a" * (3 * PIECE + 5))
        await sink.write(b"")
        await sink.write(memoryview(b"b"))  # type: ignore[arg-type]

    files.send = send  # type: ignore[method-assign]
    response = await client.get(link_to(connector))
    assert response.content == b"a" * (3 * PIECE + 5) + b"b"
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["content-disposition"] == "attachment"
    assert "content-length" not in response.headers
    typed = await client.get(link_to(connector, mimetype="audio/ogg; codecs=opus"))
    assert typed.headers["content-type"] == "application/octet-stream"


async def test_the_link_says_the_type_if_the_network_does_not(
    client: httpx.AsyncClient, connector: FakeConnector, files: Files
) -> None:
    async def send(session: Session, reference: str, sink: MediaSink) -> None:
        await sink.begin(mimetype="", size=0, file_name="its name")

    files.send = send  # type: ignore[method-assign]
    response = await client.get(link_to(connector, mimetype="audio/ogg; codecs=opus", file_name="a"))
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-type"] == "audio/ogg; codecs=opus"
    assert response.headers["content-disposition"] == 'attachment; filename="its name"'


async def test_head_has_the_headers_and_ends_the_call(
    client: httpx.AsyncClient, connector: FakeConnector, files: Files
) -> None:
    response = await client.head(link_to(connector))
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-length"] == str(len(PICTURE))
    assert response.headers["content-type"] == "image/png"
    await settle()
    assert files.ended == 1
    assert (await client.get(link_to(connector))).content == PICTURE  # on the same connection


async def test_a_part_cannot_be_requested(client: httpx.AsyncClient, connector: FakeConnector) -> None:
    response = await client.get(link_to(connector), headers={"range": "bytes=2-3"})
    assert (response.status_code, response.content) == (200, PICTURE)
    assert "accept-ranges" not in response.headers


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("", "attachment"),
        (" .. ", "attachment"),
        ("report.pdf", 'attachment; filename="report.pdf"'),
        ("../../etc/passwd", 'attachment; filename="_.._etc_passwd"'),
        ('a"b\\c\r\nx: y', 'attachment; filename="a_b_c__x_ y"'),
        ("100%;.txt", "attachment; filename=\"100__.txt\"; filename*=UTF-8''100%25%3B.txt"),
        ("\u202egnp.exe", 'attachment; filename="_gnp.exe"'),
        ("写真.jpg", "attachment; filename=\"__.jpg\"; filename*=UTF-8''%E5%86%99%E7%9C%9F.jpg"),
        ("n" * 300, f'attachment; filename="{"n" * 255}"'),
    ],
)
def test_names_of_files(name: str, header: str) -> None:
    assert content_disposition(name) == header


@pytest.mark.parametrize(
    ("public_url", "base_path", "start"),
    [
        ("https://hooks.example/base/", "/base", "https://hooks.example/base/media/shop/"),
        (None, "/base", "/base/media/shop/"),
    ],
)
async def test_where_links_lead(
    public_url: str | None, base_path: str, start: str, tmp_path: Path, settings: Settings
) -> None:
    server = ServerSettings(public_url=public_url, base_path=base_path)
    connector = FakeConnector()
    changed = Settings(server=server, auth=settings.auth, storage=settings.storage)
    async with open_whole_gateway(changed, tmp_path, {"fake": connector}) as gateway:
        await gateway.instances.create("shop", integration="fake")
        await gateway.instances.connect("shop")
        assert link_to(connector).startswith(start)


# Whom it refuses


async def test_an_unknown_instance_and_a_changed_link_get_one_answer(
    client: httpx.AsyncClient, connector: FakeConnector, gateway: Gateway, files: Files
) -> None:
    await gateway.instances.create("other", integration="fake")
    await gateway.instances.connect("other")
    link = link_to(connector)
    token = link.rpartition("/")[2]
    answers = set()
    for refused in (
        f"/media/nobody/{token}",
        f"/media/other/{token}",
        link[:-1],
        link + "A",
        "/media/shop/x",
    ):
        response = await client.get(refused)
        assert response.status_code == 403, refused
        answers.add(response.content)
    assert len(answers) == 1
    assert files.begun == 0
    assert (await client.post(link)).status_code == 405


async def test_a_link_expires(
    client: httpx.AsyncClient, connector: FakeConnector, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = link_to(connector)
    wall = gateway.clock.wall() + 61
    monkeypatch.setattr(gateway.clock, "_wall", lambda: wall)
    response = await client.get(link)
    assert (response.status_code, shape_of(response)) == (410, ["This link has expired (media.lifetime)."])


async def test_a_link_survives_a_restart_and_not_its_instance(
    settings: Settings, tmp_path: Path, files: Files
) -> None:
    links: list[str] = []
    for _ in range(2):
        connector = FakeConnector(open_media=files.open_media)
        async with open_whole_gateway(settings, tmp_path, {"fake": connector}) as gateway:
            if not links:
                await gateway.instances.create("shop", integration="fake")
                await gateway.instances.connect("shop")
                links.append(link_to(connector))
                continue
            await until(lambda: gateway.instances.connection_state("shop") is ConnectionState.OPEN)
            token = links[0].rpartition("/")[2]
            gateway.media.open("shop", token).leave()
            await gateway.instances.delete("shop")
            await gateway.instances.create("shop", integration="fake")
            await gateway.instances.connect("shop")
            with pytest.raises(HookgwError, match="not valid"):
                gateway.media.open("shop", token)


async def test_an_instance_that_is_not_connected_says_try_later(
    client: httpx.AsyncClient, connector: FakeConnector, gateway: Gateway
) -> None:
    link = link_to(connector)
    await connector.session("shop").set_state(ConnectionState.CONNECTING)
    for _ in range(2):
        response = await client.get(link)
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) > 0
        await gateway.instances.logout("shop")


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (NotFound("It is gone."), 404, "It is gone."),
        (Invalid("No such reference."), 404, "No such reference."),
        (NetworkRefused("Slow down.", status=429, retry_after=7), 429, "Slow down."),
        (NetworkRefused("It fails."), 502, "It fails."),
        (TooLarge("It is huge."), 413, "It is huge."),
        (Unavailable("Not yet.", retry_after=7), 503, "Not yet."),
        (ValueError("planted-secret"), 502, "The connector failed; hookgw's log says why."),
    ],
)
async def test_the_errors_of_connectors(
    error: Exception, status: int, message: str, client: httpx.AsyncClient, connector: FakeConnector
) -> None:
    connector.faults["open_media"] = error
    response = await client.get(link_to(connector))
    assert (response.status_code, shape_of(response)) == (status, [message])
    assert response.headers["content-type"] == "application/json"
    if status in (429, 503):
        assert response.headers["retry-after"] == "7"


async def test_a_connector_without_files(settings: Settings, tmp_path: Path) -> None:
    connector = FakeConnector(without=("open_media",))
    async with open_whole_gateway(settings, tmp_path, {"fake": connector}) as gateway:
        await gateway.instances.create("shop", integration="fake")
        await gateway.instances.connect("shop")
        with pytest.raises(HookgwError) as refused:
            gateway.media.open("shop", link_to(connector).rpartition("/")[2])
        assert refused.value.status == 501


async def no_head(session: Session, reference: str, sink: MediaSink) -> None:
    pass


async def write_first(session: Session, reference: str, sink: MediaSink) -> None:
    await sink.write(b"x")


async def too_large(session: Session, reference: str, sink: MediaSink) -> None:
    with contextlib.suppress(TooLarge):
        await sink.begin(mimetype="video/mp4", size=LIMIT + 1)
    await sink.begin(mimetype="video/mp4", size=1)


async def odd_size(session: Session, reference: str, sink: MediaSink) -> None:
    await sink.begin(mimetype="video/mp4", size=-1)


@pytest.mark.parametrize(
    ("send", "status"), [(no_head, 502), (write_first, 502), (too_large, 413), (odd_size, 502)]
)
async def test_a_connector_that_does_not_begin(
    send: Any, status: int, client: httpx.AsyncClient, connector: FakeConnector, files: Files
) -> None:
    files.send = send  # type: ignore[method-assign]
    assert (await client.get(link_to(connector))).status_code == status


async def test_a_connector_that_never_begins(
    server: Running, connector: FakeConnector, files: Files, mock_clock: MockClock
) -> None:
    files.send = files.hanging  # type: ignore[method-assign]
    async with await request(server, link_to(connector)) as stream:
        await settle()
        mock_clock.jump(HEAD_TIMEOUT + 1)
        status, _, body = await read_answer(stream)
        assert (status, b"within 30 s" in body) == (502, True)


# A file that breaks off


async def longer_than_the_limit(session: Session, reference: str, sink: MediaSink) -> None:
    await sink.begin(mimetype="video/mp4")
    for _ in range(3):
        with contextlib.suppress(TooLarge):  # a connector that hides the refusal
            await sink.write(bytes(LIMIT - 1))


async def longer_than_its_size(session: Session, reference: str, sink: MediaSink) -> None:
    await sink.begin(mimetype="video/mp4", size=100_000)
    await sink.write(bytes(100_001))


async def shorter_than_its_size(session: Session, reference: str, sink: MediaSink) -> None:
    await sink.begin(mimetype="video/mp4", size=100_000)
    await sink.write(bytes(99_999))


async def failing(session: Session, reference: str, sink: MediaSink) -> None:
    await sink.begin(mimetype="video/mp4")
    await sink.write(bytes(99_999))
    raise NetworkRefused("It broke.")


async def beginning_again(session: Session, reference: str, sink: MediaSink) -> None:
    await sink.begin(mimetype="video/mp4")
    await sink.write(bytes(99_999))
    await sink.begin(mimetype="video/mp4")


@pytest.mark.parametrize(
    "send", [longer_than_the_limit, longer_than_its_size, shorter_than_its_size, failing, beginning_again]
)
async def test_a_reader_notices_that_a_file_is_cut_off(
    send: Any, client: httpx.AsyncClient, connector: FakeConnector, files: Files
) -> None:
    files.send = send  # type: ignore[method-assign]
    client.event_hooks = {}
    with capture_logs() as logs, pytest.raises(httpx.RemoteProtocolError):
        await client.get(link_to(connector))
    assert [line["instance"] for line in logs if line["event"] == "media download cut off"] == ["shop"]
    assert "connection failed" not in {line["event"] for line in logs}
    files.send = Files.send.__get__(files)  # type: ignore[method-assign]
    assert (await client.get(link_to(connector))).content == PICTURE


async def read_until_closed(stream: trio.SocketStream) -> int:
    """Return how many bytes came; a chunked response without its end must not look complete."""
    received, last = 0, b""
    with contextlib.suppress(trio.BrokenResourceError):
        while more := await stream.receive_some():
            received += len(more)
            last = (last + more)[-5:]
    assert last != b"0\r\n\r\n"
    return received


@pytest.mark.parametrize("end", ["logout", "delete", "stop"])
async def test_a_disconnected_instance_cuts_its_files_off(
    end: str, server: Running, connector: FakeConnector, files: Files, gateway: Gateway
) -> None:
    files.send = files.pausing  # type: ignore[method-assign]
    async with await request(server, link_to(connector)) as stream:
        await files.paused.wait()
        if end == "stop":
            gateway.connectors.stop_all()
        else:
            await getattr(gateway.instances, end)("shop")
        assert await read_until_closed(stream) > PIECE
    await settle()
    assert files.ended == 1


# Slow readers, and those that leave


async def test_a_reader_holds_the_connector_back(
    server: Running, connector: FakeConnector, files: Files
) -> None:
    """What is not read stays in the network: hookgw holds one piece of it."""
    files.send = files.endless  # type: ignore[method-assign]
    async with await request(server, link_to(connector)):
        await settle()
        written = files.written
        assert 0 < written < LIMIT  # the buffers of two sockets
        await settle()
        assert (files.written, files.ended) == (written, 0)
        await assert_answers(server)
    await settle()
    assert files.ended == 1


async def test_a_reader_that_does_not_read_is_cut_off(
    server: Running, connector: FakeConnector, files: Files, mock_clock: MockClock
) -> None:
    files.send = files.endless  # type: ignore[method-assign]
    async with await request(server, link_to(connector)):
        await settle()
        mock_clock.jump(15.1)
        await settle()
        assert files.ended == 1


async def leave(stream: trio.SocketStream) -> None:
    """Reset the connection, as a client that closes with bytes unread; one that ends its side waits."""
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await stream.aclose()


async def test_a_reader_that_leaves_ends_the_call(
    server: Running, connector: FakeConnector, files: Files
) -> None:
    for send in (files.hanging, files.pausing):
        files.send = send  # type: ignore[method-assign]
        stream = await request(server, link_to(connector))
        await settle()
        assert files.begun == files.ended + 1
        await leave(stream)
        await settle()
        assert files.begun == files.ended
    await assert_answers(server)


async def test_a_file_that_comes_too_slowly_is_cut_off(
    server: Running, connector: FakeConnector, files: Files, mock_clock: MockClock
) -> None:
    files.send = files.pausing  # type: ignore[method-assign]
    async with await request(server, link_to(connector)) as stream:
        await files.paused.wait()
        await settle()
        mock_clock.jump(GRACE + PIECE / SLOWEST - 1)
        await settle()
        assert files.ended == 0
        with capture_logs() as logs:
            mock_clock.jump(2)
            assert await read_until_closed(stream) > PIECE
        assert "32KiB per second" in str(logs)
    assert files.ended == 1


async def test_a_shutdown_lets_a_file_end(server: Running, connector: FakeConnector, files: Files) -> None:
    files.send = files.pausing  # type: ignore[method-assign]
    async with await request(server, link_to(connector)) as stream, trio.open_nursery() as nursery:
        await files.paused.wait()
        nursery.start_soon(server.stop)
        await settle()
        files.go_on.set()
        received = b""
        while more := await stream.receive_some():
            received += more
        assert received.endswith(b"\r\n0\r\n\r\n")


# Limits


async def test_an_instance_has_a_limit_of_downloads(
    server: Running, client: httpx.AsyncClient, connector: FakeConnector, files: Files, gateway: Gateway
) -> None:
    files.send = files.hanging  # type: ignore[method-assign]
    streams = [await request(server, link_to(connector)) for _ in range(MOST_OF_INSTANCE)]
    await settle()
    response = await client.get(link_to(connector))
    assert (response.status_code, response.headers["retry-after"]) == (429, "1")
    assert b'limited_total{limit="media"} 1.0' in gateway.metrics.render()[0]
    for stream in streams:
        await leave(stream)
    await settle()
    files.send = Files.send.__get__(files)  # type: ignore[method-assign]
    assert (await client.get(link_to(connector))).status_code == 200


async def test_few_instances_do_not_take_all_downloads(
    server: Running, connector: FakeConnector, files: Files, gateway: Gateway
) -> None:
    files.send = files.hanging  # type: ignore[method-assign]
    async with AsyncExitStack() as stack:
        for name, most in {"a": 16, "b": 16, "c": 16, "d": 8, "e": 4, "quiet": 1}.items():
            await gateway.instances.create(name, integration="fake")
            await gateway.instances.connect(name)
            link = connector.session(name).media_url("1")
            begun = files.begun
            # As many as it leaves free, and at most 16.
            for _ in range(most):
                stack.push_async_callback(leave, await request(server, link))
            await settle()
            assert files.begun - begun == most
            if name != "quiet":
                async with await request(server, link) as stream:
                    assert (await read_answer(stream))[0] == 429


@pytest.fixture
def one_download(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookgw.messages.media.MOST", 1)


async def test_all_instances_have_a_limit_of_downloads(
    one_download: None, server: Running, connector: FakeConnector, files: Files, gateway: Gateway
) -> None:
    assert MOST > MOST_OF_INSTANCE
    await gateway.instances.create("other", integration="fake")
    await gateway.instances.connect("other")
    files.send = files.hanging  # type: ignore[method-assign]
    first = await request(server, link_to(connector))
    await settle()
    async with await request(server, connector.session("other").media_url("1")) as stream:
        status, headers, _ = await read_answer(stream)
        assert (status, headers["retry-after"]) == (503, "1")
    await leave(first)


async def test_an_instance_has_a_rate_of_downloads(
    client: httpx.AsyncClient,
    connector: FakeConnector,
    monkeypatch: pytest.MonkeyPatch,
    mock_clock: MockClock,
) -> None:
    monkeypatch.setattr("hookgw.messages.media.RATE", 1)
    assert RATE > 1
    statuses = [(await client.get(link_to(connector))).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]


async def test_no_key_is_asked_for_a_link_alone(server: Running, client: httpx.AsyncClient) -> None:
    for path in ("/media", "/media/shop", "/media/shop/x/y"):
        assert (await client.get(path, headers={"apikey": "wrong"})).status_code == 401
        assert (await client.get(path, headers={"apikey": KEY})).status_code == 404


async def test_a_bug_does_not_log_the_link(
    client: httpx.AsyncClient, connector: FakeConnector, app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.messages.routes.media.content_disposition", None)
    link = link_to(connector)
    with capture_logs() as logs:
        assert (await client.get(link)).status_code == 500
    assert [line["path"] for line in logs if line["event"] == "request failed"] == ["/media/…"]
    assert link.rpartition("/")[2] not in repr(logs)


async def test_a_file_of_a_server_passes_through(tmp_path: Path, settings: Settings) -> None:
    """Through the connector's own client, as its connectors do it; nothing is held up on the way."""
    size, sent = 24 * 2**20, 0

    async def serve_file(stream: trio.SocketStream) -> None:
        nonlocal sent
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        while sent < size:
            await stream.send_all(bytes(PIECE))
            sent += PIECE

    async def open_media(session: Session, reference: str, sink: MediaSink) -> None:
        async with session.http.stream("GET", reference) as response:
            await sink.begin(mimetype="video/mp4", size=int(response.headers["content-length"]))
            async for chunk in response.aiter_bytes():
                await sink.write(chunk)

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve_file, [listener])
        address = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        schema = {"type": "object", "properties": {"server": {"type": "string", "x-server": True}}}
        connector = FakeConnector(open_media=open_media, options_schema=schema)
        plugins = PluginsSettings(options={"fake": {"servers": [address]}})
        changed = Settings(
            auth=settings.auth, storage=settings.storage, plugins=plugins, media=settings.media
        )
        async with open_whole_gateway(changed, tmp_path, {"fake": connector}) as gateway:
            await gateway.instances.create("shop", integration="fake", options={"server": address})
            await gateway.instances.connect("shop")
            link = connector.session("shop").media_url(f"{address}/file")
            download = gateway.media.open("shop", link.rpartition("/")[2])
            assert (await download.head()).size == size
            await settle()
            assert sent < size  # the reader has not read yet
            received = 0
            async for piece in download.chunks():
                received += len(piece)
            assert received == sent == size
            download.leave()
        nursery.cancel_scope.cancel()
