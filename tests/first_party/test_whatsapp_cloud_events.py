"""Notifications as Meta sends them, and the events of hookgw for them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw import IngestRequest, NewEvent, ProofRefused, event_id_of
from plugins.whatsapp_cloud import events, webhooks
from plugins.whatsapp_cloud.events import Knowledge
from tests.first_party.runs import assert_valid
from tests.networks.whatsapp_cloud.graph import ACCOUNT, CUSTOMER, NUMBER
from tests.networks.whatsapp_cloud.webhooks import (
    USER_ID,
    contact,
    encode,
    message,
    notification,
    signature,
    status,
    text_message,
    value,
)
from tests.public.kernel import finish, read_network_json

CHAT = f"{CUSTOMER}@s.whatsapp.net"
LID = f"{USER_ID}@lid"
ME = f"{ACCOUNT}@s.whatsapp.net"
GROUP_ID = "Y2FwaV9ncm91cDoxNzA1NTU1MDEzOToxMjAzNjM0MDQ2OTQyMzM4MjAZD"


def media_url(reference: str, *, mimetype: str = "", file_name: str = "") -> str:
    return f"https://hookgw.example/media/{reference}?{mimetype}&{file_name}"


KNOWN = Knowledge(media_url=media_url, is_received=lambda id_: id_ == "wamid.theirs", has_kind=lambda _: True)


def read_changes(body: bytes) -> list[webhooks.Change]:
    notification = finish(read_network_json(body, tuple(webhooks.EVENTS)))
    return list(webhooks.read_changes(notification, body))


def translated(body: Any) -> list[NewEvent]:
    changes = read_changes(encode(body))
    found = [one.event for change in changes for one in events.translate(change, KNOWN)]
    for new in found:
        assert_valid(new)
        assert new.sender == ME
    return found


def unknown(*values: dict[str, Any], field: str = "messages") -> list[tuple[str, Any]]:
    """Return what is in the NETWORK_EVENTs of changes, which raise nothing else."""
    found = translated(notification(*values, field=field))
    assert {new.kind for new in found} <= {"NETWORK_EVENT"}
    data = [json.loads(new.data_json or b"") for new in found]
    assert {one["network"] for one in data} <= {"whatsapp_cloud"}
    return [(one["name"], one["value"]) for one in data]


def received(raw: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the data of the event for a message."""
    [new] = translated(notification(value(messages=[raw], **more)))
    assert new.kind == "MESSAGES_UPSERT"
    assert new.event_id == event_id_of("MESSAGES_UPSERT", raw["id"])
    data = new.data
    assert isinstance(data, dict)
    return data


def content(raw: dict[str, Any], name: str) -> Any:
    data = received(raw)
    assert data["messageType"] == name
    assert list(data["message"]) == [name]
    return data["message"][name]


def test_a_text() -> None:
    raw = text_message("Does it come in another color? 😀")
    assert received(raw) == {
        "key": {"remoteJid": CHAT, "fromMe": False, "id": raw["id"], "remoteJidAlt": LID},
        "pushName": "Sheena Nelson",
        "message": {"conversation": "Does it come in another color? 😀"},
        "messageType": "conversation",
        "messageTimestamp": 1749416383,
        "source": "whatsapp_cloud",
    }


def test_each_change_without_a_kind_has_what_stood_there() -> None:
    first, *others = ({**value(), "event": name, "big": 2**70} for name in ("FIRST", "SECOND", "THIRD"))
    body = notification(first, *others, field="account_update")
    body["entry"][0]["changes"] += ["no change", {"value": {**value(), "code": 4}, "field": "account_alerts"}]
    body["entry"].insert(1, "no entry")
    found = [json.loads(new.data_json or b"") for new in translated(body)]
    assert [(one["name"], one["value"].get("event"), one["value"].get("code")) for one in found] == [
        ("account_update", "FIRST", None),
        ("account_alerts", None, 4),
        ("account_update", "SECOND", None),
        ("account_update", "THIRD", None),
    ]


def test_a_person_without_a_number() -> None:
    raw = text_message("hi", **{"from": None})
    person = {**contact(), "wa_id": ""}
    data = received(raw, contacts=[person])
    assert (data["key"]["remoteJid"], data["pushName"]) == (LID, "Sheena Nelson")
    assert "remoteJidAlt" not in data["key"]


