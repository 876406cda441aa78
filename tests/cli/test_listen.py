"""``hookgw listen``, and how it reads requests."""

import errno
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from hookgw.testing import Answer, Close, Received, answer, open_receiver, raw
from tests.cli.conftest import Echoes, Invoke
from tests.public.command import Failed, ReaderGone
from tests.public.delivery import sign
from tests.public.kernel import Signature, StartError, make_secret, public_key_of, signing_key, verifying_key
from tests.public.listen import (
    MAX_SEARCHED,
    Forwarder,
    ListenOptions,
    first_text,
    open_forwarder,
    read_received_event,
    run,
)

KEY = b"k" * 24
NOW = 1_800_000_000.0


def request_of(
    data: Any = None,
    *,
    key: bytes = KEY,
    at: float = NOW,
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
) -> Received:
    """Return a delivery as hookgw sends it, unless the arguments say otherwise."""
    content = body if body is not None else json.dumps({"event": "CALL", "data": data}).encode()
    usual = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(at)),
        "webhook-signature": sign([key], "msg_1", int(at), content),
        "x-event-type": "CALL",
        "x-instance-name": "loja1",
        "x-attempt": "2",
    }
    return Received(
        position=0,
        connection=1,
        method="POST",
        target="/hook?x=1",
        headers=tuple((usual if headers is None else headers).items()),
        body=content,
        http_version="1.1",
        at=0.0,
    )


def test_a_delivery_is_read_and_verified() -> None:
    event = read_received_event(request_of({"message": {"conversation": "Olá"}}), [b"other" * 5, KEY], NOW)
    assert (event.id, event.kind, event.instance, event.attempt) == ("msg_1", "CALL", "loja1", "2")
    assert (event.verified, event.problem, event.text) == (True, None, "Olá")


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (request_of(key=b"x" * 24), "signature"),
        (request_of(at=NOW - 301), "timestamp"),
        (request_of(headers={}), "webhook-id"),
    ],
)
def test_an_invalid_delivery_says_why(request_: Received, problem: str) -> None:
    event = read_received_event(request_, [KEY], NOW)
    assert event.verified is False
    assert problem in (event.problem or "")


def test_a_public_key_verifies() -> None:
    private = make_secret(Signature.V1A)
    content = request_of("x").body
    signed = sign([signing_key(private)], "msg_1", int(NOW), content)
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(int(NOW)), "webhook-signature": signed}
    request = request_of(body=content, headers=headers)
    for key, verified in ((public_key_of(private), True), (public_key_of(make_secret(Signature.V1A)), False)):
        assert read_received_event(request, [verifying_key(key)], NOW).verified is verified


def test_without_a_key_nothing_is_verified() -> None:
    event = read_received_event(request_of(key=b"x" * 24), [], NOW)
    assert (event.verified, event.problem) == (None, None)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"message": {"imageMessage": {"url": "u", "caption": "look"}}}, "look"),
        ({"message": {"extendedTextMessage": {"text": "hi"}}}, "hi"),
        ([{"deep": {"text": "in it"}, "x": 1}, {"text": "first in breadth"}], "first in breadth"),
        ({"text": 5, "other": {"text": "yes"}}, "yes"),
        ({"conversation": ""}, ""),
        ({"key": {"id": "A"}}, ""),
        ("bare", ""),
        (None, ""),
        ([[]] * (MAX_SEARCHED + 1) + [{"text": "too far"}], ""),
    ],
)
def test_the_first_text_is_found(payload: Any, text: str) -> None:
    assert first_text(payload) == text


@pytest.mark.parametrize("body", [b"", b"\xff", b"[" * 10_000 + b"]" * 10_000, b'"x"', b'{"data": {}}'])
def test_any_body_can_be_read(body: bytes) -> None:
    assert read_received_event(request_of(body=body), [KEY], NOW).text == ""


def test_the_text_of_what_has_no_envelope_is_found() -> None:
    alert = b'{"id": "notice_1", "title": "loja1 is not connected", "text": "The network logged it out."}'
    assert read_received_event(request_of(body=alert), (), NOW).text == "The network logged it out."


