"""Erasing what concerns a person."""

import math
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from hookgw import Conflict, DeliveryState, NotFound
from hookgw.core import jobs
from hookgw.store.sqlite import checkpoints, erase
from hookgw.testing import GatewayKit, Receiver, answer, open_kit
from tests.gateway.test_cancellation import hang_after, refuse_audit, start_lanes_late, wait_for_count
from tests.gateway.test_pending import KIND
from tests.public.core import DEADLINE
from tests.public.kernel import StorageUnavailable
from tests.public.records import DeliverySelection
from tests.public.store import AuditQuery
from tests.support.kit import states
from tests.support.waits import FIRST_WAIT

pytestmark = pytest.mark.usefixtures("hookgw_clock")

ANA, BOB = "5511988887777@s.whatsapp.net", "5511900000000@s.whatsapp.net"


@pytest.fixture(autouse=True)
def _no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty the log again at once where a read was in the way: the clock of the tests stands still."""
    monkeypatch.setattr(checkpoints, "INTERVAL", 0.0)


async def emit_both(kit: GatewayKit, count: int, *, first: int = 0, instance: str = "shop") -> list[str]:
    """Emit events of Ana and Bob in turn; return the ids of Bob's."""
    for number in range(first, first + count):
        for name, jid in (("ana", ANA), ("bob", BOB)):
            await kit.emit(KIND, {"remoteJid": jid}, instance=instance, event_id=f"{name}-{number}")
    return [f"bob-{number}" for number in range(first, first + count)]