def test_a_number_that_only_the_contact_or_the_change_names() -> None:
    nobody = {"from": None, "from_user_id": None}
    key = received(text_message("hi", **nobody))["key"]
    assert (key["remoteJid"], key["remoteJidAlt"]) == (CHAT, LID)
    changed = message("system", {"type": "user_changed_number", "wa_id": "5511977776666"}, **nobody)
    assert received(changed, contacts=[])["key"]["remoteJid"] == "5511977776666@s.whatsapp.net"
    kept = {**changed, "from": CUSTOMER}
    assert received(kept, contacts=[])["key"]["remoteJid"] == CHAT


def test_the_name_of_each_person() -> None:
    other = "5511988887777"
    raw = [text_message("a"), text_message("b", **{"from": other, "from_user_id": "BR.1"}), text_message("c")]
    people = [contact("Ana", other, "BR.1"), contact()]
    found = translated(notification(value(messages=raw, contacts=people)))
    assert [new.data["pushName"] for new in found] == ["Sheena Nelson", "Ana", "Sheena Nelson"]
    [new] = translated(notification(value(messages=[text_message("d", **{"from": "4911"})], contacts=people)))
    assert new.data["pushName"] == "Sheena Nelson"  # by the user's id
    nobody = text_message("e", **{"from": "4911", "from_user_id": "DE.1"})
    [new] = translated(notification(value(messages=[nobody], contacts=people)))
    assert "pushName" not in new.data


@pytest.mark.parametrize(
    ("kind", "given_content", "name", "more"),
    [
        ("image", {"caption": "look", "sha256": "aGFzaA=="}, "imageMessage", {"caption": "look"}),
        ("video", {}, "videoMessage", {}),
        ("audio", {"voice": False}, "audioMessage", {"ptt": False}),
        ("audio", {"voice": True}, "audioMessage", {"ptt": True}),
        ("voice", {}, "audioMessage", {"ptt": True}),
        ("sticker", {"animated": True}, "stickerMessage", {"isAnimated": True}),
        ("document", {"filename": "a.pdf"}, "documentMessage", {"fileName": "a.pdf", "title": "a.pdf"}),
    ],
)
def test_files(kind: str, given_content: dict[str, Any], name: str, more: dict[str, Any]) -> None:
    raw = message(kind, {"mime_type": "a/b", "id": "24230790383178626", **given_content})
    link = media_url("24230790383178626", mimetype="a/b", file_name=given_content.get("filename", ""))
    if kind == "image":
        more = {**more, "fileSha256": "aGFzaA=="}
    assert content(raw, name) == {"url": link, "mediaId": "24230790383178626", "mimetype": "a/b", **more}


def test_a_file_without_an_id_has_no_link() -> None:
    assert content(message("image", {"id": "../me"}), "imageMessage") == {
        "mimetype": "application/octet-stream"
    }


def test_a_location() -> None:
    place = {
        "latitude": 37.4611978,
        "longitude": "-122.2164385",
        "name": "HQ",
        "address": "1 Way",
        "url": "https://x",
    }
    shown = {"degreesLatitude": 37.4611978, "degreesLongitude": -122.2164385}
    found = content(message("location", place), "locationMessage")
    assert found == {**shown, "name": "HQ", "address": "1 Way", "url": "https://x"}
    assert content(message("location", {"latitude": 1e9, "longitude": "x"}), "locationMessage") == {}


def test_contacts() -> None:
    card = {
        "name": {"formatted_name": "Chandler\nBing"},
        "phones": [{"phone": "+1 555", "wa_id": "1555", "type": "CELL"}, {"phone": "2"}],
        "emails": [{"email": "c@x.example"}],
        "urls": [{"url": "https://x.example"}],
        "org": {"company": "X"},
    }
    one = content(message("contacts", [card]), "contactMessage")
    assert one["vcard"].split("\n") == [
        "BEGIN:VCARD",
        "VERSION:3.0",
        "FN:Chandler Bing",
        "TEL;waid=1555:+1 555",
        "TEL:2",
        "EMAIL:c@x.example",
        "URL:https://x.example",
        "ORG:X",
        "END:VCARD",
    ]
    assert one["contact"] == card  # with addresses and all that has no line
    whole = content(message("contacts", [{**card, "vcard": "BEGIN:VCARD…"}]), "contactMessage")
    assert whole["vcard"] == "BEGIN:VCARD…"
    two = content(message("contacts", [card, {"name": {"first_name": "Mo"}}]), "contactsArrayMessage")
    assert [each["displayName"] for each in two["contacts"]] == ["Chandler\nBing", "Mo"]