def test_a_line_describes_the_request(capsys: pytest.CaptureFixture[str]) -> None:
    request = request_of({"text": "hi\x1b[2J" + "x" * 100})
    assert ListenOptions(keys=(KEY,), status=204).respond(request, NOW) == answer(204)
    time_, line = capsys.readouterr().out.split("  ", 1)
    assert len(time_) == len("12:00:00.000")
    assert line == f'204  CALL  loja1  attempt 2  verified  "hi�[2J{"x" * 74}"\n'


def test_a_line_describes_a_request_from_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    ListenOptions().respond(request_of(headers={}), NOW)
    assert (
        capsys.readouterr().out.split("  ", 1)[1]
        == "200  POST /hook?x=1  -  attempt -  signature not checked\n"
    )


def test_an_invalid_signature_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert ListenOptions(keys=(b"x" * 24,)).respond(request_of(), NOW) == answer(401)
    assert "NOT VERIFIED: " in capsys.readouterr().out


@pytest.mark.parametrize(("number", "status"), [(0.0, 503), (0.29, 503), (0.3, 200), (0.99, 200)])
def test_a_fraction_of_the_requests_fails(number: float, status: int) -> None:
    assert ListenOptions(fail_rate=0.3, random_number=lambda: number).respond(request_of(), NOW) == answer(
        status
    )


def test_by_default_nothing_fails() -> None:
    assert ListenOptions(random_number=lambda: 0.0).respond(request_of(), NOW) == answer(200)


def test_json_contains_everything(capsys: pytest.CaptureFixture[str]) -> None:
    ListenOptions(keys=(KEY,), as_json=True).respond(request_of({"text": "é"}), NOW)
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {
        "at": "2027-01-15T08:00:00.000Z",
        "answered": 200,
        "method": "POST",
        "target": "/hook?x=1",
        "id": "msg_1",
        "kind": "CALL",
        "instance": "loja1",
        "attempt": "2",
        "verified": True,
        "problem": None,
        "text": "é",
        "body": '{"event": "CALL", "data": {"text": "\\u00e9"}}',
    }


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_listens_until_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "hookgw", "listen", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    with process:
        try:
            assert process.stderr is not None
            assert process.stdout is not None
            url = process.stderr.readline().split()[2]
            answered = httpx.post(url + "x", content=b"hello", trust_env=False, timeout=30)
            line = json.loads(process.stdout.readline())
            process.send_signal(number)
            assert process.wait(20) == 0
        finally:
            process.kill()
    assert answered.status_code == 200
    assert (line["target"], line["body"]) == ("/x", "hello")


@pytest.mark.usefixtures("_signals_kept")
async def test_it_responds_until_a_signal(echoes: Echoes) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, "127.0.0.1", 0, ListenOptions(status=418))
        url = (await echoes.wait_for(r"Listening on (\S+)"))[1]
        post = partial(httpx.post, url, content=b"x", trust_env=False)
        statuses = [(await trio.to_thread.run_sync(post)).status_code for _ in range(2)]
        signal.raise_signal(signal.SIGTERM)
    assert statuses == [418, 418]
    assert echoes.text.count("418  POST /") == 2