async def test_pending_finished_and_dead_ones_go_and_the_rest_is_sent_in_order(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    gateway = hookgw_gateway.gateway
    hookgw_receiver.will(answer(200), answer(200), answer(422), answer(200), answer(503))
    await hookgw_gateway.register(hookgw_receiver.url)
    bobs = await emit_both(hookgw_gateway, 4)
    await hookgw_gateway.settled()
    job = await gateway.erasures.erase("shop", ANA)
    assert (job.is_running, job.done, job.events, job.erase) == (False, 4, 4, None)
    for _ in range(3):
        await hookgw_gateway.advance(10)
    assert await states(hookgw_gateway) == dict.fromkeys(bobs, DeliveryState.DELIVERED)
    assert hookgw_receiver.ids[5:] == bobs[2:]
    assert gateway.backlog.count == 0
    assert [lane.backlog for lane in gateway.lanes()] == [0]
    assert await gateway.store.load_jobs() == {}
    await hookgw_gateway.emit(KIND, {"remoteJid": ANA}, event_id="ana-0")  # known
    await hookgw_gateway.emit(KIND, {"remoteJid": ANA}, event_id="ana-9")
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids[7:] == ["ana-9"]


async def test_the_audit_says_who_but_not_whom(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.gateway.erasures.erase("shop", ANA)
    page = await hookgw_gateway.gateway.store.list_audit(AuditQuery(instance="shop", action="event"))
    assert [entry.action for entry in page.entries] == ["event.erase"]
    assert "5511988887777" not in repr(page)


async def test_of_calls_at_once_one_begins(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = hookgw_gateway.gateway
    await hookgw_gateway.register(hookgw_receiver.url)
    answers: list[str] = []
    hang_after(hookgw_gateway, monkeypatch, "find_concerned", 0)  # the first one is under way

    async def ask() -> None:
        try:
            await gateway.erasures.erase("shop", ANA)
        except Conflict:
            answers.append("conflict")

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask)
        while len(answers) + len(gateway.jobs.all()) < 5:
            await trio.testing.wait_all_tasks_blocked(0.001)
        assert (len(gateway.jobs.all()), answers) == (1, 4 * ["conflict"])
        nursery.cancel_scope.cancel()


async def test_a_caller_that_goes_away_early_does_not_stop_it(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    gateway = hookgw_gateway.gateway
    hookgw_receiver.will(answer(503))
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit(KIND, {"remoteJid": ANA})
    await hookgw_gateway.settled()
    with trio.CancelScope() as scope:
        scope.cancel()
        await gateway.erasures.erase("shop", ANA)
    assert scope.cancelled_caught
    while gateway.jobs.unfinished():
        await trio.testing.wait_all_tasks_blocked(0.001)
    await gateway.store.flush()
    assert await states(hookgw_gateway) == {}


async def test_a_store_that_is_slow_leaves_no_job_to_the_next_start(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A write that was requested is done: a caller that was told otherwise would ask again beside it."""
    gateway = hookgw_gateway.gateway
    await hookgw_gateway.register(hookgw_receiver.url)
    put_job = gateway.store.put_job

    async def put_late(*args: Any, **kwargs: Any) -> None:
        hookgw_clock.jump(DEADLINE)
        await trio.lowlevel.checkpoint()
        monkeypatch.undo()
        await put_job(*args, **kwargs)

    monkeypatch.setattr(gateway.store, "put_job", put_late)
    job = await gateway.erasures.erase("shop", ANA)
    assert not job.is_running


async def test_a_disk_that_refuses_the_audit_leaves_no_job_to_the_next_start(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = hookgw_gateway.gateway
    await hookgw_gateway.register(hookgw_receiver.url)
    refuse_audit(monkeypatch)
    with pytest.raises(StorageUnavailable, match="full"):
        await gateway.erasures.erase("shop", ANA)
    assert await gateway.store.load_jobs() == {}
    assert gateway.jobs.all() == []


@pytest.mark.parametrize("status", [200, 503])
async def test_an_attempt_in_flight_is_waited_for(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock, status: int
) -> None:
    gateway = hookgw_gateway.gateway
    hookgw_receiver.will(answer(status, wait=5))
    await hookgw_gateway.register(hookgw_receiver.url)
    bobs = await emit_both(hookgw_gateway, 2)
    await hookgw_receiver.wait_for(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gateway.erasures.erase, "shop", ANA)
        await wait_for_count(hookgw_gateway, 3)
        with pytest.raises(Conflict, match="under way"):
            await gateway.erasures.erase("shop", BOB)
        while nursery.child_tasks:  # the receiver may begin its wait after a jump
            hookgw_clock.jump(FIRST_WAIT)
            await trio.testing.wait_all_tasks_blocked(0.001)
    await hookgw_gateway.advance(10)
    while gateway.jobs.all():
        await trio.testing.wait_all_tasks_blocked(0.001)
        if not any(job.is_running for job in gateway.jobs.all()):
            break
    await hookgw_gateway.advance(10)
    assert await states(hookgw_gateway) == dict.fromkeys(bobs, DeliveryState.DELIVERED)
    assert hookgw_receiver.ids == ["ana-0", *bobs]


async def test_an_attempt_for_a_deleted_registration_is_waited_for(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    """Found by seed 453 of the simulator: the event was sent after the erasure was done."""
    gateway = hookgw_gateway.gateway
    hookgw_receiver.will(answer(503, wait=1))
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit(KIND, {"remoteJid": ANA}, event_id="ana-0")
    await hookgw_receiver.wait_for(1)
    await gateway.registrations.delete("shop", "default")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gateway.erasures.erase, "shop", ANA)
        while not gateway.jobs.all():
            await trio.testing.wait_all_tasks_blocked(0.001)
        for _ in range(100):  # longer than its commits take
            await trio.testing.wait_all_tasks_blocked(0.001)
        [job] = gateway.jobs.all()
        assert (job.is_running, job.done) == (True, 0)
        # The receiver may begin its wait after a jump, and the call waits no longer than its patience.
        while nursery.child_tasks or any(job.is_running for job in gateway.jobs.all()):
            hookgw_clock.jump(0.3)
            await trio.testing.wait_all_tasks_blocked(0.001)
    assert await states(hookgw_gateway) == {}


@pytest.mark.parametrize("ordering", ["instance", "url"])
async def test_deliveries_to_webhooks_of_the_configuration_go_too_and_others_stay(
    tmp_path: Path, hookgw_receiver: Receiver, ordering: str
) -> None:
    settings = {"global_webhooks": [{"url": f"{hookgw_receiver.url}?global", "ordering": ordering}]}
    hookgw_receiver.default = answer(503, headers={"retry-after": "1000"})
    async with open_kit(tmp_path, settings=settings) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.register(hookgw_receiver.url, instance="bar")
        await emit_both(kit, 2)
        await emit_both(kit, 2, instance="bar")
        await kit.settled()
        job = await kit.gateway.erasures.erase("shop", ANA)
        assert (job.events, job.done) == (2, 4)
        await kit.settled()
        hookgw_receiver.default = answer()
        before = len(hookgw_receiver.requests)
        await kit.advance(2000)
        arrived = [(one.json["instance"], one.event_id) for one in hookgw_receiver.requests[before:]]
        assert sorted(arrived) == sorted(
            2
            * [
                ("shop", "bob-0"),
                ("shop", "bob-1"),
                *(("bar", f"{n}-{i}") for n in ("ana", "bob") for i in (0, 1)),
            ]
        )


async def test_a_long_one_goes_on_after_a_restart(
    tmp_path: Path, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erase, "ROWS", 2)
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0.0)
    hookgw_receiver.default = answer(503, headers={"retry-after": "1000"})
    async with open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url)
        bobs = await emit_both(kit, 5)
        await kit.settled()
        hang_after(kit, monkeypatch, "erase", 2)
        job = await kit.gateway.erasures.erase("shop", ANA)
        assert job.is_running
        await wait_for_count(kit, 8)
    hookgw_receiver.default = answer()
    before = len(hookgw_receiver.requests)
    async with open_kit(tmp_path) as kit:
        while (found := kit.gateway.jobs.find(job.id)) is None or found.is_running:
            await trio.testing.wait_all_tasks_blocked(0.001)
        assert (found.done, found.events, found.erase) == (5, 5, None)
        await kit.advance(2000)
        assert hookgw_receiver.ids[before:] == bobs
        assert kit.gateway.backlog.count == 0


async def test_nothing_overtakes_what_waits_for_it_after_a_restart(
    tmp_path: Path, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 4736 of the simulator: a lane began with a new event, because it had not been started yet."""
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0.0)
    hookgw_receiver.default = answer(503, headers={"retry-after": "1000"})
    async with open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url)
        bobs = await emit_both(kit, 2)
        await kit.settled()
        hang_after(kit, monkeypatch, "erase", 0)
        await kit.gateway.erasures.erase("shop", ANA)
    may_start = start_lanes_late(monkeypatch)
    hookgw_receiver.default = answer()
    before = len(hookgw_receiver.requests)
    async with open_kit(tmp_path) as kit:
        await kit.emit(KIND, {"remoteJid": BOB}, event_id="newest")
        await trio.testing.wait_all_tasks_blocked(0.01)
        may_start.set()
        await kit.advance(2000)
    assert hookgw_receiver.ids[before:] == [*bobs, "newest"]


async def test_what_waits_for_a_deleted_webhook_is_parked_after_a_restart(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 63172 of the simulator: the start left the lane to the erasure, which the deletion had ended."""
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0.0)
    hookgw_receiver.default = answer(wait=1000)
    async with open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.emit(KIND, {"remoteJid": ANA}, event_id="ana-0")
        await hookgw_receiver.wait_for(1)
        hang_after(kit, monkeypatch, "flush", 0)  # else the erasure ends with the attempt
        await kit.gateway.erasures.erase("shop", ANA)
        await trio.testing.wait_all_tasks_blocked(0.01)
        deletion = await kit.gateway.instances.delete("shop")
        while (found := kit.gateway.jobs.find(deletion.id)) is not None and found.is_running:
            await trio.testing.wait_all_tasks_blocked(0.001)
        hookgw_clock.autojump_threshold = 0  # the shutdown cuts the attempt off
    hookgw_clock.autojump_threshold = math.inf
    async with open_kit(tmp_path) as kit:
        while any(job.is_running for job in kit.gateway.jobs.all()):
            await trio.testing.wait_all_tasks_blocked(0.001)
        await kit.settled()
        assert await kit.gateway.store.pending_lanes() == []


async def test_an_instance_that_is_deleted_meanwhile_ends_it(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = hookgw_gateway.gateway
    with pytest.raises(NotFound):
        await gateway.erasures.erase("shop", ANA)
    await hookgw_gateway.register(hookgw_receiver.url)
    find_concerned = gateway.store.find_concerned
    async with trio.open_nursery() as nursery:

        async def find(*args: Any, **kwargs: Any) -> Any:
            monkeypatch.undo()
            nursery.start_soon(gateway.instances.delete, "shop")
            while gateway.instances.find("shop") is not None:
                await trio.testing.wait_all_tasks_blocked(0.001)
            return await find_concerned(*args, **kwargs)

        monkeypatch.setattr(gateway.store, "find_concerned", find)
        with pytest.raises(NotFound, match="was deleted"):
            await gateway.erasures.erase("shop", ANA)


async def test_a_deletion_during_the_last_search_ends_it_too(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 81231 of the simulator: what the deletion had given another name was not found, and stayed."""
    gateway = hookgw_gateway.gateway
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit(KIND, {"remoteJid": ANA}, event_id="ana-0")
    await hookgw_gateway.settled()
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0.0)
    find_concerned = gateway.store.find_concerned

    async def find(*args: Any, pending: bool) -> Any:
        if not pending and gateway.instances.find("shop") is not None:
            await gateway.instances.delete("shop")
        return await find_concerned(*args, pending=pending)

    monkeypatch.setattr(gateway.store, "find_concerned", find)
    job = await gateway.erasures.erase("shop", ANA)
    while (found := gateway.jobs.find(job.id)) is not None and found.is_running:
        await trio.testing.wait_all_tasks_blocked(0.001)
    assert found is not None
    assert found.error == "The instance was deleted."


async def test_a_deletion_that_the_disk_refuses_does_not_end_it(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = hookgw_gateway.gateway
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit(KIND, {"remoteJid": ANA}, event_id="ana-0")
    await hookgw_gateway.settled()
    is_deleting, may_refuse = trio.Event(), trio.Event()
    find_concerned = gateway.store.find_concerned

    async def refuse(*_: Any, **__: Any) -> None:
        is_deleting.set()
        await may_refuse.wait()
        raise StorageUnavailable("The disk is full.")

    monkeypatch.setattr(gateway.store, "remove_instance", refuse)
    async with trio.open_nursery() as nursery:

        async def delete() -> None:
            with pytest.raises(StorageUnavailable):
                await gateway.instances.delete("shop")

        async def find(*args: Any, pending: bool) -> Any:
            page = await find_concerned(*args, pending=pending)
            if not pending and not is_deleting.is_set():
                nursery.start_soon(delete)
                await is_deleting.wait()
            return page

        async def let_refuse() -> None:
            try:
                await is_deleting.wait()
                await trio.testing.wait_all_tasks_blocked(0.05)
            finally:
                may_refuse.set()  # also if the erasure failed: nothing cancels the deletion

        monkeypatch.setattr(gateway.store, "find_concerned", find)
        nursery.start_soon(let_refuse)
        job = await gateway.erasures.erase("shop", ANA)
    assert (job.error, job.events) == (None, 1)


async def test_nothing_becomes_pending_again_beside_it(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It looks for finished deliveries last, when the lanes run again."""
    gateway = hookgw_gateway.gateway
    find, free = gateway.store.find_concerned, trio.Event()

    async def find_later(*arguments: Any, **more: Any) -> Any:
        await free.wait()
        return await find(*arguments, **more)

    await hookgw_gateway.register(hookgw_receiver.url)
    bobs = await emit_both(hookgw_gateway, 2)
    await hookgw_gateway.settled()
    monkeypatch.setattr(gateway.store, "find_concerned", find_later)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gateway.erasures.erase, "shop", ANA)
        while not gateway.jobs.unfinished():
            await trio.testing.wait_all_tasks_blocked(0.001)
        with pytest.raises(Conflict, match="An erasure of 'shop' is under way"):
            await gateway.deliveries.resend("shop", "ana-0")
        nursery.start_soon(gateway.deliveries.replay, "shop", DeliverySelection(since=0.0, state="all"))
        for _ in range(5):
            hookgw_clock.jump(10)
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert (gateway.backlog.count, len(hookgw_receiver.requests)) == (0, 4)
        free.set()
        while gateway.jobs.unfinished():
            hookgw_clock.jump(1)
            await trio.testing.wait_all_tasks_blocked(0.01)
    await hookgw_gateway.settled()
    assert hookgw_receiver.ids[4:] == bobs
