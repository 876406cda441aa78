"""Jumps of the machine's clock by an hour: nothing is tried early, nothing young expires."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import formatdate
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from hookgw import DeliveryState
from hookgw.testing import Answer, GatewayKit, Receiver, answer
from tests.faults.support import KIND, state_of, wait_out
from tests.public.app import open_gateway
from tests.public.concurrency import Clock
from tests.public.config import DeliverySettings, PluginsSettings, Settings, StorageSettings
from tests.public.kernel import Duration, Size
from tests.support.waits import FIRST_WAIT

HOUR = 3600.0
both_ways = pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["forward", "back"])


class Machine:
    """A machine's clock that somebody sets while it runs."""

    def __init__(self) -> None:
        self.offset = 1_700_000_000.0

    def now(self) -> float:
        return trio.current_time() + self.offset


@asynccontextmanager
async def opened(
    folder: Path, machine: Machine, clock: MockClock, *, max_age: float = HOUR / 2
) -> AsyncIterator[GatewayKit]:
    """A kit whose steady clock follows the mock clock, and whose wall follows the machine."""
    settings = Settings(
        storage=StorageSettings(path=str(folder / "hookgw.db"), min_free=Size(0)),
        plugins=PluginsSettings(folders=()),
        delivery=DeliverySettings(allow_networks=("127.0.0.0/8",), max_age=Duration(max_age)),
    )
    async with open_gateway(settings, base=folder, clock=Clock(machine.now)) as gateway:
        yield GatewayKit(gateway, clock, [])


@both_ways
async def test_a_retry_is_neither_early_nor_late(
    jump: float, tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(answer(500), answer(500))
    machine = Machine()
    async with opened(tmp_path, machine, hookgw_clock) as kit:
        await kit.register(hookgw_receiver.url)
        event = await kit.emit(KIND, {})
        await kit.settled()
        machine.offset += jump
        assert FIRST_WAIT - 0.01 <= await wait_out(kit, hookgw_receiver) <= FIRST_WAIT * 1.1
        assert 14.99 <= await wait_out(kit, hookgw_receiver) <= 16.5
        assert await state_of(kit, event) is DeliveryState.DELIVERED
    timestamps = [float(request.header("webhook-timestamp") or 0) for request in hookgw_receiver.requests]
    assert abs(timestamps[1] - timestamps[0] - jump) < 10


@both_ways
async def test_what_is_young_does_not_expire_and_what_is_old_does(
    jump: float, tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.default = answer(503)
    machine = Machine()
    async with opened(tmp_path, machine, hookgw_clock) as kit:
        await kit.register(hookgw_receiver.url)
        event = await kit.emit(KIND, {})
        await kit.settled()
        machine.offset += jump
        await kit.advance(1700)
        assert await state_of(kit, event) is DeliveryState.PENDING
        await kit.advance(400)
        assert await state_of(kit, event) is DeliveryState.DEAD


@both_ways
async def test_a_date_in_retry_after_is_compared_to_the_machine_s_clock_of_that_moment(
    jump: float, tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    machine = Machine()
    hookgw_receiver.will(
        lambda _: answer(503, headers={"retry-after": formatdate(machine.now() + 60, usegmt=True)})
    )
    async with opened(tmp_path, machine, hookgw_clock) as kit:
        await kit.register(hookgw_receiver.url)
        machine.offset += jump
        await kit.emit(KIND, {})
        assert 58.9 <= await wait_out(kit, hookgw_receiver) <= 60


@both_ways
async def test_a_jump_while_hookgw_is_down_loses_nothing(
    jump: float, tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(answer(500))
    machine = Machine()
    async with opened(tmp_path, machine, hookgw_clock, max_age=2 * HOUR) as kit:
        await kit.register(hookgw_receiver.url)
        events = [await kit.emit(KIND, {"n": n}) for n in range(3)]
        await kit.settled()
    machine.offset += jump
    async with opened(tmp_path, machine, hookgw_clock, max_age=2 * HOUR) as kit:
        await kit.advance(max(0.0, -jump) + 1.2 * FIRST_WAIT)
        assert [await state_of(kit, event) for event in events] == [DeliveryState.DELIVERED] * 3
    assert list(dict.fromkeys(hookgw_receiver.ids)) == [event.id for event in events]


@pytest.mark.parametrize(
    ("last", "back", "longest"),
    [
        (answer(500), 9 * HOUR, HOUR),
        (answer(503, headers={"retry-after": "1000"}), 9 * HOUR, HOUR),
        (answer(500), 3.0, 3.0 + 1.1 * FIRST_WAIT),
    ],
    ids=["failed", "unreachable", "a little"],
)
async def test_where_the_clock_was_set_back_a_retry_is_late_by_the_longest_wait_at_most(
    last: Answer,
    back: float,
    longest: float,
    tmp_path: Path,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
) -> None:
    """And never early: what is still in order is left alone. ``retry_after_max`` (1 h) is the longest."""
    hookgw_receiver.will(last)
    machine = Machine()
    async with opened(tmp_path, machine, hookgw_clock) as kit:
        await kit.register(hookgw_receiver.url)
        event = await kit.emit(KIND, {})
        await kit.settled()
    machine.offset -= back
    async with opened(tmp_path, machine, hookgw_clock) as kit:
        wait = await wait_out(kit, hookgw_receiver)
        assert longest - 0.12 * FIRST_WAIT <= wait <= longest
        assert await state_of(kit, event) is DeliveryState.DELIVERED


async def test_where_the_clock_was_set_back_an_event_is_as_old_as_the_process_at_least(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.default = answer(503)
    machine = Machine()
    async with opened(tmp_path, machine, hookgw_clock) as kit:
        await kit.register(hookgw_receiver.url)
        event = await kit.emit(KIND, {})
        await kit.settled()
    machine.offset -= 9 * HOUR
    async with opened(tmp_path, machine, hookgw_clock) as kit:
        await kit.advance(HOUR + 1)
        assert len(hookgw_receiver.requests) == 2
        await kit.advance(400)
        assert await state_of(kit, event) is DeliveryState.DEAD


async def test_where_the_clock_was_set_forward_what_seems_old_is_tried_once_more(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    """A long downtime and a clock that was set look the same; neither gives an event up by itself."""
    hookgw_receiver.will(answer(503))
    machine = Machine()
    async with opened(tmp_path, machine, hookgw_clock) as kit:
        await kit.register(hookgw_receiver.url)
        event = await kit.emit(KIND, {})
        await kit.settled()
    machine.offset += 9 * HOUR
    async with opened(tmp_path, machine, hookgw_clock) as kit:
        await kit.settled()
        assert await state_of(kit, event) is DeliveryState.DELIVERED


async def test_where_the_clock_was_set_back_a_disabled_webhook_has_missed_what_came_since(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    """Also if it is enabled by a later process, in which the false time is past."""
    machine = Machine()
    async with opened(tmp_path, machine, hookgw_clock) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.register(hookgw_receiver.url, enabled=False)
    machine.offset -= 9 * HOUR
    async with opened(tmp_path, machine, hookgw_clock) as kit:
        missed = [(await kit.emit(KIND, {"n": n})).id for n in range(2)]
    machine.offset += 10 * HOUR
    async with opened(tmp_path, machine, hookgw_clock) as kit:
        await kit.register(hookgw_receiver.url)
        assert (await kit.gateway.backfills.backfill_missed("shop", "default")).done == 2
        await kit.settled()
    assert hookgw_receiver.ids == missed
