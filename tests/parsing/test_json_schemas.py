"""The JSON schemas and the parsers agree on every body here, once it is spelled as the schemas publish it."""

from collections.abc import Callable
from typing import Any

import jsonschema_rs
import msgspec
import pytest
import trustme

from hookgw import EventKind, Invalid
from hookgw.instances import requests as instance_requests
from hookgw.messages import requests as message_requests
from tests.parsing.test_registrations import SPELLINGS
from tests.public.app import COMPONENTS
from tests.public.deliveries import parse_replay
from tests.public.events import EMIT
from tests.public.instances import parse_creation
from tests.public.kernel import Signature
from tests.public.messages import parse_text_message as parse_text
from tests.public.records import Catalog, FilterOp, Ordering
from tests.public.webhooks import parse_grace, parse_registration, plugin_blocks
from tests.support.certificates import certificate_of
from tests.support.emits import parse_events
from tests.support.spellings import Spelling

CATALOG = Catalog([EventKind(name="MESSAGES_UPSERT", meaning="…"), EventKind(name="CALL", meaning="…")])
NAMES = {"enum": ["MESSAGES_UPSERT", "CALL"]}
SCHEMAS = COMPONENTS | {
    "Ordering": {"enum": [*Ordering]},
    "Signature": {"enum": [*Signature]},
    "FilterOp": {"enum": [*FilterOp]},
    "KindName": NAMES,
    "AnyKindName": NAMES,
    "ConnectorName": {"enum": ["simulator"]},
    "PluginBlocks": plugin_blocks(["signed"]),
    "EmitRequest": EMIT,
}
PARSERS: dict[str, Callable[[Any], object]] = {
    "RegistrationRequest": lambda body: parse_registration(body, CATALOG),
    "RegistrationUpdate": lambda body: parse_registration(body, CATALOG, stored_enabled=True),
    "RotateRequest": parse_grace,
    "CreateRequest": lambda body: parse_creation(body, CATALOG),
    "SendTextRequest": parse_text,
    "SendMediaRequest": message_requests.parse_media_message,
    "SendAudioRequest": message_requests.parse_audio_message,
    "SendLocationRequest": message_requests.parse_location_message,
    "SendContactRequest": message_requests.parse_contact_message,
    "SendReactionRequest": message_requests.parse_reaction_message,
    "SendTemplateRequest": message_requests.parse_template_message,
    "MarkReadRequest": message_requests.parse_read_messages,
    "SendPresenceRequest": message_requests.parse_presence,
    "UpdateMessageRequest": message_requests.parse_edit,
    "DeleteMessageRequest": message_requests.parse_deletion,
    "NumbersRequest": message_requests.parse_numbers,
    "ChatQueryRequest": message_requests.parse_chat_query,
    "OptionsRequest": instance_requests.parse_option_changes,
    "SettingsRequest": instance_requests.parse_settings,
    "PresenceRequest": instance_requests.parse_presence_of_account,
    "TagsRequest": instance_requests.parse_tags,
    "ReplayRequest": lambda body: parse_replay(body, CATALOG, now=1_800_000_000.0),
    "EmitRequest": lambda body: parse_events(msgspec.json.encode(body), "loja1", CATALOG, now=0.0),
}
URL = "https://crm.example/hook"
FILTER: dict[str, Any] = {"pointer": "/data/a", "op": "equals", "value": "x"}
SECRET = "whsec_" + "A" * 32
CERTIFICATE, CERTIFICATE_KEY = certificate_of(trustme.CA())
UPDATE = "RegistrationUpdate"
EVENT = {"event": "call", "data": {}}


def fits(name: str, body: Any) -> bool:
    schema = {"$ref": f"#/components/schemas/{name}"}
    spelled = Spelling(SCHEMAS, CATALOG).of(schema, body)
    return jsonschema_rs.is_valid(
        schema | {"components": {"schemas": SCHEMAS}}, spelled, validate_formats=True
    )


def is_taken(name: str, body: Any) -> bool:
    try:
        PARSERS[name](body)
    except Invalid:
        return False
    return True


def conditions(change: dict[str, Any], *values: Any) -> list[dict[str, Any]]:
    return [{"filter": [FILTER | change | {"value": value}]} for value in values]


