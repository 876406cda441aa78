"""Matrix events as a homeserver sends them, and the events of hookgw for them."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw import event_id_of
from plugins.matrix import content as content_of
from plugins.matrix import events
from tests.first_party.runs import assert_valid

ROOM = "!dmYyVx:hs.example"
ME, ANA = "@shop:hs.example", "@ana:other.example"
ID = "$Zo8zSmeuJ5nDCN2xDYeHpfjwHG6CjJ1OBeBFBPJwB8A"
TARGET = "$own:hs.example"


def media_url(reference: str, *, mimetype: str = "", file_name: str = "") -> str:
    return f"https://hookgw.example/media/{reference}?{mimetype}&{file_name}"


ACCOUNT = events.Account(
    user=ME,
    name_in=lambda room, user: "Ana" if (room, user) == (ROOM, ANA) else None,
    author_of={TARGET: ME, "$anas": ANA}.get,
    options_of={"$poll": {"y": "Yes", "n": "No"}}.get,
    media_url=media_url,
    has_kind=lambda _: True,
)


def event(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "sender": ANA,
        "event_id": ID,
        "origin_server_ts": 1773027345012,
        "content": content,
        "unsigned": {"age": 7, "membership": "join"},
        **more,
    }


def message(**content: Any) -> dict[str, Any]:
    return event("m.room.message", {"msgtype": "m.text", "body": "hello", **content})


def translated(raw: dict[str, Any], kind: str = "MESSAGES_UPSERT") -> dict[str, Any]:
    new = events.translate(raw, ROOM, ACCOUNT)
    assert new is not None
    assert new.kind == kind
    is_own = raw["sender"] == ME and kind == "MESSAGES_UPSERT"
    assert new.event_id == (event_id_of("SEND_MESSAGE", ROOM, ID) if is_own else event_id_of(ID))
    assert_valid(new)
    data = new.data
    assert isinstance(data, dict)
    return data


def listed(raw: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the only item of the list in the event of hookgw."""
    new = events.translate(raw, ROOM, ACCOUNT)
    assert new is not None
    assert (new.kind, new.event_id) == (kind, event_id_of(ID))
    assert_valid(new)
    [item] = new.data
    return dict(item)


def network_event(raw: dict[str, Any]) -> str:
    """Return the network's word in a NETWORK_EVENT."""
    new = events.translate(raw, ROOM, ACCOUNT)
    assert new is not None
    assert new.kind == "NETWORK_EVENT"
    return str(json.loads(new.data_json or b"")["name"])


def test_a_text() -> None:
    assert translated(message()) == {
        "key": {"remoteJid": ROOM, "fromMe": False, "id": ID, "participant": ANA},
        "pushName": "Ana",
        "message": {"conversation": "hello"},
        "messageType": "conversation",
        "messageTimestamp": 1773027345,
        "source": "matrix",
    }


def test_a_text_from_another_device_of_the_account() -> None:
    data = translated({**message(), "sender": ME})
    assert data["key"]["fromMe"] is True
    assert data["status"] == "SERVER_ACK"
    assert "pushName" not in data


def test_what_hookgw_sent_raises_nothing() -> None:
    transaction = {"transaction_id": events.TRANSACTION_PREFIX + "1"}
    assert events.translate({**message(), "sender": ME, "unsigned": transaction}, ROOM, ACCOUNT) is None
    other = {**message(), "sender": ME, "unsigned": {"transaction_id": "m1773027345012.4"}}
    assert translated(other)["key"]["fromMe"] is True


def test_the_file_of_a_message() -> None:
    image = message(msgtype="m.image", url="mxc://hs.example/x", info={"size": 5})
    assert content_of.file_of(image) == ("mxc://hs.example/x", 5)
    sticker = event("m.sticker", {"body": "cat", "url": "mxc://hs.example/x"})
    assert content_of.file_of(sticker) == ("mxc://hs.example/x", 0)
    for other in (
        message(url="mxc://hs.example/x"),
        message(msgtype="m.image"),
        message(msgtype="m.image", url="mxc://hs.example/x", **{"m.new_content": {}}),
        event("m.room.member", {"msgtype": "m.image", "url": "mxc://hs.example/x"}),
    ):
        assert content_of.file_of(other) is None


