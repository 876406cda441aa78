"""Updates of Telegram as events: every kind of message, and what nobody should send."""

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from hookgw import NewEvent
from hookgw.connectors import decode_json
from plugins.telegram.content import file_of
from plugins.telegram.events import ALLOWED_UPDATES, Bot, translate, unknown
from tests.first_party.runs import assert_valid

ANA = {"id": 42, "is_bot": False, "first_name": "Ana", "last_name": "Silva"}
PRIVATE = {"id": 42, "type": "private", "first_name": "Ana"}
GROUP = {"id": -1001, "type": "supergroup", "title": "Team"}
CHANNEL = {"id": -1002, "type": "channel", "title": "News"}
FILE = {"file_id": "AgAC-1", "file_unique_id": "u", "file_size": 5}


def media_url(reference: str, *, mimetype: str = "", file_name: str = "") -> str:
    return f"link:{reference}:{mimetype}:{file_name}"


def bot(**more: Any) -> Bot:
    given = {"id": "7", "media_url": media_url, "has_done": lambda *what: what[2] == "99", "now": 5.0, **more}
    return Bot(**given)


def message(chat: dict[str, Any] = PRIVATE, **fields: Any) -> dict[str, Any]:
    return {"message_id": 10, "from": ANA, "chat": chat, "date": 1_773_027_345, **fields}


def events(kind: str, content: Any, **more: Any) -> list[NewEvent]:
    found = translate({"update_id": 1000, kind: content}, bot(**more))
    assert found is not None, "it has no kind"
    for event in found:
        assert_valid(event)
    return found


def assert_passed_on(kind: str, content: Any) -> None:
    """Check that an update is a NETWORK_EVENT, byte for byte."""
    raw = b'{"update_id": 1000, "%b": %b}' % (kind.encode(), json.dumps(content).encode())
    update = json.loads(raw)
    assert translate(update, bot()) is None
    [event] = unknown(update, bot(), raw)
    value = json.dumps(content).encode()
    assert event.data_json == b'{"network":"telegram","name":"%b","value":%b}' % (kind.encode(), value)
    [again] = unknown(update, bot(), b"")
    assert again.event_id == event.event_id
    assert json.loads(again.data_json or b"")["value"] == content


def only(kind: str, content: Any, **more: Any) -> NewEvent:
    [event] = events(kind, content, **more)
    return event


def test_a_text() -> None:
    event = only("message", message(text="Are you open?"))
    assert event.kind == "MESSAGES_UPSERT"
    assert event.data == {
        "key": {"remoteJid": "42", "fromMe": False, "id": "10"},
        "pushName": "Ana Silva",
        "message": {"conversation": "Are you open?"},
        "messageType": "conversation",
        "messageTimestamp": 1_773_027_345,
        "source": "telegram",
    }


def test_a_text_is_plain_beside_its_entities_and_the_mentioned() -> None:
    entities = [
        {"type": "bold", "offset": 0, "length": 2},
        {"type": "text_mention", "offset": 3, "length": 3, "user": {"id": 43, "first_name": "Ben"}},
    ]
    data = only("message", message(GROUP, text="Oi Ben", entities=entities)).data
    assert data["message"] == {"conversation": "Oi Ben"}
    assert data["contextInfo"] == {"entities": entities, "mentionedJid": ["43"]}
    assert data["key"] == {"remoteJid": "-1001", "fromMe": False, "id": "10", "participant": "42"}


