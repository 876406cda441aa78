"""Creating, connecting and deleting instances, through a running gateway."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import MockClock

from hookgw import (
    Conflict,
    ConnectionState,
    DeliveryState,
    HookgwError,
    Invalid,
    NotFound,
    Session,
    TextMessage,
)
from hookgw.testing import FakeConnector, GatewayKit, Receiver, answer, hang, open_kit
from hookgw.testing.connector import connect_at_once
from tests.public.core import Registry
from tests.public.instances import InstanceService
from tests.public.kernel import Forbidden, StorageUnavailable
from tests.public.records import Instance, Principal, check_name
from tests.public.store import DeliveryQuery
from tests.support.disks import refuse
from tests.support.keys import principal_of

pytestmark = pytest.mark.usefixtures("hookgw_clock")

DATA = {"key": {"remoteJid": "5511@s.whatsapp.net", "fromMe": False, "id": "A"}}


@pytest.fixture
def connector() -> FakeConnector:
    return FakeConnector()


@pytest.fixture
def hookgw_plugins(connector: FakeConnector) -> dict[str, object]:
    return {"fake": connector}


async def together(*calls: partial[Any]) -> list[Any]:
    """Make calls at once; their results or errors, in the order of the calls."""
    results: list[Any] = [None] * len(calls)

    async def make(number: int, call: partial[Any]) -> None:
        try:
            results[number] = await call()
        except HookgwError as error:
            results[number] = error

    async with trio.open_nursery() as nursery:
        for number, call in enumerate(calls):
            nursery.start_soon(make, number, call)
    return results


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 128, "MESSAGES_UPSERT", "...", ".a", "a."])
def test_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "x" * 129, "a b", "ação", "a/b", "a\n", "*", None, 7, "٣", ".", ".."])
def test_what_is_no_name(name: object) -> None:
    with pytest.raises(Invalid, match=r"^label must be 1 to 128 letters \(A-Z, a-z\), digits"):
        check_name(name, "label")


# Creating


async def test_a_created_instance_has_a_key_of_its_own(hookgw_gateway: GatewayKit) -> None:
    gateway = hookgw_gateway.gateway
    shop, key, _ = await gateway.instances.create("shop", integration="fake", options={"a": [1]})
    _, other_key, _ = await gateway.instances.create("bar")
    assert principal_of(gateway, key) == Principal("shop")
    assert principal_of(gateway, other_key) == Principal("bar")
    assert gateway.instances.get("shop") == shop
    assert (shop.integration, shop.options, shop.connected) == ("fake", {"a": [1]}, False)
    assert shop.created_at == gateway.clock.wall()
    assert key not in repr(shop)


@pytest.mark.parametrize(
    ("token", "error"),
    [
        ("1234567", Invalid),
        ("x" * 257, Invalid),
        ("with\nbreak", Invalid),
        ("nãoascii1", Invalid),
        ("test-key", Forbidden),
        ("shop-token", Forbidden),
    ],
)
async def test_tokens_that_cannot_be_keys(
    hookgw_gateway: GatewayKit, token: str, error: type[HookgwError]
) -> None:
    gateway = hookgw_gateway.gateway
    await gateway.instances.create("shop", token="shop-token")
    with pytest.raises(error, match="token"):
        await gateway.instances.create("bar", token=token)
    assert gateway.instances.find("bar") is None
    assert principal_of(gateway, "shop-token") == Principal("shop")


@pytest.mark.parametrize("token", ["12345678", "x" * 256, "with space"])
async def test_tokens_at_the_edge(hookgw_gateway: GatewayKit, token: str) -> None:
    _, key, _ = await hookgw_gateway.gateway.instances.create("shop", token=token)
    assert key == token
    assert principal_of(hookgw_gateway.gateway, token) == Principal("shop")


@pytest.mark.parametrize("token", [None, ""])
async def test_without_a_token_a_key_is_made(hookgw_gateway: GatewayKit, token: str | None) -> None:
    _, key, _ = await hookgw_gateway.gateway.instances.create("shop", token=token)
    assert len(key) == 32


async def test_nothing_is_created_of_bad_input(hookgw_gateway: GatewayKit) -> None:
    gateway = hookgw_gateway.gateway
    with pytest.raises(Invalid, match="instanceName"):
        await gateway.instances.create("a b")
    with pytest.raises(Invalid, match=r"no connector 'pigeon'\. Known connectors: .*fake, gowa, matrix"):
        await gateway.instances.create("shop", integration="pigeon")
    await gateway.instances.create("shop")
    with pytest.raises(Forbidden, match="'shop' is already in use"):
        await gateway.instances.create("shop")
    assert [i.name for i in gateway.instances.all()] == ["shop"]


async def test_one_name_is_created_once(hookgw_gateway: GatewayKit) -> None:
    gateway = hookgw_gateway.gateway
    results = await together(*[partial(gateway.instances.create, "shop")] * 5)
    created = [result for result in results if not isinstance(result, HookgwError)]
    assert len(created) == 1
    assert all(isinstance(r, Forbidden) for r in results if r is not created[0])
    assert principal_of(gateway, created[0][1]) == Principal("shop")


async def test_one_token_is_given_once(hookgw_gateway: GatewayKit) -> None:
    gateway = hookgw_gateway.gateway
    names = [f"shop{n}" for n in range(5)]
    results = await together(*[partial(gateway.instances.create, n, token="same-token") for n in names])
    created = [result[0].name for result in results if not isinstance(result, HookgwError)]
    assert [i.name for i in gateway.instances.all()] == created
    assert len(created) == 1
    assert principal_of(gateway, "same-token") == Principal(created[0])


async def test_a_caller_that_goes_away_leaves_nothing_half_made(hookgw_gateway: GatewayKit) -> None:
    gateway = hookgw_gateway.gateway
    with trio.CancelScope() as scope:
        scope.cancel()
        await gateway.instances.create("shop", token="shop-token")
    assert principal_of(gateway, "shop-token") == Principal("shop")
    with trio.CancelScope() as scope:
        scope.cancel()
        await gateway.instances.delete("shop")
    assert gateway.instances.find("shop") is None
    while principal_of(gateway, "shop-token") is not None:  # valid until the end of the deletion's job
        await trio.testing.wait_all_tasks_blocked(0.001)


async def test_keys_outlive_a_restart(tmp_path: Path) -> None:
    async with open_kit(tmp_path) as kit:
        _, key, _ = await kit.gateway.instances.create("shop")
    async with open_kit(tmp_path) as kit:
        assert principal_of(kit.gateway, key) == Principal("shop")
        assert principal_of(kit.gateway, kit.key) == Principal()
    assert key.encode() not in (tmp_path / "hookgw.db").read_bytes()


# Deleting


async def test_a_deleted_instance_leaves_nothing_to_its_successor(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    """Neither its key, nor its registrations, nor what was pending, nor the ids of its events."""
    gateway, receiver = hookgw_gateway.gateway, hookgw_receiver
    receiver.will(answer(200), answer(503))
    _, key, _ = await gateway.instances.create("shop")
    await hookgw_gateway.register(receiver.url)
    for event_id in ("e1", "e2", "e3"):
        await hookgw_gateway.emit("MESSAGES_UPSERT", {"of": "old"}, event_id=event_id)
    await hookgw_gateway.emit("CONNECTION_UPDATE", {"state": "open"})
    await hookgw_gateway.settled()
    await gateway.instances.delete("shop")
    assert principal_of(gateway, key) is None

    await gateway.instances.create("shop")
    assert principal_of(gateway, key) is None
    assert gateway.registrations.of_instance("shop") == []
    assert gateway.instances.connection_state("shop") is ConnectionState.CLOSE
    assert (await gateway.store.list_deliveries(DeliveryQuery(instance="shop"))).deliveries == []
    assert await gateway.store.find_delivery("shop", "e1") is None
    assert await gateway.store.find_delivery("shop", "dlv_1") is None

    await hookgw_gateway.register(receiver.url)
    await hookgw_gateway.emit("MESSAGES_UPSERT", {"of": "new"}, event_id="e1")
    await hookgw_gateway.advance(30)
    assert [request.json["data"]["of"] for request in receiver.requests] == ["old", "old", "new"]
    [delivery] = (await gateway.store.list_deliveries(DeliveryQuery(instance="shop"))).deliveries
    assert (delivery.event_id, delivery.instance) == ("e1", "shop")


async def test_an_instance_may_be_called_like_a_kind_and_be_deleted(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    gateway = hookgw_gateway.gateway
    for name in ("MESSAGES_UPSERT", "shop"):
        await hookgw_gateway.register(hookgw_receiver.url, instance=name)
        await hookgw_gateway.emit("MESSAGES_UPSERT", DATA, instance=name)
    await hookgw_gateway.settled()
    await gateway.instances.delete("MESSAGES_UPSERT")
    [delivery] = (await gateway.store.list_deliveries(DeliveryQuery(instance="shop"))).deliveries
    assert (delivery.kind, delivery.state) == ("MESSAGES_UPSERT", DeliveryState.DELIVERED)
    await hookgw_gateway.emit("MESSAGES_UPSERT", DATA)
    await hookgw_gateway.settled()
    assert len(hookgw_receiver.requests) == 3


async def test_what_is_on_the_wire_ends_in_peace_when_its_instance_is_deleted(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    hookgw_receiver.will(hang())
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit("MESSAGES_UPSERT", DATA)
    await hookgw_receiver.wait_for(1)
    await hookgw_gateway.gateway.instances.delete("shop")
    await hookgw_gateway.register(hookgw_receiver.url)
    hookgw_clock.jump(30)
    await hookgw_gateway.advance(3600)
    assert len(hookgw_receiver.requests) == 1
    assert hookgw_gateway.gateway.backlog.count == 0


async def test_what_was_deleted_stays_away_after_a_restart(tmp_path: Path, hookgw_receiver: Receiver) -> None:
    hookgw_receiver.default = answer(503)
    async with open_kit(tmp_path) as kit:
        _, key, _ = await kit.gateway.instances.create("shop")
        await kit.register(hookgw_receiver.url)
        await kit.emit("MESSAGES_UPSERT", DATA, event_id="e1")
        await kit.settled()
        await kit.gateway.instances.delete("shop")
    async with open_kit(tmp_path) as kit:
        assert kit.gateway.instances.all() == []
        await kit.gateway.instances.create("shop")
        assert principal_of(kit.gateway, key) is None
        assert await kit.gateway.store.find_delivery("shop", "e1") is None
        await kit.advance(3600)
        assert len(hookgw_receiver.requests) == 1


async def test_deleting_what_does_not_exist(hookgw_gateway: GatewayKit) -> None:
    with pytest.raises(NotFound):
        await hookgw_gateway.gateway.instances.delete("shop")


async def test_deleting_at_once_with_creating_anew_leaves_no_key_behind(hookgw_gateway: GatewayKit) -> None:
    gateway = hookgw_gateway.gateway
    _, key, _ = await gateway.instances.create("shop")
    results = await together(
        partial(gateway.instances.delete, "shop"),
        partial(gateway.instances.create, "shop"),
        partial(gateway.instances.delete, "shop"),
        partial(gateway.instances.delete, "shop"),
    )
    alive = gateway.instances.find("shop")
    good = [one.hash for one in alive.keys] if alive else []
    for one in [key, *(result[1] for result in results if isinstance(result, tuple))]:
        owner = Principal("shop") if gateway.authenticator.keyring.hash(one) in good else None
        assert principal_of(gateway, one) == owner
    assert principal_of(gateway, key) is None
    assert any(isinstance(result, NotFound) for result in results)


# Connecting


async def test_connected_instances_are_connected_again_after_a_restart(tmp_path: Path) -> None:
    connector = FakeConnector()
    async with open_kit(tmp_path, plugins={"fake": connector}) as kit:
        for name in ("on", "off", "never"):
            await kit.gateway.instances.create(name, integration="fake", options={"n": name})
        await kit.gateway.instances.create("by-http")
        for name in ("on", "off"):
            assert await kit.gateway.instances.connect(name) is None
        await kit.gateway.instances.logout("off")
        assert kit.gateway.instances.connection_state("off") is ConnectionState.CLOSE
    again = FakeConnector()
    async with open_kit(tmp_path, plugins={"fake": again}) as kit:
        await kit.settled()
        assert again.runs == 1
        assert again.session("on").options == {"n": "on"}


@pytest.mark.parametrize("change", ["logout", "delete", "change_tags"])
async def test_a_start_takes_each_instance_as_it_is_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """The connector takes requests since an update: a start stores a token for each, and calls may come."""
    async with open_kit(tmp_path, plugins={"fake": FakeConnector(without=["ingest"])}) as kit:
        for name in ("first", "second"):
            await kit.gateway.instances.create(name, integration="fake")
            await kit.gateway.instances.connect(name)
    start, put, services = InstanceService.start_connected, Registry.put_instance, []

    async def start_connected(self: InstanceService, *given: Any) -> None:
        services.append(self)
        await start(self, *given)

    async def put_instance(self: Registry, instance: Instance, *more: Any) -> None:
        await put(self, instance, *more)
        if instance.name == "first" and len(services) == 1:
            service = services.pop()
            await getattr(service, change)("second", *([{"tenant": "acme"}] if "tags" in change else []))

    monkeypatch.setattr(InstanceService, "start_connected", start_connected)
    monkeypatch.setattr(Registry, "put_instance", put_instance)
    updated = FakeConnector()
    async with open_kit(tmp_path, plugins={"fake": updated}) as kit:
        await kit.settled()
        found = kit.gateway.instances.find("second")
        assert (found is None) is (change == "delete")
        assert found is None or found.connected is updated.is_running("second") is (change == "change_tags")
        assert change != "change_tags" or (found and found.tags == {"tenant": "acme"} and found.ingest_token)
        assert updated.is_running("first")


async def until(kit: GatewayKit, condition: Callable[[], bool]) -> None:
    while not condition():  # the store writes in a thread
        await kit.settled()


class SlowNetwork(FakeConnector):
    """It waits in each call that prepares the end of a run."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun, self.may_end = trio.Event(), trio.Event()

    async def _prepare(self, session: Session) -> None:
        self.has_begun.set()
        await self.may_end.wait()

    remove = logout = restart = _prepare