def each(name: str, *values: Any) -> list[dict[str, Any]]:
    """An object for each value, with the value under a name."""
    return [{name: value} for value in values]


def with_url(*bodies: dict[str, Any]) -> list[tuple[str, Any]]:
    flat = [("RegistrationRequest", {"url": URL} | body) for body in bodies]
    return flat + [("RegistrationRequest", {"webhook": {"url": URL} | body}) for body in bodies]


TO: dict[str, Any] = {"number": "55"}
TEXT = TO | {"text": "Oi"}
KEY = {"remoteJid": "55@c", "id": "M1"}
MEDIA = TO | {"mediatype": "image", "media": "SGVsbG8="}
PLACE = TO | {"latitude": -90, "longitude": 180.0}
CARDS = TO | {"contact": [{"fullName": "Ana"}]}
TEMPLATE = TO | {"name": "ready", "language": "pt_BR"}
REACTION = {"key": KEY, "reaction": ""}
QUOTES = each(
    "quoted",
    None,
    {},
    [],
    {"message": []},
    {"key": None},
    {"key": {"id": "M1"}},
    {"key": KEY | {"fromMe": True}},
)
BAD_QUOTES = each("quoted", 1, {"key": 1}, {"key": {}}, {"key": {"id": ""}}, {"key": KEY | {"fromMe": 1}})
BAD_QUOTES += each("quoted", {"message": [1]}, {"key": None, "message": "Oi"})
QUERIES: tuple[Any, ...] = ({}, [], {"where": [], "page": None, "offset": 0, "take": 5}, {"where": None})