@pytest.mark.parametrize(
    ("fields", "name", "body"),
    [
        (
            {
                "photo": [{**FILE, "width": 90, "height": 60}, {**FILE, "file_id": "AgAC-2", "width": 900}],
                "caption": "look",
            },
            "imageMessage",
            {
                "url": "link:AgAC-2:image/jpeg:",
                "mimetype": "image/jpeg",
                "caption": "look",
                "fileLength": "5",
                "width": 900,
            },
        ),
        (
            {"video": {**FILE, "mime_type": "video/webm", "duration": 3, "width": 4, "height": 2}},
            "videoMessage",
            {
                "url": "link:AgAC-1:video/webm:",
                "mimetype": "video/webm",
                "fileLength": "5",
                "seconds": 3,
                "width": 4,
                "height": 2,
            },
        ),
        (
            {"animation": FILE, "document": {**FILE, "file_name": "a.gif"}},
            "videoMessage",
            {
                "url": "link:AgAC-1:video/mp4:",
                "mimetype": "video/mp4",
                "fileLength": "5",
                "gifPlayback": True,
            },
        ),
        (
            {"video_note": {**FILE, "duration": 2}},
            "videoMessage",
            {
                "url": "link:AgAC-1:video/mp4:",
                "mimetype": "video/mp4",
                "fileLength": "5",
                "seconds": 2,
                "ptv": True,
            },
        ),
        (
            {"voice": {**FILE, "duration": 2}},
            "audioMessage",
            {
                "url": "link:AgAC-1:audio/ogg:",
                "mimetype": "audio/ogg",
                "fileLength": "5",
                "seconds": 2,
                "ptt": True,
            },
        ),
        (
            {"audio": {**FILE, "mime_type": "not a type", "title": "Song"}},
            "audioMessage",
            {
                "url": "link:AgAC-1:audio/mpeg:",
                "mimetype": "audio/mpeg",
                "fileLength": "5",
                "ptt": False,
                "title": "Song",
            },
        ),
        (
            {"document": {**FILE, "mime_type": "application/pdf", "file_name": "a.pdf"}},
            "documentMessage",
            {
                "url": "link:AgAC-1:application/pdf:a.pdf",
                "mimetype": "application/pdf",
                "fileName": "a.pdf",
                "fileLength": "5",
                "title": "a.pdf",
            },
        ),
        (
            {"sticker": {**FILE, "is_animated": True, "emoji": "🙂"}},
            "stickerMessage",
            {
                "url": "link:AgAC-1:application/x-tgsticker:",
                "mimetype": "application/x-tgsticker",
                "fileLength": "5",
                "isAnimated": True,
                "emoji": "🙂",
            },
        ),
        (
            {"sticker": FILE},
            "stickerMessage",
            {
                "url": "link:AgAC-1:image/webp:",
                "mimetype": "image/webp",
                "fileLength": "5",
                "isAnimated": False,
                "emoji": "",
            },
        ),
        (
            {"sticker": {**FILE, "is_video": True, "emoji": "🙂"}},
            "stickerMessage",
            {
                "url": "link:AgAC-1:video/webm:",
                "mimetype": "video/webm",
                "fileLength": "5",
                "isAnimated": True,
                "emoji": "🙂",
            },
        ),
        (
            {"location": {"latitude": 1}},
            "unsupportedMessage",
            {"content": ["location"], "caption": "", "fields": {"location": {"latitude": 1}}},
        ),
        (
            {"location": {"latitude": -23.5, "longitude": -46}},
            "locationMessage",
            {"degreesLatitude": -23.5, "degreesLongitude": -46.0, "name": "", "address": ""},
        ),
        (
            {"location": {"latitude": 1, "longitude": 2, "live_period": 60}},
            "liveLocationMessage",
            {"degreesLatitude": 1.0, "degreesLongitude": 2.0},
        ),
        (
            {"venue": {"location": {"latitude": 1, "longitude": 2}, "title": "Shop", "address": "Rua A, 1"}},
            "locationMessage",
            {"degreesLatitude": 1.0, "degreesLongitude": 2.0, "name": "Shop", "address": "Rua A, 1"},
        ),
        (
            {"contact": {"first_name": "Ben;\nNOTE:x", "phone_number": "+55 11", "user_id": 43}},
            "contactMessage",
            {
                "displayName": "Ben;\nNOTE:x",
                "vcard": "BEGIN:VCARD\nVERSION:3.0\nFN:Ben\\;\\nNOTE:x\nTEL:+55 11\nEND:VCARD",
                "userId": "43",
            },
        ),
        (
            {"poll": {"id": "5", "question": "When?", "options": [{"text": "9"}, {"text": "18"}]}},
            "pollCreationMessage",
            {
                "name": "When?",
                "options": [{"optionName": "9"}, {"optionName": "18"}],
                "selectableOptionsCount": 1,
                "poll": {"id": "5", "question": "When?", "options": [{"text": "9"}, {"text": "18"}]},
            },
        ),
        (
            {"poll": {"id": "5", "question": "When?", "allows_multiple_answers": True}},
            "pollCreationMessage",
            {
                "name": "When?",
                "options": [],
                "selectableOptionsCount": 0,
                "poll": {"id": "5", "question": "When?", "allows_multiple_answers": True},
            },
        ),
        (
            {"web_app_data": {"data": "x=1", "button_text": "Order"}},
            "buttonsResponseMessage",
            {"selectedButtonId": "x=1", "selectedDisplayText": "Order"},
        ),
        (
            {"story": {"id": 1}},
            "unsupportedMessage",
            {"content": ["story"], "caption": "", "fields": {"story": {"id": 1}}},
        ),
    ],
)
def test_contents(fields: dict[str, Any], name: str, body: Any) -> None:
    data = only("message", message(**fields)).data
    assert data["messageType"] == name
    assert data["message"] == {name: body}


