"""The HTTP client of the commands."""

import socket
import ssl
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
import trio
import trustme

from hookgw.command import client as client_module
from hookgw.testing import Answer, Close, Hang, Receiver, answer, open_receiver, raw
from tests.cli.conftest import says
from tests.public.command import Client, Failed, ServerUnavailable


async def call(
    receiver: Receiver, *args: Any, key: str | None = "k-1", base: str = "", **options: Any
) -> Any:
    """Make one call in a thread, because the client blocks."""

    def run() -> Any:
        with Client(receiver.url + base, key) as client:
            return client.call(*args, **options)

    return await trio.to_thread.run_sync(run)


async def test_it_sends_the_key_and_returns_the_decoded_response() -> None:
    async with open_receiver(default=says({"big": 2**70})) as receiver:
        assert await call(receiver, "GET", "lane", "list") == {"big": 2**70}
    (request,) = receiver.requests
    assert (request.method, request.target) == ("GET", "/lane/list")
    assert request.header("apikey") == "k-1"


async def test_without_a_key_no_key_is_sent() -> None:
    async with open_receiver(default=says([])) as receiver:
        await call(receiver, "GET", "lane", "list", key=None)
    assert receiver.requests[0].header("apikey") is None


async def test_a_body_is_json_and_a_query_leaves_out_none() -> None:
    async with open_receiver(default=says({})) as receiver:
        await call(receiver, "POST", "a", body={"x": 1}, query={"q": "é&", "none": None, "n": 0})
    (request,) = receiver.requests
    assert request.target == "/a?q=%C3%A9%26&n=0"
    assert request.json == {"x": 1}
    assert request.header("content-type") == "application/json"


async def test_content_is_sent_unchanged_with_its_type() -> None:
    async with open_receiver(default=says({})) as receiver:
        await call(receiver, "POST", "a", content=b'{"a":1}\n', content_type="application/x-ndjson")
    (request,) = receiver.requests
    assert (request.body, request.header("content-type")) == (b'{"a":1}\n', "application/x-ndjson")


@pytest.mark.parametrize(
    ("segment", "target"),
    [
        ("loja1", "/find/loja1"),
        ("a?b#c", "/find/a%3Fb%23c"),
        ("..", "/find/%2E%2E"),
        ("ü", "/find/%C3%BC"),
    ],
)
async def test_a_name_is_quoted_within_its_path_segment(segment: str, target: str) -> None:
    async with open_receiver(default=says({})) as receiver:
        await call(receiver, "GET", "find", segment)
    assert receiver.requests[0].target == target


async def test_a_base_path_is_kept() -> None:
    async with open_receiver(default=says({})) as receiver:
        await call(receiver, "GET", "lane", "list", base="gw/v1")
    assert receiver.requests[0].target == "/gw/v1/lane/list"


def error_of(status: int, *messages: str) -> Answer:
    return says({"status": status, "error": "…", "response": {"message": list(messages)}}, status)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (error_of(400, "First.", "Second."), "First.\nSecond."),
        (says({"response": {"message": [["First.", "Second."]]}}, 400), "First.\nSecond."),
        (
            error_of(401, "Wrong."),
            (
                "Wrong.\nThe key (3 characters) was sent, from this command.\n"
                "Set the key with HOOKGW_KEY, --key-file or a profile."
            ),
        ),
        (
            says({"response": {"message": ["No."], "errors": [{"id": "key.foreign", "values": {}}]}}, 403),
            "No.\nThe key (3 characters) was sent, from this command.",
        ),
        (
            answer(
                429,
                b'{"response": {"message": ["Too many requests."]}}',
                headers={"x-hookgw-version": "1.0", "retry-after": "17"},
            ),
            "Too many requests.\nRetry in 17 s.",
        ),
        (says({"detail": "x"}, 404), "404 Not Found"),
        (says(["x"], 500), "500 Internal Server Error"),
        (says({"response": {"message": "x"}}, 400), "400 Bad Request"),
        (says({}, 302), "302 Found"),
        (
            answer(200, b"<html>"),
            "(status 200) is not that of hookgw's API. Check that --server or HOOKGW_URL",
        ),
        (answer(200, b"{}"), "(status 200) is not that of hookgw's API. Check that --server or HOOKGW_URL"),
        (answer(502, b"bad gateway"), "answered 502 Bad Gateway instead of hookgw"),
        (answer(503, b"{}"), "answered 503 Service Unavailable instead of hookgw: it does not reach hookgw"),
        (answer(413, b"<html>"), "the body is too long"),
        (answer(429, b"slow down"), "answered 429 Too Many Requests instead of hookgw: it limits requests"),
        (answer(200, b"{" + b" " * 50).cut(60, Close()), "broke before the response was complete"),
        (
            Answer((Close(),)),
            "closed the connection without a response. If hookgw listens with TLS there, write https://",
        ),
        (raw(b"SSH-2.0-OpenSSH_9.6\r\n").then(Close()), "closed the connection without a response"),
    ],
)
async def test_error_responses_become_messages(given: Answer, said: str) -> None:
    async with open_receiver(default=given) as receiver:
        with pytest.raises(Failed) as caught:
            await call(receiver, "GET", "lane", "list")
    assert said in caught.value.message
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("path", "base"), [("/hooks/lane/list", "hooks/"), ("/lane/list", "")], ids=["base-path", "no-base-path"]
)
async def test_a_redirect_to_another_address_of_hookgw_names_it(path: str, base: str) -> None:
    moved = answer(308, headers={"location": f"https://hooks.example{path}?x=1"})
    async with open_receiver(default=moved) as receiver:
        with pytest.raises(Failed) as caught:
            await call(receiver, "GET", "lane", "list", base=base)
        address = f"https://hooks.example/{base}".rstrip("/")
        said = f"{receiver.url}{base} redirects to {address}. Name that address with --server or HOOKGW_URL."
        assert caught.value.message == said


