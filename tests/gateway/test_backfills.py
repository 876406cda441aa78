"""What a webhook has missed is sent later, in order, through a running gateway on a real disk and wire."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from msgspec import UNSET
from msgspec.structs import replace
from structlog.testing import capture_logs
from trio.testing import MockClock

from hookgw import Conflict, DeliveryState, Event, Invalid, NotFound
from hookgw.store import steps
from hookgw.testing import GatewayKit, Receiver, answer, open_kit
from tests.public.core import DEADLINE, ThisNode
from tests.public.fleet import FleetNode
from tests.public.kernel import StorageUnavailable
from tests.public.records import Condition, DeliverySelection, FilterOp, Job, JobKind, Ordering
from tests.public.store import JobStep
from tests.public.webhooks import BackfillRequest, RegistrationChange
from tests.support.kit import states_in_order as states

pytestmark = pytest.mark.usefixtures("hookgw_clock")

KIND = "CALL"
EVER = BackfillRequest(since=0.0)
ENABLE = RegistrationChange(is_set=False, url=UNSET, events=UNSET, enabled=True)
DISABLE = RegistrationChange(is_set=False, url=UNSET, events=UNSET, enabled=False)


async def emit(kit: GatewayKit, count: int, first: int = 0, kind: str = KIND) -> list[str]:
    return [(await kit.emit(kind, {"n": n})).id for n in range(first, first + count)]


async def backfill(kit: GatewayKit, asked: BackfillRequest = EVER, label: str = "default") -> Job:
    return await kit.gateway.backfills.backfill("shop", label, asked)


async def let_time_pass(kit: GatewayKit) -> None:
    while True:
        await trio.to_thread.run_sync(lambda: None)
        await trio.testing.wait_all_tasks_blocked(0.001)
        kit.clock.jump(0.5)


class Steps:
    """Stops a backfill before its next step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kit: GatewayKit, size: int = 2) -> None:
        self.reached, self.go_on = trio.Event(), trio.Event()
        self._step = kit.gateway.store.backfill_step
        monkeypatch.setattr(steps, "REPLAY_STEP", size)
        monkeypatch.setattr(kit.gateway.store, "backfill_step", self.next_step)

    async def next_step(self, *given: Any, **more: Any) -> JobStep:
        if self.reached.is_set():
            await self.go_on.wait()
        step = await self._step(*given, **more)
        self.reached.set()
        return step