def test_a_reply_and_its_fallback() -> None:
    reply = message(
        body="> <@ana:other.example> hello\n> you\n\nyes",
        **{"m.relates_to": {"m.in_reply_to": {"event_id": "$asked"}}, "m.mentions": {"user_ids": [ME, 7]}},
    )
    data = translated(reply)
    assert data["message"] == {"conversation": "yes"}
    assert data["contextInfo"] == {"stanzaId": "$asked", "mentionedJid": [ME]}


def test_a_quotation_that_is_no_reply_stays() -> None:
    assert translated(message(body="> <b> x\n\nyes"))["message"] == {"conversation": "> <b> x\n\nyes"}


def test_a_thread() -> None:
    relation = {
        "rel_type": "m.thread",
        "event_id": "$root",
        "is_falling_back": True,
        "m.in_reply_to": {"event_id": "$previous"},
    }
    assert translated(message(**{"m.relates_to": relation}))["contextInfo"] == {"threadId": "$root"}


def test_an_image() -> None:
    image = message(
        msgtype="m.image",
        body="the receipt",
        filename="receipt.jpg",
        url="mxc://hs.example/AbCd",
        info={"mimetype": "image/jpeg", "size": 48213, "w": 720, "h": 1280},
    )
    data = translated(image)
    assert data["messageType"] == "imageMessage"
    assert data["message"]["imageMessage"] == {
        "url": "https://hookgw.example/media/mxc://hs.example/AbCd?image/jpeg&receipt.jpg",
        "mimetype": "image/jpeg",
        "fileName": "receipt.jpg",
        "caption": "the receipt",
        "fileLength": "48213",
        "height": 1280,
        "width": 720,
    }


@pytest.mark.parametrize(
    ("msgtype", "name", "more"),
    [
        ("m.video", "videoMessage", {"seconds": 12}),
        ("m.audio", "audioMessage", {"seconds": 12, "ptt": False}),
        ("m.file", "documentMessage", {"seconds": 12, "title": "a.bin"}),
    ],
)
def test_files(msgtype: str, name: str, more: dict[str, Any]) -> None:
    raw = message(msgtype=msgtype, body="a.bin", url="mxc://hs.example/1", info={"duration": 12_345})
    file = translated(raw)["message"][name]
    assert file.items() >= {"mimetype": "application/octet-stream", "fileName": "a.bin", **more}.items()
    assert "caption" not in file


def test_a_voice_message() -> None:
    raw = message(msgtype="m.audio", url="mxc://a/1", **{"org.matrix.msc3245.voice": {}})
    assert translated(raw)["message"]["audioMessage"]["ptt"] is True


def test_a_sticker() -> None:
    raw = event("m.sticker", {"body": "cat", "url": "mxc://a/1", "info": {"mimetype": "image/webp"}})
    assert translated(raw)["message"]["stickerMessage"]["mimetype"] == "image/webp"


def test_a_location() -> None:
    raw = message(msgtype="m.location", body="Big Ben", geo_uri="geo:51.5008,-0.1247;u=35")
    place = {"degreesLatitude": 51.5008, "degreesLongitude": -0.1247, "name": "Big Ben"}
    assert translated(raw)["message"] == {"locationMessage": place}


@pytest.mark.parametrize("raw", [{"msgtype": "m.location", "geo_uri": "geo:north"}, {"msgtype": "x.poll"}])
def test_unknown_types_are_texts(raw: dict[str, Any]) -> None:
    assert translated(message(**raw))["message"] == {"conversation": "hello"}