MESSAGES: list[tuple[str, Any]] = [
    *(
        (name, body | quoted)
        for name, body in (
            ("SendTextRequest", TEXT),
            ("SendMediaRequest", MEDIA),
            ("SendLocationRequest", PLACE),
            ("SendContactRequest", CARDS),
            ("SendTemplateRequest", TEMPLATE),
        )
        for quoted in (*QUOTES, *({"options": quoted} for quoted in QUOTES), {"options": None})
    ),
    *(
        ("SendTextRequest", TEXT | more)
        for more in (
            *each("mentioned", None, [], ["55", 66]),
            {"options": {"mentioned": ["55"], "linkPreview": None}},
            {"mentions": {"mentioned": ["55"], "everyOne": True}},
            {"options": {"mentions": {"mentioned": None}, "delay": 5}},
            {"delay": 60_000, "mentionsEveryOne": True},
            {"delay": None, "mentionsEveryOne": None},
            {"mentioned": ["55"], "mentions": 5},
            {"linkPreview": True, "options": {"linkPreview": "no"}},
        )
    ),
    *(
        ("SendMediaRequest", MEDIA | more)
        for more in (
            *each("media", "https://x/y", "HTTP://x", "SGVsbG8", "data:image/png;base64,SGVsbG8="),
            {"mediatype": None, "mediaType": "video"},
            {"caption": "", "fileName": None, "mimetype": "image/png"},
            {"mediaMessage": None},
        )
    ),
    ("SendMediaRequest", TO | {"mediaMessage": MEDIA}),
    ("SendMediaRequest", TO | {"mediatype": "audio", "mediaMessage": {"media": "SGVsbG8="}}),
    ("SendAudioRequest", TO | {"audio": "SGVsbG8="}),
    ("SendAudioRequest", TO | {"audioMessage": {"audio": "https://x/y"}}),
    ("SendLocationRequest", PLACE | {"name": "", "address": None}),
    ("SendLocationRequest", TO | {"locationMessage": PLACE}),
    ("SendContactRequest", TO | {"contactMessage": [{"fullName": "Ana", "phoneNumber": 55, "url": ""}]}),
    ("SendReactionRequest", REACTION),
    ("SendReactionRequest", {"reactionMessage": REACTION}),
    ("SendTemplateRequest", TEMPLATE | {"components": [{}]}),
    ("SendTemplateRequest", TO | {"templateMessage": TEMPLATE}),
    ("MarkReadRequest", {"readMessages": [KEY, KEY | {"participant": "1"}]}),
    ("MarkReadRequest", {"readMessages": None, "read_messages": [KEY]}),
    *(("SendPresenceRequest", TO | {"presence": "composing"} | more) for more in each("delay", None, 0, 1.5)),
    ("SendPresenceRequest", TO | {"options": {"presence": "paused", "delay": 300_000}}),
    ("UpdateMessageRequest", {"key": KEY, "text": "Oi"}),
    ("UpdateMessageRequest", {"key": KEY, "text": "Oi", "number": 55}),
    ("DeleteMessageRequest", KEY | {"fromMe": None, "participant": None}),
    ("NumbersRequest", {"numbers": ["55", 66]}),
    ("OptionsRequest", {}),
    ("OptionsRequest", []),
    ("OptionsRequest", {"server": "x", "rate": None, "more": {"a": []}}),
    ("SettingsRequest", {}),
    ("SettingsRequest", []),
    ("SettingsRequest", {"rejectCall": True, "msg_call": "", "unknown": 1}),
    ("SettingsRequest", {"rejectCall": None, "wavoipToken": "********", "msgCall": "x" * 4096}),
    *(("PresenceRequest", {"presence": word}) for word in ("available", "unavailable")),
    *(("TagsRequest", body) for body in each("tags", {}, [], {"tenant": "acme"}, {"a" * 64: "._@-"})),
    *(("CreateRequest", {"instanceName": "loja1"} | body) for body in each("tags", None, {}, {"a": "b"})),
    *(("ChatQueryRequest", body) for body in QUERIES),
    ("ChatQueryRequest", {"where": {"remoteJid": "55", "id": None, "pushName": "Ana"}}),
]
WORDS: tuple[Any, ...] = (None, "typing", 1)
NO_KEYS: tuple[Any, ...] = (None, [], [{}], [KEY] * 501, KEY)
BAD_QUERIES: tuple[Any, ...] = (None, 1, [1], {"where": 1}, {"page": -1}, {"offset": 1.5}, {"limit": "1"})
BAD_TAGS: tuple[Any, ...] = (None, [1], "a=b", {"a": 1}, {"": "x"}, {"a b": "x"}, {"a": "x" * 65})
BAD_TAGS += ({f"n{n}": "x" for n in range(17)},)
BAD_MESSAGES: list[tuple[str, Any]] = [
    *(
        (name, body | quoted)
        for name, body in (
            ("SendTextRequest", TEXT),
            ("SendMediaRequest", MEDIA),
            ("SendLocationRequest", PLACE),
        )
        for quoted in (*BAD_QUOTES, *({"options": quoted} for quoted in BAD_QUOTES))
    ),
    *(
        ("SendTextRequest", TEXT | more)
        for more in (
            *each("mentioned", 1, [1.5], ["55"] * 501),
            {"options": {"mentioned": 1}},
            {"mentions": {"mentioned": [None]}},
            {"linkPreview": 1},
        )
    ),
    *(
        ("SendMediaRequest", MEDIA | more)
        for more in (
            *each("media", None, "", "?", "http://", "https://x y", "data:image/png,x", 1),
            *each("mediatype", None, "film", 1),
            {"caption": 1},
            {"fileName": "x" * 1025},
        )
    ),
    ("SendMediaRequest", {"mediaMessage": MEDIA}),
    ("SendAudioRequest", TO),
    *(("SendLocationRequest", PLACE | more) for more in each("latitude", None, 91, "1", True)),
    *(("SendLocationRequest", PLACE | more) for more in each("name", 1, "x" * 1025)),
    *(("SendContactRequest", TO | more) for more in each("contact", None, [], [1], [{}], [{"fullName": ""}])),
    *(("SendReactionRequest", REACTION | more) for more in each("reaction", None, 1, "x" * 65)),
    *(("SendReactionRequest", REACTION | more) for more in each("key", None, {}, {"id": "M1"}, 1)),
    *(("SendTemplateRequest", TEMPLATE | more) for more in each("components", 1, [1], [{}] * 101)),
    *(("MarkReadRequest", {"readMessages": keys}) for keys in NO_KEYS),
    *(("SendPresenceRequest", TO | {"presence": word}) for word in WORDS),
    *(
        ("SendPresenceRequest", TO | {"presence": "paused"} | more)
        for more in each("delay", -1, "1", 300_001)
    ),
    ("UpdateMessageRequest", {"key": KEY}),
    ("UpdateMessageRequest", {"key": KEY, "text": "Oi", "number": ""}),
    ("DeleteMessageRequest", {"id": "M1"}),
    ("DeleteMessageRequest", KEY | {"fromMe": "true"}),
    ("OptionsRequest", [1]),
    ("SettingsRequest", [1]),
    *(("SettingsRequest", {name: 1}) for name in ("rejectCall", "read_status", "msgCall", "wavoip_token")),
    ("SettingsRequest", {"msgCall": "x" * 4097}),
    *(("PresenceRequest", body) for body in ({}, *each("presence", None, "composing", 1))),
    *(("TagsRequest", body) for body in ({"tags": {}, "more": 1}, *each("tags", *BAD_TAGS))),
    *(("CreateRequest", {"instanceName": "loja1"} | body) for body in each("tags", *BAD_TAGS[1:])),
    *(("CreateRequest", {"instanceName": "loja1"} | body) for body in each("readStatus", "x", 1)),
    *(("NumbersRequest", body) for body in each("numbers", None, [], [None], ["55"] * 501, "55")),
    *(("ChatQueryRequest", body) for body in BAD_QUERIES),
    *(("ChatQueryRequest", {"where": where}) for where in each("remoteJid", "", 1)),
]

