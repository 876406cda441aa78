"""The whole way of an event, on a real disk and a real wire, under a clock that the test moves."""

from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from hookgw import DeliveryState, LaneState, NotFound, Outcome
from hookgw.testing import GatewayKit, Receiver, answer, hang, open_kit, open_receiver
from tests.public.kernel import StorageUnavailable
from tests.support.disks import refuse
from tests.support.kit import emit_many, states
from tests.support.waits import FIRST_WAIT

pytestmark = pytest.mark.usefixtures("hookgw_clock")

KIND = "CALL"


def first_arrivals(receiver: Receiver) -> list[str | None]:
    return list(dict.fromkeys(receiver.ids))


async def test_an_event_is_notified_and_signed(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    registration = await hookgw_gateway.register(hookgw_receiver.url + "hook?a=1")
    event = await hookgw_gateway.emit(KIND, {"n": 1})
    [request] = await hookgw_receiver.wait_for(1)
    hookgw_receiver.verify(request, registration.secrets[0].value)
    assert request.target == "/hook?a=1"
    assert request.event_id == event.id
    assert list(request.json)[:3] == ["event", "instance", "data"]
    assert (request.header("x-event-type"), request.header("x-instance-name")) == (KIND, "shop")
    assert request.header("x-attempt") == "1"
    await hookgw_gateway.settled()
    assert await states(hookgw_gateway) == {event.id: DeliveryState.DELIVERED}


async def test_nobody_is_notified_of_what_nobody_wants(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url, events=("SEND_MESSAGE",))
    await hookgw_gateway.emit(KIND, {})
    wanted = await hookgw_gateway.emit("SEND_MESSAGE", {})
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [wanted.id]


async def test_order_holds_through_retries_and_a_restart(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.will(answer(), answer(500), answer(), answer(503))
    async with open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url)
        ids = await emit_many(kit, 6)
        await kit.advance(1.2 * FIRST_WAIT)
        assert len(first_arrivals(hookgw_receiver)) == 3
        [lane] = kit.gateway.lanes()
        assert (lane.state, lane.backlog) == (LaneState.WAITING, 4)
    async with open_kit(tmp_path) as kit:
        assert len(first_arrivals(hookgw_receiver)) == 3
        await kit.advance(2)
        assert first_arrivals(hookgw_receiver) == ids
        assert set((await states(kit)).values()) == {DeliveryState.DELIVERED}
    resent = [request for request in hookgw_receiver.requests if request.event_id == ids[2]]
    assert [request.header("x-attempt") for request in resent] == ["1", "2"]
    assert resent[0].body == resent[1].body


async def test_a_dead_receiver_is_nobody_elses_problem(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    async with open_receiver() as dead:
        dead.default = hang()
        await hookgw_gateway.register(dead.url, label="dead")
        await hookgw_gateway.register(hookgw_receiver.url)
        ids = await emit_many(hookgw_gateway, 20)
        await hookgw_receiver.wait_for(20)
        assert hookgw_receiver.ids == ids
        assert len(await dead.wait_for(1)) == 1


async def test_a_blocked_target_waits_and_names_the_setting(hookgw_gateway: GatewayKit) -> None:
    await hookgw_gateway.register("http://10.1.2.3/hook")
    event = await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    report = await hookgw_gateway.gateway.store.find_delivery("shop", event.id)
    assert report is not None
    assert report.summary.state is DeliveryState.PENDING
    assert report.attempts[0].outcome is Outcome.BLOCKED
    assert "allow_networks" in (report.attempts[0].error or "")


async def test_resume_tries_now(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.will(answer(500))
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    [lane] = await hookgw_gateway.gateway.registrations.resume("shop")
    assert lane.state is LaneState.WAITING
    await hookgw_receiver.wait_for(2)
    with pytest.raises(NotFound):
        await hookgw_gateway.gateway.registrations.resume("shop", "other")


async def test_a_lane_at_rest_keeps_its_connection_and_is_shown(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    for _ in range(2):
        await hookgw_gateway.emit(KIND, {})
        await hookgw_gateway.advance(30)
        [lane] = hookgw_gateway.gateway.lanes()
        assert (lane.state, lane.backlog, lane.last_outcome) == (LaneState.IDLE, 0, Outcome.DELIVERED)
    assert [request.connection for request in hookgw_receiver.requests] == [1, 1]


async def test_a_lane_at_rest_ends_and_comes_back(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.advance(61)
    assert hookgw_gateway.gateway.lanes() == []
    await hookgw_gateway.emit(KIND, {})
    await hookgw_receiver.wait_for(2)
    assert [request.connection for request in hookgw_receiver.requests] == [1, 2]


async def test_a_cancelled_producer_does_not_undo_what_it_handed_in(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(emit_many, hookgw_gateway, 1)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    await hookgw_receiver.wait_for(1)


async def test_two_first_sets_of_an_instance_at_once_both_succeed(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    async with trio.open_nursery() as nursery:
        for label in ("a", "b"):
            nursery.start_soon(partial(hookgw_gateway.register, hookgw_receiver.url, label=label))
    assert len(hookgw_gateway.gateway.registrations.of_instance("shop")) == 2


async def test_is_ready_while_lanes_run_and_the_disk_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_kit(tmp_path) as kit:
        await kit.gateway.ready()

        monkeypatch.setattr(kit.gateway.store, "check", refuse)
        with pytest.raises(StorageUnavailable):
            await kit.gateway.ready()


async def test_resume_tells_nothing_of_another_instance_with_the_same_url(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    gateway = hookgw_gateway.gateway
    hookgw_receiver.default = answer(500)
    for instance in ("shop", "nosy"):
        await hookgw_gateway.register(hookgw_receiver.url, instance=instance)
    for _ in range(3):
        await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    assert await gateway.registrations.resume("nosy") == []
    await hookgw_gateway.emit(KIND, {}, instance="nosy")
    await hookgw_gateway.settled()
    assert len(hookgw_receiver.requests) == 2
    assert [lane.backlog for lane in await gateway.registrations.resume("nosy")] == [1]
    await hookgw_gateway.settled()
    assert [request.json["instance"] for request in hookgw_receiver.requests] == ["shop", "nosy", "nosy"]
    assert sorted(lane.backlog for lane in gateway.lanes()) == [1, 3]