def test_a_reaction() -> None:
    raw = message("reaction", {"message_id": "wamid.ours", "emoji": "👍"})
    key = {"remoteJid": CHAT, "fromMe": True, "id": "wamid.ours"}
    assert content(raw, "reactionMessage") == {"key": key, "text": "👍"}
    removed = content(message("reaction", {"message_id": "wamid.theirs"}), "reactionMessage")
    assert removed == {"key": {**key, "fromMe": False, "id": "wamid.theirs"}, "text": ""}


def interactive(kind: str, **reply: Any) -> dict[str, Any]:
    return message("interactive", {"type": kind, kind: reply})


def test_replies_to_interactive_messages() -> None:
    button = content(interactive("button_reply", id="yes", title="Yes"), "buttonsResponseMessage")
    assert button == {"selectedButtonId": "yes", "selectedDisplayText": "Yes"}
    row = interactive("list_reply", id="r1", title="Row", description="first")
    assert content(row, "listResponseMessage") == {
        "title": "Row",
        "description": "first",
        "singleSelectReply": {"selectedRowId": "r1"},
    }
    flow = interactive("nfm_reply", response_json='{"a":1}', body="Sent", name="flow")
    assert content(flow, "interactiveResponseMessage") == {
        "body": {"text": "Sent"},
        "nativeFlowResponseMessage": {"name": "flow", "paramsJson": '{"a":1}'},
    }
    call = interactive("call_permission_reply", response="accept")
    answered = {"type": "call_permission_reply", "call_permission_reply": {"response": "accept"}}
    assert content(call, "interactiveResponseMessage") == answered
    assert content(message("interactive"), "interactiveResponseMessage") == {}
    template = message("button", {"payload": "no", "text": "No"})
    chosen = {"selectedId": "no", "selectedDisplayText": "No"}
    assert content(template, "templateButtonReplyMessage") == chosen


def test_an_order() -> None:
    products = [{"product_retailer_id": "SODA", "quantity": 2, "item_price": 10, "currency": "ILS"}]
    raw = message("order", {"catalog_id": "354", "text": "soon", "product_items": products})
    order = {"catalogId": "354", "message": "soon", "itemCount": 1, "products": products}
    assert content(raw, "orderMessage") == order


def test_system_messages() -> None:
    changed = {"body": "A changed from 1 to 2", "wa_id": "2", "type": "user_changed_number"}
    assert content(message("system", changed), "systemMessage") == changed
    identity = {"acknowledged": True, "hash": "x"}
    raw = message("system", {"type": "customer_identity_changed"}, identity=identity)
    assert content(raw, "systemMessage") == {"type": "customer_identity_changed", "identity": identity}


def test_unsupported_and_unknown_types() -> None:
    error = {
        "code": 131051,
        "title": "Message type unknown",
        "error_data": {"details": "Message type is currently not supported."},
    }
    raw = message("unsupported", {"type": "poll"}, errors=[error])
    assert content(raw, "unsupportedMessage") == {
        "type": "poll",
        "errors": [
            {
                "code": 131051,
                "title": "Message type unknown",
                "details": "Message type is currently not supported.",
                "hint": "WhatsApp does not support this type of message.",
            }
        ],
    }
    assert content(message("request_welcome"), "requestWelcomeMessage") == {}
    assert content(message("hologram_2", {"size": 3}), "hologram2Message") == {"size": 3}
    assert content(message("Что", {}), "unknownMessage") == {}


def test_an_error_goes_along_in_a_message_of_a_known_type() -> None:
    error = {"code": 131052, "title": "Media download error", "error_data": {"details": "Try again."}}
    shown = {
        "code": 131052,
        "title": "Media download error",
        "details": "Try again.",
        "hint": "WhatsApp could not load the file that the user sent.",
    }
    found = content({**message("image"), "errors": [error]}, "imageMessage")
    assert found == {"mimetype": "application/octet-stream", "errors": [shown]}
    assert received(text_message("hi", errors=[error]))["errors"] == [shown]


def test_an_error_of_the_former_form_keeps_its_details() -> None:
    error = {"code": 501, "title": "Unknown message type", "details": "It is not supported."}
    found = content(message("unknown", errors=[error]), "unknownMessage")
    assert found["errors"] == [
        {"code": 501, "title": "Unknown message type", "details": "It is not supported."}
    ]