@pytest.mark.process
@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("a pipe", ""),
        ("/dev/full", "Error: Standard output cannot be written: No space left on device.\n"),
    ],
)
def test_it_ends_if_nobody_can_read_it(output: str, said: str) -> None:
    out, into = os.pipe() if output == "a pipe" else [os.open(output, os.O_WRONLY) for _ in range(2)]
    command = [sys.executable, "-m", "hookgw", "listen", "--port", "0"]
    with subprocess.Popen(command, stdout=into, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = process.stderr.readline().split()[2]
        os.close(into)
        os.close(out)  # the reader goes
        with suppress(httpx.HTTPError):
            httpx.post(url, content=b"x", trust_env=False, timeout=30)
        errors = process.stderr.read()
    assert (process.returncode, errors) == (1, said)


@pytest.mark.usefixtures("_signals_kept")
async def test_a_body_that_is_too_large_is_refused_and_reported(
    echoes: Echoes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.listen.listen.MAX_BODY", 1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, "127.0.0.1", 0, ListenOptions())
        url = (await echoes.wait_for(r"Listening on (\S+)"))[1]
        post = partial(httpx.post, url, content=b"x" * 1001, trust_env=False)
        assert (await trio.to_thread.run_sync(post)).status_code == 413
        await echoes.wait_for("a request had a body of more than 1,000 bytes")
        signal.raise_signal(signal.SIGTERM)
    assert "POST /" not in echoes.text


@pytest.mark.usefixtures("_signals_kept")
async def test_a_port_in_use_is_an_expected_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        wanted = pytest.RaisesExc(StartError, match="Choose another port with --port")
        with pytest.RaisesGroup(wanted, flatten_subgroups=True):
            await run("127.0.0.1", taken.getsockname()[1], ListenOptions())


@pytest.mark.usefixtures("_signals_kept")
@pytest.mark.parametrize("host", ["nowhere.example", "192.0.2.1"])
async def test_an_address_that_is_not_of_this_machine(host: str) -> None:
    class Resolver(trio.abc.HostnameResolver):
        """Knows no name."""

        async def getaddrinfo(self, *_: Any, **__: Any) -> Any:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        async def getnameinfo(self, *_: Any) -> Any:
            raise NotImplementedError

    trio.socket.set_custom_hostname_resolver(Resolver())
    wanted = pytest.RaisesExc(StartError, match="Choose another address with --host")
    with pytest.RaisesGroup(wanted, flatten_subgroups=True):
        await run(host, 0, ListenOptions())


def test_a_port_in_use_exits_with_1() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "hookgw", "listen", "--port", str(port)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert f"Cannot listen on 127.0.0.1:{port}: " in done.stderr
    assert "Choose another port with --port." in done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["--status", "199"],
        ["--status", "600"],
        ["--fail-rate", "1.1"],
        ["--port", "65536"],
        ["--secret", "x"],
        ["--secret", "whsec_"],
        ["--secret", "whpk_AAAA"],
        ["--public-key", "whsec_AAAA"],
        ["--public-key", "whpk_AAAA"],
    ],
)
async def test_usage_errors_exit_with_2(invoke: Invoke, args: list[str]) -> None:
    assert (await invoke("listen", *args)).exit_code == 2


@pytest.mark.parametrize("name", ["HOOKGW_SECRET", "HOOKGW_PUBLIC_KEY"])
@pytest.mark.parametrize("value", ["", " "])
async def test_an_empty_key_of_the_environment_is_not_none(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """As of ``HOOKGW_SECRET="$(hookgw webhook secret …)"`` while the gateway is away."""
    monkeypatch.setenv(name, value)
    # The second mistake is noticed later, and keeps a receiver that verifies nothing from starting.
    result = await invoke("listen", "--forward-to", "http://127.0.0.1:1/", "--status", "200")
    assert result.exit_code == 2
    assert name in result.stderr


async def forward(url: str, request: Received, options: ListenOptions | None = None) -> Any:
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=30) as client:
        return await (options or ListenOptions()).forward(request, NOW, Forwarder(url, client))


async def test_a_request_is_passed_on_unchanged_and_answered_as_the_other_server_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    request = request_of({"text": "hi"}, body=b'{"data":{"text":"hi"},"n":1e2}')
    hop = (("connection", "keep-alive"), ("transfer-encoding", "chunked"), ("host", "gw"))
    request = replace(request, headers=request.headers + hop)
    given = answer(429, b"later", headers={"retry-after": "7", "content-type": "text/plain", "x-own": "1"})
    async with open_receiver(default=given) as target:
        got = await forward(f"{target.url}hook?a=1", request, ListenOptions(keys=(KEY,)))
    assert got == answer(429, b"later", headers={"content-type": "text/plain", "retry-after": "7"})
    (passed,) = target.requests
    assert (passed.method, passed.target, passed.body) == ("POST", "/hook?a=1", request.body)
    assert [pair for pair in passed.headers if pair in request.headers[:-3]] == list(request.headers[:-3])
    assert {name for name, _ in passed.headers} - {name for name, _ in request.headers} == {"content-length"}
    assert passed.header("host") == f"127.0.0.1:{target.port}"
    line = capsys.readouterr().out
    assert re.search(r'  429  CALL  loja1  attempt 2  verified  forwarded in \d+ ms  "hi"$', line)