GOOD: list[tuple[str, Any]] = [
    *MESSAGES,
    *(
        ("RegistrationRequest", body)
        for body in each("url", URL, "HTTP://u:p@[::1]:80", URL + "/" * (2048 - len(URL)))
    ),
    ("RegistrationRequest", {"url": "vazio", "enabled": False}),
    ("RegistrationRequest", {"webhook": URL, "events": ["call"]}),
    ("RegistrationRequest", {"webhook": URL, "url": "x"}),
    ("RegistrationRequest", {"webhook": {"url": "vazio"}, "enabled": False}),
    ("RegistrationRequest", {"webhook": {"enabled": False}, "url": "vazio"}),
    ("RegistrationRequest", {"webhook": {"enabled": False}, "url": "vazio", "enabled": True}),
    ("RegistrationRequest", {"webhook": {"events": []}, "url": URL, "enabled": None}),
    ("RegistrationRequest", {"webhook": {"url": None}, "url": URL}),
    ("RegistrationRequest", {"webhook": "vazio", "enabled": False}),
    ("RegistrationRequest", {"webhook": None, "url": URL}),
    *with_url(
        {"events": []},
        {"events": ["call", "messages.upsert"], "enabled": None, "byEvents": True, "webhook_base64": False},
        {"headers": {"x-a": "b c", "y": ""}},
        {"secret": SECRET},
        {"secret": SECRET + "AA=="},
        {"secret": "whsec_" + "A" * 86 + "=="},
        {"ordering": "chat", "concurrency": 64},
        {"ordering": "instance", "concurrency": 16},
        {"timeout": "100ms"},
        {"timeout": None, "retry": None, "secret": None, "ordering": None, "concurrency": None},
        {"retry": {"schedule": ["1s", "0", 0], "maxAge": "1.5h", "disableAfter": None}},
        {"plugins": {"signed": []}},
        {"headers": [], "retry": [], "plugins": [], "tls": []},
        *each("tls", None, {}, {"ca": None, "serverName": "receiver.internal"}, {"ca": CERTIFICATE}),
        *each("tls", {"clientCertificate": CERTIFICATE, "clientKey": CERTIFICATE_KEY}),
        *each("filter", None, []),
        *conditions({"pointer": "/data/a~1/0"}, "x", "", 1, -1.5, True, None),
        *conditions({"op": "notIn"}, ["x"], [1, None, "y"]),
        *conditions({"op": "prefix"}, "x"),
        *conditions({"op": "notExists"}, None),
        {"filter": [{"pointer": "/sender", "op": "exists"}]},
        {"concurrency": 5.0},
        {"odd": 1},
    ),
    *((UPDATE, body) for body in ({}, *each("url", None, URL), *each("events", None, ["call"]))),
    *((UPDATE, body) for body in each("enabled", None, True, False)),
    *(("RotateRequest", body) for body in each("grace", None, 0, "0", "24 H")),
    ("CreateRequest", {"instanceName": "loja1", "token": "", "integration": "EVOLUTION"}),
    ("CreateRequest", {"instanceName": "loja1", "integration": "simulator", "webhook": {"url": URL}}),
    ("CreateRequest", {"instanceName": "loja1", "webhook": URL, "events": ["call"]}),
    ("CreateRequest", {"instanceName": "loja1", "events": 1}),
    *(("CreateRequest", {"instanceName": "loja1"} | body) for body in each("webhook", "", {}, [], None)),
    ("SendTextRequest", {"number": 5511.0, "text": "Oi"}),
    ("SendTextRequest", {"number": "5511", "textMessage": {"text": "Oi"}}),
    ("SendTextRequest", {"number": "5511", "text": None, "textMessage": {"text": "Oi"}}),
    ("SendTextRequest", {"number": "5511", "text": "Oi", "textMessage": {"text": ""}}),
    ("SendTextRequest", {"number": "5511", "text": "x" * 65_536}),
    *(("ReplayRequest", body) for body in each("since", "2h", "2026-11-20T12:00:00Z")),
    ("ReplayRequest", {"since": "2h", "until": "1h", "state": "all", "kinds": ["call"], "label": "crm"}),
    *(("EmitRequest", body) for body in (EVENT, [EVENT, EVENT], [])),
    ("EmitRequest", EVENT | {"id": "a_-9", "date_time": "2026-11-20T12:00:00Z", "sender": "s"}),
    ("EmitRequest", EVENT | {"data": None, "id": None, "destination": URL}),
]

