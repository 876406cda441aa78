"""Everything that leaves a gateway passes the address guard."""

import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
import trustme
from structlog.testing import capture_logs
from trio.testing import MockClock

import hookgw
from hookgw import (
    Attempt,
    DeliveryState,
    Gateway,
    Invalid,
    MediaKind,
    MediaMessage,
    Message,
    Outcome,
    Registration,
    Session,
    TextMessage,
)
from hookgw.testing import GatewayKit, Receiver, open_kit, open_receiver
from tests.delivery.http.raw_receiver import always_ok, serving
from tests.public.app import open_gateway
from tests.public.config import DeliverySettings, PluginsSettings, Settings, StorageSettings
from tests.public.delivery import URL_CHECK_TIMEOUT as CHECK_TIMEOUT
from tests.public.delivery import OutboundHttp, SystemResolver, render_head
from tests.public.kernel import DAY, Duration, Forbidden, Size, parse_target
from tests.public.plugins import Hooks, load_plugins
from tests.public.records import GLOBAL_INSTANCE
from tests.public.store import DeliveryQuery, DeliveryReport
from tests.public.webhooks import RegistrationChange
from tests.support.application import create_app
from tests.support.proxies import http_proxy, open_proxy


async def sent_to(kit: GatewayKit, url: str) -> Attempt:
    """Send a test event to that URL."""
    await kit.register(url)
    return await kit.gateway.registrations.test("shop")


async def dead_letter(kit: GatewayKit, instance: str) -> DeliveryReport:
    query = DeliveryQuery(instance=instance, state=DeliveryState.DEAD, limit=1)
    for _ in range(1000):
        await kit.settled()
        if found := (await kit.gateway.store.list_deliveries(query)).deliveries:
            report = await kit.gateway.store.find_delivery(instance, found[0].event_id)
            assert report is not None
            return report
    pytest.fail("there is no dead letter")


@pytest.mark.parametrize("url", ["http://10.1.2.3/hook", "http://8.8.8.8:25/hook"])
async def test_a_test_event_passes_the_guard(tmp_path: Path, hookgw_clock: MockClock, url: str) -> None:
    async with open_kit(tmp_path) as kit:
        attempt = await sent_to(kit, url)
    assert attempt.outcome is Outcome.BLOCKED
    assert "is not dialled" in (attempt.error or "")


async def test_refused_ports_are_a_setting(tmp_path: Path, hookgw_clock: MockClock) -> None:
    async with open_kit(tmp_path, settings={"delivery": {"refused_ports": [8081]}}) as kit:
        assert (await sent_to(kit, "http://127.0.0.1:8081/")).outcome is Outcome.BLOCKED
        assert (await sent_to(kit, "http://127.0.0.1:22/")).outcome is not Outcome.BLOCKED


async def test_operational_events_pass_the_guard(tmp_path: Path, hookgw_clock: MockClock) -> None:
    async with open_kit(tmp_path, settings={"operations": {"url": "http://10.1.2.3/ops"}}) as kit:
        await kit.register("http://10.9.9.9/hook")
        await kit.emit("CALL", {})
        # The lane of the first one waits, which is reported.
        await kit.settled()
        [summary] = (
            await kit.gateway.store.list_deliveries(DeliveryQuery(instance=GLOBAL_INSTANCE))
        ).deliveries
        report = await kit.gateway.store.find_delivery(GLOBAL_INSTANCE, summary.event_id)
    assert report is not None
    assert summary.kind == "LANE_FAILING"
    assert report.attempts[0].outcome is Outcome.BLOCKED
    assert "10.1.2.3/32" in (report.attempts[0].error or "")


async def test_a_gateway_does_not_deliver_to_itself(tmp_path: Path, hookgw_clock: MockClock) -> None:
    async with open_kit(tmp_path) as kit:
        kit.gateway.outbound.own_addresses.listen_on(["http://127.0.0.1:8080", "unix:/run/hookgw.sock"])
        assert (await sent_to(kit, "http://127.0.0.1:8080/")).outcome is Outcome.BLOCKED


