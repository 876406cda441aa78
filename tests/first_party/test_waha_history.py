"""The WAHA connector after an outage, or after a downtime of hookgw: it asks for what it missed."""

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from hookgw import ConnectionState
from hookgw.records.instances import CatchUp
from plugins.waha.history import PAGE
from tests.first_party.waha import ANA, BOB, Setup, setup
from tests.networks.waha.server import Fault

pytestmark = pytest.mark.usefixtures("autojump_clock")


@pytest.fixture
async def it() -> AsyncIterator[Setup]:
    async with setup() as made:
        yield made


def kept(it: Setup, chat: str, body: str | None, at: float, **more: Any) -> dict[str, Any]:
    """Let the server have a message that it has not reported."""
    id_ = more.pop("id", f"3A{len(it.waha.kept.get(chat, ())):018X}")
    message = {
        "id": f"false_{chat}_{id_}",
        "timestamp": int(at),
        "from": chat,
        "fromMe": False,
        "to": it.waha.me,
        "body": body,
        "hasMedia": False,
        "_data": {"pushName": "Ana"},
        **more,
    }
    it.waha.kept.setdefault(chat, []).append(message)
    return message


def bodies(it: Setup) -> list[str]:
    return [data["message"]["conversation"] for data in it.session.data_of("MESSAGES_UPSERT")]


async def restarted(it: Setup, *, downtime: float) -> None:
    """Let hookgw have been down until now."""
    async with it.connected():
        pass
    it.session.covered_until = time.time() - downtime
    it.session.begin_run()


async def test_a_first_run_asks_for_nothing(it: Setup) -> None:
    kept(it, ANA, "from before", time.time() - 100)
    async with it.connected():
        pass
    assert bodies(it) == []
    assert it.session.covered_until is not None


async def test_what_came_during_a_downtime_is_fetched_in_the_order_of_time(it: Setup) -> None:
    await restarted(it, downtime=8 * 3600)
    now = time.time()
    kept(it, ANA, "before", now - 9 * 3600)
    for number in range(0, 250, 2):
        kept(it, ANA, f"{number}", now - 7000 + number)
        kept(it, BOB, f"{number + 1}", now - 7000 + number + 1)
    async with it.connected():
        pass
    assert bodies(it) == [str(number) for number in range(250)]
    last = [event for event in it.session.events if event.kind == "MESSAGES_UPSERT"][-1]
    assert last.time == last.data["messageTimestamp"] == int(now - 7000 + 249)
    assert it.session.gaps == []
    it.check_events()


async def test_a_page_without_what_waha_cannot_read_is_not_the_last(it: Setup) -> None:
    await restarted(it, downtime=3600)
    now = time.time()
    for number in range(2 * PAGE + 50):
        kept(it, ANA, f"{number}" if number % PAGE else None, now - 3000 + number)
    async with it.connected():
        pass
    assert bodies(it) == [str(number) for number in range(2 * PAGE + 50) if number % PAGE]


async def test_chats_of_hidden_numbers_and_a_short_page_of_chats(it: Setup) -> None:
    await restarted(it, downtime=3600)
    now = time.time()
    for number in range(PAGE + 20):
        kept(it, f"{100000 + number}@{'c.us' if number % 2 else 'lid'}", f"{number}", now - 60)
    async with it.connected():
        pass
    assert sorted(bodies(it), key=int) == [str(number) for number in range(PAGE + 20)]


async def test_a_chat_that_moves_to_a_page_that_was_read_is_not_skipped(it: Setup) -> None:
    await restarted(it, downtime=3600)
    now = time.time()
    for number in range(PAGE + 1):
        kept(it, f"{100000 + number}@c.us", f"{number}", now - 60 - number)
    last = f"{100000 + PAGE}@c.us"
    it.waha.faults.append(Fault(path="chats/100000@c.us/messages", seconds=5))
    async with it.running():
        await it.waha.wait_for_call("GET", "/chats/100000@c.us/messages")
        kept(it, last, "new", now)  # puts the chat before all others
        await it.session.wait_until(ConnectionState.OPEN)
    assert {str(number) for number in range(PAGE + 1)} <= {*bodies(it)}


async def test_a_version_without_pages_ends(it: Setup) -> None:
    await restarted(it, downtime=3600)
    it.waha.has_pages = False
    for number in range(2 * PAGE):
        kept(it, ANA, f"{number}", time.time() - 60)
    async with it.connected():
        pass
    assert bodies(it) == [str(number) for number in range(PAGE, 2 * PAGE)]


async def test_a_message_that_was_reported_is_not_fetched_again(it: Setup) -> None:
    async with it.connected():
        message = it.waha.receive("default", ANA, "once", id="3AONCE")
        await it.waha.all_delivered()
    kept(it, ANA, "once", message["timestamp"], id="3AONCE")
    it.session.covered_until = time.time() - 3600
    it.session.begin_run()
    async with it.connected():
        pass
    assert bodies(it) == ["once"]
    assert len(it.session.repeated) >= 1


async def test_beyond_the_limit_the_gap_is_named(it: Setup) -> None:
    await restarted(it, downtime=3600)
    it.session.catch_up_limits = CatchUp(limit=3)
    begin = time.time() - 3600
    for number in range(5):
        kept(it, ANA, str(number), begin + number)
    async with it.connected():
        pass
    assert bodies(it) == ["0", "1", "2"]
    [(first, last)] = it.session.gaps
    assert first <= begin
    assert last >= begin + 3600


async def test_beyond_the_span_the_gap_is_named(it: Setup) -> None:
    await restarted(it, downtime=3 * 86_400)
    async with it.connected():
        pass
    [(first, last)] = it.session.gaps
    assert last - first == pytest.approx(2 * 86_400, abs=60)


async def test_new_reports_are_held_until_the_gap_is_stored(it: Setup) -> None:
    await restarted(it, downtime=3600)
    kept(it, ANA, "missed", time.time() - 60)
    it.waha.faults.append(Fault(status=503, path="chats/overview", times=2))
    async with it.running():
        with trio.fail_after(60):
            await it.waha.wait_for_call("GET", "/chats/overview")
        it.waha.receive("default", BOB, "new")
        await it.session.wait_until(ConnectionState.OPEN)
        await it.waha.all_delivered()
    assert 503 in it.answers
    assert bodies(it) == ["missed", "new"]


async def test_a_server_without_a_store_is_connected_all_the_same(it: Setup) -> None:
    await restarted(it, downtime=3600)
    it.waha.faults.append(Fault(status=400, path="chats/overview", times=100))
    async with it.connected():
        pass
    assert it.session.state is ConnectionState.OPEN


@pytest.mark.parametrize("path", ["chats/overview", "/messages"])
async def test_a_history_that_keeps_failing_does_not_keep_the_account_closed(it: Setup, path: str) -> None:
    await restarted(it, downtime=3600)
    kept(it, ANA, "first chat", time.time() - 60)
    kept(it, BOB, "second chat", time.time() - 90)
    it.waha.faults.append(Fault(status=504, path=path, times=100))
    async with it.connected():
        pass
    assert len(it.session.gaps) == 1
