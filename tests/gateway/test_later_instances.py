"""Calls that wait while their instance is deleted, and created anew for somebody else."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hookgw import Conflict, Gateway, NotFound, Registration, Session, Unavailable
from hookgw.testing import FakeConnector, GatewayKit
from tests.gateway.test_keys import everything
from tests.public.records import DEFAULT_LABEL, Instance
from tests.public.store import AuditQuery, DeliveryQuery
from tests.public.webhooks import RegistrationChange

pytestmark = pytest.mark.usefixtures("hookgw_clock")

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


class Slow(FakeConnector):
    """Waits where an instance restarts, logs out or is removed, until the test lets it go on."""

    def __init__(self) -> None:
        super().__init__()
        self.free = trio.Event()
        self.free.set()

    async def restart(self, session: Session) -> None:
        await self.free.wait()

    async def logout(self, session: Session) -> None:
        await self.free.wait()

    async def remove(self, session: Session) -> None:
        await self.free.wait()


@pytest.fixture
def connector() -> Slow:
    return Slow()


@pytest.fixture
def hookgw_plugins(connector: Slow) -> dict[str, object]:
    return {"fake": connector}


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
    running = gateway.connectors.is_running("shop")
    return gateway.instances.get("shop"), webhooks, running, len(audit.entries)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_that_waited_leaves_a_later_instance_alone(call: Call, gateway: Gateway) -> None:
    registry = gateway.registry
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


@pytest.mark.parametrize("call", ["set", "update"])
async def test_a_call_that_counted_what_was_missed_leaves_a_later_instance_alone(
    call: str, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, count = gateway.registry, gateway.store.find_missed
    shop, (webhook,) = registry.instance("shop"), registry.of_instance("shop")
    await gateway.registrations.update(
        "shop", DEFAULT_LABEL, RegistrationChange(url="http://a.example/", enabled=False)
    )
    later: Any = None

    async def slowly(*given: Any) -> Any:
        nonlocal later
        missed = await count(*given)
        await registry.remove_instance(shop)
        await registry.put_instance(
            msgspec.structs.replace(shop, id="later"), msgspec.structs.replace(webhook, id="reg_later")
        )
        later = await state(gateway)
        return missed

    monkeypatch.setattr(gateway.store, "find_missed", slowly)
    change = RegistrationChange(url="http://b.example/", enabled=True)
    with pytest.raises(NotFound, match=r"^The instance 'shop' was deleted\.$"):
        await getattr(gateway.registrations, call)("shop", DEFAULT_LABEL, change)
    assert await state(gateway) == later


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_that_waited_asks_again_who_owns_the_instance(
    call: Call, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a fleet, its shard may have gone to another node."""

    def refuse(instance: str) -> None:
        raise Unavailable(f"{instance} belongs to another node")

    registry = gateway.registry

    async def make() -> None:
        with pytest.raises(Unavailable, match=r"^shop belongs to another node$"):
            await call(gateway)

    async with trio.open_nursery() as nursery, registry.changing("shop"):
        nursery.start_soon(make)
        await wait_all_tasks_blocked()
        monkeypatch.setattr(registry, "check_owner", refuse)
        before = await state(gateway)
    assert await state(gateway) == before


@pytest.mark.parametrize("call", ["delete", "logout", "restart"])
async def test_a_call_that_waited_for_the_network_leaves_a_later_instance_alone(
    call: str, connector: Slow, gateway: Gateway
) -> None:
    async def make() -> None:
        with pytest.raises(NotFound, match=r"^The instance 'shop' was deleted\.$"):
            await getattr(gateway.instances, call)("shop")

    await gateway.instances.connect("shop")
    connector.free = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(make)
        await wait_all_tasks_blocked()
        waiting, connector.free = connector.free, trio.Event()
        connector.free.set()
        await gateway.instances.delete("shop")
        await gateway.instances.create("shop", integration="fake")
        await gateway.instances.connect("shop")
        later = await state(gateway)
        waiting.set()
    assert await state(gateway) == later
    assert later[2]


async def test_events_of_a_connector_that_ended_do_not_go_to_a_later_instance(
    connector: Slow, gateway: Gateway, hookgw_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> list[bool]:
        await trio.lowlevel.checkpoint()
        raise Unavailable("The backlog is full.", retry_after=5.0)

    await gateway.instances.connect("shop")
    former = connector.session("shop")
    with monkeypatch.context() as full:
        full.setattr(gateway.events._outbox, "append", refuse)
        connector.log_out("shop")
        while gateway.connectors.is_running("shop"):
            await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
    await gateway.instances.delete("shop")
    await gateway.instances.create(
        "shop", integration="fake", webhook=RegistrationChange(url="http://b.example/")
    )
    with pytest.raises((NotFound, Conflict)):
        await former.emit("CALL", {"of": "the former instance"})
    hookgw_clock.jump(10)
    await wait_all_tasks_blocked()
    assert (await gateway.store.list_deliveries(DeliveryQuery(instance="shop"))).deliveries == []
