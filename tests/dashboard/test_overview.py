"""Overview, lanes, kinds and system, over HTTP."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import trio

from hookgw import Gateway
from hookgw.core.recent_log import recent_log
from hookgw.testing import open_receiver
from tests.dashboard.conftest import Browser, emit, set_webhook
from tests.public.config import OperationsSettings, Settings
from tests.public.records import FailingTask
from tests.public.store import Held, LaneBacklog
from tests.support.disks import refuse
from tests.support.waits import until


async def test_an_empty_gateway_shows_how_to_begin(browser: Browser) -> None:
    page = (await browser.get("/")).text
    assert "Five steps to the first delivery" in page
    assert f"curl -X POST {browser.http.base_url}/webhook/set/loja1 \\\n" in page
    # The tests' settings allow this machine.
    assert "ALLOW_NETWORKS" not in page
    assert "Everything works" not in page


async def test_a_failing_webhook_is_named_with_its_reason(browser: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    await set_webhook(gateway)
    assert "Everything works" in (await browser.get("/")).text
    await emit(gateway)
    with trio.fail_after(20):
        while "Needs attention" not in (page := (await browser.get("/")).text):  # noqa: ASYNC110 (a page)
            await trio.sleep(0.05)
    assert "<b>Webhook default of loja1</b>" in page
    assert "Connection refused" in page
    assert "http://127.0.0.1:9/x" in page
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
        ended = "Not connected. The network logged the account out."
        while ended not in (page := (await browser.get("/")).text):  # noqa: ASYNC110 (a page)
            await trio.sleep(0.05)
    assert "<b>loja1</b>" in page
    # Not a problem: somebody wanted it.
    await gateway.instances.create("loja2", integration="simulator", options={"connect_delay": "1d"})
    await gateway.instances.connect("loja2")
    await gateway.instances.logout("loja2")
    assert "<b>loja2</b>" not in (await browser.get("/")).text


async def test_what_the_database_holds_back_is_shown_with_its_lane(
    browser: Browser, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gateway.instances.create("loja1")
    await set_webhook(gateway)
    registration = gateway.registrations.get("loja1")
    held = Held(lanes={registration.id: [LaneBacklog(f"{registration.id}:0", 1200)]})
    monkeypatch.setattr(gateway.store, "held", lambda: held)
    page = (await browser.get("/lanes")).text
    assert 'and <data value="1200">1,200</data> held back by the database' in page


async def test_a_lane_is_resumed(browser: Browser, visitor: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    await gateway.instances.create("mine", token="key-of-mine")
    await set_webhook(gateway)
    await gateway.registrations.pause("loja1")
    await emit(gateway)
    page = (await browser.get("/lanes")).text
    assert ">Resume</button>" in page
    done = await browser.submit("/lanes", "/lanes/resume", {"webhook": "loja1/default"})
    assert done.headers["location"] == "/dashboard/lanes?done=resumed"
    assert not gateway.registrations.get("loja1").is_paused
    assert (await browser.submit("/lanes", "/lanes/resume", {"webhook": "loja1/none"})).status_code == 404
    assert (await browser.submit("/lanes", "/lanes/resume", {"webhook": "a b"})).status_code == 400
    await browser.submit("/", "/logout")
    await visitor.log_in("key-of-mine")
    assert (await visitor.submit("/lanes", "/lanes/resume", {"webhook": "loja1/x"})).status_code == 403


async def test_what_fails_in_hookgw_itself_is_named(
    browser: Browser, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway.disk, "shortage", "The disk has 3 MiB left for events.")
    task = FailingTask(
        plugin="matrix", hook="hookgw_run", instance=None, reason="ValueError: no", failures=1, forget_at=0
    )
    monkeypatch.setattr(gateway.restarts, "failing", lambda: [task])
    page = (await browser.get("/")).text
    assert "<b>Storage</b>" in page
    assert "The disk has 3 MiB left for events." in page
    assert "<b>Plugin matrix</b>" in page
    assert "It fails: ValueError: no" in page


async def test_many_problems_are_shown_on_demand(
    browser: Browser, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.operations.pages.overview.MOST_PROBLEMS", 1)
    # Two causes: problems with one cause are shown as one.
    for name, port in (("loja1", 9), ("loja2", 10)):
        await gateway.instances.create(name)
        await set_webhook(gateway, name, f"http://127.0.0.1:{port}/x")
        await emit(gateway, name)
    await until(lambda: len([*gateway.auto_disable.failing()]) >= 2)
    page = (await browser.get("/")).text
    assert page.count("<b>Webhook default of") == 1
    assert "?problems=all" in page
    assert (await browser.get("/?problems=all")).text.count("<b>Webhook default of") == 2
    monkeypatch.setattr("hookgw.operations.pages.overview.ALL_PROBLEMS", 1)
    assert "There are more than these" in (await browser.get("/?problems=all")).text


async def test_a_tenant_sees_the_figures_of_its_instance(visitor: Browser, gateway: Gateway) -> None:
    async with open_receiver() as receiver:
        for name in ("mine", "theirs"):
            await gateway.instances.create(name, token=f"key-of-{name}")
            await set_webhook(gateway, name, receiver.url)
            await emit(gateway, name)
        await receiver.wait_for(2)
        await gateway.store.flush()
        await visitor.log_in("key-of-mine")
        page = (await visitor.get("/")).text
    assert re.findall(r'<b><data value="(\d+)">\d+</data></b>', page) == ["0", "1", "0"]


async def test_an_operator_sees_the_figures_of_all_instances(browser: Browser, gateway: Gateway) -> None:
    async with open_receiver() as receiver:
        for name in ("mine", "theirs"):
            await gateway.instances.create(name)
            await set_webhook(gateway, name, receiver.url)
            await emit(gateway, name)
        await receiver.wait_for(2)
        await until(lambda: not gateway.backlog.size)
        await gateway.store.flush()
        page = (await browser.get("/")).text
    assert re.findall(r'<b><data value="(\d+)">\d+</data></b>', page) == ["2", "0", "2", "0"]


async def test_a_tenants_figures_may_be_too_many_to_count(
    visitor: Browser, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.operations.pages.overview.MOST_ADDED", 0)
    await gateway.instances.create("mine", token="key-of-mine")
    await set_webhook(gateway, "mine")
    await emit(gateway, "mine")
    await visitor.log_in("key-of-mine")
    assert (await visitor.get("/")).text.count("</data>+</b>") == 2  # delivered, and dead letters


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
        await until(lambda: list((tmp_path / "copies").glob("*")))
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
        assert "dashboard" in page.partition("instance.create")[2].partition("</tr>")[0]
        assert "a line with &lt;b&gt;markup" in page
        assert "Data file" in page

    async def test_the_audit_goes_on_with_older_entries(
        self, browser: Browser, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("hookgw.operations.pages.system.MOST_ENTRIES", 1)
        # Not names of other tests: the page also shows the last lines of the log, which may have those.
        for name in ("audited1", "audited2"):
            await gateway.instances.create(name)
        page = (await browser.get("/system")).text
        assert ("audited2" in page, "audited1" in page) == (True, False)
        older = re.search(r'href="/dashboard(/system\?cursor=[^"#]+)', page)
        assert older is not None
        page = (await browser.get(older[1])).text
        assert ("audited2" in page, "audited1" in page) == (False, True)
        assert ">Newest</a>" in page

    async def test_a_disk_that_does_not_answer(
        self, browser: Browser, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(gateway.store, "disk_space", refuse)
        page = await browser.get("/system")
        assert page.status_code == 200
        assert "Data file" not in page.text


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
    monkeypatch.setattr("hookgw.deliveries.pages.lanes.PAGE", 1)
    for name in ("loja1", "mine"):
        await gateway.instances.create(name, token=f"key-of-{name}")
        await set_webhook(gateway, name)
        await emit(gateway, name)
    page = (await browser.get("/lanes")).text
    assert page.count(" / default") == 1
    assert '<data value="2">2</data> lanes, page <data value="1">1</data> of' in page
    assert 'rel="next" href="/dashboard/lanes?page=2"' in page
    pages = [(await browser.get(f"/lanes?sort=webhook&page={number}")).text for number in (1, 2)]
    assert ["loja1 / default" in page for page in pages] == [True, False]
    assert "mine / default" in pages[1]
    await browser.submit("/", "/logout")
    assert (await browser.log_in("key-of-loja1")).status_code == 303
    page = (await browser.get("/lanes")).text
    assert "loja1 / default" in page
    assert "mine" not in page


async def fail(gateway: Gateway, *names: str) -> None:
    for name in names:
        await gateway.instances.create(name)
        await set_webhook(gateway, name)
        await emit(gateway, name)
    await until(lambda: len([*gateway.auto_disable.failing()]) >= len(names))


async def test_one_dead_receiver_is_one_problem_that_is_repaired_in_place(
    browser: Browser, gateway: Gateway
) -> None:
    await fail(gateway, "loja1", "loja2")
    page = (await browser.get("/")).text
    assert page.count("127.0.0.1:9 refuses connections</h3>") == 1
    assert '<data value="2">2</data> webhooks' in page
    group = re.search(r'name="repair" value="pause:([0-9a-f]{12})"', page)
    assert group is not None
    done = await browser.submit("/", "/problems/repair", {"repair": f"pause:{group[1]}"})
    assert done.headers["location"].endswith("?done=paused")
    assert all(gateway.registrations.get(name).is_paused for name in ("loja1", "loja2"))
    for wrong in ("pause:000000000000", f"connect:{group[1]}", f"nothing:{group[1]}"):
        refused = await browser.submit("/", "/problems/repair", {"repair": wrong})
        assert refused.status_code in (400, 404)


async def test_a_disabled_webhook_loses_most_and_gets_what_it_missed(
    browser: Browser, gateway: Gateway
) -> None:
    await fail(gateway, "loja1")
    async with open_receiver() as receiver:
        await gateway.instances.create("loja2")
        await set_webhook(gateway, "loja2", receiver.url)
        found = gateway.registrations.get("loja2")
        await gateway.auto_disable.disable(found, "The receiver answered 410 Gone.")
        await emit(gateway, "loja2")
        page = (await browser.get("/")).text
        assert page.index("answers 410") < page.index("refuses connections")
        assert '<data value="1">1</data> missed' in page
        group = re.search(r'name="repair" value="(enable:[0-9a-f]{12})"', page)
        assert group is not None
        await browser.submit("/", "/problems/repair", {"repair": group[1]})
        await receiver.wait_for(1)
    assert gateway.registrations.get("loja2").enabled


async def test_what_was_pending_when_a_webhook_was_disabled_is_no_missed_event(
    browser: Browser, gateway: Gateway
) -> None:
    await gateway.instances.create("loja1")
    await set_webhook(gateway)
    await gateway.registrations.pause("loja1")
    await emit(gateway)
    await gateway.auto_disable.disable(gateway.registrations.get("loja1"), "The receiver answered 410 Gone.")
    page = (await browser.get("/")).text
    group = re.search(r'name="repair" value="(enable:[0-9a-f]{12})"', page)
    assert group is not None
    assert "missed</b>" not in page
    done = await browser.submit("/", "/problems/repair", {"repair": group[1]})
    notice = (await browser.http.get(done.headers["location"])).text
    assert "is among the dead letters" in notice


async def test_a_problem_is_muted_with_a_reason_until_a_time(
    browser: Browser, visitor: Browser, gateway: Gateway
) -> None:
    await fail(gateway, "loja1")
    page = (await browser.get("/")).text
    group = re.search(r'name="mute" value="([0-9a-f]{12})"', page)
    assert group is not None
    fields = {"mute": group[1], f"reason-{group[1]}": "The CRM moves.", f"until-{group[1]}": "2h"}
    # Enter sends nothing by itself: all problems share the form, so its first button may be another's.
    assert re.search(r'<form hidden id="mute".*?<button hidden disabled></button></form>', page)
    for name, value in ((f"reason-{group[1]}", " "), (f"until-{group[1]}", "when it works")):
        refused = await browser.submit("/", "/problems/mute", {**fields, name: value})
        assert refused.status_code == 400
        entered = refused.text.partition(f'<details id="mute-{group[1]}" open')[2].partition("</details>")[0]
        for field, typed in fields.items():
            shown = value.strip() if field == name else typed
            assert field == "mute" or re.search(f'name="{field}"[^>]* value="{shown}"', entered)
    done = await browser.submit("/", "/problems/mute", fields)
    assert done.headers["location"].endswith("?done=muted")
    page = (await browser.get("/")).text
    assert "Needs attention" not in page
    assert "The CRM moves." in page
    system = (await browser.get("/system")).text
    assert "problem.mute" in system
    assert "The CRM moves." in system
    await browser.submit("/", "/problems/unmute", {"unmute": group[1]})
    assert "Needs attention" in (await browser.get("/")).text


MUTE = {"mute": "{group}", "reason-{group}": "x", "until-{group}": "2h"}


@pytest.mark.parametrize(
    ("page", "query", "action", "fields"),
    [
        ("/", "problems=all&span=7d", "/problems/repair", {"repair": "pause:{group}"}),
        ("/", "problems=all&span=7d", "/problems/mute", MUTE),
        ("/", "problems=all&span=7d", "/problems/unmute", {"unmute": "{group}"}),
        ("/lanes", "search=loja&column=pending&column=node", "/lanes/resume", {"webhook": "loja1/default"}),
        ("/lanes", "state=waiting&page=2", "/lanes/all", {"action": "try", "webhook": "loja1/default"}),
    ],
)
async def test_after_a_repair_a_page_is_filtered_as_before(
    browser: Browser, gateway: Gateway, page: str, query: str, action: str, fields: dict[str, str]
) -> None:
    await fail(gateway, "loja1")
    text = (await browser.get(f"{page}?{query}&done=paused")).text
    asked = f"{action}?{query}"
    assert f'action="/dashboard{asked.replace("&", "&amp;")}"' in text
    [group] = (await gateway.views.grouped(await gateway.views.overview(None, 10), with_mutes=True))[:1]
    given = {key.format(group=group.id): value.format(group=group.id) for key, value in fields.items()}
    done = await browser.submit(page, asked, given)
    assert done.headers["location"].startswith(f"/dashboard{page}?{query}&done=")
    assert "done=paused&" not in done.headers["location"]
    # What names the arguments of a function names nothing here.
    odd = await browser.submit(page, f"{action}?path=x&self=y", given)
    # What is paused is no problem any more.
    assert odd.status_code == (404 if action == "/problems/repair" else 303)


async def test_a_key_without_the_right_repairs_nothing(visitor: Browser, gateway: Gateway) -> None:
    await fail(gateway, "loja1")
    await gateway.instances.create("mine", token="key-of-mine")
    await visitor.log_in("key-of-mine")
    assert "refuses connections" not in (await visitor.get("/")).text
    fields = {"mute": "000000000000", "reason-000000000000": "x", "until-000000000000": "2h"}
    assert (await visitor.submit("/", "/problems/mute", fields)).status_code == 403
    assert (
        await visitor.submit("/", "/problems/repair", {"repair": "pause:000000000000"})
    ).status_code == 404


async def test_lanes_are_searched_and_idle_ones_are_listed_on_demand(
    browser: Browser, gateway: Gateway
) -> None:
    await fail(gateway, "loja1")
    async with open_receiver() as receiver:
        await gateway.instances.create("works")
        await set_webhook(gateway, "works", receiver.url)
        await emit(gateway, "works")
        await receiver.wait_for(1)
        await until(lambda: not gateway.backlog.of_instance("works")[0])
        shown = {
            query: [
                name for name in ("loja1", "works") if f"{name} / default" in (await browser.get(query)).text
            ]
            for query in (
                "/lanes",
                "/lanes?idle=true",
                "/lanes?state=idle",
                "/lanes?idle=true&search=refused",
                "/lanes?idle=true&search=WORKS",
                "/lanes?search=nothing",
            )
        }
    assert [*shown.values()] == [["loja1"], ["loja1", "works"], ["works"], ["loja1"], ["works"], []]


async def test_columns_are_chosen_and_kept(browser: Browser, gateway: Gateway) -> None:
    await fail(gateway, "loja1")
    usual = (await browser.get("/lanes")).text
    assert ">Oldest since" in usual
    chosen = await browser.get("/lanes?column=error&column=pending&column=nothing")
    assert ">Oldest since" not in chosen.text.partition("<table")[2]
    assert ">Last error" in chosen.text.partition("<table")[2]
    assert 'data-live="/dashboard/live/lanes?column=pending&amp;column=error"' in chosen.text
    browser.http.cookies.update(chosen.cookies)
    assert ">Last error" in (await browser.get("/lanes")).text.partition("<table")[2]
