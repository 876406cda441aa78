"""The built-in event kinds. No I/O.

The schemas use a small part of JSON Schema 2020-12: ``type``, ``properties``, ``required``, ``enum``,
``anyOf`` and ``minimum``. They describe what receivers rely on; further fields are always allowed.
"""

from __future__ import annotations

from typing import Any

from hookgw.records.events import EventKind

MAX_KINDS = 1_000
"""Kinds in a list of a request."""
MESSAGE_STATUSES = ("PENDING", "SERVER_ACK", "DELIVERY_ACK", "READ", "PLAYED", "DELETED", "ERROR")
"""The states of a message, in the words of the HTTP API."""
# Of accounts of the Cloud API, Evolution API passes on Meta's words.
_STATUS = {"enum": [*MESSAGE_STATUSES, "SENT", "DELIVERED", "FAILED"]}

_TEXT: dict[str, Any] = {"type": "string"}
_TEXT_OR_NULL: dict[str, Any] = {"type": ["string", "null"]}
_KEY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "remoteJid": _TEXT,
        "fromMe": {"type": "boolean"},
        "id": _TEXT,
        "participant": _TEXT_OR_NULL,
    },
    "required": ["remoteJid", "fromMe", "id"],
}
_MESSAGE_FIELDS: dict[str, Any] = {
    "key": _KEY,
    "pushName": _TEXT_OR_NULL,
    "message": {"type": "object"},
    "messageType": _TEXT,
    "messageTimestamp": {"type": "integer", "minimum": 0},
    "status": _STATUS,
    "source": _TEXT,
}
_MESSAGE_REQUIRED = ["key", "message", "messageTimestamp"]

BUILT_IN_KINDS: tuple[EventKind, ...] = (
    EventKind(
        name="MESSAGES_UPSERT",
        meaning="A message arrived, or one was sent from another device of the account.",
        schema={"type": "object", "properties": _MESSAGE_FIELDS, "required": _MESSAGE_REQUIRED},
        example={
            "key": {
                "remoteJid": "5511988887777@s.whatsapp.net",
                "fromMe": False,
                "id": "3EB0C0BD05DCA97A7C09CB",
            },
            "pushName": "Ana",
            "message": {"conversation": "Are you open tomorrow?"},
            "messageType": "conversation",
            "messageTimestamp": 1773027345,
            "source": "android",
        },
    ),
    EventKind(
        name="MESSAGES_UPDATE",
        meaning="The status of a message changed: sent, delivered, read, played, deleted or failed.",
        schema={
            "type": "object",
            "properties": {
                "keyId": _TEXT,
                "id": _TEXT,
                "remoteJid": _TEXT,
                "fromMe": {"type": "boolean"},
                "participant": _TEXT_OR_NULL,
                "status": _STATUS,
                # Any value: each network reports errors in its own form.
                "error": {},
            },
            "required": ["remoteJid", "fromMe", "status"],
            # Evolution API 1 has the message as "id".
            "anyOf": [{"required": ["keyId"]}, {"required": ["id"]}],
        },
        example={
            "keyId": "3EB0F5A1B2C3D4",
            "remoteJid": "5511988887777@s.whatsapp.net",
            "fromMe": True,
            "status": "READ",
        },
    ),
    EventKind(
        name="SEND_MESSAGE",
        meaning="A message was sent through the gateway.",
        # Evolution API 1 has no status here.
        schema={"type": "object", "properties": _MESSAGE_FIELDS, "required": _MESSAGE_REQUIRED},
        example={
            "key": {"remoteJid": "5511988887777@s.whatsapp.net", "fromMe": True, "id": "3EB0F5A1B2C3D4"},
            "message": {"conversation": "Yes, from 9 to 18."},
            "messageType": "conversation",
            "messageTimestamp": 1773027420,
            "status": "PENDING",
            "source": "web",
        },
    ),
    EventKind(
        name="CONNECTION_UPDATE",
        meaning="The state of the instance's connection changed.",
        schema={
            "type": "object",
            "properties": {
                "instance": _TEXT,
                # Evolution API also reports "refused", when no code was scanned in time.
                "state": {"enum": ["connecting", "open", "close", "refused"]},
                "statusReason": {"type": "integer"},
                "wuid": _TEXT,
                "profileName": _TEXT_OR_NULL,
            },
            "required": ["instance", "state"],
        },
        example={
            "instance": "shop",
            "state": "open",
            "statusReason": 200,
            "wuid": "5511999999999@s.whatsapp.net",
            "profileName": "Shop",
        },
    ),
    EventKind(
        name="QRCODE_UPDATED",
        meaning="A new code to connect the account is available, or no further code will come.",
        schema={
            "type": "object",
            "properties": {
                "qrcode": {
                    "type": "object",
                    "properties": {
                        "instance": _TEXT,
                        "code": _TEXT,
                        "base64": _TEXT,
                        "pairingCode": _TEXT_OR_NULL,
                    },
                    "required": ["instance", "code", "base64"],
                },
                "message": _TEXT,
                "statusCode": {"type": "integer"},
            },
            # Evolution API sends the same kind with a message alone once its limit of codes is reached.
            "anyOf": [{"required": ["qrcode"]}, {"required": ["message"]}],
        },
        example={
            "qrcode": {
                "instance": "shop",
                "code": "2@y8eKbjtEjUWy9FOM",
                "base64": "data:image/png;base64,iVBORw0KGgo=",
                "pairingCode": "WZYEH1YY",
            }
        },
    ),
    EventKind(
        name="NETWORK_EVENT",
        meaning="The network reported something that hookgw has no kind for.",
        schema={
            "type": "object",
            "properties": {"network": _TEXT, "name": _TEXT, "value": {}},
            "required": ["network", "name", "value"],
        },
        example={
            "network": "whatsapp_cloud",
            "name": "account_update",
            "value": {"event": "VERIFIED_ACCOUNT"},
        },
    ),
)
"""Every catalog starts with these kinds."""
