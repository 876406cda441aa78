"""What GOWA reports, by its docs/webhook-payload.md, and the events of hookgw."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.gowa.events import _TRANSLATORS, Account, translate
from tests.first_party.gowa import ANA, BOB, GROUP, LID, data_of, link

TIME = "2026-11-20T12:00:00Z"
SECONDS = 1795176000
ABOUT = {
    "id": "3EB0C127D7BACC83D6A1",
    "chat_id": ANA,
    "from": ANA,
    "from_name": "Ana",
    "sender_display_name": "Ana Lima",
    "timestamp": TIME,
    "is_from_me": False,
}
KEY = {"remoteJid": ANA, "fromMe": False, "id": "3EB0C127D7BACC83D6A1"}
FILE = link(f"{ANA} 3EB0C127D7BACC83D6A1", mimetype="image/jpeg")


def message_of(**content: Any) -> dict[str, Any]:
    [(kind, data)] = data_of("message", {**ABOUT, **content})
    assert kind == "MESSAGES_UPSERT"
    assert (data["key"], data["pushName"], data["messageTimestamp"]) == (KEY, "Ana", SECONDS)
    assert list(data["message"]) == [data["messageType"]]
    found: dict[str, Any] = data
    return found


VCARD = {"displayName": "Bob", "vcard": "BEGIN:VCARD\nEND:VCARD", "phone_number": "+55 11"}
PLACE = {"degreesLatitude": -23.5, "degreesLongitude": -46.6, "name": "Sé", "address": "Centro"}
CONTENTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"body": "hi"}, {"conversation": "hi"}),
    # With auto-download: a path, or a path and a caption. Without: WhatsApp's URL, of the encrypted file.
    ({"image": "statics/media/1.jpeg"}, {"imageMessage": {"mimetype": "image/jpeg", "url": FILE}}),
    (
        {"image": {"path": "statics/media/1.jpeg", "caption": "look"}, "body": "look"},
        {"imageMessage": {"mimetype": "image/jpeg", "caption": "look", "url": FILE}},
    ),
    (
        {"image": {"url": "https://mmg.whatsapp.net/x", "caption": "look"}, "body": "look"},
        {"imageMessage": {"mimetype": "image/jpeg", "caption": "look", "url": FILE}},
    ),
    (
        {"video": {"path": "statics/media/1.mp4", "caption": "look"}, "body": "look"},
        {
            "videoMessage": {
                "mimetype": "video/mp4",
                "caption": "look",
                "url": FILE.replace("image/jpeg", "video/mp4"),
            }
        },
    ),
    (
        {"video_note": "statics/media/1.mp4"},
        {"ptvMessage": {"mimetype": "video/mp4", "url": FILE.replace("image/jpeg", "video/mp4")}},
    ),
    (
        {"audio": "statics/media/1.ogg"},
        {"audioMessage": {"mimetype": "audio/ogg", "url": FILE.replace("image/jpeg", "audio/ogg")}},
    ),
    (
        {"sticker": "statics/media/1.webp"},
        {"stickerMessage": {"mimetype": "image/webp", "url": FILE.replace("image/jpeg", "image/webp")}},
    ),
    (
        {"document": {"url": "https://mmg.whatsapp.net/x", "filename": "report.pdf"}},
        {
            "documentMessage": {
                "mimetype": "application/pdf",
                "fileName": "report.pdf",
                "url": link(
                    f"{ANA} 3EB0C127D7BACC83D6A1", mimetype="application/pdf", file_name="report.pdf"
                ),
            }
        },
    ),
    (
        {"image": "statics/media/1.jpeg", "view_once": True},
        {"imageMessage": {"mimetype": "image/jpeg", "url": FILE, "viewOnce": True}},
    ),
    ({"contact": VCARD}, {"contactMessage": VCARD}),
    ({"contacts_array": [VCARD, VCARD]}, {"contactsArrayMessage": {"contacts": [VCARD, VCARD]}}),
    ({"location": PLACE}, {"locationMessage": PLACE}),
    ({"live_location": PLACE}, {"liveLocationMessage": PLACE}),
    ({"list": {"title": "Menu"}}, {"listMessage": {"title": "Menu"}}),
    (
        {"order": {"orderID": "1", "sellerJID": BOB, "contextInfo": {"mentionedJID": [BOB]}}},
        {"orderMessage": {"orderId": "1", "sellerJid": BOB, "contextInfo": {"mentionedJid": [BOB]}}},
    ),
    ({"interactive": "Open: https://x"}, {"interactiveMessage": {"body": {"text": "Open: https://x"}}}),
    # What GOWA has no words for: polls, answers to lists and buttons.
    ({}, {"unknownMessage": {}}),
    # What it may have words for one day.
    ({"poll_created": {"name": "When?"}}, {"pollCreatedMessage": {"name": "When?"}}),
    ({"event": "Party"}, {"eventMessage": {"value": "Party"}}),
]


@pytest.mark.parametrize(("content", "message"), CONTENTS, ids=str)
def test_every_content_is_passed_on_as_gowa_tells_it(
    content: dict[str, Any], message: dict[str, Any]
) -> None:
    assert message_of(**content)["message"] == message


def test_the_context_of_a_message() -> None:
    data = message_of(body="yes", replied_to_id="A", quoted_body="ok?", forwarded=True)
    quoted = {"stanzaId": "A", "quotedMessage": {"conversation": "ok?"}, "isForwarded": True}
    assert data["contextInfo"] == quoted
    referral = {
        "ctwa_clid": "clid",
        "ad_title": "Farm",
        "ad_body": "Rural",
        "source_url": "https://fb.example",
    }
    assert message_of(body="hi", referral=referral)["contextInfo"]["externalAdReply"] == {
        "ctwaClid": "clid",
        "title": "Farm",
        "body": "Rural",
        "sourceUrl": "https://fb.example",
    }


def test_groups_own_messages_and_hidden_ids() -> None:
    group = {**ABOUT, "chat_id": GROUP, "from": BOB, "from_lid": LID, "body": "hi"}
    [(_, data)] = data_of("message", group)
    assert data["key"] == {**KEY, "remoteJid": GROUP, "participant": BOB, "participantLid": LID}
    [(_, data)] = data_of(
        "message", {**ABOUT, "chat_lid": LID, "is_from_me": True, "from": BOB, "body": "hi"}
    )
    assert data["key"] == {**KEY, "fromMe": True, "remoteJidLid": LID}
    # Older accounts name the device, too.
    [(_, data)] = data_of("message", {**ABOUT, "chat_id": ANA.replace("@", ":12@"), "body": "hi"})
    assert data["key"] == KEY


def test_reactions_edits_and_deletions() -> None:
    reaction = {**ABOUT, "reaction": "👍", "reacted_message_id": "A"}
    [(kind, data)] = data_of("message.reaction", reaction)
    assert (kind, data["messageType"]) == ("MESSAGES_UPSERT", "reactionMessage")
    assert data["message"]["reactionMessage"] == {"key": {"remoteJid": ANA, "id": "A"}, "text": "👍"}

    [(kind, data)] = data_of("message.edited", {**ABOUT, "original_message_id": "A", "body": "new"})
    assert (kind, data["key"]["id"], data["message"]) == ("MESSAGES_EDITED", "A", {"conversation": "new"})
    # Of a new caption, GOWA does not tell the text.
    [(kind, data)] = data_of("message.edited", {**ABOUT, "original_message_id": "A"})
    assert (kind, data["key"]["id"], data["message"]) == ("MESSAGES_EDITED", "A", {"unknownMessage": {}})
    assert data["messageType"] == "unknownMessage"

    revoked = {**ABOUT, "revoked_message_id": "A", "revoked_from_me": True, "revoked_chat": ANA}
    [(kind, data)] = data_of("message.revoked", revoked)
    deleted = {**KEY, "id": "A", "status": "DELETED", "messageTimestamp": SECONDS}
    assert (kind, data) == ("MESSAGES_DELETE", deleted)
    # An administrator deletes what somebody wrote: GOWA does not say who.
    by_admin = {**revoked, "chat_id": GROUP, "from": BOB, "is_from_me": True, "revoked_from_me": False}
    [(_, data)] = data_of("message.revoked", by_admin)
    assert data == {**deleted, "remoteJid": GROUP}
    [(_, data)] = data_of("message.revoked", {**by_admin, "revoked_from_me": True})
    assert data == {**deleted, "remoteJid": GROUP, "fromMe": True, "participant": BOB}

    for_me = {"deleted_message_id": "A", "timestamp": TIME, "from": ANA, "chat_id": ANA, "was_from_me": False}
    [(kind, data)] = data_of("message.deleted", for_me)
    assert (kind, data) == ("MESSAGES_DELETE", {**deleted, "forMe": True})


def test_each_person_who_has_read_a_status_post_is_an_event() -> None:
    read = {"ids": ["A"], "chat_id": "status@broadcast", "receipt_type": "read"}
    account = Account(media_url=link, report="r")
    found = [
        translate({"event": "message.ack", "payload": {**read, "from": person}}, account, b"{}")
        for person in (ANA, BOB)
    ]
    assert [event.data["participant"] for [event] in found] == [ANA, BOB]
    assert len({event.event_id for [event] in found}) == 2


def test_receipts_are_one_event_for_each_message() -> None:
    receipt = {"ids": ["A", "B"], "chat_id": ANA, "from": ANA, "receipt_type": "delivered"}
    found = data_of("message.ack", receipt, timestamp=TIME)
    update = {"keyId": "A", "remoteJid": ANA, "fromMe": True, "status": "DELIVERY_ACK"}
    assert found == [("MESSAGES_UPDATE", update), ("MESSAGES_UPDATE", {**update, "keyId": "B"})]
    [(_, data)] = data_of("message.ack", {**receipt, "ids": ["A"], "chat_id": GROUP, "receipt_type": "read"})
    assert data == {**update, "remoteJid": GROUP, "participant": ANA, "status": "READ"}
    # Of a chat with a hidden id, messages come under the number.
    [(_, data)] = data_of("message.ack", {**receipt, "ids": ["A"], "chat_id": LID, "from_lid": LID})
    assert data == update
    mine = {"chat_id": LID, "from": BOB, "from_lid": "9@lid", "receipt_type": "read-self"}
    [(_, data)] = data_of("message.ack", {**receipt, **mine, "ids": ["A"]})
    assert data == {**update, "remoteJid": LID, "fromMe": False, "status": "READ"}
    [(_, data)] = data_of("message.ack", {**receipt, "ids": ["A"], "receipt_type": "read-self"})
    assert data == {**update, "fromMe": False, "status": "READ"}
    retried = {**receipt, "receipt_type": "retry"}
    value = {"network": "gowa", "name": "message.ack", "value": retried}
    assert data_of("message.ack", retried) == [("NETWORK_EVENT", value)]


@pytest.mark.parametrize(
    ("event", "payload", "kind", "data"),
    [
        (
            "chat_presence",
            {"from": ANA, "chat_id": ANA, "state": "composing", "media": "", "is_group": False},
            "PRESENCE_UPDATE",
            {"id": ANA, "presences": {ANA: {"lastKnownPresence": "composing"}}},
        ),
        (  # messages of this chat come under the number
            "chat_presence",
            {"from": ANA, "from_lid": LID, "chat_id": LID, "state": "paused", "media": "", "is_group": False},
            "PRESENCE_UPDATE",
            {"id": ANA, "presences": {ANA: {"lastKnownPresence": "paused"}}},
        ),
        (
            "chat_presence",
            {"from": BOB, "chat_id": GROUP, "state": "composing", "media": "audio", "is_group": True},
            "PRESENCE_UPDATE",
            {"id": GROUP, "presences": {BOB: {"lastKnownPresence": "recording"}}},
        ),
        (
            "group.participants",
            {"chat_id": GROUP, "type": "join", "jids": [ANA, BOB]},
            "GROUP_PARTICIPANTS_UPDATE",
            {"id": GROUP, "participants": [ANA, BOB], "action": "add"},
        ),
        (
            "group.participants",
            {"chat_id": GROUP, "type": "demote", "jids": [ANA]},
            "GROUP_PARTICIPANTS_UPDATE",
            {"id": GROUP, "participants": [ANA], "action": "demote"},
        ),
        (
            "group.joined",
            {"chat_id": GROUP, "type": "join", "jids": [BOB], "group_name": "Team", "reason": ""},
            "GROUPS_UPSERT",
            [{"id": GROUP, "subject": "Team"}],
        ),
        (
            "label.edit",
            {"label_id": "9", "name": "Important", "color": 2, "deleted": False},
            "LABELS_EDIT",
            {"id": "9", "name": "Important", "color": 2, "deleted": False},
        ),
        (
            "label.association",
            {"label_id": "9", "labeled": True, "chat_id": ANA},
            "LABELS_ASSOCIATION",
            {"labelId": "9", "chatId": ANA, "type": "add"},
        ),
        (
            "label.association",
            {"label_id": "9", "labeled": False, "chat_id": ANA},
            "LABELS_ASSOCIATION",
            {"labelId": "9", "chatId": ANA, "type": "remove"},
        ),
        (
            "call.offer",
            {"call_id": "C", "from": ANA, "auto_rejected": False, "remote_platform": "android"},
            "CALL",
            [{"id": "C", "chatId": ANA, "from": ANA, "status": "offer", "isGroup": False, "date": SECONDS}],
        ),
        (
            "call.offer",
            {"call_id": "C", "from": ANA, "auto_rejected": True, "group_jid": GROUP},
            "CALL",
            [{"id": "C", "chatId": GROUP, "from": ANA, "status": "reject", "isGroup": True, "date": SECONDS}],
        ),
        (
            "newsletter.mute",
            {"newsletter_id": "120363@newsletter", "mute": "on"},
            "NETWORK_EVENT",
            {
                "network": "gowa",
                "name": "newsletter.mute",
                "value": {"newsletter_id": "120363@newsletter", "mute": "on"},
            },
        ),
    ],
)
def test_what_is_no_message(event: str, payload: dict[str, Any], kind: str, data: Any) -> None:
    assert data_of(event, payload, timestamp=TIME) == [(kind, data)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    [
        *(*ABOUT, "body", "image", "contact", "contacts_array", "interactive", "referral", "ids", "state"),
        *(
            "receipt_type",
            "type",
            "jids",
            "label_id",
            "call_id",
            "revoked_message_id",
            "revoked_from_me",
            "poll",
        ),
    ]
)
EVENTS = st.sampled_from(
    [
        *(
            "message",
            "message.reaction",
            "message.edited",
            "message.revoked",
            "message.deleted",
            "message.ack",
        ),
        *(
            "chat_presence",
            "group.participants",
            "group.joined",
            "label.edit",
            "label.association",
            "call.offer",
        ),
    ]
)


@given(EVENTS, st.dictionaries(NAMES, JSON | st.sampled_from([ANA, GROUP, LID, TIME]), max_size=9))
def test_whatever_comes_is_an_event_or_nothing(event: str, payload: dict[str, Any]) -> None:
    data_of(event, {**payload})


@given(JSON, JSON, JSON)
def test_whatever_the_report_is(event: Any, payload: Any, device: Any) -> None:
    envelope = {"event": event, "payload": payload, "device_id": device}
    translate(envelope, Account(media_url=link, report="r"), msgspec.json.encode(envelope))


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("message", {"chat_id": ANA}),
        ("message.reaction", {"id": "A", "chat_id": ANA, "reaction": "👍"}),
        ("message.reaction", {"reacted_message_id": "B", "reaction": "👍"}),
        ("message.deleted", {"chat_id": ANA}),
        ("message.deleted", {"deleted_message_id": "A"}),
        ("message.ack", {"chat_id": ANA, "ids": ["A"], "receipt_type": "of the future"}),
        ("chat_presence", {"chat_id": ANA, "from": ANA, "state": "of the future"}),
        ("chat_presence", {"chat_id": ANA, "state": "composing"}),
        ("chat_presence", {"from": ANA, "state": "composing"}),
        ("group.participants", {"chat_id": GROUP, "type": "of the future", "jids": [ANA]}),
        ("group.participants", {"chat_id": GROUP, "type": "join", "jids": []}),
        ("group.participants", {"type": "join", "jids": [ANA]}),
        ("label.association", {"label_id": "1", "labeled": True}),
        ("label.association", {"chat_id": ANA, "labeled": True}),
        ("call.offer", {"call_id": "A"}),
        ("call.offer", {"from": ANA}),
    ],
)
def test_a_report_that_lacks_a_part_is_passed_on(name: str, payload: dict[str, Any]) -> None:
    value = {"network": "gowa", "name": name, "value": payload}
    assert data_of(name, payload) == [("NETWORK_EVENT", value)]


@pytest.mark.parametrize("name", [*_TRANSLATORS, "of.the.future"])
def test_what_cannot_be_read_is_passed_on_byte_for_byte(name: str) -> None:
    body = b'{"event": "%b", "payload": {"odd": 1.0 }}' % name.encode()
    [one] = translate(msgspec.json.decode(body), Account(media_url=link, report="r"), body)
    assert one.data_json == b'{"network":"gowa","name":"%b","value":{"odd": 1.0 }}' % name.encode()