def test_an_id_that_changed_is_told_without_a_number() -> None:
    changed = {
        "type": "user_changed_user_id",
        "body": "A changed.",
        "user_id": "US.2",
        "previous_user_id": "US.1",
    }
    alone = message("system", changed, **{"from": None, "from_user_id": None})
    data = received(alone, contacts=[])
    assert (data["key"]["remoteJid"], data["message"]) == ("US.2@lid", {"systemMessage": changed})
    # With the former id, the chat is the former one.
    assert received({**alone, "from_user_id": "US.1"}, contacts=[])["key"]["remoteJid"] == "US.1@lid"


def test_a_username_goes_along() -> None:
    person = contact()
    person["profile"] = {**person["profile"], "username": "sheena"}
    assert received(text_message("hi"), contacts=[person])["username"] == "sheena"
    read = status("wamid.1", "read", recipient_user_id=USER_ID)
    [new] = translated(notification(value(statuses=[read], contacts=[person])))
    assert (new.data["username"], new.data["remoteJidAlt"]) == ("sheena", LID)


def test_fields_that_hookgw_does_not_know_go_along() -> None:
    field: dict[str, Any] = {"new_field": {"a": 1}}
    for kind, name in (
        ("image", "imageMessage"),
        ("location", "locationMessage"),
        ("button", "templateButtonReplyMessage"),
        ("order", "orderMessage"),
        ("hologram", "hologramMessage"),
    ):
        assert content(message(kind, field), name)["new_field"] == {"a": 1}
    for kind, name in (
        ("button_reply", "buttonsResponseMessage"),
        ("list_reply", "listResponseMessage"),
        ("nfm_reply", "interactiveResponseMessage"),
    ):
        assert content(interactive(kind, **field), name)["new_field"] == {"a": 1}
    person = {**contact(), "identity_key_hash": "h"}
    raw = text_message("hi", origin="contact_request/other", context={"id": "x", "topic": 3})
    data = received(raw, contacts=[person])
    assert data["meta"] == {"origin": "contact_request/other", "contact": {"identity_key_hash": "h"}}
    assert data["contextInfo"] == {"stanzaId": "x", "topic": 3}
    sent = status("wamid.1", "sent", new_field=[1])
    [new] = translated(notification(value(statuses=[sent])))
    assert new.data["meta"] == {"new_field": [1]}
    identity = {"hash": "x"}
    assert received(text_message("hi", identity=identity))["meta"] == {"identity": identity}


def test_replies_and_forwards() -> None:
    answer = text_message("yes", context={"from": ACCOUNT, "id": "wamid.ours"})
    assert received(answer)["contextInfo"] == {"stanzaId": "wamid.ours", "participant": ME}
    passed_on = text_message("joke", context={"frequently_forwarded": True})
    assert received(passed_on)["contextInfo"] == {"isForwarded": True, "isFrequentlyForwarded": True}
    assert received(text_message("hi", context={"forwarded": True}))["contextInfo"] == {"isForwarded": True}
    product = {"catalog_id": "1", "product_retailer_id": "2"}
    asked = received(text_message("this?", context={"id": "x", "referred_product": product}))
    assert asked["contextInfo"] == {"stanzaId": "x", "referredProduct": product}


def test_a_message_that_an_advertisement_led_to() -> None:
    referral = {
        "source_url": "https://fb.me/x",
        "source_type": "ad",
        "headline": "Sale",
        "ctwa_clid": "c",
        "body": 3,
    }
    assert received(text_message("hi", referral=referral))["contextInfo"]["externalAdReply"] == {
        "sourceUrl": "https://fb.me/x",
        "sourceType": "ad",
        "title": "Sale",
        "ctwaClid": "c",
    }
    welcome = {"text": "Hello!"}
    data = received(text_message("hi", referral={**referral, "welcome_message": welcome}))
    assert data["contextInfo"]["externalAdReply"]["welcomeMessage"] == welcome


def test_an_edit() -> None:
    inner = {"type": "image", "image": {"caption": "new", "mime_type": "image/png", "id": "1"}}
    raw = message(
        "edit", {"original_message_id": "wamid.first", "message": {**inner, "context": {"id": "M0"}}}
    )
    [new] = translated(notification(value(messages=[raw])))
    assert (new.kind, new.event_id) == ("MESSAGES_EDITED", event_id_of("MESSAGES_EDITED", raw["id"]))
    assert new.data["key"]["id"] == "wamid.first"
    assert new.data["message"]["imageMessage"]["caption"] == "new"
    assert new.data["contextInfo"] == {"stanzaId": "M0"}
    assert new.data["pushName"] == "Sheena Nelson"


