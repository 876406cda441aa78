"""Replays and cancellations over several instances, and jobs that are paused, resumed and cancelled."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import MockClock

from hookgw import Conflict, NotFound, Registration
from hookgw.core import jobs
from hookgw.deliveries import dry_run
from hookgw.store import steps
from hookgw.testing import GatewayKit, Receiver, answer, open_kit
from tests.public.deliveries import ASK_EVERY, is_receiver
from tests.public.fleet import AllNodes
from tests.public.records import AuditAction, DeliverySelection, Job, JobKind, JobOrder
from tests.public.store import AuditQuery

pytestmark = pytest.mark.usefixtures("hookgw_clock")

SHOPS = ("loja1", "loja2", "loja3")
EVER = DeliverySelection(instances=("loja*",), since=0.0)


async def dead_letters(
    kit: GatewayKit, receiver: Receiver, count: int = 3, instances: tuple[str, ...] = (*SHOPS, "other")
) -> dict[str, list[str]]:
    """Events of several instances that the receiver refused; it takes what comes from then on."""
    receiver.default = answer(400)
    ids: dict[str, list[str]] = {}
    for name in instances:
        await kit.register(f"{receiver.url}{name}", instance=name)
    for number in range(count):
        for name in instances:
            ids.setdefault(name, []).append((await kit.emit("CALL", {"n": number}, instance=name)).id)
    await kit.settled()
    receiver.default = answer()
    receiver.requests.clear()
    return ids


def received(receiver: Receiver) -> dict[str, list[str]]:
    """The ids of events that came, by the instance that is in the path."""
    found: dict[str, list[str]] = {}
    for request in receiver.requests:
        if request.event_id is not None:
            found.setdefault(request.target.lstrip("/"), []).append(request.event_id)
    return found


async def pass_time(clock: MockClock) -> None:
    await trio.testing.wait_all_tasks_blocked(0.001)
    clock.jump(ASK_EVERY)


async def ended(kit: GatewayKit, clock: MockClock, kind: JobKind = JobKind.REPLAY) -> Job:
    """Let time pass until the job over several instances has ended; return it."""
    while True:  # a disk that is slow takes many turns
        (job,) = (one for one in kit.gateway.jobs.all() if (one.kind, one.instance) == (kind, "*"))
        if not job.is_running:
            await kit.settled()
            return job
        await pass_time(clock)


async def begin(
    kit: GatewayKit,
    selection: DeliverySelection,
    monkeypatch: pytest.MonkeyPatch,
    kind: JobKind = JobKind.REPLAY,
) -> None:
    """Begin a job over the shops; the call answers at once."""
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0)
    deliveries = kit.gateway.deliveries
    call = deliveries.replay_in if kind is JobKind.REPLAY else deliveries.cancel_in
    job = await call(SHOPS, selection, without_global=False, caller="key crm")
    assert job is not None
    assert job.is_running


class Held:
    """Holds jobs of the named instances before each of their steps, but for the first ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kit: GatewayKit, *names: str, first: int = 0) -> None:
        self.go_on, self.begun = trio.Event(), trio.Event()
        self.left = dict.fromkeys(names, first)
        self.obey = kit.gateway.jobs.obey
        monkeypatch.setattr(kit.gateway.jobs, "obey", self._held)

    async def _held(self, running: jobs.RunningJob, *given: Any, **more: Any) -> bool:
        name = running.job.instance
        if self.left.get(name) == 0:
            self.begun.set()
            await self.go_on.wait()
        elif name in self.left:
            self.left[name] -= 1
        return await self.obey(running, *given, **more)