async def test_a_store_that_is_slow_leaves_no_backfill_to_the_next_start(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A write that was requested is done: a caller that was told otherwise would ask again beside it."""
    await hookgw_gateway.gateway.instances.create("shop")
    missed = await emit(hookgw_gateway, 1)
    await hookgw_gateway.register(hookgw_receiver.url)
    store = hookgw_gateway.gateway.store
    begin = store.begin_backfill

    async def begin_late(*args: Any, **kwargs: Any) -> Job:
        begun = await begin(*args, **kwargs)
        hookgw_clock.jump(DEADLINE)
        await trio.lowlevel.checkpoint()
        return begun

    monkeypatch.setattr(store, "begin_backfill", begin_late)
    await backfill(hookgw_gateway)
    await hookgw_receiver.wait_for(1)
    assert hookgw_receiver.ids == missed


async def test_a_new_webhook_gets_the_log_before_anything_newer(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    missed = await emit(hookgw_gateway, 5)
    await hookgw_gateway.register(hookgw_receiver.url)
    steps = Steps(monkeypatch, hookgw_gateway)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(backfill, hookgw_gateway)
        await steps.reached.wait()
        newer = await emit(hookgw_gateway, 3, 10)
        await hookgw_receiver.wait_for(2)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert hookgw_receiver.ids == missed[:2]  # the lane waits at the barrier
        [lane] = hookgw_gateway.gateway.lanes()
        assert (lane.state, lane.waits_for, lane.backlog) == ("idle", "backfill", 3)
        steps.go_on.set()
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [*missed, *newer]
    assert (await backfill(hookgw_gateway)).done == 0


async def test_what_is_pending_comes_first(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    missed = await emit(hookgw_gateway, 2)
    await hookgw_gateway.register(hookgw_receiver.url)
    hookgw_receiver.will(answer(503))
    before = await emit(hookgw_gateway, 2, 5)
    await hookgw_gateway.settled()
    assert (await backfill(hookgw_gateway)).done == 2
    newer = await emit(hookgw_gateway, 1, 9)
    await hookgw_gateway.advance(10)
    assert hookgw_receiver.ids == [before[0], *before, *missed, *newer]


async def test_only_what_the_webhook_wants_now(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    calls = await emit(hookgw_gateway, 4)
    await emit(hookgw_gateway, 2, kind="SEND_MESSAGE")
    positive = Condition("/data/n", FilterOp.NOT_EQUALS, 0)
    await hookgw_gateway.register(hookgw_receiver.url, events=(KIND,), filter=(positive,))
    registration = hookgw_gateway.gateway.registrations.get("shop")
    found = await hookgw_gateway.gateway.backfills.find(registration, EVER)
    assert found.first is not None
    assert found.last is not None
    assert (found.count, found.first.id, found.last.id) == (3, calls[1], calls[3])
    some = BackfillRequest(since=0.0, filter=(Condition("/data/n", FilterOp.IN, (0, 3)),))
    assert (await hookgw_gateway.gateway.backfills.find(registration, some)).count == 1
    with pytest.raises(Invalid, match="does not get SEND_MESSAGE"):
        await backfill(hookgw_gateway, BackfillRequest(since=0.0, kinds=("SEND_MESSAGE",)))
    assert (await backfill(hookgw_gateway, some)).done == 1
    assert (await backfill(hookgw_gateway)).done == 2
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [calls[3], calls[1], calls[2]]
    assert set(await states(hookgw_gateway)) == {DeliveryState.DELIVERED}


async def test_dead_letters_are_merged(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    hookgw_receiver.default = answer(400)
    [first] = await emit(hookgw_gateway, 1)
    await hookgw_gateway.settled()
    await hookgw_gateway.gateway.registrations.update("shop", "default", DISABLE)
    missed = await emit(hookgw_gateway, 2, 1)
    await hookgw_gateway.gateway.registrations.update("shop", "default", ENABLE)
    [last] = await emit(hookgw_gateway, 1, 4)
    await hookgw_gateway.settled()
    hookgw_receiver.default = answer()
    hookgw_receiver.requests.clear()
    assert (await backfill(hookgw_gateway, BackfillRequest(since=0.0, dead=True))).done == 4
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [first, *missed, last]


async def test_enabling_with_what_was_missed(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    await emit(hookgw_gateway, 1)
    await hookgw_gateway.settled()
    registrations = hookgw_gateway.gateway.registrations
    await registrations.update("shop", "default", DISABLE)
    at = registrations.get("shop").disabled_at
    missed = await emit(hookgw_gateway, 3, 5)
    hookgw_receiver.requests.clear()
    stored = await registrations.update("shop", "default", ENABLE, backfill=True)
    newer = await emit(hookgw_gateway, 1, 9)
    assert stored.missed is not None
    assert (stored.missed.count, stored.missed.is_complete) == (3, True)
    assert at is not None
    assert stored.registration.disabled_at == at <= stored.registration.enabled_at
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [*missed, *newer]


async def test_what_is_accepted_while_a_webhook_is_being_enabled_is_sent_too(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backfill looks no further than the call, and the webhook is enabled when the commit ends."""
    await hookgw_gateway.register(hookgw_receiver.url)
    registrations, store = hookgw_gateway.gateway.registrations, hookgw_gateway.gateway.store
    await registrations.update("shop", "default", DISABLE)
    names = await emit(hookgw_gateway, 2)
    begin = store.begin_backfill

    async def emit_more() -> None:
        names.extend(await emit(hookgw_gateway, 2, 2))

    async def begin_beside_events(*args: Any, **kwargs: Any) -> Job:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(emit_more)
            return await begin(*args, **kwargs)

    monkeypatch.setattr(store, "begin_backfill", begin_beside_events)
    await registrations.update("shop", "default", ENABLE, backfill=True)
    names += await emit(hookgw_gateway, 1, 9)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == names


async def test_a_webhook_that_the_disk_does_not_enable_stays_disabled(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    registrations, store = hookgw_gateway.gateway.registrations, hookgw_gateway.gateway.store
    await registrations.update("shop", "default", DISABLE)
    disabled = registrations.get("shop")

    async def refuse(*_: Any, **__: Any) -> Job:
        raise StorageUnavailable("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(store, "begin_backfill", refuse)
        with pytest.raises(StorageUnavailable):
            await registrations.update("shop", "default", ENABLE, backfill=True)
    assert registrations.get("shop") == disabled
    missed = await emit(hookgw_gateway, 1)
    assert not hookgw_receiver.requests
    await registrations.update("shop", "default", ENABLE, backfill=True)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == missed


async def test_enabling_says_what_was_missed_and_it_can_be_sent_later(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    await emit(hookgw_gateway, 2)
    await hookgw_gateway.register(hookgw_receiver.url)
    registrations = hookgw_gateway.gateway.registrations
    await hookgw_gateway.advance(100)
    await hookgw_gateway.register(hookgw_receiver.url, enabled=False)
    missed = await emit(hookgw_gateway, 3, 5)
    await hookgw_gateway.register(hookgw_receiver.url)
    await emit(hookgw_gateway, 1, 9)
    registration = registrations.get("shop")
    found = await hookgw_gateway.gateway.backfills.missed_while_disabled(registration)
    assert found is not None
    assert found.first is not None
    assert (found.count, found.first.id) == (3, missed[0])
    stored = await registrations.update("shop", "default", ENABLE)
    assert stored.missed is None


async def test_what_it_missed_before_it_was_disabled_is_not_counted_and_not_sent(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    """A moment ago, it was enabled without that, and got other kinds."""
    registrations = hookgw_gateway.gateway.registrations
    await hookgw_gateway.register(hookgw_receiver.url, events=["MESSAGES_UPSERT"])
    await emit(hookgw_gateway, 1)
    await registrations.update("shop", "default", DISABLE)
    await registrations.update("shop", "default", replace(ENABLE, events=()))
    await hookgw_gateway.advance(1)
    await registrations.update("shop", "default", DISABLE)
    missed = await emit(hookgw_gateway, 2, 1)
    stored = await registrations.update("shop", "default", ENABLE, backfill=True)
    await hookgw_gateway.settled()
    assert stored.missed is not None
    assert stored.missed.count == 2
    assert hookgw_receiver.ids == missed


async def test_a_clock_that_was_ahead_when_it_was_disabled_or_behind_when_enabled_hides_nothing(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a fleet: one node stores the changes, and another one, whose clock differs, accepts."""
    monkeypatch.setattr(ThisNode, "clocks_apart", FleetNode.clocks_apart)
    registrations, clock = hookgw_gateway.gateway.registrations, hookgw_gateway.gateway.clock
    await hookgw_gateway.gateway.instances.create("shop")
    await emit(hookgw_gateway, 1)
    await hookgw_gateway.advance(30)
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.advance(60)
    skew = FleetNode.clocks_apart - 1
    clock.offset += skew
    await registrations.update("shop", "default", DISABLE)
    clock.offset -= skew
    first = await emit(hookgw_gateway, 2, 1)
    stored = await registrations.update("shop", "default", ENABLE, backfill=True)
    await hookgw_gateway.settled()
    assert stored.missed is not None
    assert stored.missed.count == 2
    assert hookgw_receiver.ids == first
    await registrations.update("shop", "default", DISABLE)
    second = await emit(hookgw_gateway, 2, 3)
    clock.offset -= skew
    await registrations.update("shop", "default", ENABLE)
    clock.offset += skew
    assert (await hookgw_gateway.gateway.backfills.backfill_missed("shop", "default")).done == 2
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [*first, *second]


@pytest.mark.parametrize("enabled", [True, False])
async def test_backfill_goes_with_enabling_alone(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, enabled: bool
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url, enabled=enabled)
    change = DISABLE if not enabled else ENABLE
    with pytest.raises(Invalid, match="backfill needs enabled: true"):
        await hookgw_gateway.gateway.registrations.update("shop", "default", change, backfill=True)


async def test_one_at_a_time_and_none_of_a_disabled_webhook(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = hookgw_gateway.gateway
    await gateway.instances.create("shop")
    with pytest.raises(NotFound, match="no webhook 'default'"):
        await backfill(hookgw_gateway)
    missed = await emit(hookgw_gateway, 4)
    await hookgw_gateway.register(hookgw_receiver.url, enabled=False)
    with pytest.raises(Conflict, match="is disabled"):
        await backfill(hookgw_gateway)
    await hookgw_gateway.register(hookgw_receiver.url)
    steps = Steps(monkeypatch, hookgw_gateway)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(backfill, hookgw_gateway)
        await steps.reached.wait()
        await hookgw_receiver.wait_for(2)
        with pytest.raises(Conflict, match=r"A backfill of this webhook is under way \(job_\w+, 2 so far\)"):
            await backfill(hookgw_gateway)
        steps.go_on.set()
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == missed


@pytest.mark.parametrize("end", ["cancel", "disable", "delete", "delete_instance"])
async def test_what_ends_it(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    gateway = hookgw_gateway.gateway
    await gateway.instances.create("shop")
    missed = await emit(hookgw_gateway, 5)
    await hookgw_gateway.register(hookgw_receiver.url)
    steps = Steps(monkeypatch, hookgw_gateway)
    says: list[str] = []

    async def ask() -> None:
        try:
            says.append("It was cancelled." if (await backfill(hookgw_gateway)).is_cancelled else "")
        except (Conflict, NotFound) as error:
            says.extend(error.messages)

    async def finish() -> None:
        if end == "cancel":
            await gateway.backfills.cancel("shop", "default")
        elif end == "disable":
            await gateway.registrations.update("shop", "default", DISABLE)
        elif end == "delete":
            await gateway.registrations.delete("shop")
        else:
            await gateway.instances.delete("shop")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await steps.reached.wait()
        await hookgw_receiver.wait_for(2)
        newer = await emit(hookgw_gateway, 1, 9)
        nursery.start_soon(finish)
        await trio.testing.wait_all_tasks_blocked(0.01)
        steps.go_on.set()  # the step that has begun is done
    await hookgw_gateway.settled()
    [said] = says
    expected = {
        "cancel": "It was cancelled.",
        "disable": "The webhook was disabled.",
        "delete": "The webhook was deleted.",
        "delete_instance": "The instance was deleted.",
    }
    assert said.startswith(expected[end])
    if end == "cancel":
        assert hookgw_receiver.ids == [*missed[:4], *newer]
        with pytest.raises(Conflict, match="No backfill of this webhook is under way"):
            await gateway.backfills.cancel("shop", "default")
    else:
        assert hookgw_receiver.ids[:2] == missed[:2]
        assert newer[0] not in hookgw_receiver.ids


async def test_a_webhook_that_is_disabled_and_enabled_again_ends_it(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = hookgw_gateway.gateway
    await gateway.instances.create("shop")
    await emit(hookgw_gateway, 5)
    await hookgw_gateway.register(hookgw_receiver.url)
    steps = Steps(monkeypatch, hookgw_gateway)
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(Conflict, match="The webhook was disabled"):
                await backfill(hookgw_gateway)

        async def switch() -> None:
            await gateway.registrations.update("shop", "default", DISABLE)
            await gateway.registrations.update("shop", "default", ENABLE)

        nursery.start_soon(ask)
        await steps.reached.wait()
        nursery.start_soon(switch)
        await trio.testing.wait_all_tasks_blocked(0.01)
        steps.go_on.set()
    newer = await emit(hookgw_gateway, 1, 9)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids[-1] == newer[0]


async def test_it_goes_on_after_a_restart_and_the_barrier_holds(
    tmp_path: Path, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with trio.open_nursery() as nursery, open_kit(tmp_path) as kit:
        await kit.gateway.instances.create("shop")
        missed = await emit(kit, 5)
        await kit.register(hookgw_receiver.url)
        steps = Steps(monkeypatch, kit)

        async def ask() -> None:
            with suppress(Exception):
                await backfill(kit)

        nursery.start_soon(ask)
        await steps.reached.wait()
        newer = await emit(kit, 2, 9)
        await hookgw_receiver.wait_for(2)
    assert hookgw_receiver.ids == missed[:2]
    monkeypatch.undo()
    async with open_kit(tmp_path) as kit:
        await kit.settled()
        assert hookgw_receiver.ids == [*missed, *newer]
        [job] = kit.gateway.jobs.all()
        assert (job.kind, job.done, job.error) == (JobKind.BACKFILL, 5, None)


async def test_a_disk_that_refuses_delays_it_and_the_log_says_so_once(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    missed = await emit(hookgw_gateway, 3)
    await hookgw_gateway.register(hookgw_receiver.url)
    make, refusals = hookgw_gateway.gateway.store.backfill_step, [trio.Event(), trio.Event()]

    async def refuse(*given: Any, **more: Any) -> JobStep:
        for refused in refusals:
            if not refused.is_set():
                refused.set()
                raise StorageUnavailable("The disk is full.")
        return await make(*given, **more)

    monkeypatch.setattr(hookgw_gateway.gateway.store, "backfill_step", refuse)
    with capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(backfill, hookgw_gateway)
            for refused, wait in zip(refusals, (0.5, 1.0), strict=True):
                await refused.wait()
                await trio.testing.wait_all_tasks_blocked()
                hookgw_clock.jump(wait)
            await hookgw_receiver.wait_for(3)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == missed
    told = [one for one in logs if one["event"] == "backfill waits for the disk"]
    assert [(one["instance"], one["reason"]) for one in told] == [("shop", "The disk is full.")]


async def test_it_waits_for_room_and_new_events_cannot_hold_it_up(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    settings = {"limits": {"registration_deliveries": 8}}
    async with open_kit(tmp_path, settings=settings) as kit, trio.open_nursery() as nursery:
        await kit.gateway.instances.create("shop")
        missed = await emit(kit, 30)
        await kit.register(hookgw_receiver.url)
        hookgw_receiver.default = answer(503)
        nursery.start_soon(let_time_pass, kit)
        await backfill(kit)
        with trio.fail_after(3600):
            while kit.gateway.jobs.all()[0].done < 4:  # noqa: ASYNC110
                await trio.sleep(1)
        [job] = kit.gateway.jobs.all()
        assert (job.is_running, job.done) == (True, 4)  # half of the room
        newer = await emit(kit, 4, 90)  # the backlog is full
        hookgw_receiver.default = answer()
        with trio.fail_after(3600):
            while (await states(kit)).count(DeliveryState.DELIVERED) < 34:  # noqa: ASYNC110
                await trio.sleep(1)
        nursery.cancel_scope.cancel()
    received = list(dict.fromkeys(hookgw_receiver.ids))
    assert received == [*missed, *newer]


async def test_a_backlog_that_is_full_of_newer_events_does_not_deadlock(
    tmp_path: Path, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"limits": {"registration_deliveries": 8}}
    async with open_kit(tmp_path, settings=settings) as kit, trio.open_nursery() as nursery:
        await kit.gateway.instances.create("shop")
        missed = await emit(kit, 6)
        await kit.register(hookgw_receiver.url)
        steps = Steps(monkeypatch, kit, 1)
        nursery.start_soon(let_time_pass, kit)
        nursery.start_soon(backfill, kit)
        await steps.reached.wait()
        await hookgw_receiver.wait_for(1)
        await kit.gateway.store.flush()
        newer = await emit(kit, 8, 90)
        steps.go_on.set()
        await hookgw_receiver.wait_for(14)
        nursery.cancel_scope.cancel()
    assert hookgw_receiver.ids == [*missed, *newer]


async def test_a_replay_waits_for_it(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    missed = await emit(hookgw_gateway, 4)
    await hookgw_gateway.register(hookgw_receiver.url)
    hookgw_receiver.default = answer(400)
    dead = await emit(hookgw_gateway, 1, 9)
    await hookgw_gateway.settled()
    hookgw_receiver.default = answer()
    # The first success stores that the webhook works again, and waits for a step to end.
    await emit(hookgw_gateway, 1, 10)
    await hookgw_gateway.settled()
    hookgw_receiver.requests.clear()
    steps = Steps(monkeypatch, hookgw_gateway)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(backfill, hookgw_gateway)
        await steps.reached.wait()
        nursery.start_soon(hookgw_gateway.gateway.deliveries.replay, "shop", DeliverySelection(since=0.0))
        await hookgw_receiver.wait_for(2)
        await trio.testing.wait_all_tasks_blocked(0.01)
        steps.go_on.set()
        await hookgw_receiver.wait_for(4)
        with trio.move_on_after(60):
            await let_time_pass(hookgw_gateway)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [*missed, *dead]


@pytest.mark.parametrize("ordering", [Ordering.CHAT, Ordering.NONE, Ordering.INSTANCE])
async def test_the_barrier_holds_for_each_partition(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    ordering: Ordering,
) -> None:
    await hookgw_gateway.gateway.instances.create("shop")

    async def chat(n: int) -> Event:
        return await hookgw_gateway.emit(KIND, {"n": n, "remoteJid": f"{n % 3}@c"}, event_id=f"e{n}")

    missed = [(await chat(n)).id for n in range(9)]
    await hookgw_gateway.register(hookgw_receiver.url, ordering=ordering, concurrency=4)
    steps = Steps(monkeypatch, hookgw_gateway, 4)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(backfill, hookgw_gateway)
        await steps.reached.wait()
        newer = [(await chat(n)).id for n in range(9, 15)]
        await hookgw_receiver.wait_for(4)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert set(hookgw_receiver.ids) == set(missed[:4])
        steps.go_on.set()
    await hookgw_gateway.settled()
    assert len(hookgw_receiver.ids) == 15
    assert set(hookgw_receiver.ids) == {*missed, *newer}
    if ordering is Ordering.INSTANCE:
        assert hookgw_receiver.ids == [*missed, *newer]
    if ordering is Ordering.CHAT:
        for place in range(3):
            expected = [f"e{n}" for n in range(place, 15, 3)]
            assert [one for one in hookgw_receiver.ids if one in expected] == expected


async def test_a_change_of_the_ordering_meanwhile(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    missed = await emit(hookgw_gateway, 6)
    await hookgw_gateway.register(hookgw_receiver.url, ordering=Ordering.CHAT, concurrency=3)
    steps = Steps(monkeypatch, hookgw_gateway)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(backfill, hookgw_gateway)
        await steps.reached.wait()
        newer = await emit(hookgw_gateway, 2, 9)
        await hookgw_receiver.wait_for(2)

        async def change() -> None:
            await hookgw_gateway.register(hookgw_receiver.url, ordering=Ordering.URL)

        nursery.start_soon(change)
        await trio.testing.wait_all_tasks_blocked(0.01)
        steps.go_on.set()
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [*missed, *newer]


async def test_max_age_counts_from_the_backfill(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    missed = await emit(hookgw_gateway, 1)
    hookgw_gateway.clock.jump(86400 * 2)
    await hookgw_gateway.register(hookgw_receiver.url)
    hookgw_receiver.default = answer(503)
    await backfill(hookgw_gateway)
    await hookgw_gateway.advance(86400 * 2)
    hookgw_receiver.default = answer()
    await hookgw_gateway.advance(600)
    assert set(hookgw_receiver.ids) == set(missed)
    assert await states(hookgw_gateway) == [DeliveryState.DELIVERED]


async def test_global_webhooks_are_left_out(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    async with open_kit(tmp_path) as kit:
        await kit.gateway.instances.create("shop")
        await emit(kit, 2)
    settings = {"global_webhooks": [{"url": hookgw_receiver.url, "label": "all"}]}
    async with open_kit(tmp_path, settings=settings) as kit:
        with pytest.raises(NotFound, match="no webhook 'all'"):
            await backfill(kit, label="all")
        await kit.settled()
    assert hookgw_receiver.ids == []


async def test_an_erasure_comes_first(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would not find what a backfill makes of an event that it has passed."""
    kit, store = hookgw_gateway, hookgw_gateway.gateway.store
    await kit.gateway.instances.create("shop")
    kept, named = [(await kit.emit(KIND, {"key": {"remoteJid": who}})).id for who in ("1@lid", "2@lid")]
    await kit.register(hookgw_receiver.url)
    reached, go_on, find, steps_done = trio.Event(), trio.Event(), store.find_concerned, 0
    step = store.backfill_step

    async def find_later(*given: Any, **more: Any) -> Any:
        reached.set()
        await go_on.wait()
        return await find(*given, **more)

    async def count(*given: Any, **more: Any) -> JobStep:
        nonlocal steps_done
        steps_done += 1
        return await step(*given, **more)

    monkeypatch.setattr(store, "find_concerned", find_later)
    monkeypatch.setattr(store, "backfill_step", count)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kit.gateway.erasures.erase, "shop", "2@lid")
        await reached.wait()
        nursery.start_soon(backfill, kit)
        while kit.gateway.jobs.running(JobKind.BACKFILL, "shop") is None:
            await trio.testing.wait_all_tasks_blocked(0.001)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert steps_done == 0
        go_on.set()
        await trio.testing.wait_all_tasks_blocked(0.01)
        kit.clock.jump(1.1)  # it looks again
        with trio.fail_after(60):
            while kit.gateway.jobs.running(JobKind.BACKFILL, "shop") is not None:
                await kit.advance(1.1)
    await kit.settled()
    assert hookgw_receiver.ids == [kept]
    assert named not in hookgw_receiver.ids