def test_a_rich_message_has_its_words() -> None:
    link = {"type": "url", "text": {"type": "bold", "text": "the list"}, "url": "https://shop.example"}
    cells = [[{"text": "Tea"}, {"text": "3"}], [{"align": "left"}, "odd"], 7]
    rich = {
        "blocks": [
            {"type": "heading", "text": "Order", "size": 1},
            {
                "type": "paragraph",
                "text": ["See ", link, " ", {"type": "custom_emoji", "alternative_text": "🙂"}],
            },
            {"type": "list", "items": [{"label": "1.", "blocks": [{"type": "paragraph", "text": "Tea"}]}]},
            {"type": "table", "cells": cells, "caption": "Prices"},
            {"type": "photo", "photo": [{"file_id": "AgAC"}], "caption": {"text": "Shop", "credit": "Ana"}},
            {"type": "details", "summary": "More", "blocks": [{"type": "divider"}, {"text": "Bye"}, None, 7]},
        ]
    }
    data = only("message", message(rich_message=rich)).data
    words = "Order\nSee the list 🙂\n1. Tea\nPrices\nTea\t3\nodd\nShop\nAna\nMore\nBye"
    assert data["message"] == {"conversation": words, "richMessage": rich}
    assert data["messageType"] == "conversation"
    deep: Any = "words"
    for _ in range(900):
        deep = {"text": deep}
    for other in ({"blocks": [{"type": "photo", "photo": []}]}, {"blocks": [deep]}):
        assert only("message", message(rich_message=other)).data["messageType"] == "unsupportedMessage"


def test_a_die_is_a_text() -> None:
    data = only("message", message(dice={"emoji": "🎲", "value": 4})).data
    assert data["message"] == {"conversation": "🎲 4"}


def test_a_reply_quotes_and_a_forward_says_from_whom() -> None:
    answered = {"message_id": 9, "from": {"id": 7}, "chat": GROUP, "date": 1, "text": "Hi"}
    origin = {"type": "hidden_user", "sender_user_name": "Zoe"}
    more = {"message_thread_id": 3, "is_topic_message": True, "media_group_id": "g"}
    data = only(
        "message", message(GROUP, text="Yes", reply_to_message=answered, forward_origin=origin, **more)
    ).data
    assert data["contextInfo"] == {
        "stanzaId": "9",
        "participant": "7",
        "quotedMessage": {"conversation": "Hi"},
        "threadId": "3",
        "isForwarded": True,
        "forwardedFrom": "Zoe",
        "mediaGroupId": "g",
    }
    opened = {**answered, "forum_topic_created": {"name": "A"}}
    assert "contextInfo" not in only("message", message(GROUP, text="Yes", reply_to_message=opened)).data


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ({"type": "user", "sender_user": ANA}, {"forwardedFrom": "Ana Silva"}),
        ({"type": "chat", "sender_chat": GROUP}, {"forwardedFrom": "Team"}),
        ({"type": "channel", "chat": CHANNEL}, {"forwardedFrom": "News"}),
        ({"type": "of_the_future"}, {}),
    ],
)
def test_where_a_message_was_forwarded_from(origin: dict[str, Any], name: dict[str, str]) -> None:
    data = only("message", message(text="x", forward_origin=origin)).data
    assert data["contextInfo"] == {"isForwarded": True, **name}