async def test_each_instance_gets_its_own_in_their_order(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "REPLAY_STEP", 2)
    ids = await dead_letters(hookgw_gateway, hookgw_receiver)
    gateway = hookgw_gateway.gateway
    await begin(hookgw_gateway, EVER, monkeypatch)
    job = await ended(hookgw_gateway, hookgw_clock)
    assert (job.done, job.instances, job.instances_done, job.warning) == (9, 3, 3, None)
    assert received(hookgw_receiver) == {name: ids[name] for name in SHOPS}
    parts = [one for one in gateway.jobs.all() if one.parent == job.id]
    assert sorted((one.instance, one.done) for one in parts) == [(name, 3) for name in SHOPS]
    entries = (await gateway.audit.list(AuditQuery(action="delivery.replay"))).entries
    assert sorted((one.instance or "*", one.details["job"]) for one in entries) == [
        ("*", job.id),
        *((name, job.id) for name in SHOPS),
    ]
    assert entries[-1].details["instances"] == "loja*"


async def test_only_the_newest_parts_are_kept_after_their_end_and_every_job_over_them(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hundred of each instance were 100 MB, and each end of a part sorted them all."""
    monkeypatch.setattr(jobs, "MOST_PARTS_KEPT", 4)
    gateway = hookgw_gateway.gateway
    ids = []
    for _ in range(2):
        await dead_letters(hookgw_gateway, hookgw_receiver)
        with monkeypatch.context() as patch:
            await begin(hookgw_gateway, EVER, patch)
        running = next(one for one in gateway.jobs.all() if one.instance == "*")
        while gateway.jobs.running_here(running.id):
            await pass_time(hookgw_clock)
        ids.append(running.id)
    kept = gateway.jobs.all()
    assert sorted(one.parent for one in kept if one.parent) == sorted([ids[0], *[ids[1]] * 3])
    assert [one.id for one in kept if one.parent is None] == ids[::-1]
    while (await gateway.store.load_jobs()).keys() != {one.id for one in kept}:
        await trio.testing.wait_all_tasks_blocked(0.001)


async def test_what_is_accepted_after_the_call_takes_no_part(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await dead_letters(hookgw_gateway, hookgw_receiver, 1)
    held = Held(monkeypatch, hookgw_gateway, *SHOPS)
    await begin(hookgw_gateway, EVER, monkeypatch)
    hookgw_clock.jump(1)
    hookgw_receiver.default = answer(400)
    await hookgw_gateway.emit("CALL", {}, instance="loja2")
    await hookgw_gateway.settled()
    hookgw_receiver.default = answer()
    held.go_on.set()
    assert (await ended(hookgw_gateway, hookgw_clock)).done == 3


async def test_what_ends_in_1970_has_nothing(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with a time that a program has not set."""
    await dead_letters(hookgw_gateway, hookgw_receiver, 1)
    await begin(hookgw_gateway, DeliverySelection(instances=("loja*",), until=0.0), monkeypatch)
    assert (await ended(hookgw_gateway, hookgw_clock)).done == 0


async def test_a_replay_that_is_under_way_is_waited_for(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = await dead_letters(hookgw_gateway, hookgw_receiver)
    gateway, held = hookgw_gateway.gateway, Held(monkeypatch, hookgw_gateway, "loja2")
    everything = DeliverySelection(instances=("loja*",), since=0.0, state="all")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gateway.deliveries.replay, "loja2", DeliverySelection(since=0.0))
        await held.begun.wait()
        await begin(hookgw_gateway, everything, monkeypatch)
        while whole(hookgw_gateway).instances_done < 2:
            await pass_time(hookgw_clock)
        assert "loja2" not in received(hookgw_receiver)
        with pytest.raises(Conflict, match="under way"):
            await gateway.deliveries.replay("loja2", DeliverySelection(since=0.0))
        held.go_on.set()
        await ended(hookgw_gateway, hookgw_clock)
    # The first one, then again what had been delivered by then: never mixed.
    found = received(hookgw_receiver)["loja2"]
    assert found[:3] == ids["loja2"]
    assert found[3:] == [name for name in ids["loja2"] if name in found[3:]]
    assert received(hookgw_receiver)["loja1"] == ids["loja1"]


async def test_a_stop_of_hookgw_sends_nothing_twice_and_the_next_start_goes_on(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "REPLAY_STEP", 1)
    everything = DeliverySelection(instances=("loja*",), since=0.0, state="all")
    async with open_kit(tmp_path) as kit:
        ids = await dead_letters(kit, hookgw_receiver)
        Held(monkeypatch, kit, "loja2")
        await begin(kit, everything, monkeypatch)
        while len(received(hookgw_receiver)) < 2:
            await pass_time(hookgw_clock)
    async with open_kit(tmp_path) as kit:
        job = await ended(kit, hookgw_clock)
        assert (job.done, job.instances_done) == (9, 3)
    assert received(hookgw_receiver) == {name: ids[name] for name in SHOPS}


async def test_a_part_without_a_record_is_not_begun_again(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = DeliverySelection(instances=("loja*",), since=0.0, state="all")
    async with open_kit(tmp_path) as kit:
        ids = await dead_letters(kit, hookgw_receiver)
        Held(monkeypatch, kit, "loja2")
        await begin(kit, everything, monkeypatch)
        while len(received(hookgw_receiver)) < 2:
            await pass_time(hookgw_clock)
        await kit.settled()
        store = kit.gateway.store
        lost = [
            one.id for one in (await store.load_jobs()).values() if one.parent and one.instance == "loja1"
        ]
        await store.remove_jobs(lost)
    async with open_kit(tmp_path) as kit:
        assert (await ended(kit, hookgw_clock)).instances_done == 3
    assert received(hookgw_receiver) == {name: ids[name] for name in SHOPS}


async def test_a_paused_job_holds_its_parts_also_after_a_restart(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "REPLAY_STEP", 1)
    async with open_kit(tmp_path) as kit:
        ids = await dead_letters(kit, hookgw_receiver)
        held = Held(monkeypatch, kit, *SHOPS, first=1)
        await begin(kit, EVER, monkeypatch)
        await held.begun.wait()
        await order(kit, JobOrder.PAUSE)
        await passed_on(kit, hookgw_clock)
        held.go_on.set()
        parts = [part.id for part in whole(kit).parts]
        while not all(getattr(kit.gateway.jobs.find(part), "is_paused", True) for part in parts):
            await pass_time(hookgw_clock)
        assert all(len(found) <= 1 for found in received(hookgw_receiver).values())
    async with open_kit(tmp_path) as kit:
        for _ in range(10):
            await pass_time(hookgw_clock)
        assert whole(kit).is_paused
        assert all(len(found) <= 1 for found in received(hookgw_receiver).values())
        assert kit.gateway.jobs.of_caller("key crm") == 1  # otherwise, a key could have more by each restart
        await order(kit, JobOrder.RESUME)
        await ended(kit, hookgw_clock)
        assert kit.gateway.jobs.of_caller("key crm") == 0
    assert received(hookgw_receiver) == {name: ids[name] for name in SHOPS}


async def test_a_cancelled_job_sends_no_more(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "REPLAY_STEP", 1)
    await dead_letters(hookgw_gateway, hookgw_receiver)
    held = Held(monkeypatch, hookgw_gateway, *SHOPS, first=1)
    await begin(hookgw_gateway, EVER, monkeypatch)
    await held.begun.wait()
    await order(hookgw_gateway, JobOrder.CANCEL)
    await passed_on(hookgw_gateway, hookgw_clock)
    held.go_on.set()
    job = await ended(hookgw_gateway, hookgw_clock)
    assert job.is_cancelled
    assert job.done <= 3
    assert all(len(found) <= 1 for found in received(hookgw_receiver).values())
    assert len(received(hookgw_receiver)) == job.done


async def test_a_replay_of_one_instance_is_paused_resumed_and_cancelled(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "REPLAY_STEP", 1)
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0)
    ids = await dead_letters(hookgw_gateway, hookgw_receiver, 4, ("loja1",))
    gateway, held = hookgw_gateway.gateway, Held(monkeypatch, hookgw_gateway, "loja1", first=1)
    job = await gateway.deliveries.replay("loja1", DeliverySelection(since=0.0))
    await held.begun.wait()
    await order(hookgw_gateway, JobOrder.PAUSE, "loja1")
    held.go_on.set()
    while not (await gateway.store.load_jobs())[job.id].is_paused:
        await pass_time(hookgw_clock)
    await hookgw_gateway.settled()
    assert received(hookgw_receiver) == {"loja1": ids["loja1"][:1]}
    stored = (await gateway.store.load_jobs())[job.id]
    assert (stored.is_paused, stored.done) == (True, 1)
    with pytest.raises(Conflict):  # still one at a time
        await gateway.deliveries.replay("loja1", DeliverySelection(since=0.0))
    held.go_on, held.begun, held.left = trio.Event(), trio.Event(), {"loja1": 0}
    await order(hookgw_gateway, JobOrder.RESUME, "loja1")
    await held.begun.wait()
    await order(hookgw_gateway, JobOrder.CANCEL, "loja1")
    held.go_on.set()
    while gateway.jobs.running_here(job.id) is not None:
        await pass_time(hookgw_clock)
    await hookgw_gateway.settled()
    found = gateway.jobs.find(job.id)
    assert found is not None
    assert (found.is_running, found.is_cancelled, found.done) == (False, True, 2)
    assert received(hookgw_receiver) == {"loja1": ids["loja1"][:2]}
    entries = (await gateway.audit.list(AuditQuery(action="delivery.replay"))).entries
    assert [one.instance for one in entries] == ["loja1"]
    assert (await gateway.deliveries.replay("loja1", DeliverySelection(since=0.0))) is not None


async def test_a_cancellation_that_is_cancelled_leaves_the_rest_pending(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "STEP", 1)
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0)
    hookgw_receiver.default = answer(503, headers={"retry-after": "1000"})
    await hookgw_gateway.register(f"{hookgw_receiver.url}loja1", instance="loja1")
    ids = [(await hookgw_gateway.emit("CALL", {}, instance="loja1")).id for _ in range(3)]
    await hookgw_gateway.settled()
    gateway, held = hookgw_gateway.gateway, Held(monkeypatch, hookgw_gateway, "loja1", first=1)
    job = await gateway.deliveries.cancel("loja1", DeliverySelection())
    await held.begun.wait()
    await order(hookgw_gateway, JobOrder.CANCEL, "loja1")
    held.go_on.set()
    while gateway.jobs.running_here(job.id) is not None:
        await pass_time(hookgw_clock)
    found = gateway.jobs.find(job.id)
    assert found is not None
    assert (found.is_cancelled, found.done, gateway.backlog.count) == (True, 1, 2)
    hookgw_receiver.default = answer()
    hookgw_receiver.requests.clear()
    hookgw_clock.jump(2000)
    await hookgw_gateway.settled()
    assert received(hookgw_receiver) == {"loja1": ids[1:]}


