"""Erasing what concerns a person."""

import json
from typing import Any

import pytest

from hookgw import DeliveryState
from tests.public.records import Job, JobKind
from tests.public.store import Append, Erased, Store
from tests.store.conformance.engines import Engine
from tests.store.support import (
    RULE,
    Listener,
    dead,
    delivered,
    event,
    failed,
    ids_of,
    listed,
    pending_of,
    seqs_of,
    settle,
    to,
)

ANA = "5511988887777@s.whatsapp.net"


async def found(
    store: Store, value: str = ANA, *, pending: bool = False, instance: str = "shop"
) -> list[int]:
    """Return the events that concern a person, of all steps."""
    events: list[int] = []
    cursor: str | None = await store.cancel_cursor()
    while cursor is not None:
        page = await store.find_concerned(instance, value, cursor, pending=pending)
        events += page.events
        cursor = page.cursor
    return events


async def erase(store: Store, value: str = ANA, **more: Any) -> Erased:
    return await store.erase(await found(store, value), value, **more)


CONCERNS: dict[str, tuple[Any, bool]] = {
    "the chat": ({"key": {"remoteJid": ANA}}, True),
    "without a key": ({"remoteJid": ANA}, True),
    "the writer in a group": ({"key": {"remoteJid": "1@g.us", "participant": ANA}}, True),
    "an alternative": ({"key": {"remoteJid": "7@lid", "remoteJidAlt": ANA}}, True),
    "a device": ({"key": {"participant": "5511988887777:12@s.whatsapp.net"}}, True),
    "a device of an alternative": (
        {"key": {"remoteJid": "7@lid", "remoteJidAlt": "5511988887777:3@s.whatsapp.net"}},
        True,
    ),
    "the writer's alternative": (
        {"key": {"remoteJid": "1@g.us", "participant": "7@lid", "participantAlt": ANA}},
        True,
    ),
    "another spelling": ({"key": {"remoteJid": "5511988887777@c.us"}}, True),
    "a device in another spelling": ({"presences": {"5511988887777:12@c.us": {}}}, True),
    "an agent": ({"key": {"participant": "5511988887777_1:12@s.whatsapp.net"}}, True),
    "an agent, as libraries in Go write it": ({"AD": "5511988887777.0:12@s.whatsapp.net"}, True),
    "the number alone": ({"value": {"wa_id": "5511988887777"}}, True),
    "the number alone, with a sign": ({"value": {"wa_id": "+5511988887777"}}, True),
    "the number alone, as the name of a member": ({"statuses": {"5511988887777": "read"}}, True),
    "the number, as Twilio writes it": ({"MessageStatus": "read", "To": "whatsapp:+5511988887777"}, True),
    "a longer number alone": ({"wa_id": "55119888877771"}, False),
    "a contact in a list": ([{"remoteJid": "2@s.whatsapp.net"}, {"id": ANA}], True),
    "a member of a group": ({"participants": [{"id": "2@s.whatsapp.net"}, {"id": ANA}]}, True),
    "a member in a list": ({"participants": ["2@s.whatsapp.net", ANA]}, True),
    "the name of a member": ({"presences": {ANA: {"lastKnownPresence": "composing"}}}, True),
    "a mention": ({"message": {"contextInfo": {"mentionedJid": [ANA]}}}, True),
    "the writer of what is quoted": ({"message": {"contextInfo": {"participant": ANA}}}, True),
    "another one": ({"key": {"remoteJid": "5511988887778@s.whatsapp.net"}}, False),
    "a longer number": ({"key": {"remoteJid": "15511988887777@s.whatsapp.net"}}, False),
    "an id with the same digits": ({"key": {"remoteJid": "5511988887777@lid"}}, False),
    "a group with the same digits": ({"key": {"remoteJid": "5511988887777-14000@g.us"}}, False),
    "a text": ({"message": {"conversation": f"call {ANA}"}}, False),
    "a number": ({"n": 5511988887777}, False),
    "nothing": (None, False),
}


@pytest.mark.parametrize("name", CONCERNS)
async def test_which_events_concern_a_person(store: Store, name: str) -> None:
    data, concerns = CONCERNS[name]
    await store.append(to("e1", data=json.dumps(data)))
    assert bool(await found(store)) is concerns