def test_a_deletion() -> None:
    raw = message("revoke", {"original_message_id": "wamid.first"})
    [new] = translated(notification(value(messages=[raw])))
    assert new.kind == "MESSAGES_DELETE"
    assert new.event_id == event_id_of("MESSAGES_DELETE", raw["id"])
    key = {"remoteJid": CHAT, "fromMe": False, "id": "wamid.first", "remoteJidAlt": LID}
    assert new.data == {**key, "status": "DELETED", "deletedBy": CHAT, "messageTimestamp": 1749416383}


def test_messages_from_the_phone() -> None:
    echo = text_message("from the app", **{"from": ACCOUNT, "from_user_id": None, "to": CUSTOMER})
    edit = {**echo, "id": "wamid.e", "type": "edit"}
    edit["edit"] = {"original_message_id": echo["id"], "message": {"type": "text", "text": {"body": "fixed"}}}
    gone = {**echo, "id": "wamid.g", "type": "revoke", "revoke": {"original_message_id": echo["id"]}}
    sent, edited, deleted = translated(
        notification(value(message_echoes=[echo, edit, gone]), field="smb_message_echoes")
    )
    assert sent.kind == "MESSAGES_UPSERT"
    key = {"remoteJid": CHAT, "fromMe": True, "id": echo["id"], "remoteJidAlt": LID}
    assert (sent.data["key"], sent.data["status"]) == (key, "SERVER_ACK")
    assert "pushName" not in sent.data
    assert (edited.kind, edited.data["message"]) == ("MESSAGES_EDITED", {"conversation": "fixed"})
    assert (deleted.kind, deleted.data["deletedBy"]) == ("MESSAGES_DELETE", ME)


def test_groups() -> None:
    raw = text_message("all", group_id=GROUP_ID)
    key = received(raw)["key"]
    assert key == {"remoteJid": f"{GROUP_ID}@g.us", "fromMe": False, "id": raw["id"], "participant": CHAT}
    group = {"recipient_id": GROUP_ID, "recipient_type": "group"}
    members = [
        status("wamid.g", "read", **group, recipient_participant_id="49111111"),
        status("wamid.g", "read", **group, recipient_participant_id="49222222"),
    ]
    first, second = translated(notification(value(statuses=members)))
    assert first.data["remoteJid"] == f"{GROUP_ID}@g.us"
    assert (first.data["participant"], second.data["participant"]) == (
        "49111111@s.whatsapp.net",
        "49222222@s.whatsapp.net",
    )
    assert first.event_id != second.event_id
    assert "remoteJidAlt" not in first.data
    [alone] = translated(notification(value(statuses=[{**members[0], "recipient_type": "individual"}])))
    assert "participant" not in alone.data


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("sent", "SERVER_ACK"),
        ("delivered", "DELIVERY_ACK"),
        ("read", "READ"),
        ("played", "PLAYED"),
        ("failed", "ERROR"),
    ],
)
def test_statuses(word: str, shown: str) -> None:
    pricing = {"billable": True, "pricing_model": "PMP", "category": "service", "type": "regular"}
    conversation = {"id": "7270", "origin": {"type": "service"}}
    raw = status(
        "wamid.1", word, pricing=pricing, conversation=conversation, biz_opaque_callback_data="order-17"
    )
    [new] = translated(notification(value(statuses=[raw])))
    assert new.kind == "MESSAGES_UPDATE"
    assert new.event_id == event_id_of("MESSAGES_UPDATE", "wamid.1", shown)
    assert new.data == {
        "keyId": "wamid.1",
        "remoteJid": CHAT,
        "fromMe": True,
        "status": shown,
        "remoteJidAlt": LID,
        "messageTimestamp": 1749416390,
        "pricing": pricing,
        "conversation": conversation,
        "idempotencyKey": "order-17",
    }


