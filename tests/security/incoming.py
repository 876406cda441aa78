"""What anonymous clients and tenants send to the HTTP interface."""

import random
import re
import socket
import string
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import quote

from tests.api.conftest import KEY as TABLE_KEY
from tests.api.server.test_smuggling import SMUGGLED, TABLE
from tests.properties.test_same_json import BROKEN
from tests.public.config import AuthSettings, ServerSettings
from tests.security.families import Trial, family
from tests.support.live import JSON, LINES, PATIENCE, Live, Reply
from tests.support.open_routes import OPEN_ROUTES, TOKEN_IN_PATH

LIMITS = ServerSettings()
AUTH = AuthSettings()
WINDOW = AUTH.failed_window * 1.1
HEAD = b"GET /healthz HTTP/1.1\r\nhost: x\r\n"
OWN_KEY = "the-key-of-the-own-instance"


def _answers(received: bytes) -> list[int]:
    """The statuses of all answers on a connection."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


def _lives(live: Live) -> bool:
    return live.call("GET", "/healthz", key=False).status == 200


@family("request smuggling", "one 400, and the connection is closed; nothing after it is answered")
def smuggling(live: Live) -> Iterator[Trial]:
    live.call("POST", "/instance/create", {"instanceName": "loja1"})
    for name, keyed in TABLE.items():
        request = keyed.replace(TABLE_KEY.encode(), live.key.encode())
        for first in (b"", HEAD + b"\r\n"):
            statuses = _answers(live.send(first + request + SMUGGLED))
            before = [200] if first else []
            yield Trial(name, f"{statuses[-1:]}".strip("[]"), statuses == [*before, 400] and _lives(live))


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PROTOCOLS = {
    "HTTP/2 with prior knowledge": PREFACE + b"\0\0\0\4\0\0\0\0\0",
    "HTTP/2 headers and resets": PREFACE
    + b"\0\0\0\4\0\0\0\0\0"
    + b"\0\0\1\1\5\0\0\0\1\x82\0\0\4\3\0\0\0\0\1\0\0\0\x08" * 50,
    "WebSocket": HEAD + b"upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: AAAA\r\n\r\n",
    "WebSocket and one byte": HEAD
    + b"upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
    + b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x81",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "Redis": b"*1\r\n$4\r\nPING\r\n",
    "SMTP": b"EHLO a.test\r\n",
    "a PROXY line": b"PROXY TCP4 1.2.3.4 127.0.0.1 1 2\r\n" + HEAD + b"\r\n",
    "HTTP/0.9": b"GET /healthz\r\n",
    "HTTP/3.0": b"GET /healthz HTTP/3.0\r\nhost: x\r\n\r\n",
    "NULs": bytes(1000),
    **{f"random bytes {seed}": random.Random(seed).randbytes(200) for seed in range(40)},
}


@family("other protocols", "400, 505, or closed without a response; the server continues")
def protocols(live: Live) -> Iterator[Trial]:
    for name, request in PROTOCOLS.items():
        statuses = _answers(live.send(request))
        happened = str(statuses[-1]) if statuses else "closed"
        yield Trial(name, happened, statuses in ([400], [505], []) and _lives(live))


@family("an offer of h2c", "ignored: the response is HTTP/1.1")
def h2c(live: Live) -> Iterator[Trial]:
    for offer in (b"h2c", b"H2C", b"h2c, foo", b"foo"):
        head = HEAD + b"connection: upgrade, http2-settings\r\nhttp2-settings: AAMAAABk\r\n"
        statuses = _answers(live.send(head + b"upgrade: %b\r\n\r\n" % offer))
        yield Trial(offer.decode(), f"{statuses[-1:]}".strip("[]"), statuses == [200])


@family("oversized requests", "400, 413 or 431, without reading all of it")
def oversized(live: Live) -> Iterator[Trial]:
    live.call("POST", "/instance/create", {"instanceName": "shop"})
    for lines in (b"x: " + b"y" * 2**15 + b"\r\n", b"x: y\r\n" * 4000, b"x" * 2**15 + b": y\r\n"):
        statuses = _answers(live.send(HEAD + lines + b"\r\n"))
        yield Trial("head", f"{statuses}".strip("[]"), statuses == [431])
    statuses = _answers(live.send(b"GET /" + b"a" * 2**15 + b" HTTP/1.1\r\nhost: x\r\n\r\n"))
    yield Trial("path", f"{statuses}".strip("[]"), statuses == [431])
    keyed = f"host: x\r\napikey: {live.key}\r\ncontent-type: {JSON}\r\n".encode()
    for path in ("/webhook/set/shop", "/instance/create", "/event/emit/shop", "/delivery/replay/shop"):
        for framing in (b"content-length: 99999999999\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n"):
            part = b"" if b"length" in framing else b"%x\r\n%b\r\n" % (2**20, b" " * 2**20) * 17
            head = b"POST %b HTTP/1.1\r\n" % path.encode() + keyed + framing
            statuses = _answers(live.send(head + part, ends=False))
            yield Trial(path, f"{statuses}".strip("[]"), statuses == [413])
    single = {"event": "CALL", "data": "x" * 2**20}
    batch = [{"event": "CALL", "data": 1}] * (LIMITS.max_batch_events + 1)
    long_id = {"event": "CALL", "data": 1, "id": "a" * 256}
    for body in (single, [single], batch, long_id):
        reply = live.call("POST", "/event/emit/shop", body)
        yield Trial("emit", str(reply.status), reply.status in (400, 413) and bool(reply.messages))


@family("slow requests", "408 or closed at the deadline; other clients are served meanwhile")
def slow(live: Live) -> Iterator[Trial]:
    body = b"POST /event/emit/shop HTTP/1.1\r\nhost: x\r\napikey: %b\r\ncontent-type: application/json\r\n"
    live.call("POST", "/instance/create", {"instanceName": "shop"})
    keyed = body % live.key.encode()
    begun = [b"", b"G", HEAD, HEAD + b"x", HEAD + b"\r\n" + HEAD, keyed + b"content-length: 9\r\n\r\n{"]
    begun += [
        keyed + b"transfer-encoding: chunked\r\n\r\n" + part for part in (b"", b"5", b"5\r\n{", b"0\r\n")
    ]
    for what in begun * 5:
        with closing(socket.create_connection(("127.0.0.1", live.port), timeout=PATIENCE)) as connection:
            connection.sendall(what)
            others = _lives(live)
            live.advance(LIMITS.body_timeout + 1)
            received = b"".join(iter(lambda: connection.recv(2**16), b""))
        statuses = _answers(received)
        happened = f"{statuses[-1]}" if statuses else "closed"
        yield Trial(repr(what), happened, others and (not what or statuses[-1:] == [408]))


def _routes(live: Live, instance: str) -> Iterator[tuple[str, str, str]]:
    """Every route of the running application by every method, and its rule."""
    for rule in live.app.routing.url_map.iter_rules():
        path = re.sub(r"<instance>", instance, rule.rule)
        path = re.sub(r"<(?:\w+:)?\w+>", "x", path)
        for method in sorted(rule.methods or ()):
            yield method, path, rule.rule


@family("routes without a key", "401 on every route except the open ones")
def keyless(live: Live) -> Iterator[Trial]:
    for key in (False, "", "wrong", live.key + "x", live.key[:-1], live.key.upper(), "' or 1=1 --"):
        for method, path, rule in _routes(live, "shop"):
            if rule in OPEN_ROUTES or rule.startswith("/public/"):
                continue
            status = live.call(method, path, key=key).status
            yield Trial(f"{method} {path}", str(status), status == 401)
            live.advance(WINDOW / AUTH.failed_attempts)  # or else it would be 429 soon


@family(
    "routes with another instance's key", "403, byte for byte the same whether or not the instance exists"
)
def foreign(live: Live) -> Iterator[Trial]:
    live.call("POST", "/instance/create", {"instanceName": "own", "token": OWN_KEY})
    live.call("POST", "/instance/create", {"instanceName": "there"})
    routes = zip(_routes(live, "there"), _routes(live, "gone"), strict=True)
    for (method, path, rule), (_, other, _) in routes:
        if "<instance>" in rule and rule not in TOKEN_IN_PATH:
            one, two = live.call(method, path, key=OWN_KEY), live.call(method, other, key=OWN_KEY)
            same = (one.status, one.body) == (two.status, two.body)
            yield Trial(f"{method} {path}", str(one.status), one.status == 403 and same)


@family(
    "guessed tokens in a path",
    "403 for links to files, 404 for the URLs of networks, the same whether or not the instance exists",
)
def guessed_tokens(live: Live) -> Iterator[Trial]:
    live.call("POST", "/instance/create", {"instanceName": "there"})
    chance = random.Random(7)
    letters = string.ascii_letters + string.digits + "-_"
    for number in range(100):
        token = "".join(chance.choices(letters, k=number + 1))
        for path, below, status in (("media", "", 403), ("ingest", "", 404), ("ingest", "/messages", 404)):
            answers = [
                live.call("GET", f"/{path}/{name}/{token}{below}", key=False) for name in ("there", "gone")
            ]
            same = answers[0].body == answers[1].body
            found = {answer.status for answer in answers}
            yield Trial(f"{path} {token}{below}", str(answers[0].status), same and found == {status})


@family(
    "guessed keys",
    f"401; after {AUTH.failed_attempts} in {AUTH.failed_window} 429, even for the correct key until then",
)
def guessed(live: Live) -> Iterator[Trial]:
    chance = random.Random(5)
    letters = string.ascii_letters + string.digits
    for number in range(1000):
        guess = "".join(chance.choices(letters, k=number % 64 + 1))
        status = live.call("GET", "/instance/fetchInstances", key=guess).status
        yield Trial(guess, str(status), status == (401 if number < AUTH.failed_attempts else 429))
    for wanted in (429, 200):
        status = live.call("GET", "/instance/fetchInstances").status
        yield Trial("the right one", str(status), status == wanted)
        live.advance(WINDOW)


NAMES = (
    *(
        "..",
        ".",
        "../x",
        "..%2fx",
        "%2e%2e/x",
        "%2e%2e%2fx",
        "..%5cx",
        "....//x",
        "a/../b",
        "%252e%252e%252f",
    ),
    *(
        "a%00",
        "%00",
        "a%0a",
        "a%0d%0ax:y",
        "a%20b",
        "%20",
        "a%3f",
        "a%23",
        "*",
        "a*",
        "%25",
        "%",
        "%zz",
        "%ff",
    ),
    *("a;b", "a'b", 'a"b', "a`id`", "$(id)", "{{7*7}}", "${x}", "%c0%ae%c0%ae", "%ef%bc%8e", "a%e2%80%ae"),
    *(
        "a" * 129,
        "a" * 5000,
        quote("ä"),
        quote("＊"),
        quote("\U0001f600"),
        "a\\b",
        "~",
        "a@b",
        "a:b",
        "a,b",
    ),
)


@family("names of instances", "400 or 404, never a redirect; no instance is created")
def names(live: Live) -> Iterator[Trial]:
    for name in NAMES:
        for method, path, body in (
            ("POST", "/webhook/set/{}", {"url": "http://a.test/"}),
            ("GET", "/webhook/find/{}", None),
            ("POST", "/event/emit/{}", {"event": "CALL", "data": {}}),
            ("GET", "/delivery/find/shop/{}", None),
            ("DELETE", "/instance/delete/{}", None),
        ):
            if name in ("..", ".") and "find/shop" in path:
                continue
            raw = path.format(name.replace(" ", "%20").replace('"', "%22"))
            yield _as_error(f"{method} {raw}", live.call(method, raw, body))
    left = [one["name"] for one in live.call("GET", "/instance/fetchInstances").json]
    yield Trial("what is there afterwards", "something created" if left else "nothing created", left == [])


def _as_error(what: str, reply: Reply) -> Trial:
    right = reply.status in (400, 404, 405) and bool(reply.messages)
    return Trial(what, str(reply.status), right)


JSON_BOMBS = {
    **BROKEN,
    "a million levels": b"[" * 1_000_000,
    "a hundred thousand objects deep": b'{"a":' * 100_000,
    "two hundred levels, thousands of times": (b"[" * 200 + b"]" * 200 + b",") * 500 + b"1",
    "a string that never ends": b'"' + b"a" * 900_000,
    "half a million escapes": rb'"' + rb"\u00" * 200_000 + b'"',
    "a number of a million digits": b"9" * 900_000,
    "an exponent of a million digits": b"1e" + b"9" * 900_000,
    "UTF-16": '{"event":1}'.encode("utf-16"),
    "a mark of byte order": b"\xef\xbb\xbf{}",
}


@family("invalid JSON and JSON bombs", "400: in a single event, a batch, lines, and a registration")
def json_bombs(live: Live) -> Iterator[Trial]:
    live.call("POST", "/instance/create", {"instanceName": "shop"})
    for name, data in JSON_BOMBS.items():
        event = b'{"event":"CALL","data":%b}' % data
        for content, content_type in ((event, JSON), (b"[%b]" % event, JSON), (event, LINES)):
            reply = live.call("POST", "/event/emit/shop", content=content, content_type=content_type)
            yield Trial(name, str(reply.status), reply.status == 400 and bool(reply.messages))
        reply = live.call("POST", "/webhook/set/shop", content=b'{"url":%b}' % data)
        yield Trial(name, str(reply.status), reply.status == 400 and bool(reply.messages))