@pytest.mark.parametrize("identifier", ["123456789", "-100123456789"])
async def test_an_identifier_may_be_a_number_where_telegram_has_one(store: Store, identifier: str) -> None:
    for name, data in {
        "the chat": '{"value": {"chat": {"id": %s}}}',
        "a private chat": '{"user_chat_id": %s}',
        "a card": '{"value": [{"contact": {"user_id": %s}}]}',
        "as a string": '{"remoteJid": "%s"}',
        "a time": '{"date": %s}',
        "in a list": '{"id": [%s]}',
        "another member": '{"id": 1, "message_id": %s}',
        "a longer one": '{"id": %s0}',
        "a fraction": '{"id": %s.5}',
        "a number of any length": '{"id": %s' + "0" * 50 + "}",
    }.items():
        await store.append(to(name, data=data % identifier))
    await erase(store, identifier)
    left = await listed(store)
    assert sorted(left) == sorted(
        ["a time", "in a list", "another member", "a longer one", "a fraction", "a number of any length"]
    )


@pytest.mark.parametrize("identifier", ["US.13491208655302741918@lid", "US.13491208655302741918"])
async def test_a_user_id_of_the_cloud_api_also_stands_alone(store: Store, identifier: str) -> None:
    for name, data in {
        "a chat": {"key": {"remoteJid": "US.13491208655302741918@lid"}},
        "behind a number": {"remoteJid": ANA, "remoteJidAlt": "US.13491208655302741918@lid"},
        "as Meta has it": {"value": {"contacts": [{"user_id": "US.13491208655302741918"}]}},
        "a former id": {"message": {"systemMessage": {"previous_user_id": "US.13491208655302741918"}}},
        "a longer one": {"user_id": "US.134912086553027419180"},
        "a text": {"message": {"conversation": "US.13491208655302741918 is me"}},
    }.items():
        await store.append(to(name, data=json.dumps(data)))
    await erase(store, identifier)
    assert sorted(await listed(store)) == ["a longer one", "a text"]


@pytest.mark.parametrize("identifier", ["187654321098765@lid", "187654321098765:3@lid"])
async def test_the_id_of_a_hidden_number_also_stands_alone(store: Store, identifier: str) -> None:
    for name, data in {
        "as an Evolution API 2.4 posts it": {"remoteJid": "187654321098765", "status": "READ"},
        "the name of a member": {"presences": {"187654321098765": {}}},
        "a device": {"key": {"participant": "187654321098765:12@lid"}},
        "another spelling": {"key": {"remoteJid": "187654321098765@hosted.lid"}},
        "the number of somebody": {"key": {"remoteJid": "187654321098765@s.whatsapp.net"}},
        "the number of somebody, alone": {"to": "+187654321098765"},
        "a longer one": {"remoteJid": "1876543210987651"},
    }.items():
        await store.append(to(name, data=json.dumps(data)))
    await erase(store, identifier)
    left = ["a longer one", "the number of somebody", "the number of somebody, alone"]
    assert sorted(await listed(store)) == left


async def test_escapes_in_the_payload_hide_nobody(store: Store) -> None:
    escaped = ANA.replace("@", "\\u0040")
    await store.append(to("e1", data=f'{{"remoteJid": "{escaped}"}}'))
    await store.append(to("e2", data='{"remoteJid": "jos\\u00e9/1"}'))
    await store.append(to("e3", data='{"remoteJid": "josé\\/1"}'))
    await store.append(to("deep", data='{"a":' * 1500 + f'"{ANA}"' + "}" * 1500))
    assert len(await found(store)) == 2
    assert len(await found(store, "josé/1")) == 2