def test_posts_of_channels_have_the_channel_as_author() -> None:
    post = {"message_id": 3, "sender_chat": CHANNEL, "chat": CHANNEL, "date": 1, "text": "News!"}
    event = only("channel_post", post)
    assert event.data["key"] == {"remoteJid": "-1002", "fromMe": False, "id": "3", "participant": "-1002"}
    assert event.data["pushName"] == "News"
    assert only("edited_channel_post", {**post, "edit_date": 2}).kind == "MESSAGES_EDITED"


def test_edits_have_the_key_of_the_message() -> None:
    event = only("edited_message", message(text="later", edit_date=1_773_027_400))
    assert event.kind == "MESSAGES_EDITED"
    assert event.data["key"]["id"] == "10"
    assert event.data["editTimestamp"] == 1_773_027_400
    again = translate(
        {"update_id": 1001, "edited_message": message(text="x", edit_date=1_773_027_400)}, bot()
    )
    assert (again or [event])[0].event_id != event.event_id


def test_ids_are_the_same_for_the_same_message_and_differ_between_chats_and_bots() -> None:
    first = only("message", message(text="a")).event_id
    assert (translate({"update_id": 2, "message": message(text="a")}, bot()) or [])[0].event_id == first
    assert only("message", message(GROUP, text="a")).event_id != first
    assert only("message", message(text="a"), id="8").event_id != first
    assert only("business_message", message(text="a", business_connection_id="B1")).event_id != first


def test_a_business_account_has_its_own_chats() -> None:
    theirs = only("business_message", message(text="Hi", business_connection_id="B1")).data
    assert theirs["key"] == {"remoteJid": "42@B1", "fromMe": False, "id": "10"}
    owner = {"id": 77, "first_name": "Owner"}
    own = message(text="Hello", business_connection_id="B1", **{"from": owner})
    assert only("business_message", own).data["key"]["fromMe"] is True
    assert events("business_message", {**own, "sender_business_bot": {"id": 7}}) == []
    edited = only("edited_business_message", {**own, "edit_date": 3})
    assert edited.kind == "MESSAGES_EDITED"
    deleted = events(
        "deleted_business_messages",
        {"business_connection_id": "B1", "chat": PRIVATE, "message_ids": [10, 11, "x"]},
    )
    assert [(event.kind, event.data["remoteJid"], event.data["id"]) for event in deleted] == [
        ("MESSAGES_DELETE", "42@B1", "10"),
        ("MESSAGES_DELETE", "42@B1", "11"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ([], [{"type": "emoji", "emoji": "👍"}], "👍"),
        ([{"type": "emoji", "emoji": "👍"}], [], ""),
        (
            [{"type": "emoji", "emoji": "👍"}],
            [{"type": "emoji", "emoji": "👍"}, {"type": "emoji", "emoji": "🎉"}],
            "🎉",
        ),
        ([], [{"type": "custom_emoji", "custom_emoji_id": "55"}], "custom_emoji:55"),
        ([], [{"type": "paid"}], "⭐"),
    ],
)
def test_reactions(old: Any, new: Any, shown: str) -> None:
    reaction = {"chat": GROUP, "message_id": 99, "user": ANA, "date": 5}
    event = only("message_reaction", {**reaction, "old_reaction": old, "new_reaction": new})
    assert event.data["message"] == {
        "reactionMessage": {"key": {"remoteJid": "-1001", "fromMe": True, "id": "99"}, "text": shown}
    }
    assert event.data["key"] == {
        "remoteJid": "-1001",
        "fromMe": False,
        "id": "reaction-1000",
        "participant": "42",
    }
    assert event.data["pushName"] == "Ana Silva"


