"""Overview, lanes, kinds and system, over HTTP."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import trio

from hookgw.config.settings import OperationsSettings, Settings
from hookgw.gateway.gateway import Gateway
from hookgw.gateway.recent_log import recent_log
from tests.dashboard.conftest import Browser, emit, set_webhook


async def test_an_empty_gateway_shows_how_to_begin(browser: Browser) -> None:
    page = (await browser.get("/")).text
    assert "Three steps to the first delivery" in page
    assert "/webhook/set/loja1" in page
    assert "Everything works" not in page


async def test_a_failing_webhook_is_named_with_its_reason(browser: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    await set_webhook(gateway)
    assert "Everything works" in (await browser.get("/")).text
    await emit(gateway)
    with trio.fail_after(20):
        while "Needs attention" not in (page := (await browser.get("/")).text):  # noqa: ASYNC110 (a page)
            await trio.sleep(0.05)
    assert "http://127.0.0.1:9/x does not accept events of loja1." in page
    assert "/dashboard/instances/loja1/webhooks/default" in page
    assert "<b>loja1</b>" not in page
    lanes = (await browser.get("/lanes")).text
    assert "loja1 / default" in lanes
    assert "Connection refused" in lanes


async def test_a_tenant_sees_its_own_problems_alone(visitor: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    await gateway.instances.create("mine", token="key-of-mine")
    await set_webhook(gateway)
    await set_webhook(gateway, "mine", "http://127.0.0.1:9/mine")
    await emit(gateway)
    await trio.sleep(0.2)
    await visitor.log_in("key-of-mine")
    for path in ("/", "/lanes", "/instances", "/deliveries"):
        page = (await visitor.get(path)).text
        assert "loja1" not in page, path
    assert ">System</a>" not in (await visitor.get("/")).text
    for path in ("/system", "/live/log"):
        assert (await visitor.get(path)).status_code == 403


async def test_a_lost_connection_is_named(browser: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("loja1", integration="simulator", options={"log_out_after": "10ms"})
    await gateway.instances.connect("loja1")
    with trio.fail_after(20):
        while "loja1" not in (await browser.get("/instances")).text:  # noqa: ASYNC110 (a page)
            await trio.sleep(0.05)
    assert (await browser.get("/")).status_code == 200


async def test_the_kinds_have_examples(browser: Browser, visitor: Browser) -> None:
    page = (await browser.get("/kinds")).text
    assert "MESSAGES_UPSERT" in page
    assert "remoteJid" in page
    assert "What hookgw reports about itself" in page


class TestSystem:
    @pytest.fixture
    def settings(self, settings: Settings, tmp_path: Path) -> Settings:
        operations = OperationsSettings(headers={"x-token": "geheim"}, url="http://127.0.0.1:9/operations")
        storage = msgspec.structs.replace(settings.storage, backup_folder=str(tmp_path / "copies"))
        (tmp_path / "copies").mkdir()
        return msgspec.structs.replace(settings, operations=operations, storage=storage)

    async def test_a_backup(self, browser: Browser, tmp_path: Path) -> None:
        made = await browser.submit("/system", "/system/backup")
        assert made.status_code == 200
        with trio.fail_after(20):
            while not list((tmp_path / "copies").glob("*")):  # noqa: ASYNC110 (a file)
                await trio.sleep(0.05)
        [copy] = (tmp_path / "copies").glob("*")
        assert copy.name in made.text

    @pytest.fixture(autouse=True)
    def _log(self) -> Iterator[None]:
        recent_log.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        root = logging.getLogger()
        root.addHandler(recent_log)
        yield
        root.removeHandler(recent_log)

    async def test_it_shows_everything_but_secrets(self, browser: Browser, gateway: Gateway) -> None:
        logging.getLogger("test").warning("a line with <b>markup</b>")
        await browser.submit("/instances", "/new-instance", {"name": "loja1"})
        page = (await browser.get("/system")).text
        assert "operations.headers" in page
        assert "geheim" not in page
        assert "the-global-key" not in page
        assert "simulator" in page
        assert "instance.create" in page
        assert "dashboard" in page.partition("instance.create")[0].rpartition("<tr>")[2]
        assert "a line with &lt;b&gt;markup" in page


def test_the_newest_lines_are_kept() -> None:
    recent_log.setFormatter(logging.Formatter("%(message)s"))
    for number in range(300):
        recent_log.emit(logging.makeLogRecord({"msg": f"line {number}"}))
    try:
        raise ValueError("why")
    except ValueError as error:
        recent_log.emit(
            logging.makeLogRecord({"msg": "failed", "exc_info": (ValueError, error, error.__traceback__)})
        )
    lines = recent_log.lines()
    assert len(lines) == 200
    assert lines[0].startswith("failed\nTraceback")
    assert lines[1:3] == ["line 299", "line 298"]


async def test_a_tenant_sees_its_own_lanes_alone(
    browser: Browser, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.dashboard.pages.lanes.MOST_LANES", 1)
    for name in ("loja1", "mine"):
        await gateway.instances.create(name, token=f"key-of-{name}")
        await set_webhook(gateway, name)
        await emit(gateway, name)
    page = (await browser.get("/lanes")).text
    assert page.count(" / default") == 1
    assert '<data value="2">2</data> lanes; these are the ones to look at first.' in page
    await browser.submit("/", "/logout")
    assert (await browser.log_in("key-of-loja1")).status_code == 303
    page = (await browser.get("/lanes")).text
    assert "loja1 / default" in page
    assert "mine" not in page
