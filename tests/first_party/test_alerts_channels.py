"""Each channel of alerts against a stand-in that checks the form that its service documents."""

import email
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import policy
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import trio
import trustme
from trio.testing import MockClock

from hookgw import TextMessage
from hookgw.testing import Receiver, answer, open_kit

pytestmark = pytest.mark.usefixtures("hookgw_clock")
TITLE = "A test of hookgw's alerts"
WHY = "This is a test of the channel it. Nothing is wrong."


async def send_test(folder: Path, channel: dict[str, Any], dashboard: str | None = None) -> str | None:
    """Send a test through a channel; return why it was refused."""
    block = {"alerts": {"channels": {"it": channel}, "dashboard": dashboard}}
    async with open_kit(folder, settings=block) as kit:
        [page] = [one for one in kit.gateway.hooks.dashboard_pages() if one.path == "alerts"]
        said = await page.submit(kit.gateway.for_plugin("alerts"), {"do": "test:it"}, 60)
    assert said is not None
    return None if said == "it has the test." else said


async def test_slack(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = answer(200, body=b"ok")
    url = f"{hookgw_receiver.url}/services/T0/B0/xyz"
    assert await send_test(tmp_path, {"type": "slack", "url": url}) is None
    assert json.loads(hookgw_receiver.requests[0].body) == {"text": f"{TITLE}\n{WHY}"}


async def test_discord(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = answer(204)
    assert await send_test(tmp_path, {"type": "discord", "url": hookgw_receiver.url}) is None
    body = json.loads(hookgw_receiver.requests[0].body)
    assert body == {"content": f"{TITLE}\n{WHY}", "allowed_mentions": {"parse": []}}


async def test_teams(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = answer(202)
    assert await send_test(tmp_path, {"type": "teams", "url": hookgw_receiver.url}) is None
    body = json.loads(hookgw_receiver.requests[0].body)
    [attached] = body["attachments"]
    assert (body["type"], attached["contentType"]) == ("message", "application/vnd.microsoft.card.adaptive")
    assert (attached["content"]["type"], attached["content"]["version"]) == ("AdaptiveCard", "1.4")
    assert [block["text"] for block in attached["content"]["body"]] == [TITLE, WHY]


async def test_telegram(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    root = f"http://127.0.0.1:{hookgw_receiver.port}"
    channel = {"type": "telegram", "token": "1:abc", "chat": -5, "url": root}
    assert await send_test(tmp_path, channel) is None
    assert hookgw_receiver.requests[0].target == "/bot1:abc/sendMessage"
    assert json.loads(hookgw_receiver.requests[0].body) == {"chat_id": -5, "text": f"{TITLE}\n{WHY}"}


async def test_a_url_has_the_text_where_gotify_and_apprise_want_it(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    assert await send_test(tmp_path, {"type": "url", "url": hookgw_receiver.url}) is None
    sent = json.loads(hookgw_receiver.requests[0].body)
    assert sent["title"] == TITLE
    assert [sent[name] for name in ("text", "message", "body")] == [WHY] * 3


async def test_ntfy(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    root = f"http://127.0.0.1:{hookgw_receiver.port}"
    channel = {"type": "ntfy", "url": f"{root}/hookgw/", "token": "tk_1"}
    assert await send_test(tmp_path, channel) is None
    [request] = hookgw_receiver.requests
    assert (request.target, request.header("authorization")) == ("/", "Bearer tk_1")
    assert json.loads(request.body) == {
        "topic": "hookgw",
        "title": TITLE,
        "message": WHY,
        "tags": ["warning"],
        "priority": 4,
    }


def size_of(kind: str, text: str) -> int:
    """Return a text's size as a service counts it."""
    encoding, width = {"telegram": ("utf-16-le", 2), "ntfy": ("utf-8", 1), "teams": ("utf-8", 1)}.get(
        kind, ("utf-32-le", 4)
    )
    return len(text.encode(encoding)) // width


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        ("slack", 40_000),
        ("discord", 2000),
        ("telegram", 4096),
        # Of this many bytes, ntfy makes a file, or answers 400 where it keeps none.
        ("ntfy", 4095),
        ("teams", 20_000),
    ],
)
@pytest.mark.parametrize("said", ["Not connected: 401 [a](b) & <c>" * 9, "🔌" * 22_000])
async def test_what_is_too_long_for_a_service_lacks_problems_and_not_the_end(
    tmp_path: Path,
    hookgw_receiver: Receiver,
    module_of: Callable[[str], ModuleType],
    kind: str,
    most: int,
    said: str,
) -> None:
    name = module_of("alerts").__name__
    options, watch = import_module(f"{name}.options"), import_module(f"{name}.watch")
    more = {"telegram": {"token": "1:abc", "chat": -5}}.get(kind, {})
    channel = {"type": kind, "url": f"{hookgw_receiver.url}/hookgw", **more}
    read = options.read_options({"channels": {"it": channel}, "dashboard": "https://hookgw.example/"})
    lines = [
        watch.Line(instance=f"shop{number}", label="", detail="", node="", plugin="", why=said, since=None)
        for number in range(10)
    ]
    notice = watch.Notice(
        id="1", state="raised", alert="1", rule="1", on="instance_closed", host="", at=0, since=0,
        count=150, lines=lines, to=("it",),
    )  # fmt: skip
    async with open_kit(tmp_path) as kit:
        gateway = kit.gateway.for_plugin("alerts")
        await import_module(f"{name}.channels").send(gateway, read.channels["it"], notice, read)
    sent = json.loads(hookgw_receiver.requests[0].body)
    if kind == "teams":
        shown = "\n".join(block["text"] for block in sent["attachments"][0]["content"]["body"])
    elif kind == "ntfy":
        shown = f"{sent['title']}\n{sent['message']}"
    else:
        shown = sent["content" if kind == "discord" else "text"]
    assert size_of(kind, shown) <= most
    title, *problems, rest, link = shown.split("\n")
    assert title == "150 instances are not connected"
    assert link == "https://hookgw.example/"
    assert rest == f"And {150 - len(problems)} more."
    assert problems[0].startswith("shop0: ")
    if len(problems) < 10:  # not one more would fit
        one_more = 4 if problems[0].endswith("…") else size_of(kind, problems[0])
        assert size_of(kind, shown) + one_more >= most


async def test_a_channel_that_refuses_says_why_without_its_secret(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(404, body=b"Cannot POST /services/secret?sig=other")
    url = f"{hookgw_receiver.url}/services/secret?sig=other"
    said = await send_test(tmp_path, {"type": "slack", "url": url})
    assert said == "it does not take it: 127.0.0.1 answered 404: Cannot POST /********?********"
    (tmp_path / "b").mkdir()
    said = await send_test(tmp_path / "b", {"type": "slack", "url": "http://127.0.0.1:1/services/secret"})
    why = "No connection to port 1 of 127.0.0.1: Connection refused."
    assert said == f"it does not take it: 127.0.0.1 was not reached: {why}"


@pytest.mark.parametrize(
    ("keys", "body", "said"),
    [
        ({"path": "/services/secret"}, rb'{"path": "\/services\/secret"}', '{"path": "\\/********"}'),
        ({"path": "/a"}, b"a bad day", "a bad day"),
        ({"path": "/topic", "type": "ntfy", "token": "tk_secret"}, b"no tk_secret", "no ********"),
    ],
    ids=["as PHP quotes it", "a short path", "a token"],
)
async def test_what_a_channel_says_has_no_secret_and_all_else(
    tmp_path: Path, hookgw_receiver: Receiver, keys: dict[str, str], body: bytes, said: str
) -> None:
    hookgw_receiver.default = answer(404, body=body)
    url = hookgw_receiver.url.removesuffix("/") + keys.pop("path")
    found = await send_test(tmp_path, {"type": "url", "url": url, **keys})
    assert found == f"it does not take it: 127.0.0.1 answered 404: {said}"


async def test_an_instance_of_hookgw(tmp_path: Path) -> None:
    channel = {"type": "instance", "instance": "shop", "to": "5511988887777"}
    async with open_kit(tmp_path, settings={"alerts": {"channels": {"it": channel}}}) as kit:
        sent: list[tuple[str, TextMessage, str]] = []

        async def send(instance: str, number: str, text: str, key: str) -> None:
            sent.append((instance, TextMessage(number=number, text=text), key))

        kit.gateway.views.send_text = send  # type: ignore[method-assign]
        [page] = [one for one in kit.gateway.hooks.dashboard_pages() if one.path == "alerts"]
        said = await page.submit(kit.gateway.for_plugin("alerts"), {"do": "test:it"}, 60)
    assert said == "it has the test."
    [(instance, message, key)] = sent
    assert (instance, message.number, message.text) == ("shop", "5511988887777", f"{TITLE}\n{WHY}")
    assert key.startswith("alerts-test_")


async def test_an_instance_that_cannot_send_says_why(tmp_path: Path) -> None:
    said = await send_test(tmp_path, {"type": "instance", "instance": "nobody", "to": "5511988887777"})
    assert said is not None
    assert "'nobody'" in said


@dataclass
class Mailbox:
    """A stand-in for an SMTP server: RFC 5321, STARTTLS of RFC 3207, AUTH PLAIN of RFC 4954."""

    port: int
    commands: list[str] = field(default_factory=list)
    mails: list[str] = field(default_factory=list)


@contextmanager
def mailbox(  # noqa: C901 -- a conversation
    context: ssl.SSLContext | None,
    *,
    at_once: bool = False,
    takes: bool = True,
    unknown: str = "",
    bye: int = 221,
    waits: threading.Event | None = None,
) -> Iterator[Mailbox]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        box = Mailbox(listener.getsockname()[1])

        def serve() -> None:
            connection, _ = listener.accept()
            connection.settimeout(20)
            if at_once and context is not None:
                connection = context.wrap_socket(connection, server_side=True)
            # A client that does not trust the certificate goes away.
            with connection, suppress(ssl.SSLError, ConnectionError):
                connection.sendall(b"220 mail ESMTP\r\n")
                converse(connection, is_tls=at_once)

        def converse(connection: socket.socket, *, is_tls: bool) -> None:
            stream = connection.makefile("rb")
            while line := stream.readline().decode("latin-1").strip():  # also what is no SMTP
                box.commands.append(line.split()[0].upper())
                match box.commands[-1]:
                    case "EHLO":
                        offers = b"250-mail\r\n" + (b"" if is_tls else b"250-STARTTLS\r\n")
                        connection.sendall(offers + b"250 AUTH PLAIN\r\n")
                    case "STARTTLS":
                        assert context is not None
                        connection.sendall(b"220 go ahead\r\n")
                        with context.wrap_socket(connection, server_side=True) as inner:
                            converse(inner, is_tls=True)
                        return
                    case "AUTH":
                        connection.sendall(b"235 welcome\r\n")
                    case "DATA":
                        connection.sendall(b"354 go ahead\r\n")
                        lines = []
                        while (part := stream.readline()) != b".\r\n":
                            lines.append(part)
                        box.mails.append(b"".join(lines).decode())
                        connection.sendall(b"250 taken\r\n" if takes else b"554 no\r\n")
                    case "MAIL" if waits is not None:
                        waits.wait(20)
                        connection.sendall(b"250 fine\r\n")
                    case "RCPT" if unknown and unknown in line:
                        connection.sendall(b"550 no such user\r\n")
                    case "QUIT":
                        connection.sendall(b"%d bye\r\n" % bye)
                        return
                    case _:
                        connection.sendall(b"250 fine\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield box
        thread.join(20)


@pytest.fixture
def authority(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> trustme.CA:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    return authority


@pytest.mark.parametrize("tls", ["starttls", "tls"])
async def test_email(tmp_path: Path, authority: trustme.CA, tls: str) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    with mailbox(context, at_once=tls == "tls") as box:
        channel = {
            "type": "email",
            "host": "localhost",
            "port": box.port,
            "tls": tls,
            "from": "hookgw@example.org",
            "to": ["ops@example.org", "boss@example.org"],
            "user": "u",
            "password": "p",
        }
        assert await send_test(tmp_path, channel) is None
    message = email.message_from_string(box.mails[0], policy=policy.default)
    assert (message["Subject"], message["From"]) == (TITLE, "hookgw@example.org")
    assert message["To"] == "ops@example.org, boss@example.org"
    assert message["Message-ID"].endswith("@example.org>")
    assert message.get_content().strip() == WHY
    assert "AUTH" in box.commands
    assert box.commands.count("RCPT") == 2
    assert ("STARTTLS" in box.commands) == (tls == "starttls")


@pytest.mark.parametrize(
    ("keys", "security"),
    [
        ({}, "starttls"),
        ({"port": 465}, "tls"),
        ({"port": 465, "tls": "none"}, "none"),
        ({"port": 25}, "starttls"),
    ],
)
def test_the_port_for_tls_means_tls(
    module_of: Callable[[str], ModuleType], keys: dict[str, Any], security: str
) -> None:
    """A server waits there for a handshake: with STARTTLS, nothing came for 15 s."""
    options = import_module(f"{module_of('alerts').__name__}.options")
    channel = {"type": "email", "host": "mail.example", "from": "a@b.c", "to": ["d@e.f"], **keys}
    assert options.read_options({"channels": {"mail": channel}}).channels["mail"].security == security


async def test_a_mail_server_is_trusted_by_the_rules_for_receivers_on_every_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own certificate is listed, but not the authority's: before 3.13, Python alone would refuse it."""
    certificate = trustme.CA().issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    channel = {"type": "email", "host": "localhost", "from": "a@example.org", "to": ["b@example.org"]}
    with mailbox(context) as box:
        assert await send_test(tmp_path, {**channel, "port": box.port}) is None


async def test_a_mail_server_that_others_may_read_from_gets_no_password(
    tmp_path: Path, authority: trustme.CA
) -> None:
    """A certificate that nobody vouches for ends the conversation."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("localhost").configure_cert(context)
    channel = {"type": "email", "host": "localhost", "from": "a@example.org", "to": ["b@example.org"]}
    channel |= {"user": "u", "password": "the-password"}
    with mailbox(context) as box:
        said = await send_test(tmp_path, {**channel, "port": box.port})
    assert said is not None
    assert said.startswith("it does not take it: localhost: Its certificate was refused: ")
    assert said.endswith(". To trust a private authority, set SSL_CERT_FILE.")
    assert "AUTH" not in box.commands


async def test_a_mail_server_that_begins_without_tls_is_told_as_one(tmp_path: Path) -> None:
    channel = {"type": "email", "host": "localhost", "tls": "tls", "from": "a@b.c", "to": ["d@e.f"]}
    with mailbox(None) as box:
        said = await send_test(tmp_path, {**channel, "port": box.port})
    why = "This port does not begin with TLS: use tls: starttls, or none."
    assert said == f"it does not take it: localhost: {why}"


async def test_a_mail_that_is_refused_is_a_failure(tmp_path: Path) -> None:
    channel = {"type": "email", "host": "127.0.0.1", "tls": "none", "from": "a@b.c", "to": ["d@e.f"]}
    with mailbox(None, takes=False) as box:
        said = await send_test(tmp_path, {**channel, "port": box.port})
    assert said == "it does not take it: 127.0.0.1: 554 no"


async def test_a_mail_that_one_of_two_recipients_gets_is_sent_once_and_its_test_says_who_lacks_it(
    tmp_path: Path,
) -> None:
    to = ["ops@example.org", "boss@example.org"]
    channel = {"type": "email", "host": "127.0.0.1", "tls": "none", "from": "hookgw <a@b.c>", "to": to}
    with mailbox(None, unknown="boss") as box:
        said = await send_test(tmp_path, {**channel, "port": box.port})
    who = "boss@example.org: 550 no such user"
    assert said == f"it does not take it: 127.0.0.1 refuses some of the recipients: {who}"
    message = email.message_from_string(box.mails[0], policy=policy.default)
    assert message["Message-ID"].endswith("@b.c>")


async def test_the_words_of_a_mail_server_are_shown_as_it_says_them(tmp_path: Path) -> None:
    channel = {"type": "email", "host": "127.0.0.1", "tls": "none", "from": "a@b.c", "to": ["boss@b.c"]}
    with mailbox(None, unknown="boss") as box:
        said = await send_test(tmp_path, {**channel, "port": box.port})
    assert said == "it does not take it: 127.0.0.1: boss@b.c: 550 no such user"


async def test_a_name_with_a_comma_or_a_colon_is_one_name(tmp_path: Path) -> None:
    to = ["Silva, João <a@b.c>", '"Souza, Ana" <d@e.f>', "g@h.i"]
    channel = {"type": "email", "host": "127.0.0.1", "tls": "none", "from": "hookgw: São <o@b.c>", "to": to}
    with mailbox(None) as box:
        assert await send_test(tmp_path, {**channel, "port": box.port}) is None
    message = email.message_from_string(box.mails[0], policy=policy.default)
    assert [(one.display_name, one.addr_spec) for one in message["To"].addresses] == [
        ("Silva, João", "a@b.c"),
        ("Souza, Ana", "d@e.f"),
        ("", "g@h.i"),
    ]
    assert message["From"].addresses[0].display_name == "hookgw: São"
    assert box.commands.count("RCPT") == 3


async def test_a_mail_that_was_taken_is_sent_whatever_the_server_says_at_the_end(tmp_path: Path) -> None:
    channel = {"type": "email", "host": "127.0.0.1", "tls": "none", "from": "a@b.c", "to": ["d@e.f"]}
    with mailbox(None, bye=421) as box:
        assert await send_test(tmp_path, {**channel, "port": box.port}) is None
    assert box.commands[-1] == "QUIT"


async def test_a_mail_that_took_too_long_is_not_sent_after_all(
    tmp_path: Path, hookgw_clock: MockClock
) -> None:
    """It comes again, or through another channel."""
    channel = {"type": "email", "host": "127.0.0.1", "tls": "none", "from": "a@b.c", "to": ["d@e.f"]}
    goes_on, said = threading.Event(), []

    async def send(port: int) -> None:
        said.append(await send_test(tmp_path, {**channel, "port": port}))

    with mailbox(None, waits=goes_on) as box:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, box.port)
            while "MAIL" not in box.commands:
                await trio.to_thread.run_sync(time.sleep, 0.005)
            hookgw_clock.jump(45)
        goes_on.set()
    assert said == ["it does not take it: 127.0.0.1 took longer than 45 s."]
    assert (box.commands[-1], box.mails) == ("MAIL", [])


async def test_a_mail_in_another_language_is_ascii_on_the_wire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server does not offer 8BITMIME (RFC 6152)."""
    monkeypatch.setenv("HOOKGW_LANG", "pt")
    channel = {"type": "email", "host": "127.0.0.1", "tls": "none", "from": "a@b.c", "to": ["d@e.f"]}
    with mailbox(None) as box:
        await send_test(tmp_path, {**channel, "port": box.port})
    assert box.mails[0].isascii()
    message = email.message_from_string(box.mails[0], policy=policy.default)
    assert message.get_content().strip() == "Este é um teste do canal it. Nada está errado."


async def test_a_mail_whose_values_cannot_be_sent_says_so_without_them(tmp_path: Path) -> None:
    channel = {"type": "email", "host": "127.0.0.1", "tls": "none", "from": "a@b.c", "to": ["d@e.f"]}
    with mailbox(None) as box:
        said = await send_test(tmp_path, {**channel, "port": box.port, "user": "u", "password": "señha"})
    why = "look for line breaks, and letters that are not ASCII."
    assert said == f"it does not take it: Its values cannot be sent (UnicodeEncodeError): {why}"
