"""``/diagnosis``: why nothing arrives."""

import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import trio
import trio.testing
import trustme

from hookgw import Gateway
from hookgw.testing import Receiver, answer
from tests.api.conftest import KEY, open_client, open_whole_gateway
from tests.api.routes.test_events import one
from tests.public.config import Settings
from tests.public.kernel import DAY, PluginFailed, StorageUnavailable
from tests.public.web import AppApplication as Application
from tests.support.application import create_app
from tests.support.proxies import Speak, http_proxy, open_proxy, saying

TENANT = "the-key-of-the-shop"


@pytest.fixture
async def gateway(gateway: Gateway) -> Gateway:
    await gateway.instances.create("shop", token=TENANT)
    await gateway.instances.create("other")
    return gateway


def port_of(listener: trio.SSLListener[trio.SocketStream]) -> int:
    below = listener.transport_listener
    assert isinstance(below, trio.SocketListener)
    port: int = below.socket.getsockname()[1]
    return port


async def checks_of(client: httpx.AsyncClient, path: str = "/diagnosis/shop") -> dict[str, dict[str, Any]]:
    """Return the checks by name; of several, the last."""
    response = await client.get(path)
    assert response.status_code == 200, response.text
    return {check["check"]: check for check in response.json()["checks"]}


async def test_an_instance_without_a_webhook_needs_one(client: httpx.AsyncClient) -> None:
    found = await checks_of(client)
    assert found["webhook"]["state"] == "failed"
    assert found["webhook"]["advice"] == "hookgw webhook set shop URL"
    assert found["events"]["state"] == "warning"


async def test_every_step_of_a_delivered_event_is_in_order(
    client: httpx.AsyncClient, hookgw_receiver: Receiver
) -> None:
    await client.post("/webhook/set/shop", json={"url": hookgw_receiver.url})
    await client.post("/event/emit/shop", json=one())
    await hookgw_receiver.wait_for(1)
    found = await checks_of(client)
    states = {name: check["state"] for name, check in found.items()}
    assert states == dict.fromkeys(
        ["connection", "events", "webhook", "lane", "dns", "address", "reach", "dead letters", "storage"],
        "ok",
    )
    assert len(hookgw_receiver.requests) == 1  # it only connects