def test_who_reacted() -> None:
    reaction = {"message_id": 10, "date": 5, "new_reaction": [{"type": "emoji", "emoji": "👍"}]}
    private = only("message_reaction", {**reaction, "chat": PRIVATE, "user": ANA}).data
    assert private["key"] == {"remoteJid": "42", "fromMe": False, "id": "reaction-1000"}
    admin = only("message_reaction", {**reaction, "chat": GROUP, "actor_chat": GROUP}).data
    assert (admin["key"]["participant"], admin["pushName"]) == ("-1001", "Team")


def test_a_pressed_button() -> None:
    buttons = [{"text": "Yes", "callback_data": "y"}, {"text": "No", "callback_data": "n"}]
    keyboard = {"inline_keyboard": [buttons, "broken"]}
    shown = message(GROUP, text="Sure?", reply_markup=keyboard)
    event = only("callback_query", {"id": "q1", "from": ANA, "message": shown, "data": "y"})
    assert event.data["message"] == {
        "buttonsResponseMessage": {"selectedButtonId": "y", "selectedDisplayText": "Yes"}
    }
    assert event.data["key"] == {"remoteJid": "-1001", "fromMe": False, "id": "q1", "participant": "42"}
    assert event.data["contextInfo"] == {"stanzaId": "10"}
    assert event.data["messageTimestamp"] == 5
    without_chat = only("callback_query", {"id": "q2", "from": ANA, "data": "y"})
    assert without_chat.data["key"] == {"remoteJid": "42", "fromMe": False, "id": "q2"}
    assert without_chat.data["pushName"] == "Ana Silva"
    assert "contextInfo" not in without_chat.data


def change(old: str, new: str, chat: dict[str, Any] = GROUP, **more: Any) -> dict[str, Any]:
    return {
        "chat": chat,
        "from": ANA,
        "date": 5,
        "old_chat_member": {"status": old, "user": {"id": 43}},
        "new_chat_member": {"status": new, "user": {"id": 43}, **more},
    }


@pytest.mark.parametrize(
    ("content", "action"),
    [
        (change("left", "member"), "add"),
        (change("member", "kicked"), "remove"),
        (change("member", "restricted", is_member=False), "remove"),
        (change("member", "administrator"), "promote"),
        (change("administrator", "member"), "demote"),
    ],
)
def test_members(content: dict[str, Any], action: str) -> None:
    for kind in ("chat_member", "my_chat_member"):
        event = only(kind, content)
        assert event.kind == "GROUP_PARTICIPANTS_UPDATE"
        data = {
            "id": "-1001",
            "author": "42",
            "participants": ["43"],
            "action": action,
            "messageTimestamp": 5,
        }
        assert event.data == data


def test_changes_of_rights_raise_nothing_and_a_block_is_an_update_of_the_chat() -> None:
    assert_passed_on("chat_member", change("administrator", "administrator"))  # other rights
    blocked = only("my_chat_member", change("member", "kicked", PRIVATE))
    assert (blocked.kind, blocked.data) == ("CHATS_UPDATE", [{"remoteJid": "42", "isBlocked": True}])
    again = only("my_chat_member", change("kicked", "member", PRIVATE))
    assert again.data == [{"remoteJid": "42", "isBlocked": False}]


def test_service_messages() -> None:
    joined = only("message", message(GROUP, new_chat_members=[{"id": 43}, {"id": 44}])).data
    assert joined["messageStubType"] == "GROUP_PARTICIPANT_ADD"
    assert joined["messageStubParameters"] == ["43", "44"]
    left = only("message", message(GROUP, left_chat_member={"id": 43})).data
    assert left["messageStubType"] == "GROUP_PARTICIPANT_REMOVE"
    renamed = only("message", message(GROUP, new_chat_title="Staff"))
    assert (renamed.kind, renamed.data) == ("GROUPS_UPDATE", [{"id": "-1001", "subject": "Staff"}])
    moved = only("message", message({"id": -5, "type": "group"}, migrate_to_chat_id=-1001))
    assert (moved.kind, moved.data) == ("GROUPS_UPDATE", [{"id": "-5", "migratedTo": "-1001"}])
    assert_passed_on("message", message(GROUP, migrate_from_chat_id=-5))
    assert_passed_on("message", message(GROUP, pinned_message=message(GROUP, text="x")))


