"""Instances and registrations, over a real store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hookgw import NotFound, Registration
from tests.public.app import AUDITED
from tests.public.concurrency import Clock
from tests.public.core import MOST_LANES, Audit, Registry
from tests.public.kernel import StorageUnavailable
from tests.public.records import GLOBAL_INSTANCE, Event, Instance
from tests.public.store import Store, open_store

SHOP = Instance(name="shop", id="id-1")


def registration(name: str = "reg_1", *, instance: str = "shop", **more: Any) -> Registration:
    return Registration(id=name, instance=instance, url=more.pop("url", "http://r.example/"), **more)


@asynccontextmanager
async def opened(folder: Path, *everywhere: Registration) -> AsyncIterator[tuple[Registry, Store]]:
    async with open_store(folder / "hookgw.db", clock=Clock()) as store:
        registry = Registry(store, Audit(store, Clock()), AUDITED)
        await registry.load(everywhere, None)
        yield registry, store


@asynccontextmanager
async def cancelled() -> AsyncIterator[None]:
    """A block whose caller has gone away already."""
    with trio.CancelScope() as scope:
        scope.cancel()
        yield


async def test_what_is_put_is_found_and_outlives_a_restart(tmp_path: Path) -> None:
    crm = registration("reg_2", label="crm", url="http://crm.example/")
    async with opened(tmp_path) as (registry, _):
        await registry.put_instance(SHOP)
        await registry.put_instance(Instance(name="bar", id="id-2"))
        await registry.put(registration())
        await registry.put(crm)
    async with opened(tmp_path) as (registry, _):
        assert [i.name for i in registry.instances()] == ["bar", "shop"]
        assert registry.instance("shop") == registry.find_instance("shop") == SHOP
        assert registry.find("shop", "crm") == registry.registration("reg_2") == crm
        assert [r.label for r in registry.of_instance("shop")] == ["crm", "default"]
        assert registry.of_instance("bar") == []
        assert registry.find("bar", "default") is None


async def test_what_is_removed_is_gone(tmp_path: Path) -> None:
    one, two = registration(), registration("reg_2", label="crm")
    async with opened(tmp_path) as (registry, _):
        await registry.put_instance(SHOP)
        await registry.put(one)
        await registry.put(two)
        await registry.remove(one)
        assert registry.of_instance("shop") == [two]
        assert registry.registration("reg_1") is None
        await registry.remove(two)
        await registry.remove_instance(SHOP)
        assert registry.wanting("shop", "CALL") == []
        with pytest.raises(NotFound, match="'shop' does not exist"):
            registry.instance("shop")
        with pytest.raises(NotFound, match="'shop' does not exist"):
            registry.get("shop")
    async with opened(tmp_path) as (registry, _):
        assert registry.instances() == []
        assert registry.of_instance("shop") == []


async def test_who_wants_an_event(tmp_path: Path) -> None:
    calls = registration("reg_1", label="a", events=("CALL",))
    everything = registration("reg_2", label="b")
    disabled = registration("reg_3", label="c", enabled=False)
    other = registration("reg_4", instance="bar")
    all_calls = registration("global_x", instance=GLOBAL_INSTANCE, label="x", events=("CALL",))
    async with opened(tmp_path, all_calls) as (registry, _):
        for one in (calls, everything, disabled, other):
            await registry.put(one)
        assert registry.wanting("shop", "CALL") == [calls, everything, all_calls]
        assert registry.wanting("shop", "CHATS_SET") == [everything]
        assert registry.wanting("bar", "CALL") == [other, all_calls]
        assert registry.wanting("new", "CALL") == [all_calls]
        assert registry.registration("global_x") == all_calls


async def test_the_lanes_of_an_event_follow_every_change_of_registrations(tmp_path: Path) -> None:
    own, all_calls = registration(), registration("global_x", instance=GLOBAL_INSTANCE, events=("CALL",))
    event = Event(id="e", kind="CALL", instance="shop", data_json=b"{}", time=0.0)
    async with opened(tmp_path, all_calls) as (registry, _):

        def lanes() -> list[str]:
            return [lane for _, lane in registry.lanes("shop", "CALL").targets(event)]

        assert lanes() == ["global_x:0"]
        await registry.put(own)
        assert lanes() == ["reg_1:0", "global_x:0"]
        await registry.put(msgspec.structs.replace(own, generation=1))
        await registry.put(msgspec.structs.replace(all_calls, enabled=False))
        assert lanes() == ["reg_1:1"]
        registry.apply({}, {"reg_1": msgspec.structs.replace(own, enabled=False)})
        assert lanes() == []
        await registry.put(own)
        await registry.put(all_calls)
        await registry.remove_configured(all_calls)
        assert lanes() == ["reg_1:0"]
        await registry.remove(own)
        assert lanes() == []


async def test_lanes_are_kept_for_few_of_many_instances(tmp_path: Path) -> None:
    async with opened(tmp_path) as (registry, _):
        for number in range(10_000):
            registry.lanes(f"shop-{number}", "CALL")
        assert len(registry._lanes) <= MOST_LANES


async def test_a_registration_of_the_configuration_changes_in_memory_alone(tmp_path: Path) -> None:
    one, two = (registration(f"global_{n}", instance=GLOBAL_INSTANCE, label=n) for n in "xy")
    disabled = msgspec.structs.replace(one, enabled=False)
    async with opened(tmp_path, one, two) as (registry, store):
        await registry.put(disabled)
        assert registry.registration("global_x") == disabled
        assert registry.wanting("shop", "CALL") == [two]
        assert await store.load_registrations() == {}


async def test_in_a_fleet_other_nodes_hear_that_a_registration_of_the_configuration_is_disabled(
    tmp_path: Path,
) -> None:
    everywhere = registration("global_all", instance=GLOBAL_INSTANCE, label="all")
    off = registration("global_off", instance=GLOBAL_INSTANCE, label="off", enabled=False)
    gone = msgspec.structs.replace(everywhere, enabled=False, disabled_reason="Gone.")
    async with open_store(tmp_path / "hookgw.db", clock=Clock()) as store:
        nodes = [Registry(store, Audit(store, Clock()), AUDITED, is_shared=True) for _ in range(2)]
        for one in nodes:
            await one.load([everywhere, off], None)
        a, b = nodes

        async def hear() -> None:
            reason = await store.get_value("disabled_webhooks.all")
            b.apply_disabled({"all": reason, "off": None, "unknown": "Gone."})

        await a.put(msgspec.structs.replace(everywhere, failing_since=1.0))
        assert await store.get_value("disabled_webhooks.all") is None
        await a.put(gone)
        await hear()
        assert b.registration("global_all") == gone
        assert [r.id for r in b.wanting("shop", "CALL")] == []
        await hear()
        await a.put(everywhere)
        await hear()
        assert b.registration("global_all") == everywhere
        assert [r.id for r in b.wanting("shop", "CALL")] == ["global_all"]
        assert b.registration("global_off") == off


async def test_memory_follows_the_disk_where_the_caller_has_gone_away(tmp_path: Path) -> None:
    async with opened(tmp_path) as (registry, store):
        async with cancelled():
            await registry.put_instance(SHOP)
        async with cancelled():
            await registry.put(registration())
        assert registry.find_instance("shop") == SHOP
        assert registry.find("shop", "default") == registration()
        assert set(await store.load_registrations()) == {"reg_1"}
        async with cancelled():
            await registry.remove(registration())
        async with cancelled():
            await registry.remove_instance(SHOP)
        assert registry.instances() == []
        assert registry.of_instance("shop") == []
        assert (await store.load_instances(), await store.load_registrations()) == ({}, {})


class RefusingStore:
    """A disk that takes nothing."""

    async def _refuse(self, *given: object, **named: object) -> None:
        await trio.lowlevel.checkpoint()
        raise StorageUnavailable("disk full")

    put_instance = remove_instance = put_registration = remove_registration = _refuse

    async def load_instances(self) -> dict[str, Instance]:
        return {"shop": SHOP}

    async def load_registrations(self) -> dict[str, Registration]:
        return {"reg_1": registration()}


async def test_what_the_disk_refuses_does_not_happen() -> None:
    store: Any = RefusingStore()
    registry = Registry(store, Audit(store, Clock()), AUDITED)
    await registry.load((), None)
    with pytest.raises(StorageUnavailable):
        await registry.put_instance(Instance(name="bar", id="id-2"))
    with pytest.raises(StorageUnavailable):
        await registry.put(registration("reg_2", label="crm"))
    with pytest.raises(StorageUnavailable):
        await registry.remove(registration())
    with pytest.raises(StorageUnavailable):
        await registry.remove_instance(SHOP)
    assert registry.instances() == [SHOP]
    assert registry.of_instance("shop") == [registration()]


@pytest.mark.parametrize("later", [None, Instance(name="shop", id="id-2")])
async def test_a_change_that_waited_does_not_concern_a_later_instance(
    later: Instance | None, tmp_path: Path
) -> None:
    changed: list[Instance] = []

    async def change() -> None:
        with pytest.raises(NotFound, match=r"'shop' (was deleted|does not exist)"):
            async with registry.changing_existing("shop") as instance:
                changed.append(instance)

    async with opened(tmp_path) as (registry, _), trio.open_nursery() as nursery:
        await registry.put_instance(SHOP)
        async with registry.changing("shop"):
            nursery.start_soon(change)
            await wait_all_tasks_blocked()
            await registry.remove_instance(SHOP)
            if later is not None:
                await registry.put_instance(later)
    assert changed == []


async def test_a_change_that_waited_sees_the_instance_as_it_is_then(tmp_path: Path) -> None:
    connected = msgspec.structs.replace(SHOP, connected=True)
    seen: list[Instance] = []

    async def change() -> None:
        async with registry.changing_existing("shop") as instance:
            seen.append(instance)

    async with opened(tmp_path) as (registry, _), trio.open_nursery() as nursery:
        await registry.put_instance(SHOP)
        async with registry.changing("shop"):
            nursery.start_soon(change)
            await wait_all_tasks_blocked()
            await registry.put_instance(connected)
    assert seen == [connected]