async def test_deliveries_go_through_the_configured_proxy(
    tmp_path: Path, hookgw_clock: MockClock, hookgw_receiver: Receiver
) -> None:
    async with open_proxy(http_proxy, reaches=hookgw_receiver.port, credentials="ann:hunter2") as proxy:
        settings = {"delivery": {"proxy": f"http://ann:hunter2@127.0.0.1:{proxy.port}"}}
        async with open_kit(tmp_path, settings=settings) as kit:
            attempt = await sent_to(kit, hookgw_receiver.url)
    assert attempt.outcome is Outcome.DELIVERED
    assert proxy.asked == [f"127.0.0.1:{hookgw_receiver.port}"]


async def test_a_proxy_that_does_not_connect_makes_the_receiver_unreachable(
    tmp_path: Path, hookgw_clock: MockClock, hookgw_receiver: Receiver
) -> None:
    async with open_proxy(http_proxy) as proxy:
        settings = {"delivery": {"proxy": f"http://127.0.0.1:{proxy.port}"}}
        async with open_kit(tmp_path, settings=settings) as kit:
            attempt = await sent_to(kit, hookgw_receiver.url)
    assert attempt.outcome is Outcome.UNREACHABLE
    assert "the proxy answered 403 Forbidden" in (attempt.error or "")


@pytest.mark.parametrize(
    ("url", "warning"),
    [
        (
            "http://0x0a.1.2.3/hook",
            (
                "url: The host 10.1.2.3 is blocked. Port 80 of 10.1.2.3 is not dialled: the address is "
                'private (10.0.0.0/8). To allow it, set delivery.allow_networks: ["10.1.2.3/32"].'
            ),
        ),
        (
            "http://crm.example:8081/hook",
            (
                "url: The host crm.example is blocked. Port 8081 is not dialled: it is on the list of "
                "refused ports. To allow it, leave 8081 out of delivery.refused_ports."
            ),
        ),
    ],
)
async def test_setting_a_refused_url_gives_a_warning(
    tmp_path: Path, hookgw_clock: MockClock, url: str, warning: str
) -> None:
    async with open_kit(tmp_path, settings={"delivery": {"refused_ports": [8081]}}) as kit:
        change = RegistrationChange(url=url)
        stored, warnings, *_ = await kit.gateway.registrations.set("shop", "default", change, create=True)
        assert warnings == [warning]
        assert kit.gateway.registrations.find("shop") == stored


async def resolving(**addresses: str) -> OutboundHttp:
    """Make the outbound HTTP of a gateway for which names have these addresses."""

    def getaddrinfo(host: str, port: int, **_: Any) -> Any:
        if host not in addresses:
            raise socket.gaierror(-2, "Name or service not known")
        return [(0, 0, 0, "", (addresses[host], port))]

    return OutboundHttp(DeliverySettings(), SystemResolver(getaddrinfo))


def registered(url: str, *, enabled: bool = True) -> Registration:
    return Registration(id="reg_1", instance="shop", label="default", url=url, enabled=enabled)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://inside/hook", ["url: The host inside is blocked. Port 80 of 192.168.1.7 "]),
        ("https://outside/hook", []),
        ("https://nobody/hook", []),
        ("https://8.8.8.8/hook", []),
    ],
)
async def test_warnings_look_names_up(url: str, expected: list[str]) -> None:
    outbound = await resolving(inside="192.168.1.7", outside="8.8.8.8")
    warnings = await outbound.warnings(registered(url))
    assert [warning[: len(start)] for warning, start in zip(warnings, expected, strict=True)] == expected