async def test_a_url_without_a_path_keeps_those_of_the_requests() -> None:
    async with open_receiver() as target:
        await forward(target.url, request_of())
        await forward(target.url.rstrip("/"), request_of())
    assert [request.target for request in target.requests] == ["/hook?x=1"] * 2


async def test_a_refused_request_is_not_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    async with open_receiver() as target:
        assert await forward(target.url, request_of(), ListenOptions(keys=(b"x" * 24,))) == answer(401)
        always = ListenOptions(fail_rate=1.0, random_number=lambda: 0.0)
        assert await forward(target.url, request_of(), always) == answer(503)
    assert target.requests == []


async def test_a_server_that_is_down_is_a_502(capsys: pytest.CaptureFixture[str]) -> None:
    async with open_receiver() as target:
        await target.stop_listening()
        assert await forward(target.url, request_of()) == answer(502)
        assert "  NOT FORWARDED: " in capsys.readouterr().out
        await forward(target.url, request_of(), ListenOptions(as_json=True))
    line = json.loads(capsys.readouterr().out)
    assert line["answered"] == 502
    assert line["forwarded"]["error"]


async def test_a_server_that_hangs_is_a_504(autojump_clock: Any, capsys: pytest.CaptureFixture[str]) -> None:
    async def never(_request: httpx.Request) -> httpx.Response:
        await trio.sleep_forever()
        raise AssertionError

    async with httpx.AsyncClient(transport=httpx.MockTransport(never)) as client:
        got = await ListenOptions().forward(request_of(), NOW, Forwarder("http://x/", client))
    assert got == answer(504)
    assert "NOT FORWARDED: no response within 30 s" in capsys.readouterr().out


async def test_a_long_answer_is_cut() -> None:
    async with open_receiver(default=answer(200, b"x" * 200_000)) as target:
        got = await forward(target.url, request_of())
    assert got == answer(200, b"x" * 65_536)


@pytest.mark.parametrize(
    "given",
    [
        raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx").then(Close()),
        raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\nz\r\n"),
    ],
    ids=["cut off", "malformed"],
)
async def test_a_status_stands_whatever_becomes_of_the_body(given: Answer) -> None:
    async with open_receiver(default=given) as target:
        assert await forward(target.url, request_of()) == answer(200, b"x")


async def test_a_status_stands_if_the_body_has_no_end(autojump_clock: Any) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"x"
        await trio.sleep_forever()

    transport = httpx.MockTransport(lambda _request: httpx.Response(200, content=body()))
    async with httpx.AsyncClient(transport=transport) as client:
        got = await Forwarder("http://x/", client).forward(request_of())
    # hookgw, which may have a short timeout, waits meanwhile, and all events behind this one.
    assert (got.status, got.body, got.seconds) == (200, b"x", 2)


async def test_each_request_has_a_connection_of_its_own() -> None:
    # A server may close an idle one just when a request comes.
    async with open_receiver() as target, open_forwarder(target.url) as forwarder:
        for _ in range(2):
            assert (await forwarder.forward(request_of())).status == 200
        assert [request.connection for request in target.requests] == [1, 2]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--forward-to", "localhost:3000"], "not an http or https URL"),
        (["--forward-to", "http://h:x"], "not an http or https URL"),
        (["--forward-to", "http://127.0.0.1:3000", "--status", "200"], "leave out --status"),
    ],
)
async def test_mistakes_of_forwarding(invoke: Invoke, args: list[str], said: str) -> None:
    result = await invoke("listen", *args)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.usefixtures("_signals_kept")