def test_a_failed_message_says_why() -> None:
    error = {
        "code": 131047,
        "title": "Re-engagement message",
        "message": "Re-engagement message",
        "error_data": {"details": "More than 24 hours have passed"},
        "href": "https://developers.facebook.com/x",
    }
    [new] = translated(notification(value(statuses=[status("wamid.1", "failed", errors=[error])])))
    shown = new.data["error"]
    assert (shown["code"], shown["title"]) == (131047, "Re-engagement message")
    assert shown["details"] == "More than 24 hours have passed"
    assert shown["hint"].startswith("The 24-hour window is over")


def test_an_unknown_status_is_passed_on() -> None:
    raw = status("wamid.1", "pondered")
    assert unknown(value(statuses=[raw])) == [("statuses", raw)]


@pytest.mark.parametrize("word", ["captured", "pending", "failed"])
def test_the_status_of_a_payment_is_none_of_a_message(word: str) -> None:
    payment = {"reference_id": "r", "amount": {"value": 1}}
    for more in ({"type": "payment", "payment": payment}, {"type": "payment"}, {"payment": payment}):
        raw = status("wamid.1", word, **more)
        assert unknown(value(statuses=[raw])) == [("statuses", raw)]


def test_a_status_or_a_call_that_lacks_a_part_is_passed_on() -> None:
    nobody = {"recipient_id": None, "recipient_user_id": None}
    for raw in (status("", "read"), status("wamid.1", "read", **nobody)):
        assert unknown(value(statuses=[raw])) == [("statuses", raw)]
    call = {"id": "wacid.1", "from": CUSTOMER, "event": "connect"}
    for odd in ({**call, "id": ""}, {**call, "from": None}, {**call, "event": "accept"}):
        assert unknown(value(calls=[odd]), field="calls") == [("calls", odd)]


def test_all_errors_of_a_status_are_told() -> None:
    errors = [{"code": 1}, {"code": 2}]
    [new] = translated(notification(value(statuses=[status("wamid.1", "failed", errors=errors)])))
    assert (new.data["error"], new.data["errors"]) == ({"code": 1}, errors)


def test_what_a_known_field_has_beside_its_lists_is_passed_on() -> None:
    stopped = [{"wa_id": CUSTOMER, "category": "marketing_messages", "value": "stop"}]
    errors = [{"code": 131000, "title": "Something went wrong"}]
    assert unknown(value(user_preferences=stopped, errors=errors)) == [
        ("user_preferences", stopped),
        ("errors", errors),
    ]
    calls = [{"id": "wacid.1", "type": "call", "status": "RINGING"}]
    assert unknown(value(statuses=calls), field="calls") == [("statuses", calls)]
    assert unknown({**value(), "messages": {"no": "list"}}) == [("messages", {"no": "list"})]


def test_what_cannot_be_read_in_a_known_list_is_passed_on() -> None:
    odd: list[Any] = [7, None, {"id": "wamid.1"}, {"id": "", "from": CUSTOMER}]
    found = unknown({**value(messages=odd), "contacts": []})
    assert found == [("messages", item) for item in odd]


def test_a_value_without_anything_known_is_passed_on_whole() -> None:
    body = b'{"entry": [{"time": 1, "changes": [{"field": "messages", "value": %b}]}]}'
    for raw in (b"7", b'"\xc3\xa9"', b'[{"a": 1.0 }]', b"{}"):
        [one] = [new for change in read_changes(body % raw) for new in events.translate(change, KNOWN)]
        assert one.event.data_json == b'{"network":"whatsapp_cloud","name":"messages","value":%b}' % raw
    assert translated(notification({**value(), "messages": []})) == []


def test_what_is_passed_on_is_byte_for_byte_and_one_event_in_whatever_company() -> None:
    body = b'{"entry": [{"time": %d, "changes": [{"field": "messages", "value": {"statuses": [%b]}}]}]}'
    raw = b'{"id": "1" ,"n": 1.0, "status":"pondered"}'
    other = b'{"id": "2", "status": "pondered"}'
    ids = set()
    for time, items_ in ((1, raw), (2, other + b"," + raw)):
        [change] = read_changes(body % (time, items_))
        *_, one = events.translate(change, KNOWN)
        assert one.event.data_json == b'{"network":"whatsapp_cloud","name":"statuses","value":%b}' % raw
        ids.add(one.event.event_id)
    assert len(ids) == 1