async def test_a_refused_url_in_the_configuration_is_logged(tmp_path: Path, hookgw_clock: MockClock) -> None:
    settings = {
        "global_webhooks": [
            {"label": "crm", "url": "http://user:hunter2@10.1.2.3/"},
            {"label": "ok", "url": "http://127.0.0.1:9/"},
        ],
        "operations": {"url": "http://10.1.2.4/"},
    }
    with capture_logs() as logs:
        async with open_kit(tmp_path, settings=settings) as kit:
            await kit.settled()
    refused = [log for log in logs if log["event"] == "nothing can be delivered to a webhook"]
    expected = {log["label"]: log["reason"] for log in refused}
    assert expected.keys() == {"crm", "operations"}
    assert not [log for log in logs if "is refused" in log["event"]]
    assert 'delivery.allow_networks: ["10.1.2.3/32"]' in expected["crm"]
    assert "hunter2" not in str(logs)


async def test_a_disabled_registration_has_no_warnings() -> None:
    outbound = await resolving()
    assert await outbound.warnings(registered("vazio", enabled=False)) == []
    assert await outbound.warnings(registered("http://10.1.2.3/", enabled=False)) == []


async def test_looking_up_a_name_for_warnings_has_a_timeout(mock_clock: MockClock) -> None:
    async def silent(*_: Any, **__: Any) -> Any:
        asked.set()
        await trio.sleep_forever()

    async def warn() -> None:
        assert await OutboundHttp(DeliverySettings(), silent).warnings(registered("http://slow/")) == []
        assert trio.current_time() == CHECK_TIMEOUT

    asked = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(warn)
        await asked.wait()
        mock_clock.jump(CHECK_TIMEOUT)


class Client:
    """A plugin that takes the gateway's client from every place that offers it."""

    name = "client"

    def __init__(self) -> None:
        self.taken: dict[str, httpx.AsyncClient] = {}
        self.ran = trio.Event()

    @hookgw.hookimpl
    async def hookgw_run(self, gateway: Gateway) -> None:
        self.taken["run"] = gateway.http
        self.ran.set()

    @hookgw.hookimpl
    def hookgw_routes(self, gateway: Gateway) -> None:
        self.taken["routes"] = gateway.http

    @hookgw.hookimpl
    def hookgw_connectors(self) -> list[Any]:
        return [self]

    async def run(self, session: Session) -> None:
        self.taken["connector"] = session.http
        await session.set_state(hookgw.ConnectionState.OPEN)
        await trio.sleep_forever()

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:
        raise NotImplementedError


async def test_requests_of_plugins_pass_the_guard(
    tmp_path: Path, hookgw_clock: MockClock, hookgw_receiver: Receiver
) -> None:
    plugin = Client()
    async with open_kit(tmp_path, plugins={"client": plugin}) as kit:
        create_app(kit.gateway)
        await kit.gateway.instances.create("shop", integration="client")
        await kit.gateway.instances.connect("shop")
        await plugin.ran.wait()
        assert plugin.taken.keys() == {"run", "routes", "connector"}
        for http in plugin.taken.values():
            assert (await http.post(hookgw_receiver.url, json={"a": 1})).status_code == 200
            with pytest.raises(httpx.ConnectError, match="is not dialled"):
                await http.get("http://10.1.2.3/")
    with pytest.raises(RuntimeError, match="closed"):
        await plugin.taken["run"].get(hookgw_receiver.url)


