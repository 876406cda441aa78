"""Sends a notice through a channel. Each function raises :class:`Refused` if the channel does not take it."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import trio

from hookgw import HookgwError, PluginGateway
from hookgw.kernel.fields import write_time
from hookgw.kernel.language import in_language, usual_language
from hookgw.kernel.masking import mask_secrets

from .options import ByInstance, Channel, Discord, Email, Ntfy, Options, Slack, Teams, Telegram, Url
from .texts import text_of, title_of
from .watch import Notice

TIMEOUT = 15.0
"""Seconds that a channel has, and a mail server for each of its answers. An instance has the network's own
time."""
MAIL_TIMEOUT = 45.0
"""Seconds for a mail: some servers wait before each answer, to slow down who sends to many."""

_SMTP = trio.CapacityLimiter(4)
_LINK = re.compile(r"\[(?=[^\[\]]*\]\()")
"""The beginning of a link whose text hides where it leads, in the Markdown of Discord and Teams."""


class Refused(Exception):
    """A channel has not taken a notice; the message is a sentence, without secrets.

    Attributes:
        in_part: whether some of its recipients have the notice: again would be a second time for them.
    """

    in_part = False


async def send(gateway: PluginGateway, channel: Channel, notice: Notice, options: Options) -> None:
    with in_language(usual_language()):  # not the language of who asks for a test
        title = title_of(notice)
        text = text_of(notice, options, lambda text: _fits(channel, _escaped(channel, f"{title}\n{text}")))
    title, text = _escaped(channel, title), _escaped(channel, text)
    match channel:
        case ByInstance():
            try:
                key = f"alerts-{notice.id}"
                await gateway.send_text(channel.instance, channel.to, f"{title}\n{text}", key=key)
            except HookgwError as error:
                raise Refused(str(error)) from error
        case Email():
            opened: list[Any] = []
            is_over = threading.Event()
            make = partial(_send_mail, channel, title, text, opened, is_over)
            with trio.move_on_after(MAIL_TIMEOUT) as scope:
                try:
                    await trio.to_thread.run_sync(make, abandon_on_cancel=True, limiter=_SMTP)
                finally:
                    # Nobody waits for the thread any more: what it still sent would come twice.
                    is_over.set()
                    for server in opened:
                        with suppress(OSError, TypeError):  # TypeError: it is closed
                            # That of ssl.SSLSocket would let the thread go on in plain text.
                            socket.socket.shutdown(server.sock, socket.SHUT_RDWR)
            if scope.cancelled_caught:
                raise Refused(f"{channel.host} took longer than {MAIL_TIMEOUT:.0f} s.")
        case _:
            await _post(gateway.http, channel, title, text, notice)


async def _post(http: httpx.AsyncClient, channel: Channel, title: str, text: str, notice: Notice) -> None:
    url, headers, body = _request(channel, title, text, notice)
    parts = urlsplit(url)
    # The paths of Slack, Teams, Discord and Telegram are secrets, and many servers' pages of errors show the
    # path.
    secrets = (parts.path.strip("/"), parts.query, getattr(channel, "token", ""))
    try:
        response = await http.post(url, json=body, headers=headers, timeout=TIMEOUT)
    except httpx.HTTPError as error:
        why = mask_secrets(str(error), secrets).rstrip(".")[:300] or type(error).__name__
        raise Refused(f"{parts.hostname} was not reached: {why}.") from error
    if not response.is_success:
        said = mask_secrets(" ".join(response.text.split()), secrets)[:200]
        raise Refused(f"{parts.hostname} answered {response.status_code}: {said}".rstrip(": "))


def _escaped(channel: Channel, text: str) -> str:
    match channel:
        case Slack():
            return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        case Discord() | Teams():
            # Servers that somebody else chose say why an account is closed, or where they redirect to.
            return _LINK.sub(r"\\[", text)
    return text


def _fits(channel: Channel, both: str) -> bool:
    """Return whether a title and a text, escaped, are short enough. Services cut or refuse what is longer."""
    match channel:
        case Slack():
            return len(both) <= 40_000
        case Discord():
            return len(both) <= 2000
        case Telegram() | ByInstance():  # most networks take as much as Telegram, which counts as UTF-16 does
            return len(both.encode("utf-16-le")) <= 2 * 4096
        case Ntfy():
            # Of 4,096 bytes, it makes a file, or answers 400 where it keeps no files.
            return len(both.encode()) <= 4095
        case Teams():  # 28 KB with all around it
            return len(both.encode()) <= 20_000
    return True


def _request(
    channel: Channel, title: str, text: str, notice: Notice
) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Return the URL, headers and JSON body, in the form that the service documents."""
    both = f"{title}\n{text}".strip()
    match channel:
        case Slack():  # https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
            return channel.url, {}, {"text": both}
        case Discord():  # https://discord.com/developers/docs/resources/webhook#execute-webhook
            return channel.url, {}, {"content": both, "allowed_mentions": {"parse": []}}
        case Telegram():  # https://core.telegram.org/bots/api#sendmessage
            url = f"{channel.url.rstrip('/')}/bot{channel.token}/sendMessage"
            return url, {}, {"chat_id": channel.chat, "text": both}
        case Ntfy():  # https://docs.ntfy.sh/publish/#publish-as-json: to the root, with the topic in the body
            parts = urlsplit(channel.url)
            path, _, topic = parts.path.rstrip("/").rpartition("/")
            url = urlunsplit((parts.scheme, parts.netloc, path or "/", "", ""))
            headers = {"authorization": f"Bearer {channel.token}"} if channel.token else {}
            tag = "white_check_mark" if notice.state == "over" else "warning"
            priority = 3 if notice.state == "over" else 4
            body = {"topic": topic, "title": title[:250], "message": text, "tags": [tag]}
            return url, headers, {**body, "priority": priority}
        case Teams():  # https://learn.microsoft.com/connectors/teams/#microsoft-teams-webhook
            blocks = [
                {"type": "TextBlock", "text": title, "weight": "Bolder", "size": "Medium", "wrap": True},
                *({"type": "TextBlock", "text": line, "wrap": True} for line in text.splitlines()),
            ]
            card = {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": blocks,
            }
            attached = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
            return channel.url, {}, {"type": "message", "attachments": [attached]}
        case Url():
            problems = [
                {
                    "instance": one.instance,
                    "label": one.label,
                    "url": one.detail,
                    "node": one.node,
                    "why": one.why,
                    "since": write_time(one.since),
                }
                for one in notice.lines
            ]
            facts: dict[str, Any] = {
                "id": notice.id,
                "alert": notice.alert,
                "state": notice.state,
                "on": notice.on,
                "title": title,
                # Gotify wants the text as its message, Apprise's API as its body.
                **dict.fromkeys(("text", "message", "body"), text),
                "count": notice.count,
                "since": write_time(notice.since),
                "problems": problems,
            }
            return channel.url, {}, facts
    raise AssertionError(channel)