MAY_BE_EMPTY = (
    "RegistrationUpdate",
    "RotateRequest",
    "ChatQueryRequest",
    "OptionsRequest",
    "SettingsRequest",
    "ReplayRequest",  # by its schema: it must have one of two fields
)
BAD: list[tuple[str, Any]] = [
    *BAD_MESSAGES,
    *((name, body) for name in PARSERS for body in (1, "x", True)),
    *((name, {}) for name in PARSERS if name not in MAY_BE_EMPTY),
    *(("RegistrationRequest", body) for body in each("url", None, 1, "", "ftp:x", URL + "/" * 2048)),
    ("RegistrationRequest", {"webhook": {}}),
    ("RegistrationRequest", {"webhook": {"enabled": True}, "url": "vazio", "enabled": False}),
    ("RegistrationRequest", {"webhook": {"enabled": True, "url": "vazio"}, "enabled": False}),
    ("RegistrationRequest", {"webhook": {"url": "vazio"}, "url": URL}),
    ("RegistrationRequest", {"webhook": {"url": None}}),
    ("RegistrationRequest", {"webhook": "vazio", "url": URL}),
    ("RegistrationRequest", {"url": "x" * 2049, "enabled": False}),
    *with_url(
        *each("events", "call", ["odd"], [1], {}),
        *({name: "yes"} for name in ("enabled", "byEvents", "webhookBase64")),
        *each("headers", [1], {"a b": ""}, {"a": 1}, {"a": "b\n"}, {"": "x"}),
        {"headers": {f"x-{number}": "" for number in range(33)}},
        *each("secret", "", "x", SECRET[:-4], SECRET + "A", SECRET + "A" * 80),
        *each("concurrency", 0, 65, "1", 1.5, True),
        *each("ordering", "odd", 1),
        *each("timeout", 1, "1", "1 year", [], "-1s"),
        *each("retry", [1], {"schedule": "1s"}, {"schedule": ["1s"] * 101}),
        *each("plugins", [1], {"signed": 1}),
        *each(
            "tls", [1], "x", {"ca": ""}, {"ca": "x"}, {"serverName": ""}, {"clientKey": "x"}, {"cert": "x"}
        ),
        *each("filter", {}, [1], [{}], [FILTER] * 21),
        *(
            {"filter": [FILTER | more]}
            for more in each(
                "pointer",
                None,
                "",
                "a",
                "/x",
                "/data/~",
                '/data/"',
                "/data/\\",
                "/data/\n",
                "/data" + "/x" * 16,
            )
        ),
        *({"filter": [FILTER | more]} for more in each("op", None, "like", 1)),
    ),
    *((UPDATE, body) for body in (*each("url", 1, "", "ftp:x"), *each("events", "call", [1]))),
    *((UPDATE, body) for body in (*each("enabled", 1, "no"), *each("timeout", 1, "1 year"))),
    *(("RotateRequest", body) for body in each("grace", 1, "x", [])),
    ("CreateRequest", {"instanceName": 1}),
    ("CreateRequest", {"instanceName": "loja1", "webhook": {"events": []}}),
    ("CreateRequest", {"instanceName": "loja1", "token": 1}),
    *(("SendTextRequest", {"number": number, "text": "Oi"}) for number in ("", "1" * 256, None, 1.5, True)),
    *(("SendTextRequest", {"number": "1", "text": text}) for text in ("", "x" * 65_537, 1)),
    ("SendTextRequest", {"number": "1", "textMessage": {}}),
    ("SendTextRequest", {"number": "1", "textMessage": {"text": ""}}),
    *(("ReplayRequest", body) for body in each("since", 5, "x")),
    *(
        ("ReplayRequest", {"since": "2h"} | more)
        for more in ({"state": "odd"}, {"kinds": ["odd"]}, {"label": ""})
    ),
    *(("EmitRequest", body) for body in ({"event": "call"}, {"data": 1}, [1], EVENT | {"event": "odd"})),
    *(("EmitRequest", EVENT | {"id": given}) for given in ("", "a b", "x" * 256, 1)),
    ("EmitRequest", EVENT | {"sender": "x" * 2049}),
    ("EmitRequest", EVENT | {"date_time": "1969-12-31T23:59:59Z"}),
    ("CreateRequest", {"instanceName": "loja1", "webhook": URL, "events": 1}),
]

