"""Requests to a network's server, over a real connection where the wire matters."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from hookgw import EventLeftOut, TooLarge
from hookgw.connectors import (
    NetworkClient,
    Refused,
    Unreachable,
    chunks_of,
    mapping,
    pass_file,
    read_file,
    retry_after_of,
    text,
)
from hookgw.testing import FakeMediaSink, FakeSession, Receiver, answer, close, open_receiver


class Client(NetworkClient):
    server = "The chat server"
    no_json = "The chat server did not answer with a JSON object."
    answer_type = dict

    def refusal(self, response: httpx.Response, answer: Any) -> Refused:
        reason = self.hide(text(mapping(answer).get("error"))) or "No reason."
        return Refused(reason, remote_status=response.status_code, retry_after=retry_after_of(response))


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with open_receiver() as receiver:
        yield receiver


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with httpx.AsyncClient(trust_env=False) as http:
        yield Client(FakeSession(http=http), headers={"x-key": "secret"}, secrets=["secret", ""])


async def test_json_goes_out_and_comes_in(server: Receiver, client: Client) -> None:
    server.will(answer(200, '{"a": 1}'))
    assert await client.request_json("POST", server.url, body={"b": 2}, headers={"x-more": "y"}) == {"a": 1}
    [request] = await server.wait_for(1)
    assert request.json == {"b": 2}
    assert [request.header(name) for name in ("x-key", "x-more", "content-type")] == [
        *("secret", "y", "application/json"),
    ]


@pytest.mark.parametrize("body", ["[1]", "<html>", ""])
async def test_an_answer_of_another_form_is_none(server: Receiver, client: Client, body: str) -> None:
    server.will(answer(200, body))
    with pytest.raises(Unreachable, match=r"did not answer with a JSON object\.$"):
        await client.request_json("GET", server.url)


# A longer wait is as good as a day: none at all would have the server asked again at once.
@pytest.mark.parametrize(
    ("asked", "wait"), [("7", 7), ("90000", 86_400), ("9" * 400, 86_400), ("soon", None)]
)
async def test_a_refusal_has_the_server_s_words_and_no_secret(
    server: Receiver, client: Client, asked: str, wait: float | None
) -> None:
    server.will(answer(429, '{"error": "not with secret"}', headers=[("retry-after", asked)]))
    with pytest.raises(Refused) as caught:
        await client.request_json("GET", server.url)
    refused = caught.value
    assert (str(refused), refused.remote_status, refused.retry_after) == ("not with ********", 429, wait)


async def test_redirects_are_not_followed_with_the_key(server: Receiver, client: Client) -> None:
    server.will(answer(302, headers=[("location", server.url)]))
    with pytest.raises(Refused) as caught:
        await client.request_json("GET", server.url)
    assert caught.value.remote_status == 302
    assert len(server.requests) == 1


async def test_a_server_that_breaks_off_is_unreachable(server: Receiver, client: Client) -> None:
    server.will(close())
    with pytest.raises(Unreachable, match=r"^The chat server cannot be reached: ") as caught:
        await client.request_json("GET", server.url)
    # A traceback shows the cause, whose text may hold a URL with a secret.
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("path", ["x" * 70_000, "a\x00b"])
async def test_what_makes_no_url_is_unreachable(client: Client, path: str) -> None:
    """Ids of the network stand in URLs, and other people choose them."""
    with pytest.raises(Unreachable, match=r"^The chat server cannot be reached: .*URL"):
        await client.request_json("GET", f"http://127.0.0.1/{path}")
    with pytest.raises(Unreachable, match=r"^The chat server cannot be reached: .*URL"):
        async with client.open("GET", f"http://127.0.0.1/{path}"):
            pass


async def test_without_a_place_nothing_was_sent() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.PoolTimeout("Others have the places.")

    async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as http:
        with pytest.raises(Unreachable, match=r"^Others have the places\.$") as caught:
            await Client(FakeSession(http=http)).request_json("GET", "https://chat.example")
    assert (caught.value.status, caught.value.retry_after) == (503, 5.0)


async def test_an_event_that_is_left_out_is_no_broken_answer(server: Receiver, client: Client) -> None:
    server.will(answer(200, "[" + ",".join("1" * 30_000) + "]"))
    with pytest.raises(EventLeftOut):
        await client.request_json("GET", server.url, events=("",))


async def test_a_file_is_passed_on_in_chunks(server: Receiver, client: Client) -> None:
    server.will(answer(200, b"x" * 100_000, headers=[("content-type", "image/png")]))
    server.will(answer(200, b"y", framing="chunked"))
    sink = FakeMediaSink()
    async with client.open("GET", server.url) as response:
        await pass_file(response, sink)
    assert (sink.mimetype, sink.size, len(sink.content)) == ("image/png", 100_000, 100_000)
    sink = FakeMediaSink()
    async with client.open("GET", server.url) as response:
        await pass_file(response, sink, mimetype="text/plain", size=1)
    assert (sink.mimetype, sink.size, sink.content) == ("text/plain", 1, b"y")


async def test_a_file_has_at_most_so_many_bytes() -> None:
    # Not over a connection: httpx leaves what it has not read of a body to the garbage collector.
    response = httpx.Response(200, content=b"xyz")
    assert await read_file(response, 3) == b"xyz"
    with pytest.raises(TooLarge, match="more than 2 bytes"):
        await read_file(response, 2)


@pytest.mark.parametrize(("body", "reason"), [('{"error": "Gone."}', "Gone."), ("x" * 70_000, "No reason.")])
async def test_a_file_that_is_refused(server: Receiver, client: Client, body: str, reason: str) -> None:
    server.will(answer(410, body))
    with pytest.raises(Refused, match=reason) as caught:
        async with client.open("GET", server.url):
            pass
    assert caught.value.remote_status == 410


async def test_a_file_that_breaks_off_is_unreachable(server: Receiver, client: Client) -> None:
    server.will(answer(200, b"xyz"))
    with pytest.raises(Unreachable):
        async with client.open("POST", server.url, body={"id": 1}):
            raise httpx.ReadError("broken")
    assert server.requests[0].json == {"id": 1}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(None, None), ("5", 5.0), ("0", 0.0), ("86400", 86_400), ("86401", 86_400), ("-1", None), ("x", None)],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    headers = {} if value is None else {"retry-after": value}
    assert retry_after_of(httpx.Response(503, headers=headers)) == seconds


def test_retry_after_may_be_a_date() -> None:
    headers = {"retry-after": format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)}
    assert 3000 < (retry_after_of(httpx.Response(429, headers=headers)) or 0) <= 3600


async def test_chunks_are_the_whole_body() -> None:
    response = httpx.Response(200, content=b"abc")
    assert [chunk async for chunk in chunks_of(response)] == [b"abc"]
