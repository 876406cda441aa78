"""What WAHA reports, as events: each kind, the engines' differences, and whatever else may come."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookgw import Invalid, MessageKey, NewEvent, Recent, event_id_of
from hookgw.testing import FakeSession
from plugins.waha.connector import read_envelope
from plugins.waha.events import (
    _TRANSLATORS,
    Account,
    file_of,
    parts_of_link,
    path_of,
    reference_of,
    translate,
)
from plugins.waha.ids import chat_id_of, jid_of, message_id_of, parse_message_id
from plugins.waha.webhook import EVENTS
from tests.first_party.waha import ANA, ANA_JID, GROUP, ME_JID, assert_valid

BOB, BOB_JID = "5511977776666@c.us", "5511977776666@s.whatsapp.net"
ID = f"false_{ANA}_3EB0C0BD05DCA97A7C09CB"


def account(**more: Any) -> Account:
    fields: dict[str, Any] = {"jid": ME_JID, "media_url": link, "report": "evt_1"}
    return Account(**{**fields, "sent": Recent(10), "done": Recent(10), **more})


def link(reference: str, *, mimetype: str = "", file_name: str = "") -> str:
    return f"https://hookgw.example/{reference}?{mimetype}&{file_name}"


def event_of(event: str, payload: Any, who: Account | None = None, **more: Any) -> NewEvent | None:
    """Translate an event, and check that the result is valid."""
    envelope = {"event": event, "payload": payload, "id": "evt_1", "session": "default", **more}
    found = translate(envelope, who or account())
    if found is not None:
        assert_valid(found.kind, found.data)
    return found


def data_of(event: str, payload: Any, who: Account | None = None) -> Any:
    found = event_of(event, payload, who)
    assert found is not None
    return found.data


def message(**more: Any) -> dict[str, Any]:
    return {"id": ID, "timestamp": 1773027345, "from": ANA, "fromMe": False, "body": "hi", **more}


def test_a_message_is_one_event_whoever_reports_it() -> None:
    any_, plain = event_of("message.any", message()), event_of("message", message())
    assert any_ == plain
    assert any_ is not None
    assert any_.kind == "MESSAGES_UPSERT"
    assert any_.event_id == event_id_of("MESSAGES_UPSERT", ANA_JID, "3EB0C0BD05DCA97A7C09CB")
    assert any_.data == {
        "key": {"remoteJid": ANA_JID, "fromMe": False, "id": "3EB0C0BD05DCA97A7C09CB"},
        "message": {"conversation": "hi"},
        "messageType": "conversation",
        "messageTimestamp": 1773027345,
        "source": "web",
    }
    own = event_of("message.any", message(), me={"id": "5511999999999@c.us"})
    assert own is not None
    assert own.sender == ME_JID


def test_groups_and_replies() -> None:
    id_ = f"false_{GROUP}_3A5F0C1D2E3B4A596877_{BOB}"
    answered = {"id": f"true_{GROUP}_3EB0AA", "participant": ANA, "body": "well?"}
    payload = message(
        id=id_, **{"from": GROUP}, participant=BOB, replyTo=answered, _data={"notifyName": "Bob"}
    )
    data = data_of("message", payload)
    assert data["key"] == {
        "remoteJid": GROUP,
        "fromMe": False,
        "id": "3A5F0C1D2E3B4A596877",
        "participant": BOB_JID,
    }
    assert data["contextInfo"] == {
        "stanzaId": "3EB0AA",
        "participant": ANA_JID,
        "quotedMessage": {"conversation": "well?"},
    }
    assert (data["pushName"], data["source"]) == ("Bob", "ios")


def test_a_message_from_the_phone_and_one_through_the_api() -> None:
    payload = message(id=ID.replace("false", "true"), fromMe=True, ack=1, ackName="SERVER")
    phone = event_of("message.any", {**payload, "source": "app"})
    assert phone is not None
    assert (phone.kind, phone.data["status"]) == ("MESSAGES_UPSERT", "SERVER_ACK")
    api = event_of("message.any", {**payload, "source": "api", "ack": None, "ackName": "?"})
    assert api is not None
    assert (api.kind, api.data["status"]) == ("SEND_MESSAGE", "PENDING")
    # The same id as the gateway's own event for a send.
    assert api.event_id == event_id_of("SEND_MESSAGE", ANA_JID, "3EB0C0BD05DCA97A7C09CB")
    # An engine may name the hidden id of a chat that was written to by its number.
    sent: Recent[str, str] = Recent(10)
    sent.put("3EB0C0BD05DCA97A7C09CB", ANA_JID)
    hidden = {**payload, "id": "true_123@lid_3EB0C0BD05DCA97A7C09CB"}
    echo = event_of("message.any", hidden, account(sent=sent))
    assert echo is not None
    assert (echo.kind, echo.event_id) == ("SEND_MESSAGE", api.event_id)


@pytest.mark.parametrize(
    ("media", "engine", "name", "url"),
    [
        (
            {"url": "http://localhost:3000/api/files/a/b.jpg", "mimetype": "image/jpeg"},
            {},
            "imageMessage",
            "a/b.jpg",
        ),
        ({"url": "/api/files/b.webp", "mimetype": "image/webp"}, {}, "stickerMessage", "b.webp"),
        ({"url": "https://x/p/api/files/b.mp4", "mimetype": "video/mp4"}, {}, "videoMessage", "b.mp4"),
        ({"url": "/api/files/b.oga", "mimetype": "audio/ogg; codecs=opus"}, {}, "audioMessage", "b.oga"),
        (
            {"url": "/api/files/b%20c.jpg", "mimetype": "image/jpeg", "filename": "b.jpg"},
            {},
            "documentMessage",
            "b c.jpg",
        ),
        ({"url": "/api/files/b.bin"}, {}, "documentMessage", "b.bin"),
        ({"mimetype": "image/jpeg"}, {"type": "ptt"}, "audioMessage", None),
        (None, {"message": {"videoMessage": {}}}, "videoMessage", None),
        (None, {"Message": {"imageMessage": {}}}, "imageMessage", None),
        ({"url": "/api/files/../secret"}, {}, "documentMessage", None),
        ({"url": "http://[/api/files/x"}, {}, "documentMessage", "http://[/api/files/x"),
    ],
)
def test_files(media: Any, engine: Any, name: str, url: str | None) -> None:
    payload = message(hasMedia=True, media=media, _data=engine)
    data = data_of("message", payload)
    assert data["messageType"] == name
    file = data["message"][name]
    assert file["caption"] == "hi"
    shown = file.get("url", "").removeprefix(f"https://hookgw.example/{ID}/").partition("?")[0]
    assert (shown or None) == url
    if url is not None and "[" not in url:
        assert file_of(data, payload) == url
    assert file.get("ptt", name == "audioMessage" and media["mimetype"] == "image/jpeg") in (True, False)


def test_a_file_in_the_operators_own_store_keeps_its_link() -> None:
    payload = message(
        hasMedia=True, media={"url": "https://s3.example/bucket/x?signature=1", "filename": "x.pdf"}
    )
    file = data_of("message", payload)["message"]["documentMessage"]
    assert file["url"] == "https://s3.example/bucket/x?signature=1"
    assert (file["fileName"], file["title"]) == ("x.pdf", "x.pdf")
    assert file_of(data_of("message", payload), payload) == ""


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/api/files/",
        "/api/files/..",
        "/api/files/a/../b",
        "/api/files/%2e%2e/sessions",
        "/api/files/%252e%252e/sessions",
        "/api/files/a//b",
        "/api/files/a\\b",
        "/api/files/a%0ab",
        "/api/sessions/default",
        "/api/files/" + "a" * 2000,
    ],
)
def test_a_reference_cannot_lead_elsewhere(url: str) -> None:
    assert reference_of(url) == ""


@pytest.mark.parametrize(
    "link",
    [
        *("", "a.jpg", "-/", "-/../x", f"{ID}/..", "x/a.jpg", "../a.jpg", "false_../x@c.us_A/a.jpg"),
        *("true_%2e@c.us_A/a.jpg", "true_1@c.us_A\\n/a.jpg", f"true_1@c.us_{'A' * 600}/a.jpg"),
    ],
)
def test_a_link_cannot_lead_elsewhere(link: str) -> None:
    assert parts_of_link(link) is None


def test_links() -> None:
    assert parts_of_link(f"{ID}/default/a.jpg") == (ID, ["default", "a.jpg"])
    assert parts_of_link("-/a.jpg") == ("", ["a.jpg"])
    file = data_of("message", {**message(hasMedia=True, media={"url": "/api/files/a"}), "id": "ABC"})
    assert file["message"]["documentMessage"]["url"].startswith("https://hookgw.example/-/a?")


def test_references_of_names_with_special_characters() -> None:
    assert reference_of("http://x/api/files/default/false_1%40c.us_A.jpg") == "default/false_1@c.us_A.jpg"
    assert reference_of("http://x/api/files/false_1@c.us_A.jpg?x-api-key=secret") == "false_1@c.us_A.jpg"
    assert path_of("default/a?b#c") == ["default", "a?b#c"]  # quoted where it is used


def test_places_and_cards() -> None:
    place = {"latitude": "38.89", "longitude": -77, "description": "Office", "live": False}
    data = data_of("message", message(body="", location=place))
    expected = {"degreesLatitude": 38.89, "degreesLongitude": -77.0, "name": "Office"}
    assert data["message"] == {"locationMessage": expected}
    card = "BEGIN:VCARD\r\nFN;CHARSET=UTF-8:Jane Doe\r\nEND:VCARD"
    one = data_of("message", message(body=None, vCards=[card]))
    assert one["message"]["contactMessage"] == {"displayName": "Jane Doe", "vcard": card}
    two = data_of("message", message(body=None, vCards=[card, "x"]))
    assert [c["displayName"] for c in two["message"]["contactsArrayMessage"]["contacts"]] == ["Jane Doe", ""]
    for wrong in ({"latitude": "x", "longitude": 1}, {"latitude": 91, "longitude": 1}, {"latitude": True}):
        assert data_of("message", message(location=wrong))["messageType"] == "conversation"


def test_what_only_the_engine_describes() -> None:
    poll = {"name": "Tea?", "options": [{"optionName": "yes"}]}
    data = data_of("message", message(body=None, _data={"message": {"pollCreationMessage": poll}}))
    assert (data["messageType"], data["message"]) == ("pollCreationMessage", {"pollCreationMessage": poll})


def test_hidden_ids() -> None:
    engine = {"key": {"remoteJidAlt": "5511988887777@s.whatsapp.net"}}
    data = data_of("message", message(id="false_123:4@lid_A", _data=engine))
    assert data["key"] == {"remoteJid": "123@lid", "fromMe": False, "id": "A", "remoteJidAlt": ANA_JID}
    gows = data_of(
        "message", message(id="false_123@lid_A", _data={"Info": {"SenderAlt": ANA, "PushName": "A"}})
    )
    assert (gows["key"]["remoteJidAlt"], gows["pushName"]) == (ANA_JID, "A")


def test_engines_that_name_no_chat_in_the_id() -> None:
    data = data_of("message", {"id": "ABC", "from": ANA, "fromMe": False, "timestamp": 1.5})
    assert data["key"] == {"remoteJid": ANA_JID, "fromMe": False, "id": "ABC"}
    own = data_of("message.any", {"id": "ABC", "from": "me", "to": ANA, "fromMe": True})
    assert own["key"]["remoteJid"] == ANA_JID
    web = data_of("message", {"id": {"_serialized": ID, "id": "x"}, "fromMe": "?"})
    assert web["key"]["id"] == "3EB0C0BD05DCA97A7C09CB"


def test_a_message_that_cannot_be_read_yet_does_not_hide_the_message() -> None:
    stub, later = event_of("message.waiting", message()), event_of("message", message())
    assert stub is not None
    assert later is not None
    assert stub.event_id != later.event_id
    assert stub.data["messageStubType"] == "CIPHERTEXT"
    assert stub.data["message"] == {}


@pytest.mark.parametrize(
    ("ack", "status"),
    [
        ({"ack": -1}, "ERROR"),
        ({"ack": 0, "ackName": "PENDING"}, "PENDING"),
        ({"ack": 1}, "SERVER_ACK"),
        ({"ackName": "DEVICE"}, "DELIVERY_ACK"),
        ({"ack": 3, "ackName": "READ"}, "READ"),
        ({"ack": 4}, "PLAYED"),
    ],
)
def test_acks(ack: dict[str, Any], status: str) -> None:
    payload = {"id": f"true_{ANA}_A", "from": ANA, "participant": None, "fromMe": True, **ack}
    assert data_of("message.ack", payload) == {
        "keyId": "A",
        "remoteJid": ANA_JID,
        "fromMe": True,
        "status": status,
    }
    assert event_of("message.ack", {**payload, "ack": 9, "ackName": "X"}) is None


def test_acks_of_groups() -> None:
    payload = {"id": f"true_{GROUP}_A_9@lid", "from": GROUP, "participant": "9@lid", "fromMe": True, "ack": 3}
    one, other = event_of("message.ack", payload), event_of("message.ack.group", payload)
    assert one == other
    assert one is not None
    assert one.data["participant"] == "9@lid"


def test_reactions() -> None:
    target = f"true_{GROUP}_A_{BOB}"
    payload = message(reaction={"text": "🙏", "messageId": target}, _data={"pushName": "Ana"})
    data = data_of("message.reaction", payload)
    reacted = {"remoteJid": GROUP, "fromMe": True, "id": "A", "participant": BOB_JID}
    assert data["message"] == {"reactionMessage": {"key": reacted, "text": "🙏"}}
    assert data["messageType"] == "reactionMessage"
    assert event_of("message.reaction", message(reaction={"text": "x", "messageId": "?"})) is None


def test_what_this_instance_has_done_is_reported_once() -> None:
    done: Recent[tuple[str, ...], str] = Recent(10)
    who = account(done=done)
    own = {"id": f"true_{ANA}_B", "fromMe": True}
    reports = [
        (
            "message.reaction",
            {**own, "reaction": {"text": "x", "messageId": f"false_{ANA}_A"}},
            ("reaction", "A", "x"),
        ),
        ("message.edited", {**own, "editedMessageId": "A", "body": "new"}, ("edit", "A", "new")),
    ]
    for name, payload, what in reports:
        assert event_of(name, payload, who) is not None
        done.put(what, "")
        assert event_of(name, payload, who) is None
        assert event_of(name, payload, who) is None  # the second attempt of the same report
        again = account(done=done, report="evt_2")
        assert event_of(name, payload, again) is not None  # on the phone


def test_edits_and_deletions() -> None:
    edited = message(id=f"false_{ANA}_B", editedMessageId="A", body="new", _data={"pushName": "Ana"})
    found = event_of("message.edited", edited)
    assert found is not None
    assert found.kind == "MESSAGES_EDITED"
    assert found.data["key"] == {"remoteJid": ANA_JID, "fromMe": False, "id": "A"}
    assert found.data["message"] == {"conversation": "new"}
    full = data_of("message.edited", {**edited, "editedMessageId": f"false_{ANA}_A"})
    assert full["key"]["id"] == "A"

    after = {"id": f"false_{ANA}_B", "from": ANA, "fromMe": False, "timestamp": 5}
    deleted = data_of("message.revoked", {"after": after, "revokedMessageId": "A", "before": None})
    expected = {"remoteJid": ANA_JID, "fromMe": False, "id": "A", "status": "DELETED", "messageTimestamp": 5}
    assert deleted == expected
    found = event_of("message.revoked", {"after": after, "revokedMessageId": "A"})
    assert found is not None
    assert found.event_id == event_id_of(
        "MESSAGES_DELETE", ANA_JID, "A"
    )  # as that of the gateway's own event
    before = data_of("message.revoked", {"after": after, "before": {"id": f"false_{ANA}_A"}})
    assert before["id"] == "A"
    assert data_of("message.revoked", {"before": {"id": f"false_{ANA}_A"}})["id"] == "A"
    assert event_of("message.revoked", {}) is None


def test_groups() -> None:
    info = {
        "id": GROUP,
        "subject": "Work",
        "description": "d",
        "membersCanAddNewMember": True,
        "membersCanSendMessages": True,
        "newMembersApprovalRequired": False,
        "participants": [{"id": "1@lid", "pn": ANA, "role": "admin"}, {"id": BOB, "role": "participant"}],
    }
    joined = event_of("group.v2.join", {"group": info, "timestamp": 1})
    assert joined is not None
    assert joined.kind == "GROUPS_UPSERT"
    assert joined.data == [
        {
            "id": GROUP,
            "subject": "Work",
            "desc": "d",
            "announce": False,
            "memberAddMode": True,
            "joinApprovalMode": False,
            "participants": [
                {"id": "1@lid", "admin": "admin", "phoneNumber": ANA_JID},
                {"id": BOB_JID, "admin": None},
            ],
        }
    ]
    updated = event_of("group.v2.update", {"group": {"id": GROUP, "subject": "New"}})
    assert updated is not None
    assert (updated.kind, updated.data) == ("GROUPS_UPDATE", [{"id": GROUP, "subject": "New"}])
    left = {"id": GROUP, "participants": [ME_JID], "action": "remove"}
    own = event_of("group.v2.leave", {"group": {"id": GROUP}, "timestamp": 7})
    people = [{"id": "5511999999999@c.us", "role": "left"}]
    both = {"type": "leave", "group": {"id": GROUP}, "timestamp": 7, "participants": people}
    as_participant = event_of("group.v2.participants", both)
    assert own is not None
    assert (own.data, own) == (left, as_participant)
    for action, type_ in (("add", "join"), ("promote", "promote"), ("demote", "demote")):
        assert data_of("group.v2.participants", {**both, "type": type_})["action"] == action
    assert event_of("group.v2.participants", {**both, "type": "?"}) is None
    assert event_of("group.v2.join", {}) is None


def test_presences_calls_labels_chats_and_votes() -> None:
    shown = {"participant": ANA, "lastKnownPresence": "typing", "lastSeen": None}
    presence = data_of("presence.update", {"id": GROUP, "presences": [shown, {"lastKnownPresence": "?"}]})
    assert presence == {"id": GROUP, "presences": {ANA_JID: {"lastKnownPresence": "composing"}}}
    alone = {"id": ANA, "presences": [{"lastKnownPresence": "offline", "lastSeen": 1686568773000}]}
    seen = {"lastKnownPresence": "unavailable", "lastSeen": 1686568773}
    assert data_of("presence.update", alone)["presences"] == {ANA_JID: seen}
    assert event_of("presence.update", {"id": ANA, "presences": None}) is None

    call = {"id": "C", "from": ANA, "timestamp": 1721374000, "isVideo": True, "isGroup": None}
    for name, status in (("received", "offer"), ("accepted", "accept"), ("rejected", "reject")):
        [found] = data_of(f"call.{name}", call)
        assert (found["status"], found["from"], found["isVideo"]) == (status, ANA_JID, True)
    assert event_of("call.received", {}) is None

    label = {"id": "10", "name": "paid", "color": 14, "colorHex": "#00a0f2"}
    assert data_of("label.upsert", label) == {**label, "deleted": False}
    assert data_of("label.deleted", label)["deleted"] is True
    assert event_of("label.deleted", {"id": 1}) is None
    association = {"labelId": "6", "chatId": ANA, "label": None}
    assert data_of("label.chat.added", association) == {"labelId": "6", "chatId": ANA_JID, "type": "add"}
    assert data_of("label.chat.deleted", association)["type"] == "remove"
    assert event_of("label.chat.added", {"labelId": "6"}) is None

    assert data_of("chat.archive", {"id": ANA, "archived": True}) == [
        {"remoteJid": ANA_JID, "archived": True}
    ]
    assert event_of("chat.archive", {"id": ANA}) is None

    vote = {
        "id": f"false_{ANA}_V",
        "from": ANA,
        "fromMe": False,
        "selectedOptions": ["yes", 1],
        "timestamp": 1,
    }
    poll = {"id": f"true_{ANA}_P", "fromMe": True}
    voted = data_of("poll.vote", {"vote": vote, "poll": poll})
    assert voted["messageType"] == "pollUpdateMessage"
    assert voted["message"]["pollUpdateMessage"] == {
        "pollCreationMessageKey": {"remoteJid": ANA_JID, "fromMe": True, "id": "P"},
        "vote": {"selectedOptions": ["yes"]},
    }
    assert event_of("poll.vote", {}) is None


@pytest.mark.parametrize(
    "name",
    [
        "engine.event",
        "state.change",
        "group.join",
        "group.leave",
        "poll.vote.failed",
        "event.response",
        "new",
        "",
    ],
)
def test_what_has_no_kind_is_no_event(name: str) -> None:
    assert event_of(name, message()) is None


def test_every_event_that_is_asked_for_is_understood() -> None:
    assert set(EVENTS) - {"session.status"} <= set(_TRANSLATORS)


_FIELDS = st.sampled_from(
    [
        *(
            "id",
            "from",
            "to",
            "fromMe",
            "body",
            "hasMedia",
            "media",
            "url",
            "mimetype",
            "filename",
            "location",
        ),
        *(
            "latitude",
            "longitude",
            "vCards",
            "_data",
            "message",
            "key",
            "Info",
            "participant",
            "timestamp",
            "ack",
        ),
        *("reaction", "messageId", "text", "editedMessageId", "revokedMessageId", "after", "before", "group"),
        *(
            "participants",
            "role",
            "type",
            "presences",
            "lastSeen",
            "vote",
            "poll",
            "selectedOptions",
            "archived",
        ),
        *(
            "labelId",
            "chatId",
            "replyTo",
            "_serialized",
            "source",
            "ackName",
            "lastKnownPresence",
            "imageMessage",
        ),
    ]
)
_TEXTS = st.one_of(
    st.sampled_from(
        [ID, ANA, GROUP, "A", "api", "join", "typing", "/api/files/a", "status@broadcast", "1@lid"]
    ),
    st.text(max_size=8),
)
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), _TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_FIELDS, inner, max_size=8)),
    max_leaves=20,
)


@settings(max_examples=40)
@given(
    st.sampled_from(EVENTS),
    st.one_of(
        _VALUES, st.fixed_dictionaries({"id": st.just(ID)}, optional={"group": _VALUES, "media": _VALUES})
    ),
    st.dictionaries(_FIELDS, _VALUES, max_size=10),
)
def test_whatever_comes_is_an_event_or_nothing(name: str, payload: Any, more: dict[str, Any]) -> None:
    if isinstance(payload, dict):
        payload = {**payload, **more}
    event_of(name, payload)


async def test_bodies() -> None:
    session = FakeSession()
    assert await read_envelope(session, b'{"a": "\\ud83d\\ude4f"}') == {"a": "🙏"}
    # Half of a character, and numbers that are too large, are no reason to lose a message.
    assert await read_envelope(session, b'{"a": "x\\ud83d", "b": [1e400]}') == {"a": "x\ufffd", "b": [None]}
    for wrong in (b"", b"[]", b"{", b"\xff", b'{"a":' * 100_000):
        with pytest.raises(Invalid):
            await read_envelope(session, wrong)


@pytest.mark.parametrize(
    ("chat", "jid"),
    [
        (ANA, ANA_JID),
        ("5511988887777:12@c.us", ANA_JID),
        (ANA_JID, ANA_JID),
        ("5511988887777", ANA_JID),
        (GROUP, GROUP),
        ("1@newsletter", "1@newsletter"),
        ("me", "me"),
        ("", ""),
    ],
)
def test_chats_of_waha(chat: str, jid: str) -> None:
    assert jid_of(chat) == jid


@pytest.mark.parametrize(
    ("number", "chat"),
    [
        ("+55 (11) 98888-7777", ANA),
        ("5511988887777", ANA),
        (ANA, ANA),
        (ANA_JID, ANA),
        ("5511988887777:3@s.whatsapp.net", ANA),
        (GROUP, GROUP),
        ("123@lid", "123@lid"),
        ("status@broadcast", "status@broadcast"),
    ],
)
def test_numbers_of_callers(number: str, chat: str) -> None:
    assert chat_id_of(number) == chat


@pytest.mark.parametrize(
    "number", ["", "ana", "123", "1@example.org", "../x@c.us", "a b@c.us", "@c.us", "5" * 16]
)
def test_wrong_numbers(number: str) -> None:
    with pytest.raises(Invalid, match="number"):
        chat_id_of(number)


def test_ids_of_messages() -> None:
    key = MessageKey(remote_jid=ANA_JID, id="A")
    assert message_id_of(key, "", from_me=True) == f"true_{ANA}_A"
    assert message_id_of(MessageKey(remote_jid="", id="A"), ANA, from_me=False) == f"false_{ANA}_A"
    assert message_id_of(MessageKey(remote_jid=ANA_JID, id=ID), "", from_me=True) == ID
    group = MessageKey(remote_jid=GROUP, id="A", participant=BOB_JID)
    assert message_id_of(group, "", from_me=False) == f"false_{GROUP}_A_{BOB}"
    assert (
        message_id_of(MessageKey(remote_jid=GROUP, id="A"), "", from_me=True, author=ANA)
        == f"true_{GROUP}_A_{ANA}"
    )
    for wrong in ("", "a_b", "a/b", "x" * 200):
        with pytest.raises(Invalid, match=r"key\.id"):
            message_id_of(MessageKey(remote_jid=ANA_JID, id=wrong), "", from_me=True)
    for wrong_id in (None, "", "x", "true_x_y", "maybe_a@c.us_A", "true_a@c.us_"):
        assert parse_message_id(wrong_id) is None
