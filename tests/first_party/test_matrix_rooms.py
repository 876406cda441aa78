"""Rooms of Matrix: what hookgw itself sent, and rooms that were replaced by others."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hookgw import ConnectionState, MessageKey, NetworkRefused, ReactionMessage, TextMessage, event_id_of
from hookgw.records.instances import InstanceSettings
from hookgw.testing import FakeSession
from tests.first_party.matrix import (
    ANA,
    CATALOG,
    DIRECT,
    ME,
    OPTIONS,
    ROOM,
    Homeserver,
    connected,
    invited,
    message,
    own_join,
    refusal,
    running,
    texts,
)

pytestmark = pytest.mark.usefixtures("autojump_clock")

NEW, NEWEST = "!new:hs.example", "!newest:other.example"
LATER = {"origin_server_ts": 2**45}
JOIN = f"POST join/{NEW}"


@pytest.fixture
async def session(homeserver: Homeserver) -> AsyncIterator[FakeSession]:
    async with httpx.AsyncClient(transport=httpx.MockTransport(homeserver.answer)) as http:
        yield FakeSession(options=OPTIONS, http=http, catalog=CATALOG)


CREATED = {"room_version": "10", "predecessor": {"room_id": ROOM}}
"""What a room says of itself that replaces ``ROOM``."""


def own(id_: str, **more: Any) -> dict[str, Any]:
    """Return an event of the account without a transaction id."""
    return message(9, event_id=id_, sender=ME, **more)


def tombstone(number: int, new: str = NEW) -> dict[str, Any]:
    content = {"body": "This room has been replaced.", "replacement_room": new}
    return message(number, type="m.room.tombstone", state_key="", content=content)


async def test_what_hookgw_sent_does_not_come_back_where_the_homeserver_gives_no_transaction_id(
    homeserver: Homeserver, session: FakeSession
) -> None:
    async with connected(homeserver, session) as matrix:
        homeserver.will("PUT rooms", *({"event_id": f"$own{number}"} for number in range(4)))
        await matrix.send(session, TextMessage(number=ROOM, text="9"), key="k")
        key = MessageKey(remote_jid=ROOM, id="$1", from_me=True)
        await matrix.send(session, ReactionMessage(number=ROOM, key=key, reaction="x"), key="r")
        await matrix.edit(session, key, "edited", number=ROOM)
        await matrix.delete(session, key)
        edit = {"rel_type": "m.replace", "event_id": "$1"}
        homeserver.sync(
            own("$own0"),
            own("$own1", type="m.reaction", content={"m.relates_to": {"rel_type": "m.annotation"}}),
            own("$own2", content={"msgtype": "m.text", "body": "x", "m.relates_to": edit}),
            own("$own3", type="m.room.redaction", content={"redacts": "$1"}),
            own("$phone"),
            message(1),
        )
        await session.wait_for("MESSAGES_UPSERT", 2)
    assert [data["key"]["id"] for data in session.data_of("MESSAGES_UPSERT")] == ["$phone", "$1"]
    assert {event.kind for event in session.events} == {"MESSAGES_UPSERT", "CONNECTION_UPDATE"}


async def test_a_report_that_is_quicker_than_the_answer_to_the_send_waits_for_it(
    homeserver: Homeserver, session: FakeSession
) -> None:
    began, goes_on = trio.Event(), trio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        began.set()
        await goes_on.wait()
        yield b'{"event_id": "$own"}'

    async with connected(homeserver, session) as matrix, trio.open_nursery() as nursery:
        homeserver.will("PUT rooms", httpx.Response(200, content=slowly()))

        async def send() -> None:
            await matrix.send(session, TextMessage(number=ROOM, text="9"), key="k")

        nursery.start_soon(send)
        await began.wait()
        homeserver.sync(own("$own"), message(1))
        await wait_all_tasks_blocked()
        assert texts(session) == []
        goes_on.set()
        await session.wait_for("MESSAGES_UPSERT")
    assert texts(session) == ["1"]


async def test_after_a_restart_what_hookgw_sent_has_the_id_of_its_first_report(
    homeserver: Homeserver, session: FakeSession
) -> None:
    """The gateway has stored SEND_MESSAGE with this id: the second report is a repeated event."""
    async with connected(homeserver, session) as matrix:
        homeserver.will("PUT rooms", {"event_id": "$own"})
        sent = await matrix.send(session, TextMessage(number=ROOM, text="9"), key="k")
    redaction = own("$gone", type="m.room.redaction", content={"redacts": "$own"})
    homeserver.sync(own("$own"), redaction)
    async with running(session):
        await session.wait_for("MESSAGES_DELETE")
    stored, deleted = [event for event in session.events if event.kind != "CONNECTION_UPDATE"]
    assert stored.event_id == event_id_of("SEND_MESSAGE", sent["key"]["remoteJid"], sent["key"]["id"])
    assert deleted.event_id == event_id_of("MESSAGES_DELETE", ROOM, "$own")


async def test_a_login_is_made_once_however_often_the_next_request_is_limited(
    homeserver: Homeserver, session: FakeSession
) -> None:
    limited = refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=500)
    homeserver.will("GET account/whoami", limited, limited)
    async with connected(homeserver, session):
        pass
    assert len(homeserver.paths("POST login")) == 1


async def test_a_direct_room_that_could_not_be_marked_is_not_created_twice(
    homeserver: Homeserver, session: FakeSession
) -> None:
    async with connected(homeserver, session) as matrix:
        homeserver.will(DIRECT, refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=500))
        homeserver.will("PUT rooms", refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=500))
        with pytest.raises(NetworkRefused):
            await matrix.send(session, TextMessage(number=ANA, text="hello"), key="k")
        sent = await matrix.send(session, TextMessage(number=ANA, text="hello"), key="k")
        homeserver.sync(message(1))
        await session.wait_for("MESSAGES_UPSERT")
    assert sent["key"]["remoteJid"] == ROOM
    assert len(homeserver.paths("POST createRoom")) == 1
    async with connected(homeserver, session):
        await wait_all_tasks_blocked()
        assert ("PUT", DIRECT.removeprefix("PUT "), {ANA: [ROOM]}) in homeserver.requests


async def test_an_upgrade_of_a_room_names_both_and_is_followed(
    homeserver: Homeserver, session: FakeSession
) -> None:
    async with connected(homeserver, session) as matrix:
        homeserver.will(f"GET rooms/{NEW}/state/m.room.create", refusal(403, "M_FORBIDDEN"), CREATED)
        homeserver.sync(message(1), {**tombstone(2), **LATER})
        await session.wait_for("GROUPS_UPDATE")
        await wait_all_tasks_blocked()
        # In the new room without an invitation, and from its beginning.
        assert homeserver.paths("POST") == ["login", f"join/{NEW}"]
        timeline = {"events": [message(3, **LATER), own_join("$join"), message(4)]}
        homeserver.reply({"next_batch": "x", "rooms": {"join": {NEW: {"timeline": timeline}}}})
        await session.wait_for("MESSAGES_UPSERT", 3)
        sent = await matrix.send(session, TextMessage(number=ROOM, text="hello"), key="k")
        await matrix.set_presence(session, "composing", number=ROOM, delay=1)
    [[upgrade]] = session.data_of("GROUPS_UPDATE")
    assert (upgrade["id"], upgrade["replacedBy"]) == (ROOM, NEW)
    assert texts(session) == ["1", "3", "4"]
    assert sent["key"]["remoteJid"] == NEW
    assert [path.split("/")[1] for path in homeserver.paths("PUT rooms")] == [NEW, NEW]


async def test_sends_find_the_new_room_after_a_restart_and_through_several_upgrades(
    homeserver: Homeserver, session: FakeSession
) -> None:
    async with connected(homeserver, session) as matrix:
        for old, new in ((ROOM, NEW), (NEW, NEWEST), (NEWEST, ROOM)):  # the last one leads back
            homeserver.will(f"GET rooms/{old}/state/m.room.tombstone", {"replacement_room": new})
            homeserver.will(f"GET rooms/{new}/state/m.room.create", {"predecessor": {"room_id": old}})
        for _ in range(2):
            sent = await matrix.send(session, TextMessage(number=ROOM, text="hello"), key="k")
            assert sent["key"]["remoteJid"] == NEWEST
    assert len(homeserver.paths("GET rooms/!new:hs.example/state/m.room.tombstone")) == 1


async def test_a_direct_chat_stays_one_in_its_new_room(homeserver: Homeserver, session: FakeSession) -> None:
    session.settings = InstanceSettings(groups_ignore=True)
    homeserver.will(f"GET user/{ME}/account_data/m.direct", *[{ANA: [ROOM]}] * 3)
    homeserver.will(f"GET rooms/{NEW}/state/m.room.create", CREATED)
    async with connected(homeserver, session):
        homeserver.sync(tombstone(2))
        await session.wait_for("GROUPS_UPDATE")
        await wait_all_tasks_blocked()
        homeserver.reply(
            {"next_batch": "x", "rooms": {"join": {NEW: {"timeline": {"events": [message(3)]}}}}}
        )
        await session.wait_for("MESSAGES_UPSERT")
    assert ("PUT", DIRECT.removeprefix("PUT "), {ANA: [ROOM, NEW]}) in homeserver.requests


async def test_a_new_room_that_the_account_may_not_join_is_named(
    homeserver: Homeserver, session: FakeSession
) -> None:
    async with connected(homeserver, session) as matrix:
        homeserver.will(JOIN, *[refusal(403, "M_FORBIDDEN")] * 2)
        homeserver.sync(tombstone(2))
        await session.wait_for("GROUPS_UPDATE")
        await wait_all_tasks_blocked()
        with pytest.raises(NetworkRefused, match=f"{ROOM} was replaced by {NEW}") as caught:
            await matrix.send(session, TextMessage(number=ROOM, text="hello"), key="k")
        assert (caught.value.status, caught.value.code) == (403, "M_FORBIDDEN")
        # Then somebody invites the account. It is no new room, so join_invites does not matter.
        homeserver.will(f"GET rooms/{NEW}/state/m.room.create", CREATED)
        homeserver.reply({"next_batch": "x", "rooms": {"invite": {NEW: invited(ANA, is_direct=False)}}})
        await session.wait_for("GROUP_PARTICIPANTS_UPDATE")
        await wait_all_tasks_blocked()
    assert homeserver.paths("POST join") == [f"join/{NEW}"] * 3


@pytest.mark.parametrize("is_member", [True, False])
async def test_a_room_that_does_not_say_itself_that_it_replaces_another_one_is_not_entered(
    homeserver: Homeserver, session: FakeSession, is_member: bool
) -> None:
    """Who may write a tombstone cannot lead the account, or what is sent, elsewhere."""
    stranger = {"predecessor": {"room_id": "!stranger:hs.example"}}
    answers = [stranger] if is_member else [refusal(403, "M_FORBIDDEN"), stranger]
    async with connected(homeserver, session) as matrix:
        homeserver.will(f"GET rooms/{NEW}/state/m.room.create", *answers, *answers)
        homeserver.sync(tombstone(2))
        await session.wait_for("GROUPS_UPDATE")
        await wait_all_tasks_blocked()
        with pytest.raises(NetworkRefused, match="does not say that it replaces"):
            await matrix.send(session, TextMessage(number=ROOM, text="hello"), key="k")
    assert homeserver.paths("PUT rooms") == []
    # It stays in a room that it was in before, and leaves another one.
    assert len(homeserver.paths("POST join")) == len(homeserver.paths(f"POST rooms/{NEW}/leave"))
    assert bool(homeserver.paths("POST join")) is not is_member


async def test_a_message_that_only_looks_like_an_upgrade_changes_nothing(
    homeserver: Homeserver, session: FakeSession
) -> None:
    async with connected(homeserver, session) as matrix:
        fake = tombstone(2)
        del fake["state_key"]
        homeserver.sync(fake)
        await session.wait_for("NETWORK_EVENT")
        await wait_all_tasks_blocked()
        sent = await matrix.send(session, TextMessage(number=ROOM, text="hello"), key="k")
    assert sent["key"]["remoteJid"] == ROOM
    assert homeserver.paths("POST join") == []


async def test_whose_message_an_edit_replaces_is_looked_up(
    homeserver: Homeserver, session: FakeSession
) -> None:
    relation = {"rel_type": "m.replace", "event_id": "$1"}
    content = {"msgtype": "m.text", "body": "* x", "m.relates_to": relation}
    async with connected(homeserver, session):
        homeserver.will(f"GET rooms/{ROOM}/event/$1", message(1))
        homeserver.sync(message(2, sender="@mallory:hs.example", content=content))
        await session.wait_for("MESSAGES_UPSERT")
    assert session.data_of("MESSAGES_EDITED") == []


async def test_the_names_of_a_poll_from_before_are_looked_up(
    homeserver: Homeserver, session: FakeSession
) -> None:
    answers = [{"m.id": "y", "m.text": [{"body": "Yes"}]}]
    poll = message(1, type="m.poll.start", content={"m.poll": {"answers": answers}})
    relation = {"rel_type": "m.reference", "event_id": "$1"}
    vote = message(2, type="m.poll.response", content={"m.selections": ["y"], "m.relates_to": relation})
    async with connected(homeserver, session):
        homeserver.will(f"GET rooms/{ROOM}/event/$1", poll)
        homeserver.sync(vote)
        await session.wait_for("MESSAGES_UPSERT")
    [data] = session.data_of("MESSAGES_UPSERT")
    update = data["message"]["pollUpdateMessage"]
    assert update["vote"]["selectedOptions"] == ["Yes"]
    assert update["pollCreationMessageKey"]["participant"] == ANA
    assert session.states[-1][0] is ConnectionState.OPEN
