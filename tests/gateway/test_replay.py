"""Deliveries sent again, through a running gateway on a real disk and a real wire."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
import trio
import trio.testing
from trio.testing import MockClock

from hookgw import Conflict, DeliveryState, NotFound, Unavailable
from hookgw.core import jobs
from hookgw.store import steps
from hookgw.testing import GatewayKit, Receiver, answer, open_kit
from tests.public.kernel import StorageUnavailable
from tests.public.records import NO_INSTANCE, DeliverySelection, JobKind, JobOrder
from tests.public.store import AuditQuery, JobStep
from tests.support.kit import states_in_order as states
from tests.support.waits import FIRST_WAIT

pytestmark = pytest.mark.usefixtures("hookgw_clock")

KIND = "CALL"
EVER = DeliverySelection(since=0.0)
ALL = DeliverySelection(since=0.0, state="all")


async def dead_letters(kit: GatewayKit, receiver: Receiver, count: int) -> list[str]:
    """Events that the receiver refused for good; it takes what comes from then on."""
    await kit.register(receiver.url)
    receiver.default = answer(400)
    ids = [(await kit.emit(KIND, {"n": n})).id for n in range(count)]
    await kit.settled()
    receiver.default = answer()
    receiver.requests.clear()
    assert await states(kit) == [DeliveryState.DEAD] * count
    return ids


# One


async def test_a_dead_letter_is_sent_again_with_its_id_and_bytes(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    hookgw_receiver.will(answer(400))
    event = await hookgw_gateway.emit(KIND, {"n": 1})
    await hookgw_gateway.settled()
    summary = await hookgw_gateway.gateway.deliveries.resend("shop", event.id)
    assert summary.event_id == event.id
    await hookgw_gateway.settled()
    first, second = hookgw_receiver.requests
    assert (first.event_id, first.body) == (second.event_id, second.body)
    assert second.header("x-attempt") == "2"
    assert await states(hookgw_gateway) == [DeliveryState.DELIVERED]


async def test_a_delivered_one_is_sent_again_behind_what_waits(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    done = await hookgw_gateway.emit(KIND, {"n": 1})
    await hookgw_gateway.settled()
    hookgw_receiver.will(answer(503))
    waiting = await hookgw_gateway.emit(KIND, {"n": 2})
    await hookgw_gateway.settled()
    summary = await hookgw_gateway.gateway.deliveries.resend("shop", "dlv_1")
    assert (summary.id, summary.state) == ("dlv_1", DeliveryState.PENDING)
    later = await hookgw_gateway.emit(KIND, {"n": 3})
    await hookgw_gateway.advance(FIRST_WAIT)
    assert hookgw_receiver.ids == [done.id, waiting.id, waiting.id, done.id, later.id]


async def test_what_is_pending_is_not_sent_twice(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    hookgw_receiver.will(answer(503))
    event = await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    with pytest.raises(Conflict, match="still pending"):
        await hookgw_gateway.gateway.deliveries.resend("shop", event.id)
    await hookgw_gateway.advance(FIRST_WAIT)
    assert len(hookgw_receiver.requests) == 2


async def test_where_there_is_nowhere_to_send_it(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    (event_id,) = await dead_letters(hookgw_gateway, hookgw_receiver, 1)
    gateway = hookgw_gateway.gateway
    await hookgw_gateway.register(hookgw_receiver.url, enabled=False)
    with pytest.raises(Conflict, match="is disabled: enable it first"):
        await gateway.deliveries.resend("shop", event_id)
    assert (await gateway.deliveries.replay("shop", ALL)).done == 0
    await gateway.registrations.delete("shop")
    with pytest.raises(Conflict, match="was deleted"):
        await gateway.deliveries.resend("shop", event_id)
    assert (await gateway.deliveries.replay("shop", ALL)).done == 0
    assert await states(hookgw_gateway) == [DeliveryState.DEAD]


async def test_it_goes_to_where_the_registration_points_now(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    ids = await dead_letters(hookgw_gateway, hookgw_receiver, 2)
    await hookgw_gateway.register(f"{hookgw_receiver.url}new")
    await hookgw_gateway.gateway.deliveries.resend("shop", ids[1])
    await hookgw_gateway.settled()
    assert (await hookgw_gateway.gateway.deliveries.replay("shop", EVER)).done == 1
    await hookgw_gateway.settled()
    assert [(request.target, request.event_id) for request in hookgw_receiver.requests] == [
        ("/new", ids[1]),
        ("/new", ids[0]),
    ]


@pytest.mark.parametrize("name", ["dlv_99", "nothing"])
async def test_what_does_not_exist(name: str, hookgw_gateway: GatewayKit) -> None:
    gateway = hookgw_gateway.gateway
    with pytest.raises(NotFound, match=NO_INSTANCE(name="shop")):
        await gateway.deliveries.resend("shop", name)
    with pytest.raises(NotFound, match=NO_INSTANCE(name="shop")):
        await gateway.deliveries.replay("shop", EVER)
    await gateway.instances.create("shop")
    with pytest.raises(NotFound, match=f"no delivery '{name}'"):
        await gateway.deliveries.resend("shop", name)
    with pytest.raises(NotFound, match="no webhook 'crm'"):
        await gateway.deliveries.replay("shop", DeliverySelection(since=0.0, label="crm"))


# Many


async def test_dead_letters_come_in_their_original_order(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "REPLAY_STEP", 3)
    ids = await dead_letters(hookgw_gateway, hookgw_receiver, 10)
    last = await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.settled()
    with structlog.testing.capture_logs() as logs:
        assert (await hookgw_gateway.gateway.deliveries.replay("shop", EVER)).done == 10
    (log,) = [log for log in logs if log["event"] == "job ended"]
    assert (log["kind"], log["instance"], log["done"]) == ("replay", "shop", 10)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == [last.id, *ids]
    assert (await hookgw_gateway.gateway.deliveries.replay("shop", EVER)).done == 0
    assert (await hookgw_gateway.gateway.deliveries.replay("shop", ALL)).done == 11


async def test_the_choice_of_deliveries(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.register(f"{hookgw_receiver.url}crm", label="crm")
    now = hookgw_gateway.gateway.clock.wall()
    await hookgw_gateway.emit(KIND, {})
    await hookgw_gateway.advance(100)
    await hookgw_gateway.emit("SEND_MESSAGE", {})
    await hookgw_gateway.settled()
    choices = {
        ALL: 4,
        DeliverySelection(since=now + 50, state="all"): 2,
        DeliverySelection(since=now, until=now + 50, state="all"): 2,
        DeliverySelection(since=now, state="all", kinds=(KIND,)): 2,
        DeliverySelection(since=now, state="all", label="crm"): 2,
        DeliverySelection(since=now, state="all", label="crm", kinds=(KIND,)): 1,
        EVER: 0,
    }
    for choice, count in choices.items():
        assert (await hookgw_gateway.gateway.deliveries.replay("shop", choice)).done == count, choice
        await hookgw_gateway.settled()


async def test_global_webhooks_take_part_unless_a_label_is_named(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    settings = {"global_webhooks": [{"url": hookgw_receiver.url}]}
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(f"{hookgw_receiver.url}own")
        await kit.emit(KIND, {})
        await kit.settled()
        assert (await kit.gateway.deliveries.replay("shop", ALL)).done == 2
        await kit.settled()
        assert (
            await kit.gateway.deliveries.replay(
                "shop", DeliverySelection(since=0.0, state="all", label="default")
            )
        ).done == 1
        await kit.settled()
    assert sorted(request.target for request in hookgw_receiver.requests) == [
        "/",
        "/",
        "/own",
        "/own",
        "/own",
    ]


async def recover(kit: GatewayKit, receiver: Receiver) -> None:
    """Deliver one event, so that no later success has to store that the registration works again."""
    await kit.emit(KIND, {})
    await kit.settled()
    receiver.requests.clear()


class Steps:
    """Stops a replay after its first step, which holds the lock of the instance's changes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kit: GatewayKit) -> None:
        self.reached, self.go_on = trio.Event(), trio.Event()
        self.step = kit.gateway.store.replay_step
        monkeypatch.setattr(steps, "REPLAY_STEP", 2)
        monkeypatch.setattr(kit.gateway.store, "replay_step", self.next_step)

    async def next_step(self, *given: Any, **more: Any) -> JobStep:
        if self.reached.is_set():
            await self.go_on.wait()
        step = await self.step(*given, **more)
        self.reached.set()
        return step