def test_a_reaction() -> None:
    relation = {"rel_type": "m.annotation", "event_id": TARGET, "key": "👍"}
    data = translated(event("m.reaction", {"m.relates_to": relation}))
    key = {"remoteJid": ROOM, "fromMe": True, "id": TARGET, "participant": ME}
    assert data["message"] == {"reactionMessage": {"key": key, "text": "👍"}}
    assert data["messageType"] == "reactionMessage"


def test_an_edit() -> None:
    relation = {"rel_type": "m.replace", "event_id": "$anas"}
    raw = message(
        body="* yes", **{"m.relates_to": relation, "m.new_content": {"msgtype": "m.text", "body": "yes"}}
    )
    data = translated(raw, "MESSAGES_EDITED")
    assert data["key"]["id"] == "$anas"
    assert data["message"] == {"conversation": "yes"}


def test_nobody_edits_what_somebody_else_wrote() -> None:
    # Homeservers pass it on; "the original event and replacement event must have the same sender".
    relation = {"rel_type": "m.replace", "event_id": TARGET}
    raw = message(
        body="* yes", **{"m.relates_to": relation, "m.new_content": {"msgtype": "m.text", "body": "yes"}}
    )
    data = translated(raw, "MESSAGES_UPSERT")
    assert data["key"]["id"] == raw["event_id"]
    assert data["message"] == {"conversation": "* yes"}


@pytest.mark.parametrize("place", ["content", "event"])
def test_a_redaction(place: str) -> None:
    raw = event("m.room.redaction", {"redacts": TARGET} if place == "content" else {})
    data = translated({**raw, "redacts": TARGET} if place == "event" else raw, "MESSAGES_DELETE")
    key = {"remoteJid": ROOM, "fromMe": True, "id": TARGET, "participant": ME}
    assert data == {**key, "status": "DELETED", "deletedBy": ANA, "messageTimestamp": 1773027345}


def test_a_message_that_was_redacted_meanwhile_raises_nothing() -> None:
    assert events.translate(event("m.room.message", {}), ROOM, ACCOUNT) is None


def test_an_encrypted_message_says_that_it_cannot_be_read() -> None:
    raw = event("m.room.encrypted", {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "AwgAEnACgAk"})
    data = translated(raw)
    assert data["messageStubParameters"] == [events.ENCRYPTED]
    assert data["message"] == {}


@pytest.mark.parametrize(
    ("before", "now", "action"),
    [
        (None, "join", "add"),
        ("invite", "join", "add"),
        ("join", "leave", "remove"),
        (None, "invite", "invite"),
        (None, "knock", "knock"),
        ("ban", "leave", None),
        (None, "dance", None),
    ],
)
def test_membership(before: str | None, now: str, action: str | None) -> None:
    unsigned = {"prev_content": {"membership": before}} if before else {}
    raw = event("m.room.member", {"membership": now}, state_key="@bo:hs.example", unsigned=unsigned)
    if action is None:
        assert network_event(raw) == "m.room.member"
        return
    data = translated(raw, "GROUP_PARTICIPANTS_UPDATE")
    assert data == {"id": ROOM, "author": ANA, "participants": ["@bo:hs.example"], "action": action}


def test_a_ban_says_so() -> None:
    content = {"membership": "ban", "reason": "spam"}
    raw = event("m.room.member", content, state_key="@bo:hs.example")
    data = translated(raw, "GROUP_PARTICIPANTS_UPDATE")
    assert (data["action"], data["isBan"], data["reason"]) == ("remove", True, "spam")


def test_another_name_or_picture_of_a_member_is_a_changed_contact() -> None:
    content = {"membership": "join", "displayname": "Bo", "avatar_url": "mxc://hs.example/bo"}
    unsigned = {"prev_content": {"membership": "join"}}
    raw = event("m.room.member", content, state_key="@bo:hs.example", unsigned=unsigned)
    assert listed(raw, "CONTACTS_UPDATE") == {
        "id": "@bo:hs.example",
        "remoteJid": "@bo:hs.example",
        "pushName": "Bo",
        "profilePicUrl": media_url("mxc://hs.example/bo"),
        "groupJid": ROOM,
    }
    assert events.translate({**raw, "state_key": ME}, ROOM, ACCOUNT) is None


