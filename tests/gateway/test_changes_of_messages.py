"""Edits and deletions, in the forms in which networks and gateways tell them."""

from typing import Any

import msgspec
import pytest

from hookgw import Event
from tests.public.messages import MOST_KEPT, Change, Changes, read_change

ANA, OWN, GROUP = "5511988887777@s.whatsapp.net", "5511900000000@s.whatsapp.net", "120363001@g.us"
KEY = {"remoteJid": ANA, "fromMe": False, "id": "A"}
AS_ITS_AUTHOR_SEES_IT = {"remoteJid": OWN, "fromMe": True, "id": "A"}
NEW = {"conversation": "Olá, 2 pizzas"}
EDIT = {
    "key": AS_ITS_AUTHOR_SEES_IT,
    "type": "MESSAGE_EDIT",
    "editedMessage": NEW,
    "timestampMs": "1773027400123",
}
REVOKE = {"key": AS_ITS_AUTHOR_SEES_IT, "type": "REVOKE"}
DISAPPEARING = {"key": KEY, "type": "EPHEMERAL_SETTING", "ephemeralExpiration": 86400}
OTHER_FILE = {"documentMessage": {"mimetype": "image/png"}}
STORED = {"id": "clx7d0000", "key": KEY, "messageType": "conversation", "message": {"conversation": "old"}}


def raw(**message: Any) -> dict[str, Any]:
    return {"key": {**KEY, "id": "EDIT"}, "pushName": "Ana", "message": message}


def in_file(caption: str) -> dict[str, Any]:
    return {"documentWithCaptionMessage": {"message": {"documentMessage": {"caption": caption}}}}


def event(kind: str, data: Any) -> Event:
    encoded = msgspec.json.encode(data)
    return Event(id="msg_1", kind=kind, instance="loja1", data_json=encoded, time=1_773_027_400.0)


def encoded(message: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(message))


@pytest.mark.parametrize(
    ("kind", "data", "content"),
    [
        # hookgw's connectors
        ("MESSAGES_EDITED", {"key": KEY, "message": NEW, "messageType": "conversation"}, NEW),
        ("MESSAGES_EDITED", {"key": KEY, "message": NEW, "editedMessage": NEW}, NEW),
        ("MESSAGES_DELETE", {**KEY, "status": "DELETED"}, None),
        # Evolution API 2.3: a person's deletion has the key alone, its own one the message of its database.
        ("MESSAGES_EDITED", EDIT, NEW),
        ("SEND_MESSAGE_UPDATE", EDIT, NEW),
        ("MESSAGES_EDITED", REVOKE, None),
        ("MESSAGES_DELETE", KEY, None),
        ("MESSAGES_DELETE", {**STORED, "status": "DELETED"}, None),
        # Baileys
        ("MESSAGES_UPSERT", raw(protocolMessage=EDIT), NEW),
        ("MESSAGES_UPSERT", raw(protocolMessage={**EDIT, "type": 14}), NEW),
        ("MESSAGES_UPSERT", raw(editedMessage={"message": {"protocolMessage": EDIT}}), NEW),
        ("MESSAGES_UPSERT", raw(ephemeralMessage={"message": {"protocolMessage": EDIT}}), NEW),
        (
            "SEND_MESSAGE",
            raw(deviceSentMessage={"message": {"protocolMessage": {**REVOKE, "type": 0}}}),
            None,
        ),
        ("SEND_MESSAGE", raw(protocolMessage={**REVOKE, "type": 0}), None),
        ("MESSAGES_UPSERT", {"key": KEY, "message": {"editedMessage": {"message": NEW}}}, NEW),
        ("MESSAGES_EDITED", raw(protocolMessage=EDIT), NEW),
    ],
)
def test_a_change_of_a_message(kind: str, data: Any, content: Any) -> None:
    change = read_change(event(kind, data))
    assert change is not None
    assert change.key["id"] == "A"
    assert change.status == ("DELETED" if content is None else "EDITED")
    assert content == (None if change.message is None else msgspec.json.decode(change.message))


def test_the_chat_of_a_raw_change_is_that_of_the_message_around_it() -> None:
    change = read_change(event("MESSAGES_UPSERT", raw(protocolMessage=EDIT)))
    assert change is not None
    assert change.key == KEY


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("MESSAGES_UPSERT", {"key": KEY, "message": NEW}),
        # Evolution API raises this for each protocol message.
        ("MESSAGES_EDITED", DISAPPEARING),
        ("MESSAGES_UPSERT", raw(protocolMessage=DISAPPEARING)),
        ("MESSAGES_UPSERT", raw(protocolMessage="no object")),
        ("MESSAGES_UPSERT", raw(protocolMessage={**EDIT, "key": None})),
        ("MESSAGES_UPSERT", raw(protocolMessage={**EDIT, "editedMessage": "no object"})),
        ("MESSAGES_UPSERT", raw(editedMessage={"message": None})),
        ("MESSAGES_UPSERT", raw(conversation='"protocolMessage"')),
        ("MESSAGES_EDITED", {"key": {"id": 7}, "message": NEW}),
        ("MESSAGES_EDITED", {"key": "A", "message": NEW}),
        ("MESSAGES_EDITED", [EDIT]),
        ("SEND_MESSAGE_UPDATE", {"key": KEY, "message": NEW, "status": "READ"}),
        ("MESSAGES_DELETE", {"id": "", "remoteJid": ANA}),
        ("MESSAGES_DELETE", None),
        # Evolution API reports an edit so, too.
        ("MESSAGES_UPDATE", {"keyId": "A", "remoteJid": ANA, "fromMe": False, "status": "DELETED"}),
    ],
)
def test_what_changes_no_message(kind: str, data: Any) -> None:
    assert read_change(event(kind, data)) is None