UNPUBLISHED: list[tuple[str, Any]] = [
    *(("SendTextRequest", TEXT | {name: 1}) for name in ("mentions", "textMessage", "options")),
    *(("SendMediaRequest", MEDIA | more) for more in ({"mediaType": "film"}, {"mediaMessage": 1})),
    ("SendContactRequest", CARDS | {"contactMessage": 1}),
    ("SendContactRequest", CARDS | {"contactMessage": []}),
    ("MarkReadRequest", {"readMessages": [KEY], "read_messages": []}),
    *(("OptionsRequest", {name: 1}) for name in ("token", "rejectCall", "read_status", "qrcode")),
    ("RegistrationRequest", {"webhook": 1, "url": URL}),
    ("RegistrationRequest", {"url": URL, "byEvents": True, "webhook_by_events": 1}),
    ("RegistrationRequest", {"url": URL, "retry": {"maxAge": 0}}),
    # What is in a PEM text, and whether its parts belong together.
    *with_url(
        {"tls": {"ca": "-----BEGIN CERTIFICATE-----"}},
        *each("tls", {"clientCertificate": CERTIFICATE}, {"clientKey": CERTIFICATE_KEY}),
        {"tls": {"serverName": "two words"}},
    ),
    # The operation decides what its value may be.
    *with_url(
        *({"filter": [FILTER | more]} for more in each("value", [], {}, "x" * 1025, 2**63)),
        {"filter": [{"pointer": "/data", "op": "equals"}]},
        *(
            {"filter": [FILTER | {"op": "in"} | more]}
            for more in each("value", "x", [], [[]], ["x"] * 501, None)
        ),
        *({"filter": [FILTER | {"op": "notPrefix"} | more]} for more in each("value", "", 1, None)),
        {"filter": [FILTER | {"op": "exists"}]},
    ),
]
"""Mistakes in fields and values that no schema publishes."""


@pytest.mark.parametrize(
    ("bodies", "fit", "taken"),
    [(GOOD, True, True), (BAD, False, False), (UNPUBLISHED, True, False)],
    ids=["good", "bad", "a mistake that no schema publishes"],
)
def test_the_schemas_and_the_parsers_agree(bodies: list[tuple[str, Any]], fit: bool, taken: bool) -> None:
    verdicts = [(name, body, fits(name, body), is_taken(name, body)) for name, body in bodies]
    assert [one for one in verdicts if one[2:] != (fit, taken)] == []


@pytest.mark.parametrize("body", SPELLINGS[:2])
def test_the_known_dialects_fit(body: dict[str, Any]) -> None:
    assert fits("RegistrationRequest", body)


def test_every_schema_is_one() -> None:
    for schema in SCHEMAS.values():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
