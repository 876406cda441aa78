"""Registrations that their owner pauses: what is pending waits, in order, until it is resumed."""

from pathlib import Path

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from hookgw import Conflict, DeliveryState, LaneState, NotFound
from hookgw.testing import GatewayKit, Receiver, answer, hang, open_kit
from tests.gateway.test_pending import emit
from tests.public.kernel import parse_rate
from tests.public.records import Ordering, RetryOptions
from tests.public.store import DeliveryQuery
from tests.public.webhooks import RegistrationChange
from tests.support.kit import states

pytestmark = pytest.mark.usefixtures("hookgw_clock")

DAY = 86_400


async def test_deliveries_wait_in_order_until_resume(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    registrations = hookgw_gateway.gateway.registrations
    await hookgw_gateway.register(hookgw_receiver.url)
    first = await emit(hookgw_gateway, 2)
    await hookgw_gateway.settled()
    assert (await registrations.pause("shop")).is_paused
    rest = await emit(hookgw_gateway, 5, first=2)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == first
    [lane] = hookgw_gateway.gateway.lanes()
    assert (lane.state, lane.backlog) == (LaneState.PAUSED, 5)
    await registrations.resume("shop")
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == first + rest
    assert not registrations.get("shop").is_paused


@pytest.mark.parametrize("ordering", [Ordering.URL, Ordering.CHAT])
async def test_a_pause_survives_restarts(
    tmp_path: Path, hookgw_receiver: Receiver, ordering: Ordering
) -> None:
    async with open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url, ordering=ordering, concurrency=2)
        await kit.gateway.registrations.pause("shop")
        ids = await emit(kit, 3)
    async with open_kit(tmp_path) as kit:
        ids += await emit(kit, 3, first=3)
        await kit.settled()
        assert hookgw_receiver.ids == []
        assert {lane.state for lane in kit.gateway.lanes()} == {LaneState.PAUSED}
        assert sum(lane.backlog for lane in kit.gateway.lanes()) == 6
        await kit.gateway.registrations.resume("shop")
        await kit.settled()
    assert sorted(map(str, hookgw_receiver.ids)) == ids