def _send_mail(channel: Email, title: str, text: str, opened: list[Any], is_over: threading.Event) -> None:
    # Imported here: most gateways send no mail.
    import smtplib
    from email.message import EmailMessage
    from email.policy import default
    from email.utils import formatdate, make_msgid

    from hookgw.delivery.http.client_tls import mail_ssl_context

    message = EmailMessage(default.clone(cte_type="7bit"))  # RFC 6152: not every server takes 8 bits
    message["From"], message["To"] = _mailbox(channel.sender), ", ".join(map(_mailbox, channel.to))
    message["Subject"] = title
    message["Date"] = formatdate()
    message["Message-ID"] = make_msgid(domain=message["From"].addresses[0].domain or "localhost")
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no answer from a vacation responder
    message.set_content(text or title)
    context = mail_ssl_context()
    port = channel.port or {"starttls": 587, "tls": 465, "none": 25}[channel.security]
    try:
        if channel.security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(channel.host, port, timeout=TIMEOUT, context=context)
        else:
            server = smtplib.SMTP(channel.host, port, timeout=TIMEOUT)
        opened.append(server)
        try:
            if channel.security == "starttls":
                server.starttls(context=context)
            if channel.user:
                server.login(channel.user, channel.password)
            if is_over.is_set():
                return
            refused = server.send_message(message)
        finally:
            with suppress(OSError):  # whatever it answers, a mail that was taken is sent
                server.putcmd("QUIT")
            server.close()
    except (OSError, smtplib.SMTPException) as error:
        raise Refused(f"{channel.host}: {_words_of(error)[:200]}") from error
    if refused:
        partly = Refused(f"{channel.host} refuses some of the recipients: {_refusals(refused)[:200]}")
        partly.in_part = True
        raise partly


def _mailbox(given: str) -> str:
    # In a name without quotes, a comma would begin another address, and a colon a group.
    name, _, address = given.rpartition("<")
    is_one_name = any(mark in name for mark in ",:;") and not any(mark in name for mark in '"@')
    return f'"{name.strip()}" <{address}' if is_one_name else given


def _words_of(error: Exception) -> str:
    """Return what a mail server says: as text, an exception of smtplib shows Python's bytes."""
    import smtplib
    import ssl

    match error:
        case smtplib.SMTPRecipientsRefused():
            return _refusals(error.recipients)
        case smtplib.SMTPResponseException():
            return _answer(error.smtp_code, error.smtp_error)
        case ssl.SSLCertVerificationError():
            why = error.verify_message.rstrip(".")
            return f"Its certificate was refused: {why}. To trust a private authority, set SSL_CERT_FILE."
        # By the version of OpenSSL.
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "PACKET_LENGTH_TOO_LONG" | "RECORD_LAYER_FAILURE"):
            return "This port does not begin with TLS: use tls: starttls, or none."
    return str(error)


def _refusals(found: dict[str, tuple[int, bytes]]) -> str:
    return ", ".join(f"{who}: {_answer(*said)}" for who, said in found.items())


def _answer(code: int, said: bytes | str) -> str:
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    return f"{code} {' '.join(text.split())}"
