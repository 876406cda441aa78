from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hookgw import jids_of, plain_jid
from tests.public.records import MOST_PARTS, chats_in, split_by_chat, subjects_in

ANA = "5516988887777@s.whatsapp.net"
BOB = "5516988886666@s.whatsapp.net"
LID = "187654321098765@lid"
GROUP = "120363040000000000@g.us"
STATUS = "status@broadcast"


@pytest.mark.parametrize(
    ("jid", "plain"),
    [
        ("5516988887777:90@s.whatsapp.net", ANA),
        ("5516988887777_1:90@s.whatsapp.net", ANA),
        ("5516988887777@c.us", ANA),
        ("5516988887777:0@c.us", ANA),
        ("5516988887777:99@hosted", ANA),
        ("5516988887777.0:90@s.whatsapp.net", ANA),
        ("187654321098765:3@lid", LID),
        ("187654321098765:99@hosted.lid", LID),
        # no persons of WhatsApp
        (GROUP, GROUP),
        ("5516988887777-1400000000@g.us", "5516988887777-1400000000@g.us"),
        ("status@broadcast", "status@broadcast"),
        ("120363040000000000@newsletter", "120363040000000000@newsletter"),
        ("!room:example.org", "!room:example.org"),
        ("@ana:example.org", "@ana:example.org"),
        ("-1001234567890", "-1001234567890"),
        ("55:1@s.whatsapp.net.", "55:1@s.whatsapp.net."),
        ("٥:1@c.us", "٥:1@c.us"),
        ("", ""),
    ],
)
def test_a_person_has_one_plain_name(jid: str, plain: str) -> None:
    assert plain_jid(jid) == plain
    assert plain_jid(plain) == plain


@pytest.mark.parametrize(
    "key",
    [
        {"remoteJid": LID, "remoteJidAlt": ANA},
        {"remoteJid": ANA, "remoteJidLid": LID},
        {"remoteJid": LID, "fromMe": False, "senderPn": ANA, "senderLid": None},
        {"remoteJid": ANA, "senderLid": "187654321098765:3@lid"},
        {"remoteJid": ANA, "senderPn": ANA, "previousRemoteJid": LID},
    ],
)
def test_a_payload_has_several_names_of_a_person(key: dict[str, Any]) -> None:
    assert jids_of(key)[:2] == (ANA, LID)