@pytest.mark.parametrize(
    ("given", "first"),
    [
        (
            answer(302, headers={"location": "https://sso.example/authorize?state=secret"}),
            "{url} redirects to https://sso.example/authorize, which is not hookgw.",
        ),
        (
            answer(302, headers={"location": "/sign_in?to=secret"}),
            "{url} redirects to {url}sign_in, which is not hookgw.",
        ),
        (answer(403, b"<h1>Sign in</h1>"), "or a proxy, answered 403 Forbidden at {url}."),
        (answer(401, b'{"message": "No API key found"}'), "or a proxy, answered 401 Unauthorized at {url}."),
    ],
    ids=["another-host", "this-host", "403", "401-in-JSON"],
)
async def test_a_proxy_that_lets_nobody_in_is_named_as_a_cause(given: Answer, first: str) -> None:
    async with open_receiver(default=given) as receiver:
        with pytest.raises(Failed) as caught:
            await call(receiver, "GET", "lane", "list")
        said = caught.value.message
    assert first.format(url=receiver.url) in said
    assert "pass the API" in said
    assert "check that --server" in said
    assert "secret" not in said


@pytest.mark.parametrize("id_", ["instance.name_taken", "key.value_unusable", "token.unusable"])
async def test_a_name_or_a_value_that_cannot_be_had_is_not_the_keys_fault(id_: str) -> None:
    refused = says({"response": {"message": ["Choose another."], "errors": [{"id": id_}]}}, 403)
    async with open_receiver(default=refused) as receiver:
        with pytest.raises(Failed) as caught:
            await call(receiver, "POST", "instance", "create")
    assert caught.value.message == "Choose another."


async def test_a_refused_connection_says_what_to_do() -> None:
    async with open_receiver() as receiver:
        await receiver.stop_listening()
        with pytest.raises(Failed) as caught:
            await call(receiver, "GET", "lane", "list")
    assert f"Cannot connect to hookgw at {receiver.url}" in caught.value.message
    assert "Start it with `hookgw serve`, or set its address with --server" in caught.value.message


async def test_a_gateway_that_never_responds_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "RESPONSE_TIMEOUT", 0.01)
    async with open_receiver(default=Answer((Hang(),))) as receiver:
        with pytest.raises(Failed, match=r"did not respond within 0\.01 s"):
            await call(receiver, "GET", "lane", "list")


async def test_an_untrusted_certificate_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with open_receiver(default=says([]), ssl_context=context) as receiver:
        with pytest.raises(Failed, match=r"is not trusted .* set SSL_CERT_FILE=cert\.pem"):
            await call(receiver, "GET", "lane", "list")
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert await call(receiver, "GET", "lane", "list") == []


async def test_a_gateway_without_tls_says_what_to_write() -> None:
    async def refuse(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 400 \r\n\r\n")

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, refuse, 0, host="127.0.0.1"))
        client = Client(f"https://127.0.0.1:{listener.socket.getsockname()[1]}", None)
        with client, pytest.raises(Failed, match="listens without TLS there, write http://"):
            await trio.to_thread.run_sync(client.call, "GET", "lane", "list")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("text", [None, "no certificate"])
def test_unreadable_certificates_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    if text is not None:
        (tmp_path / "ca.pem").write_text(text)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with pytest.raises(Failed, match=r"SSL_CERT_FILE: \S+ca\.pem cannot be read, or contains no certificate"):
        Client("https://gateway.example", None)


