"""The limits of the backlog, over the real store and real lanes; and that the figures never drift."""

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from hookgw import DeliveryState, Event, HookgwError, NotFound, TooLarge
from hookgw.testing import FakeConnector, GatewayKit, Receiver, answer, hang, open_kit, open_receiver
from tests.public.core import Backlog, BacklogFull, PendingDeliveries, ShareFull
from tests.public.instances import ConnectorSession
from tests.public.kernel import StorageUnavailable
from tests.public.plugins import Boundary, ContainedConnector, check_connector
from tests.public.records import DeliverySelection, Job, Ordering, new_event_id, partition_of
from tests.public.store import DeliveryQuery
from tests.support.disks import refuse
from tests.support.media import EVENT_RULES, inbound_media
from tests.support.waits import FIRST_WAIT

pytestmark = pytest.mark.usefixtures("hookgw_clock")

KIND = "CALL"


def event(number: int = 0, *, instance: str = "shop", event_id: str | None = None) -> Event:
    data = b'{"n":%d}' % number
    return Event(id=event_id or new_event_id(1.0), kind=KIND, instance=instance, data_json=data, time=1.0)


async def deliveries(kit: GatewayKit, state: DeliveryState) -> list[tuple[str, str | None]]:
    """Ids and reasons of those in a state, the oldest first."""
    found = await kit.gateway.store.list_deliveries(DeliveryQuery(instance="shop", state=state, limit=1000))
    return [(delivery.event_id, delivery.reason) for delivery in reversed(found.deliveries)]


async def pending(kit: GatewayKit) -> list[str]:
    return [event_id for event_id, _ in await deliveries(kit, DeliveryState.PENDING)]


@pytest.mark.parametrize(
    ("limits", "named", "status"),
    [
        ({"registration_deliveries": 3}, "limits.registration_deliveries: 3", 429),
        ({"deliveries": 3}, "limits.deliveries: 3", 503),
        (
            {"deliveries": 4, "instance_reserved_deliveries": 0},
            "an instance may hold at most 4 times what is free of limits.deliveries: 4)",
            429,
        ),
    ],
)
async def test_at_a_limit_producers_are_refused_until_there_is_room(
    tmp_path: Path, hookgw_receiver: Receiver, limits: dict[str, int], named: str, status: int
) -> None:
    hookgw_receiver.will(answer(503))
    async with open_kit(tmp_path, settings={"limits": limits}) as kit:
        registration = await kit.register(hookgw_receiver.url)
        for _ in range(3):
            await kit.emit(KIND, {})
        with pytest.raises((BacklogFull, ShareFull)) as refused:
            await kit.emit(KIND, {})
        assert named in str(refused.value)
        assert (registration.id in str(refused.value)) == ("registration" in named)
        assert refused.value.status == status
        assert len(await pending(kit)) == 3
        await kit.advance(2)
        await kit.emit(KIND, {})
        await hookgw_receiver.wait_for(5)