async def test_the_head_of_a_lane_has_its_last_answer(
    client: httpx.AsyncClient, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(503)
    await client.post("/webhook/set/shop/crm", json={"url": hookgw_receiver.url})
    await client.post("/event/emit/shop", json=one())
    await hookgw_receiver.wait_for(2)
    lane = (await checks_of(client))["lane"]
    assert (lane["state"], lane["label"], lane["delivery"]) == ("failed", "crm", "shop/dlv_1")
    assert lane["found"].startswith("1 pending. The head, dlv_1, waits for ")
    assert "503" in lane["found"]


async def test_what_died_today_counts_however_old_its_event_is(
    client: httpx.AsyncClient, hookgw_receiver: Receiver, mock_clock: trio.testing.MockClock
) -> None:
    hookgw_receiver.default = answer(422)
    await client.post("/webhook/set/shop", json={"url": hookgw_receiver.url})
    await client.post("/webhook/pause/shop")
    await client.post("/event/emit/shop", json=one())
    mock_clock.jump(2 * DAY)
    await client.post("/webhook/resume/shop")
    while not (await client.get("/delivery/list/shop?state=dead")).json()["deliveries"]:
        pass
    dead = (await checks_of(client))["dead letters"]
    assert dead["found"] == "1 in the last day."
    ours = "hookgw delivery dead shop --finished-since 1d"
    assert dead["advice"] == f"{ours}; then hookgw delivery replay shop --finished-since 1d"
    listed = (await client.get("/delivery/list/shop?state=dead&since=1d")).json()
    assert listed["deliveries"] == []
    replayed = await client.post("/delivery/replay/shop", json={"finishedSince": "1d"})
    assert (replayed.status_code, replayed.json()) == (202, {"replayed": 1})
    await hookgw_receiver.wait_for(2)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_receiver_that_answers_is_not_to_be_started(
    client: httpx.AsyncClient, hookgw_receiver: Receiver, status: int
) -> None:
    hookgw_receiver.default = answer(status)
    await client.post("/webhook/set/shop", json={"url": hookgw_receiver.url})
    await client.post("/event/emit/shop", json=one())
    await hookgw_receiver.wait_for(1)
    advice = (await checks_of(client))["lane"]["advice"]
    assert "Start the receiver" not in advice
    assert "hookgw webhook update shop --rate" in advice


async def test_a_webhook_that_its_receiver_ended_is_enabled_after_a_correction(
    client: httpx.AsyncClient, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(410)
    await client.post("/webhook/set/shop", json={"url": hookgw_receiver.url})
    await client.post("/event/emit/shop", json=one())
    with trio.fail_after(10):
        while (webhook := (await checks_of(client))["webhook"])["state"] == "ok":
            pass
    assert "410" in webhook["found"]
    assert webhook["advice"] == "Correct the receiver, or the URL; then: hookgw webhook enable shop"


async def test_a_webhook_that_somebody_disabled_is_enabled_as_it_is(client: httpx.AsyncClient) -> None:
    await client.post("/webhook/set/shop", json={"url": "http://127.0.0.1:1/hook", "enabled": False})
    assert (await checks_of(client))["webhook"]["advice"] == "hookgw webhook enable shop"


@pytest.mark.parametrize(
    ("url", "check"),
    [
        ("http://no-such-host.invalid/hook", "dns"),
        ("http://10.0.0.1/hook", "address"),
        ("http://127.0.0.1:1/hook", "reach"),
    ],
)
async def test_a_receiver_is_examined_step_by_step(client: httpx.AsyncClient, url: str, check: str) -> None:
    await client.post("/webhook/set/shop", json={"url": url})
    found = await checks_of(client)
    assert found[check]["state"] == "failed"
    assert found[check]["advice"]


@pytest.mark.parametrize("speak", [http_proxy, saying(b"HTTP/1.1 407 No\r\n\r\n")])
async def test_behind_a_proxy_that_does_not_connect_not_the_receiver_alone_is_to_be_started(
    settings: Settings, tmp_path: Path, nursery: trio.Nursery, speak: Speak
) -> None:
    async with open_proxy(speak) as proxy:
        delivery = msgspec.structs.replace(settings.delivery, proxy=f"http://127.0.0.1:{proxy.port}")
        behind = msgspec.structs.replace(settings, delivery=delivery)
        async with (
            open_whole_gateway(behind, base=tmp_path) as gateway,
            open_client(create_app(gateway), nursery, apikey=KEY) as client,
        ):
            await client.post("/webhook/set/shop", json={"url": "http://127.0.0.1:1/hook"})
            await client.post("/event/emit/shop", json=one())
            with trio.fail_after(10):
                while (found := await checks_of(client))["lane"]["state"] == "ok":
                    pass
    advice = (
        "Start the receiver, or correct delivery.proxy: it must run, and may connect to the receiver's port."
    )
    assert [found[check]["advice"] for check in ("reach", "lane")] == [advice, advice]


@pytest.mark.parametrize(
    ("url", "setting"),
    [
        ("http://10.0.0.1/hook", "delivery.allow_networks"),
        ("http://127.0.0.1:9100/hook", "delivery.refused_ports"),
    ],
)
async def test_a_refused_address_names_one_setting(client: httpx.AsyncClient, url: str, setting: str) -> None:
    await client.post("/webhook/set/shop", json={"url": url})
    address = (await checks_of(client))["address"]
    assert re.findall(r"delivery\.\w+", f"{address['found']} {address['advice']}") == [setting]


@asynccontextmanager
async def https_server(authority: trustme.CA, name: str) -> AsyncIterator[str]:
    """Give the URL of a receiver with a certificate for a name, which closes after the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    listeners = await trio.open_ssl_over_tcp_listeners(0, context, host="127.0.0.1")

    async def handle(stream: trio.SSLStream[trio.SocketStream]) -> None:
        try:
            await stream.do_handshake()
            await stream.receive_some()
        except trio.BrokenResourceError:
            pass
        finally:
            await trio.aclose_forcefully(stream)

    async with trio.open_nursery() as serving:
        serving.start_soon(trio.serve_listeners, handle, listeners)
        yield f"https://127.0.0.1:{port_of(listeners[0])}/"
        serving.cancel_scope.cancel()


async def test_a_certificate_that_nobody_trusts_is_found(client: httpx.AsyncClient) -> None:
    async with https_server(trustme.CA(), "localhost") as url:
        await client.post("/webhook/set/shop", json={"url": url})
        await client.post("/event/emit/shop", json=one())
        with trio.fail_after(10):
            while (found := await checks_of(client))["lane"]["state"] == "ok":
                pass
    assert found["certificate"]["state"] == "failed"
    assert "certificate" in found["certificate"]["found"]
    assert found["lane"]["advice"] == found["certificate"]["advice"]


async def test_a_trusted_certificate_has_its_end(client: httpx.AsyncClient) -> None:
    authority = trustme.CA()
    async with https_server(authority, "127.0.0.1") as url:
        body = {"url": url, "tls": {"ca": authority.cert_pem.bytes().decode()}}
        assert (await client.post("/webhook/set/shop", json=body)).status_code == 201
        found = await checks_of(client)
    assert found["certificate"]["state"] == "ok"
    assert found["certificate"]["found"].startswith("Valid until ")


async def test_paused_and_disabled_webhooks_say_how_to_go_on(client: httpx.AsyncClient) -> None:
    await client.post("/webhook/set/shop/crm", json={"url": "http://127.0.0.1:1/"})
    await client.post("/webhook/pause/shop/crm")
    assert (await checks_of(client))["webhook"]["advice"] == "hookgw webhook resume shop --label crm"
    await client.patch("/webhook/set/shop/crm", json={"enabled": False})
    found = await checks_of(client)
    assert found["webhook"]["advice"] == "hookgw webhook enable shop --label crm"
    assert "reach" not in found


async def test_a_webhook_whose_plugin_does_not_run_says_so(
    client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"message_filters": {"groups": False}}
    await client.post("/webhook/set/shop", json={"url": "http://127.0.0.1:1/", "plugins": options})
    assert (await checks_of(client))["webhook"]["state"] == "ok"
    missing = PluginFailed("message_filters", "", "it does not run")
    monkeypatch.setattr(gateway.hooks, "absent_plugin", lambda _: missing)
    found = (await checks_of(client))["webhook"]
    assert found["state"] == "failed"
    assert "it does not run" in found["found"]


async def test_an_instance_whose_connector_is_missing_is_not_to_be_connected(
    client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.post("/instance/create", json={"instanceName": "gone", "integration": "simulator"})
    before = (await checks_of(client, "/diagnosis/gone"))["connection"]
    assert before["advice"] == "hookgw instance connect gone"
    monkeypatch.setattr(gateway.connectors, "missing", lambda _: "It is not available.")
    found = (await checks_of(client, "/diagnosis/gone"))["connection"]
    assert found["advice"] == "Install the plugin of this connector, or switch it on, and restart hookgw."


async def test_a_tenant_sees_what_concerns_its_instance_alone(
    app: Application, nursery: trio.Nursery, gateway: Gateway
) -> None:
    gateway.restarts.failed(PluginFailed("alerts", "hookgw_background", "no such file"), 1.0)
    gateway.restarts.failed(PluginFailed("waha", "hookgw_connectors", "refused"), 1.0, "other")
    gateway.disk.shortage = "The disk of /srv/secret is full."
    async with open_client(app, nursery, apikey=TENANT) as tenant:
        found = await checks_of(tenant)
        assert "plugin" not in found
        assert found["storage"]["found"] == "Events are refused: no room is left."
        gateway.restarts.failed(PluginFailed("waha", "hookgw_connectors", "banned"), 1.0, "shop")
        assert "banned" in (await checks_of(tenant))["plugin"]["found"]
        assert (await checks_of(tenant, "/diagnosis")).keys() <= {
            "connection",
            "webhook",
            "plugin",
            "storage",
        }
        assert "secret" not in (await tenant.get("/diagnosis")).text
        assert (await tenant.get("/diagnosis/other")).status_code == 403
    async with open_client(app, nursery, apikey=KEY) as operator:
        assert "/srv/secret" in (await checks_of(operator))["storage"]["found"]


async def test_the_problems_of_all_instances_lead_to_each(
    client: httpx.AsyncClient, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(503)
    await client.post("/webhook/set/shop/crm", json={"url": hookgw_receiver.url})
    await client.post("/event/emit/shop", json=one())
    await hookgw_receiver.wait_for(2)
    found = await checks_of(client, "/diagnosis")
    assert (found["webhook"]["instance"], found["webhook"]["label"]) == ("shop", "crm")
    assert found["webhook"]["advice"] == "hookgw doctor shop"
    assert found["storage"]["state"] == "ok"


async def test_paused_webhooks_are_no_problem_and_are_named(client: httpx.AsyncClient) -> None:
    for instance in ("shop", "other"):
        await client.post(f"/webhook/set/{instance}/crm", json={"url": "http://127.0.0.1:1/"})
        await client.post(f"/webhook/pause/{instance}/crm")
    found = (await checks_of(client, "/diagnosis"))["webhook"]
    assert (found["state"], found["instance"]) == ("warning", "shop")
    assert found["found"] == "2 webhooks are paused; this is one: deliveries wait, in order."
    assert found["advice"] == "hookgw webhook resume shop --label crm"


async def test_a_disk_that_refuses_is_found(
    client: httpx.AsyncClient, app: Application, gateway: Gateway, nursery: trio.Nursery
) -> None:
    gateway.metrics.disk_failed(StorageUnavailable("The data file fails."))
    everything = await checks_of(client, "/diagnosis")
    assert [*everything] == ["storage"]  # once: it is no connection's problem, too
    found = everything["storage"]
    assert (found["state"], found["found"]) == ("failed", "The data file fails. Events are refused.")
    async with open_client(app, nursery, apikey=TENANT) as tenant:
        assert (await checks_of(tenant))["storage"]["found"] == "Events are refused: the storage fails."


async def test_what_the_whole_gateway_lacks_is_told_once(gateway: Gateway, client: httpx.AsyncClient) -> None:
    gateway.restarts.failed(PluginFailed("alerts", "hookgw_background", "no such file"), 1.0)
    gateway.disk.shortage = "The disk is full."
    checks = (await client.get("/diagnosis")).json()["checks"]
    assert [one["check"] for one in checks] == ["plugin", "storage"]


async def test_a_receiver_of_many_webhooks_is_one_problem(
    client: httpx.AsyncClient, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(503)
    for label in ("crm", "n8n", "erp"):
        await client.post(f"/webhook/set/shop/{label}", json={"url": hookgw_receiver.url})
    await client.post("/event/emit/shop", json=one())
    await hookgw_receiver.wait_for(6)
    checks = (await client.get("/diagnosis")).json()["checks"]
    [found] = [check["found"] for check in checks if check["check"] == "webhook"]
    assert found.endswith(" It is one of 3 problems with this cause: hookgw problem list")