async def test_pending_deliveries_of_several_instances_are_cancelled(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = hookgw_gateway.gateway
    for name in (*SHOPS, "other"):
        await hookgw_gateway.register(f"{hookgw_receiver.url}{name}", instance=name)
        await gateway.registrations.pause(name)
        for number in range(2):
            await hookgw_gateway.emit("CALL", {"n": number}, instance=name)
    some = DeliverySelection(instances=("loja*",))
    counted = await gateway.deliveries.count_cancellable([*SHOPS], some)
    assert counted == (6, {name: {"default": 2} for name in SHOPS}, True)
    await begin(hookgw_gateway, some, monkeypatch, JobKind.CANCEL)
    assert (await ended(hookgw_gateway, hookgw_clock, JobKind.CANCEL)).done == 6
    assert gateway.backlog.count == 2


async def test_an_instance_that_is_deleted_meanwhile_is_in_the_warning(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await dead_letters(hookgw_gateway, hookgw_receiver)
    held = Held(monkeypatch, hookgw_gateway, "loja2")
    await begin(hookgw_gateway, EVER, monkeypatch)
    await held.begun.wait()
    await hookgw_gateway.gateway.instances.delete("loja2")
    held.go_on.set()
    job = await ended(hookgw_gateway, hookgw_clock)
    assert job.instances_done == 3
    assert job.warning == "Failed: loja2: The instance was deleted."


async def test_a_dry_run_counts_by_instance_and_label(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hookgw_gateway.register(f"{hookgw_receiver.url}crm", instance="loja1", label="crm")
    await dead_letters(hookgw_gateway, hookgw_receiver, 2)
    count = hookgw_gateway.gateway.deliveries.count_replayable
    some = DeliverySelection(since=0.0)
    assert await count(["loja1", "loja2"], some) == (
        6,
        {"loja1": {"crm": 2, "default": 2}, "loja2": {"default": 2}},
        True,
    )
    assert (await count(["loja1", "loja2"], DeliverySelection(since=0.0, label="crm"))).instances == {
        "loja1": {"crm": 2}
    }
    place = hookgw_receiver.url.split("/")[2]
    host = place.rpartition(":")[0]
    for chosen, matching in ((place, 6), (host, 6), (f"{host}:1", 0), ("example.com", 0)):
        selection = DeliverySelection(since=0.0, host=chosen)
        assert (await count(["loja1", "loja2"], selection)).matching == matching
    with pytest.raises(NotFound):
        await count(["nobody"], some)
    monkeypatch.setattr(dry_run, "MOST_COUNTED", 3)
    counted = await count(["loja1", "loja2"], some)
    assert (counted.matching, counted.is_complete) == (3, False)


@pytest.mark.parametrize("chosen", ["broker.example", "broker.example:5672"])
def test_a_webhook_that_a_plugin_sends_to_has_a_host(chosen: str) -> None:
    registration = Registration(id="reg_1", instance="loja1", url="amqp://shop:hunter22@broker.example/vhost")
    assert is_receiver(DeliverySelection(host=chosen), registration)
    assert not is_receiver(DeliverySelection(host="crm.example"), registration)


def whole(kit: GatewayKit) -> Job:
    (job,) = (one for one in kit.gateway.jobs.unfinished() if one.instance == "*")
    return job


async def order(kit: GatewayKit, order: JobOrder, instance: str = "*") -> None:
    (job,) = (one for one in kit.gateway.jobs.unfinished() if one.instance == instance)
    entry = kit.gateway.audit.entry(AuditAction.JOB_PAUSE, None, job.id)
    await kit.gateway.jobs.order(job.id, order, entry)


async def passed_on(kit: GatewayKit, clock: MockClock) -> None:
    """Let time pass until the order of a job has come to all of its parts."""
    parts = [kit.gateway.jobs.running_here(part.id) for part in whole(kit).parts]
    while not all(part is None or part.orders for part in parts):
        await pass_time(clock)


async def test_parts_that_end_one_by_one_cost_no_question_each(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is about all parts: 1,800 instances took half of their time to be asked. The log has one line."""
    names = tuple(f"loja{number:02}" for number in range(30))
    await dead_letters(hookgw_gateway, hookgw_receiver, 1, names)
    asked: Counter[float] = Counter()
    ask = AllNodes.ask

    async def counted(self: AllNodes, question: Any, body: Any, **more: Any) -> Any:
        asked[trio.current_time()] += 1
        return await ask(self, question, body, **more)

    monkeypatch.setattr(AllNodes, "ask", counted)
    monkeypatch.setattr("hookgw.deliveries.bulk.STEP", 10)
    with capture_logs() as logs:
        await begin(hookgw_gateway, EVER, monkeypatch)
        job = await ended(hookgw_gateway, hookgw_clock)
    assert job.done == 30
    assert asked.total() <= len(asked) + 4  # one at each look, and one for each step that begins parts
    assert [line for line in logs if line["event"] == "job continues"] == []