ABOUT: dict[str, tuple[Any, tuple[str, ...]]] = {
    "a message": ({"key": {"remoteJid": ANA}}, (ANA,)),
    "a device": ({"key": {"remoteJid": "5516988887777:90@s.whatsapp.net"}}, (ANA,)),
    "another spelling": ({"key": {"remoteJid": "5516988887777@c.us"}}, (ANA,)),
    "a status": ({"keyId": "A", "remoteJid": ANA}, (ANA,)),
    "a number behind an id": ({"key": {"remoteJid": LID, "remoteJidAlt": ANA}}, (ANA,)),
    "an id behind a number": ({"key": {"remoteJid": ANA, "remoteJidAlt": LID}}, (ANA,)),
    "a status with both": ({"remoteJid": LID, "remoteJidAlt": "5516988887777:3@s.whatsapp.net"}, (ANA,)),
    "a number of Baileys 6": ({"key": {"remoteJid": LID, "fromMe": False, "senderPn": ANA}}, (ANA,)),
    "an id of Baileys 6": ({"key": {"remoteJid": ANA, "senderLid": LID, "senderPn": ANA}}, (ANA,)),
    "a replaced id": ({"key": {"remoteJid": ANA, "senderPn": ANA, "previousRemoteJid": LID}}, (ANA,)),
    "a number beside a replaced id": ({"key": {"remoteJid": LID, "previousRemoteJid": ANA}}, (ANA,)),
    "a status of Baileys 6": ({"keyId": "A", "remoteJid": LID, "senderPn": ANA}, (ANA,)),
    "an id of GOWA": ({"key": {"remoteJid": ANA, "remoteJidLid": LID}}, (ANA,)),
    "two numbers": ({"key": {"remoteJid": LID, "remoteJidAlt": ANA, "senderPn": BOB}}, (ANA,)),
    "the account wrote it": ({"key": {"remoteJid": LID, "fromMe": True, "senderPn": BOB}}, (LID,)),
    "a writer in a group": ({"key": {"remoteJid": GROUP, "senderPn": BOB, "senderLid": LID}}, (GROUP,)),
    "a writer elsewhere": ({"key": {"remoteJid": "!room:x", "senderPn": BOB}}, ("!room:x",)),
    "an id alone": ({"key": {"remoteJid": LID}}, (LID,)),
    "an id twice": ({"key": {"remoteJid": LID, "remoteJidAlt": "1@lid"}}, (LID,)),
    "a member of a group": ({"key": {"remoteJid": GROUP, "participant": ANA}}, (GROUP,)),
    "a group with an Alt": ({"key": {"remoteJid": GROUP, "remoteJidAlt": ANA}}, (GROUP,)),
    "only an Alt": ({"key": {"remoteJidAlt": ANA}}, (ANA,)),
    "a key without a chat": ({"key": {"id": "A"}, "remoteJid": ANA}, (ANA,)),
    "a key that is none": ({"key": "A", "remoteJid": ANA}, (ANA,)),
    "a label": ({"labelId": "6", "chatId": "5516988887777@c.us"}, (ANA,)),
    "a call of Baileys 7": ({"id": "C", "chatId": LID, "from": LID, "callerPn": ANA}, (ANA,)),
    "a call in a group": ({"id": "C", "chatId": GROUP, "callerPn": ANA}, (GROUP,)),
    "a contact of Baileys 7": ({"id": LID, "phoneNumber": ANA, "notify": "Ana"}, (ANA,)),
    "a contact with its hidden id": ({"id": ANA, "lid": LID}, (ANA,)),
    "contacts of Baileys 7": (
        [{"id": LID, "phoneNumber": ANA}, {"id": "2@lid", "lid": "2@lid"}],
        (ANA, "2@lid"),
    ),
    "a group with a number": ({"id": GROUP, "phoneNumber": ANA}, (GROUP,)),
    "a record with a number": ({"id": "cm4x8y0", "phoneNumber": ANA}, ()),
    "a caller alone": ({"id": "C", "callerPn": ANA}, ()),
    "who is writing": ({"id": "5516988887777@c.us", "presences": {}}, (ANA,)),
    "members of a group": ({"id": GROUP, "participants": [ANA]}, (GROUP,)),
    "a record's id": ({"id": "cm4x8y0"}, ()),
    "a list": ([{"key": {"remoteJid": ANA}}], (ANA,)),
    "a list about one": ([{"remoteJid": ANA}, {"id": "5516988887777:1@s.whatsapp.net"}], (ANA,)),
    "a list about several": ([{"remoteJid": BOB}, {"remoteJid": ANA}, {"remoteJid": BOB}], (BOB, ANA)),
    "a list of names": (["5516988887777@c.us", GROUP, "text"], (ANA, GROUP)),
    "a list with something else": ([None, 5, 1.5, True, [], {}, {"remoteJid": ANA}], (ANA,)),
    "an empty list": ([], ()),
    "a connection": ({"instance": "shop", "state": "open"}, ()),
    "wrong types": (
        {"key": {"remoteJid": 5, "remoteJidAlt": []}, "remoteJid": None, "chatId": {}, "id": 7},
        (),
    ),
    "an empty name": ({"key": {"remoteJid": ""}}, ()),
    "nothing": (None, ()),
    "a text": ("5516988887777@c.us", ()),
    "a number": (1.5, ()),
}


@pytest.mark.parametrize("name", ABOUT)
def test_what_a_payload_is_about(name: str) -> None:
    data, chats = ABOUT[name]
    assert chats_in(msgspec.json.encode(data)) == chats


TEXTS = st.text() | st.just("5511988887777@s.whatsapp.net")
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.integers() | TEXTS,
    lambda part: (
        st.lists(part, max_size=4)
        | st.dictionaries(st.sampled_from(["key", "remoteJid", "remoteJidAlt", "chatId", "id"]), part)
    ),
)


@given(JSON)
@example({"key": {"remoteJid": [], "remoteJidAlt": "a@lid"}, "chatId": {"id": 1}, "id": 2})
@example([{"remoteJid": "a@lid"}, [{"remoteJid": 1}], "x", None])
def test_any_payload_can_be_asked(data: Any) -> None:
    assert set(map(type, chats_in(msgspec.json.encode(data)))) <= {str}


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"9" * 5000 + b', {"remoteJid": "1@c.us"}]',
        b"9" * 5000,
        b'{"id": ' + b"9" * 5000 + b"}",
        b"[1.5e300, 18446744073709551616, -1e400]",
        b'{"key": ' + b"[" * 400 + b"]" * 400 + b"}",
    ],
    ids=lambda text: text[:12],
)
def test_odd_numbers_and_depths_are_about_nothing(text: bytes) -> None:
    assert chats_in(text) == ()
    assert split_by_chat(text) == {}


def test_a_list_about_several_chats_is_split_with_its_bytes() -> None:
    data = (
        b'[ {"remoteJid": "55:1@c.us", "n": 1.50}, {"remoteJid":"66@c.us"} ,\n'
        b'{"name":"nobody"}, {"key":{"remoteJid":"55@s.whatsapp.net"}} , 5]'
    )
    assert split_by_chat(data) == {
        "55@s.whatsapp.net": (
            b'[{"remoteJid": "55:1@c.us", "n": 1.50},{"key":{"remoteJid":"55@s.whatsapp.net"}}]'
        ),
        "66@s.whatsapp.net": b'[{"remoteJid":"66@c.us"}]',
        "": b'[{"name":"nobody"},5]',
    }


