"""Work that outlasts its request: deleting, disabling and replaying with more pending than a step handles."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import MockClock

from hookgw import Conflict, DeliveryState, NotFound, Unavailable
from hookgw.core import jobs
from hookgw.store import steps
from hookgw.testing import GatewayKit, Receiver, answer, open_kit
from tests.public.concurrency import RETRY_WAITS, TaskFailed
from tests.public.kernel import StorageUnavailable
from tests.public.operations import VisibleJobs
from tests.public.records import Actor, ActorKind, DeliverySelection, Job, JobKind, JobState, Principal
from tests.public.webhooks import RegistrationChange
from tests.support.disks import refuse
from tests.support.keys import principal_of
from tests.support.kit import states_in_order as states

KIND = "CALL"


class Gate:
    """Lets steps through one by one, and counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kit: GatewayKit, name: str = "park_step") -> None:
        self.step = getattr(kit.gateway.store, name)
        self.asked = 0
        self._free = trio.Semaphore(0)
        monkeypatch.setattr(kit.gateway.store, name, self._held)

    async def _held(self, *given: Any, **more: Any) -> Any:
        self.asked += 1
        await self._free.acquire()
        return await self.step(*given, **more)

    def open(self, steps: int = 1_000) -> None:
        for _ in range(steps):
            self._free.release()


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "STEP", 2)


async def fill(kit: GatewayKit, receiver: Receiver, count: int = 5) -> None:
    """Register a receiver that is down, and emit events: all of them are pending."""
    receiver.default = answer(503)
    await kit.register(receiver.url)
    for number in range(count):
        await kit.emit(KIND, {"n": number}, event_id=f"e{number}")
    await kit.settled()
    receiver.requests.clear()


async def pending(kit: GatewayKit) -> int:
    await kit.gateway.store.flush()
    return kit.gateway.backlog.count


async def ended(kit: GatewayKit, job_id: str) -> Job:
    while True:
        job = kit.gateway.jobs.find(job_id)
        if job is not None and not job.is_running:
            return job
        kit.clock.jump(jobs.MOST_REST)  # the clock moved during a step, so there may be a rest
        await trio.testing.wait_all_tasks_blocked(0.001)


@asynccontextmanager
async def told(clock: MockClock, call: Callable[[], Awaitable[Any]]) -> AsyncIterator[list[Any]]:
    """Make a call, and move the clock until it answers without having ended its job."""
    answers: list[Any] = []

    async def make() -> None:
        answers.append(await call())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(make)
        for _ in range(100):
            await trio.testing.wait_all_tasks_blocked(0.001)
        assert answers == []
        while not answers:  # on a slow disk, the call begins to wait only now
            clock.jump(jobs.ANSWER_WITHIN)
            await trio.testing.wait_all_tasks_blocked(0.001)
    yield answers


