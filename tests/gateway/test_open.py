"""Opening and closing a gateway: what it goes on with, and how it ends."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from inspect import getsource
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
import trio.testing
import yaml
from trio.testing import MockClock

import hookgw
from hookgw import Attempt, Delivery, Gateway, Outcome, Registration, Unavailable
from hookgw.testing import GatewayKit, Received, Receiver, answer, hang, open_kit
from tests.public.app import open_gateway
from tests.public.concurrency import TaskFailed, virtual_clock
from tests.public.config import load_settings
from tests.public.core import EventQueue
from tests.public.delivery import Found
from tests.public.kernel import ConfigError, StartError
from tests.public.lanes import IdleLanes, RetiredLanes
from tests.public.plugins import Hooks, load_plugins
from tests.public.records import lane_rule
from tests.public.sqlite import Checkpoints
from tests.public.store import GroupCommit
from tests.store.sqlite.previous_version import NAMES, Name, Truth, load_truth, unpack
from tests.support.kit import emit_many

pytestmark = pytest.mark.usefixtures("hookgw_clock")

KIND = "CALL"


def test_the_composition_root_is_one_page() -> None:
    """What it composes is opened by each slice, in a function of its own."""
    assert len(getsource(open_gateway).splitlines()) < 120


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


async def test_a_bug_in_a_lane_is_reported_and_the_lane_starts_again(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_kit(tmp_path) as kit:
        await kit.register(hookgw_receiver.url)
        with monkeypatch.context() as patch, structlog.testing.capture_logs() as logs:
            patch.setattr("hookgw.lanes.lane_memory.decide", _bug)
            hookgw_receiver.will(answer(500))
            await kit.emit(KIND, {"number": 1})
            await hookgw_receiver.wait_for(1)
            while not kit.gateway.dispatcher.recovering:
                await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(Unavailable, match="Lanes ended by an error in hookgw"):
                await kit.gateway.ready()
        assert [entry["event"] for entry in logs] == ["lane ended by an error in hookgw; it starts again"]
        assert b"hookgw_lane_restarts_total 1.0" in kit.gateway.metrics.render()[0]
        hookgw_clock.jump(1)
        await hookgw_receiver.wait_for(2)
        await kit.settled()
        await kit.gateway.ready()


def _bug(*_: object, **__: object) -> None:
    raise RuntimeError("a bug")


@pytest.mark.parametrize(
    ("task", "method"),
    [
        (RetiredLanes, "wait_due"),
        (IdleLanes, "run"),
        (EventQueue, "run"),
        (Checkpoints, "run"),
        (GroupCommit, "_commit"),
    ],
)
@pytest.mark.parametrize("ends", ["by a stray Cancelled", "by an exception"])
async def test_no_task_of_the_gateway_ends_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: type, method: str, ends: str
) -> None:
    commit = GroupCommit._commit
    with trio.CancelScope() as ended:
        ended.cancel()
        try:
            await trio.sleep_forever()
        except trio.Cancelled as cancelled:
            stray = cancelled

    broken = trio.Event()

    async def end(*arguments: object) -> bool:
        if task is GroupCommit and not broken.is_set():
            return await commit(*arguments)  # type: ignore[arg-type]
        await broken.wait()
        raise stray if ends == "by a stray Cancelled" else RuntimeError("a bug")

    monkeypatch.setattr(task, method, end)
    with pytest.raises(BaseExceptionGroup) as caught:  # noqa: PT012
        async with open_kit(tmp_path) as kit:
            broken.set()
            with suppress(Unavailable):
                await kit.gateway.store.flush()
            await trio.sleep_forever()
    assert caught.value.subgroup((TaskFailed, RuntimeError)) is not None


async def test_nothing_is_accepted_while_nothing_is_dispatched(tmp_path: Path) -> None:
    async with open_kit(tmp_path) as kit:
        await kit.register("http://127.0.0.1:9/")
        kit.gateway.dispatcher.stop()
        with pytest.raises(Unavailable, match="does not deliver at the moment"):
            await kit.emit(KIND, {})


async def test_a_second_gateway_on_the_same_file_is_refused(tmp_path: Path) -> None:
    async with open_kit(tmp_path):
        with pytest.RaisesGroup(StartError, allow_unwrapped=True, flatten_subgroups=True) as caught:
            async with open_kit(tmp_path):
                pytest.fail("opened twice")
    assert "hookgw.db" in str(caught.value)


@pytest.mark.parametrize(
    "block", [{"url": "ftp://x/"}, {"url": "http://x/", "plugins": {"message_filters": {"typo": 1}}}]
)
async def test_bad_global_webhooks_stop_the_start(tmp_path: Path, block: dict[str, object]) -> None:
    settings = {"global_webhooks": [block]}
    with pytest.RaisesGroup(ConfigError, allow_unwrapped=True, flatten_subgroups=True):
        async with open_kit(tmp_path, settings=settings):
            pytest.fail("opened")


async def test_global_webhooks_hear_every_instance(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    settings = {"global_webhooks": [{"url": hookgw_receiver.url, "events": [KIND]}]}
    async with open_kit(tmp_path, settings=settings) as kit:
        for name in ("a", "b"):
            await kit.gateway.instances.create(name)
            await kit.emit(KIND, {}, instance=name)
        await hookgw_receiver.wait_for(2)
    assert [event["instance"] for event in hookgw_receiver.events()] == ["a", "b"]


# Global webhooks between two starts

NAMES_OF_INSTANCES = ("ana", "bob", "eva")


async def emit_to_all(kit: GatewayKit, label: str, count: int = 3) -> list[str]:
    """Emit events of every instance in turn."""
    ids = []
    for number in range(count):
        for name in NAMES_OF_INSTANCES:
            if kit.gateway.instances.find(name) is None:
                await kit.gateway.instances.create(name)
            event = await kit.emit(KIND, {}, instance=name, event_id=f"{label}-{name}-{number}")
            ids.append(event.id)
    return ids


def by_instance(ids: list[Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in NAMES_OF_INSTANCES}
    for one in dict.fromkeys(ids):
        found[one.split("-")[1]].append(one)
    return found


async def test_a_refused_event_of_one_instance_blocks_only_that_instance(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    def refuse_bob(request: Received) -> Any:
        return answer(503) if request.json["instance"] == "bob" else answer()

    hookgw_receiver.default = refuse_bob
    async with open_kit(tmp_path, settings={"global_webhooks": [{"url": hookgw_receiver.url}]}) as kit:
        ids = await emit_to_all(kit, "a")
        await kit.settled()
        found, sent = by_instance(hookgw_receiver.ids), by_instance(ids)
        assert found == {**sent, "bob": sent["bob"][:1]}
        [registration] = kit.gateway.registry.hearing("ana")
        assert (registration.ordering, registration.concurrency) == ("instance", 16)


@pytest.mark.parametrize(
    "change",
    [
        {"ordering": "url"},
        {"ordering": "chat", "concurrency": 4},
        {"ordering": "none", "concurrency": 4},
        {"ordering": "instance", "concurrency": 1},
        {"url": "new"},
        {"url": "new", "ordering": "url"},
    ],
)
async def test_what_is_pending_follows_a_changed_global_webhook(
    tmp_path: Path, hookgw_receiver: Receiver, change: dict[str, Any]
) -> None:
    hookgw_receiver.default = answer(503)
    block = {"url": hookgw_receiver.url, "label": "crm"}
    async with open_kit(tmp_path, settings={"global_webhooks": [block]}) as kit:
        ids = await emit_to_all(kit, "a")
        await kit.settled()
    hookgw_receiver.default = answer()
    hookgw_receiver.requests.clear()
    block.update(change, url=hookgw_receiver.url + change.get("url", ""))
    for label in "bc":  # the second start finds everything where it should be
        async with open_kit(tmp_path, settings={"global_webhooks": [block]}) as kit:
            if label == "b" and "url" in change:
                await hookgw_receiver.wait_for(len(ids))  # due at once: the clock does not move
                await kit.settled()
            ids += await emit_to_all(kit, label)
            await kit.advance(60)
    assert len(hookgw_receiver.requests) == len(ids)
    assert {request.target for request in hookgw_receiver.requests} == {"/" + change.get("url", "")}
    if change.get("ordering") == "none":
        assert sorted(hookgw_receiver.ids, key=str) == sorted(ids)
    else:
        assert by_instance(hookgw_receiver.ids) == by_instance(ids)


# Data files of the previous version


class Log:
    """A plugin that notes the attempts, in order."""

    def __init__(self) -> None:
        self.delivered: dict[str, list[int]] = {}
        self.dead: dict[str, list[int]] = {}

    @hookgw.hookimpl
    async def hookgw_attempt(self, attempt: Attempt, delivery: Delivery, registration: Registration) -> None:
        if attempt.outcome is Outcome.DELIVERED:
            self.delivered.setdefault(registration.id, []).append(delivery.seq)

    @hookgw.hookimpl
    async def hookgw_dead_letter(
        self, delivery: Delivery, registration: Registration | None, reason: str
    ) -> None:
        self.dead.setdefault(delivery.registration, []).append(delivery.seq)


@asynccontextmanager
async def open_previous(
    folder: Path, truth: Truth, data: Path, receiver: Receiver, log: Log
) -> AsyncIterator[Gateway]:
    """Open a data file of the previous version; every name leads to the receiver."""

    async def resolve(host: str, port: int, **_: object) -> Found:
        await trio.lowlevel.checkpoint()
        local = ("127.0.0.1", int(receiver.url.rstrip("/").rpartition(":")[2]))
        return [(trio.socket.AF_INET, trio.socket.SOCK_STREAM, 6, "", local)]

    storage = {**truth.settings.get("storage", {}), "path": str(data)}
    file = folder / "hookgw-test.yaml"
    file.write_text(yaml.safe_dump({**truth.settings, "storage": storage}), encoding="utf-8")
    file.chmod(0o600)
    settings = load_settings(file, {})
    hooks = Hooks(
        load_plugins(settings.plugins, base=folder, extra={"log": log}),
        hook_timeout=settings.plugins.hook_timeout,
    )
    clock = virtual_clock(truth.at - trio.current_time())
    async with open_gateway(settings, base=folder, clock=clock, hooks=hooks, resolve=resolve) as gateway:
        yield gateway


@pytest.mark.parametrize("name", NAMES)
async def test_what_the_previous_version_left_arrives_in_its_order(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock, name: Name
) -> None:
    truth, data, log = load_truth(name), unpack(name, tmp_path), Log()
    async with open_previous(tmp_path, truth, data, hookgw_receiver, log) as gateway:
        known = {key: gateway.registrations.by_id(key) for key in truth.pending}
        enabled = {key: one for key, one in known.items() if one is not None and one.enabled}
        unreachable = {key for key, one in enabled.items() if one.url.startswith("https:")}
        expected = {key: len(truth.pending[key]) for key in enabled.keys() - unreachable}
        while any(len(log.delivered.get(key, ())) < count for key, count in expected.items()):
            await trio.testing.wait_all_tasks_blocked(0.01)
            hookgw_clock.jump(0.5)
        await gateway.store.flush()
        for key, one in enabled.items():
            rule = lane_rule(one)
            for found in await gateway.store.pending_lanes(key):
                assert key in unreachable | {"operations"}
                assert rule.is_current(found.lane)
        for key in known.keys() - enabled.keys():
            assert await gateway.store.pending_lanes(key) == []
    for key, one in enabled.items():
        if key in unreachable:
            continue
        pending = {delivery.seq: delivery for delivery in truth.pending[key]}
        arrived = [seq for seq in log.delivered[key] if seq in pending]
        assert sorted(arrived) == sorted(pending), one.url  # each once
        by: Any = {"chat": "chat", "instance": "instance"}.get(one.ordering)
        if one.ordering == "none" and one.concurrency > 1:
            continue
        if one.ordering == "chat" and one.concurrency == 1:
            by = None
        for value, order in truth.order(key, by=by).items():
            of_value = [seq for seq in arrived if by is None or getattr(pending[seq], by) == value]
            assert of_value == order, (one.url, value)
