"""The connector in front of Evolution API after an outage: it asks for what it missed."""

import time
from typing import Any

import httpx
import pytest
import trio
from trio.testing import MockClock

from hookgw import ConnectionState
from hookgw.records.instances import CatchUp
from hookgw.testing import EmittedEvent, FakeSession
from plugins.evolution.connection import CHECK_INTERVAL
from plugins.evolution.connector import Evolution as Connector
from plugins.evolution.history import LARGE_PAGE, PAGE
from tests.first_party.evolution import OPTIONS, connected, transport_of
from tests.networks.evolution import Evolution

ANA, BOB = "5511988887777@s.whatsapp.net", "5511977776666@s.whatsapp.net"
HOUR = 3600.0
FIND = "POST chat/findMessages"


def kept(
    evolution: Evolution, body: str, at: float, chat: str = ANA, *, from_me: bool = False, **more: Any
) -> dict[str, Any]:
    """Let the server have a message that it has not reported, or not in vain."""
    data = evolution.message(chat, {"conversation": body}, from_me=from_me) | more
    data["messageTimestamp"] = int(at)
    evolution.store("shop", data)
    return data


def messages(session: FakeSession, *kinds: str) -> list[EmittedEvent]:
    return [event for event in session.events if event.kind in (kinds or ("MESSAGES_UPSERT", "SEND_MESSAGE"))]


def texts(session: FakeSession, *kinds: str) -> list[str]:
    return [event.data["message"]["conversation"] for event in messages(session, *kinds)]


async def restarted(connector: Connector, session: FakeSession, *, downtime: float) -> None:
    """Let hookgw have been down until now."""
    async with connected(connector, session):
        pass
    session.covered_until = time.time() - downtime
    session.begin_run()


async def test_a_first_run_asks_for_nothing(
    connector: Connector, session: FakeSession, evolution: Evolution, autojump_clock: MockClock
) -> None:
    kept(evolution, "from before", time.time() - 100)
    async with connected(connector, session):
        pass
    assert evolution.calls_of(FIND) == []
    assert session.covered_until is not None


