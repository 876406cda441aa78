"""The server over real sockets: one client does not affect another."""

import contextlib
import errno
import json
from functools import partial
from pathlib import Path

import httpx
import pytest
import structlog
import trio
from quart import request
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw import Gateway, __version__
from hookgw.web.server import serve as serving
from tests.api.conftest import KEY
from tests.api.server.wire import HEALTH, Running, assert_answers, read_answer, read_to_end
from tests.public.config import ServerSettings
from tests.public.kernel import StartError
from tests.public.web import HALF_CLOSED, ClientConnection, serve
from tests.public.web import AppApplication as Application


async def test_an_exception_of_one_connection_is_logged(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*args: object) -> None:
        raise RuntimeError("a bug of the server's")

    with structlog.testing.capture_logs() as logs, monkeypatch.context() as patched:
        patched.setattr(ClientConnection, "run", fail)
        async with await server.connect() as stream:
            with pytest.raises(AssertionError):
                await read_answer(stream)
    assert [log["event"] for log in logs] == ["connection failed"]
    await assert_answers(server)


async def test_a_client_that_disconnects_before_it_is_served(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(name: object) -> None:
        raise OSError(errno.ENOTCONN, "gone")

    with structlog.testing.capture_logs() as logs, monkeypatch.context() as patched:
        patched.setattr(serving, "address_of", gone)
        async with await server.connect() as stream:
            assert await read_to_end(stream) == b""
    assert logs == []
    await assert_answers(server)


# One shape of errors


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"no http\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\na b: c\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"x" * 5_000_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n", 400),
    ],
    ids=["no http", "no host", "bad header", "long head", "bad handshake"],
)
async def test_malformed_requests_get_the_one_shape_of_errors(
    request_: bytes, status: int, server: Running
) -> None:
    async with await server.connect() as stream:
        with contextlib.suppress(trio.BrokenResourceError):  # hookgw closes when the response has arrived
            await stream.send_all(request_)
        answered, headers, body = await read_answer(stream)
    assert answered == status
    assert headers["content-type"] == "application/json"
    assert headers["x-hookgw-version"] == __version__
    assert headers["connection"] == "close"
    shape = json.loads(body)
    assert (shape["status"], len(shape["response"]["message"])) == (status, 1)
    await assert_answers(server)


async def test_responses_do_not_name_the_server_software(server: Running) -> None:
    async with await server.connect() as stream:
        await stream.send_all(HEALTH)
        _, headers, _ = await read_answer(stream)
    assert "server" not in headers


# Bodies


def head(path: str, *lines: str) -> bytes:
    fixed = ["host: x", f"apikey: {KEY}", "content-type: application/json"]
    return "\r\n".join([f"POST {path} HTTP/1.1", *fixed, *lines, "", ""]).encode()


@pytest.mark.parametrize("path", ["/webhook/set/loja1", "/event/emit/loja1"])
@pytest.mark.parametrize("sized", [True, False])
async def test_a_body_of_20_mb_is_refused_and_its_sender_gets_the_response(
    path: str, sized: bool, server: Running, gateway: Gateway
) -> None:
    await gateway.instances.create("loja1")
    chunk = b"x" * 65_536
    framed = chunk if sized else b"%x\r\n%s\r\n" % (len(chunk), chunk)
    length = f"content-length: {320 * len(chunk)}" if sized else "transfer-encoding: chunked"
    async with await server.connect() as stream:
        await stream.send_all(head(path, length))
        with contextlib.suppress(trio.BrokenResourceError):  # hookgw closes when the response has arrived
            for _ in range(320):
                await stream.send_all(framed)
        status, headers, body = await read_answer(stream)
    assert (status, headers["connection"]) == (413, "close")
    assert json.loads(body)["error"] == "Content Too Large"
    await assert_answers(server)