async def test_an_instance_is_gone_at_once_and_its_name_is_free_at_the_end(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kit, gateway = hookgw_gateway, hookgw_gateway.gateway
    await gateway.instances.create("shop", token="the-key-of-the-shop")
    await fill(kit, hookgw_receiver)
    gate = Gate(monkeypatch, kit)
    async with told(hookgw_clock, lambda: gateway.instances.delete("shop")) as (job,):
        assert (job.kind, job.instance, job.state, job.done) == (
            JobKind.DELETE_INSTANCE,
            "shop",
            JobState.RUNNING,
            0,
        )
    with pytest.raises(NotFound):
        await kit.emit(KIND, {})
    with pytest.raises(NotFound):
        await gateway.instances.delete("shop")
    with pytest.raises(Conflict, match=rf"is being deleted \({job.id}\)"):
        await gateway.instances.create("shop")
    # With `auto_create`, too.
    with pytest.raises(Conflict, match="is being deleted"):
        await kit.register(hookgw_receiver.url)
    # Its key still finds the job.
    assert principal_of(gateway, "the-key-of-the-shop") == Principal("shop")
    gate.open(1)
    while gate.asked < 2:
        hookgw_clock.jump(jobs.MOST_REST)
        await trio.testing.wait_all_tasks_blocked(0.001)
    assert gateway.jobs.find(job.id) == msgspec.structs.replace(
        job,
        done=2,
        cursor=gateway.jobs.find(job.id).cursor,  # type: ignore[union-attr]
    )
    gate.open()
    last = await ended(kit, job.id)
    assert (last.state, last.done, last.error) == (JobState.DONE, 5, None)
    assert await pending(kit) == 0
    assert principal_of(gateway, "the-key-of-the-shop") is None
    await gateway.instances.create("shop", token="the-key-of-the-shop")
    assert await states(kit) == []
    assert hookgw_receiver.requests == []


async def test_a_deletion_goes_on_after_a_restart(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_kit(tmp_path) as kit:
        await kit.gateway.instances.create("shop", token="the-key-of-the-shop")
        await fill(kit, hookgw_receiver)
        gate = Gate(monkeypatch, kit)
        gate.open(1)
        async with told(hookgw_clock, lambda: kit.gateway.instances.delete("shop")) as (job,):
            pass
    monkeypatch.undo()
    monkeypatch.setattr(steps, "STEP", 2)
    load = jobs.Jobs.load
    gates: list[Gate] = []

    async def load_and_hold(self: jobs.Jobs) -> None:
        await load(self)
        store = self._store
        step = store.park_step
        free = trio.Semaphore(0)
        gates.append(free)  # type: ignore[arg-type]

        async def held(*given: Any, **more: Any) -> Any:
            await free.acquire()
            return await step(*given, **more)

        monkeypatch.setattr(store, "park_step", held)

    monkeypatch.setattr(jobs.Jobs, "load", load_and_hold)
    async with open_kit(tmp_path) as kit:
        assert kit.gateway.jobs.find(job.id).done == 2  # type: ignore[union-attr]
        assert principal_of(kit.gateway, "the-key-of-the-shop") == Principal("shop")
        with pytest.raises(Conflict, match="is being deleted"):
            await kit.gateway.instances.create("shop")
        with pytest.raises(NotFound):
            await kit.emit(KIND, {})
        for _ in range(10):
            gates[0].release()  # type: ignore[attr-defined]
        assert (await ended(kit, job.id)).done == 5
        assert await pending(kit) == 0
        await kit.gateway.instances.create("shop")
    assert hookgw_receiver.requests == []


async def test_a_registration_that_is_enabled_during_its_disabling_sends_only_what_comes_later(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kit, gateway, url = hookgw_gateway, hookgw_gateway.gateway, hookgw_receiver.url
    await fill(kit, hookgw_receiver)
    gate = Gate(monkeypatch, kit)

    async def disable() -> Any:
        change = RegistrationChange(url=url, enabled=False)
        return await gateway.registrations.set("shop", "default", change)

    async with told(hookgw_clock, disable) as (stored,):
        assert stored.job.kind is JobKind.DISABLE_REGISTRATION
        assert not stored.registration.enabled
    hookgw_receiver.default = answer()
    assert (await gateway.registrations.set("shop", "default", RegistrationChange(url=url))).job is None
    await kit.emit(KIND, {}, event_id="later")
    gate.open()
    assert (await ended(kit, stored.job.id)).done == 5
    await kit.settled()
    assert hookgw_receiver.ids == ["later"]
    assert await states(kit) == [DeliveryState.DELIVERED, *[DeliveryState.DEAD] * 5]


async def test_a_deleted_registration_and_its_successor_of_the_same_label(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kit, gateway = hookgw_gateway, hookgw_gateway.gateway
    await fill(kit, hookgw_receiver)
    gate = Gate(monkeypatch, kit)
    async with told(hookgw_clock, lambda: gateway.registrations.delete("shop")) as (job,):
        assert job.kind is JobKind.DELETE_REGISTRATION
    hookgw_receiver.default = answer()
    await kit.register(hookgw_receiver.url)
    await kit.emit(KIND, {}, event_id="later")
    await hookgw_receiver.wait_for(1)
    gate.open()
    assert (await ended(kit, job.id)).done == 5
    await kit.settled()
    assert hookgw_receiver.ids == ["later"]


async def test_a_disk_that_refuses_delays_a_job(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kit, gateway = hookgw_gateway, hookgw_gateway.gateway
    await fill(kit, hookgw_receiver)
    step, refused = gateway.store.park_step, trio.Event()

    async def refuse_once(*given: Any, **more: Any) -> Any:
        if not refused.is_set():
            refused.set()
            raise StorageUnavailable("The disk is full.")
        return await step(*given, **more)

    monkeypatch.setattr(gateway.store, "park_step", refuse_once)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gateway.registrations.delete, "shop")
        await refused.wait()
        await trio.testing.wait_all_tasks_blocked()
        hookgw_clock.jump(0.5)
        while await pending(kit):
            hookgw_clock.jump(jobs.MOST_REST)
            await trio.testing.wait_all_tasks_blocked(0.001)
        hookgw_clock.jump(jobs.MOST_REST)


class Broken:
    """Lets a function of the store raise as no disk does, until :meth:`repair`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kit: GatewayKit, name: str) -> None:
        self._function = getattr(kit.gateway.store, name)
        self._is_broken = True
        self.asked = 0
        monkeypatch.setattr(kit.gateway.store, name, self._asked)

    async def _asked(self, *given: Any, **more: Any) -> Any:
        self.asked += 1
        if self._is_broken:
            raise ZeroDivisionError("a bug")
        return await self._function(*given, **more)

    def repair(self) -> None:
        self._is_broken = False


@pytest.mark.parametrize(
    ("name", "call", "reason"),
    [
        ("park_step", lambda kit: kit.gateway.registrations.delete("shop"), "ZeroDivisionError: a bug"),
        ("park_step", lambda kit: kit.gateway.instances.delete("shop"), "ZeroDivisionError: a bug"),
        ("find_concerned", lambda kit: kit.gateway.erasures.erase("shop", "4915"), "ZeroDivisionError"),
    ],
    ids=["parking", "deleting an instance", "erasing"],
)
async def test_an_error_in_hookgw_delays_a_job_and_concerns_nobody_else(
    name: str,
    call: Callable[[GatewayKit], Awaitable[Job]],
    reason: str,
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kit = hookgw_gateway
    await kit.gateway.instances.create("other")
    await kit.register(hookgw_receiver.url, instance="other")
    await fill(kit, hookgw_receiver)
    hookgw_receiver.default = answer(200)
    broken = Broken(monkeypatch, kit, name)
    with capture_logs() as logs:
        async with told(hookgw_clock, lambda: call(kit)) as answers:
            (job,) = answers
    errors = [line for line in logs if line["log_level"] == "error"]
    assert {(line["job"], line["reason"]) for line in errors} == {(job.id, reason)}
    assert all(
        "_asked" in line["traceback"]
        if name == "find_concerned"
        else isinstance(line["exc_info"], ZeroDivisionError)
        for line in errors
    )
    assert (job.state, job.error) == (JobState.RUNNING, f"An error in hookgw: {reason}")
    await kit.emit(KIND, {}, instance="other", event_id="theirs")
    await hookgw_receiver.wait_for(1)
    # Its own lanes rest meanwhile: the job may be about what they would send.
    hookgw_clock.jump(120)
    await trio.testing.wait_all_tasks_blocked(0.001)
    assert hookgw_receiver.ids == ["theirs"]
    assert broken.asked > 1
    broken.repair()
    hookgw_clock.jump(RETRY_WAITS[-1])
    done = await ended(kit, job.id)
    assert (done.state, done.error) == (JobState.DONE, None)


async def test_a_job_that_meets_an_error_in_hookgw_at_the_start_goes_on_at_the_next(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process goes on, ends when it is asked to, and the job waits for a hookgw without the error."""
    async with open_kit(tmp_path) as kit:
        await fill(kit, hookgw_receiver)
        Broken(monkeypatch, kit, "park_step")
        async with told(hookgw_clock, lambda: kit.gateway.registrations.delete("shop")) as (job,):
            pass
    load = jobs.Jobs.load

    async def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a bug")

    async def load_broken(self: jobs.Jobs) -> None:
        await load(self)
        monkeypatch.setattr(self._store, "park_step", fail)

    monkeypatch.setattr(jobs.Jobs, "load", load_broken)
    async with open_kit(tmp_path) as kit:
        for _ in range(5):
            hookgw_clock.jump(RETRY_WAITS[-1])
            await trio.testing.wait_all_tasks_blocked(0.001)
        found = kit.gateway.jobs.find(job.id)
        assert found is not None
        assert (found.state, found.error) == (
            JobState.RUNNING,
            "An error in hookgw: ZeroDivisionError: a bug",
        )
    monkeypatch.undo()
    async with open_kit(tmp_path) as kit:
        done = await ended(kit, job.id)
        assert (done.state, done.done, done.error) == (JobState.DONE, 5, None)
    assert hookgw_receiver.requests == []


async def test_an_error_in_hookgw_does_not_tell_whose_data_is_erased(
    hookgw_gateway: GatewayKit, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit, person = hookgw_gateway, "4915@s.whatsapp.net"
    await kit.gateway.instances.create("shop")

    async def fail(_instance: str, value: str, *_: Any, **__: Any) -> None:
        raise KeyError(value)

    monkeypatch.setattr(kit.gateway.store, "find_concerned", fail)
    with capture_logs() as logs:
        async with told(hookgw_clock, lambda: kit.gateway.erasures.erase("shop", person)) as (job,):
            pass
    (line, *_) = [line for line in logs if line["log_level"] == "error"]
    assert job.error == "An error in hookgw: KeyError"
    assert "in fail" in line["traceback"]
    assert not any(line.get("exc_info") for line in logs)
    assert person not in str(logs)


async def test_an_error_in_hookgw_fails_a_job_that_is_not_stored_yet(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    hookgw_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kit = hookgw_gateway
    await fill(kit, hookgw_receiver)
    hookgw_receiver.default = answer(200)
    Broken(monkeypatch, kit, "cancel_step")
    with pytest.raises(TaskFailed, match="ZeroDivisionError: a bug"):
        await kit.gateway.deliveries.cancel("shop", DeliverySelection())
    assert kit.gateway.jobs.all() == []
    hookgw_clock.jump(60)
    await kit.settled()
    assert hookgw_receiver.ids == [f"e{number}" for number in range(5)]


async def test_a_disk_that_refuses_at_once_changes_nothing(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit, gateway = hookgw_gateway, hookgw_gateway.gateway
    await fill(kit, hookgw_receiver)

    monkeypatch.setattr(gateway.store, "remove_instance", refuse)
    with pytest.raises(Unavailable, match="disk is full"):
        await gateway.instances.delete("shop")
    assert gateway.jobs.all() == []
    assert gateway.registrations.find("shop") is not None
    assert await states(kit) == [DeliveryState.PENDING] * 5
    await kit.emit(KIND, {})


async def test_a_quick_job_leaves_no_record(hookgw_gateway: GatewayKit, hookgw_receiver: Receiver) -> None:
    kit, gateway = hookgw_gateway, hookgw_gateway.gateway
    await fill(kit, hookgw_receiver)
    assert not (await gateway.instances.delete("shop")).is_running
    assert await pending(kit) == 0
    assert gateway.jobs.all() == []
    while await gateway.store.load_jobs():
        await trio.testing.wait_all_tasks_blocked(0.001)


async def test_a_finished_job_is_kept_for_a_day(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_kit(tmp_path) as kit:
        await fill(kit, hookgw_receiver)
        gate = Gate(monkeypatch, kit)
        async with told(hookgw_clock, lambda: kit.gateway.registrations.delete("shop")) as (job,):
            gate.open()
        last = await ended(kit, job.id)
        while (await kit.gateway.store.load_jobs())[job.id].is_running:
            await trio.testing.wait_all_tasks_blocked(0.001)
    monkeypatch.undo()
    async with open_kit(tmp_path) as kit:
        assert kit.gateway.jobs.find(job.id) == last
        hookgw_clock.jump(jobs.KEPT_FOR - jobs.PRUNE_EVERY * 2)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert kit.gateway.jobs.find(job.id) == last
        while kit.gateway.jobs.find(job.id) is not None:
            hookgw_clock.jump(jobs.PRUNE_EVERY)
            await trio.testing.wait_all_tasks_blocked(0.01)
        while await kit.gateway.store.load_jobs():
            await trio.testing.wait_all_tasks_blocked(0.001)


async def test_jobs_over_several_instances_replace_those_of_the_same_key_alone(
    tmp_path: Path, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MOST_KEPT", 1)

    async def put(kit: GatewayKit, key: str, number: int) -> None:
        now = kit.gateway.clock.wall()
        actor = Actor(kind=ActorKind.KEY, name=key)
        job = Job(id=f"job_{key}{number}", kind=JobKind.REPLAY, instance="*", started=now, actor=actor)
        await kit.gateway.store.put_job(job.ended(now + number, None))

    async with open_kit(tmp_path) as kit:
        for key, number in (("quiet", 0), ("busy", 1), ("busy", 2)):
            await put(kit, key, number)
    async with open_kit(tmp_path) as kit:
        while kit.gateway.jobs.find("job_busy1") is not None:
            hookgw_clock.jump(jobs.PRUNE_EVERY)
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert {one.id for one in kit.gateway.jobs.all()} == {"job_quiet0", "job_busy2"}


async def test_jobs_take_turns(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit, gateway = hookgw_gateway, hookgw_gateway.gateway
    await fill(kit, hookgw_receiver)
    await kit.register(hookgw_receiver.url, instance="bakery")
    for number in range(5):
        await kit.emit(KIND, {}, instance="bakery", event_id=f"b{number}")
    await kit.settled()
    step, order = gateway.store.park_step, []
    names = {r.id: r.instance for name in ("shop", "bakery") for r in gateway.registrations.of_instance(name)}

    async def noted(registration: str, *given: Any, **more: Any) -> Any:
        order.append(names[registration])
        return await step(registration, *given, **more)

    monkeypatch.setattr(gateway.store, "park_step", noted)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gateway.instances.delete, "shop")
        nursery.start_soon(gateway.instances.delete, "bakery")
    assert sorted(order[:2]) == sorted(order[2:4]) == ["bakery", "shop"]


async def test_an_instance_with_many_jobs_delays_another_one_by_one_step() -> None:
    turn, order = jobs.Jobs(cast("Any", None), cast("Any", None)).turn, list[str]()

    async def work(instance: str) -> None:
        for _ in range(3):
            async with turn(instance):
                order.append(instance)
                await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery, turn("shop"):
        for _ in range(10):
            nursery.start_soon(work, "shop")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(work, "bakery")
        await trio.testing.wait_all_tasks_blocked()
    assert [place for place, name in enumerate(order) if name == "bakery"][2] <= 6


async def test_the_next_step_rests_and_not_the_job_that_has_ended(autojump_clock: MockClock) -> None:
    made = jobs.Jobs(cast("Any", None), cast("Any", None))
    async with trio.open_nursery() as nursery:
        await nursery.start(made.run, {})
        began = trio.current_time()
        async with made.turn("shop"):
            await trio.sleep(0.25)
        assert trio.current_time() == began + 0.25
        async with made.turn("bakery"):
            assert trio.current_time() == began + 0.5
        nursery.cancel_scope.cancel()


class ManyJobs:
    """What a list reads of a gateway, with very many jobs."""

    def __init__(self) -> None:
        self.jobs = self.registry = self

    async def everywhere(self) -> list[Job]:
        return [Job(id=f"job_{n}", kind=JobKind.REPLAY, instance="*", started=0.0) for n in range(5_000)]


async def test_a_list_of_very_many_jobs_lets_others_run() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        listed = await VisibleJobs(cast("Any", ManyJobs())).list(Principal())
        nursery.cancel_scope.cancel()
    assert (len(listed), turns > 2) == (5_000, True)
