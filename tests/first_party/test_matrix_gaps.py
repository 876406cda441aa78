"""Gaps in rooms of Matrix: what happened while hookgw was away, on homeservers as they are."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import trio

from hookgw.testing import FakeSession
from plugins.matrix.gaps import PAGE
from tests.first_party.matrix import (
    ANA,
    CATALOG,
    ME,
    OPTIONS,
    ROOM,
    DendriteRoom,
    Homeserver,
    connected,
    message,
    own_join,
    refusal,
    running,
    texts,
)

pytestmark = pytest.mark.usefixtures("autojump_clock")


@pytest.fixture
async def session(homeserver: Homeserver) -> AsyncIterator[FakeSession]:
    async with httpx.AsyncClient(transport=httpx.MockTransport(homeserver.answer)) as http:
        yield FakeSession(options=OPTIONS, http=http, catalog=CATALOG)


async def test_a_gap_of_many_pages_is_read_oldest_first(homeserver: Homeserver, session: FakeSession) -> None:
    pages = {
        "p0": ([9, 8, 7], "p1"),
        "p1": ([6, 5, 4], "p2"),
        "p2": ([3, 2], "p3"),
        "p3": ([], None),
        "s1": ([1], None),
    }

    def page(request: httpx.Request) -> httpx.Response:
        numbers, end = pages[request.url.params["from"]]
        answer: dict[str, Any] = {"chunk": [message(number) for number in numbers]}
        if end is not None:
            answer["end"] = end
        return httpx.Response(200, json=answer)

    async with connected(homeserver, session):
        homeserver.will("GET rooms", *[page] * 20)
        homeserver.sync(message(10), message(11), limited=True)
        await session.wait_for("MESSAGES_UPSERT", 10)
    assert texts(session) == [str(number) for number in range(2, 12)]
    assert session.repeated == []


async def test_a_page_without_events_does_not_end_a_gap(homeserver: Homeserver, session: FakeSession) -> None:
    first = {"p0": ([9, 8, 7], "p1"), "p1": ([6, 5], None), "s1": ([], "s0"), "s0": ([4], None)}
    # The first page is read again after the last one, and comes in parts then.
    again = {"p0": ([9], "q1"), "q1": ([], "q2"), "q2": ([8, 7], "p1")}
    asked: list[str] = []

    def page(request: httpx.Request) -> httpx.Response:
        begin = request.url.params["from"]
        numbers, end = (again if begin in asked or begin not in first else first)[begin]
        asked.append(begin)
        answer: dict[str, Any] = {"chunk": [message(number) for number in numbers]}
        return httpx.Response(200, json=answer | ({"end": end} if end else {}))

    async with connected(homeserver, session):
        homeserver.will("GET rooms", *[page] * 20)
        homeserver.sync(message(10), limited=True)
        await session.wait_for("MESSAGES_UPSERT", 6)
    assert texts(session) == [str(number) for number in range(5, 11)]


async def test_a_gap_in_a_room_that_was_left_is_skipped(homeserver: Homeserver, session: FakeSession) -> None:
    async with connected(homeserver, session):
        homeserver.will("GET rooms", refusal(403, "M_FORBIDDEN"))
        homeserver.sync(message(5), limited=True)
        await session.wait_for("MESSAGES_UPSERT")
    assert texts(session) == ["5"]


async def test_a_joined_room_begins_with_the_invitation(homeserver: Homeserver, session: FakeSession) -> None:
    far = {"origin_server_ts": 2**45}
    invite = message(2, type="m.room.member", state_key=ME, content={"membership": "invite"}, **far)
    joined = own_join("$join", prev_content={"membership": "invite"}, replaces_state="$2")
    async with connected(homeserver, session):
        homeserver.will("GET rooms", {"chunk": [invite, message(1, **far)], "end": "p1"})
        homeserver.sync(message(3, **far), joined, message(4), limited=True)
        await session.wait_for("MESSAGES_UPSERT", 2)
    assert texts(session) == ["3", "4"]


async def test_an_old_join_in_the_state_is_no_new_room(homeserver: Homeserver, session: FakeSession) -> None:
    state = {"events": [own_join("$join", prev_content={"membership": "invite"})]}
    async with connected(homeserver, session):
        homeserver.sync(message(1), state=state)
        homeserver.will("GET rooms", {"chunk": [message(2)]})
        homeserver.sync(message(3), limited=True, state=state)
        await session.wait_for("MESSAGES_UPSERT", 3)
    assert texts(session) == ["1", "2", "3"]


async def test_a_join_in_the_gap_is_where_the_room_begins(
    homeserver: Homeserver, session: FakeSession
) -> None:
    joined = own_join("$join")
    async with connected(homeserver, session):
        homeserver.will("GET rooms", {"chunk": [message(2), joined, message(1)]})
        homeserver.sync(message(3), limited=True, state={"events": [joined]})
        await session.wait_for("MESSAGES_UPSERT", 2)
    assert texts(session) == ["2", "3"]


@pytest.mark.parametrize("size", [1, 2, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 250])
@pytest.mark.parametrize("is_between", [True, False])
async def test_a_gap_ends_where_the_last_sync_ended_whatever_the_tokens_look_like(
    homeserver: Homeserver, session: FakeSession, size: int, is_between: bool
) -> None:
    room = DendriteRoom()
    homeserver.always[f"GET rooms/{ROOM}/messages"] = room.answer
    for number in range(150):
        room.add(number + 1, message(number, event_id=f"$old{number}"))
    # The last sync ended with an event of this room, or with one of another room.
    since = 160 if is_between else 150
    for number in range(size):
        room.add(200 + number, message(number))
    homeserver.reply({"next_batch": f"s{since}_0"})
    async with running(session):
        after = message(size)
        timeline = {"events": [after], "limited": True, "prev_batch": f"t{150 + size}_{200 + size}"}
        answer = {"next_batch": "s900_0", "rooms": {"join": {ROOM: {"timeline": timeline}}}}
        homeserver.reply(answer)
        await session.wait_for("MESSAGES_UPSERT", size + 1)
    assert texts(session) == [str(number) for number in range(size + 1)]
    assert session.repeated == []


async def test_a_homeserver_that_limits_requests_costs_time_and_nothing_else(
    homeserver: Homeserver, session: FakeSession
) -> None:
    room = DendriteRoom(threshold=2)
    homeserver.always[f"GET rooms/{ROOM}/messages"] = room.answer
    room.add(1, message(0, event_id="$old"))
    for number in range(2_000):
        room.add(10 + number, message(number))
    homeserver.reply({"next_batch": "s1_0"})
    async with running(session):
        timeline = {"events": [message(2_000)], "limited": True, "prev_batch": "t2001_2009"}
        homeserver.reply({"next_batch": "s3000_0", "rooms": {"join": {ROOM: {"timeline": timeline}}}})
        await session.wait_for("MESSAGES_UPSERT", 2_001)
    assert texts(session) == [str(number) for number in range(2_001)]
    assert session.repeated == []
    assert room.refused > 10
    # The first one, the one with the gap, and the next; and each page at most twice.
    assert len(homeserver.syncs) <= 3
    assert len(room.asked) <= 2 * 2_000 / PAGE + 3


async def test_a_homeserver_that_ignores_where_a_gap_ends_does_not_add_history(
    homeserver: Homeserver, session: FakeSession
) -> None:
    chunk = [message(number) for number in (5, 4, 3, 2, 1)]

    def page(request: httpx.Request) -> httpx.Response:
        events = chunk[3:] if request.url.params["from"] == "s1" else chunk
        return httpx.Response(200, json={"chunk": events, "end": "other"})

    async with connected(homeserver, session):
        homeserver.always["GET rooms"] = page
        homeserver.sync(message(6), limited=True)
        await session.wait_for("MESSAGES_UPSERT", 4)
    assert texts(session) == ["3", "4", "5", "6"]


async def test_the_last_page_of_a_room_that_was_left_is_no_end_of_the_gap(
    homeserver: Homeserver, session: FakeSession
) -> None:
    """Dendrite gives it, whatever place a request names."""

    def page(request: httpx.Request) -> httpx.Response:
        numbers = [4] if request.url.params["limit"] == "1" else [4, 3, 2]
        chunk = [message(number) for number in numbers]
        return httpx.Response(200, json={"chunk": chunk, "end": "t1_1"})

    async with connected(homeserver, session):
        homeserver.always["GET rooms"] = page
        timeline = {"events": [message(4)], "limited": True, "prev_batch": "p0"}
        homeserver.reply({"next_batch": "x", "rooms": {"leave": {ROOM: {"timeline": timeline}}}})
        await session.wait_for("MESSAGES_UPSERT", 3)
    assert texts(session)[:3] == ["2", "3", "4"]


async def test_a_page_that_breaks_is_asked_for_again_and_for_less(
    homeserver: Homeserver, session: FakeSession
) -> None:
    pages = {"p0": ([3], "p1"), "p1": ([2], None), "s1": ([1], None)}
    limits: list[tuple[str, int]] = []

    def page(request: httpx.Request) -> httpx.Response:
        query = request.url.params
        limits.append((query["from"], int(query["limit"])))
        if limits == [("p0", 100), ("s1", 1), ("p1", 100)]:
            raise httpx.RemoteProtocolError("The response exceeded 16777216 bytes.")
        numbers, end = pages[query["from"]]
        answer: dict[str, Any] = {"chunk": [message(number) for number in numbers]}
        return httpx.Response(200, json=answer | ({"end": end} if end else {}))

    async with connected(homeserver, session):
        homeserver.always["GET rooms"] = page
        homeserver.sync(message(4), limited=True)
        await session.wait_for("MESSAGES_UPSERT", 3)
    assert texts(session) == ["2", "3", "4"]
    assert limits[2:4] == [("p1", 100), ("p1", 50)]
    assert len(homeserver.syncs) <= 3


async def test_a_homeserver_that_is_away_in_a_gap_is_tried_again_from_the_last_sync(
    homeserver: Homeserver, session: FakeSession
) -> None:
    async with connected(homeserver, session):
        homeserver.will("GET rooms", *[httpx.ConnectError("down")] * 3, {"chunk": [message(1)]})
        for _ in range(2):
            homeserver.sync(message(2), limited=True)
        await session.wait_for("MESSAGES_UPSERT", 2)
    assert texts(session) == ["1", "2"]
    assert [sync["since"] for sync in homeserver.syncs[1:3]] == ["s1", "s1"]


async def test_pages_are_asked_for_without_types(homeserver: Homeserver, session: FakeSession) -> None:
    """Dendrite applies types after the limit, and calls a page that is empty then the end of the room."""
    asked: list[dict[str, Any]] = []

    def page(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.url.params["filter"]))
        return httpx.Response(200, json={"chunk": []})

    async with connected(homeserver, session):
        homeserver.always["GET rooms"] = page
        homeserver.sync(message(1), limited=True)
        await session.wait_for("MESSAGES_UPSERT")
    assert asked == [{"lazy_load_members": True}]


async def test_authors_are_looked_up_at_the_pace_of_the_homeserver(
    homeserver: Homeserver, session: FakeSession
) -> None:
    relation = {"rel_type": "m.annotation", "event_id": "$liked", "key": "x"}
    async with connected(homeserver, session):
        limited = refusal(429, "M_LIMIT_EXCEEDED", retry_after_ms=90_000)
        homeserver.will(f"GET rooms/{ROOM}/event", limited, limited, {"event_id": "$liked", "sender": ANA})
        began = trio.current_time()
        homeserver.sync(message(1, type="m.reaction", content={"m.relates_to": relation}))
        await session.wait_for("MESSAGES_UPSERT")
        assert trio.current_time() - began == 180
    [data] = session.data_of("MESSAGES_UPSERT")
    assert data["message"]["reactionMessage"]["key"]["participant"] == ANA
    assert len(homeserver.syncs) <= 3