@pytest.mark.parametrize("server", ["localhost:8080", "ftp://host", "http://", "", "http://h:x"])
def test_another_form_of_address_is_a_usage_error(server: str) -> None:
    with pytest.raises(click.UsageError, match="must be an http or https URL, or unix:/path"):
        Client(server, None)


def test_an_https_address_is_valid() -> None:
    with Client("https://gateway.example/base", None):
        pass


async def test_a_unix_socket_works(socket_folder: Path) -> None:
    path = socket_folder / "gw.sock"
    async with trio.open_nursery() as nursery:
        listening = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        await listening.bind(str(path))
        listening.listen()
        listener = trio.SocketListener(listening)
        nursery.start_soon(partial(trio.serve_listeners, _answer_empty_list, [listener]))

        def run() -> Any:
            with Client(f"unix:{path}", None) as client:
                return client.call("GET", "lane", "list")

        assert await trio.to_thread.run_sync(run) == []
        nursery.cancel_scope.cancel()


async def _answer_empty_list(stream: trio.SocketStream) -> None:
    await stream.receive_some()
    await stream.send_all(b"HTTP/1.1 200 OK\r\nx-hookgw-version: 1.0\r\ncontent-length: 2\r\n\r\n[]")


@pytest.mark.parametrize(
    ("given", "unavailable"),
    [
        (says({}, 503), True),
        (answer(502, "<html>"), True),
        (answer(504), True),
        (says({}, 500), False),
        (answer(404, "<html>"), False),
    ],
)
async def test_errors_that_a_retry_may_fix_are_unavailable(given: Answer, unavailable: bool) -> None:
    async with open_receiver(default=given) as receiver:
        with pytest.raises(Failed) as caught:
            await call(receiver, "GET", "x")
    assert isinstance(caught.value, ServerUnavailable) is unavailable


async def test_a_call_may_have_its_own_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "RESPONSE_TIMEOUT", 30.0)
    async with open_receiver(default=Answer((Hang(),))) as receiver:
        with pytest.raises(ServerUnavailable, match=r"did not respond within 0\.01 s"):
            await call(receiver, "GET", "x", timeout=0.01)


async def pages(receiver: Receiver, *path: str, **query: int | str | None) -> Any:
    def run() -> Any:
        with Client(receiver.url, "k-1") as client:
            return client.page("items", *path, query=query)

    return await trio.to_thread.run_sync(run)


def part(*items: int, cursor: str | None) -> Answer:
    return says({"items": items, "cursor": cursor})


async def test_a_page_that_ended_early_is_read_on() -> None:
    async with open_receiver() as receiver:
        receiver.will(part(1, 2, cursor="b"), part(3, cursor="c"), part(4, 5, cursor="e"))
        assert await pages(receiver, "x", "list", limit=5, state="dead") == {
            "items": [1, 2, 3, 4, 5],
            "cursor": "e",
        }
    assert [request.target for request in receiver.requests] == [
        "/x/list?limit=5&state=dead",
        "/x/list?limit=3&state=dead&cursor=b",
        "/x/list?limit=2&state=dead&cursor=c",
    ]


@pytest.mark.parametrize("last", [part(cursor="b"), part(2, cursor=None)])
async def test_it_is_not_read_on_beyond_the_end_or_for_a_long_search(last: Answer) -> None:
    async with open_receiver(default=part(9, cursor=None)) as receiver:
        receiver.will(part(1, cursor="a"), last)
        found = await pages(receiver, "x", "list", limit=None)
    assert len(receiver.requests) == 2
    assert 9 not in found["items"]


async def test_a_page_is_not_read_on_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FOLLOWED", 0.0)
    async with open_receiver(default=part(1, cursor="a")) as receiver:
        assert await pages(receiver, "x", "list") == {"items": [1], "cursor": "a"}
    assert len(receiver.requests) == 1


async def test_all_parts_of_an_array_are_read() -> None:
    async with open_receiver() as receiver:
        version, more = ("x-hookgw-version", "1.0"), ("hookgw-cursor", "WyJhIl0")
        receiver.will(
            answer(200, headers=[version, more, ("hookgw-silent-nodes", "b")], body=b"[1]"),
            answer(200, headers=[version, ("hookgw-cursor", "WyJiIl0")], body=b"[2]"),
            answer(200, headers=[version], body=b"[3]"),
        )
        assert await call(receiver, "GET", "lane", "list", query={"node": "a"}) == [1, 2, 3]
    assert [request.target for request in receiver.requests] == [
        "/lane/list?node=a",
        "/lane/list?node=a&cursor=WyJhIl0",
        "/lane/list?node=a&cursor=WyJiIl0",
    ]