@pytest.mark.parametrize(
    ("before", "new", "after"),
    [
        ({"conversation": "old"}, NEW, NEW),
        # The text of an edit is the caption of a file.
        ({"imageMessage": {"url": "u", "caption": "old"}, "base64": "AA=="}, {"conversation": "new"},
         {"imageMessage": {"url": "u", "caption": "new"}, "base64": "AA=="}),
        (in_file("old"), {"extendedTextMessage": {"text": "new"}}, in_file("new")),
        (in_file("old"), {"documentMessage": {"caption": "new"}}, in_file("new")),
        # Telegram: another file in the place of the former one.
        (in_file("old"), OTHER_FILE, OTHER_FILE),
        # GOWA does not tell a new caption.
        (in_file("old"), {"unknownMessage": {}}, in_file("old")),
        ({"conversation": "old"}, {"imageMessage": {"caption": "new"}}, {"imageMessage": {"caption": "new"}}),
        ({"imageMessage": "no object"}, NEW, NEW),
        ([], NEW, NEW),
    ],
)  # fmt: skip
def test_what_an_edited_message_has(before: Any, new: Any, after: Any) -> None:
    change = Change(KEY, encoded(new))
    assert msgspec.json.decode(change.applied_to(encoded(before))) == after


def test_a_deleted_message_has_what_it_had() -> None:
    assert Change(KEY, None).applied_to(encoded(NEW)) == encoded(NEW)


def test_the_newest_change_counts_in_the_chat_of_its_message() -> None:
    changes, newest = Changes(), Change({"remoteJid": GROUP, "id": "1"}, None)
    assert changes.of(newest.key) is None
    assert changes.add(newest)
    assert not changes.add(Change({"remoteJid": GROUP, "id": "1"}, encoded(NEW)))
    found = changes.of({"remoteJid": GROUP, "id": "1", "participant": ANA})
    assert found is not None
    assert found.status == "DELETED"
    assert changes.of({"remoteJid": "120363002@g.us", "id": "1"}) is None


BIA, ANA_HIDDEN = "5511977776666@s.whatsapp.net", "123456789@lid"
OF_OTHERS = {"remoteJid": GROUP, "fromMe": False, "id": "A"}


@pytest.mark.parametrize(
    ("message", "writer", "edits", "deletes"),
    [
        (KEY, {}, True, True),
        (KEY, {"fromMe": True}, False, False),
        ({**KEY, "fromMe": True}, {}, False, False),
        ({**OF_OTHERS, "participant": ANA}, {"participant": ANA.replace("@", ":12@")}, True, True),
        ({**OF_OTHERS, "participant": ANA}, {"participant": BIA}, False, True),
        ({**OF_OTHERS, "participant": ANA}, {"participant": ANA_HIDDEN}, True, True),
        ({**OF_OTHERS, "participant": ANA}, {"participant": BIA, "participantAlt": ANA_HIDDEN}, False, True),
        ({**OF_OTHERS, "fromMe": True}, {"participant": BIA}, False, True),
    ],
)
def test_who_may_change_a_message(
    message: dict[str, Any], writer: dict[str, Any], edits: bool, deletes: bool
) -> None:
    """A raw message of Baileys comes as its sender made it, whoever wrote what it means to change."""
    told = {"remoteJid": message["remoteJid"], "fromMe": False, "id": "NEW", **writer}
    for protocol, may in ((EDIT, edits), (REVOKE, deletes)):
        changes = Changes()
        data = {"key": told, "message": {"protocolMessage": protocol}}
        change = read_change(event("MESSAGES_UPSERT", data))
        assert change is not None
        changes.add(change)
        assert (changes.of(message) is not None) is may
        older = Change(message, encoded({"conversation": "by the author"}))
        assert not changes.add(older)
        found = changes.of(message)
        assert found is not None
        assert found.message == (change if may else older).message


def test_new_contents_of_a_search_are_bounded() -> None:
    changes, old = Changes(), encoded({"conversation": "old"})
    new = encoded({"conversation": "x" * (MOST_KEPT // 2)})
    for id_ in "ABC":
        changes.add(Change({**KEY, "id": id_}, new))
    found = [changes.of({**KEY, "id": id_}) for id_ in "ABC"]
    assert [one is not None and one.status for one in found] == ["EDITED"] * 3
    assert [one is not None and one.applied_to(old) == old for one in found] == [False, True, True]