async def test_who_goes_away_does_not_stop_it(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await dead_letters(hookgw_gateway, hookgw_receiver, 5)
    await recover(hookgw_gateway, hookgw_receiver)
    steps = Steps(monkeypatch, hookgw_gateway)
    gateway = hookgw_gateway.gateway
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gateway.deliveries.replay, "shop", EVER)
        await steps.reached.wait()
        await hookgw_receiver.wait_for(2)
        with pytest.raises(Conflict, match=r"under way \(job_\w+, 2 so far\)"):
            await gateway.deliveries.replay("shop", EVER)
        nursery.cancel_scope.cancel()
    steps.go_on.set()
    await hookgw_receiver.wait_for(5)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == ids
    assert (await gateway.deliveries.replay("shop", EVER)).done == 0


async def test_a_gateway_that_closes_says_how_far_it_came_and_goes_on_at_the_next_start(
    tmp_path: Path, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    async def replay(kit: GatewayKit) -> None:
        with pytest.raises(Unavailable) as caught:
            await kit.gateway.deliveries.replay("shop", EVER)
        said.extend(caught.value.messages)

    async with trio.open_nursery() as nursery, open_kit(tmp_path) as kit:
        ids = await dead_letters(kit, hookgw_receiver, 5)
        await recover(kit, hookgw_receiver)
        steps = Steps(monkeypatch, kit)
        nursery.start_soon(replay, kit)
        await steps.reached.wait()
        await hookgw_receiver.wait_for(2)
    assert said == [
        "The gateway is closing. 2 deliveries were handled before that; the rest follows at the next start."
    ]
    monkeypatch.undo()
    async with open_kit(tmp_path) as kit:
        await hookgw_receiver.wait_for(5)
        (job,) = kit.gateway.jobs.all()
        while job.is_running:
            await trio.testing.wait_all_tasks_blocked(0.001)
            (job,) = kit.gateway.jobs.all()
        assert (job.kind, job.done) == (JobKind.REPLAY, 5)
        await kit.settled()
    assert hookgw_receiver.ids == ids


async def test_a_replay_that_a_caller_knows_is_stored_while_it_waits_for_another_one(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await dead_letters(hookgw_gateway, hookgw_receiver, 5)
    await recover(hookgw_gateway, hookgw_receiver)
    steps = Steps(monkeypatch, hookgw_gateway)
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0)
    gateway = hookgw_gateway.gateway
    first = await gateway.deliveries.replay("shop", EVER)
    several = msgspec.structs.replace(EVER, instances=("shop",))
    second = await gateway.deliveries.replay_in(["shop"], several, without_global=False, caller=None)
    assert second is not None
    assert second.is_running
    assert {first.id, second.id} <= (await gateway.store.load_jobs()).keys()
    entries = (await gateway.audit.list(AuditQuery(action="delivery.replay"))).entries
    assert [entry.details["job"] for entry in entries] == [second.id, first.id]
    steps.go_on.set()
    await hookgw_receiver.wait_for(5)
    while gateway.jobs.running(JobKind.REPLAY, "shop"):
        await trio.testing.wait_all_tasks_blocked(0.001)
    assert hookgw_receiver.ids == ids


async def test_a_disk_that_refuses_at_once_starts_nothing(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await dead_letters(hookgw_gateway, hookgw_receiver, 3)

    async def refuse(*_: Any, **__: Any) -> JobStep:
        raise StorageUnavailable("The disk is full.", retry_after=7)

    monkeypatch.setattr(hookgw_gateway.gateway.store, "replay_step", refuse)
    with pytest.raises(Unavailable, match=r"The disk is full\.") as caught:
        await hookgw_gateway.gateway.deliveries.replay("shop", EVER)
    assert caught.value.retry_after == 7
    monkeypatch.undo()
    assert (await hookgw_gateway.gateway.deliveries.replay("shop", EVER)).done == 3


async def test_a_disk_that_refuses_later_delays_it_and_the_log_says_so_once(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = await dead_letters(hookgw_gateway, hookgw_receiver, 3)
    await recover(hookgw_gateway, hookgw_receiver)
    steps = Steps(monkeypatch, hookgw_gateway)
    refusals = [trio.Event(), trio.Event()]

    async def refuse(*given: Any, **more: Any) -> JobStep:
        for refused in refusals:
            if steps.reached.is_set() and not refused.is_set():
                refused.set()
                raise StorageUnavailable("The disk is full.")
        steps.go_on.set()
        return await steps.next_step(*given, **more)

    monkeypatch.setattr(hookgw_gateway.gateway.store, "replay_step", refuse)
    with structlog.testing.capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hookgw_gateway.gateway.deliveries.replay, "shop", EVER)
            for refused, wait in zip(refusals, (0.5, 1.0), strict=True):
                await refused.wait()
                await trio.testing.wait_all_tasks_blocked()
                hookgw_clock.jump(wait)
            await hookgw_receiver.wait_for(3)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids == ids
    told = [one for one in logs if one["event"] == "replay waits for the disk"]
    assert [(one["instance"], one["reason"]) for one in told] == [("shop", "The disk is full.")]


async def test_a_replay_that_waits_for_the_disk_can_be_cancelled(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full disk takes the note that it is cancelled, and what is sent again may be what fills it."""
    await dead_letters(hookgw_gateway, hookgw_receiver, 3)
    await recover(hookgw_gateway, hookgw_receiver)
    made = Steps(monkeypatch, hookgw_gateway)
    gateway, refused = hookgw_gateway.gateway, trio.Event()

    async def refuse(*given: Any, **more: Any) -> JobStep:
        if made.reached.is_set() and not refused.is_set():
            refused.set()
            raise StorageUnavailable("The disk is full.")
        made.go_on.set()
        return await made.next_step(*given, **more)

    monkeypatch.setattr(gateway.store, "replay_step", refuse)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gateway.deliveries.replay, "shop", EVER)
        await refused.wait()
        (job,) = gateway.jobs.unfinished()
        ordered = gateway.jobs.running_here(job.id)
        assert ordered is not None
        ordered.order(JobOrder.CANCEL)
        await trio.testing.wait_all_tasks_blocked()
        hookgw_clock.jump(0.5)
    assert (ordered.job.is_cancelled, ordered.job.done) == (True, 2)


async def is_free(lock: AbstractAsyncContextManager[None]) -> bool:
    """Return whether a lock can be taken at once."""
    taken = trio.Event()

    async def take() -> None:
        async with lock:
            taken.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return taken.is_set()


@pytest.mark.parametrize("is_changed", [False, True])
async def test_jobs_of_others_and_changes_of_the_instance_do_not_wait_for_each_other(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, is_changed: bool
) -> None:
    """A change may hold its lock for half a minute, for example while a connector stops."""
    await dead_letters(hookgw_gateway, hookgw_receiver, 1)
    gateway = hookgw_gateway.gateway
    turn, change = gateway.jobs.turn("another"), gateway.registry.changing("shop")
    async with trio.open_nursery() as nursery, change if is_changed else turn:
        nursery.start_soon(gateway.deliveries.replay, "shop", EVER)
        await trio.testing.wait_all_tasks_blocked()
        assert gateway.jobs.running(JobKind.REPLAY, "shop") is not None
        assert await is_free(turn if is_changed else change)
    await hookgw_gateway.settled()
    assert len(hookgw_receiver.requests) == 1
