"""Calls that wait while their instance is deleted, and created anew for somebody else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw.gateway.gateway import Gateway
from hookgw.models.errors import NotFound, Unavailable
from hookgw.models.instances import Instance
from hookgw.models.registrations import DEFAULT_LABEL, Registration, RegistrationChange
from hookgw.store import AuditQuery
from hookgw.testing import FakeConnector, GatewayKit
from tests.gateway.test_keys import everything

Call = Callable[[Gateway], Awaitable[Any]]

# Every call that changes what belongs to an instance.
CALLS: dict[str, Call] = {
    "set": lambda g: g.registrations.set("shop", DEFAULT_LABEL, RegistrationChange(url="http://b.example/")),
    "set another": lambda g: g.registrations.set("shop", "crm", RegistrationChange(url="http://b.example/")),
    "update": lambda g: g.registrations.update(
        "shop", DEFAULT_LABEL, RegistrationChange(url="http://b.example/")
    ),
    "pause": lambda g: g.registrations.pause("shop"),
    "resume": lambda g: g.registrations.resume("shop"),
    "delete registration": lambda g: g.registrations.delete("shop"),
    "rotate secret": lambda g: g.registrations.rotate_secret("shop", DEFAULT_LABEL, 0.0),
    "delete": lambda g: g.instances.delete("shop"),
    "connect": lambda g: g.instances.connect("shop"),
    "restart": lambda g: g.instances.restart("shop"),
    "log out": lambda g: g.instances.logout("shop"),
    "rotate ingest": lambda g: g.instances.rotate_ingest("shop"),
    "options": lambda g: g.instances.change_options("shop", {"colour": "red"}, is_operator=True),
    "settings": lambda g: g.instances.change_settings("shop", {"reject_call": True}),
    "create key": lambda g: g.keys.create("shop", "crm", expires_at=None, maker=everything(g)),
    "revoke key": lambda g: g.keys.revoke("shop", "default", by=everything(g)),
    "erase": lambda g: g.erasures.erase("shop", "5511@s.whatsapp.net"),
}


@pytest.fixture
def hookgw_plugins() -> dict[str, object]:
    return {"fake": FakeConnector()}


@pytest.fixture
async def gateway(hookgw_gateway: GatewayKit, hookgw_clock: MockClock) -> Gateway:
    gateway = hookgw_gateway.gateway
    await gateway.instances.create(
        "shop", integration="fake", webhook=RegistrationChange(url="http://a.example/")
    )
    return gateway


async def state(gateway: Gateway) -> tuple[Instance, list[Registration], bool, int]:
    """Return what a call may change: the instance, its registrations, its connector, and the audit log."""
    audit = await gateway.store.list_audit(AuditQuery())
    webhooks = gateway.registrations.of_instance("shop")
    running = gateway.instances._connectors.is_running("shop")
    return gateway.instances.get("shop"), webhooks, running, len(audit.entries)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_that_waited_leaves_a_later_instance_alone(
    call: Call, gateway: Gateway, hookgw_clock: MockClock
) -> None:
    registry = gateway.registrations._registry
    shop, (webhook,) = registry.instance("shop"), registry.of_instance("shop")

    async def make() -> None:
        with pytest.raises(NotFound, match=r"^The instance 'shop' was deleted\.$"):
            await call(gateway)

    async with trio.open_nursery() as nursery, registry.changing("shop"):
        nursery.start_soon(make)
        await wait_all_tasks_blocked()
        await registry.remove_instance(shop)
        await registry.put_instance(
            msgspec.structs.replace(shop, id="later"), msgspec.structs.replace(webhook, id="reg_later")
        )
        later = await state(gateway)
    assert await state(gateway) == later


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_that_waited_asks_again_who_owns_the_instance(
    call: Call, gateway: Gateway, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a fleet, its shard may have gone to another node."""

    def refuse(instance: str) -> None:
        raise Unavailable(f"{instance} belongs to another node")

    registry = gateway.registrations._registry

    async def make() -> None:
        with pytest.raises(Unavailable, match=r"^shop belongs to another node$"):
            await call(gateway)

    async with trio.open_nursery() as nursery, registry.changing("shop"):
        nursery.start_soon(make)
        await wait_all_tasks_blocked()
        monkeypatch.setattr(registry, "check_owner", refuse)
        before = await state(gateway)
    assert await state(gateway) == before
