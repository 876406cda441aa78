"""Changes of registrations with pending deliveries: to another target, and to other lanes."""

from collections import defaultdict
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from hookgw import DeliveryState, Event, Gateway, Registration, Unavailable
from hookgw.testing import GatewayKit, Received, Receiver, answer, hang, open_kit, open_receiver
from tests.public.kernel import StorageUnavailable
from tests.public.records import DeliverySelection, Ordering, lane_rule, new_secret
from tests.support.disks import refuse
from tests.support.kit import states
from tests.support.waits import FIRST_WAIT

pytestmark = pytest.mark.usefixtures("hookgw_clock")

KIND = "CALL"
CHATS = ("ana", "bob", "eva")


async def emit(kit: GatewayKit, count: int, *, first: int = 0, instance: str = "shop") -> list[str]:
    """Emit events of some chats in turn; return their ids."""
    ids = []
    for number in range(first, first + count):
        data = {"remoteJid": CHATS[number % len(CHATS)], "number": number}
        ids.append((await kit.emit(KIND, data, instance=instance, event_id=f"{instance}-{number}")).id)
    return ids


async def wait_for_lanes(kit: GatewayKit, registration: Registration) -> None:
    """Wait until everything that is pending for a registration is in its present lanes."""
    current = kit.gateway.registrations.by_id(registration.id)
    assert current is not None
    rule = lane_rule(current)
    while not all(
        rule.is_current(found.lane) for found in await kit.gateway.store.pending_lanes(registration.id)
    ):
        await trio.testing.wait_all_tasks_blocked(0.001)


# Lanes belong to registrations


async def test_two_registrations_of_one_url_do_not_share_an_order(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    def refuse_the_shop(request: Received) -> Any:
        return answer(503) if request.json["instance"] == "shop" else answer()

    hookgw_receiver.default = refuse_the_shop
    for instance in ("shop", "bar"):
        await hookgw_gateway.register(hookgw_receiver.url, instance=instance)
    refused = await emit(hookgw_gateway, 5)
    taken = await emit(hookgw_gateway, 5, instance="bar")
    await hookgw_gateway.settled()
    assert [name for name in hookgw_receiver.ids if name not in refused] == taken
    for _ in range(5):
        await hookgw_gateway.advance(1000)
    assert set(hookgw_receiver.ids) == {refused[0], *taken}
    assert set((await states(hookgw_gateway, "bar")).values()) == {DeliveryState.DELIVERED}
    assert set((await states(hookgw_gateway)).values()) == {DeliveryState.PENDING}


# Another target

TARGETS: dict[str, dict[str, Any]] = {
    "url": {},
    "header": {"headers": {"x-new": "1"}},
    "secret": {"secret": new_secret()},
    "timeout": {"timeout": 3.0},
}


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("what", TARGETS)
async def test_a_waiting_head_is_due_at_once_at_another_target(
    tmp_path: Path, hookgw_receiver: Receiver, what: str, restart: bool
) -> None:
    hookgw_receiver.will(answer(503, headers={"retry-after": "1000"}))
    url = hookgw_receiver.url + ("new" if what == "url" else "")
    async with open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url)
        ids = await emit(kit, 3)
        await kit.settled()
        assert hookgw_receiver.ids == ids[:1]
        if restart:
            kit.gateway.dispatcher.stop()  # as a process that dies right after the call
        changed = await kit.register(url, **TARGETS[what])
        if not restart:
            await kit.settled()
    if restart:
        async with open_kit(tmp_path) as kit:
            await kit.settled()
    assert hookgw_receiver.ids == [ids[0], *ids]
    assert {request.target for request in hookgw_receiver.requests[1:]} == {f"/{url.rpartition('/')[2]}"}
    hookgw_receiver.verify(hookgw_receiver.requests[1], changed.secrets[0].value)


