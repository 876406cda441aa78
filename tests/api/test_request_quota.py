"""The quota of one instance's requests, with the fast path of emits and without."""

from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs
from trio.testing import wait_all_tasks_blocked

from hookgw import Gateway
from tests.api.conftest import KEY, open_whole_gateway
from tests.api.server.wire import Running, assert_answers, many, read_answer, waiting_route
from tests.public.config import ServerSettings, Settings
from tests.public.kernel import Size
from tests.public.web import AppApplication as Application
from tests.support.application import create_app

OWN_KEY = "the-key-of-loja1"
EVENT = b'{"event":"CALL","data":"%s"}'
MOST = 40_000
LONG = EVENT % (b"x" * (MOST - 38))
ENOUGH = 10_000
"""The bytes left in an instance's share while four bodies do not end."""
BEGUN = MOST - ENOUGH // 4


@pytest.fixture
def server_settings() -> ServerSettings:
    size = Size(MOST)
    return ServerSettings(
        bind=("127.0.0.1:0",), max_requests=24, max_body=size, max_batch_body=size, max_upload=size
    )


@pytest.fixture
async def app(either_app: Application, gateway: Gateway) -> Application:
    await gateway.instances.create("loja1", token=OWN_KEY)
    return either_app


def emit(key: str, body: bytes) -> bytes:
    lines = ("POST /event/emit/loja1 HTTP/1.1", "host: x", f"apikey: {key}", "content-type: application/json")
    return "\r\n".join((*lines, f"content-length: {len(body)}", "", "")).encode() + body


async def status_of(server: Running, sent: bytes) -> int:
    async with await server.connect() as stream:
        await stream.send_all(sent)
        status, headers, _ = await read_answer(stream)
        assert headers.get("retry-after") == ("1" if status == 429 else None)
        return status


async def test_bodies_that_never_end(server: Running, gateway: Gateway) -> None:
    begun = emit(OWN_KEY, LONG)[: BEGUN - len(LONG)]
    fitting = EVENT % (b"x" * (ENOUGH - len(EVENT % b"")))
    async with many(server, 4, begun) as streams:
        assert await status_of(server, emit(OWN_KEY, fitting)) == 202
        assert await status_of(server, emit(OWN_KEY, fitting + b" ")) == 429
        assert await status_of(server, emit(KEY, LONG)) == 202
        await assert_answers(server)
        await streams[0].send_all(LONG[BEGUN:])
        assert (await read_answer(streams[0]))[0] == 202
    await wait_all_tasks_blocked(0.02)
    assert await status_of(server, emit(OWN_KEY, LONG)) == 202
    assert b'hookgw_http_requests_limited_total{limit="instance_share"} 1.0' in gateway.metrics.render()[0]


async def test_requests_that_wait(server: Running, app: Application) -> None:
    go = waiting_route(app, "/shared/waits")
    asked = b"GET /shared/waits HTTP/1.1\r\nhost: x\r\napikey: %s\r\n\r\n" % OWN_KEY.encode()
    async with many(server, 6, asked) as streams:
        assert await status_of(server, asked) == 429
        assert await status_of(server, emit(OWN_KEY, EVENT % b"")) == 429
        assert await status_of(server, emit(KEY, EVENT % b"")) == 202
        go.set()
        for stream in streams:
            assert (await read_answer(stream))[2] == b"done"
        assert await status_of(server, emit(OWN_KEY, EVENT % b"")) == 202


@pytest.mark.parametrize(("more", "warned"), [(0, []), (1024, ["131076KiB"])])
async def test_a_body_that_may_take_more_than_half_of_the_memory_is_warned_of(
    settings: Settings, tmp_path: Path, more: int, warned: list[str]
) -> None:
    server = msgspec.structs.replace(settings.server, max_upload=Size(32 * 2**20 + more))
    async with open_whole_gateway(msgspec.structs.replace(settings, server=server), base=tmp_path) as gateway:
        with capture_logs() as lines:
            create_app(gateway)
    assert [line["fix"].partition(",")[0].rpartition(" ")[2] for line in lines] == warned
