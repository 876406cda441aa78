"""The whole way of an event, on a real disk and a real wire, under a clock that the test moves."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from hookgw.models.deliveries import DeliveryState, LaneState, Outcome
from hookgw.models.errors import ConfigError, NotFound, StartError, StorageUnavailable
from hookgw.models.registrations import Ordering, RegistrationChange
from hookgw.store import DeliveryQuery
from hookgw.testing import GatewayKit, Receiver, answer, hang, open_kit, open_receiver

KIND = "CALL"


async def emit_many(kit: GatewayKit, count: int, *, instance: str = "shop") -> list[str]:
    return [(await kit.emit(KIND, {"n": n}, instance=instance)).id for n in range(count)]


async def states(kit: GatewayKit, *, instance: str = "shop") -> dict[str, DeliveryState]:
    await kit.gateway.store.flush()
    found = await kit.gateway.store.list_deliveries(DeliveryQuery(instance=instance, limit=1000))
    return {delivery.event_id: delivery.state for delivery in found.deliveries}


def first_arrivals(receiver: Receiver) -> list[str | None]:
    return list(dict.fromkeys(receiver.ids))


async def test_an_event_is_notified_and_signed(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
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
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url, events=("SEND_MESSAGE",))
    await hookgw_gateway.emit(KIND, {})
    wanted = await hookgw_gateway.emit("SEND_MESSAGE", {})
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [wanted.id]


async def test_order_holds_through_retries_and_a_restart(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(answer(), answer(500), answer(), answer(503))
    async with open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url)
        ids = await emit_many(kit, 6)
        await kit.advance(6)
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
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    async with open_receiver() as dead:
        dead.default = hang()
        await hookgw_gateway.register(dead.url, label="dead")
        await hookgw_gateway.register(hookgw_receiver.url)
        ids = await emit_many(hookgw_gateway, 20)
        await hookgw_receiver.wait_for(20)
        assert hookgw_receiver.ids == ids
        assert len(await dead.wait_for(1)) == 1


async def test_two_registrations_of_one_url_share_its_order(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    for instance in ("shop", "bar"):
        await hookgw_gateway.register(hookgw_receiver.url, instance=instance)
    hookgw_receiver.will(answer(500))
    first = await hookgw_gateway.emit(KIND, {}, instance="shop")
    second = await hookgw_gateway.emit(KIND, {}, instance="bar")
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [first.id]
    await hookgw_gateway.advance(6)
    assert hookgw_receiver.ids == [first.id, first.id, second.id]
    assert len(hookgw_gateway.gateway.lanes()) == 1


async def test_a_changed_url_takes_what_is_pending_along_in_its_order(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    async with open_receiver() as old:
        old.default = answer(500)
        await hookgw_gateway.register(old.url)
        ids = await emit_many(hookgw_gateway, 3)
        await hookgw_gateway.settled()
        await hookgw_gateway.register(hookgw_receiver.url)
        ids += await emit_many(hookgw_gateway, 3)
        await hookgw_gateway.advance(6)
    assert old.ids == [ids[0]]
    assert hookgw_receiver.ids == ids


async def test_a_url_that_changes_during_an_attempt_waits_for_its_end(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    async with open_receiver() as old:
        old.default = answer(wait=10)
        await hookgw_gateway.register(old.url)
        ids = await emit_many(hookgw_gateway, 3)
        await old.wait_for(1)
        await hookgw_gateway.register(hookgw_receiver.url)
        await hookgw_gateway.emit(KIND, {}, event_id="last")
        assert hookgw_receiver.requests == []
        hookgw_clock.jump(10)
        await hookgw_receiver.wait_for(3)
        await hookgw_gateway.settled()
    assert old.ids == ids[:1]
    assert hookgw_receiver.ids == [*ids[1:], "last"]


async def test_changing_the_ordering_moves_what_is_pending_to_its_partitions(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(answer(500))
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit_many(hookgw_gateway, 12)
    await hookgw_gateway.settled()
    await hookgw_gateway.register(hookgw_receiver.url, ordering=Ordering.NONE, concurrency=4)
    await hookgw_gateway.advance(6)
    assert sorted(first_arrivals(hookgw_receiver), key=str) == sorted(ids)
    assert set((await states(hookgw_gateway)).values()) == {DeliveryState.DELIVERED}


@pytest.mark.parametrize("how", ["delete", "disable"])
async def test_what_is_pending_for_a_registration_that_goes_is_parked(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock, how: str
) -> None:
    hookgw_receiver.default = answer(500)
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit_many(hookgw_gateway, 3)
    await hookgw_gateway.settled()
    if how == "delete":
        await hookgw_gateway.gateway.registrations.delete("shop")
    else:
        await hookgw_gateway.register("vazio", enabled=False)
    await hookgw_gateway.advance(1000)
    assert await states(hookgw_gateway) == dict.fromkeys(ids, DeliveryState.DEAD)
    assert hookgw_receiver.ids == ids[:1]
    assert b'hookgw_deliveries_total{state="dead"} 3.0' in hookgw_gateway.gateway.metrics.render()[0]


async def test_a_delivery_on_the_wire_survives_the_end_of_its_registration(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.default = answer(wait=5)
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit_many(hookgw_gateway, 2)
    await hookgw_receiver.wait_for(1)
    await hookgw_gateway.gateway.registrations.delete("shop")
    await hookgw_gateway.gateway.store.flush()
    hookgw_clock.jump(5)
    await hookgw_gateway.settled()
    assert await states(hookgw_gateway) == {ids[0]: DeliveryState.DELIVERED, ids[1]: DeliveryState.DEAD}


async def test_gone_disables_the_registration_and_says_why(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(answer(410))
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit_many(hookgw_gateway, 3)
    await hookgw_gateway.settled()
    registration = hookgw_gateway.gateway.registrations.find("shop")
    assert registration is not None
    assert not registration.enabled
    assert "410" in (registration.disabled_reason or "")
    assert hookgw_receiver.ids == ids[:1]
    assert set((await states(hookgw_gateway)).values()) == {DeliveryState.DEAD}
    await hookgw_gateway.register(hookgw_receiver.url)
    again = await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids[-1] == again.id


async def test_a_registration_that_fails_for_too_long_is_disabled_also_over_a_restart(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.default = answer(500)
    settings = {"delivery": {"disable_after": "1h", "schedule": ["10m"] * 20}}
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.emit(KIND, {})
        await kit.settled()
        for _ in range(3):
            await kit.advance(660)
        registration = kit.gateway.registrations.find("shop")
        assert registration is not None
        assert registration.failing_since is not None
    async with open_kit(tmp_path, settings=settings) as kit:
        for _ in range(4):
            await kit.advance(660)
        registration = kit.gateway.registrations.find("shop")
        assert registration is not None
        assert not registration.enabled
        assert "failed for" in (registration.disabled_reason or "")


async def test_one_success_ends_a_row_of_failures(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(*[answer(500)] * 5)
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit(KIND, {})
    for _ in range(4):
        await hookgw_gateway.advance(140)
    failing = hookgw_gateway.gateway.registrations.find("shop")
    assert failing is not None
    assert failing.failing_since is not None
    await hookgw_gateway.advance(140)
    working = hookgw_gateway.gateway.registrations.find("shop")
    assert working is not None
    assert working.failing_since is None


async def test_a_blocked_target_is_a_dead_letter_that_names_the_setting(
    hookgw_gateway: GatewayKit, hookgw_clock: MockClock
) -> None:
    await hookgw_gateway.register("http://10.1.2.3/hook")
    event = await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    report = await hookgw_gateway.gateway.store.find_delivery("shop", event.id)
    assert report is not None
    assert report.summary.state is DeliveryState.DEAD
    assert report.attempts[0].outcome is Outcome.BLOCKED
    assert "allow_networks" in (report.attempts[0].error or "")


async def test_resume_tries_now(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(answer(500))
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    [lane] = hookgw_gateway.gateway.registrations.resume("shop")
    assert lane.state is LaneState.WAITING
    await hookgw_receiver.wait_for(2)
    with pytest.raises(NotFound):
        hookgw_gateway.gateway.registrations.resume("shop", "other")


async def test_resume_tells_nothing_of_another_instance_with_the_same_url(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    gateway = hookgw_gateway.gateway
    hookgw_receiver.default = answer(500)
    for instance in ("shop", "nosy"):
        await hookgw_gateway.register(hookgw_receiver.url, instance=instance)
    for _ in range(3):
        await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    assert gateway.registrations.resume("nosy") == []
    await hookgw_gateway.emit(KIND, {}, instance="nosy")
    await hookgw_gateway.settled()
    assert len(hookgw_receiver.requests) == 1
    assert [lane.backlog for lane in gateway.registrations.resume("nosy")] == [1]
    assert [lane.backlog for lane in gateway.lanes()] == [4]


async def test_a_lane_at_rest_keeps_its_connection_and_is_shown(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    for _ in range(2):
        await hookgw_gateway.emit(KIND, {})
        await hookgw_gateway.advance(30)
        [lane] = hookgw_gateway.gateway.lanes()
        assert (lane.state, lane.backlog, lane.last_outcome) == (LaneState.IDLE, 0, Outcome.DELIVERED)
    assert [request.connection for request in hookgw_receiver.requests] == [1, 1]


async def test_a_lane_at_rest_ends_and_comes_back(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.advance(61)
    assert hookgw_gateway.gateway.lanes() == []
    await hookgw_gateway.emit(KIND, {})
    await hookgw_receiver.wait_for(2)
    assert [request.connection for request in hookgw_receiver.requests] == [1, 2]


async def test_a_graceful_end_lets_the_attempt_finish_and_sends_nothing_twice(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.default = answer(wait=5)
    async with trio.open_nursery() as nursery, open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url)
        ids = await emit_many(kit, 3)
        await hookgw_receiver.wait_for(1)
        nursery.start_soon(_jump_when_draining, kit, hookgw_clock, 5)
    hookgw_receiver.default = answer()
    async with open_kit(tmp_path) as kit:
        await hookgw_receiver.wait_for(3)
        await kit.settled()
    assert hookgw_receiver.ids == ids


async def test_what_does_not_end_within_the_grace_is_sent_again(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.default = hang()
    async with trio.open_nursery() as nursery, open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url)
        ids = await emit_many(kit, 1)
        await hookgw_receiver.wait_for(1)
        nursery.start_soon(_jump_when_draining, kit, hookgw_clock, 10)
    hookgw_receiver.default = answer()
    async with open_kit(tmp_path):
        await hookgw_receiver.wait_for(2)
    assert hookgw_receiver.ids == ids * 2


async def _jump_when_draining(kit: GatewayKit, clock: MockClock, seconds: float) -> None:
    while kit.gateway.dispatcher.is_running:
        await trio.testing.wait_all_tasks_blocked()
    clock.jump(seconds)


async def test_a_cancelled_producer_does_not_undo_what_it_handed_in(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(emit_many, hookgw_gateway, 1)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    await hookgw_receiver.wait_for(1)


async def test_two_first_sets_of_an_instance_at_once_both_succeed(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        for label in ("a", "b"):
            nursery.start_soon(partial(hookgw_gateway.register, hookgw_receiver.url, label=label))
    assert len(hookgw_gateway.gateway.registrations.of_instance("shop")) == 2


async def test_a_change_is_finished_where_its_caller_is_gone(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    change = RegistrationChange(url=hookgw_receiver.url)
    with trio.CancelScope() as scope:
        scope.cancel()
        await hookgw_gateway.gateway.registrations.set("shop", "default", change)
    assert hookgw_gateway.gateway.registrations.find("shop") is not None


async def test_a_bug_in_a_lane_ends_the_gateway(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.RaisesGroup(RuntimeError, flatten_subgroups=True):
        async with open_kit(tmp_path) as kit:
            await kit.register(hookgw_receiver.url)
            monkeypatch.setattr("hookgw.dispatch.lane.decide", _bug)
            await kit.emit(KIND, {})
            await trio.sleep_forever()


def _bug(*_: object, **__: object) -> None:
    raise RuntimeError("a bug")


async def test_is_ready_while_lanes_run_and_the_disk_writes(
    tmp_path: Path, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_kit(tmp_path) as kit:
        await kit.gateway.ready()

        async def refuse() -> None:
            raise StorageUnavailable("disk full")

        monkeypatch.setattr(kit.gateway.store, "check", refuse)
        with pytest.raises(StorageUnavailable):
            await kit.gateway.ready()


async def test_a_second_gateway_on_the_same_file_is_refused(tmp_path: Path, hookgw_clock: MockClock) -> None:
    async with open_kit(tmp_path):
        with pytest.RaisesGroup(StartError, allow_unwrapped=True, flatten_subgroups=True) as caught:
            async with open_kit(tmp_path):
                pytest.fail("opened twice")
    assert "hookgw.db" in str(caught.value)


@pytest.mark.parametrize(
    "block", [{"url": "ftp://x/"}, {"url": "http://x/", "plugins": {"message_filters": {"typo": 1}}}]
)
async def test_bad_global_webhooks_stop_the_start(
    tmp_path: Path, hookgw_clock: MockClock, block: dict[str, object]
) -> None:
    settings = {"global_webhooks": [block]}
    with pytest.RaisesGroup(ConfigError, allow_unwrapped=True, flatten_subgroups=True):
        async with open_kit(tmp_path, settings=settings):
            pytest.fail("opened")


async def test_global_webhooks_hear_every_instance(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    settings = {"global_webhooks": [{"url": hookgw_receiver.url, "events": [KIND]}]}
    async with open_kit(tmp_path, settings=settings) as kit:
        for name in ("a", "b"):
            await kit.gateway.instances.create(name)
            await kit.emit(KIND, {}, instance=name)
        await hookgw_receiver.wait_for(2)
    assert [event["instance"] for event in hookgw_receiver.events()] == ["a", "b"]


async def test_a_disk_that_refuses_while_a_receiver_is_gone_or_fails_ends_nothing(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise StorageUnavailable("disk full")

    hookgw_receiver.will(answer(500), answer(500), answer(500), answer(500), answer(410))
    await hookgw_gateway.register(hookgw_receiver.url)
    first = await hookgw_gateway.emit(KIND, {})
    second = await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    with monkeypatch.context() as patch:
        patch.setattr(hookgw_gateway.gateway.store, "put_registration", refuse)
        for _ in range(4):
            await hookgw_gateway.advance(140)
    assert await states(hookgw_gateway) == {first.id: DeliveryState.DEAD, second.id: DeliveryState.DELIVERED}
    registration = hookgw_gateway.gateway.registrations.find("shop")
    assert registration is not None
    assert registration.enabled
