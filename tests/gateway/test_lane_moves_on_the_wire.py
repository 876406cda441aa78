"""What is on the wire from a lane that its registration has left, on real sockets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from hookgw.gateway.registry import Registry
from hookgw.models.deliveries import DeliveryState
from hookgw.models.registrations import Registration
from hookgw.store import DeliveryQuery
from hookgw.testing import GatewayKit, Receiver, answer, open_kit, open_receiver

KIND = "CALL"
SLOW = 10.0
"""Seconds after which the receiver that was left answers."""


async def emit(kit: GatewayKit, *ids: str) -> None:
    for event_id in ids:
        await kit.emit(KIND, {}, event_id=event_id)


async def states(kit: GatewayKit) -> list[DeliveryState]:
    """Of all deliveries of the shop, in the order of acceptance."""
    await kit.gateway.store.flush()
    found = await kit.gateway.store.list_deliveries(DeliveryQuery(instance="shop", limit=1000))
    return [delivery.state for delivery in reversed(found)]


async def answered(kit: GatewayKit) -> None:
    """Let the slow receiver answer, and what follows happen."""
    kit.clock.jump(SLOW)
    await trio.testing.wait_all_tasks_blocked(0.05)
    await kit.settled()


async def left(kit: GatewayKit, old: Receiver, new: Receiver, status: int) -> None:
    """The first of two deliveries is on the wire to the old URL, and the move to the new one is over."""
    old.default = answer(status, wait=SLOW)
    await kit.register(old.url)
    await emit(kit, "e1", "e2")
    await old.wait_for(1)
    await kit.register(new.url)
    while await kit.gateway.store.load_moves():
        await trio.testing.wait_all_tasks_blocked(0.01)


async def test_a_second_change_of_the_url_waits_for_it_too(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    async with open_receiver() as old, open_receiver() as between:
        await left(hookgw_gateway, old, between, 503)
        await hookgw_gateway.register(hookgw_receiver.url)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert hookgw_receiver.ids == []
        await answered(hookgw_gateway)
        await hookgw_gateway.advance(5)
        assert old.ids == ["e1"]
        assert between.ids == []
    assert hookgw_receiver.ids == ["e1", "e2"]


async def test_a_way_back_waits_for_it_too(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    async with open_receiver() as between:
        await left(hookgw_gateway, hookgw_receiver, between, 200)
        await hookgw_gateway.register(hookgw_receiver.url)
        await emit(hookgw_gateway, "e3")
        hookgw_receiver.default = answer()
        await answered(hookgw_gateway)
        assert between.ids == []
    assert hookgw_receiver.ids == ["e1", "e2", "e3"]


async def test_what_is_parked_spares_it(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    async with open_receiver() as old:
        await left(hookgw_gateway, old, hookgw_receiver, 200)
        await hookgw_gateway.register("vazio", enabled=False)
        await answered(hookgw_gateway)
    assert hookgw_receiver.ids == []
    assert await states(hookgw_gateway) == [DeliveryState.DELIVERED, DeliveryState.DEAD]


async def test_what_is_remembered_of_it_goes_with_its_end(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    moves = hookgw_gateway.gateway._keeper.moves
    async with open_receiver() as old:
        await left(hookgw_gateway, old, hookgw_receiver, 200)
        registration = hookgw_gateway.gateway.registrations.find("shop")
        assert registration is not None
        assert moves.lanes(registration) == (old.url, hookgw_receiver.url)
        await answered(hookgw_gateway)
        assert moves.lanes(registration) == (hookgw_receiver.url,)
    assert moves._left == {}


async def test_a_receiver_that_was_left_and_is_gone_disables_nothing(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    """Its 410 speaks for a URL that the registration no longer has."""
    async with open_receiver() as old:
        await left(hookgw_gateway, old, hookgw_receiver, 410)
        await answered(hookgw_gateway)
    assert hookgw_receiver.ids == ["e2"]
    registration = hookgw_gateway.gateway.registrations.find("shop")
    assert registration is not None
    assert registration.enabled


async def test_an_end_while_the_change_is_written_holds_no_lane_up(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change is on disk, and the next start moves what is pending."""
    writing, written = trio.Event(), trio.Event()
    put = Registry.put

    async def slowly(self: Registry, registration: Registration, *, moving: Sequence[str] = ()) -> None:
        if moving:
            writing.set()
            with trio.CancelScope(shield=True):
                await written.wait()
        await put(self, registration, moving=moving)

    monkeypatch.setattr(Registry, "put", slowly)
    async with open_receiver() as old, trio.open_nursery() as nursery:
        old.default = answer(503)
        async with open_kit(tmp_path) as kit:
            await kit.register(old.url)
            await emit(kit, "e1", "e2")
            await kit.settled()
            nursery.start_soon(kit.register, hookgw_receiver.url)
            await writing.wait()
            kit.gateway._keeper.dispatcher.stop()
            kit.gateway._keeper.moves.stop()
            written.set()
            await kit.gateway._keeper.dispatcher.wait_stopped()
    async with open_kit(tmp_path) as kit:
        await kit.settled()
        await kit.advance(5)
    assert hookgw_receiver.ids == ["e1", "e2"]
