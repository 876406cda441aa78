"""What WAHA reports, as events: each kind, the engines' differences, and whatever else may come."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookgw import Invalid, MessageKey, Recent, event_id_of
from plugins.waha.ids import chat_id_of, jid_of, message_id_of, parse_message_id
from plugins.waha.webhook import EVENTS
from tests.first_party.waha import (
    ANA,
    ANA_JID,
    BOB,
    BOB_JID,
    GROUP,
    ID,
    ME_JID,
    account,
    assert_passed_on,
    data_of,
    event_of,
    message,
)
from tests.networks.waha.server import KNOWN_EVENTS


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


@pytest.mark.parametrize(
    ("id_", "source"),
    [
        ("3A" + "5" * 18, "ios"),
        ("3EB0" + "5" * 18, "web"),
        ("3E" + "5" * 20, "web"),
        ("A" * 32, "android"),
        ("A" * 21, "android"),
        ("3F" + "5" * 30, "android"),
        ("3F" + "5" * 14, "desktop"),
        ("A" * 18, "desktop"),
        ("A" * 20, "unknown"),
    ],
)
def test_the_id_tells_which_app_made_a_message(id_: str, source: str) -> None:
    """As Baileys does."""
    data = data_of("message", message(id=f"false_{BOB}_{id_}", **{"from": BOB}))
    assert (data["key"]["id"], data["source"]) == (id_, source)


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


LID, BOBS_LID = "123@lid", "456@lid"


@pytest.mark.parametrize(
    "engine",
    [
        {"key": {"remoteJidAlt": ANA_JID}},  # NOWEB with Baileys 7
        {"key": {"senderPn": ANA_JID}},  # and with Baileys 6
        {"senderPn": ANA},
        {"Info": {"SenderAlt": "5511988887777:12@s.whatsapp.net", "RecipientAlt": ME_JID}},  # GOWS
        {"key": {"remoteJidAlt": ME_JID, "senderPn": ANA_JID}},
    ],
)
def test_the_number_behind_a_chat(engine: dict[str, Any]) -> None:
    data = data_of("message", message(id="false_123:4@lid_A", _data=engine))
    assert data["key"] == {"remoteJid": LID, "fromMe": False, "id": "A", "remoteJidAlt": ANA_JID}
    for name in ("message.waiting", "message.edited"):
        assert data_of(name, message(id="false_123@lid_A", _data=engine))["key"]["remoteJidAlt"] == ANA_JID
    reaction = message(id="false_123@lid_A", reaction={"messageId": "true_123@lid_B"}, _data=engine)
    assert data_of("message.reaction", reaction)["key"]["remoteJidAlt"] == ANA_JID
    after = {"id": "false_123@lid_B", "fromMe": False, "_data": engine}
    assert data_of("message.revoked", {"after": after, "revokedMessageId": "A"})["remoteJidAlt"] == ANA_JID
    vote = {"vote": {"id": "false_123@lid_V"}, "poll": {"id": "true_123@lid_P"}, "_data": engine}
    assert data_of("poll.vote", vote)["key"]["remoteJidAlt"] == ANA_JID


@pytest.mark.parametrize(
    "engine",
    [
        {"key": {"remoteJidAlt": ANA_JID}},
        {"key": {"recipientPn": ANA_JID, "senderPn": ME_JID}},
        {"key": {"peerRecipientPn": ANA_JID}},
        {"Info": {"SenderAlt": ME_JID, "RecipientAlt": ANA_JID}},
        {"key": {"remoteJidAlt": ME_JID}, "recipientPn": ANA_JID},
    ],
)
def test_the_number_behind_a_chat_that_the_account_wrote_to(engine: dict[str, Any]) -> None:
    data = data_of("message.any", message(id="true_123@lid_A", fromMe=True, source="app", _data=engine))
    assert data["key"] == {"remoteJid": LID, "fromMe": True, "id": "A", "remoteJidAlt": ANA_JID}


@pytest.mark.parametrize(
    "engine",
    [
        {"key": {"participantAlt": BOB_JID}},
        {"key": {"participantPn": BOB_JID}},
        {"key": {"senderPn": BOB_JID}},
        {"Info": {"SenderAlt": BOB_JID, "RecipientAlt": ANA_JID}},
    ],
)
@pytest.mark.parametrize("from_me", [False, True])
def test_the_number_behind_an_author(engine: dict[str, Any], from_me: bool) -> None:
    id_ = f"{str(from_me).lower()}_{GROUP}_A_{BOBS_LID}"
    payload = message(id=id_, participant=BOBS_LID, fromMe=from_me, source="app", _data=engine)
    assert data_of("message.any", payload)["key"] == {
        "remoteJid": GROUP,
        "fromMe": from_me,
        "id": "A",
        "participant": BOBS_LID,
        "participantAlt": BOB_JID,
    }


def test_no_number_is_guessed() -> None:
    engine = {"Info": {"SenderAlt": ME_JID}, "key": {"remoteJidAlt": "7@lid", "participantAlt": BOB_JID}}
    assert "remoteJidAlt" not in data_of("message", message(id="false_123@lid_A", _data=engine))["key"]
    # A chat that is shown under its number has no other, and a group has no number.
    named = {"key": {"remoteJidAlt": LID, "senderPn": BOB_JID}}
    assert "remoteJidAlt" not in data_of("message", message(_data=named))["key"]
    key = data_of("message", message(id=f"false_{GROUP}_A_{BOB}", _data=named))["key"]
    assert key == {"remoteJid": GROUP, "fromMe": False, "id": "A", "participant": BOB_JID}
    # What the sender of a message is called is nothing about the chat that it was sent to.
    own = message(id="true_123@lid_A", fromMe=True, source="app", _data={"key": {"senderPn": BOB_JID}})
    assert "remoteJidAlt" not in data_of("message.any", own)["key"]


def test_an_author_is_not_the_chat_itself() -> None:
    key = data_of("message", message(id=f"false_{GROUP}_A", participant=GROUP))["key"]
    assert key == {"remoteJid": GROUP, "fromMe": False, "id": "A"}
    ack = {"id": f"true_{ANA}_A", "participant": ANA, "fromMe": True, "ackName": "READ"}
    assert "participant" not in data_of("message.ack", ack)


def test_the_number_behind_who_has_a_message() -> None:
    ack = {"id": "true_123@lid_A", "from": LID, "fromMe": True, "ackName": "READ"}
    for engine in ({"SenderAlt": ANA_JID}, {"key": {"remoteJidAlt": ANA_JID}}):
        found = data_of("message.ack", {**ack, "_data": engine})
        assert (found["remoteJid"], found["remoteJidAlt"]) == (LID, ANA_JID)
    group = {"id": f"true_{GROUP}_A_9@lid", "participant": BOBS_LID, "fromMe": True, "ackName": "READ"}
    # The key is that of the message, whose author is the account.
    said = {"SenderAlt": BOB_JID, "key": {"participantAlt": ME_JID}}
    found = data_of("message.ack.group", {**group, "_data": said})
    assert (found["participant"], found["participantAlt"]) == (BOBS_LID, BOB_JID)


def test_the_numbers_behind_members_and_callers() -> None:
    one = {"id": BOBS_LID, "pn": BOB, "role": "participant"}
    change = {"type": "join", "group": {"id": GROUP}, "timestamp": 7, "participants": [one]}
    assert data_of("group.v2.participants", change) == {
        "id": GROUP,
        "participants": [BOBS_LID],
        "action": "add",
        "participantsData": [{"jid": BOBS_LID, "phoneNumber": BOB_JID}],
        "participantAlt": BOB_JID,
    }
    two = data_of("group.v2.participants", {**change, "participants": [one, {"id": LID, "pn": None}]})
    assert two["participants"] == [BOBS_LID, LID]
    assert two["participantsData"] == [{"jid": BOBS_LID, "phoneNumber": BOB_JID}]
    assert "participantAlt" not in two
    call = {"id": "C", "from": LID}
    for engine in ({"callerPn": ANA_JID}, {"CallCreatorAlt": ANA_JID}):
        [found] = data_of("call.received", {**call, "_data": engine})
        assert (found["from"], found["callerPn"]) == (LID, ANA_JID)


def test_a_send_that_is_reported_under_the_hidden_id_has_one_number() -> None:
    sent: Recent[str, str] = Recent(10)
    sent.put("A", ANA_JID)
    engine = {"Info": {"RecipientAlt": ANA_JID}}
    payload = message(id="true_123@lid_A", fromMe=True, source="api", _data=engine)
    assert data_of("message.any", payload, account(sent=sent))["key"] == {
        "remoteJid": ANA_JID,
        "fromMe": True,
        "id": "A",
    }


@pytest.mark.parametrize(
    ("said", "engine"),
    [
        ("1773027345", {}),
        ({"low": 1773027345, "high": 0, "unsigned": True}, {}),
        (1773027345000, {}),
        (None, {"messageTimestamp": {"low": 1773027345, "high": 0, "unsigned": True}}),
        (None, {"t": 1773027345}),
        ("?", {"Info": {"Timestamp": "2026-03-09T00:35:45-03:00"}}),
    ],
)
def test_a_time_in_any_form_is_a_time(said: Any, engine: dict[str, Any]) -> None:
    expected = 1773027345
    payload = message(timestamp=said, _data=engine)
    for name in ("message", "message.waiting", "message.edited"):
        assert data_of(name, payload)["messageTimestamp"] == expected
    deleted = data_of("message.revoked", {"after": payload, "revokedMessageId": "A"})
    assert deleted["messageTimestamp"] == expected


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
    assert_passed_on("message.ack", {**payload, "ack": 9, "ackName": "X"})


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
    assert_passed_on("message.reaction", message(reaction={"text": "x", "messageId": "?"}))


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
    assert_passed_on("message.revoked", {})


def test_groups() -> None:
    info = {
        "id": GROUP,
        "subject": "Work",
        "description": "d",
        "invite": "https://chat.whatsapp.com/x",
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
            "invite": "https://chat.whatsapp.com/x",
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
    assert_passed_on("group.v2.participants", {**both, "type": "?"})
    assert_passed_on("group.v2.join", {})


def test_presences_calls_labels_chats_and_votes() -> None:
    shown = {"participant": ANA, "lastKnownPresence": "typing", "lastSeen": None}
    presence = data_of("presence.update", {"id": GROUP, "presences": [shown, {"lastKnownPresence": "?"}]})
    assert presence == {"id": GROUP, "presences": {ANA_JID: {"lastKnownPresence": "composing"}}}
    alone = {"id": ANA, "presences": [{"lastKnownPresence": "offline", "lastSeen": 1686568773000}]}
    seen = {"lastKnownPresence": "unavailable", "lastSeen": 1686568773}
    assert data_of("presence.update", alone)["presences"] == {ANA_JID: seen}
    assert_passed_on("presence.update", {"id": ANA, "presences": None})

    call = {"id": "C", "from": ANA, "timestamp": 1721374000, "isVideo": True, "isGroup": None}
    for name, status in (("received", "offer"), ("accepted", "accept"), ("rejected", "reject")):
        [found] = data_of(f"call.{name}", call)
        assert (found["status"], found["from"], found["isVideo"]) == (status, ANA_JID, True)
    assert_passed_on("call.received", {})

    label = {"id": "10", "name": "paid", "color": 14, "colorHex": "#00a0f2"}
    assert data_of("label.upsert", label) == {**label, "deleted": False}
    assert data_of("label.deleted", label)["deleted"] is True
    assert_passed_on("label.deleted", {"id": 1})
    association = {"labelId": "6", "chatId": ANA, "label": None}
    assert data_of("label.chat.added", association) == {"labelId": "6", "chatId": ANA_JID, "type": "add"}
    assert data_of("label.chat.deleted", association)["type"] == "remove"
    assert_passed_on("label.chat.added", {"labelId": "6"})

    assert data_of("chat.archive", {"id": ANA, "archived": True}) == [
        {"remoteJid": ANA_JID, "archived": True}
    ]
    assert_passed_on("chat.archive", {"id": ANA})

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
    assert_passed_on("poll.vote", {})


@pytest.mark.parametrize(
    "name",
    [
        "engine.event",
        "state.change",
        "group.join",
        "group.leave",
        "poll.vote.failed",
        "event.response",
        "event.response.failed",
        "new",
    ],
)
def test_what_has_no_kind_is_passed_on(name: str) -> None:
    assert_passed_on(name, message())


def test_every_event_that_tells_something_is_asked_for() -> None:
    # What another one says, too: see EVENTS.
    repeated = {"message", "group.join", "group.leave", "state.change", "engine.event"}
    assert set(EVENTS) == set(KNOWN_EVENTS) - repeated


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
            *(
                "Message",
                "RawMessage",
                "viewOnceMessage",
                "extendedTextMessage",
                "contextInfo",
                "conversation",
            ),
            *(
                "protocolMessage",
                "editedMessage",
                "mentionedJidList",
                "ctwaContext",
                "listResponse",
                "low",
                "high",
            ),
            *(
                "messageTimestamp",
                "pollOptions",
                "isViewOnce",
                "InteractiveMessage",
                "NativeFlowMessage",
                "pn",
            ),
        ),
    ]
)
_TEXTS = st.one_of(
    st.sampled_from(
        [
            ID,
            ANA,
            GROUP,
            "A",
            "api",
            "join",
            "typing",
            "/api/files/a",
            "status@broadcast",
            "1@lid",
            "image",
            "x_y",
        ]
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
