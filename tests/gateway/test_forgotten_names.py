"""Instances and registrations that come and go leave nothing behind in memory: no table keeps their names."""

import gc
import re
from collections.abc import Iterable
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from hookgw import Attempt, ConnectionState, Outcome, Registration
from hookgw.core import backlog
from hookgw.testing import GatewayKit, Receiver, answer
from hookgw.webhooks import auto_disable
from tests.public.concurrency import Clock
from tests.public.config import DeliverySettings
from tests.public.webhooks import AutoDisable
from tests.support.keys import principal_of
from tests.support.stores import writer_of

KIND = "CALL"
NAMES = [f"forgotten-{number}" for number in range(5)]


def kept(names: Iterable[str]) -> list[str]:
    """Return the keys of tables anywhere in the process that contain one of these names."""
    gc.collect()
    objects = gc.get_objects()
    # The collector does not track a dictionary of plain values, but the object that has it.
    everything = [*objects, *gc.get_referents(*objects)]
    # Types are asked, not objects: other tests leave hostile ones behind, which raise at every question.
    tables = {id(one): one for one in everything if issubclass(type(one), (dict, set))}
    search = re.compile("|".join(map(re.escape, names))).search
    re.purge()  # the module's memory of patterns would be found
    found = []
    for table in tables.values():
        keys = dict.keys(table) if issubclass(type(table), dict) else set.copy(table)
        for key in list(keys):
            # Millions of keys are looked at, and nearly all of them are strings.
            if type(key) is str:
                text = key
            elif type(key) is tuple:
                text = " ".join(word for word in key if type(word) is str)
            else:
                continue
            if search(text):
                found.append(text)
    return found


@pytest.fixture(autouse=True)
def _swept_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that are swept when they have grown are swept at each new name."""
    monkeypatch.setattr(auto_disable, "FEW", 0)
    monkeypatch.setattr(backlog, "LEAST_SWEPT", 0)


@pytest.mark.parametrize("outcome", [200, 500, 503, 410])
async def test_instances_that_come_and_go(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock, outcome: int
) -> None:
    kit, gateway = hookgw_gateway, hookgw_gateway.gateway
    hookgw_receiver.default = answer(outcome)
    ids = []
    for name in NAMES:
        _, key, _ = await gateway.instances.create(name)
        ids.append((await kit.register(hookgw_receiver.url, instance=name)).id)
        await kit.emit("CONNECTION_UPDATE", {"instance": name, "state": "open"}, instance=name)
        await kit.emit(KIND, {}, instance=name)
        await kit.settled()
        assert principal_of(gateway, key) is not None
        await kit.advance(1)
        await gateway.instances.delete(name)
    await kit.settled()
    # Lanes, connections and reports are remembered for a while.
    for _ in range(8):
        hookgw_clock.jump(120)
        await trio.testing.wait_all_tasks_blocked(0.01)
        await kit.settled()
    hookgw_receiver.requests.clear()
    # Further names: tables that hear of no deletion are swept as they grow.
    for number in range(4):
        await kit.register(hookgw_receiver.url, instance=f"last-{number}")
        await kit.emit(KIND, {}, instance=f"last-{number}")
        await kit.settled()
    while await gateway.store.load_jobs():
        await trio.testing.wait_all_tasks_blocked(0.001)
    assert gateway.jobs.all() == []
    # The writer's memory of names is bounded by their number.
    writer_of(gateway.store)._names.forget()
    assert kept([*NAMES, *ids]) == []


async def test_a_deletion_during_the_commit_of_a_connection_update(
    hookgw_gateway: GatewayKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit, gateway = hookgw_gateway, hookgw_gateway.gateway
    await gateway.instances.create("shop")
    append = gateway.store.append

    async def append_and_delete(appends: Any, *, state: Any, epoch: Any) -> list[bool]:
        stored = await append(appends)
        await gateway.instances.delete("shop")
        return stored

    monkeypatch.setattr(gateway.store, "append", append_and_delete)
    await kit.emit("CONNECTION_UPDATE", {"instance": "shop", "state": "open"})
    await gateway.instances.create("shop")
    assert gateway.instances.connection_state("shop") is ConnectionState.CLOSE


async def test_failures_of_deleted_registrations_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_disable, "FEW", 2)
    present: dict[str, Registration] = {}

    class Registry:
        def registration(self, registration_id: str) -> Registration | None:
            return present.get(registration_id)

        def registrations(self) -> list[Registration]:
            return []

    nothing: Any = None
    registry: Any = Registry()
    watch = AutoDisable(registry, nothing, nothing, Clock(), DeliverySettings())
    failure = Attempt(number=1, at=0.0, duration=0.1, outcome=Outcome.FAILED)
    for number in range(100):
        registration = Registration(id=f"reg_{number}", instance="shop", url="http://x")
        present[registration.id] = registration
        await watch.attempted(failure, registration)
        if number % 10:
            del present[registration.id]
    known = watch._failing
    assert set(present) <= set(known)
    assert len(known) <= 2 * len(present) + 2


def test_kept_finds_what_is_kept() -> None:
    class Table:
        def __init__(self) -> None:
            self.rows = {("tenant-1", "default"): 1}

    table = Table()
    assert kept(["tenant-1"]) == ["tenant-1 default"]
    table.rows.clear()
    assert kept(["tenant-1"]) == []