def test_changes_of_a_room_and_its_upgrade() -> None:
    def changed(kind: str, **content: Any) -> dict[str, Any]:
        return listed(event(kind, content, state_key=""), "GROUPS_UPDATE")

    assert changed("m.room.name", name="Shop") == {"id": ROOM, "subject": "Shop", "author": ANA}
    assert changed("m.room.topic", topic="Questions")["desc"] == "Questions"
    assert changed("m.room.avatar", url="mxc://a/1")["pictureUrl"] == media_url("mxc://a/1")
    upgrade = {"body": "This room has been replaced.", "replacement_room": "!new:hs.example"}
    assert changed("m.room.tombstone", **upgrade) == {
        "id": ROOM,
        "replacedBy": "!new:hs.example",
        "reason": "This room has been replaced.",
        "author": ANA,
    }
    # Anybody may write an event of this type that is no state of the room.
    assert network_event(event("m.room.tombstone", upgrade)) == "m.room.tombstone"
    assert network_event(event("m.room.tombstone", {"replacement_room": 7}, state_key="")) != ""


def test_a_call() -> None:
    content = {"call_id": "c1", "version": "1", "offer": {"type": "offer", "sdp": "v=0\r\nm=video 9"}}
    assert listed(event("m.call.invite", content), "CALL") == {
        "id": "c1",
        "chatId": ROOM,
        "from": ANA,
        "status": "offer",
        "isVideo": True,
        "date": 1773027345,
        "content": content,
    }
    ended = listed(event("m.call.hangup", {"call_id": "c1"}), "CALL")
    assert (ended["status"], ended["isVideo"]) == ("terminate", False)
    assert network_event(event("m.call.candidates", {"call_id": "c1"})) == "m.call.candidates"


STABLE = {
    "m.text": [{"body": "Open on Sunday?\n1. Yes\n2. No"}],
    "m.poll": {
        "kind": "m.disclosed",
        "max_selections": 2,
        "question": {"m.text": [{"body": "Open on Sunday?"}]},
        "answers": [{"m.id": "y", "m.text": [{"body": "Yes"}]}, {"m.id": "n", "m.text": [{"body": "No"}]}],
    },
}
UNSTABLE = {
    "org.matrix.msc1767.text": "Open on Sunday?\n1. Yes\n2. No",
    "org.matrix.msc3381.poll.start": {
        "kind": "org.matrix.msc3381.poll.disclosed",
        "max_selections": 2,
        "question": {"org.matrix.msc1767.text": "Open on Sunday?", "body": "Open on Sunday?"},
        "answers": [
            {"id": "y", "org.matrix.msc1767.text": "Yes"},
            {"id": "n", "org.matrix.msc1767.text": "No"},
        ],
    },
}


@pytest.mark.parametrize(
    ("kind", "content"), [("m.poll.start", STABLE), ("org.matrix.msc3381.poll.start", UNSTABLE)]
)
def test_a_poll(kind: str, content: dict[str, Any]) -> None:
    raw = event(kind, content)
    data = translated(raw)
    assert data["messageType"] == "pollCreationMessage"
    assert data["message"]["pollCreationMessage"] == {
        "name": "Open on Sunday?",
        "options": [{"optionName": "Yes", "optionId": "y"}, {"optionName": "No", "optionId": "n"}],
        "selectableOptionsCount": 2,
    }
    assert content_of.poll_options(raw) == {"y": "Yes", "n": "No"}