async def test_listen_forwards(echoes: Echoes) -> None:
    async with open_receiver(default=answer(201)) as target, trio.open_nursery() as nursery:
        nursery.start_soon(run, "127.0.0.1", 0, ListenOptions(), target.url)
        url = (await echoes.wait_for(r"Listening on (\S+) and forwarding to"))[1]
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=30) as client:
            assert (await client.post(url, content=b"{}")).status_code == 201
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.usefixtures("_signals_kept")
@pytest.mark.parametrize("problem", [ReaderGone(errno.EPIPE, "Broken pipe"), Failed("The disk is full.")])
async def test_what_was_forwarded_is_answered_if_nobody_reads_its_line(
    problem: Exception, echoes: Echoes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def say(line: str, *, err: bool = False) -> None:
        if not err:
            raise problem
        echoes.echo(line)

    async def post(statuses: list[int]) -> None:
        url = (await echoes.wait_for(r"Listening on (\S+) and forwarding to"))[1]
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=30) as client:
            statuses.append((await client.post(url, content=b"{}")).status_code)

    monkeypatch.setattr("hookgw.listen.listen.say", say)
    statuses: list[int] = []
    with pytest.RaisesGroup(type(problem), flatten_subgroups=True):
        async with open_receiver(default=answer(201)) as target, trio.open_nursery() as nursery:
            nursery.start_soon(post, statuses)
            await run("127.0.0.1", 0, ListenOptions(), target.url)
    assert statuses == [201]


HEAD = b"host: a\r\n"
ODD_REQUESTS = {
    "server-wide": b"OPTIONS * HTTP/1.1\r\n" + HEAD + b"\r\n",
    "absolute": b"POST http://other.example/x HTTP/1.1\r\n" + HEAD + b"content-length: 2\r\n\r\n{}",
    "absolute, no URL": b"POST http://[bad HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a tunnel": b"CONNECT other.example:443 HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a tunnel by path": b"CONNECT /x HTTP/1.1\r\n" + HEAD + b"\r\n",
    "no path": b"POST ?x HTTP/1.1\r\n" + HEAD + b"\r\n",
    "two slashes": b"POST //other.example/x HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a fragment": b"POST /x#y HTTP/1.1\r\n" + HEAD + b"\r\n",
    "bytes in the path": b"POST /\xe9\x80\xff HTTP/1.1\r\n" + HEAD + b"\r\n",
    "bad escapes": b"POST /%zz%00%ff/../.. HTTP/1.1\r\n" + HEAD + b"\r\n",
    "a long path": b"POST /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n",
    "an endless head": b"POST / HTTP/1.1\r\n" + b"a: b\r\n" * 300_000,
    "bytes in a header": b"POST /x HTTP/1.1\r\n" + HEAD + b"x-event-type: \xe9\x1b\xff\r\n\r\n",
    "bytes in a header, clean": b"POST /x HTTP/1.1\r\n" + HEAD + b"x-event-type: \xe9\xff\r\n\r\n",
    "an odd method": b"X!#$%&'*+.^_`|~ / HTTP/1.1\r\n" + HEAD + b"\r\n",
    "HTTP/0.9": b"GET /\r\n",
    "HTTP/1.0": b"POST / HTTP/1.0\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/9.9": b"POST / HTTP/9.9\r\n" + HEAD + b"\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "not HTTP": b"\x00\xff" * 100 + b"\r\n\r\n",
    "nothing": b"",
    "half a head": b"POST / HTT",
    "half a body": b"POST / HTTP/1.1\r\n" + HEAD + b"content-length: 9\r\n\r\n{}",
    "two lengths": b"POST / HTTP/1.1\r\n" + HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\n{}",
    "a bad length": b"POST / HTTP/1.1\r\n" + HEAD + b"content-length: -1\r\n\r\n",
    "an endless length": b"POST / HTTP/1.1\r\n" + HEAD + b"content-length: " + b"9" * 5000 + b"\r\n\r\n",
    "length and chunks": b"POST / HTTP/1.1\r\n"
    + HEAD
    + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad chunks": b"POST / HTTP/1.1\r\n" + HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    "another coding": b"POST / HTTP/1.1\r\n" + HEAD + b"transfer-encoding: gzip\r\n\r\n",
    "an upgrade": b"GET / HTTP/1.1\r\n" + HEAD + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n",
    "a wait for 100": b"POST / HTTP/1.1\r\n" + HEAD + b"expect: 100-continue\r\ncontent-length: 2\r\n\r\n{}",
    "trailers": b"POST / HTTP/1.1\r\n" + HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\na: \xff\r\n\r\n",
    "no host": b"POST / HTTP/1.1\r\n\r\n",
    "a timestamp without end": b"POST / HTTP/1.1\r\n"
    + HEAD
    + b"webhook-id: a\r\nwebhook-signature: v1,a\r\nwebhook-timestamp: "
    + b"9" * 5000
    + b"\r\n\r\n",
    "a signature of bytes": b"POST / HTTP/1.1\r\n"
    + HEAD
    + b"webhook-id: \xff\r\nwebhook-timestamp: nan\r\nwebhook-signature: v1,\xff v1a,\xff\r\n\r\n",
    "deep JSON": b"POST / HTTP/1.1\r\n" + HEAD + b"content-length: 99999\r\n\r\n" + b"[" * 99_999,
    "lone surrogates": b"POST / HTTP/1.1\r\n"
    + HEAD
    + b'content-length: 24\r\n\r\n{"data":{"text":"\\ud83d"}',
    "a body that is too large": b"POST / HTTP/1.1\r\n"
    + HEAD
    + b"content-length: 17000000\r\n\r\n"
    + b"x" * 16_900_000,
}


