"""Everything that reads what strangers write, as functions of bytes that must never fail.

Each takes any bytes and raises only where the code under test broke a promise. ``python -m tests.fuzz``
looks for such bytes guided by coverage; ``test_corpus.py`` runs what was kept of that in every test run.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import addresses, answers, bodies, networks, requests, texts

CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Target:
    """One of them.

    Attributes:
        check: called with any bytes.
        words: what its language is made of, for the fuzzer to put together.
        longest: bytes that the fuzzer makes at most.
    """

    check: Callable[[bytes], None]
    words: tuple[str, ...] = ()
    longest: int = 512

    @property
    def name(self) -> str:
        return self.check.__name__

    def kept(self) -> Iterator[Path]:
        """The inputs that were kept."""
        return iter(sorted((CORPUS / self.name).glob("*")))


_JSON = ("{", "}", "[", "]", ":", ",", '"', "\\u0061", "\\ud83d", "null", "true", "1e400", "-0", "0.1")
_FIELDS = (
    *("webhook", "url", "enabled", "events", "byEvents", "webhook_by_events", "webhookBase64", "headers"),
    *("secret", "ordering", "concurrency", "timeout", "retry", "schedule", "maxAge", "plugins", "chat"),
    *("MESSAGES_UPSERT", "messages.upsert", "https://a.test/", "whsec_", "5s", "********", "authorization"),
    *("instanceName", "token", "integration", "number", "text", "textMessage", "grace", "since", "until"),
    *("state", "dead", "kinds", "label", "2026-11-20T12:00:00Z"),
    *("tls", "ca", "clientCertificate", "clientKey", "serverName", "-----BEGIN PRIVATE KEY-----"),
    *("filter", "pointer", "op", "value", "/data/key", "~1", "/0", "equals", "notIn", "prefix", "exists"),
)
_EVENT = ("event", "data", "id", "date_time", "sender", "server_url", "instance", "MESSAGES_UPSERT", "\n")
_EVOLUTION = (
    *("event", "data", "date_time", "sender", "messages.upsert", "SEND_MESSAGE", "connection.update", "call"),
    *(
        "state",
        "open",
        "close",
        "statusReason",
        "reason",
        "self",
        "qrcode.updated",
        "qrcode",
        "code",
        "base64",
        "pairingCode",
    ),
    *("key", "remoteJid", "id", "message", "messages.delete", "2026-11-20T12:00:00.000Z"),
)
_WEBHOOK = (
    "event",
    "id",
    "time",
    "CALL",
    "messages.upsert",
    "a/b",
    "1795168800",
    "2026-11-20T12:00:00Z",
    "-1",
)
_GOWA = (
    *(
        "event",
        "payload",
        "id",
        "chat_id",
        "from",
        "message",
        "message.ack",
        "message.revoked",
        "ids",
        "body",
    ),
    *(
        "image",
        "contact",
        "contacts_array",
        "referral",
        "receipt_type",
        "read",
        "chat_presence",
        "call.offer",
    ),
    *("call_id", "group.participants", "jids", "type", "join", "1@g.us", "2026-11-20T12:00:00Z", "timestamp"),
)
_WAHA = (
    *("event", "payload", "id", "message.any", "message.ack", "message.reaction", "message.edited", "fromMe"),
    *(
        "message.revoked",
        "group.v2.join",
        "group.v2.participants",
        "presence.update",
        "poll.vote",
        "call.received",
    ),
    *(
        "label.upsert",
        "label.chat.added",
        "chat.archive",
        "false_1@c.us_A",
        "true_1@g.us_A_2@lid",
        "from",
        "to",
    ),
    *(
        "hasMedia",
        "media",
        "url",
        "/api/files/",
        "..",
        "%2e",
        "mimetype",
        "location",
        "latitude",
        "longitude",
    ),
    *(
        "vCards",
        "_data",
        "reaction",
        "messageId",
        "replyTo",
        "timestamp",
        "group",
        "participants",
        "presences",
    ),
)
_TELEGRAM = (
    *("update_id", "message", "edited_message", "channel_post", "business_message", "message_reaction"),
    *("deleted_business_messages", "callback_query", "my_chat_member", "chat_member", "message_id", "chat"),
    *("id", "type", "private", "supergroup", "from", "sender_chat", "date", "text", "caption", "photo"),
    *("file_id", "file_size", "width", "sticker", "venue", "location", "latitude", "poll", "options"),
    *("reply_to_message", "forward_origin", "entities", "text_mention", "user", "new_reaction", "emoji"),
    *("new_chat_members", "migrate_to_chat_id", "new_chat_member", "status", "kicked", "inline_keyboard"),
)
_HTTP = (
    *("HTTP/1.1 200 OK\r\n", "HTTP/1.0 ", "HTTP/1.1 100 \r\n\r\n", "101", "204", "304", "599", "\r\n"),
    *("content-length: ", "transfer-encoding: chunked\r\n", "connection: close\r\n", "upgrade: h2c\r\n"),
    *("content-encoding: gzip\r\n", "content-encoding: deflate\r\n", "0\r\n\r\n", "5\r\nhello\r\n", ";x=y"),
)
_REQUEST = (
    *(
        "GET / HTTP/1.1\r\nhost: a\r\n",
        "POST /a HTTP/1.0\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\r\n\r\n",
    ),
    *(
        "content-length: 5\r\n",
        "transfer-encoding: chunked\r\n",
        "upgrade: websocket\r\n",
        "0\r\n\r\n",
        "5;a=b\r\n",
    ),
    *("connection: close\r\n", "expect: 100-continue\r\n", "\n", "\r\n ", "hello\r\n", "+5", "0x5", "5, 5"),
)
_HOST = (
    *("http://", "https://", "127.0.0.1", "0x7f", "0177", "2130706433", "[::1]", "[::ffff:", "%31", "%2e"),
    *("１", "①", "。", "@", ":80", "xn--", "localhost", "\\", "#", "?", "%25", "ß"),
)
_CONFIG = (
    *("server:", "bind:", "delivery:", "allow_networks:", "schedule:", "plugins:", "global_webhooks:", "- "),
    *("\n  ", "&a", "*a", "!!python", "<<:", "|", ">", "? ", "${", "${A:-b}", "HOOKGW_SERVER__BIND=", "5s"),
    *("storage:", "path:", "retention:", "events:", "limits:", "log:", "level:", "---", "...", "1e99"),
)
_DATES = ("Sun, 06 Nov 1994 08:49:37 GMT", "-0000", "+9999", "Nov", "99999999999", "1e5", "0.5", "inf", "nan")

_META = (
    *(
        '{"entry":[{"changes":[{"field":"messages","value":{',
        '"messages":[{',
        '"statuses":[{',
        '"contacts":[{',
    ),
    *('"from":"1650"', '"from_user_id":"US.1"', '"id":"w"', '"timestamp":"1"', '"type":"text"', '"text":{'),
    *('"status":"failed"', '"recipient_id":"1650"', '"errors":[{"code":1}]', '"type":"edit"', '"edit":{'),
    *('"type":"interactive"', '"interactive":{', '"context":{', '"referral":{', '"group_id":"g"', "}]}}]}]}"),
)

TARGETS = {
    target.name: target
    for target in (
        Target(answers.answer, _HTTP),
        Target(requests.gate, _REQUEST),
        Target(requests.forwarded, _HOST, longest=96),
        Target(answers.retry_after, _DATES, longest=64),
        Target(bodies.registration, _JSON + _FIELDS),
        Target(bodies.other_bodies, _JSON + _FIELDS),
        Target(bodies.events, _JSON + _EVENT),
        Target(networks.evolution, _JSON + _EVOLUTION),
        Target(networks.webhook, _JSON + _WEBHOOK),
        Target(networks.whatsapp_cloud, _JSON + _META, longest=1024),
        Target(networks.telegram, _JSON + _TELEGRAM, longest=1024),
        Target(networks.waha, _JSON + _WAHA, longest=1024),
        Target(networks.gowa, _JSON + _GOWA, longest=1024),
        Target(networks.qr_picture, ("IHDR", "IDAT"), longest=512),
        Target(texts.configuration, _CONFIG),
        Target(addresses.address, longest=16),
        Target(addresses.host, _HOST, longest=64),
        Target(addresses.url, _HOST, longest=128),
        Target(addresses.proxy, ("socks5://", "s3cret", *_HOST), longest=96),
        Target(texts.json_text, _JSON, longest=256),
        Target(texts.units, ("ms", "KiB", "0.5", "1e9", "w"), longest=32),
        Target(texts.cursor_and_time, ("dlv_", "2026-11-20T12:00:00", ".5", "Z", "+23:59"), longest=48),
        Target(texts.signature, ("\n", "%", "v1,", " ", "v1a,", "msg_1", ".0"), longest=128),
        Target(texts.arrival, ("webhook-id:", "webhook-signature:", "\n\n", *_JSON), longest=256),
    )
}
"""By name."""