@pytest.mark.parametrize(
    ("kind", "chosen"),
    [
        ("m.poll.response", {"m.selections": ["y", "other"]}),
        (
            "org.matrix.msc3381.poll.response",
            {"org.matrix.msc3381.poll.response": {"answers": ["y", "other"]}},
        ),
    ],
)
def test_a_vote(kind: str, chosen: dict[str, Any]) -> None:
    relation = {"m.relates_to": {"rel_type": "m.reference", "event_id": "$poll"}}
    data = translated(event(kind, {**chosen, **relation}))
    assert data["messageType"] == "pollUpdateMessage"
    assert data["message"]["pollUpdateMessage"] == {
        "pollCreationMessageKey": {"remoteJid": ROOM, "fromMe": False, "id": "$poll"},
        "vote": {"selectedOptions": ["Yes", "other"]},
    }
    assert network_event(event(kind, chosen)) == kind  # a vote in no poll


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("m.poll.end", {}),
        ("m.call.invite", {}),
        ("m.room.power_levels", {"state_key": ""}),
        ("org.example.order", {}),
        ("m.room.message", {}),
        ("m.reaction", {}),
    ],
)
def test_what_has_no_kind_is_passed_on_as_it_came(kind: str, more: dict[str, Any]) -> None:
    raw = event(kind, {"a": {"b": [1, None, "ü"]}}, **more)
    new = events.translate(raw, ROOM, ACCOUNT)
    assert new is not None
    assert new.kind == "NETWORK_EVENT"
    value = {**raw, "room_id": ROOM}
    assert json.loads(new.data_json or b"") == {"network": "matrix", "name": kind, "value": value}
    redacted = {**raw, "unsigned": {"redacted_because": {"type": "m.room.redaction"}}}
    assert events.translate(redacted, ROOM, ACCOUNT) is None


@pytest.mark.parametrize(
    ("kind", "state_key"),
    [
        ("m.space.child", "!room:hs.example"),
        ("im.vector.modular.widgets", "w1"),
        ("org.matrix.msc3401.call.member", f"_{ANA}_DEVICE"),
    ],
)
def test_a_state_that_is_taken_back_is_passed_on(kind: str, state_key: str) -> None:
    raw = event(kind, {}, state_key=state_key)
    assert network_event(raw) == kind
    redacted = {**raw, "unsigned": {"redacted_because": {"type": "m.room.redaction"}}}
    assert events.translate(redacted, ROOM, ACCOUNT) is None


@pytest.mark.parametrize(
    ("content", "is_whole"),
    [
        ({}, False),
        ({"msgtype": "m.text", "formatted_body": "<b>hello</b>"}, True),
        ({"msgtype": "m.emote"}, True),
        ({"msgtype": "org.example.order", "items": [1]}, True),
        ({"m.mentions": {"room": True}}, True),
        ({"msgtype": "m.file", "file": {"url": "mxc://a/1"}}, True),
        ({"msgtype": "m.file", "url": "mxc://a/1"}, False),
    ],
)
def test_what_a_translation_leaves_out_is_in_the_content(content: dict[str, Any], is_whole: bool) -> None:
    raw = message(**content)
    assert translated(raw).get("content") == (raw["content"] if is_whole else None)


def test_an_invitation_of_the_account_is_raised_once() -> None:
    raw = event("m.room.member", {"membership": "invite", "is_direct": True}, state_key=ME)
    assert events.translate(raw, ROOM, ACCOUNT) is None
    new = events.invitation(ROOM, {"invite_state": {"events": [raw]}}, ACCOUNT)
    assert new is not None
    assert new.data["isDirect"] is True
    assert new.data["author"] == ANA
    assert events.invitation(ROOM, {"invite_state": {"events": [message(), 3]}}, ACCOUNT) is None


def test_receipts() -> None:
    content = {TARGET: {"m.read": {ANA: {"ts": 1}}}, "$anas": {"m.read.private": {ME: {}}}, "$x": 3}
    found = list(events.receipts(content, ROOM, ACCOUNT))
    assert [(new.kind, new.data["keyId"], new.data["fromMe"], new.data["participant"]) for new in found] == [
        ("MESSAGES_UPDATE", TARGET, True, ANA),
        ("MESSAGES_UPDATE", "$anas", False, ME),
    ]
    assert {new.event_id for new in found} == {
        event_id_of("read", ROOM, TARGET, ANA),
        event_id_of("read", ROOM, "$anas", ME),
    }
    for new in found:
        assert_valid(new)


