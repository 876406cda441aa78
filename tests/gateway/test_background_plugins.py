"""Background tasks of plugins in a whole gateway: their client, their end, and what they may read."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from trio.testing import MockClock

import hookgw
from hookgw import PluginGateway
from hookgw.testing import GatewayKit, Receiver, answer, open_kit
from tests.public.app import open_gateway
from tests.public.config import DeliverySettings, PluginsSettings, Settings, StorageSettings
from tests.public.kernel import Size
from tests.public.plugins import Hooks, load_plugins


class Plugin:
    def __init__(self, run: Callable[[PluginGateway], Awaitable[None]]) -> None:
        self._run = run

    @hookgw.hookimpl
    async def hookgw_run(self, gateway: PluginGateway) -> None:
        await self._run(gateway)


class OnOneNode:
    def __init__(self, run: Callable[[PluginGateway], Awaitable[None]]) -> None:
        self._run = run

    @hookgw.hookimpl
    async def hookgw_run_on_one_node(self, gateway: PluginGateway) -> None:
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


async def test_the_only_node_runs_what_one_node_runs_and_starts_it_again_after_a_failure(
    tmp_path: Path, hookgw_clock: MockClock
) -> None:
    runs: list[float] = []

    async def run(_: PluginGateway) -> None:
        runs.append(trio.current_time())
        if len(runs) == 1:
            raise ValueError("boom")
        await trio.sleep_forever()

    async with open_kit(tmp_path, plugins={"mine": OnOneNode(run)}) as kit:
        await kit.advance(2)
        [failing] = kit.gateway.restarts.failing()
        assert (failing.plugin, failing.hook) == ("mine", "hookgw_run_on_one_node")
    assert len(runs) == 2


async def test_its_records_outlast_a_restart(tmp_path: Path, hookgw_clock: MockClock) -> None:
    found: list[Any] = []

    async def run(gateway: PluginGateway) -> None:
        found.append(await gateway.records.load())
        await gateway.records.put({"count": len(found), "gone": 1})
        await gateway.records.put({"gone": None})

    for name in ("mine", "mine", "other"):
        async with open_kit(tmp_path, plugins={name: Plugin(run)}) as kit:
            await kit.settled()
            with trio.fail_after(60):
                while not found or await kit.gateway.for_plugin(name).records.load() != {"count": len(found)}:
                    await kit.advance(0.1)
    assert found == [{}, {"count": 1}, {}]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"": 1}, "must have 1 to 255 printable characters"),
        ({"a\n": 1}, "must have 1 to 255 printable characters"),
        ({"a": "x" * 2**20}, "the limit is 1,048,576"),
        ({str(number): 1 for number in range(10_001)}, "may have 10,000 records"),
    ],
)
async def test_records_have_limits(hookgw_gateway: GatewayKit, changes: dict[str, Any], message: str) -> None:
    records = hookgw_gateway.gateway.for_plugin("mine").records
    with pytest.raises(hookgw.Invalid, match=message):
        await records.put(changes)
    assert await records.load() == {}


async def test_a_full_table_of_records_may_change(hookgw_gateway: GatewayKit) -> None:
    records = hookgw_gateway.gateway.for_plugin("mine").records
    await records.put({str(number): 1 for number in range(10_000)})
    await records.put({"0": None, "new": 1})
    with pytest.raises(hookgw.Invalid, match="may have 10,000 records"):
        await records.put({"newer": 1})
    assert len(await records.load()) == 10_000


async def test_problems_are_those_of_the_overview(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    hookgw_receiver.default = answer(500)
    await hookgw_gateway.register(hookgw_receiver.url)
    await hookgw_gateway.emit("CALL", {})
    await hookgw_gateway.settled()
    report = await hookgw_gateway.gateway.problems()
    [problem] = report.problems
    assert (problem.kind, problem.instance, problem.label) == ("webhook_failing", "shop", "default")
    assert (report.at, report.nodes) == (hookgw_gateway.gateway.clock.wall(), [])
