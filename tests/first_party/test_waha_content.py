"""What people write, as WAHA's engines hand it over: whole, under the names that Baileys has for it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.waha.content import file_of, parts_of_link, path_of, reference_of
from tests.first_party.waha import ANA_JID, BOB, BOB_JID, ID, data_of, event_of, message

# The fields of a message in WhatsApp's protobuf, as Baileys names them.
KINDS = (
    *("imageMessage", "contactMessage", "locationMessage", "documentMessage", "audioMessage", "videoMessage"),
    *("call", "chat", "protocolMessage", "contactsArrayMessage", "highlyStructuredMessage"),
    *("sendPaymentMessage", "liveLocationMessage", "requestPaymentMessage", "declinePaymentRequestMessage"),
    *("cancelPaymentRequestMessage", "templateMessage", "stickerMessage", "groupInviteMessage"),
    *("templateButtonReplyMessage", "productMessage", "listMessage", "orderMessage", "listResponseMessage"),
    *("invoiceMessage", "buttonsMessage", "buttonsResponseMessage", "paymentInviteMessage"),
    *("interactiveMessage", "reactionMessage", "stickerSyncRmrMessage", "interactiveResponseMessage"),
    *("pollCreationMessage", "pollUpdateMessage", "keepInChatMessage", "requestPhoneNumberMessage"),
    *("encReactionMessage", "editedMessage", "pollCreationMessageV2", "scheduledCallCreationMessage"),
    *("groupMentionedMessage", "pinInChatMessage", "pollCreationMessageV3", "scheduledCallEditMessage"),
    *("ptvMessage", "botInvokeMessage", "callLogMesssage", "messageHistoryBundle", "encCommentMessage"),
    *("bcallMessage", "eventMessage", "encEventResponseMessage", "commentMessage", "placeholderMessage"),
    *("newsletterAdminInviteMessage", "secretEncryptedMessage", "albumMessage", "eventCoverImage"),
    *("stickerPackMessage", "statusMentionMessage", "pollResultSnapshotMessage", "messageHistoryNotice"),
    *("pollCreationOptionImageMessage", "groupStatusMentionMessage", "pollCreationMessageV4"),
    *("pollCreationMessageV5", "statusAddYours", "groupStatusMessage", "groupStatusMessageV2"),
    *("richResponseMessage", "statusNotificationMessage", "limitSharingMessage", "botTaskMessage"),
    *("questionMessage", "botForwardedMessage", "statusQuestionAnswerMessage", "questionReplyMessage"),
    *("questionResponseMessage", "statusQuotedMessage", "statusStickerInteractionMessage"),
    *("pollResultSnapshotMessageV3", "newsletterFollowerInviteMessageV2", "aKindOfTheFutureMessage"),
)
WRAPPERS = (
    *("ephemeralMessage", "viewOnceMessage", "viewOnceMessageV2", "viewOnceMessageV2Extension"),
    *("documentWithCaptionMessage", "deviceSentMessage", "associatedChildMessage", "lottieStickerMessage"),
)
# As Go writes names of the protobuf, and as Baileys does.
NAMES = {
    "URL": "url",
    "ID": "id",
    "JPEGThumbnail": "jpegThumbnail",
    "fileSHA256": "fileSha256",
    "fileEncSHA256": "fileEncSha256",
    "stanzaID": "stanzaId",
    "remoteJID": "remoteJid",
    "mentionedJID": "mentionedJid",
    "businessOwnerJID": "businessOwnerJid",
    "selectedRowID": "selectedRowId",
    "selectedButtonID": "selectedButtonId",
    "senderTimestampMS": "senderTimestampMs",
    "sourceURL": "sourceUrl",
    "thumbnailURL": "thumbnailUrl",
    "productID": "productId",
    "orderID": "orderId",
    "messageIDs": "messageIds",
    "inviteLinkGroupTypeV2": "inviteLinkGroupTypeV2",
    "ctwaClid": "ctwaClid",
    "name": "name",
    "text": "text",
    "isForwarded": "isForwarded",
    "selectableOptionsCount": "selectableOptionsCount",
}
BESIDE = {
    "senderKeyDistributionMessage": {"groupId": "1203@g.us", "axolotlSenderKeyDistributionMessage": "key"},
    "messageContextInfo": {"messageSecret": "secret", "deviceListMetadataVersion": 2},
}
_LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text(max_size=8))
_BODIES = st.dictionaries(
    st.sampled_from([*NAMES]),
    st.recursive(
        _LEAVES,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([*NAMES]), inner, max_size=4)
        ),
        max_leaves=8,
    ),
    min_size=1,
    max_size=6,
)


def as_baileys(value: Any) -> Any:
    if isinstance(value, list):
        return [as_baileys(item) for item in value]
    if isinstance(value, dict):
        return {NAMES.get(name, name): as_baileys(item) for name, item in value.items()}
    return value


def is_passed_on(found: Any, given: Any) -> bool:
    """Return whether a content has all fields that the engine gave."""
    return isinstance(found, dict) and all(
        name in found and found[name] == value for name, value in given.items()
    )


@settings(max_examples=150)
@given(
    kind=st.sampled_from(KINDS),
    body=_BODIES,
    is_go=st.booleans(),
    beside=st.lists(st.sampled_from([*BESIDE]), unique=True),
    is_first=st.booleans(),
    wrapper=st.sampled_from(["", *WRAPPERS]),
)
def test_every_content_reaches_the_receiver_whole(
    kind: str, body: dict[str, Any], is_go: bool, beside: list[str], is_first: bool, wrapper: str
) -> None:
    content: dict[str, Any] = {kind: body if is_go else as_baileys(body)}
    if wrapper:
        content = {wrapper: {"message": content}}
    others = {name: BESIDE[name] for name in beside}
    content = {**others, **content} if is_first else {**content, **others}
    payload = message(body=None, _data={"Message" if is_go else "message": content})
    data = data_of("message", payload)
    assert data["messageType"] == kind
    assert is_passed_on(data["message"][kind], as_baileys(body))
    assert ("messageContextInfo" in data["message"]) == ("messageContextInfo" in beside)
    # The key that decrypts what the sender will write to the group is for devices, not for receivers.
    assert "senderKeyDistributionMessage" not in data["message"]
    if wrapper.startswith("viewOnce") and kind in ("imageMessage", "videoMessage", "audioMessage"):
        assert data["message"][kind]["viewOnce"] is True


@pytest.mark.parametrize("name", KINDS)
def test_the_names_of_baileys_stay_as_they_are(name: str) -> None:
    data = data_of("message", message(body=None, _data={"Message": {name: {"text": "x"}}}))
    assert data["messageType"] == name


def test_go_writes_one_of_several_fields_into_an_object_of_its_own() -> None:
    reply = {"name": "menu", "paramsJSON": '{"id":"1"}', "version": 3}
    answer = {
        "body": {"text": "Order"},
        "InteractiveResponseMessage": {"NativeFlowResponseMessage": reply},
        "contextInfo": {"stanzaID": "3EB0AA", "participant": BOB_JID},
    }
    data = data_of("message", message(body=None, _data={"Message": {"interactiveResponseMessage": answer}}))
    found = data["message"]["interactiveResponseMessage"]
    assert found["nativeFlowResponseMessage"] == {"name": "menu", "paramsJson": '{"id":"1"}', "version": 3}
    assert "InteractiveResponseMessage" not in found
    assert data["contextInfo"] == {"stanzaId": "3EB0AA", "participant": BOB_JID}
    button = {"selectedButtonID": "yes", "Response": {"SelectedDisplayText": "Yes"}, "type": 1}
    data = data_of("message", message(body="Yes", _data={"Message": {"buttonsResponseMessage": button}}))
    assert data["message"] == {
        "buttonsResponseMessage": {"selectedButtonId": "yes", "selectedDisplayText": "Yes", "type": 1}
    }
    empty = {"title": "Menu", "Header": None, "InteractiveMessage": None}
    data = data_of("message", message(body=None, _data={"Message": {"buttonsMessage": empty}}))
    assert data["message"]["buttonsMessage"] == {"title": "Menu"}
    # Fields that Go names in capitals at the top are the contents themselves.
    capital = {"PollCreationMessageV3": {"name": "Tea?"}}
    data = data_of("message", message(body=None, _data={"Message": capital}))
    assert data["message"] == {"pollCreationMessageV3": {"name": "Tea?"}}
    raw = {"Message": {}, "RawMessage": {"conversation": "hi"}}
    assert data_of("message", message(body=None, _data=raw))["message"] == {"conversation": "hi"}


@pytest.mark.parametrize("is_wrapped", [True, False])
@pytest.mark.parametrize("name", ["message", "Message"])
def test_a_new_caption_stays_one(name: str, is_wrapped: bool) -> None:
    new = {"imageMessage": {"caption": "new", "contextInfo": {"isForwarded": True}}}
    content: dict[str, Any] = {"protocolMessage": {"type": 14, "editedMessage": new}}
    if is_wrapped:
        content = {"editedMessage": {"message": content}}
    report = message(body="new", editedMessageId="A", _data={name: content})
    data = data_of("message.edited", report)
    assert (data["messageType"], data["contextInfo"]) == ("imageMessage", {"isForwarded": True})
    assert data["message"]["imageMessage"]["caption"] == "new"
    assert data["message"]["conversation"] == "new"
    text = {"protocolMessage": {"editedMessage": {"extendedTextMessage": {"text": "new"}}}}
    data = data_of("message.edited", {**report, "_data": {name: text}})
    assert (data["messageType"], data["message"]) == ("conversation", {"conversation": "new"})


def test_keys_alone_are_no_message() -> None:
    keys = {"senderKeyDistributionMessage": BESIDE["senderKeyDistributionMessage"]}
    assert event_of("message", message(body=None, _data={"message": keys})) is None
    assert event_of("message", message(body=None, _data={"Message": keys})) is None
    # With a text, or a file, somebody wrote something.
    assert data_of("message", message(_data={"message": keys}))["message"] == {"conversation": "hi"}


def test_texts_are_where_receivers_look_for_them() -> None:
    context = {"mentionedJid": [BOB_JID], "isForwarded": True, "forwardingScore": 2}
    plain = {"extendedTextMessage": {"text": "hi @5511977776666", "contextInfo": context}}
    data = data_of("message", message(body="hi", _data={"message": {**BESIDE, **plain}}))
    assert data["messageType"] == "conversation"
    assert data["message"] == {
        "conversation": "hi @5511977776666",
        "messageContextInfo": BESIDE["messageContextInfo"],
    }
    assert data["contextInfo"] == context
    # So is the text that is answered.
    quoted = {"quotedMessage": {"extendedTextMessage": {"text": "well?"}}}
    reply = {"extendedTextMessage": {"text": "yes", "contextInfo": quoted}}
    found = data_of("message", message(_data={"message": reply}))["contextInfo"]["quotedMessage"]
    assert found == {"conversation": "well?", **quoted["quotedMessage"]}
    # The preview of a link is a part of what came.
    preview = {**plain["extendedTextMessage"], "matchedText": "https://shop.example", "title": "Shop"}
    data = data_of("message", message(_data={"message": {"extendedTextMessage": preview}}))
    assert data["message"] == {"conversation": "hi @5511977776666", "extendedTextMessage": preview}


def test_the_advertisement_that_led_to_a_message_is_in_its_context() -> None:
    ad = {"title": "Sale", "sourceUrl": "https://ad.example/1", "ctwaClid": "ARxx", "sourceType": "ad"}
    noweb = {"extendedTextMessage": {"text": "hi", "contextInfo": {"externalAdReply": ad}}}
    go = {"title": "Sale", "sourceURL": "https://ad.example/1", "ctwaClid": "ARxx", "sourceType": "ad"}
    gows = {"extendedTextMessage": {"text": "hi", "contextInfo": {"externalAdReply": go}}}
    for engine in ({"message": noweb}, {"Message": gows}):
        assert data_of("message", message(_data=engine))["contextInfo"] == {"externalAdReply": ad}
    web = {"type": "chat", "ctwaContext": {**ad, "description": "Half price"}}
    found = data_of("message", message(_data=web))["contextInfo"]["externalAdReply"]
    assert found == {**ad, "description": "Half price", "body": "Half price"}


def test_the_context_of_whatsapp_web() -> None:
    web = {
        "type": "chat",
        "mentionedJidList": [BOB, {"server": "lid", "user": "7", "_serialized": "7@lid"}, None],
        "isForwarded": True,
        "forwardingScore": 1,
        "quotedStanzaID": "3EB0AA",
        "quotedParticipant": {"_serialized": BOB},
        "ephemeralDuration": 86400,
    }
    reply = {"id": "3EB0AA", "participant": BOB, "body": "well?"}
    assert data_of("message", message(_data=web, replyTo=reply))["contextInfo"] == {
        "stanzaId": "3EB0AA",
        "participant": BOB_JID,
        "quotedMessage": {"conversation": "well?"},
        "mentionedJid": [BOB_JID, "7@lid"],
        "isForwarded": True,
        "forwardingScore": 1,
        "expiration": 86400,
    }
    none = {"type": "chat", "mentionedJidList": [], "isForwarded": False, "ctwaContext": None}
    assert "contextInfo" not in data_of("message", message(_data=none))


@pytest.mark.parametrize(
    ("engine", "name", "content"),
    [
        (
            {
                "type": "poll_creation",
                "pollName": "Tea?",
                "pollOptions": [{"name": "yes", "localId": 0}, {"name": "no", "localId": 1}],
                "pollSelectableOptionsCount": 1,
            },
            "pollCreationMessage",
            {
                "name": "Tea?",
                "selectableOptionsCount": 1,
                "options": [{"optionName": "yes"}, {"optionName": "no"}],
            },
        ),
        (
            {"type": "list_response", "listResponse": {"singleSelectReply": {"selectedRowId": "row-1"}}},
            "listResponseMessage",
            {"singleSelectReply": {"selectedRowId": "row-1"}},
        ),
        (
            {"type": "buttons_response", "selectedButtonId": "yes", "body": "Yes"},
            "buttonsResponseMessage",
            {"selectedButtonId": "yes", "selectedDisplayText": "Yes"},
        ),
        (
            {"type": "template_button_reply", "selectedId": "yes", "selectedIndex": 0, "body": "Yes"},
            "templateButtonReplyMessage",
            {"selectedId": "yes", "selectedIndex": 0, "selectedDisplayText": "Yes"},
        ),
        (
            {"type": "order", "orderId": "77", "itemCount": 2, "token": "t", "sellerJid": ANA_JID},
            "orderMessage",
            {"orderId": "77", "itemCount": 2, "token": "t", "sellerJid": ANA_JID},
        ),
        (
            {"type": "groups_v4_invite", "inviteGrp": "1203@g.us", "inviteCode": "c", "inviteGrpName": "G"},
            "groupInviteMessage",
            {"groupJid": "1203@g.us", "inviteCode": "c", "groupName": "G"},
        ),
        (
            {"type": "event_creation", "eventName": "Party", "eventStartTime": 1773027345},
            "eventMessage",
            {"type": "event_creation", "eventName": "Party", "eventStartTime": 1773027345},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_contents_of_whatsapp_web(engine: dict[str, Any], name: str, content: dict[str, Any]) -> None:
    data = data_of("message", message(body=None, _data=engine))
    assert (data["messageType"], data["message"]) == (name, {name: content})


def test_a_text_of_an_unknown_type_stays_where_it_was() -> None:
    engine = {"type": "rich_response", "body": "hi"}
    data = data_of("message", message(_data=engine))
    assert data["message"] == {"conversation": "hi", "richResponseMessage": engine}


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        ({"message": {"documentMessage": {"mimetype": "application/pdf", "fileName": "a.pdf"}}}, "document"),
        ({"Message": {"documentMessage": {"mimetype": "application/pdf", "fileName": "a.pdf"}}}, "document"),
        ({"type": "document", "mimetype": "application/pdf", "filename": "a.pdf", "size": 9}, "document"),
        (
            {
                "message": {
                    "documentWithCaptionMessage": {
                        "message": {"documentMessage": {"mimetype": "application/pdf", "fileName": "a.pdf"}}
                    }
                }
            },
            "document",
        ),
    ],
)
@pytest.mark.parametrize("has_media", [True, False])
def test_a_file_that_was_not_downloaded_keeps_its_type_and_name(
    engine: dict[str, Any], name: str, has_media: bool
) -> None:
    file = data_of("message", message(body=None, hasMedia=has_media, media=None, _data=engine))["message"]
    assert file[f"{name}Message"]["mimetype"] == "application/pdf"
    assert file[f"{name}Message"]["fileName"] == "a.pdf"
    assert "url" not in file[f"{name}Message"]


@pytest.mark.parametrize(
    "engine",
    [
        {"message": {"viewOnceMessageV2": {"message": {"videoMessage": {"mimetype": "video/mp4"}}}}},
        {
            "message": {
                "ephemeralMessage": {"message": {"viewOnceMessage": {"message": {"videoMessage": {}}}}}
            }
        },
        {"Message": {"videoMessage": {"mimetype": "video/mp4"}}, "IsViewOnceV2": True},
        {"type": "video", "isViewOnce": True, "mimetype": "video/mp4"},
    ],
    ids=["noweb", "noweb in an ephemeral chat", "gows", "webjs"],
)
def test_a_video_to_view_once_is_a_video(engine: dict[str, Any]) -> None:
    media = {"url": "/api/files/a.mp4", "mimetype": "video/mp4"}
    payload = message(body="look", hasMedia=True, media=media, _data=engine)
    data = data_of("message", payload)
    assert data["messageType"] == "videoMessage"
    video = data["message"]["videoMessage"]
    assert (video["viewOnce"], video["mimetype"], video["caption"]) == (True, "video/mp4", "look")
    assert video["url"].startswith("https://hookgw.example/")


def test_a_link_to_a_file_in_another_content_is_beside_it() -> None:
    content = {"groupStatusMessageV2": {"message": {"imageMessage": {"caption": "hi"}}}}
    media = {"url": "/api/files/a.jpg", "mimetype": "image/jpeg"}
    found = data_of("message", message(media=media, _data={"message": content}))["message"]
    assert found["groupStatusMessageV2"] == content["groupStatusMessageV2"]
    assert found["mediaUrl"].startswith("https://hookgw.example/")


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
        assert file_of(payload) == url


@pytest.mark.parametrize(("kind", "ptt"), [("ptt", True), ("audio", False), ("", True)])
def test_music_is_no_voice_message_where_the_engine_tells_them_apart(kind: str, ptt: bool) -> None:
    media = {"url": "/api/files/b.oga", "mimetype": "audio/ogg; codecs=opus"}
    data = data_of("message", message(hasMedia=True, media=media, _data={"type": kind}))
    assert data["message"]["audioMessage"]["ptt"] is ptt


def test_a_file_in_the_operators_own_store_keeps_its_link() -> None:
    payload = message(
        hasMedia=True, media={"url": "https://s3.example/bucket/x?signature=1", "filename": "x.pdf"}
    )
    file = data_of("message", payload)["message"]["documentMessage"]
    assert file["url"] == "https://s3.example/bucket/x?signature=1"
    assert (file["fileName"], file["title"]) == ("x.pdf", "x.pdf")
    assert file_of(payload) == ""


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
