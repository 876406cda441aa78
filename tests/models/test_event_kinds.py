import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from hookgw import EventKind
from tests.public.records import BUILT_IN_KINDS, Catalog

PAYLOADS = sorted((Path(__file__).parents[1] / "payloads").glob("*.json"))
CATALOG = Catalog(BUILT_IN_KINDS)


def fits(kind: EventKind, data: Any) -> bool:
    return jsonschema_rs.validator_for(kind.schema).is_valid(data)


def test_the_built_in_kinds() -> None:
    assert {kind.name: kind.dotted_name for kind in BUILT_IN_KINDS} == {
        "MESSAGES_UPSERT": "messages.upsert",
        "MESSAGES_UPDATE": "messages.update",
        "SEND_MESSAGE": "send.message",
        "CONNECTION_UPDATE": "connection.update",
        "QRCODE_UPDATED": "qrcode.updated",
        "NETWORK_EVENT": "network.event",
    }


@pytest.mark.parametrize("kind", BUILT_IN_KINDS, ids=lambda kind: kind.name)
def test_each_example_satisfies_its_schema(kind: EventKind) -> None:
    jsonschema_rs.meta.validate(kind.schema)
    assert kind.meaning.endswith(".")
    assert fits(kind, kind.example)


@pytest.mark.parametrize("path", PAYLOADS, ids=lambda path: path.stem)
def test_real_payloads_satisfy_the_schemas(path: Path) -> None:
    envelope = json.loads(path.read_text())
    assert fits(CATALOG.resolve(envelope["event"], "event"), envelope["data"])


KEY = {"remoteJid": "5511988887777@s.whatsapp.net", "fromMe": False, "id": "A"}
MESSAGE: dict[str, Any] = {"key": KEY, "message": {"conversation": "hi"}, "messageTimestamp": 1}
UPDATE: dict[str, Any] = {"keyId": "A", "remoteJid": "a@b", "fromMe": True, "status": "READ"}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("MESSAGES_UPSERT", {**MESSAGE, "messageTimestamp": "1"}),
        ("MESSAGES_UPSERT", {**MESSAGE, "messageTimestamp": -1}),
        ("MESSAGES_UPSERT", {**MESSAGE, "status": "SEEN"}),
        ("MESSAGES_UPSERT", {**MESSAGE, "key": {"remoteJid": "a@b", "fromMe": False}}),
        ("MESSAGES_UPSERT", {**MESSAGE, "key": {**KEY, "fromMe": "no"}}),
        ("MESSAGES_UPSERT", {"key": KEY, "messageTimestamp": 1}),
        ("MESSAGES_UPSERT", [MESSAGE]),
        ("SEND_MESSAGE", {"key": KEY, "messageTimestamp": 1, "status": "PENDING"}),
        ("MESSAGES_UPDATE", {**UPDATE, "status": "OPEN"}),
        ("MESSAGES_UPDATE", {"keyId": "A", "remoteJid": "a@b", "fromMe": True}),
        ("MESSAGES_UPDATE", {"remoteJid": "a@b", "fromMe": True, "status": "READ"}),
        ("CONNECTION_UPDATE", {"instance": "shop", "state": "closed"}),
        ("CONNECTION_UPDATE", {"state": "open"}),
        ("QRCODE_UPDATED", {}),
        ("QRCODE_UPDATED", {"qrcode": {"instance": "shop", "code": "2@y"}}),
        ("QRCODE_UPDATED", "code"),
    ],
)
def test_schema_violations(name: str, data: Any) -> None:
    assert not fits(CATALOG.resolve(name, "event"), data)


@pytest.mark.parametrize("kind", BUILT_IN_KINDS, ids=lambda kind: kind.name)
def test_further_fields_are_allowed(kind: EventKind) -> None:
    assert fits(kind, {**kind.example, "more": {"than": "known"}})