def test_groups_can_be_ignored() -> None:
    query = {"id": "q1", "from": ANA, "message": message(GROUP, text="x"), "data": "y"}
    reaction = {"chat": GROUP, "message_id": 99, "user": ANA, "date": 5, "new_reaction": []}
    for kind, content in (
        ("message", message(GROUP, text="x")),
        ("edited_message", message(GROUP, text="x")),
        ("channel_post", message(CHANNEL, text="x")),
        ("callback_query", query),
        ("message_reaction", reaction),
        ("chat_member", change("left", "member")),
    ):
        assert events(kind, content, groups_ignore=True) == []
    assert len(events("message", message(text="x"), groups_ignore=True)) == 1


def test_what_hookgw_sent_is_no_new_message() -> None:
    post = {"message_id": 99, "chat": CHANNEL, "from": {"id": 7}, "date": 1, "text": "News!"}
    assert events("channel_post", post) == []
    # What somebody else has sent with the bot's token is one.
    other = only("channel_post", {**post, "message_id": 98}).data
    assert (other["key"]["fromMe"], other["status"]) == (True, "SERVER_ACK")


def test_what_hookgw_edited_is_no_second_event() -> None:
    done: list[tuple[str, ...]] = [("edited", "42", "10", "new")]
    for fields, count in (({"text": "new"}, 0), ({"photo": [FILE], "caption": "new"}, 0), ({"text": "a"}, 1)):
        edited = message(**fields, edit_date=6)
        assert len(events("edited_message", edited, has_done=lambda *what: what in done)) == count


def test_what_hookgw_changed_in_a_business_account_is_no_second_event() -> None:
    own = {**message(text="b", business_connection_id="B1"), "message_id": 99}
    assert events("edited_business_message", own) == []
    deleted = {"business_connection_id": "B1", "chat": PRIVATE, "message_ids": [99, 98]}
    assert only("deleted_business_messages", deleted).data == {
        "remoteJid": "42@B1",
        "fromMe": False,
        "id": "98",
        "status": "DELETED",
    }


@pytest.mark.parametrize("kind", ["inline_query", "poll_answer", "business_connection", "of_the_future"])
def test_updates_of_other_kinds_are_passed_on(kind: str) -> None:
    assert_passed_on(kind, {"id": "1", "from": ANA, "n": 1.0})


@pytest.mark.parametrize("kind", ALLOWED_UPDATES)
def test_an_update_that_cannot_be_read_is_passed_on(kind: str) -> None:
    assert_passed_on(kind, {"odd": True})
    assert_passed_on(kind, [7])


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("message", {"chat": PRIVATE, "text": "x"}),
        ("message", {"message_id": 10, "text": "x"}),
        ("deleted_business_messages", {"business_connection_id": "B", "message_ids": [1]}),
        ("deleted_business_messages", {"chat": PRIVATE, "message_ids": []}),
        ("message_reaction", {"chat": PRIVATE, "user": ANA, "new_reaction": []}),
        ("message_reaction", {"message_id": 10, "user": ANA, "new_reaction": []}),
        ("callback_query", {"from": ANA, "data": "y"}),
        ("callback_query", {"id": "q1", "data": "y"}),
        ("chat_member", {"chat": GROUP, "new_chat_member": {"status": "member"}}),
        ("chat_member", {"new_chat_member": {"status": "member", "user": {"id": 43}}}),
    ],
)
def test_an_update_that_lacks_a_part_is_passed_on(kind: str, content: dict[str, Any]) -> None:
    assert_passed_on(kind, content)


def test_unknown_news_of_groups_can_be_ignored() -> None:
    for chat, count in ((GROUP, 0), (PRIVATE, 1)):
        update = {"update_id": 1, "chat_join_request": {"chat": chat}}
        assert len(unknown(update, bot(groups_ignore=True), b"")) == count


