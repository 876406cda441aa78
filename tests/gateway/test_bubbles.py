"""What a page shows of a message, whatever the payload holds."""

from typing import Any

import msgspec
import pytest

from tests.public.messages import MOST_PART, MOST_TEXT, Words, words_of

IMAGE = {"imageMessage": {"caption": "Look", "fileLength": "122880"}}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"conversation": "hi"}, Words("", "hi")),
        ({"extendedTextMessage": {"text": "hi"}}, Words("", "hi")),
        (IMAGE, Words("imageMessage", "Look", 122880)),
        ({"ephemeralMessage": {"message": IMAGE}}, Words("imageMessage", "Look", 122880)),
        ({"viewOnceMessageV2": {"message": {"conversation": "hi"}}}, Words("", "hi")),
        ({"buttonsMessage": {"contentText": "Which?", "buttons": []}}, Words("", "Which?")),
        ({"listMessage": {"title": "Menu", "description": "Which?", "sections": []}}, Words("", "Which?")),
        ({"associatedChildMessage": {"message": IMAGE}}, Words("imageMessage", "Look", 122880)),
        ({"groupMentionedMessage": {"message": {"conversation": "hi"}}}, Words("", "hi")),
        ({"questionMessage": {"message": {"conversation": "hi"}}}, Words("", "hi")),
        ({"eventCoverImage": {"message": IMAGE}}, Words("imageMessage", "Look", 122880)),
        (
            {"documentMessage": {"fileName": "a.pdf", "fileLength": {"low": -1, "high": 1}}},
            Words("documentMessage", "a.pdf", 2**33 - 1),
        ),
        ({"audioMessage": {"fileLength": "9" * 20}}, Words("audioMessage")),
        # The file itself is beside what describes it.
        ({**IMAGE, "base64": "A" * 2 * MOST_PART}, Words("imageMessage", "Look", 122880)),
        ({"reactionMessage": {"text": "👍", "key": {}}}, Words("reactionMessage", "👍")),
        ({"locationMessage": {"name": None, "address": "Rua 1"}}, Words("locationMessage", "Rua 1")),
        ({"pollCreationMessageV3": {"name": "Pizza?"}}, Words("pollCreationMessageV3", "Pizza?")),
        ({"pollCreationMessageV5": {"name": "Pizza?"}}, Words("pollCreationMessageV5", "Pizza?")),
        (
            {"pollCreationMessageV4": {"message": {"pollCreationMessage": {"name": "Pizza?"}}}},
            Words("pollCreationMessage", "Pizza?"),
        ),
        ({"interactiveMessage": {"body": {"text": "hi"}}}, Words("", "hi")),
        (
            {
                "templateMessage": {
                    "templateId": "1",
                    "hydratedTemplate": {"hydratedContentText": "Your code"},
                }
            },
            Words("", "Your code"),
        ),
        (
            {"templateMessage": {"interactiveMessageTemplate": {"body": {"text": "Your code"}}}},
            Words("", "Your code"),
        ),
        (
            {"templateMessage": {"hydratedFourRowTemplate": {**IMAGE, "hydratedContentText": "Your order"}}},
            Words("imageMessage", "Look", 122880),
        ),
        (
            {"interactiveMessage": {"header": {"imageMessage": {}}, "body": {"text": "Pay"}}},
            Words("imageMessage", "Pay"),
        ),
        (
            {"buttonsMessage": {"documentMessage": {"fileName": "a.pdf"}, "contentText": "Which?"}},
            Words("documentMessage", "Which?"),
        ),
        (
            {"highlyStructuredMessage": {"hydratedHsm": {"hydratedTemplate": {"hydratedContentText": "hi"}}}},
            Words("", "hi"),
        ),
        (
            {"viewOnceMessage": {"message": {"interactiveMessage": {"body": {"text": "Pay"}}}}},
            Words("", "Pay"),
        ),
        ({"commentMessage": {"message": {"conversation": "hi"}, "targetMessageKey": {}}}, Words("", "hi")),
        (
            {"contactsArrayMessage": {"displayName": "2 contacts"}},
            Words("contactsArrayMessage", "2 contacts"),
        ),
        (
            {"contactsArrayMessage": {"contacts": [{"displayName": "Ana"}, 7, {"displayName": "Bob"}]}},
            Words("contactsArrayMessage", "Ana\nBob"),
        ),
        (
            {"productMessage": {"product": {"title": "Pizza"}, "businessOwnerJid": "5511@s.whatsapp.net"}},
            Words("productMessage", "Pizza"),
        ),
        (
            {"requestPaymentMessage": {"noteMessage": {"extendedTextMessage": {"text": "Lunch"}}}},
            Words("requestPaymentMessage", "Lunch"),
        ),
        (
            {"richResponseMessage": {"submessages": [{"messageText": "It is"}, {"messageText": "Tuesday."}]}},
            Words("", "It is\nTuesday."),
        ),
        ({"richResponseMessage": {"submessages": 7}}, Words("")),
        (
            {"pollUpdateMessage": {"vote": {"selectedOptions": ["Pizza", ["x"], "Pasta"]}}},
            Words("pollUpdateMessage", "Pizza\nPasta"),
        ),
        ({"systemMessage": {"body": "Ana changed"}}, Words("systemMessage", "Ana changed")),
        ({"spoilerMessage": {"message": IMAGE}}, Words("imageMessage", "Look", 122880)),
        ({"pollCreationMessageV6": {"name": "Pizza?"}}, Words("pollCreationMessageV6", "Pizza?")),
        ({"groupInviteMessage": {"groupName": "Team"}}, Words("groupInviteMessage", "Team")),
        ({"eventMessage": {"name": "Party"}}, Words("eventMessage", "Party")),
        ({"orderMessage": {"orderTitle": "Cart"}}, Words("orderMessage", "Cart")),
        ({"templateMessage": {"hydratedTemplate": {}}}, Words("")),
        ({"templateMessage": {"hydratedTemplate": [1]}}, Words("strange")),
        (
            {"interactiveResponseMessage": {"body": {"text": "Sent"}}},
            Words("interactiveResponseMessage", "Sent"),
        ),
        ({"conversation": "x" * 5000}, Words("", "x" * MOST_TEXT, is_cut=True)),
        ({"conversation": "x" * MOST_PART}, Words("", is_cut=True)),
        ({"imageMessage": "no object"}, Words("strange")),
        ({"conversation": {"text": 1}, "extendedTextMessage": [1]}, Words("strange")),
        ({"pollUpdateMessage": {}}, Words("pollUpdateMessage")),
        ({"pinInChatMessage": {}}, Words("strange")),
        ([], Words("strange")),
        (None, Words("strange")),
    ],
)
def test_words(message: Any, words: Words) -> None:
    kind = "conversation" if words.is_cut else "strange"
    assert words_of(msgspec.json.encode(message), kind) == words


def test_a_kind_that_is_no_text_is_none() -> None:
    assert words_of(b"{}", 7) == Words()
    assert words_of(b"{}", "k" * 100) == Words("k" * 64)
