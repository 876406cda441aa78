"""Background tasks of plugins in a whole gateway: their client, their end, and what they may read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from trio.testing import MockClock

import hookgw
from hookgw import PluginGateway
from hookgw.app import open_gateway
from hookgw.config import DeliverySettings, PluginsSettings, Settings, StorageSettings
from hookgw.kernel import Size
from hookgw.plugins import Hooks, load_plugins
from hookgw.testing import GatewayKit, Receiver, open_kit


class Plugin:
    def __init__(self, run: Callable[[PluginGateway], Awaitable[None]]) -> None:
        self._run = run

    @hookgw.hookimpl
    async def hookgw_run(self, gateway: PluginGateway) -> None:
        await self._run(gateway)


@pytest.mark.parametrize("is_listed", [True, False])
async def test_it_reaches_the_servers_that_the_operator_lists(
    tmp_path: Path, hookgw_receiver: Receiver, is_listed: bool
) -> None:
    """Loopback addresses are refused otherwise, and the client of everybody does not reach them."""
    result: list[Any] = []
    done = trio.Event()

    async def run(gateway: PluginGateway) -> None:
        for client in (gateway.http, common):
            try:
                result.append((await client.post(hookgw_receiver.url, content=b"x")).status_code)
            except httpx.ConnectError:
                result.append("refused")
        done.set()

    root = f"http://127.0.0.1:{hookgw_receiver.port}"
    plugins = PluginsSettings(
        first_party=False, folders=(), options={"mine": {"servers": [root]}} if is_listed else {}
    )
    settings = Settings(
        storage=StorageSettings(path=str(tmp_path / "hookgw.db"), min_free=Size(0)),
        delivery=DeliverySettings(),
        plugins=plugins,
    )
    hooks = Hooks(load_plugins(plugins, base=tmp_path, extra={"mine": Plugin(run)}))
    clients: list[httpx.AsyncClient] = []
    async with open_gateway(settings, hooks=hooks, prepare=lambda gateway: clients.append(gateway.http)):
        common = clients[0]
        with trio.fail_after(10):
            await done.wait()
    assert result == [200 if is_listed else "refused", "refused"]


async def test_it_may_still_send_at_the_end(
    tmp_path: Path, hookgw_receiver: Receiver, hookgw_clock: MockClock
) -> None:
    ended: list[list[hookgw.LaneState]] = []

    async def run(gateway: PluginGateway) -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append([lane.state for lane in gateway.lanes()])
            with trio.move_on_after(5, shield=True):
                await gateway.http.post(hookgw_receiver.url, content=b"the rest")

    async with open_kit(tmp_path, plugins={"mine": Plugin(run)}) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.emit("CALL", {})
        await kit.settled()
        assert ended == []
    assert [request.body for request in hookgw_receiver.requests][-1] == b"the rest"
    assert ended == [[]]  # no lane was left
    assert kit.plugin_failures == []


async def test_it_may_read_the_metrics(hookgw_gateway: GatewayKit) -> None:
    families = {family.name for family in await hookgw_gateway.gateway.metrics.collect()}
    assert {"hookgw_events_accepted", "hookgw_registration_oldest_seconds"} <= families
    text = hookgw_gateway.gateway.metrics.render()[0].decode()
    assert all(f" {name} " in text or f" {name}_total " in text for name in families)