def test_the_file_of_a_message() -> None:
    assert file_of({"message": message(photo=[{**FILE, "width": 1}])}) == ("AgAC-1", 5)
    assert file_of({"business_message": message(voice={"file_id": "x"})}) == ("x", 0)
    assert file_of({"edited_message": message(voice=FILE)}) is None
    assert file_of({"message": message(voice={"file_id": "../x"})}) is None


_ODD: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 2**70, -(2**70), 1e300, "", "x", "\ud83d", "a" * 5000, "\x00", "../.."),
    *([], {}, [None], [[]], {"id": 2**80}, {"id": "x"}, [{"file_id": "a/b"}], [1, "x", {}]),
]


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [path, *(leaf for key in value for leaf in _leaves(value[key], (*path, key)))]
    if isinstance(value, list):
        return [path, *(leaf for i, one in enumerate(value) for leaf in _leaves(one, (*path, i)))]
    return [path]


EVERYTHING = message(
    GROUP,
    text="t",
    photo=[{**FILE, "width": 1}],
    video=FILE,
    sticker={**FILE, "emoji": "x"},
    document={**FILE, "file_name": "n", "mime_type": "a/b"},
    venue={"location": {"latitude": 1, "longitude": 2}, "title": "t", "address": "a"},
    location={"latitude": 1, "longitude": 2, "live_period": 3},
    contact={"first_name": "f", "phone_number": "p", "user_id": 1},
    poll={"question": "q", "options": [{"text": "o"}]},
    dice={"emoji": "x", "value": 1},
    entities=[{"type": "text_mention", "user": {"id": 3}}],
    reply_to_message={"message_id": 1, "from": ANA, "text": "q"},
    forward_origin={"type": "user", "sender_user": ANA},
    new_chat_members=[{"id": 43}],
    left_chat_member={"id": 43},
    caption="c",
)
UPDATES: dict[str, Any] = {
    **{kind: {"id": "1", "chat": GROUP, "from": ANA} for kind in ALLOWED_UPDATES},
    **{
        kind: EVERYTHING
        for kind in ALLOWED_UPDATES
        if kind.endswith(("message", "post")) and "deleted" not in kind
    },
    "deleted_business_messages": {"business_connection_id": "B", "chat": PRIVATE, "message_ids": [1]},
    "message_reaction": {
        "chat": GROUP,
        "message_id": 1,
        "user": ANA,
        "date": 1,
        "old_reaction": [{"type": "emoji", "emoji": "x"}],
        "new_reaction": [{"type": "paid"}],
    },
    "callback_query": {
        "id": "q",
        "from": ANA,
        "data": "y",
        "message": {
            **message(GROUP),
            "reply_markup": {"inline_keyboard": [[{"callback_data": "y", "text": "Y"}]]},
        },
    },
    "my_chat_member": change("left", "member"),
    "chat_member": change("left", "member"),
}


def _put(value: Any, path: tuple[Any, ...], odd: Any, change: Callable[[Any, Any, Any], None]) -> Any:
    value = copy.deepcopy(value)
    inner = value
    for step in path[:-1]:
        inner = inner[step]
    change(inner, path[-1], odd)
    return value


@pytest.mark.parametrize("kind", ALLOWED_UPDATES)
def test_what_nobody_should_send_raises_no_exception_and_no_invalid_event(kind: str) -> None:
    def set_(inner: Any, step: Any, odd: Any) -> None:
        inner[step] = odd

    choose = random.Random(1)
    for path in _leaves(UPDATES[kind]):
        # One content after the other: the first that a message has hides the others.
        whole = UPDATES[kind]
        if path and isinstance(whole, dict) and path[0] in whole and choose.random() < 0.7:
            wanted = {"message_id", "from", "chat", "date", path[0]}
            whole = {name: one for name, one in whole.items() if name in wanted or kind not in _MESSAGES}
        for odd in _ODD:
            content = odd if not path else _put(whole, path, odd, set_)
            # Read as it comes: halves of characters are replaced, for example.
            update = decode_json(json.dumps({"update_id": 1, kind: content}).encode())
            for event in translate(update, bot()) or ():
                assert_valid(event)


_MESSAGES = {kind for kind, content in UPDATES.items() if content is EVERYTHING}
