"""Compressed request bodies, with the fast path of emits and without."""

import gzip
import json
import zlib
from typing import Any

import httpx
import pytest

from hookgw import Gateway, Invalid
from tests.api.test_app import shape_of
from tests.public.config import ServerSettings
from tests.public.kernel import Size
from tests.public.web import AppApplication as Application
from tests.public.web import GzipDecoder

EMIT = "/event/emit/loja1"
SET = "/webhook/set/loja1"
EVENT = {"event": "CALL", "data": {"text": "é" * 2000}}
LARGEST = 256 * 1024


@pytest.fixture
def server_settings() -> ServerSettings:
    return ServerSettings(bind=("127.0.0.1:0",), max_body=Size(LARGEST), max_batch_body=Size(LARGEST))


@pytest.fixture
async def app(either_app: Application, gateway: Gateway) -> Application:
    await gateway.instances.create("loja1")
    return either_app


async def post(client: httpx.AsyncClient, path: str, content: bytes, *encodings: str) -> httpx.Response:
    headers = [("content-type", "application/json"), *(("content-encoding", given) for given in encodings)]
    return await client.post(path, content=content, headers=headers)


def packed(value: Any) -> bytes:
    # Without a time: workers that collect these tests in different seconds must find the same names.
    return gzip.compress(json.dumps(value).encode(), mtime=0)


@pytest.mark.parametrize(
    "encodings", [("gzip",), ("GZIP",), ("x-gzip",), ("identity, gzip",), ("identity", "gzip")]
)
async def test_a_compressed_body_is_read(client: httpx.AsyncClient, encodings: tuple[str, ...]) -> None:
    response = await post(client, EMIT, packed(EVENT), *encodings)
    assert response.status_code == 202, response.text
    assert (await post(client, EMIT, packed([EVENT, EVENT]), *encodings)).json()["accepted"] == 2
    registration = {"url": "https://example.com/hook"}
    assert (await post(client, SET, packed(registration), *encodings)).status_code == 201


@pytest.mark.parametrize("encodings", [(), ("identity",), ("Identity",), ("",)])
async def test_a_body_without_an_encoding(client: httpx.AsyncClient, encodings: tuple[str, ...]) -> None:
    assert (await post(client, EMIT, json.dumps(EVENT).encode(), *encodings)).status_code == 202


@pytest.mark.parametrize(
    "encodings",
    [("br",), ("deflate",), ("zstd",), ("gzip, gzip",), ("gzip", "gzip"), ("gzip", "br"), ("gzip;q=1",)],
)
async def test_other_encodings_are_refused(client: httpx.AsyncClient, encodings: tuple[str, ...]) -> None:
    for path in (EMIT, SET):
        response = await post(client, path, packed(EVENT), *encodings)
        assert response.status_code == 415
        assert response.headers["accept-encoding"] == "gzip"
        assert shape_of(response)[0].startswith(
            "The content-encoding must be gzip, or the header must be missing"
        )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (json.dumps(EVENT).encode(), "it cannot be decompressed."),
        (zlib.compress(b"{}"), "it cannot be decompressed."),
        (packed(EVENT)[:-1], "it is cut off."),
        (packed(EVENT)[:40], "it is cut off."),
        (packed(EVENT)[:-8] + b"12345678", "it cannot be decompressed."),
        (packed(EVENT) + b"x", "something follows the end of the compressed data."),
        (packed(EVENT) + packed(EVENT), "something follows the end of the compressed data."),
        (packed(EVENT) + b"\0" * 100_000, "something follows the end of the compressed data."),
    ],
    ids=["JSON", "zlib", "a byte short", "half", "a wrong sum", "a byte more", "twice", "zeros after it"],
)
async def test_a_body_that_is_not_gzip(client: httpx.AsyncClient, content: bytes, reason: str) -> None:
    for path in (EMIT, SET):
        response = await post(client, path, content, "gzip")
        assert response.status_code == 400
        assert shape_of(response) == [f"The body is not what its content-encoding (gzip) says: {reason}"]


async def test_what_is_in_it_has_the_same_rules(client: httpx.AsyncClient) -> None:
    assert shape_of(await post(client, EMIT, gzip.compress(b"{"), "gzip"))[0].startswith(
        "The body is not JSON"
    )
    assert (await post(client, EMIT, gzip.compress(b""), "gzip")).status_code == 400
    assert (await post(client, EMIT, b"", "gzip")).status_code == 400


async def test_a_bomb_is_refused_at_the_limit(client: httpx.AsyncClient) -> None:
    fitting = json.dumps(EVENT).encode()
    fitting += b" " * (LARGEST - len(fitting))
    assert (await post(client, EMIT, gzip.compress(fitting), "gzip")).status_code == 202
    for bomb in (gzip.compress(fitting + b" "), gzip.compress(b"[" * 50_000_000)):
        assert len(bomb) < LARGEST
        response = await post(client, EMIT, bomb, "gzip")
        assert response.status_code == 413
        assert shape_of(response) == ["The body may have at most 256KiB."]


def test_no_piece_is_large() -> None:
    bomb = gzip.compress(b"x" * 10_000_000)
    decoder = GzipDecoder()
    pieces = [piece for part in (bomb[:100], bomb[100:]) for piece in decoder.feed(part)]
    decoder.finish()
    assert b"".join(pieces) == b"x" * 10_000_000
    assert max(map(len, pieces)) <= 64 * 1024


def test_a_body_of_single_bytes() -> None:
    content = packed(EVENT)
    decoder = GzipDecoder()
    text = b"".join(
        piece for index in range(len(content)) for piece in decoder.feed(content[index : index + 1])
    )
    decoder.finish()
    assert json.loads(text) == EVENT
    with pytest.raises(Invalid):
        list(decoder.feed(b"x"))
