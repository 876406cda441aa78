"""Messages that a network keeps, after a person was erased."""

from typing import Any

import msgspec
import pytest

from tests.public.records import Instance, with_erased, without_erased

ANA = "5511988887777@s.whatsapp.net"
SHOP = Instance(name="shop", id="3f0c2a1b-e94d-4c36-80f1-a2b3c4d5e6f7")


def message(**fields: Any) -> dict[str, Any]:
    return {"key": {"id": "A", "remoteJid": "55@s.whatsapp.net"}, "messageTimestamp": 100, **fields}


@pytest.mark.parametrize(
    "record",
    [
        message(key={"remoteJid": ANA}),
        message(key={"remoteJid": "1@lid", "remoteJidAlt": "5511988887777:7@s.whatsapp.net"}),
        message(participant="5511988887777@c.us"),
        message(participant="5511988887777_1:7@hosted"),
        message(message={"extendedTextMessage": {"contextInfo": {"mentionedJid": ["x", ANA]}}}),
        message(names={ANA: "Ana"}),
        message(contact={"wa_id": "5511988887777"}),
        message(sender="whatsapp:+5511988887777"),
        message(key={"remoteJid": ANA}, messageTimestamp=None),
    ],
)
def test_what_concerns_an_erased_person_is_left_out(record: dict[str, Any]) -> None:
    erased = with_erased(SHOP, ANA, 100.5)
    others = [
        message(),
        message(text=f"to {ANA}"),
        message(key={"remoteJid": "5511988887778@s.whatsapp.net"}),
    ]
    assert without_erased(erased, [*others, record]) == others
    assert without_erased(SHOP, [record]) == [record]


@pytest.mark.parametrize("identifier", ["US.13491208655302741918@lid", "US.13491208655302741918"])
def test_a_user_id_of_the_cloud_api_also_stands_alone(identifier: str) -> None:
    erased = with_erased(SHOP, identifier, 100.5)
    theirs = [message(meta={"user_id": "US.13491208655302741918"})]
    theirs += [message(key={"remoteJid": "US.13491208655302741918@lid"})]
    assert without_erased(erased, [message(), *theirs]) == [message()]


def test_what_was_sent_afterwards_is_there() -> None:
    later = message(key={"remoteJid": ANA}, messageTimestamp=101)
    assert without_erased(with_erased(SHOP, ANA, 100.5), [later]) == [later]
    again = with_erased(with_erased(SHOP, ANA, 100.5), ANA, 200)
    assert without_erased(again, [later]) == []


def test_the_record_does_not_have_the_identifier() -> None:
    erased = with_erased(SHOP, ANA, 100.5)
    assert b"5511988887777" not in msgspec.json.encode(erased)
    other = with_erased(msgspec.structs.replace(SHOP, id="other"), ANA, 100.5)
    assert not erased.erased.keys() & other.erased.keys()
    assert "erased=********" in repr(erased)


@pytest.mark.parametrize("record", [None, 5, "x", [], {}, {"messageTimestamp": "100"}])
def test_strange_records_stay(record: Any) -> None:
    assert without_erased(with_erased(SHOP, ANA, 100.5), [record]) == [record]