def test_calls() -> None:
    call = {"id": "wacid.1", "from": CUSTOMER, "to": ACCOUNT, "timestamp": "1752583107", "event": "connect"}
    ended = {**call, "event": "terminate", "direction": "USER_INITIATED"}
    ours = {**call, "from": ACCOUNT, "to": CUSTOMER, "direction": "BUSINESS_INITIATED"}
    other = {**call, "event": "accept"}
    *found, accepted = translated(notification(value(calls=[call, ended, ours, other]), field="calls"))
    assert json.loads(accepted.data_json or b"")["value"] == other
    finished: dict[str, Any] = {**ended, "status": "COMPLETED", "duration": 12}
    [new] = translated(notification(value(calls=[finished]), field="calls"))
    assert new.data[0]["meta"] == {"status": "COMPLETED", "duration": 12}
    assert [new.data[0]["status"] for new in found] == ["offer", "terminate", "offer"]
    assert found[0].data[0] == {
        "id": "wacid.1",
        "chatId": CHAT,
        "from": CHAT,
        "date": "2025-07-15T12:38:27+00:00",
        "status": "offer",
        "isVideo": False,
        "isGroup": False,
    }
    assert (found[2].data[0]["chatId"], found[2].data[0]["from"]) == (CHAT, ME)


def test_members_of_groups() -> None:
    group = {"group_id": GROUP_ID, "timestamp": "1749416383", "type": "group_participants_add"}
    joined = {**group, "added_participants": [{"wa_id": "49111111"}, {"user_id": USER_ID}, {"wa_id": None}]}
    left = {**group, "type": "group_participants_remove", "removed_participants": [{"wa_id": "49111111"}]}
    asked = {**group, "type": "group_join_request_created", "wa_id": "49222222"}
    field = "group_participants_update"
    first, second, third = translated(notification(value(groups=[joined, left, asked]), field=field))
    assert json.loads(third.data_json or b"")["value"] == asked
    people = ["49111111@s.whatsapp.net", LID]
    meta = {"type": "group_participants_add"}
    assert first.data == {"id": f"{GROUP_ID}@g.us", "participants": people, "action": "add", "meta": meta}
    assert (second.data["participants"], second.data["action"]) == (people[:1], "remove")


def test_a_member_whom_the_business_removes_may_be_named_as_it_named_them() -> None:
    gone = [{"input": "+49111111"}, {"input": USER_ID}, {"input": "49 22", "wa_id": "4922"}, {"input": "?"}]
    group = {"group_id": GROUP_ID, "timestamp": "1749416383", "removed_participants": gone}
    [new] = translated(notification(value(groups=[group]), field="group_participants_update"))
    assert new.data["participants"] == ["49111111@s.whatsapp.net", LID, "4922@s.whatsapp.net"]


def test_contacts_of_the_phone() -> None:
    ana = {"full_name": "Ana Lima", "first_name": "Ana", "phone_number": "5511988887777"}
    entry = {"type": "contact", "contact": ana, "action": "add", "metadata": {"timestamp": "1739321024"}}
    gone, other = {**entry, "action": "remove"}, {**entry, "type": "label"}
    field = "smb_app_state_sync"
    rest = [gone, other, {**entry, "contact": 3}]
    new, *others = translated(notification(value(state_sync=[entry, *rest]), field=field))
    assert [json.loads(one.data_json or b"")["value"] for one in others] == rest
    assert new.kind == "CONTACTS_UPSERT"
    assert new.data == [{"remoteJid": "5511988887777@s.whatsapp.net", "pushName": "Ana Lima"}]


def test_other_fields_are_passed_on() -> None:
    whole = {"event": "x", "messages": [text_message("no")]}
    body = notification(whole, field="account_update")
    for field in ("account_update", "message_template_status_update", "history", "flows"):
        body["entry"][0]["changes"][0]["field"] = field
        [change] = read_changes(encode(body))
        [one] = events.translate(change, KNOWN)
        assert json.loads(one.event.data_json or b"") == {
            "network": "whatsapp_cloud",
            "name": field,
            "value": whole,
        }
    body["entry"][0]["changes"][0]["field"] = ""
    assert translated(body) == []


def test_everything_in_a_notification_is_in_order() -> None:
    first = value(messages=[text_message("1"), text_message("2")])
    second = value(statuses=[status("wamid.1", "sent")])
    body = notification(first, second)
    body["entry"][1]["changes"].append({"value": value(messages=[text_message("3")]), "field": "messages"})
    kinds = [(new.kind, new.data.get("message")) for new in translated(body)]
    assert kinds == [
        ("MESSAGES_UPSERT", {"conversation": "1"}),
        ("MESSAGES_UPSERT", {"conversation": "2"}),
        ("MESSAGES_UPDATE", None),
        ("MESSAGES_UPSERT", {"conversation": "3"}),
    ]


