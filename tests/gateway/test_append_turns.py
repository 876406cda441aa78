"""Who stores next, if one instance has more to store than others."""

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw import Event, Unavailable
from hookgw.testing import GatewayKit, Receiver
from tests.public.events import DELAY, FEW, FEWEST, MOST, AppendTurns, Turn
from tests.support.disks import make_read_only, writes_again


async def begin(turns: AppendTurns, instance: str, rows: int) -> Turn:
    """Return the turn of an append, as callers do: most need not wait."""
    return turns.begin_nowait(instance, rows) or await turns.begin(instance, rows)


class Appends:
    """Appends that are on their way until the test ends them."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.turns = AppendTurns()
        self.on_their_way: dict[str, Turn] = {}
        self._nursery = nursery

    async def request(self, name: str, rows: int) -> trio.CancelScope:
        """Request an append of the instance before the dash; return what cancels it while it waits."""
        scope = trio.CancelScope()

        async def append() -> None:
            with scope:
                self.on_their_way[name] = await begin(self.turns, name.partition("-")[0], rows)

        self._nursery.start_soon(append)
        await wait_all_tasks_blocked()
        return scope

    async def end(self, *names: str) -> list[str]:
        """End appends; return those that began then."""
        before = set(self.on_their_way)
        for name in names:
            self.turns.end(self.on_their_way.pop(name))
        await wait_all_tasks_blocked()
        return sorted(set(self.on_their_way) - before)


def wave_size(turns: AppendTurns) -> int:
    return int(turns.size)


async def flooded(nursery: trio.Nursery, waiting: int) -> Appends:
    """One instance fills a wave, and so many more of its appends wait.

    The clock must stand still, so that waves keep their size.
    """
    appends = Appends(nursery)
    await appends.request("noisy-full", wave_size(appends.turns))
    for number in range(waiting):
        await appends.request(f"noisy-{number}", 100)
    assert list(appends.on_their_way) == ["noisy-full"]
    return appends


async def test_without_others_there_is_no_checkpoint() -> None:
    turns = AppendTurns()
    with trio.CancelScope() as scope:
        scope.cancel()
        for rows in (10_000, 1, 0):
            turns.end(await begin(turns, "shop", rows))
    assert not scope.cancelled_caught


async def test_an_instance_with_few_rows_on_their_way_never_waits(mock_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        appends = await flooded(nursery, 1)
        for number in range(FEW // 2):
            await appends.request(f"quiet-{number}", 2)
        assert len(appends.on_their_way) == 1 + FEW // 2
        await appends.request("quiet-more", 2)
        assert "quiet-more" not in appends.on_their_way
        # As soon as it has few again, although the wave has not ended.
        assert await appends.end("quiet-0") == ["quiet-more"]
        # A wave does not wait for them.
        assert await appends.end("noisy-full") == ["noisy-0"]
        nursery.cancel_scope.cancel()


async def test_instances_take_turns_and_each_keeps_its_order(mock_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        appends = await flooded(nursery, 3)
        # Behind its own, although it is small.
        await appends.request("noisy-small", 1)
        for name in ("other-0", "other-1", "third-0"):
            await appends.request(name, 1000)
        assert await appends.end("noisy-full") == ["noisy-0", "other-0"]
        # Nobody joins a wave while others wait, and the next one begins when this one has ended.
        await appends.request("late-0", 1000)
        assert await appends.end("other-0") == []
        assert await appends.end("noisy-0") == ["noisy-1", "third-0"]
        assert await appends.end("noisy-1", "third-0") == ["late-0", "other-1"]
        assert await appends.end("late-0", "other-1") == ["noisy-2", "noisy-small"]
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
        await appends.request("noisy-next", wave_size(appends.turns))
        assert list(appends.on_their_way) == ["noisy-next"]


async def waves(clock: MockClock, turns: AppendTurns, rows: int, took: float) -> None:
    """Many waves, each as long: two tasks take turns."""

    async def append() -> None:
        for _ in range(100):
            turn = await begin(turns, "shop", rows)
            await trio.testing.wait_all_tasks_blocked()
            clock.jump(took)
            turns.end(turn)

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(append)


@pytest.mark.parametrize(("took", "size"), [(DELAY / 2, 20_000 / 10), (2 * DELAY, 5_000 / 10)])
async def test_a_wave_is_what_the_disk_takes_in_time(took: float, size: int, mock_clock: MockClock) -> None:
    turns = AppendTurns()
    await waves(mock_clock, turns, 10_000, 10 * took)
    assert wave_size(turns) == pytest.approx(size, abs=2)


async def test_a_wave_has_limits(mock_clock: MockClock) -> None:
    turns = AppendTurns()
    await waves(mock_clock, turns, 10_000, 60.0)
    assert wave_size(turns) == pytest.approx(FEWEST, abs=2)
    await waves(mock_clock, turns, 10_000, 1e-6)
    assert wave_size(turns) == pytest.approx(MOST, abs=2)


async def test_a_slow_disk_says_nothing_while_nobody_waits(mock_clock: MockClock) -> None:
    turns = AppendTurns()
    before = wave_size(turns)
    for _ in range(2):
        turn = await begin(turns, "shop", before - 1)
        mock_clock.jump(60.0)
        turns.end(turn)
    assert wave_size(turns) == before


async def accept(kit: GatewayKit, instance: str, tag: int, count: int) -> None:
    """Have a batch accepted whose kind nobody wants: nothing is delivered."""
    event = Event(id="", kind="CONTACTS_UPSERT", instance=instance, data_json=b"[]", time=1.0)
    await kit.gateway.events.accept([msgspec.structs.replace(event, id=f"{tag}-{n}") for n in range(count)])


async def test_a_flood_of_one_instance_delays_the_next_event_of_another_by_few_commits(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    for name in ("noisy", "quiet"):
        await hookgw_gateway.register(hookgw_receiver.url, instance=name, events=("CALL",))
    stored: list[int] = []

    async def flood(tag: int) -> None:
        await accept(hookgw_gateway, "noisy", tag, 100)
        stored.append(tag)

    async with trio.open_nursery() as nursery:
        for tag in range(40):
            nursery.start_soon(flood, tag)
        await wait_all_tasks_blocked()
        before = len(stored)
        await accept(hookgw_gateway, "quiet", 0, 1)
        # At most the wave that was on its way, and the next one. A wave has 6 of the 40 batches.
        assert len(stored) - before <= 12
    assert len(stored) == 40


async def test_all_that_wait_are_refused_when_the_disk_refuses(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url, instance="noisy", events=("CALL",))
    store = hookgw_gateway.gateway.store
    refused: list[int] = []

    async def flood(tag: int) -> None:
        with pytest.raises(Unavailable):
            await accept(hookgw_gateway, "noisy", tag, 100)
        refused.append(tag)

    make_read_only(store, True)
    async with trio.open_nursery() as nursery:
        for tag in range(20):
            nursery.start_soon(flood, tag)
    assert len(refused) == 20
    make_read_only(store, False)
    await writes_again(store, hookgw_clock)
    await accept(hookgw_gateway, "noisy", 0, 100)
