"""What is pending follows its registration in steps; here every step moves one delivery."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from hookgw.gateway.lane_moves import Move, Moves
from hookgw.gateway.registry import Registry
from hookgw.models.deliveries import DeliveryState
from hookgw.models.errors import NotFound, StorageUnavailable, Unavailable
from hookgw.models.registrations import Ordering, Registration, RegistrationChange
from hookgw.store import DeliveryQuery
from hookgw.store.sqlite import store_pending as moving_access
from hookgw.testing import GatewayKit, Receiver, answer, open_kit, open_receiver
from tests.support.disks import read_only, writes_again

KIND = "CALL"
DEAD, DELIVERED, PENDING = DeliveryState.DEAD, DeliveryState.DELIVERED, DeliveryState.PENDING


class Brake:
    """Holds up moves before every step but their first ones.

    Attributes:
        steps: how many were taken.
        free: how many may be taken before :attr:`released`.
    """

    def __init__(self, free: int) -> None:
        self.steps = 0
        self.free = free
        self.held = trio.Event()
        self.released = trio.Event()

    async def wait(self) -> None:
        if self.steps >= self.free:
            self.held.set()
            await self.released.wait()
        self.steps += 1


@pytest.fixture
def brake(monkeypatch: pytest.MonkeyPatch) -> Brake:
    brake, take_step = Brake(2), Moves._take_step

    async def slowly(self: Moves, registration_id: str, move: Move) -> bool:
        await brake.wait()
        return await take_step(self, registration_id, move)

    monkeypatch.setattr(Moves, "_take_step", slowly)
    monkeypatch.setattr(moving_access, "MOVING_STEP", 1)
    return brake


@pytest.fixture
async def old() -> AsyncIterator[Receiver]:
    """A receiver that is down."""
    async with open_receiver() as receiver:
        receiver.default = answer(503)
        yield receiver


async def emit(kit: GatewayKit, *ids: str, instance: str = "shop", data: Any = None) -> None:
    for event_id in ids:
        await kit.emit(KIND, data or {}, event_id=event_id, instance=instance)


async def states(kit: GatewayKit) -> list[DeliveryState]:
    """Of all deliveries of the shop, in the order of acceptance."""
    await kit.gateway.store.flush()
    found = await kit.gateway.store.list_deliveries(DeliveryQuery(instance="shop", limit=1000))
    return [delivery.state for delivery in reversed(found)]


async def half_moved(kit: GatewayKit, old: Receiver, new: Receiver, brake: Brake, **fields: Any) -> None:
    """Five are pending, three of them still in the old lane."""
    await kit.register(old.url)
    await emit(kit, "e1", "e2", "e3", "e4", "e5")
    await kit.settled()
    await kit.register(new.url, **fields)
    await brake.held.wait()


async def tried_everything(kit: GatewayKit) -> None:
    """Let pass what may be sent by mistake while a move is held up."""
    kit.clock.jump(100)
    await trio.testing.wait_all_tasks_blocked(0.02)


async def test_what_is_accepted_meanwhile_comes_after_what_was_pending(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    old: Receiver,
    brake: Brake,
) -> None:
    await half_moved(hookgw_gateway, old, hookgw_receiver, brake)
    await emit(hookgw_gateway, "e6", "e7")
    await tried_everything(hookgw_gateway)
    assert hookgw_receiver.ids == []
    assert (await hookgw_gateway.gateway.store.load_moves()).popitem()[1] == [old.url]
    brake.released.set()
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == ["e1", "e2", "e3", "e4", "e5", "e6", "e7"]
    assert set(old.ids) == {"e1"}
    assert brake.steps == 6
    assert await hookgw_gateway.gateway.store.load_moves() == {}


async def test_the_lanes_of_others_go_on_meanwhile(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    old: Receiver,
    brake: Brake,
) -> None:
    async with open_receiver() as other:
        await hookgw_gateway.register(other.url, instance="bar")
        await half_moved(hookgw_gateway, old, hookgw_receiver, brake)
        await emit(hookgw_gateway, "b1", instance="bar")
        await other.wait_for(1)
        brake.released.set()
        await hookgw_gateway.settled()


async def test_registrations_that_come_to_share_a_url_share_its_order(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    old: Receiver,
    brake: Brake,
) -> None:
    """Also what the other one had pending is sent in the order of acceptance, between what is moved."""
    hookgw_receiver.default = answer(503)
    await hookgw_gateway.register(hookgw_receiver.url, instance="bar")
    await hookgw_gateway.register(old.url)
    for event_id in ("s1", "b1", "s2", "b2", "s3", "b3"):
        await emit(hookgw_gateway, event_id, instance="shop" if event_id[0] == "s" else "bar")
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == ["b1"]
    await hookgw_gateway.register(hookgw_receiver.url)
    await brake.held.wait()
    hookgw_receiver.default = answer()
    await tried_everything(hookgw_gateway)
    assert hookgw_receiver.ids == ["b1"]
    brake.released.set()
    await hookgw_gateway.advance(5)
    assert hookgw_receiver.ids == ["b1", "s1", "b1", "s2", "b2", "s3", "b3"]


async def test_set_again_while_moving(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    old: Receiver,
    brake: Brake,
) -> None:
    async with open_receiver() as between:
        await half_moved(hookgw_gateway, old, between, brake)
        await emit(hookgw_gateway, "e6")
        await hookgw_gateway.register(hookgw_receiver.url)
        await emit(hookgw_gateway, "e7")
        noted = await hookgw_gateway.gateway.store.load_moves()
        assert noted.popitem()[1] == [old.url, between.url]
        brake.released.set()
        await hookgw_gateway.advance(5)
        assert between.ids == []
    assert hookgw_receiver.ids == ["e1", "e2", "e3", "e4", "e5", "e6", "e7"]


async def test_set_back_while_moving(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    old: Receiver,
    brake: Brake,
) -> None:
    await half_moved(hookgw_gateway, old, hookgw_receiver, brake)
    await emit(hookgw_gateway, "e6")
    await hookgw_gateway.register(old.url)
    await emit(hookgw_gateway, "e7")
    del old.requests[:]
    old.default = answer()
    brake.released.set()
    await hookgw_gateway.advance(5)
    assert old.ids == ["e1", "e2", "e3", "e4", "e5", "e6", "e7"]
    assert hookgw_receiver.ids == []


async def test_a_field_that_changes_while_moving_changes_nothing_about_the_move(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    old: Receiver,
    brake: Brake,
) -> None:
    await half_moved(hookgw_gateway, old, hookgw_receiver, brake)
    await hookgw_gateway.register(hookgw_receiver.url, headers={"x-a": "b"})
    brake.released.set()
    await hookgw_gateway.advance(5)
    assert hookgw_receiver.ids == ["e1", "e2", "e3", "e4", "e5"]
    assert {request.header("x-a") for request in hookgw_receiver.requests} == {"b"}


@pytest.mark.parametrize("how", ["disable", "delete", "delete the instance"])
async def test_what_ends_a_registration_while_moving_parks_all_of_it(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    old: Receiver,
    brake: Brake,
    how: str,
) -> None:
    gateway = hookgw_gateway.gateway
    await half_moved(hookgw_gateway, old, hookgw_receiver, brake)
    await emit(hookgw_gateway, "e6")
    if how == "disable":
        await hookgw_gateway.register("vazio", enabled=False)
    elif how == "delete":
        await gateway.delete_registration("shop")
    else:
        await gateway.delete_instance("shop")
    assert await gateway.store.load_moves() == {}
    assert await gateway.store.backlog() == []
    brake.released.set()
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == []
    if how == "delete the instance":
        assert gateway.find_instance("shop") is None
        return
    assert await states(hookgw_gateway) == [DEAD] * 6
    if how == "disable":
        await hookgw_gateway.register(hookgw_receiver.url)
        await emit(hookgw_gateway, "e7")
        await hookgw_gateway.settled()
        assert hookgw_receiver.ids == ["e7"]


async def test_what_is_on_the_wire_while_its_registration_is_disabled_is_found_when_it_is_enabled(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock, old: Receiver
) -> None:
    """It was spared in its lane, and belongs before all that the new lane gets."""
    old.default = answer(503, wait=10)
    await hookgw_gateway.register(old.url)
    await emit(hookgw_gateway, "e1")
    await old.wait_for(1)
    await hookgw_gateway.register("vazio", enabled=False)
    await hookgw_gateway.register(hookgw_receiver.url)
    await emit(hookgw_gateway, "e2")
    assert hookgw_receiver.ids == []
    hookgw_clock.jump(10)
    await trio.testing.wait_all_tasks_blocked(0.02)
    await hookgw_gateway.advance(5)
    assert hookgw_receiver.ids == ["e1", "e2"]
    assert await hookgw_gateway.gateway.store.load_moves() == {}


async def test_a_move_that_was_cut_off_goes_on_at_the_next_start(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, old: Receiver, brake: Brake
) -> None:
    async with open_kit(tmp_path) as kit:
        await half_moved(kit, old, hookgw_receiver, brake)
        await emit(kit, "e6")
    brake.steps = 1  # one more, and it is held up again
    async with open_kit(tmp_path) as kit:
        await emit(kit, "e7")
        await tried_everything(kit)
        assert hookgw_receiver.ids == []
        brake.released.set()
        await kit.settled()
        assert await kit.gateway.store.load_moves() == {}
    assert hookgw_receiver.ids == ["e1", "e2", "e3", "e4", "e5", "e6", "e7"]


async def test_partitions_that_stay_and_others_that_come(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, brake: Brake
) -> None:
    """Old and new partitions have names in common; after a restart in the middle each chat is in order."""
    chats = {chat: {"key": {"remoteJid": chat}} for chat in "abcdefgh"}
    hookgw_receiver.default = answer(503)
    async with open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url, ordering=Ordering.CHAT, concurrency=2)
        for number in range(3):
            for chat, data in chats.items():
                await emit(kit, f"{chat}{number}", data=data)
        await kit.settled()
        await kit.register(hookgw_receiver.url, ordering=Ordering.CHAT, concurrency=5)
        await brake.held.wait()
        for chat, data in chats.items():
            await emit(kit, f"{chat}3", data=data)
    brake.steps = 1
    async with open_kit(tmp_path) as kit:
        hookgw_receiver.default = answer()
        del hookgw_receiver.requests[:]
        brake.released.set()
        await kit.advance(5)
        await kit.settled()
    for chat in chats:
        assert [found for found in hookgw_receiver.ids if found and found[0] == chat] == [
            f"{chat}{number}" for number in range(4)
        ]
    assert len(hookgw_receiver.ids) == 32


async def test_a_disk_that_refuses_in_the_middle_holds_the_move_up_and_no_more(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    old: Receiver,
    brake: Brake,
) -> None:
    store = hookgw_gateway.gateway.store
    await half_moved(hookgw_gateway, old, hookgw_receiver, brake)
    with read_only(store):
        brake.released.set()
        while store.statistics().failing is None:
            await trio.lowlevel.checkpoint()
        await tried_everything(hookgw_gateway)
        assert hookgw_receiver.ids == []
    await writes_again(store, hookgw_clock)
    hookgw_clock.jump(10)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == ["e1", "e2", "e3", "e4", "e5"]


@pytest.mark.parametrize("moving", [False, True], ids=["at first", "while moving"])
async def test_a_change_that_the_disk_refuses_leaves_all_as_it_was(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    old: Receiver,
    brake: Brake,
    moving: bool,
) -> None:
    gateway = hookgw_gateway.gateway
    await half_moved(hookgw_gateway, old, hookgw_receiver, brake)
    if not moving:
        brake.released.set()
        await hookgw_gateway.advance(5)
    async with open_receiver() as never:
        with read_only(gateway.store), pytest.raises(StorageUnavailable):
            await hookgw_gateway.register(never.url)
        await writes_again(gateway.store, hookgw_clock)
        brake.released.set()
        await trio.testing.wait_all_tasks_blocked(0.02)
        hookgw_clock.jump(10)
        await hookgw_gateway.gateway.store.flush()
        await emit(hookgw_gateway, "e6")
        await hookgw_gateway.settled()
        assert never.ids == []
    assert hookgw_receiver.ids == ["e1", "e2", "e3", "e4", "e5", "e6"]
    registration = gateway.find_registration("shop")
    assert registration is not None
    assert registration.url == hookgw_receiver.url


@pytest.mark.parametrize("how", ["set", "make room"])
async def test_what_a_disk_that_refuses_does_not_take_pauses_no_lane(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, how: str
) -> None:
    """What is on disk is delivered meanwhile; a lane that was paused would wait for the disk."""
    hookgw_receiver.will(answer(503))
    settings = {"limits": {"registration_deliveries": 3, "on_full": "drop_oldest"}}
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        await emit(kit, "e1", "e2", "e3")
        await kit.settled()
        with read_only(kit.gateway.store):
            with pytest.raises(StorageUnavailable):
                await kit.gateway.store.check()
            with pytest.raises(StorageUnavailable):
                await (kit.register("http://127.0.0.1:9/") if how == "set" else emit(kit, "e4"))
            hookgw_clock.jump(2)
            await hookgw_receiver.wait_for(4)
        await writes_again(kit.gateway.store, hookgw_clock)
        await kit.settled()
    assert hookgw_receiver.ids == ["e1", "e1", "e2", "e3"]


async def test_room_is_made_in_every_lane_that_has_something(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, old: Receiver, brake: Brake
) -> None:
    settings = {"limits": {"registration_deliveries": 5, "on_full": "drop_oldest"}}
    async with open_kit(tmp_path, settings=settings) as kit:
        await half_moved(kit, old, hookgw_receiver, brake)
        brake.free = 3
        await emit(kit, "e6", "e7", "e8", "e9")
        assert await states(kit) == [DEAD] * 4 + [PENDING] * 5
        brake.released.set()
        await kit.settled()
        assert hookgw_receiver.ids == ["e5", "e6", "e7", "e8", "e9"]
        assert await states(kit) == [DEAD] * 4 + [DELIVERED] * 5


async def test_the_caller_need_not_wait_until_all_is_moved(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    old: Receiver,
    brake: Brake,
) -> None:
    brake.free = 0
    await hookgw_gateway.register(old.url)
    await emit(hookgw_gateway, "e1", "e2")
    await hookgw_gateway.settled()
    change = RegistrationChange(url=hookgw_receiver.url)
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:

            async def leave() -> None:
                await brake.held.wait()
                scope.cancel()
                brake.released.set()

            nursery.start_soon(leave)
            await hookgw_gateway.gateway.set_registration("shop", "default", change)
    await hookgw_gateway.advance(5)
    assert hookgw_receiver.ids == ["e1", "e2"]


async def test_nothing_is_moved_where_the_gateway_does_not_run(tmp_path: Path) -> None:
    moves = Moves(Registry(None), None, None)  # type: ignore[arg-type]
    registration = Registration(id="reg_1", instance="shop", url="http://a/")
    with pytest.raises(Unavailable):
        await moves.replace(registration, registration)
    moves.stop()
    with pytest.raises(NotFound):
        Registry(None).instance("shop")  # type: ignore[arg-type]