async def test_a_change_of_something_else_leaves_the_wait_alone(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.will(answer(503, headers={"retry-after": "100"}))
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit(hookgw_gateway, 2)
    await hookgw_gateway.settled()
    await hookgw_gateway.register(hookgw_receiver.url, events=("SEND_MESSAGE",))
    await hookgw_gateway.advance(99)
    assert hookgw_receiver.ids == ids[:1]
    await hookgw_gateway.advance(2)
    assert hookgw_receiver.ids == [ids[0], *ids]


async def test_another_target_begins_with_short_waits(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(503)
    await hookgw_gateway.register(hookgw_receiver.url)
    await emit(hookgw_gateway, 1)
    for _ in range(8):
        await hookgw_gateway.advance(400)
    [lane] = hookgw_gateway.gateway.lanes()
    assert lane.waiting_until is not None
    assert lane.waiting_until - hookgw_gateway.gateway.clock.steady() > 5
    failing = hookgw_gateway.gateway.registrations.get("shop")
    assert failing.failing_since is not None
    await hookgw_gateway.register(f"{hookgw_receiver.url}new")
    await hookgw_gateway.settled()
    assert hookgw_receiver.requests[-1].target == "/new"
    [lane] = hookgw_gateway.gateway.lanes()
    assert lane.waiting_until is not None
    assert lane.waiting_until - hookgw_gateway.gateway.clock.steady() < 2
    assert hookgw_gateway.gateway.registrations.get("shop").failing_since is None


async def test_a_body_fixed_for_the_former_url_keeps_its_bytes(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    async with open_receiver() as old:
        old.default = answer(503)
        await hookgw_gateway.register(old.url)
        await emit(hookgw_gateway, 2)
        await hookgw_gateway.settled()
        await hookgw_gateway.register(hookgw_receiver.url)
        await hookgw_gateway.settled()
        first, second = hookgw_receiver.requests
        assert first.body == old.requests[0].body
        assert first.json["destination"] == old.url
        assert second.json["destination"] == hookgw_receiver.url


@pytest.mark.parametrize("late", [answer(410, wait=10), answer(500, wait=10), answer(503, wait=10)])
async def test_the_failure_of_a_former_url_does_not_affect_the_new_one(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock, late: Any
) -> None:
    async with open_receiver() as old:
        old.default = late
        await hookgw_gateway.register(old.url)
        ids = await emit(hookgw_gateway, 3)
        await old.wait_for(1)
        await hookgw_gateway.register(hookgw_receiver.url)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert hookgw_receiver.ids == []  # one attempt at a time, so that the order holds
        hookgw_clock.jump(10)
        await hookgw_gateway.settled()
    assert hookgw_receiver.ids == ids
    registration = hookgw_gateway.gateway.registrations.get("shop")
    assert (registration.enabled, registration.failing_since) == (True, None)
    assert set((await states(hookgw_gateway)).values()) == {DeliveryState.DELIVERED}


async def test_a_url_that_changes_during_an_attempt_that_delivers_waits_for_its_end(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    async with open_receiver() as old:
        old.default = answer(wait=10)
        await hookgw_gateway.register(old.url)
        ids = await emit(hookgw_gateway, 3)
        await old.wait_for(1)
        await hookgw_gateway.register(hookgw_receiver.url)
        await hookgw_gateway.emit(KIND, {}, event_id="last")
        assert hookgw_receiver.requests == []
        hookgw_clock.jump(10)
        await hookgw_receiver.wait_for(3)
        await hookgw_gateway.settled()
    assert old.ids == ids[:1]
    assert hookgw_receiver.ids == [*ids[1:], "last"]


# Other lanes

ORDERINGS: dict[str, dict[str, Any]] = {
    "url": {"ordering": Ordering.URL, "concurrency": 1},
    "instance": {"ordering": Ordering.INSTANCE, "concurrency": 4},
    "chat 2": {"ordering": Ordering.CHAT, "concurrency": 2},
    "chat 8": {"ordering": Ordering.CHAT, "concurrency": 8},
    "none 3": {"ordering": Ordering.NONE, "concurrency": 3},
}


def check_arrivals(receiver: Receiver, sent: list[str]) -> None:
    """Each event was delivered once, in the order of its chat."""
    delivered = [str(request.event_id) for request in receiver.requests]
    firsts = list(dict.fromkeys(delivered))
    assert sorted(firsts) == sorted(sent)
    by_chat: dict[int, list[str]] = defaultdict(list)
    for name in firsts:
        by_chat[int(name.rpartition("-")[2]) % len(CHATS)].append(name)
    for names in by_chat.values():
        assert names == [name for name in sent if name in set(names)]


@pytest.mark.parametrize(("before", "after"), list(permutations(ORDERINGS, 2)))
async def test_what_is_pending_moves_to_the_new_lanes(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock, before: str, after: str
) -> None:
    """With an attempt in flight, for whose end the re-partition waits, and events accepted meanwhile."""
    hookgw_receiver.default = hang()
    await hookgw_gateway.register(hookgw_receiver.url, **ORDERINGS[before])
    sent = await emit(hookgw_gateway, 12)
    await hookgw_receiver.wait_for(1)
    await trio.testing.wait_all_tasks_blocked(0.01)
    await hookgw_gateway.register(hookgw_receiver.url, **ORDERINGS[after])
    in_flight = len(hookgw_receiver.requests)
    sent += await emit(hookgw_gateway, 6, first=12)
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert len(hookgw_receiver.requests) == in_flight
    hookgw_receiver.default = answer()
    hookgw_clock.jump(30)  # the timeout of the attempts in flight
    await trio.testing.wait_all_tasks_blocked(0.01)
    for _ in range(3):
        await hookgw_gateway.advance(33)  # as long as after a deadline
    assert set((await states(hookgw_gateway)).values()) == {DeliveryState.DELIVERED}
    if "none" not in before + after:
        check_arrivals(hookgw_receiver, sent)
    else:
        assert sorted(set(hookgw_receiver.ids), key=str) == sorted(sent)
    again = hookgw_receiver.ids[in_flight:]
    assert len(again) == len(set(again)) == len(sent)


async def start_slow_repartition(
    kit: GatewayKit,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    count: int = 9,
    error: Exception | None = None,
) -> tuple[Registration, list[str], trio.Event]:
    """Begin a re-partition that stops after three deliveries until the event is set."""
    monkeypatch.setattr("hookgw.store.steps.STEP", 1)
    receiver.default = answer(503)
    await kit.register(receiver.url)
    sent = await emit(kit, count)
    await kit.settled()
    go_on, steps, step = trio.Event(), 0, kit.gateway.store.repartition_step

    async def wait_after_three(*given: Any) -> bool:
        nonlocal steps
        steps += 1
        if steps > 3 and not go_on.is_set():
            # Refused rather than held up: a step that takes long holds up a further change, too.
            raise error or StorageUnavailable("not now")
        return await step(*given)

    monkeypatch.setattr(kit.gateway.store, "repartition_step", wait_after_three)
    registration = await kit.register(receiver.url, **ORDERINGS["chat 8"])
    while steps < 4:
        await trio.testing.wait_all_tasks_blocked(0.001)
    receiver.default = answer()
    receiver.requests.clear()
    return registration, sent, go_on


async def finish(kit: GatewayKit, go_on: trio.Event) -> None:
    go_on.set()
    for _ in range(6):
        kit.clock.jump(FIRST_WAIT)
        await trio.testing.wait_all_tasks_blocked(0.005)
    await kit.settled()
    await kit.advance(60)


@pytest.mark.parametrize("error", [StorageUnavailable("not now"), ZeroDivisionError("a bug")], ids=repr)
async def test_nothing_is_sent_before_the_last_step(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    """A disk that refuses steps, or an error in hookgw, delays the deliveries of that registration alone."""
    await hookgw_gateway.register(f"{hookgw_receiver.url}other", label="other", events=("SEND_MESSAGE",))
    _, sent, go_on = await start_slow_repartition(hookgw_gateway, hookgw_receiver, monkeypatch, error=error)
    sent += await emit(hookgw_gateway, 3, first=9)
    other = await hookgw_gateway.emit("SEND_MESSAGE", {}, event_id="other-1")
    await hookgw_receiver.wait_for(1)
    hookgw_clock.jump(100)
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert [(request.target, request.event_id) for request in hookgw_receiver.requests] == [
        ("/other", other.id)
    ]
    hookgw_receiver.requests.clear()
    await finish(hookgw_gateway, go_on)
    assert len(hookgw_receiver.requests) == len(sent) + 1  # the other event goes to both
    check_arrivals_without(hookgw_receiver, sent, other)


def check_arrivals_without(receiver: Receiver, sent: list[str], other: Event) -> None:
    receiver.requests[:] = [request for request in receiver.requests if request.event_id != other.id]
    check_arrivals(receiver, sent)


@pytest.mark.parametrize("further", ["url", "instance", "chat 2"])
async def test_a_further_change_during_the_move_wins(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    further: str,
) -> None:
    registration, sent, go_on = await start_slow_repartition(hookgw_gateway, hookgw_receiver, monkeypatch)
    sent += await emit(hookgw_gateway, 3, first=9)
    changed = await hookgw_gateway.register(hookgw_receiver.url, **ORDERINGS[further])
    assert changed.generation == registration.generation + 1
    sent += await emit(hookgw_gateway, 3, first=12)
    go_on.set()
    hookgw_clock.jump(10)
    await wait_for_lanes(hookgw_gateway, changed)
    await finish(hookgw_gateway, go_on)
    check_arrivals(hookgw_receiver, sent)
    assert len(hookgw_receiver.requests) == len(sent)


async def test_a_further_url_during_the_move(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_receiver() as other:
        _, sent, go_on = await start_slow_repartition(hookgw_gateway, hookgw_receiver, monkeypatch)
        await hookgw_gateway.register(other.url)
        await finish(hookgw_gateway, go_on)
        assert hookgw_receiver.requests == []
        check_arrivals(other, sent)


@pytest.mark.parametrize("how", ["disable", "delete", "delete instance"])
async def test_a_registration_that_goes_during_the_move_is_parked_whole(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    registration, sent, go_on = await start_slow_repartition(hookgw_gateway, hookgw_receiver, monkeypatch)
    if how == "disable":
        await hookgw_gateway.register(hookgw_receiver.url, enabled=False)
    elif how == "delete":
        await hookgw_gateway.gateway.registrations.delete("shop")
    else:
        await hookgw_gateway.gateway.instances.delete("shop")
    assert await hookgw_gateway.gateway.store.pending_lanes(registration.id) == []
    await finish(hookgw_gateway, go_on)
    assert hookgw_receiver.requests == []
    if how != "delete instance":
        assert await states(hookgw_gateway) == dict.fromkeys(sent, DeliveryState.DEAD)


async def test_disabled_and_enabled_again_during_the_move(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sent, go_on = await start_slow_repartition(hookgw_gateway, hookgw_receiver, monkeypatch)
    await hookgw_gateway.register(hookgw_receiver.url, enabled=False)
    await hookgw_gateway.register(hookgw_receiver.url)
    assert (await hookgw_gateway.gateway.deliveries.replay("shop", DeliverySelection(since=0.0))).done == len(
        sent
    )
    sent += await emit(hookgw_gateway, 3, first=9)
    await finish(hookgw_gateway, go_on)
    check_arrivals(hookgw_receiver, sent)
    assert len(hookgw_receiver.requests) == len(sent)


async def test_an_attempt_that_outlasts_being_disabled_stays_before_what_comes_later(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    """The lanes change while the registration is disabled, so its attempt in flight is in a former lane."""
    hookgw_receiver.default = answer(503, wait=10)
    await hookgw_gateway.register(hookgw_receiver.url)
    sent = await emit(hookgw_gateway, 2)
    await hookgw_receiver.wait_for(1)
    await hookgw_gateway.register(hookgw_receiver.url, enabled=False, **ORDERINGS["chat 8"])
    await hookgw_gateway.register(hookgw_receiver.url, **ORDERINGS["chat 8"])
    later = await emit(hookgw_gateway, 1, first=3)  # of the chat of the first event
    await trio.testing.wait_all_tasks_blocked(0.02)
    hookgw_receiver.default = answer()
    assert hookgw_receiver.ids == sent[:1]
    hookgw_clock.jump(10)
    await hookgw_receiver.wait_for(1)
    for _ in range(3):
        await trio.testing.wait_all_tasks_blocked(0.01)
        await hookgw_gateway.advance(FIRST_WAIT)
    assert hookgw_receiver.ids == [sent[0], sent[0], *later]
    assert await states(hookgw_gateway) == {
        sent[0]: DeliveryState.DELIVERED,
        sent[1]: DeliveryState.DEAD,
        later[0]: DeliveryState.DELIVERED,
    }


async def test_replayed_and_resent_during_the_move(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    hookgw_receiver.default = answer(422)
    for number in range(3):
        await hookgw_gateway.emit(KIND, {"remoteJid": "ana"}, event_id=f"dead-{number}")
    await hookgw_gateway.settled()
    _, sent, go_on = await start_slow_repartition(hookgw_gateway, hookgw_receiver, monkeypatch)
    await hookgw_gateway.gateway.deliveries.resend("shop", "dead-2")
    assert (await hookgw_gateway.gateway.deliveries.replay("shop", DeliverySelection(since=0.0))).done == 2
    await finish(hookgw_gateway, go_on)
    assert len(hookgw_receiver.requests) == len(sent) + 3
    ids = hookgw_receiver.ids
    assert [name for name in ids if str(name).startswith("dead")] == ["dead-2", "dead-0", "dead-1"]
    of_ana = [name for name in sent if int(name.rpartition("-")[2]) % 3 == 0]
    assert ids.index("dead-2") > max(ids.index(name) for name in of_ana)


async def test_the_oldest_make_room_during_the_move(
    tmp_path: Path, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"limits": {"registration_deliveries": 9, "on_full": "drop_oldest"}}
    async with open_kit(tmp_path, settings=settings) as kit:
        _, sent, go_on = await start_slow_repartition(kit, hookgw_receiver, monkeypatch)
        sent += await emit(kit, 4, first=9)
        await finish(kit, go_on)
        check_arrivals(hookgw_receiver, sent[4:])
        found = await states(kit)
    assert [found[name] for name in sent] == [DeliveryState.DEAD] * 4 + [DeliveryState.DELIVERED] * 9


async def test_a_gateway_that_closes_half_way_goes_on_at_the_next_start(
    tmp_path: Path, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_kit(tmp_path) as kit:
        registration, sent, _ = await start_slow_repartition(kit, hookgw_receiver, monkeypatch)
        sent += await emit(kit, 3, first=9)
    async with open_kit(tmp_path) as kit:
        await kit.emit(KIND, {"remoteJid": "ana"}, event_id="shop-12")
        await wait_for_lanes(kit, registration)
        await kit.settled()
        await kit.advance(60)
        check_arrivals(hookgw_receiver, [*sent, "shop-12"])
        assert len(hookgw_receiver.requests) == len(sent) + 1


def close_lanes(gateway: Gateway) -> None:
    """Begin what the end of a gateway begins with."""
    gateway.registrations._pending.stop()


async def test_a_change_of_lanes_while_the_gateway_closes_is_refused(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    close_lanes(hookgw_gateway.gateway)
    with pytest.raises(Unavailable, match="shutting down"):
        await hookgw_gateway.register(hookgw_receiver.url, **ORDERINGS["chat 8"])
    assert hookgw_gateway.gateway.registrations.get("shop").ordering is Ordering.URL


async def test_a_further_change_of_lanes_that_waits_while_the_gateway_closes_is_refused(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by seed 26899 of the simulator: it was an internal error."""

    async def hang(*_: object) -> None:
        await trio.sleep_forever()

    hookgw_receiver.default = answer(503)
    gateway = hookgw_gateway.gateway
    await hookgw_gateway.register(hookgw_receiver.url)
    await emit(hookgw_gateway, 2)
    await hookgw_gateway.settled()
    monkeypatch.setattr(gateway.store, "repartition_step", hang)
    before = await hookgw_gateway.register(hookgw_receiver.url, **ORDERINGS["chat 8"])
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def change() -> None:
            with pytest.raises(Unavailable, match="shutting down"):
                await hookgw_gateway.register(hookgw_receiver.url, **ORDERINGS["chat 2"])

        await trio.testing.wait_all_tasks_blocked(0.01)
        close_lanes(gateway)
    assert gateway.registrations.get("shop") == before


async def test_a_change_of_lanes_that_the_disk_refuses_changes_nothing(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hookgw_receiver.will(answer(503))
    before = await hookgw_gateway.register(hookgw_receiver.url)
    sent = await emit(hookgw_gateway, 3)
    await hookgw_gateway.settled()
    with monkeypatch.context() as patch:
        patch.setattr(hookgw_gateway.gateway.store, "put_registration", refuse)
        with pytest.raises(StorageUnavailable):
            await hookgw_gateway.register(hookgw_receiver.url, **ORDERINGS["chat 8"])
    assert hookgw_gateway.gateway.registrations.get("shop") == before
    await hookgw_gateway.advance(FIRST_WAIT)
    assert hookgw_receiver.ids == [sent[0], *sent]
    await hookgw_gateway.register(hookgw_receiver.url, **ORDERINGS["chat 8"])
    more = await emit(hookgw_gateway, 3, first=3)
    await hookgw_gateway.settled()
    assert sorted(str(name) for name in hookgw_receiver.ids[4:]) == more


async def test_a_change_of_concurrency_of_ordering_instance_moves_nothing(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    """It changes only how many attempts are made at a time."""
    hookgw_receiver.default = answer(wait=5)
    blocks = [{"url": hookgw_receiver.url, "label": "crm", "concurrency": 2, "ordering": "instance"}]
    names = [f"i{number}" for number in range(5)]
    for concurrency in (2, 4):
        blocks[0]["concurrency"] = concurrency
        async with open_kit(tmp_path, settings={"global_webhooks": blocks}) as kit:
            for name in names:
                if kit.gateway.instances.find(name) is None:
                    await kit.gateway.instances.create(name)
                await kit.emit(KIND, {}, instance=name)
            await hookgw_receiver.wait_for(concurrency)
            await trio.testing.wait_all_tasks_blocked(0.02)
            assert len(hookgw_receiver.requests) == concurrency
            registration = kit.gateway.registrations.by_id("global_crm")
            assert registration is not None
            assert registration.generation == 0
            hookgw_receiver.default = answer()
            hookgw_clock.jump(FIRST_WAIT)
            await kit.settled()
            assert len(hookgw_receiver.requests) == len(names)
        hookgw_receiver.requests.clear()
        hookgw_receiver.default = answer(wait=5)


async def test_a_limit_on_attempts_that_changes_while_lanes_run(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url, ordering=Ordering.INSTANCE, concurrency=1)
    sent = await emit(hookgw_gateway, 2)
    await hookgw_gateway.settled()
    await hookgw_gateway.register(hookgw_receiver.url, ordering=Ordering.INSTANCE, concurrency=3)
    sent += await emit(hookgw_gateway, 2, first=2)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == sent
    assert hookgw_gateway.gateway.registrations.get("shop").generation == 0


# Parked


async def test_a_changed_url_takes_what_is_pending_along_in_its_order(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    async with open_receiver() as old:
        old.default = answer(500)
        await hookgw_gateway.register(old.url)
        ids = await emit(hookgw_gateway, 3)
        await hookgw_gateway.settled()
        await hookgw_gateway.register(hookgw_receiver.url)
        ids += await emit(hookgw_gateway, 3, first=3)
        await hookgw_gateway.advance(6)
    assert old.ids == [ids[0]]
    assert hookgw_receiver.ids == ids


@pytest.mark.parametrize("how", ["delete", "disable"])
async def test_what_is_pending_for_a_registration_that_goes_is_parked(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, how: str
) -> None:
    hookgw_receiver.default = answer(500)
    await hookgw_gateway.register(hookgw_receiver.url)
    ids = await emit(hookgw_gateway, 3)
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
    ids = await emit(hookgw_gateway, 2)
    await hookgw_receiver.wait_for(1)
    await hookgw_gateway.gateway.registrations.delete("shop")
    await hookgw_gateway.gateway.store.flush()
    hookgw_clock.jump(FIRST_WAIT)
    await hookgw_gateway.settled()
    assert await states(hookgw_gateway) == {ids[0]: DeliveryState.DELIVERED, ids[1]: DeliveryState.DEAD}