def test_typing() -> None:
    new = events.typing(ROOM, {"@bo:a", ME}, {ANA}, ACCOUNT)
    assert new is not None
    assert new.data["presences"] == {
        ANA: {"lastKnownPresence": "composing"},
        "@bo:a": {"lastKnownPresence": "paused"},
    }
    assert events.typing(ROOM, {ANA}, {ANA, ME}, ACCOUNT) is None


def test_presence() -> None:
    raw: dict[str, Any] = {"sender": ANA, "content": {"presence": "online", "last_active_ago": 2500}}
    new = events.presence(raw, ACCOUNT, 1000.0)
    assert new is not None
    assert new.data == {"id": ANA, "presences": {ANA: {"lastKnownPresence": "available", "lastSeen": 997}}}
    away = {**raw["content"], "status_msg": "on holiday"}
    new = events.presence({**raw, "content": away}, ACCOUNT, 1000.0)
    assert new is not None
    assert new.data["presences"][ANA]["status"] == "on holiday"
    assert events.presence({**raw, "sender": ME}, ACCOUNT, 1000.0) is None
    assert events.presence({**raw, "content": {"presence": "busy"}}, ACCOUNT, 1000.0) is None


HOSTILE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("type", "sender", "event_id", "origin_server_ts", "content", "unsigned", "state_key", "redacts")
CONTENT = (
    "msgtype",
    "body",
    "url",
    "filename",
    "info",
    "geo_uri",
    "m.relates_to",
    "m.new_content",
    "m.mentions",
    "m.poll",
    "m.selections",
    "replacement_room",
)


def objects(*names: str, valid: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {}, optional={name: HOSTILE | st.just(valid.get(name)) for name in names}
    ).map(lambda found: {**valid, **found})


@given(
    st.sampled_from(
        [
            *("m.room.message", "m.sticker", "m.reaction", "m.room.redaction", "m.room.member"),
            *("m.room.encrypted", "m.poll.start", "m.poll.response", "m.room.tombstone", "m.room.avatar"),
        ]
    ).flatmap(
        lambda kind: objects(
            *CONTENT, valid={"msgtype": "m.image", "body": "x", "url": "mxc://a/1", "membership": "join"}
        ).flatmap(lambda content: objects(*FIELDS, valid=event(kind, content, state_key=ANA)))
    )
)
def test_whatever_a_room_contains_is_an_event_or_nothing(raw: dict[str, Any]) -> None:
    new = events.translate(raw, ROOM, ACCOUNT)
    if new is not None:
        assert_valid(new)


@given(HOSTILE)
def test_whatever_else_a_homeserver_says_is_no_exception(raw: Any) -> None:
    events.translate(raw, ROOM, ACCOUNT)
    events.receipts(raw, ROOM, ACCOUNT)
    events.presence(raw, ACCOUNT, 0.0)
    events.invitation(ROOM, raw, ACCOUNT)


def test_a_kind_that_is_switched_off_is_passed_on_as_it_came() -> None:
    """Without the plugin that adds it, hookgw has no kind."""
    account = msgspec.structs.replace(ACCOUNT, has_kind=lambda kind: kind == "MESSAGES_UPSERT")
    raw = event("m.room.name", {"name": "Neighbours"}, state_key="")
    new = events.translate(raw, ROOM, account)
    assert new is not None
    assert new.kind == "NETWORK_EVENT"
    told = msgspec.json.decode(new.data_json or b"")
    assert told == {"network": "matrix", "name": "m.room.name", "value": {**raw, "room_id": ROOM}}
    kept = events.translate(message(), ROOM, account)
    assert kept is not None
    assert kept.kind == "MESSAGES_UPSERT"