async def test_a_plugin_cannot_reach_this_machine_unless_it_is_allowed(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    async with open_gateway(
        Settings(storage=StorageSettings(path=str(tmp_path / "hookgw.db"), min_free=Size(0)))
    ) as gateway:
        with pytest.raises(httpx.ConnectError, match=r"127\.0\.0\.1 is not dialled: the address is loopback"):
            await gateway.http.get(hookgw_receiver.url)
    assert hookgw_receiver.connections == 0


async def test_certificates_are_loaded_in_a_thread_at_start(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = threading.Event()
    threads: list[int] = []

    def load() -> None:
        threads.append(threading.get_ident())
        loaded.set()

    monkeypatch.setattr("hookgw.delivery.http.client_tls.default_ssl_context", load)
    await nursery.start(OutboundHttp(DeliverySettings()).run)
    await trio.to_thread.run_sync(loaded.wait)
    assert threads != [threading.get_ident()]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("requests", "places", "polls"), [(200, 50, 100), (10, 16, 16)])
async def test_plugins_divide_the_places_for_requests_and_for_long_polls(
    requests: int, places: int, polls: int
) -> None:
    outbound = OutboundHttp(DeliverySettings(), connector_requests=requests)
    clients = outbound.connector_clients({"matrix": [], "telegram": []})
    assert [(one.places.total, one.polls.total) for one in clients.values()] == [(places, polls)] * 2
    assert clients["matrix"].memory is clients["telegram"].memory


class Reaching:
    """A connector that tells what its client reaches, and what it fetches."""

    options_schema = {  # noqa: RUF012 (nobody changes it)
        "type": "object",
        "properties": {"server": {"type": "string", "x-server": True}},
    }
    message_types = (TextMessage, MediaMessage)

    def __init__(self, name: str) -> None:
        self.name = name
        self.options: list[dict[str, Any]] = []

    @hookgw.hookimpl
    def hookgw_configure(self, options: dict[str, Any]) -> None:
        self.options.append(options)

    @hookgw.hookimpl
    def hookgw_connectors(self) -> list[Any]:
        return [self]

    async def run(self, session: Session) -> None:
        await session.set_state(hookgw.ConnectionState.OPEN)
        await trio.sleep_forever()

    async def send(self, session: Session, message: Any, *, key: str) -> dict[str, Any]:
        if isinstance(message, MediaMessage):
            return {"file": len(await session.fetch(message.url or "", limit=100))}
        try:
            return {"status": (await session.http.get(message.text)).status_code}
        except httpx.ConnectError as error:
            return {"refused": str(error)}


async def test_servers_are_open_to_their_connector_alone(tmp_path: Path) -> None:
    plugins = {name: Reaching(name) for name in ("matrix", "other")}
    async with serving(always_ok) as server:
        url = f"http://127.0.0.1:{server.port}"
        options = {"matrix": {"servers": [url], "rate": 1}, "other": {"servers": []}}
        settings = Settings(
            storage=StorageSettings(path=str(tmp_path / "hookgw.db"), min_free=Size(0)),
            plugins=PluginsSettings(options=options),
        )
        hooks = Hooks(load_plugins(settings.plugins, base=tmp_path, extra=plugins))
        async with open_gateway(settings, hooks=hooks) as gateway:
            for name in plugins:
                await gateway.instances.create(name, integration=name, options={"server": url})
                await gateway.instances.connect(name)
            say = TextMessage(number="1", text=f"{url}/")
            assert await gateway.messages.send("matrix", say) == {"status": 200}
            refused = await gateway.messages.send("other", say)
            assert f"add {url} to plugins.options.other.servers" in refused["refused"]
            with pytest.raises(httpx.ConnectError, match="is not dialled"):
                await gateway.http.get(url)
            (warning,) = await gateway.outbound.warnings(registered(url))
            assert "is not dialled" in warning
    # hookgw's own option does not reach the plugin.
    assert [plugin.options for plugin in plugins.values()] == [[{"rate": 1}], [{}]]


async def test_the_settings_reach_every_client(tmp_path: Path, nursery: trio.Nursery) -> None:
    """Plugins, connectors, tests of webhooks and lanes trust ``ca_file``; a connection ends at its age."""
    authority = trustme.CA()
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    settings = DeliverySettings(
        allow_networks=("127.0.0.0/8",), ca_file=str(tmp_path / "ca.pem"), connection_age=Duration(1e-9)
    )
    async with open_receiver(ssl_context=context) as receiver:
        outbound = OutboundHttp(settings)
        await nursery.start(outbound.run)
        port = parse_target(receiver.url).port
        client = outbound.connector_clients({"erp": [("https", "127.0.0.1", port)]})["erp"].http
        for http in (outbound.http, client, client):
            assert (await http.get(receiver.url)).status_code == 200
        assert receiver.connections == 3
        lent = outbound.pools.borrow_nowait(("https", "127.0.0.1", port, None), "shop")
        assert lent is not None
        target = parse_target(receiver.url)
        head = render_head(target, {}, 2)
        apart = outbound.transport()
        for transport in (apart, lent, lent):
            await transport.exchange(target, head, b"{}", deadline=trio.current_time() + 10)
        apart.close_nowait()
        assert receiver.connections == 6
        outbound.pools.give_back(lent)
        nursery.cancel_scope.cancel()


async def test_with_no_limit_a_connection_is_used_for_ever(
    nursery: trio.Nursery, hookgw_receiver: Receiver, mock_clock: MockClock
) -> None:
    outbound = OutboundHttp(DeliverySettings(allow_networks=("127.0.0.0/8",), connection_age=Duration(0)))
    await nursery.start(outbound.run)
    target = parse_target(hookgw_receiver.url)
    head = render_head(target, {}, 2)
    transport = outbound.transport()
    for _ in range(3):
        await transport.exchange(target, head, b"{}", deadline=trio.current_time() + 10)
        mock_clock.jump(10 * DAY)
    assert hookgw_receiver.connections == 1
    transport.close_nowait()
    nursery.cancel_scope.cancel()


async def test_an_instance_reaches_the_listed_server_of_no_other_instance(tmp_path: Path) -> None:
    """And by the URL of a file nobody's, in no spelling."""
    async with serving(always_ok) as first, serving(always_ok) as second:
        urls = [f"http://127.0.0.1:{server.port}" for server in (first, second)]
        settings = Settings(
            storage=StorageSettings(path=str(tmp_path / "hookgw.db"), min_free=Size(0)),
            plugins=PluginsSettings(options={"matrix": {"servers": urls}}),
        )
        hooks = Hooks(load_plugins(settings.plugins, base=tmp_path, extra={"matrix": Reaching("matrix")}))
        async with open_gateway(settings, hooks=hooks) as gateway:
            instances, messages = gateway.instances, gateway.messages
            for name, url in zip(("ana", "bob"), urls, strict=True):
                await instances.create(name, integration="matrix", options={"server": url})
                await instances.connect(name)
            both = [TextMessage(number="1", text=f"{url}/") for url in urls]
            assert await messages.send("ana", both[0]) == {"status": 200}
            assert "not this instance's server" in (await messages.send("ana", both[1]))["refused"]
            for host in ("127.0.0.1", "2130706433", "127.1", "0x7f000001", "127.0.0.1.", "%31%32%37.0.0.1"):
                for server in (first, second):
                    file = f"http://{host}:{server.port}/api/sessions"
                    with pytest.raises(Invalid, match="is not dialled"):
                        await messages.send("ana", MediaMessage(number="1", kind=MediaKind.IMAGE, url=file))
            assert [server.connections for server in (first, second)] == [1, 0]

            # A tenant cannot take another server that is listed, and the operator can.
            change = {"server": f"http://2130706433:{second.port}"}
            with pytest.raises(Forbidden, match="server can be changed only with a global key"):
                await instances.change_options("ana", change, is_operator=False)
            await instances.change_options("ana", {"server": urls[1]}, is_operator=True)
            await instances.connect("ana")
            assert await messages.send("ana", both[1]) == {"status": 200}
            # What it has set up on its former server can be undone, until the next start.
            assert await messages.send("ana", both[0]) == {"status": 200}
            await instances.restart("ana")
            await instances.connect("ana")
            assert "not this instance's server" in (await messages.send("ana", both[0]))["refused"]