async def test_other_registrations_go_on(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.register(f"{hookgw_receiver.url}?other", label="other")
    await hookgw_gateway.gateway.registrations.pause("shop", "other")
    await emit(hookgw_gateway, 2)
    await hookgw_gateway.settled()
    assert [request.target for request in hookgw_receiver.requests] == ["/", "/"]


async def test_an_attempt_in_flight_ends(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(answer(wait=3), answer())
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit(hookgw_gateway, 2)
    await hookgw_receiver.wait_for(1)
    await hookgw_gateway.gateway.registrations.pause("shop")
    hookgw_clock.jump(3)
    await hookgw_gateway.settled()
    assert await states(hookgw_gateway) == {ids[0]: DeliveryState.DELIVERED, ids[1]: DeliveryState.PENDING}


async def test_a_resume_tries_a_waiting_head_at_once(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(answer(503, headers={"retry-after": "1000"}))
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit(hookgw_gateway, 2)
    await hookgw_gateway.settled()
    await hookgw_gateway.gateway.registrations.pause("shop")
    await hookgw_gateway.advance(2000)
    assert hookgw_receiver.ids == ids[:1]
    hookgw_receiver.will(answer(503, headers={"retry-after": "1000"}))
    await hookgw_gateway.gateway.registrations.resume("shop")
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [ids[0], ids[0]]
    await hookgw_gateway.advance(1000)
    assert hookgw_receiver.ids == [ids[0], *ids[:1], *ids]


async def test_a_pause_makes_no_delivery_too_old_and_is_no_time_of_failing(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    retry = RetryOptions(max_age=3600.0, disable_after=7200.0)
    hookgw_receiver.default = answer(503)
    await hookgw_gateway.register(hookgw_receiver.url, retry=retry)
    await emit(hookgw_gateway, 2)
    await hookgw_gateway.advance(300)
    await hookgw_gateway.gateway.registrations.pause("shop")
    await hookgw_gateway.advance(10 * DAY)
    await hookgw_gateway.gateway.registrations.resume("shop")
    for _ in range(10):
        await hookgw_gateway.advance(300)
    assert set((await states(hookgw_gateway)).values()) == {DeliveryState.PENDING}
    assert hookgw_gateway.gateway.registrations.get("shop").enabled
    for _ in range(5):  # it counts from the end of the pause
        await hookgw_gateway.advance(300)
    assert set((await states(hookgw_gateway)).values()) == {DeliveryState.DEAD}


async def test_an_attempt_that_fails_in_a_pause_does_not_disable(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(answer(500), answer(500, wait=3))
    await hookgw_gateway.register(hookgw_receiver.url, retry=RetryOptions(disable_after=10.0))
    await emit(hookgw_gateway, 1)
    await hookgw_gateway.settled()
    hookgw_clock.jump(20)
    await hookgw_receiver.wait_for(2)
    await hookgw_gateway.gateway.registrations.pause("shop")
    hookgw_clock.jump(3)
    await hookgw_gateway.settled()
    assert hookgw_gateway.gateway.registrations.get("shop").is_paused


async def test_a_set_leaves_it_paused_and_moves_what_waits(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    registrations = hookgw_gateway.gateway.registrations
    await hookgw_gateway.register(hookgw_receiver.url)
    await registrations.pause("shop")
    ids = await emit(hookgw_gateway, 6)
    await hookgw_gateway.register(f"{hookgw_receiver.url}?new", ordering=Ordering.CHAT, concurrency=2)
    while len(hookgw_gateway.gateway.lanes()) < 3:
        await trio.testing.wait_all_tasks_blocked(0.001)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == []
    assert registrations.get("shop").is_paused
    await registrations.resume("shop")
    await hookgw_gateway.settled()
    assert sorted(map(str, hookgw_receiver.ids)) == ids
    assert {request.target for request in hookgw_receiver.requests} == {"/?new"}


async def test_disabling_parks_what_a_pause_holds(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    registrations = hookgw_gateway.gateway.registrations
    await hookgw_gateway.register(hookgw_receiver.url)
    await registrations.pause("shop")
    await emit(hookgw_gateway, 3)
    await registrations.set("shop", "default", RegistrationChange(url=hookgw_receiver.url, enabled=False))
    await hookgw_gateway.settled()
    assert set((await states(hookgw_gateway)).values()) == {DeliveryState.DEAD}
    for change in (registrations.pause, registrations.resume):
        with pytest.raises(Conflict, match="is disabled"):
            await change("shop")
    await hookgw_gateway.register(hookgw_receiver.url)
    assert registrations.get("shop").is_paused  # as it was
    await registrations.resume("shop")
    assert not registrations.get("shop").is_paused


async def test_deleting_a_paused_one_ends_its_lanes(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    registrations = hookgw_gateway.gateway.registrations
    await hookgw_gateway.register(hookgw_receiver.url)
    await registrations.pause("shop")
    await registrations.pause("shop")
    await emit(hookgw_gateway, 3)
    await registrations.delete("shop")
    await hookgw_gateway.settled()
    assert set((await states(hookgw_gateway)).values()) == {DeliveryState.DEAD}
    for call in (registrations.pause, registrations.resume):
        with pytest.raises(NotFound):
            await call("shop")


async def test_replayed_and_resent_deliveries_wait_too(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    gateway = hookgw_gateway.gateway
    await hookgw_gateway.register(hookgw_receiver.url)
    [event_id] = await emit(hookgw_gateway, 1)
    await hookgw_gateway.settled()
    await gateway.registrations.pause("shop")
    await gateway.deliveries.resend("shop", event_id)
    await hookgw_gateway.settled()
    page = await gateway.store.list_deliveries(DeliveryQuery(instance="shop"))
    assert [one.state for one in page.deliveries] == [DeliveryState.PENDING]
    assert hookgw_receiver.ids == [event_id]
    await gateway.registrations.resume("shop")
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [event_id, event_id]


async def test_the_oldest_make_room_in_a_pause_and_its_lane_counts_them(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    limits = {"deliveries": 10, "registration_deliveries": 4, "on_full": "drop_oldest"}
    async with open_kit(tmp_path, settings={"limits": limits}) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.gateway.registrations.pause("shop")
        ids = await emit(kit, 6)
        with trio.fail_after(20):
            while [lane.backlog for lane in kit.gateway.lanes()] != [4]:
                await trio.testing.wait_all_tasks_blocked(0.001)
        await kit.gateway.registrations.resume("shop")
        await kit.settled()
    assert hookgw_receiver.ids == ids[2:]


async def test_a_gateway_closes_while_a_lane_is_paused(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = hang()
    async with open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.gateway.registrations.pause("shop")
        await emit(kit, 1)
        await kit.settled()
    assert hookgw_receiver.ids == []


async def test_a_changed_rate_wakes_what_waits_for_the_former(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url, rate=parse_rate("1/h"))
    ids = await emit(hookgw_gateway, 4)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == ids[:1]
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == ids[:1]
    await hookgw_gateway.register(hookgw_receiver.url, rate=None)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == ids