async def test_what_came_during_a_downtime_is_stored_once_and_in_the_order_of_time(
    connector: Connector, session: FakeSession, evolution: Evolution, autojump_clock: MockClock
) -> None:
    await restarted(connector, session, downtime=8 * HOUR)
    now = time.time()
    kept(evolution, "before", now - 9 * HOUR)
    count = 2 * PAGE + 50
    for number in range(count):  # several in each second, at the ends of pages, too
        kept(evolution, str(number), now - 7000 + number // 3, (ANA, BOB)[number % 2])
    async with connected(connector, session):
        pass
    assert texts(session) == [str(number) for number in range(count)]
    last = messages(session)[-1]
    assert last.time == last.data["messageTimestamp"] == int(now - 7000 + (count - 1) // 3)
    assert (session.gaps, session.repeated) == ([], [])


async def test_a_second_with_more_messages_than_a_page_is_read_whole(
    connector: Connector, session: FakeSession, evolution: Evolution, autojump_clock: MockClock
) -> None:
    await restarted(connector, session, downtime=HOUR)
    at = time.time() - 100
    names = [f"{number:03}" for number in range(PAGE + 20)]
    for name in ["first", *names, "last"]:
        kept(evolution, name, at + {"first": -1, "last": 1}.get(name, 0))
    async with connected(connector, session):
        pass
    assert texts(session) == ["first", *names, "last"]
    assert {body["offset"] for body in evolution.calls_of(FIND)} == {PAGE, LARGE_PAGE}


async def test_pages_stay_inside_a_fixed_span_while_messages_arrive(
    connector: Connector, session: FakeSession, evolution: Evolution, autojump_clock: MockClock
) -> None:
    await restarted(connector, session, downtime=HOUR)
    now = time.time()
    for number in range(2 * PAGE):
        kept(evolution, str(number), now - 3000 + number)

    async def arrive() -> Any:
        kept(evolution, "newer", now + 600)

    evolution.faults[FIND] = [arrive, arrive]
    async with connected(connector, session):
        pass
    assert texts(session) == [str(number) for number in range(2 * PAGE)]


async def test_a_message_has_the_same_id_in_a_webhook_and_in_the_history(
    connector: Connector, session: FakeSession, evolution: Evolution, autojump_clock: MockClock
) -> None:
    now = time.time()
    told = {
        "messages.upsert": [
            kept(evolution, "from Ana", now - 50),
            kept(evolution, "from the phone", now - 49, from_me=True, source="android"),
            kept(evolution, "from WhatsApp Web", now - 48, from_me=True, source="web"),
        ],
        "send.message": [kept(evolution, "from a program", now - 47, from_me=True, source="web")],
    }
    async with connected(connector, session):
        for event, found in told.items():
            for data in found:
                evolution.emit("shop", event, data)
        await evolution.settled()
    stored = texts(session)
    session.covered_until = now - HOUR
    session.begin_run()
    kept(evolution, "missed", now - 40)
    async with connected(connector, session):
        pass
    assert texts(session) == [*stored, "missed"]
    assert len(stored) == len(session.repeated) == 4


@pytest.mark.parametrize(("from_me", "source"), [(False, "android"), (True, "android"), (True, "web")])
async def test_a_webhook_with_the_number_and_a_history_with_the_hidden_id_are_of_one_message(
    connector: Connector,
    session: FakeSession,
    evolution: Evolution,
    autojump_clock: MockClock,
    from_me: bool,
    source: str,
) -> None:
    now = time.time()
    data = kept(evolution, "told", now - 50, "1@lid", from_me=from_me, source=source)
    data["key"]["remoteJidAlt"] = ANA
    async with connected(connector, session):
        # As Evolution API 2.3.7 does, after it has stored the message.
        evolution.emit("shop", "messages.upsert", {**data, "key": {**data["key"], "remoteJid": ANA}})
        await evolution.settled()
    session.covered_until = now - HOUR
    session.begin_run()
    async with connected(connector, session):
        pass
    assert texts(session) == ["told"]
    assert len(session.repeated) == 1


async def test_a_missed_message_of_the_account_is_of_the_kind_of_its_sender(
    connector: Connector, session: FakeSession, evolution: Evolution, autojump_clock: MockClock
) -> None:
    await restarted(connector, session, downtime=HOUR)
    now = time.time()
    kept(evolution, "phone", now - 50, from_me=True, source="ios")
    kept(evolution, "program", now - 49, from_me=True, source="web")
    async with connected(connector, session):
        pass
    assert texts(session, "MESSAGES_UPSERT") == ["phone"]
    assert texts(session, "SEND_MESSAGE") == ["program"]


async def test_the_data_is_that_of_a_webhook_without_the_columns_of_the_database(
    connector: Connector, session: FakeSession, evolution: Evolution, autojump_clock: MockClock
) -> None:
    await restarted(connector, session, downtime=HOUR)
    picture = {"imageMessage": {"mimetype": "image/png", "fileLength": "5"}}
    data = evolution.message(ANA, picture, from_me=False)
    data["messageTimestamp"] = int(time.time() - 60)
    evolution.store("shop", data)["MessageUpdate"] = [{"status": "SERVER_ACK"}, {"status": "READ"}]
    evolution.accounts["shop"].files[data["key"]["id"]] = b"\x89PNG5"
    session.wants_files = True
    async with connected(connector, session):
        pass
    [event] = messages(session)
    assert event.data.keys() == data.keys()
    assert event.data["status"] == "READ"
    message = event.data["message"]
    assert message.pop("base64") == "iVBORzU="
    assert message.pop("mediaUrl") in session.media
    assert message == picture


async def test_what_another_receiver_gets_is_not_fetched(
    connector: Connector, session: FakeSession, evolution: Evolution, autojump_clock: MockClock
) -> None:
    await restarted(connector, session, downtime=HOUR)
    kept(evolution, "to another receiver", time.time() - 600)
    session.options = {**OPTIONS, "set_webhook": False}
    async with connected(connector, session):
        pass
    session.options = OPTIONS
    session.begin_run()
    async with connected(connector, session):
        pass
    assert texts(session) == []


async def test_kinds_that_evolution_api_shall_not_send_are_not_fetched(
    connector: Connector, session: FakeSession, evolution: Evolution, autojump_clock: MockClock
) -> None:
    await restarted(connector, session, downtime=HOUR)
    session.options = {**OPTIONS, "remote_events": ["SEND_MESSAGE"]}
    kept(evolution, "received", time.time() - 60)
    kept(evolution, "sent", time.time() - 60, from_me=True, source="web")
    async with connected(connector, session):
        pass
    assert texts(session) == ["sent"]


async def test_beyond_limit_and_span_the_gap_is_named(
    connector: Connector, session: FakeSession, evolution: Evolution, autojump_clock: MockClock
) -> None:
    await restarted(connector, session, downtime=3 * 24 * HOUR)
    session.catch_up_limits = CatchUp(limit=3)
    now = time.time()
    for number in range(5):
        kept(evolution, str(number), now - HOUR + number)
    async with connected(connector, session):
        pass
    assert len(texts(session)) == 3
    (begin, end), (first, last) = session.gaps
    assert end - begin == pytest.approx(2 * 24 * HOUR, abs=120)  # before the span
    assert first <= now - HOUR
    assert last >= now


@pytest.mark.parametrize("state", ["open", "close"])
async def test_new_reports_are_held_until_the_gap_is_stored(
    connector: Connector, session: FakeSession, evolution: Evolution, autojump_clock: MockClock, state: str
) -> None:
    await restarted(connector, session, downtime=HOUR)
    evolution.accounts["shop"].state = state  # it may have been open until a moment ago
    kept(evolution, "missed", time.time() - 60)
    posted = []

    async def report() -> Any:
        posted.append(evolution.receive("shop", "new", number=BOB.partition("@")[0]))
        await trio.sleep(1)
        return "{}", 503

    evolution.faults[FIND] = [report]
    async with connected(connector, session, ConnectionState(state)):
        await evolution.settled()
    assert [one.statuses for one in posted if one is not None] == [[503, 200]]
    assert texts(session) == ["missed", "new"]


async def test_an_outage_is_caught_up_with(
    connector: Connector, session: FakeSession, evolution: Evolution, autojump_clock: MockClock
) -> None:
    async with connected(connector, session):
        kept(evolution, "missed", time.time())
        transport_of(session).errors["GET webhook/find"] = [httpx.ConnectError("down")]
        await trio.sleep(2 * CHECK_INTERVAL)
        assert texts(session) == ["missed"]
        assert evolution.calls_of(FIND)
        count = len(evolution.calls_of(FIND))
        await trio.sleep(10 * CHECK_INTERVAL)
        assert len(evolution.calls_of(FIND)) == count  # nothing was lost since


async def test_a_server_that_shows_no_messages_is_connected_all_the_same(
    connector: Connector, session: FakeSession, evolution: Evolution, autojump_clock: MockClock
) -> None:
    await restarted(connector, session, downtime=HOUR)
    evolution.faults[FIND] = [(404, {"response": {"message": ["Cannot POST"]}})] * 100
    async with connected(connector, session):
        pass
    assert len(evolution.calls_of(FIND)) == 1
    assert session.gaps == []


@pytest.mark.parametrize("status", [403, 500, 504])
async def test_a_search_for_messages_that_keeps_failing_does_not_keep_the_account_closed(
    connector: Connector, session: FakeSession, evolution: Evolution, autojump_clock: MockClock, status: int
) -> None:
    await restarted(connector, session, downtime=HOUR)
    evolution.faults[FIND] = [(status, {"response": {"message": "too slow"}})] * 100
    async with connected(connector, session):
        pass
    assert len(evolution.calls_of(FIND)) > 2  # it might have been a moment's
    [(begin, end)] = session.gaps
    assert end - begin > HOUR


async def test_a_version_that_ignores_the_times_is_connected_all_the_same(
    connector: Connector, session: FakeSession, evolution: Evolution, autojump_clock: MockClock
) -> None:
    await restarted(connector, session, downtime=HOUR)
    old = kept(evolution, "years ago", 1_500_000_000)

    async def everything() -> Any:
        return {"messages": {"total": 1, "pages": 1, "currentPage": 1, "records": [old]}}

    evolution.faults[FIND] = [everything]
    async with connected(connector, session):
        pass
    assert texts(session) == []
