"""A URL's trouble is nobody else's."""

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from hookgw import LaneState
from hookgw.testing import Answer, GatewayKit, Received, Receiver, answer, hang, open_receiver
from tests.faults.support import KIND

pytestmark = pytest.mark.usefixtures("hookgw_clock")

INSTANCES = [f"i{number}" for number in range(10)]
LABELS = [f"l{number}" for number in range(10)]
EVENTS = 5


def half_of_them_hang(request: Received) -> Answer:
    return hang() if request.path.startswith("/hangs") else answer()


async def test_fifty_urls_that_hang_hold_up_none_of_fifty_others(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.default = half_of_them_hang
    async with trio.open_nursery() as nursery:
        for instance in INSTANCES:
            for number, label in enumerate(LABELS):
                kind = "hangs" if number % 2 else "works"
                url = f"{hookgw_receiver.url}{kind}/{instance}/{label}"
                nursery.start_soon(register, hookgw_gateway, url, instance, label)
    for instance in INSTANCES:
        for number in range(EVENTS):
            await hookgw_gateway.emit(KIND, {}, instance=instance, event_id=f"{instance}_{number}")
    await hookgw_receiver.wait_for(50 * EVENTS + 50)
    arrived: dict[str, list[str | None]] = {}
    for request in hookgw_receiver.requests:
        arrived.setdefault(request.path, []).append(request.event_id)
    assert len(arrived) == 100
    for path, ids in arrived.items():
        instance = path.split("/")[2]
        wanted = [f"{instance}_{number}" for number in range(EVENTS)]
        assert ids == (wanted[:1] if path.startswith("/hangs") else wanted)
    # The receiver has the last requests, but their responses may still be on the way: a jump of the clock
    # would end those attempts, too.
    while any("/works/" in str(lane.url) and lane.backlog for lane in hookgw_gateway.gateway.lanes()):
        await trio.testing.wait_all_tasks_blocked(0.001)
    hookgw_clock.jump(30.1)
    await hookgw_gateway.settled()
    waiting = [lane for lane in hookgw_gateway.gateway.lanes() if lane.state is LaneState.WAITING]
    assert len(waiting) == 50
    assert {lane.backlog for lane in waiting} == {EVENTS}


async def register(kit: GatewayKit, url: str, instance: str, label: str) -> None:
    await kit.register(url, instance=instance, label=label)


async def test_two_urls_of_one_receiver_never_wait_for_each_other(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    def one_is_down(request: Received) -> Answer:
        return answer(503) if request.path == "/down" else answer()

    hookgw_receiver.default = one_is_down
    await hookgw_gateway.register(hookgw_receiver.url + "down", label="down")
    await hookgw_gateway.register(hookgw_receiver.url + "up", label="up")
    ids = [(await hookgw_gateway.emit(KIND, {})).id for _ in range(20)]
    await hookgw_gateway.settled()
    paths = [(request.path, request.event_id) for request in hookgw_receiver.requests]
    assert [event_id for path, event_id in paths if path == "/up"] == ids
    assert [event_id for path, event_id in paths if path == "/down"] == ids[:1]


async def test_registrations_with_labels_do_not_share_a_fate(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    async with open_receiver(default=answer(410)) as gone:
        await hookgw_gateway.register(gone.url, label="crm")
        await hookgw_gateway.register(hookgw_receiver.url, label="n8n")
        ids = [(await hookgw_gateway.emit(KIND, {})).id for _ in range(3)]
        await hookgw_gateway.settled()
    assert hookgw_receiver.ids == ids
    found = {one.label: one.enabled for one in hookgw_gateway.gateway.registrations.of_instance("shop")}
    assert found == {"crm": False, "n8n": True}
