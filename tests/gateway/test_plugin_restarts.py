"""Connectors and background tasks that fail, in a whole gateway: what operators see."""

from pathlib import Path
from typing import Any

import trio
import trio.testing
from trio.testing import MockClock

import hookgw
from hookgw import Event, Session
from hookgw.testing import FakeConnector, GatewayKit, open_kit
from tests.support.exceptions import stray_cancelled


class Plugin:
    """Runs a background task, and observes operational events."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.runs: list[float] = []
        self.events: list[dict[str, Any]] = []

    @hookgw.hookimpl
    async def hookgw_run(self) -> None:
        self.runs.append(trio.current_time())
        if self.errors:
            raise self.errors.pop(0)
        await trio.sleep_forever()

    @hookgw.hookimpl
    def hookgw_operational_event(self, event: Event) -> None:
        self.events.append({"kind": event.kind, **event.data})


async def fail(session: Session) -> None:
    raise OSError("network down")


async def until_runs(kit: GatewayKit, plugin: Plugin, count: int) -> None:
    while len(plugin.runs) < count:
        await trio.testing.wait_all_tasks_blocked()
        kit.clock.jump(0.5)


async def test_a_background_task_that_raises_anything_starts_again(
    tmp_path: Path, hookgw_clock: MockClock
) -> None:
    plugin = Plugin(await stray_cancelled(), SystemExit(0), KeyboardInterrupt(), ValueError("boom"))
    async with open_kit(tmp_path, plugins={"mine": plugin}) as kit:
        await until_runs(kit, plugin, 5)
        assert [round(later - first) for first, later in zip(plugin.runs, plugin.runs[1:], strict=False)] == [
            *(1, 2, 5, 15)
        ]
        await kit.settled()
        (event,) = [event for event in plugin.events if event["kind"] == "PLUGIN_FAILING"]
        assert (event["plugin"], event["hook"], event["instance"]) == ("mine", "hookgw_run", None)
        assert event["reason"].startswith("Cancelled")
        assert event["restartAfter"] == 1
        metrics = kit.gateway.metrics.render()[0].decode()
        assert 'hook="hookgw_run",instance="",plugin="mine",reason="ValueError: boom"} 4.0' in metrics
        assert [failure.plugin for failure in kit.plugin_failures] == ["mine"] * 4
        hookgw_clock.jump(80)
        assert "ValueError: boom" not in kit.gateway.metrics.render()[0].decode()


async def test_the_reason_of_a_failing_connector_is_shown(tmp_path: Path, hookgw_clock: MockClock) -> None:
    plugin = Plugin()
    plugins = {"fake": FakeConnector(script=fail), "mine": plugin}
    async with open_kit(tmp_path, plugins=plugins) as kit:
        instances = kit.gateway.instances
        await instances.create("shop", integration="fake")
        kit.gateway.connectors.start(instances.get("shop"))
        while not kit.plugin_failures:
            await trio.testing.wait_all_tasks_blocked()
        await kit.settled()
        assert instances.close_reason("shop") == (
            "Plugin 'fake' failed in hookgw_connectors.run: OSError: network down. It starts again after 1 s."
        )
        (event,) = plugin.events
        assert (event["kind"], event["instance"], event["plugin"]) == ("PLUGIN_FAILING", "shop", "fake")
        sample = 'instance="shop",plugin="fake",reason="OSError: network down"} 1.0'
        assert sample in kit.gateway.metrics.render()[0].decode()
        await instances.logout("shop")
        assert sample not in kit.gateway.metrics.render()[0].decode()
