"""The rules for request bodies on every route."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from hookgw import Gateway
from tests.api.test_app import shape_of
from tests.public.config import ServerSettings
from tests.public.kernel import Size

JSON = {"content-type": "application/json"}
SET = "/webhook/set/loja1"
EMIT = "/event/emit/loja1"
GOOD = b'{"url": "https://example.com/hook"}'


@pytest.fixture
async def client(client: httpx.AsyncClient, gateway: Gateway) -> httpx.AsyncClient:
    """With an instance."""
    await gateway.instances.create("loja1")
    return client


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
        "application/json; x=y; charset=utf8",
    ],
)
async def test_content_types_that_are_json(content_type: str, client: httpx.AsyncClient) -> None:
    response = await client.post(SET, content=GOOD, headers={"content-type": content_type})
    assert response.status_code == 201


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/json; charset=latin-1",
        "application/x-ndjson",
        "application/jsonp",
        "",
    ],
)
async def test_other_content_types(content_type: str, client: httpx.AsyncClient) -> None:
    response = await client.post(SET, content=GOOD, headers={"content-type": content_type})
    assert response.status_code == 415
    assert "application/json" in shape_of(response)[0]


@pytest.mark.parametrize("path", [SET, EMIT])
async def test_no_body(path: str, client: httpx.AsyncClient) -> None:
    for headers in ({}, JSON):
        response = await client.post(path, headers=headers)
        assert response.status_code == 400
        assert shape_of(response)[0].startswith("The body is empty")


@pytest.mark.parametrize("headers", [{}, JSON], ids=["", "json"])
@pytest.mark.parametrize(
    "path",
    [
        "/chat/findMessages/loja1",
        "/delivery/pull/loja1",
        "/storage/backup",
        "/webhook/rotateSecret/loja1",
        "/webhook/test/loja1",
    ],
)
async def test_a_body_in_no_chunks_is_none(
    path: str, headers: dict[str, str], client: httpx.AsyncClient
) -> None:
    """Envoy sends one for a client of HTTP/2 that ends its request after the head, as do Node's streams."""

    async def empty() -> AsyncIterator[bytes]:
        for part in list[bytes]():
            yield part

    url = "pull:" if "pull" in path else "https://example.com/hook"
    assert (await client.post(SET, json={"url": url})).status_code == 201
    left_out = await client.post(path)
    assert left_out.status_code not in {400, 404, 415}
    response = await client.post(path, content=empty(), headers=headers)
    assert response.status_code == left_out.status_code


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/chat/findChats/loja1", {}, 200),
        ("/chat/findMessages/loja1", {"where": {"key": {}, "messageTimestamp": {}}}, 200),
        ("/message/sendText/loja1", {"number": "5511988887777", "options": {}}, 400),
        (SET, {"url": "https://example.com/hook", "headers": {}, "retry": {}, "plugins": {}, "tls": {}}, 201),
        (SET, {"webhook": {"url": "https://example.com/hook", "headers": {}}}, 201),
        (SET, {}, 400),
        ("/instance/create", {"instanceName": "loja2", "webhook": {}, "tags": {}}, 201),
        ("/delivery/replay/loja1", {}, 400),
        ("/event/erase/loja1", {}, 400),
        ("/key/create/loja1", {}, 400),
    ],
)
async def test_an_empty_list_is_an_object_without_fields(
    path: str, body: dict[str, Any], status: int, client: httpx.AsyncClient, gateway: Gateway
) -> None:
    """Clients in PHP send it for every object without fields, also for a whole body."""
    written = await client.post(path, json=json.loads(json.dumps(body).replace("{}", "[]")))
    assert written.status_code == status, written.text
    if path.startswith("/instance/"):
        await gateway.instances.delete("loja2")
    meant = await client.post(path, json=body)
    assert meant.status_code == status
    if status != 201:
        assert written.json() == meant.json()


async def test_an_empty_list_of_events_stays_one(client: httpx.AsyncClient) -> None:
    emitted = {"event": "CALL", "data": []}
    assert (await client.post(EMIT, json=emitted)).status_code == 202
    (logged,) = (await client.get("/event/list/loja1")).json()["events"]
    assert logged["data"] == []


@pytest.mark.parametrize("content_type", ["application/json", "application/x-ndjson"])
async def test_a_byte_order_mark_before_a_body_is_nothing(
    content_type: str, client: httpx.AsyncClient
) -> None:
    """Programs on Windows write one."""
    body = b'\xef\xbb\xbf{"event": "CALL", "data": {"id": "1"}}'
    emitted = await client.post(EMIT, content=body, headers={"content-type": content_type})
    assert emitted.status_code == 202
    (logged,) = (await client.get("/event/list/loja1")).json()["events"]
    assert logged["data"] == {"id": "1"}
    registration = b'\xef\xbb\xbf{"url": "https://example.com/hook"}'
    assert (await client.post(SET, content=registration, headers=JSON)).status_code == 201


@pytest.mark.parametrize("path", [SET, EMIT])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "is not JSON"),
        (b'{"url": "\xff"}', "is not UTF-8"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "is nested too deeply"),
        (b'{"event": NaN}', "is not JSON"),
        (b'{"url": 1, "url": 2}', "has the name 'url' twice"),
    ],
    ids=["malformed", "utf-8", "deep", "nan", "twice"],
)
async def test_bodies_that_are_not_json(
    path: str, body: bytes, reason: str, client: httpx.AsyncClient
) -> None:
    response = await client.post(path, content=body, headers=JSON)
    assert response.status_code == 400
    assert shape_of(response)[0].startswith(f"The body {reason}")


class TestLimits:
    @pytest.fixture
    def server_settings(self) -> ServerSettings:
        return ServerSettings(max_body=Size(2048), max_batch_body=Size(4096), max_batch_events=30)

    def event(self, size: int) -> bytes:
        empty = json.dumps({"event": "MESSAGES_UPSERT", "data": ""}).encode()
        return empty.replace(b'""', b'"' + b"x" * (size - len(empty)) + b'"')

    @pytest.mark.parametrize(("size", "status"), [(2048, 202), (2049, 413)])
    async def test_of_a_single_event(self, size: int, status: int, client: httpx.AsyncClient) -> None:
        body = self.event(size)
        assert len(body) == size
        assert (await client.post(EMIT, content=body, headers=JSON)).status_code == status

    @pytest.mark.parametrize(("size", "status"), [(4096, 202), (4097, 413)])
    @pytest.mark.parametrize("sized", [True, False])
    async def test_of_a_batch(self, size: int, status: int, sized: bool, client: httpx.AsyncClient) -> None:
        body = b"[" + self.event(size - 2) + b"]"

        async def chunks() -> AsyncIterator[bytes]:
            for start in range(0, len(body), 1000):
                yield body[start : start + 1000]

        response = await client.post(EMIT, content=body if sized else chunks(), headers=JSON)
        assert response.status_code == status

    @pytest.mark.parametrize(("size", "status"), [(2048, 400), (2049, 413)])
    async def test_of_other_bodies(self, size: int, status: int, client: httpx.AsyncClient) -> None:
        response = await client.post(SET, content=b"x" * size, headers=JSON)
        assert response.status_code == status
        assert shape_of(response)

    @pytest.mark.parametrize(("count", "status"), [(30, 202), (31, 400)])
    async def test_of_events_in_a_batch(self, count: int, status: int, client: httpx.AsyncClient) -> None:
        response = await client.post(EMIT, json=[{"event": "MESSAGES_UPSERT", "data": 1}] * count)
        assert response.status_code == status