@pytest.mark.usefixtures("_signals_kept")
@pytest.mark.parametrize("keys", [(), (KEY,)])
@pytest.mark.parametrize("path", [None, "", "hook"])
async def test_no_request_stops_it(path: str | None, keys: tuple[bytes, ...], echoes: Echoes) -> None:
    options = ListenOptions(keys=keys)
    async with open_receiver(default=answer(200)) as target, trio.open_nursery() as nursery:
        nursery.start_soon(run, "127.0.0.1", 0, options, None if path is None else f"{target.url}{path}")
        port = int((await echoes.wait_for(r"Listening on http://127.0.0.1:(\d+)"))[1])
        usual = request_of(at=time.time())
        for name, odd in ODD_REQUESTS.items():
            for linger in (None, struct.pack("ii", 1, 0)):
                stream = await trio.open_tcp_stream("127.0.0.1", port)
                with suppress(trio.BrokenResourceError):
                    await stream.send_all(odd)
                    if linger is None:
                        await stream.send_eof()
                        while await stream.receive_some():
                            pass
                if linger is not None:  # the client leaves at once, with RST
                    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                await stream.aclose()
            async with httpx.AsyncClient(trust_env=False, verify=False, timeout=30) as client:
                url = f"http://127.0.0.1:{port}/hook"
                got = await client.post(url, content=usual.body, headers=dict(usual.headers))
                assert got.status_code == 200, name
        signal.raise_signal(signal.SIGTERM)


async def test_a_target_is_passed_on_as_it_is() -> None:
    async with open_receiver() as target:
        for sent in ("/a/../b?x=%zz&y=[]#z", "//x/y"):
            await forward(target.url, replace(request_of(), target=sent, headers=(("x-name", "caf\xe9"),)))
            assert target.requests[-1].target == sent
            assert target.requests[-1].header("x-name") == "caf\xe9"
        for sent, passed in (("http://other.example/x?y", "/x?y"), ("HTTP://[bad", "/")):
            await forward(target.url, replace(request_of(), target=sent))
            assert target.requests[-1].target == passed
        count = len(target.requests)
        for method, sent in (("OPTIONS", "*"), ("CONNECT", "other.example:443"), ("CONNECT", "/x")):
            assert await forward(target.url, replace(request_of(), method=method, target=sent)) == answer(400)
        assert len(target.requests) == count


async def test_what_the_other_server_answers_is_passed_back_as_it_is() -> None:
    location = "http://a/\u20ac".encode().decode("latin-1")
    async with open_receiver(default=answer(302, headers={"location": location})) as target:
        assert await forward(target.url, request_of()) == answer(302, headers={"location": location})