@pytest.mark.parametrize("change", ["delete", "logout", "restart"])
async def test_a_client_that_leaves_while_the_network_is_told_stops_nothing(
    tmp_path: Path, change: str
) -> None:
    """The connector has given up its account by then. It went on like that, and no event came any more."""
    network = SlowNetwork()
    async with open_kit(tmp_path, plugins={"fake": network}) as kit:
        instances = kit.gateway.instances
        await instances.create("shop", integration="fake")
        await instances.connect("shop")
        async with trio.open_nursery() as client:
            client.start_soon(getattr(instances, change), "shop")
            await network.has_begun.wait()
            client.cancel_scope.cancel()
        network.may_end.set()
        match change:
            case "delete":
                await until(kit, lambda: instances.find("shop") is None)
            case "logout":
                await until(kit, lambda: not instances.get("shop").connected)
                await instances.change_tags("shop", {})  # after the logout: it holds the instance
                assert not network.is_running("shop")
            case _:
                await until(kit, lambda: network.runs == 2)


@pytest.mark.parametrize("change", ["delete", "logout"])
async def test_an_account_whose_end_the_disk_refuses_begins_anew(
    tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connector has taken its webhook away by then: no event came any more."""
    network = SlowNetwork()
    network.may_end.set()
    async with open_kit(tmp_path, plugins={"fake": network}) as kit:
        instances = kit.gateway.instances
        await instances.create("shop", integration="fake")
        await instances.connect("shop")
        with monkeypatch.context() as patches:
            patches.setattr(kit.gateway.store, "put_instance", refuse)
            with pytest.raises(StorageUnavailable):
                await getattr(instances, change)("shop")
            await until(kit, lambda: network.runs == 2)
        assert network.is_running("shop")
        assert instances.get("shop").connected


async def problems_of(kit: GatewayKit) -> list[str]:
    return [problem.why for problem in (await kit.gateway.views.overview(None, 10)).problems]


LOGGED_OUT = "The network logged the account out."


@pytest.mark.parametrize("ends_it", ["connect", "logout", "delete"])
async def test_an_account_that_was_logged_out_needs_attention_until_somebody_acts(
    tmp_path: Path, ends_it: str
) -> None:
    connector = FakeConnector()
    async with open_kit(tmp_path, plugins={"fake": connector}) as kit:
        await kit.gateway.instances.create("shop", integration="fake")
        await kit.gateway.instances.connect("shop")
        assert await problems_of(kit) == []
        connector.log_out("shop")
        await kit.advance(2)
        assert await problems_of(kit) == [f"Not connected. {LOGGED_OUT}"]
        await kit.settled()  # that it does not connect by itself any more is stored, too
        before = kit.gateway.instances.get("shop").updated_at
        ended = kit.gateway.instances.closing("shop")
    async with open_kit(tmp_path, plugins={"fake": FakeConnector()}) as kit:
        await kit.advance(3 * 86_400)  # longer than a day
        assert await problems_of(kit) == [f"Not connected. {LOGGED_OUT}"]
        assert kit.gateway.instances.closing("shop") == ended
        assert kit.gateway.instances.close_reason("shop") == LOGGED_OUT
        assert kit.gateway.instances.get("shop").updated_at == before
        match ends_it:
            case "connect":
                await kit.gateway.instances.connect("shop")
            case "logout":
                await kit.gateway.instances.logout("shop")
            case _:
                await kit.gateway.instances.delete("shop")
        await kit.settled()
        assert await problems_of(kit) == []
    async with open_kit(tmp_path, plugins={"fake": FakeConnector()}) as kit:
        await kit.settled()
        assert await problems_of(kit) == []


async def test_an_end_that_an_event_reported_is_known_after_a_restart(tmp_path: Path) -> None:
    async with open_kit(tmp_path) as kit:
        await kit.gateway.instances.create("shop")
        for data in ({"state": "open"}, {"state": "close", "statusReason": 401}):
            await kit.emit("CONNECTION_UPDATE", data)
            await kit.settled()
        ended = kit.gateway.instances.closing("shop")
        assert ended is not None
        assert ended.reason == 401
        await kit.advance(2)
    async with open_kit(tmp_path) as kit:
        assert kit.gateway.instances.closing("shop") == ended
        await kit.emit("CONNECTION_UPDATE", {"state": "close"})
        await kit.settled()
        assert kit.gateway.instances.closing("shop") == ended


async def test_a_disk_that_refuses_the_end_of_a_connection_gets_it_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_kit(tmp_path) as kit:
        await kit.gateway.instances.create("shop")
        put, refusals = Registry.put_instance, [StorageUnavailable("The disk is full.")]

        async def refuse(self: Registry, *args: Any) -> None:
            if refusals:
                raise refusals.pop()
            await put(self, *args)

        monkeypatch.setattr(Registry, "put_instance", refuse)
        await kit.emit("CONNECTION_UPDATE", {"state": "close", "statusReason": 401})
        await kit.advance(5)
        while (stored := kit.gateway.instances.get("shop").disconnection) is None:
            await kit.settled()  # the store writes in a thread
        assert stored.code == 401


@pytest.mark.parametrize("without", [(), ("ingest",)], ids=["the-same", "takes-requests-now"])
async def test_a_start_that_is_cancelled_while_connectors_start_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without: tuple[str, ...]
) -> None:
    """Found by seed 44873 of the simulator: the process ended with an error."""
    async with open_kit(tmp_path, plugins={"fake": FakeConnector(without=without)}) as kit:
        await kit.gateway.instances.create("shop", integration="fake")
        await kit.gateway.instances.connect("shop")
    start_connected = InstanceService.start_connected

    with trio.CancelScope() as start:

        async def start_late(self: InstanceService, *given: Any) -> None:
            start.cancel()
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked(0.01)  # the connectors' task ends
            await start_connected(self, *given)

        monkeypatch.setattr(InstanceService, "start_connected", start_late)
        async with open_kit(tmp_path, plugins={"fake": FakeConnector()}):
            raise AssertionError("it has started")
    assert start.cancelled_caught


async def test_connecting_again_begins_a_closed_connection_anew(
    tmp_path: Path, hookgw_clock: MockClock
) -> None:
    """A connector may go on after the network has closed the connection, to hear what comes later."""

    async def close(session: Session) -> None:
        await session.set_state(ConnectionState.CLOSE, 428)

    connector = FakeConnector(script=close)
    async with open_kit(tmp_path, plugins={"fake": connector}) as kit:
        instances = kit.gateway.instances
        await instances.create("shop", integration="fake")
        for runs in (1, 2):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(instances.connect, "shop")
                while connector.runs < runs:  # the store writes in a thread
                    await kit.settled()
                await kit.settled()
                assert connector.runs == runs
                hookgw_clock.jump(10)  # there is no code to wait for
        connector.script = connect_at_once
        await instances.connect("shop")
        await instances.connect("shop")
        assert connector.runs == 3
        assert instances.connection_state("shop") is ConnectionState.OPEN


async def test_connecting_again_does_not_shorten_the_wait_after_a_failure(tmp_path: Path) -> None:
    async def fail(session: Session) -> None:
        await trio.lowlevel.checkpoint()
        raise RuntimeError("broken")

    connector = FakeConnector(script=fail)
    async with open_kit(tmp_path, plugins={"fake": connector}) as kit:
        await kit.gateway.instances.create("shop", integration="fake")
        kit.gateway.connectors.start(kit.gateway.instances.get("shop"))
        await kit.settled()
        runs = connector.runs
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kit.gateway.instances.connect, "shop")
            await kit.settled()
            nursery.cancel_scope.cancel()
        assert connector.runs == runs


async def test_a_connector_that_vanished_is_passed_over(tmp_path: Path) -> None:
    async with open_kit(tmp_path, plugins={"fake": FakeConnector()}) as kit:
        await kit.gateway.instances.create("shop", integration="fake")
        await kit.gateway.instances.connect("shop")
    async with open_kit(tmp_path) as kit:
        assert kit.gateway.instances.connection_state("shop") is ConnectionState.CLOSE
        said = "The connector 'fake' is not available: its plugin is disabled or not installed"
        assert str(kit.gateway.instances.close_reason("shop")).startswith(said)
        with pytest.raises(Conflict, match=said):
            await kit.gateway.instances.connect("shop")
        with pytest.raises(Conflict, match=said):
            await kit.gateway.messages.send("shop", TextMessage(number="55", text="hi"))
    back = FakeConnector()
    async with open_kit(tmp_path, plugins={"fake": back}) as kit:
        await kit.settled()
        assert back.runs == 1
        await kit.gateway.instances.delete("shop")


@pytest.mark.parametrize("call", ["connect", "logout"])
async def test_what_has_no_connector_is_not_connected(hookgw_gateway: GatewayKit, call: str) -> None:
    gateway = hookgw_gateway.gateway
    with pytest.raises(NotFound):
        await getattr(gateway.instances, call)("shop")
    await gateway.instances.create("shop")
    with pytest.raises(Conflict, match="only over HTTP"):
        await getattr(gateway.instances, call)("shop")


async def test_an_account_logged_out_on_the_phone_is_not_connected_again(tmp_path: Path) -> None:
    connector = FakeConnector()
    async with open_kit(tmp_path, plugins={"fake": connector}) as kit:
        await kit.gateway.instances.create("shop", integration="fake")
        await kit.gateway.instances.connect("shop")
        connector.log_out("shop")
        while kit.gateway.instances.get("shop").connected:
            await kit.settled()
    again = FakeConnector()
    async with open_kit(tmp_path, plugins={"fake": again}) as kit:
        await kit.settled()
        assert again.runs == 0


async def test_a_logout_that_the_disk_refuses_to_keep_is_logged(
    hookgw_gateway: GatewayKit, connector: FakeConnector, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(instance: Instance) -> None:
        await trio.lowlevel.checkpoint()
        raise StorageUnavailable("disk full")

    gateway = hookgw_gateway.gateway
    await gateway.instances.create("shop", integration="fake")
    await gateway.instances.connect("shop")
    monkeypatch.setattr(gateway.registry, "put_instance", refuse)
    with capture_logs() as logs:
        connector.log_out("shop")
        while not any(line["event"] == "logout not kept" for line in logs):
            await hookgw_gateway.settled()
    assert gateway.instances.get("shop").connected
    assert gateway.instances.connection_state("shop") is ConnectionState.CLOSE


async def test_an_account_connected_anew_stays_connected_after_an_old_logout(
    hookgw_gateway: GatewayKit, connector: FakeConnector
) -> None:
    gateway = hookgw_gateway.gateway
    await gateway.instances.create("shop", integration="fake")
    await gateway.instances.connect("shop")
    async with gateway.registry.changing("shop"):
        connector.log_out("shop")
        while gateway.connectors.is_running("shop"):
            await trio.lowlevel.checkpoint()
        await hookgw_gateway.settled()
        gateway.connectors.start(gateway.instances.get("shop"))
    await hookgw_gateway.settled()
    async with gateway.registry.changing("shop"):
        assert gateway.instances.get("shop").connected
    assert connector.runs == 2


async def test_connecting_and_logging_out_at_once_agree(
    hookgw_gateway: GatewayKit, connector: FakeConnector
) -> None:
    """Whichever comes last, what runs is what is on disk."""
    gateway = hookgw_gateway.gateway
    await gateway.instances.create("shop", integration="fake")
    connect, logout = partial(gateway.instances.connect, "shop"), partial(gateway.instances.logout, "shop")
    for calls in ((connect, logout), (logout, connect), (connect, logout, connect), (connect, connect)):
        await together(*calls)
        is_running = connector.is_running("shop")
        assert gateway.instances.get("shop").connected is is_running
        assert (await gateway.store.load_instances())["shop"].connected is is_running


async def test_a_connect_whose_caller_goes_away_is_whole(
    hookgw_gateway: GatewayKit, connector: FakeConnector
) -> None:
    gateway = hookgw_gateway.gateway
    await gateway.instances.create("shop", integration="fake")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gateway.instances.connect, "shop")
        await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    await hookgw_gateway.settled()
    assert gateway.instances.get("shop").connected is connector.is_running("shop")


async def test_a_closed_connection_starts_again_although_the_caller_of_connect_goes_away(
    tmp_path: Path,
) -> None:
    has_closed, is_ending, may_end = trio.Event(), trio.Event(), trio.Event()

    async def close(session: Session) -> None:
        await session.set_state(ConnectionState.CONNECTING)
        await session.set_state(ConnectionState.CLOSE, 428, message="The phone is offline.")
        has_closed.set()
        try:
            await trio.sleep_forever()
        finally:
            is_ending.set()
            with trio.CancelScope(shield=True):
                await may_end.wait()

    connector = FakeConnector(script=close)
    async with open_kit(tmp_path, plugins={"fake": connector}) as kit:
        instances = kit.gateway.instances
        await instances.create("shop", integration="fake")
        await instances.connect("shop")
        await has_closed.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(instances.connect, "shop")
            await is_ending.wait()
            nursery.cancel_scope.cancel()
            may_end.set()
        await kit.settled()
        assert instances.get("shop").connected
        assert kit.gateway.connectors.is_running("shop")
        assert connector.runs == 2


async def test_a_deleted_instance_is_disconnected_for_good(
    hookgw_gateway: GatewayKit, connector: FakeConnector, hookgw_receiver: Receiver
) -> None:
    gateway = hookgw_gateway.gateway
    await gateway.instances.create("shop", integration="fake")
    await gateway.instances.connect("shop")
    session = connector.session("shop")
    await together(partial(gateway.instances.connect, "shop"), partial(gateway.instances.delete, "shop"))
    assert not connector.is_running("shop")

    await hookgw_gateway.register(hookgw_receiver.url)
    with pytest.raises(Conflict, match="is over"):
        await session.emit("MESSAGES_UPSERT", DATA)
    await hookgw_gateway.settled()
    assert hookgw_receiver.requests == []


async def test_an_instance_that_the_disk_did_not_delete_is_in_memory_as_on_disk(
    hookgw_gateway: GatewayKit, connector: FakeConnector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connector has stopped: the next change would have stored that it starts again."""
    gateway = hookgw_gateway.gateway
    await gateway.instances.create("shop", integration="fake")
    await gateway.instances.connect("shop")

    monkeypatch.setattr(gateway.store, "remove_instance", refuse)
    with pytest.raises(StorageUnavailable):
        await gateway.instances.delete("shop")
    assert not connector.is_running("shop")
    assert gateway.instances.get("shop") == (await gateway.store.load_instances())["shop"]


async def test_the_account_is_the_sender_of_its_events(
    hookgw_gateway: GatewayKit, connector: FakeConnector, hookgw_receiver: Receiver
) -> None:
    gateway = hookgw_gateway.gateway
    await gateway.instances.create("shop", integration="fake")
    await hookgw_gateway.register(hookgw_receiver.url)
    await gateway.instances.connect("shop")
    await connector.session("shop").emit("MESSAGES_UPSERT", DATA)
    await hookgw_gateway.emit("MESSAGES_UPSERT", DATA)
    await hookgw_gateway.settled()
    sent = [(e["event"], e.get("sender")) for e in hookgw_receiver.events()]
    assert sent == [
        ("CONNECTION_UPDATE", None),
        ("CONNECTION_UPDATE", "shop@fake"),
        ("MESSAGES_UPSERT", "shop@fake"),
        ("MESSAGES_UPSERT", "shop@fake"),
    ]


async def test_the_state_of_an_instance_whose_events_come_by_http(hookgw_gateway: GatewayKit) -> None:
    gateway = hookgw_gateway.gateway
    await gateway.instances.create("shop")
    await hookgw_gateway.emit("CONNECTION_UPDATE", {"instance": "shop", "state": "open"})
    assert gateway.instances.connection_state("shop") is ConnectionState.OPEN
    await hookgw_gateway.emit("CONNECTION_UPDATE", {"instance": "shop", "state": "refused"})
    assert gateway.instances.connection_state("shop") is ConnectionState.CLOSE


async def test_a_failing_connector_ends_neither_the_gateway_nor_other_instances(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    async def script(session: Session) -> None:
        await session.set_state(ConnectionState.OPEN)
        if session.instance == "bad":
            raise OSError("network down")

    connector = FakeConnector(script=script)
    async with open_kit(tmp_path, plugins={"fake": connector}) as kit:
        for name in ("bad", "good"):
            await kit.gateway.instances.create(name, integration="fake")
            await kit.gateway.instances.connect(name)
        await kit.gateway.messages.send("good", TextMessage(number="55", text="hi"))
        assert connector.sent[0].instance == "good"
        await kit.gateway.instances.delete("bad")
