"""Who stores next, if one instance has more to store than others."""

from __future__ import annotations

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw.gateway.append_turns import DELAY, FEW, FEWEST, MOST, AppendTurns, Turn
from hookgw.models.events import Event
from hookgw.testing import GatewayKit, Receiver


class Appends:
    """Appends that are on their way until the test ends them."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.turns = AppendTurns()
        self.on_their_way: dict[str, Turn] = {}
        self._nursery = nursery

    async def request(self, name: str, rows: int) -> trio.CancelScope:
        """Request an append of the instance before the dash; return what cancels it while it waits."""
        scope = trio.CancelScope()

        async def begin() -> None:
            with scope:
                self.on_their_way[name] = await self.turns.begin(name.partition("-")[0], rows)

        self._nursery.start_soon(begin)
        await wait_all_tasks_blocked()
        return scope

    async def end(self, *names: str) -> list[str]:
        """End appends; return those that began then."""
        before = set(self.on_their_way)
        for name in names:
            self.turns.end(self.on_their_way.pop(name))
        await wait_all_tasks_blocked()
        return sorted(set(self.on_their_way) - before)


async def flooded(nursery: trio.Nursery, waiting: int) -> Appends:
    """One instance fills the window, and so many more of its appends wait.

    The clock must stand still, so that the window stays.
    """
    appends = Appends(nursery)
    await appends.request("noisy-full", appends.turns.window)
    for number in range(waiting):
        await appends.request(f"noisy-{number}", 100)
    assert list(appends.on_their_way) == ["noisy-full"]
    return appends


async def test_without_others_there_is_no_checkpoint() -> None:
    turns = AppendTurns()
    with trio.CancelScope() as scope:
        scope.cancel()
        turn = await turns.begin("shop", 10_000)
        turns.end(turn)
    assert not scope.cancelled_caught


async def test_an_instance_with_few_rows_on_their_way_never_waits(mock_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        appends = await flooded(nursery, 1)
        for number in range(FEW // 2):
            await appends.request(f"quiet-{number}", 2)
        assert len(appends.on_their_way) == 1 + FEW // 2
        await appends.request("quiet-more", 2)
        assert "quiet-more" not in appends.on_their_way
        # As soon as it has few again, however full the window is.
        assert await appends.end("quiet-0") == ["quiet-more"]
        nursery.cancel_scope.cancel()


async def test_instances_take_turns_and_each_keeps_its_order(mock_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        appends = await flooded(nursery, 3)
        # Behind its own, although it is small.
        await appends.request("noisy-small", 1)
        for name in ("other-0", "other-1", "third-0"):
            await appends.request(name, 1000)
        assert await appends.end("noisy-full") == ["noisy-0", "other-0"]
        assert await appends.end("other-0") == ["third-0"]
        assert await appends.end("third-0") == ["noisy-1", "other-1"]
        assert await appends.end("other-1") == ["noisy-2", "noisy-small"]
        nursery.cancel_scope.cancel()


async def test_who_leaves_while_it_waits_takes_no_turn(mock_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        appends = await flooded(nursery, 1)
        gone = [await appends.request("other-0", 100), await appends.request("other-1", 100)]
        gone[0].cancel()
        await wait_all_tasks_blocked()
        gone[1].cancel()
        await wait_all_tasks_blocked()
        assert await appends.end("noisy-full") == ["noisy-0"]
        assert await appends.end("noisy-0") == []
        # Nothing is counted any more.
        await appends.request("noisy-next", appends.turns.window)
        assert list(appends.on_their_way) == ["noisy-next"]


@pytest.mark.parametrize(("rows", "took", "window"), [(1000, DELAY / 2, 2000), (1000, 2 * DELAY, 500)])
async def test_the_window_is_what_reaches_the_disk_in_time(
    rows: int, took: float, window: int, mock_clock: MockClock
) -> None:
    turns = AppendTurns()
    for _ in range(100):
        turn = await turns.begin("shop", rows)
        mock_clock.jump(took)
        turns.end(turn)
    assert turns.window == pytest.approx(window, abs=2)


async def test_the_window_has_limits(mock_clock: MockClock) -> None:
    turns = AppendTurns()
    for took, limit in ((10.0, FEWEST), (1e-6, MOST)):
        for _ in range(100):
            turn = await turns.begin("shop", 1000)
            mock_clock.jump(took)
            turns.end(turn)
        assert turns.window == pytest.approx(limit, abs=2)


async def test_few_rows_say_nothing_about_the_window(mock_clock: MockClock) -> None:
    turns = AppendTurns()
    before = turns.window
    turn = await turns.begin("shop", FEWEST - 1)
    mock_clock.jump(10.0)
    turns.end(turn)
    assert turns.window == before


async def test_a_flood_of_one_instance_delays_the_next_event_of_another_by_few_commits(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    for name in ("noisy", "quiet"):
        await hookgw_gateway.register(hookgw_receiver.url, instance=name, events=("CALL",))
    stored: list[int] = []

    async def accept(instance: str, tag: int, count: int) -> None:
        # Of another kind than the registration wants: nothing is delivered.
        unheard = Event(id="", kind="CONTACTS_UPSERT", instance=instance, data_json=b"[]", time=1.0)
        events = [msgspec.structs.replace(unheard, id=f"{tag}-{number}") for number in range(count)]
        await hookgw_gateway.gateway.events.accept(events)

    async def flood(tag: int) -> None:
        await accept("noisy", tag, 100)
        stored.append(tag)

    async with trio.open_nursery() as nursery:
        for tag in range(40):
            nursery.start_soon(flood, tag)
        await wait_all_tasks_blocked()
        before = len(stored)
        await accept("quiet", 0, 1)
        # At most what was on its way to the disk, and one window more. A window holds 6 of the 40.
        assert len(stored) - before <= 12
    assert len(stored) == 40