async def test_a_body_of_20_mb_is_refused_while_it_is_sent(server: Running, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    async with await server.connect() as stream:
        await stream.send_all(head("/webhook/set/loja1", "content-length: 20000000"))
        status, _, _ = await read_answer(stream)
    assert status == 413


async def test_a_body_without_end_is_cut_off(
    server: Running, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.web.server.connection.LINGER", 0.05)
    await gateway.instances.create("loja1")
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    async with await server.connect() as stream:
        await stream.send_all(head("/webhook/set/loja1", "transfer-encoding: chunked"))
        with contextlib.suppress(trio.BrokenResourceError):
            while True:
                await stream.send_all(chunk)
    await assert_answers(server)


async def test_a_body_that_a_route_of_a_plugin_reads_has_a_limit_too(
    server: Running, app: Application
) -> None:
    @app.routing.post("/crm")
    async def crm() -> str:
        return str(len(await request.get_data()))

    async def post(size: int) -> int:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (size, b"x" * size)
        async with await server.connect() as stream:
            await stream.send_all(head("/crm", "transfer-encoding: chunked") + body)
            return (await read_answer(stream))[0]

    assert await post(2**24) == 200
    assert await post(2**24 + 1) == 413


async def test_a_response_that_ignores_the_body_keeps_the_connection(server: Running) -> None:
    wrong = head("/webhook/set/loja1", "content-length: 5").replace(KEY.encode(), b"wrong")
    async with await server.connect() as stream:
        for _ in range(20):
            await stream.send_all(wrong + b"hello")
            status, headers, _ = await read_answer(stream)
            assert (status, headers.get("connection")) == (401, None)


# Clients that go away


async def test_a_client_that_disconnects_breaks_nothing(
    server: Running, app: Application, gateway: Gateway, mock_clock: MockClock
) -> None:
    arrived, left = trio.Event(), trio.Event()

    @app.routing.get("/waits")
    async def waits() -> str:
        arrived.set()
        try:
            await trio.sleep_forever()
        finally:
            left.set()

    with structlog.testing.capture_logs() as logs:
        async with await server.connect() as stream:
            await stream.send_all(b"GET /waits HTTP/1.1\r\nhost: x\r\napikey: %s\r\n\r\n" % KEY.encode())
            await arrived.wait()
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(HALF_CLOSED + 1)  # until then, the client may have ended only its own side
        await left.wait()
        async with await server.connect() as stream:
            await stream.send_all(head("/webhook/set/loja1", "content-length: 50") + b"{")
        await assert_answers(server)
    # The test's clock has left the machine's behind, which is told as well.
    told = {log["event"] for log in logs if log["log_level"] in ("error", "warning")}
    assert all(event.startswith("the machine's clock was set") for event in told)


async def test_an_accepted_event_is_on_disk_though_its_client_disconnects(
    server: Running, gateway: Gateway
) -> None:
    await gateway.instances.create("loja1")
    body = json.dumps({"event": "MESSAGES_UPSERT", "data": {}, "id": "once"}).encode()
    async with await server.connect() as stream:
        await stream.send_all(head("/event/emit/loja1", f"content-length: {len(body)}") + body)
        assert (await read_answer(stream))[0] == 202
    async with httpx.AsyncClient(trust_env=False) as client:
        again = await client.post(
            f"{server.url}/event/emit/loja1",
            content=body,
            headers={"apikey": KEY, "content-type": "application/json"},
        )
    assert again.json()["duplicates"] == 1


# Keep-alive


async def test_requests_share_a_connection(server: Running) -> None:
    async with await server.connect() as stream:
        for _ in range(3):
            await stream.send_all(HEALTH)
            status, headers, body = await read_answer(stream)
            assert (status, headers.get("connection"), body) == (200, None, b'{"status":"ok"}')


async def test_pipelined_requests_are_answered_in_order(server: Running) -> None:
    async with await server.connect() as stream:
        await stream.send_all(HEALTH + HEALTH.replace(b"/healthz", b"/nope") + HEALTH)
        received = b""
        while received.count(b"HTTP/1.1 ") < 3 or not received.endswith(b"}"):
            received += await stream.receive_some()
    assert [part[:3] for part in received.split(b"HTTP/1.1 ")[1:]] == [b"200", b"401", b"200"]


async def test_the_head_of_a_response_to_head_is_sent(server: Running) -> None:
    async with await server.connect() as stream:
        await stream.send_all(HEALTH.replace(b"GET", b"HEAD"))
        received = await stream.receive_some()
        assert received.startswith(b"HTTP/1.1 200")
        assert received.endswith(b"\r\n\r\n")


async def test_an_idle_connection_is_closed_after_the_timeout(server: Running, mock_clock: MockClock) -> None:
    async with await server.connect() as stream:
        for _ in range(2):
            await stream.send_all(HEALTH)
            await read_answer(stream)
            await wait_all_tasks_blocked(0.01)
            mock_clock.jump(129)
            await wait_all_tasks_blocked(0.01)
        mock_clock.jump(2)
        assert await read_to_end(stream) == b""


# The end


async def test_shutdown_does_not_wait_for_idle_connections(server: Running, mock_clock: MockClock) -> None:
    async with await server.connect() as fresh, await server.connect() as used:
        await used.send_all(HEALTH)
        await read_answer(used)
        await server.stop()  # the clock stands still: waiting for anything would not end
        assert await read_to_end(used) == await read_to_end(fresh) == b""


async def test_shutdown_waits_for_open_requests(
    server: Running, app: Application, nursery: trio.Nursery
) -> None:
    arrived, go = trio.Event(), trio.Event()

    @app.routing.get("/public/waits")
    async def waits() -> str:
        arrived.set()
        await go.wait()
        return "done"

    async with await server.connect() as stream:
        await stream.send_all(b"GET /public/waits HTTP/1.1\r\nhost: x\r\n\r\n")
        await arrived.wait()
        server.scope.cancel()
        with contextlib.suppress(OSError):  # until nobody listens there any more
            while True:
                await (await server.connect()).aclose()
        go.set()
        status, _, body = await read_answer(stream)
        assert (status, body) == (200, b"done")
        assert await read_to_end(stream) == b""
    await server.done.wait()


async def test_shutdown_waits_for_the_grace_period_at_most(
    server: Running, app: Application, mock_clock: MockClock
) -> None:
    arrived = trio.Event()

    @app.routing.get("/public/waits")
    async def waits() -> str:
        arrived.set()
        await trio.sleep_forever()

    async with await server.connect() as stream:
        await stream.send_all(b"GET /public/waits HTTP/1.1\r\nhost: x\r\n\r\n")
        await arrived.wait()
        server.scope.cancel()
        await wait_all_tasks_blocked(0.01)
        mock_clock.jump(9)
        await wait_all_tasks_blocked(0.01)
        assert not server.done.is_set()
        mock_clock.jump(2)
        await server.done.wait()


async def test_a_cancellation_during_the_start_ends_it(app: Application, mock_clock: MockClock) -> None:
    """Found by seed 2019 of the simulator: the connections' nursery waited for a stop for ever."""
    mock_clock.autojump_threshold = 0.05
    with trio.fail_after(60), trio.CancelScope() as scope:
        await serve(app, ServerSettings(bind=("127.0.0.1:0",)), watch=lambda _: scope.cancel())
    assert scope.cancelled_caught


async def test_a_port_in_use_stops_the_start(server: Running, app: Application) -> None:
    address = f"127.0.0.1:{server.port}"
    with pytest.raises(StartError, match=address):
        await serve(app, ServerSettings(bind=(address,)))


async def test_a_unix_socket_and_a_port_at_once(
    app: Application, socket_folder: Path, nursery: trio.Nursery
) -> None:
    settings = ServerSettings(bind=("127.0.0.1:0", f"unix:{socket_folder}/s"), base_path="/hooks")
    tcp, unix = await nursery.start(partial(serve, app, settings))
    assert (tcp[:17], tcp[-6:], unix) == ("http://127.0.0.1:", "/hooks", f"unix:{socket_folder}/s")
    async with await trio.open_unix_socket(socket_folder / "s") as stream:
        await stream.send_all(HEALTH)
        assert (await read_answer(stream))[0] == 200
    nursery.cancel_scope.cancel()
