"""A disk that refuses or is slow while receivers are being told: nothing is lost or sent twice."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from hookgw import DeliveryState, Outcome, Unavailable
from hookgw.testing import Answer, GatewayKit, Received, Receiver, answer
from tests.faults.support import KIND, attempts_of, state_of
from tests.public.store import Store
from tests.store.support import refusal_of
from tests.support.disks import make_read_only, writes_again
from tests.support.stores import connection_of


async def test_a_disk_that_refuses_after_a_2xx_makes_no_failure_and_no_repeat(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    store = hookgw_gateway.gateway.store

    def the_disk_refuses_now(_: Received) -> Answer:
        make_read_only(store, True)
        return answer()

    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.settled()
    hookgw_receiver.will(the_disk_refuses_now)
    event = await hookgw_gateway.emit(KIND, {})
    await hookgw_receiver.wait_for(1)
    while refusal_of(store) is None:
        await trio.lowlevel.checkpoint()
    with pytest.raises(Unavailable):
        await hookgw_gateway.emit(KIND, {}, event_id="refused")
    with pytest.raises(Unavailable):
        await hookgw_gateway.gateway.ready()
    hookgw_clock.jump(1000)
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert hookgw_receiver.ids == [event.id]
    make_read_only(store, False)
    await writes_again(store, hookgw_clock)
    await hookgw_gateway.settled()
    assert [attempt.outcome for attempt in await attempts_of(hookgw_gateway, event)] == [Outcome.DELIVERED]
    assert await state_of(hookgw_gateway, event) is DeliveryState.DELIVERED
    after = await hookgw_gateway.emit(KIND, {}, event_id="refused")
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [event.id, after.id]


@contextmanager
def held_up(store: Store) -> Iterator[tuple[threading.Event, threading.Event]]:
    """The next commits take until the second event is set; the first is set when one has begun."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(_: str) -> None:
        begun.set()
        go_on.wait(timeout=10)

    connection_of(store).set_trace_callback(hold)
    try:
        yield begun, go_on
    finally:
        go_on.set()
        connection_of(store).set_trace_callback(None)


async def test_a_slow_commit_holds_up_its_producer_and_no_delivery(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    """While a commit takes its two seconds, deliveries that are in memory go on; each is sent once."""
    store = hookgw_gateway.gateway.store
    hookgw_receiver.default = answer(wait=1)
    await hookgw_gateway.register(hookgw_receiver.url)
    early = [await hookgw_gateway.emit(KIND, {"n": n}) for n in range(3)]
    await hookgw_receiver.wait_for(1)
    accepted: list[str] = []

    async def produce() -> None:
        accepted.append((await hookgw_gateway.emit(KIND, {}, event_id="late")).id)

    async with trio.open_nursery() as nursery:
        with held_up(store) as (begun, go_on):
            nursery.start_soon(produce)
            await trio.to_thread.run_sync(begun.wait, 10)
            for count in (2, 3):
                hookgw_clock.jump(1)
                await hookgw_receiver.wait_for(count)
            assert accepted == []
            assert hookgw_receiver.ids == [event.id for event in early]
            go_on.set()
            hookgw_clock.jump(1)
            await hookgw_receiver.wait_for(4)
    hookgw_clock.jump(1)
    await hookgw_gateway.settled()
    assert accepted == ["late"]
    assert hookgw_receiver.ids == [*(event.id for event in early), "late"]
    for event in early:
        assert await state_of(hookgw_gateway, event) is DeliveryState.DELIVERED