@pytest.mark.parametrize(
    "value",
    [
        *(ANA, "5511988887777:3@s.whatsapp.net", "5511988887777@c.us", "5511988887777", "+5511988887777"),
        "whatsapp:+5511988887777",
    ],
)
async def test_everything_of_the_event_goes(store: Store, value: str) -> None:
    theirs = event("e1", data=json.dumps({"key": {"remoteJid": ANA}}))
    await store.append([Append(theirs, (("reg_1", "reg_1:0"), ("reg_2", "reg_2:0")))])
    await store.append(to("e2"))
    await store.append(to("e1", instance="other", data=json.dumps({"remoteJid": ANA})))
    one, _, _ = await seqs_of(store)
    await settle(store, failed(one, body=b"5511988887777"), delivered(one, number=2))
    listener = Listener()
    store.subscribe(listener)
    erased = await erase(store, value)
    assert erased == Erased(events=1, deliveries=2, left=0)
    assert listener.calls == [("changed", {("reg_2", "shop"): (-1, -len(theirs.data_json))})]
    assert await listed(store) == ["e2"]
    assert await store.find_delivery("shop", "e1") is None
    assert await store.find_delivery("other", "e1") is not None
    assert await store.find_content("shop", "e1") is None
    content = await store.find_content("other", "e1")
    assert content is not None
    assert json.loads(content[1]) == {"remoteJid": ANA}
    assert await found(store) == []
    assert await ids_of(store, "reg_2:0") == []


async def test_ids_stay_unless_they_name_the_person(store: Store) -> None:
    data = json.dumps({"remoteJid": ANA})
    for name in ("e1", "5511988887777-s-whatsapp-net-3EB0-abc"):
        await store.append(to(name, data=data))
    await erase(store)
    assert await store.append(to("e1", data=data)) == [False]
    assert await store.append(to("5511988887777-s-whatsapp-net-3EB0-abc", data=data)) == [True]


@pytest.mark.parametrize("state", list(DeliveryState))
async def test_every_state(store: Store, state: DeliveryState) -> None:
    await store.append(to("e1", data=json.dumps({"remoteJid": ANA})))
    [seq] = await seqs_of(store)
    if state is not DeliveryState.PENDING:
        await settle(store, dead(seq) if state is DeliveryState.DEAD else delivered(seq))
    assert len(await found(store, pending=True)) == (state is DeliveryState.PENDING)
    assert (await erase(store)).deliveries == 1
    assert await listed(store) == []
    assert await pending_of(store) == 0


async def test_events_in_flight_stay(store: Store) -> None:
    await store.append(to("e1", "e2", data=json.dumps({"remoteJid": ANA})))
    one, _ = await seqs_of(store)
    assert await erase(store, spared=[one]) == Erased(events=1, deliveries=1, left=1)
    assert await ids_of(store) == ["e1"]
    assert await erase(store, spared=[one]) == Erased(events=0, deliveries=0, left=1)
    assert await erase(store) == Erased(events=1, deliveries=1, left=0)
    assert await store.erase([1, 2], ANA) == Erased(events=0, deliveries=0, left=0)


async def test_a_search_in_parts_finds_all(engine: Engine, store: Store) -> None:
    engine.shorten_searches(2)
    for number in range(7):
        await store.append(to(f"e{number}", data=json.dumps({"remoteJid": ANA if number % 2 else "b@c"})))
    cursor = await store.cancel_cursor()
    await store.append(to("later", data=json.dumps({"remoteJid": ANA})))
    first = await store.find_concerned("shop", ANA, cursor)
    assert (len(first.events), first.cursor is None) == (1, False)
    events = await found(store)
    assert len(events) == 4
    assert (await store.erase(events[:3], ANA)).events == 3
    assert sorted(await ids_of(store)) == ["e0", "e2", "e4", "e6", "later"]


async def test_a_sent_again_one_is_found_and_gone_for_the_lane(store: Store) -> None:
    await store.append(to("e1", data=json.dumps({"remoteJid": ANA})))
    [seq] = await seqs_of(store)
    await settle(store, dead(seq))
    cursor = await store.cancel_cursor()
    await store.resend("shop", seq, RULE)
    assert len((await store.find_concerned("shop", ANA, cursor, pending=True)).events) == 1
    await erase(store)
    assert await ids_of(store) == []


async def test_the_job_is_stored_with_its_steps(store: Store) -> None:
    await store.append(to("e1", "e2", data=json.dumps({"remoteJid": ANA})))
    job = Job(id="job_1", kind=JobKind.ERASE, instance="shop", started=1.0, cursor="x", erase=ANA)
    assert ANA not in repr(job)
    await erase(store, job=job)
    stored = (await store.load_jobs())["job_1"]
    assert (stored.done, stored.events, stored.cursor, stored.erase) == (2, 2, "x", ANA)
    assert stored.ended(2.0).erase is None


async def test_scrub(store: Store) -> None:
    assert await store.scrub()