# Requests


def request(body: bytes = b"", signed: str = "", query: dict[str, str] | None = None) -> IngestRequest:
    headers = {"x-hub-signature-256": signed} if signed else {}
    return IngestRequest(method="POST" if body else "GET", query=query or {}, headers=headers, body=body)


def test_the_proof() -> None:
    body = encode(notification(value(messages=[text_message("é 😀")])))
    webhooks.check_proof(request(body, signature(body, "s")), "s")
    for wrong in ("", "sha256=", signature(body, "other"), signature(body + b" ", "s"), "é\ud800"):
        with pytest.raises(ProofRefused):
            webhooks.check_proof(request(body, wrong), "s")


@pytest.mark.parametrize("odd", [b'"\\ud83d"', b'"\xff"', b"1e999", b"9" * 5000, b"NaN", b"-Infinity"])
def test_an_odd_value_costs_only_itself(odd: bytes) -> None:
    raw = encode(notification(value(messages=[text_message("fine", odd="?")])))
    [change] = read_changes(raw.replace(b'"?"', odd))
    [one] = events.translate(change, KNOWN)
    assert one.event.data["message"] == {"conversation": "fine"}
    assert_valid(one.event)


def test_half_an_emoji_is_replaced() -> None:
    raw = encode(notification(value(messages=[text_message("cut ?off")]))).replace(b"?", b"\\ud83d")
    [change] = read_changes(raw)
    [one] = events.translate(change, KNOWN)
    assert one.event.data["message"] == {"conversation": "cut �off"}


HOSTILE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KINDS_OF_MESSAGES = (
    *("text", "image", "audio", "document", "location", "contacts", "reaction", "interactive", "button"),
    *("order", "system", "unsupported", "edit", "revoke", "hologram"),
)
CONTENT = {
    "body": "x",
    "id": "123",
    "latitude": 1.0,
    "message_id": "wamid.1",
    "type": "button_reply",
    "button_reply": {"id": "1"},
    "original_message_id": "wamid.0",
    "message": {"type": "text", "text": {"body": "y"}},
    "product_items": [],
}
MESSAGE = {"from": CUSTOMER, "id": "wamid.1", "timestamp": "1", "context": {"id": "1"}, "group_id": "G"}


def objects(valid: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    optional = {name: HOSTILE | st.just(usual) for name, usual in valid.items()}
    return st.fixed_dictionaries({}, optional=optional)


@given(
    st.sampled_from(KINDS_OF_MESSAGES),
    objects(CONTENT) | HOSTILE,
    objects(MESSAGE),
    objects({"contacts": [contact()], "errors": [{"code": 1}]}),
)
def test_whatever_a_message_contains_is_an_event_or_nothing(
    kind: str, inner: Any, outer: dict[str, Any], around: dict[str, Any]
) -> None:
    body = notification({**value(messages=[{**outer, "type": kind, kind: inner}]), **around})
    for change in read_changes(json.dumps(body).encode("utf-8", "replace")):
        for one in events.translate(change, KNOWN):
            assert_valid(one.event)


@given(
    objects(
        {"id": "1", "status": "failed", "recipient_id": "49111111", "timestamp": "1", "errors": [{"code": 4}]}
    ),
    objects({"id": "1", "event": "connect", "from": CUSTOMER, "timestamp": "1"}),
    HOSTILE,
)
def test_whatever_else_meta_says_is_no_exception(status_: Any, call: Any, other: Any) -> None:
    around = {"statuses": [status_, other], "messages": [other], "calls": [call, other], "metadata": other}
    around.update(groups=[other, {"group_id": "G", "added_participants": other}], state_sync=[other])
    for field in (
        *("messages", "calls", "smb_message_echoes", "group_participants_update", "smb_app_state_sync"),
    ):
        body = notification({**around, "message_echoes": [other]}, other, field=field)
        for change in read_changes(json.dumps(body).encode("utf-8", "replace")):
            for one in events.translate(change, KNOWN):
                assert_valid(one.event)


def test_the_number_of_a_change() -> None:
    [change] = read_changes(encode(notification(value())))
    assert (change.phone_number_id, change.account) == (NUMBER, ME)