async def test_nothing_of_a_refused_batch_is_kept(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = answer(503)
    async with open_kit(tmp_path, settings={"limits": {"deliveries": 5}}) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.gateway.events.accept([event(n) for n in range(3)])
        refused = [event(n, event_id=f"again{n}") for n in range(3)]
        with pytest.raises(BacklogFull):
            await kit.gateway.events.accept(refused)
        assert len(await pending(kit)) == 3
        receipt = await kit.gateway.events.accept(refused[:2])
        assert receipt.fresh == [True, True]


async def test_an_event_is_refused_for_all_where_one_is_at_its_limit(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    async with (
        open_receiver() as dead,
        open_kit(tmp_path, settings={"limits": {"registration_deliveries": 2}}) as kit,
    ):
        dead.default = answer(503)
        await kit.register(dead.url, label="dead")
        await kit.register(hookgw_receiver.url)
        await kit.register(hookgw_receiver.url, instance="bar")
        ids = [(await kit.emit(KIND, {})).id for _ in range(2)]
        with pytest.raises(ShareFull):
            await kit.emit(KIND, {})
        await kit.emit(KIND, {}, instance="bar", event_id="others")
        await hookgw_receiver.wait_for(3)
        assert hookgw_receiver.ids == [*ids, "others"]


async def test_bytes_are_limited_too(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = answer(503)
    settings = {"limits": {"registration_bytes": "2KiB"}, "events": {"max_data": "2KiB"}}
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.emit(KIND, "x" * 1022)
        with pytest.raises(ShareFull, match="registration_bytes"):
            await kit.emit(KIND, "x" * 1023)
        await kit.emit(KIND, "x" * 1022)
        assert b"hookgw_backlog_bytes 2048.0" in kit.gateway.metrics.render()[0]


SHARED = {"deliveries": 100, "instance_reserved_deliveries": 5}


async def fill(kit: GatewayKit, instance: str) -> int:
    """Emit until the instance is refused; return how many events it has pending then."""
    while True:
        try:
            await kit.gateway.events.accept([event(instance=instance)])
        except ShareFull:
            return kit.gateway.backlog.of_instance(instance)[0]


async def test_one_instance_cannot_fill_the_outbox_for_another(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(503)
    webhooks = [{"url": hookgw_receiver.url, "events": [KIND], "label": "all"}]
    settings = {"limits": SHARED, "global_webhooks": webhooks}
    async with open_kit(tmp_path, settings=settings) as kit:
        for name in ("loud", "quiet", "other"):
            await kit.register(hookgw_receiver.url, instance=name, events=(KIND,))
        # Each event counts twice: what goes to the global webhook counts towards the event's instance, too.
        assert await fill(kit, "loud") == 80
        assert await fill(kit, "other") == 10
        for _ in range(2):
            await kit.emit(KIND, {}, instance="quiet")


async def test_what_a_deleted_instance_left_is_not_a_later_ones(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(503)
    settings = {
        "limits": {**SHARED, "tags": {"tenant": {"deliveries": 20}}},
        "global_webhooks": [{"url": hookgw_receiver.url, "events": [KIND], "label": "all"}],
    }
    async with open_kit(tmp_path, settings=settings) as kit:
        gateway = kit.gateway
        await kit.register(hookgw_receiver.url, events=(KIND,))
        assert await fill(kit, "shop") == 80
        await gateway.instances.delete("shop")
        assert gateway.backlog.count == 40
        await gateway.instances.create("shop", tags={"tenant": "acme"})
        assert gateway.backlog.of_instance("shop") == (0, 0)
        assert gateway.backlog.of_tag("tenant", "acme") == (0, 0)
        assert await fill(kit, "shop") == 20
    async with open_kit(tmp_path, settings=settings) as kit:
        assert kit.gateway.backlog.count == 60
        assert kit.gateway.backlog.of_instance("shop")[0] == 20
        hookgw_receiver.default = answer()
        await kit.gateway.instances.delete("shop")
        seen = len(hookgw_receiver.requests)
        await kit.advance(3600)
        await hookgw_receiver.wait_for(seen + 60)
        await kit.settled()
        assert list(kit.gateway.backlog.instances()) == []
        assert kit.gateway.backlog.count == 0


async def test_what_is_pending_stays_when_the_share_becomes_smaller(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(503)
    settings = {"limits": {**SHARED, "on_full": "drop_oldest"}}
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.register(hookgw_receiver.url, instance="other")
        first = [event(n) for n in range(80)]
        await kit.gateway.events.accept(first)
        await kit.gateway.events.accept([event(n, instance="other") for n in range(10)])
        await kit.settled()
        assert await pending(kit) == [one.id for one in first]
        # From now on, more than it emits: it holds far more than its share. No more than this either.
        await kit.gateway.events.accept([event(event_id="late")])
        left = await pending(kit)
        assert left == [*(one.id for one in first[len(first) + 1 - len(left) :]), "late"]
        assert len(left) == 72


async def test_a_batch_that_alone_is_over_a_limit_never_passes(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    async with open_kit(tmp_path, settings={"limits": {"deliveries": 2, "on_full": "drop_oldest"}}) as kit:
        await kit.register(hookgw_receiver.url)
        with pytest.raises(TooLarge, match=r"limits\.deliveries"):
            await kit.gateway.events.accept([event(n) for n in range(3)])


async def test_a_duplicate_and_a_disk_that_refuses_take_no_room(
    tmp_path: Path, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hookgw_receiver.default = answer(503)
    async with open_kit(tmp_path, settings={"limits": {"deliveries": 3}}) as kit:
        await kit.register(hookgw_receiver.url)
        first = event(event_id="same")
        receipt = await kit.gateway.events.accept([first, first])
        assert receipt.fresh == [True, False]
        await kit.gateway.events.accept([first, event()])

        monkeypatch.setattr(kit.gateway.store, "append", refuse)
        with pytest.raises(StorageUnavailable):
            await kit.gateway.events.accept([event()])
        monkeypatch.undo()
        await kit.gateway.events.accept([event()])
        with pytest.raises(BacklogFull):
            await kit.gateway.events.accept([event()])
        assert len(await pending(kit)) == 3


async def test_what_is_pending_at_the_start_counts(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = answer(503)
    settings = {"limits": {"deliveries": 3}}
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.gateway.events.accept([event(n) for n in range(2)])
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.emit(KIND, {})
        with pytest.raises(BacklogFull):
            await kit.emit(KIND, {})


async def test_a_connector_is_held_back(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(answer(503))
    async with (
        open_kit(tmp_path, settings={"limits": {"deliveries": 1}}) as kit,
        trio.open_nursery() as nursery,
    ):
        await kit.register(hookgw_receiver.url)
        unused: Any = None
        instance = kit.gateway.instances.get("shop")
        session = ConnectorSession(
            instance,
            ContainedConnector(check_connector(FakeConnector()), "mine", Boundary()),
            kit.gateway.events.accept,
            unused,
            kit.gateway.clock,
            unused,
            unused,
            inbound_media(),
            EVENT_RULES,
        )
        await session.emit(KIND, {}, event_id="first")
        nursery.start_soon(lambda: session.emit(KIND, {}, event_id="second"))
        await trio.testing.wait_all_tasks_blocked()
        assert await pending(kit) == ["first"]
        await kit.advance(2)
        assert hookgw_receiver.ids == ["first", "first"]
        hookgw_clock.jump(FIRST_WAIT)
        await hookgw_receiver.wait_for(3)
    assert hookgw_receiver.ids[2:] == ["second"]


async def test_the_oldest_make_room_where_they_may(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.will(answer(503))
    settings = {"limits": {"registration_deliveries": 5, "on_full": "drop_oldest"}}
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        ids = [(await kit.emit(KIND, {})).id for _ in range(5)]
        await kit.settled()
        ids += [(await kit.emit(KIND, {})).id for _ in range(2)]
        batch = [event(n) for n in range(2)]
        await kit.gateway.events.accept(batch)
        ids += [one.id for one in batch]
        dead = await deliveries(kit, DeliveryState.DEAD)
        assert [event_id for event_id, _ in dead] == ids[:4]
        assert {reason for _, reason in dead} == {
            "Dropped as the oldest: the backlog had reached limits.registration_deliveries (5)."
        }
        await kit.advance(2)
        await hookgw_receiver.wait_for(6)
        assert hookgw_receiver.ids == [ids[0], *ids[4:]]


async def test_room_is_made_in_steps_where_one_is_not_enough(
    tmp_path: Path, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.store.steps.STEP", 3)
    hookgw_receiver.default = answer(503)
    settings = {"limits": {"deliveries": 10, "on_full": "drop_oldest"}}
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.gateway.events.accept([event(n) for n in range(10)])
        await kit.settled()
        batch = [event(n) for n in range(8)]
        await kit.gateway.events.accept(batch)
        assert (await pending(kit))[2:] == [one.id for one in batch]
        assert len(await pending(kit)) == 10


async def test_bytes_make_room_too(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = answer(503)
    settings = {"limits": {"bytes": "4KiB", "on_full": "drop_oldest"}, "events": {"max_data": "4KiB"}}
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        ids = [(await kit.emit(KIND, "x" * 1022)).id for _ in range(4)]
        await kit.settled()
        await kit.emit(KIND, "x" * 2046, event_id="large")
        assert await pending(kit) == [*ids[2:], "large"]


async def test_no_instance_makes_room_for_another(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = answer(503)
    settings = {"limits": {"deliveries": 5, "on_full": "drop_oldest"}}
    async with open_receiver() as dead, open_kit(tmp_path, settings=settings) as kit:
        dead.default = answer(503)
        await kit.register(dead.url, instance="large")
        await kit.register(hookgw_receiver.url)
        first = event()
        await kit.gateway.events.accept([first])
        await kit.gateway.events.accept([event(n, instance="large") for n in range(4)])
        await kit.settled()
        second = event()
        await kit.gateway.events.accept([second])
        assert await pending(kit) == [second.id]
        found = await kit.gateway.store.list_deliveries(DeliveryQuery(instance="large"))
        assert [one.state for one in found.deliveries] == ["pending"] * 4
        await kit.register(hookgw_receiver.url, instance="quiet")
        with pytest.raises(BacklogFull):
            await kit.emit(KIND, {}, instance="quiet")


async def test_the_largest_registration_of_the_instance_makes_room_and_no_more_than_is_needed(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(503)
    limits = {"deliveries": 500, "instance_reserved_deliveries": 0, "on_full": "drop_oldest"}
    async with open_kit(tmp_path, settings={"limits": limits}) as kit:
        few = await kit.register(hookgw_receiver.url, label="few", events=("PRESENCE_UPDATE",))
        many = await kit.register(hookgw_receiver.url, label="many", events=(KIND,))
        await kit.emit("PRESENCE_UPDATE", {})
        await kit.gateway.events.accept([event(n) for n in range(399)])
        await kit.settled()
        for left in (398, 397):
            await kit.gateway.events.accept([event(), event()])
            backlog = kit.gateway.backlog
            assert backlog.of(few.id)[0] == 1
            assert backlog.of(many.id)[0] == 399
            assert len(await deliveries(kit, DeliveryState.DEAD)) == 2 * (399 - left)


async def test_making_room_holds_up_no_other_instance(
    tmp_path: Path, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hookgw_receiver.default = answer(503)
    settings = {
        "limits": {"deliveries": 10, "instance_reserved_deliveries": 0, "on_full": "drop_oldest"},
        "global_webhooks": [{"url": hookgw_receiver.url, "label": "all"}],
    }
    making, made = trio.Event(), trio.Event()
    async with open_kit(tmp_path, settings=settings) as kit:
        store, drop = kit.gateway.store, kit.gateway.store.drop_oldest

        async def slowly(*given: Any, **named: Any) -> tuple[int, int]:
            making.set()
            await made.wait()
            return await drop(*given, **named)

        monkeypatch.setattr(store, "drop_oldest", slowly)
        for name in ("loud", "other"):
            await kit.gateway.instances.create(name)
        await kit.gateway.events.accept([event(n, instance="loud") for n in range(8)])
        await kit.settled()
        seen = len(hookgw_receiver.requests)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kit.gateway.events.accept, [event(instance="loud")])
            await making.wait()
            hookgw_receiver.default = answer()
            other = event(instance="other")
            await kit.gateway.events.accept([other])
            await hookgw_receiver.wait_for(seen + 1)
            assert hookgw_receiver.ids[seen:] == [other.id]
            made.set()


async def test_what_is_on_the_wire_is_spared_and_then_there_is_no_room(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.default = hang()
    settings = {"limits": {"registration_deliveries": 1, "on_full": "drop_oldest"}}
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        first = await kit.emit(KIND, {})
        await hookgw_receiver.wait_for(1)
        with pytest.raises(ShareFull):
            await kit.emit(KIND, {})
        assert await pending(kit) == [first.id]
        hookgw_receiver.default = answer(503)
        hookgw_clock.jump(30)
        await trio.testing.wait_all_tasks_blocked()
        await kit.settled()
        second = await kit.emit(KIND, {})
        assert await pending(kit) == [second.id]


async def test_what_waits_for_room_goes_where_its_registration_is_by_then(
    tmp_path: Path, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While room is made its lanes change, and all that is pending has moved before the event goes in."""
    making, made = trio.Event(), trio.Event()
    drop = PendingDeliveries.drop_oldest

    async def slowly(self: PendingDeliveries, *given: Any, **named: Any) -> tuple[int, int]:
        dropped = await drop(self, *given, **named)
        making.set()
        await made.wait()
        return dropped

    monkeypatch.setattr(PendingDeliveries, "drop_oldest", slowly)
    settings = {"limits": {"registration_deliveries": 2, "on_full": "drop_oldest"}}
    async with open_receiver() as old, open_kit(tmp_path, settings=settings) as kit:
        old.default = hookgw_receiver.default = answer(503)
        await kit.register(old.url)
        await kit.gateway.events.accept([event(n) for n in range(2)])
        await kit.settled()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kit.gateway.events.accept, [event(event_id="late")])
            await making.wait()
            await kit.register(hookgw_receiver.url, ordering=Ordering.CHAT, concurrency=2)
            await kit.settled()
            made.set()
        backlog = await kit.gateway.store.pending_lanes()
        assert [(partition_of(lane.lane) is None, lane.count) for lane in backlog] == [(False, 2)]


async def test_what_waits_for_room_is_refused_where_its_instance_is_deleted_meanwhile(
    tmp_path: Path, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hookgw_receiver.default = answer(503)
    settings = {"limits": {"registration_deliveries": 1, "on_full": "drop_oldest"}}
    drop = PendingDeliveries.drop_oldest
    kits: list[GatewayKit] = []

    async def deleting(self: PendingDeliveries, *given: Any, **named: Any) -> tuple[int, int]:
        dropped = await drop(self, *given, **named)
        await kits[0].gateway.instances.delete("shop")
        return dropped

    monkeypatch.setattr(PendingDeliveries, "drop_oldest", deleting)
    async with open_kit(tmp_path, settings=settings) as kit:
        kits.append(kit)
        await kit.register(hookgw_receiver.url)
        await kit.emit(KIND, {})
        await kit.settled()
        with pytest.raises(NotFound):
            await kit.emit(KIND, {})
        await kit.register(hookgw_receiver.url)
        assert await pending(kit) == []


async def test_producers_that_come_at_once_keep_the_limit_together(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(503)
    settings = {"limits": {"registration_deliveries": 10, "on_full": "drop_oldest"}}
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.gateway.events.accept([event(n) for n in range(10)])
        await kit.settled()
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(kit.gateway.events.accept, [event(number)])
        assert len(await pending(kit)) == 10
        assert len(await deliveries(kit, DeliveryState.DEAD)) == 20


async def dead_letters(kit: GatewayKit, receiver: Receiver, count: int) -> None:
    """Let so many deliveries be refused, and then find the receiver down."""
    receiver.default = answer(422)
    for _ in range(count):
        await kit.gateway.events.accept([event()])
        await kit.settled()
    receiver.default = answer(503)


async def let_time_pass(kit: GatewayKit) -> None:
    """Move the clock on and on, but not while an attempt or a commit is under way."""
    while True:
        await kit.advance(1)


async def done(kit: GatewayKit, job: Job, count: int) -> Job:
    """Wait until a job has handled so many deliveries; return it once nothing of it is left to do now."""
    with trio.fail_after(3600):
        while (found := kit.gateway.jobs.find(job.id)) is None or found.done < count:  # noqa: ASYNC110
            await trio.sleep(1)
        await trio.sleep(10)
    return kit.gateway.jobs.find(job.id) or found


async def test_a_replay_waits_for_room_and_leaves_half_of_it(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    settings = {"limits": {"registration_deliveries": 8}}
    async with open_kit(tmp_path, settings=settings) as kit, trio.open_nursery() as nursery:
        await kit.register(hookgw_receiver.url)
        await dead_letters(kit, hookgw_receiver, 12)
        replays = kit.gateway.deliveries
        nursery.start_soon(let_time_pass, kit)
        job = await replays.replay("shop", DeliverySelection(since=0.0))
        await done(kit, job, 4)
        await trio.sleep(10)
        assert len(await pending(kit)) == 4
        # Room for new events is left.
        await kit.gateway.events.accept([event(n) for n in range(4)])
        with pytest.raises(ShareFull):
            await kit.emit(KIND, {})
        hookgw_receiver.default = answer()
        assert not (await done(kit, job, 12)).is_running
        nursery.cancel_scope.cancel()


async def test_a_replay_that_has_no_room_at_all_goes_on_after_a_restart(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    settings = {"limits": {"registration_deliveries": 8}}
    async with open_kit(tmp_path, settings=settings) as kit, trio.open_nursery() as nursery:
        await kit.register(hookgw_receiver.url)
        await dead_letters(kit, hookgw_receiver, 3)
        await kit.gateway.events.accept([event(n) for n in range(8)])
        nursery.start_soon(let_time_pass, kit)
        job = await kit.gateway.deliveries.replay("shop", DeliverySelection(since=0.0))
        assert (job.is_running, job.done) == (True, 0)
        nursery.cancel_scope.cancel()
    hookgw_receiver.default = answer()
    async with open_kit(tmp_path, settings=settings) as kit, trio.open_nursery() as nursery:
        nursery.start_soon(let_time_pass, kit)
        assert (await done(kit, job, 3)).done == 3
        nursery.cancel_scope.cancel()


async def test_a_replay_of_one_instance_leaves_room_for_the_others(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    settings = {"limits": {"deliveries": 40, "instance_reserved_deliveries": 2}}
    async with open_kit(tmp_path, settings=settings) as kit, trio.open_nursery() as nursery:
        await kit.register(hookgw_receiver.url)
        await kit.register(hookgw_receiver.url, instance="other")
        await dead_letters(kit, hookgw_receiver, 30)
        nursery.start_soon(let_time_pass, kit)
        job = await kit.gateway.deliveries.replay("shop", DeliverySelection(since=0.0))
        # Half of what is free, without the last tenth.
        await done(kit, job, 18)
        await trio.sleep(10)
        assert len(await pending(kit)) == 18
        assert await fill(kit, "other") == 17
        nursery.cancel_scope.cancel()


async def test_a_resend_is_refused_at_a_limit(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    settings = {"limits": {"registration_deliveries": 3, "on_full": "drop_oldest"}}
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        await dead_letters(kit, hookgw_receiver, 2)
        await kit.gateway.events.accept([event(n) for n in range(2)])
        await kit.gateway.deliveries.resend("shop", "dlv_1")
        with pytest.raises(ShareFull) as refused:
            await kit.gateway.deliveries.resend("shop", "dlv_2")
        assert refused.value.status == 429
        assert len(await pending(kit)) == 3
        assert figures(kit.gateway.backlog) == await on_disk(kit)


def figures(backlog: Backlog) -> dict[str, dict[str, tuple[int, int]]]:
    return {
        "total": {"": (backlog.count, backlog.size)},
        "registrations": {name: backlog.of(name) for name, _ in backlog.registrations()},
        "instances": dict(backlog.instances()),
        "parts": {
            f"{registration} {instance}": (part.count, part.size)
            for instance, one in backlog._instances.items()
            for registration, part in one.parts.items()
            if part.count
        },
    }


async def on_disk(kit: GatewayKit) -> dict[str, dict[str, tuple[int, int]]]:
    """The same, counted in the outbox."""
    found: dict[str, Counter[str]] = {}
    sizes: dict[str, Counter[str]] = {}
    for (registration, stored), (count, size) in (await kit.gateway.store.pending_counts()).items():
        instance = stored.partition(" ")[0]
        counted = [("total", ""), ("registrations", registration)]
        if instance != "*":
            counted += [("instances", instance), ("parts", f"{registration} {instance}")]
        for kind, name in counted:
            found.setdefault(kind, Counter())[name] += count
            sizes.setdefault(kind, Counter())[name] += size
    empty: dict[str, dict[str, tuple[int, int]]] = {
        "total": {"": (0, 0)},
        "registrations": {},
        "instances": {},
        "parts": {},
    }
    return empty | {
        kind: {name: (count, sizes[kind][name]) for name, count in counts.items()}
        for kind, counts in found.items()
    }


class Script:
    """Random things that happen to a gateway."""

    def __init__(self, kit: GatewayKit, receivers: list[Receiver], chance: random.Random) -> None:
        self.kit = kit
        self.chance = chance
        self.receivers = receivers

    async def run(self, steps: int) -> None:
        doings: list[Callable[[], Any]] = [
            self.emit,
            self.emit,
            self.emit,
            self.register,
            self.delete,
            self.replay,
            self.resend,
            self.turn,
            self.wait,
        ]
        for _ in range(steps):
            try:
                await self.chance.choice(doings)()
            except HookgwError:
                continue

    async def emit(self) -> None:
        known = [event(n, event_id=f"id{self.chance.randrange(60)}") for n in range(self.chance.randrange(4))]
        await self.kit.gateway.events.accept([*known, event()])

    async def register(self) -> None:
        chosen = self.chance.choice(self.receivers)
        await self.kit.register(
            chosen.url,
            label=self.chance.choice("ab"),
            enabled=self.chance.random() < 0.8,
            ordering=self.chance.choice([Ordering.URL, Ordering.NONE]),
            concurrency=2,
        )

    async def delete(self) -> None:
        await self.kit.gateway.registrations.delete("shop", self.chance.choice("ab"))

    async def replay(self) -> None:
        replay = DeliverySelection(since=0.0, state=self.chance.choice(["dead", "all"]))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(let_time_pass, self.kit)  # it may wait for room
            with suppress(HookgwError):
                await self.kit.gateway.deliveries.replay("shop", replay)
            # The clock must not stop during a step: the rest after it would never end, nor others begin.
            async with self.kit.gateway.jobs.turn("another"):
                nursery.cancel_scope.cancel()

    async def resend(self) -> None:
        await self.kit.gateway.deliveries.resend("shop", f"dlv_{self.chance.randrange(1, 50)}")

    async def turn(self) -> None:
        statuses = [200, 200, 422, 500, 503, 410]
        self.chance.choice(self.receivers).default = answer(self.chance.choice(statuses))

    async def wait(self) -> None:
        await self.kit.advance(self.chance.choice([1, 10, 100]))


@pytest.mark.parametrize("seed", range(6))
async def test_the_figures_are_those_of_the_disk_after_anything(
    tmp_path: Path,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    # A job must not rest on a clock that stands still.
    monkeypatch.setattr("hookgw.core.jobs.MOST_REST", 0.0)
    settings = {
        "limits": {"registration_deliveries": 12, "on_full": ["refuse", "drop_oldest"][seed % 2]},
        "operations": {"url": hookgw_receiver.url, "backlog_threshold": 4},
    }
    async with open_receiver() as second, open_kit(tmp_path, settings=settings) as kit:
        script = Script(kit, [hookgw_receiver, second], random.Random(seed))
        await script.register()
        for _ in range(4):
            await script.run(25)
            await kit.settled()
            await kit.gateway.operational._to_url.wait_empty()  # what is on its way to the disk
            await kit.settled()
            for _ in range(100):
                if figures(kit.gateway.backlog) == await on_disk(kit):
                    break  # no step of a replay holds room
                await trio.testing.wait_all_tasks_blocked(0.005)
            assert figures(kit.gateway.backlog) == await on_disk(kit)