@pytest.mark.parametrize(
    "data", [None, {}, [], [{"remoteJid": ANA}], [{"remoteJid": ANA}, {}], {"key": {"remoteJid": ANA}}]
)
def test_what_is_about_one_chat_stays_whole(data: Any) -> None:
    assert split_by_chat(msgspec.json.encode(data)) == {}


@pytest.mark.parametrize(("chats", "parts"), [(MOST_PARTS, MOST_PARTS), (MOST_PARTS + 1, 0)])
def test_a_list_about_very_many_chats_stays_whole(chats: int, parts: int) -> None:
    assert len(split_by_chat(msgspec.json.encode([f"{number}@c.us" for number in range(chats)]))) == parts


@pytest.mark.parametrize(
    ("payload", "chats", "senders", "messages"),
    [
        ({"key": {"remoteJid": ANA, "fromMe": False, "id": "M"}}, [ANA], [ANA], ["M"]),
        ({"key": {"remoteJid": "5516988887777:9@c.us", "id": "M"}}, [ANA], [ANA], ["M"]),
        ({"key": {"remoteJid": ANA, "fromMe": True, "id": "M"}}, [ANA], ["me"], ["M"]),
        ({"key": {"remoteJid": GROUP, "participant": BOB, "id": "M"}}, [GROUP], [BOB], ["M"]),
        ({"key": {"remoteJid": GROUP, "participant": BOB, "fromMe": True}}, [GROUP], [BOB], []),
        ({"key": {"remoteJid": GROUP, "participant": LID, "participantAlt": BOB}}, [GROUP], [BOB], []),
        ({"key": {"remoteJid": LID, "remoteJidAlt": ANA, "id": "M"}}, [ANA], [ANA], ["M"]),
        ({"key": {"remoteJid": LID, "senderPn": ANA, "id": "M"}}, [ANA], [ANA], ["M"]),
        ({"key": {"remoteJid": LID, "senderPn": BOB, "fromMe": True}}, [LID], ["me"], []),
        ({"key": {"remoteJid": GROUP, "participant": LID, "participantPn": BOB}}, [GROUP], [BOB], []),
        ({"key": {"remoteJid": GROUP, "participant": BOB, "participantLid": LID}}, [GROUP], [BOB], []),
        ({"keyId": "M", "remoteJid": GROUP, "participant": LID, "participantPn": BOB}, [GROUP], [BOB], ["M"]),
        ({"key": {"remoteJid": STATUS, "remoteJidAlt": BOB, "participant": LID}}, [STATUS], [BOB], []),
        ({"key": {"remoteJid": LID}}, [LID], [LID], []),
        ({"key": {"remoteJid": GROUP}, "participant": BOB, "keyId": "M"}, [GROUP], [GROUP], []),
        ({"key": {"remoteJid": GROUP, "id": "a@b"}}, [GROUP], [GROUP], ["a@b"]),
        ({"keyId": "M", "remoteJid": GROUP, "fromMe": True}, [GROUP], ["me"], ["M"]),
        ({"keyId": "M", "remoteJid": GROUP, "participant": BOB}, [GROUP], [BOB], ["M"]),
        ({"id": GROUP, "presences": {}}, [GROUP], [GROUP], []),
        ({"id": "call-1", "chatId": ANA}, [ANA], [ANA], ["call-1"]),
        ({"id": "call-1", "chatId": LID, "callerPn": ANA}, [ANA], [ANA], ["call-1"]),
        ([{"key": {"remoteJid": ANA, "id": "1"}}, {"id": GROUP}, 3, ANA], [ANA, GROUP], [ANA, GROUP], ["1"]),
        ([GROUP], [GROUP], [GROUP], []),
        ([], [], [], []),
        ({}, [], [], []),
        (None, [], [], []),
        ("text", [], [], []),
        ({"key": {"remoteJid": 5, "id": 6, "fromMe": "x", "participant": 7}}, [], [], []),
    ],
)
def test_the_subjects_of_a_payload(
    payload: Any, chats: list[str], senders: list[str], messages: list[str]
) -> None:
    found = subjects_in(msgspec.json.encode(payload), "me")
    assert found == (tuple(chats), tuple(senders), tuple(messages))
    assert found.chats == chats_in(msgspec.json.encode(payload))


def test_an_unknown_account_is_no_sender() -> None:
    payload = msgspec.json.encode({"key": {"remoteJid": ANA, "fromMe": True, "id": "M"}})
    assert subjects_in(payload, None).senders == ()
