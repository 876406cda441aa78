"""Actions on the webhooks of all lanes that match, over HTTP."""

import re
from collections.abc import Mapping

import pytest
import trio

from hookgw import Gateway, LaneState, Right
from hookgw.testing import Receiver, answer
from tests.api.test_route_walk import add_key
from tests.dashboard.conftest import Browser, emit, form_token, set_webhook
from tests.public.records import Reach
from tests.public.webhooks import enabling, parse_registration


@pytest.fixture
async def lanes(gateway: Gateway, hookgw_receiver: Receiver) -> Receiver:
    """Three instances whose lanes wait: two for one receiver, one for another."""
    hookgw_receiver.will(*[answer(500)] * 20)
    for number, path in ((1, "crm"), (2, "crm"), (3, "other")):
        name = f"loja{number}"
        await gateway.instances.create(name, token=f"key-of-{name}")
        body = {"url": f"{hookgw_receiver.url}{path}", "retry": {"schedule": ["1h"] * 5}}
        change, _ = parse_registration(body, gateway.catalog)
        await gateway.registrations.set(name, "default", change)
        await emit(gateway, name)
    await wait_for(gateway, LaneState.WAITING, 3)
    return hookgw_receiver


async def wait_for(gateway: Gateway, state: LaneState, count: int) -> None:
    with trio.fail_after(20):
        while True:
            found = await gateway.views.lanes()
            if sum(one.lane.state is state for _, one in found.lanes) == count:
                return
            await trio.sleep(0.02)


async def plan(browser: Browser, fields: Mapping[str, object]) -> str:
    page = await browser.submit("/lanes", "/lanes/all", fields)
    assert page.status_code == 200, page.text
    return re.sub(r"<[^>]+>", "", page.text.partition('aria-label="Confirm"')[2].partition("</form>")[0])


async def confirm(browser: Browser, fields: Mapping[str, object]) -> str:
    """Do what a plan says, as its form does; return where that leads."""
    page = (await browser.submit("/lanes", "/lanes/all", fields)).text
    webhooks = re.findall(r'name="webhook" value="([^"]+)"', page)
    assert webhooks
    data = {"form_token": form_token(page), "action": fields["action"], "webhook": webhooks}
    done = await browser.http.post("/dashboard/lanes/all", data=data)
    assert done.status_code == 303, done.text
    return done.headers["location"]


async def test_a_filter_is_paused_resumed_tried_disabled_and_enabled(
    browser: Browser, gateway: Gateway, lanes: Receiver
) -> None:
    assert 'action="/dashboard/lanes/all"' in (await browser.get("/lanes")).text
    text = await plan(browser, {"action": "pause", "search": "/crm"})
    assert "2 webhooks of 2 instances, with 2 pending deliveries." in text
    assert f"2 to {lanes.url}crm." in text
    assert "wait, in order" in text
    await wait_for(gateway, LaneState.WAITING, 3)  # a plan changes nothing
    assert await confirm(browser, {"action": "pause", "search": "/crm"}) == "/dashboard/lanes?done=paused"
    await wait_for(gateway, LaneState.PAUSED, 2)
    tried = len(lanes.requests)
    await confirm(browser, {"action": "try"})
    await lanes.wait_for(tried + 1)
    assert lanes.requests[-1].path == "/other"
    await confirm(browser, {"action": "resume"})
    await wait_for(gateway, LaneState.WAITING, 3)
    text = await plan(browser, {"action": "disable", "search": "loja1"})
    assert "1 webhook of 1 instance, with 1 pending delivery. What is pending becomes dead letters" in text
    await confirm(browser, {"action": "disable", "search": "loja1"})
    assert not gateway.registrations.get("loja1").enabled
    text = await plan(browser, {"action": "enable"})
    assert "1 webhook of 1 instance. They are sent what they missed" in text
    await confirm(browser, {"action": "enable"})
    assert gateway.registrations.get("loja1").enabled
    empty = await browser.submit("/lanes", "/lanes/all", {"action": "enable"})
    assert "No webhook matches" in empty.text


async def test_paused_webhooks_without_work_are_resumed_too(browser: Browser, gateway: Gateway) -> None:
    for name in ("loja1", "loja2"):
        await gateway.instances.create(name)
        await set_webhook(gateway, name)
        await gateway.registrations.pause(name)
    await gateway.registrations.update("loja2", "default", enabling(False))
    assert (
        "No webhook matches"
        in (await browser.submit("/lanes", "/lanes/all", {"action": "resume", "state": "waiting"})).text
    )
    assert "1 webhook of 1 instance" in await plan(browser, {"action": "resume", "state": "paused"})
    await confirm(browser, {"action": "resume"})
    assert not gateway.registrations.get("loja1").is_paused


async def test_an_action_reaches_no_further_than_the_key(
    visitor: Browser, gateway: Gateway, lanes: Receiver
) -> None:
    await visitor.log_in("key-of-loja2")
    assert "1 webhook of 1 instance" in await plan(visitor, {"action": "pause"})
    foreign = await visitor.submit("/lanes", "/lanes/all", {"action": "pause", "webhook": "loja1/default"})
    assert foreign.status_code == 403
    wrong = await visitor.submit("/lanes", "/lanes/all", {"action": "drop"})
    assert (wrong.status_code, "action must be one of" in wrong.text) == (400, True)
    await wait_for(gateway, LaneState.WAITING, 3)


async def test_to_send_what_was_missed_needs_the_right_to_replay(visitor: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    await set_webhook(gateway)
    await gateway.auto_disable.disable(gateway.registrations.get("loja1"), "The receiver answered 410 Gone.")
    await visitor.log_in(add_key(gateway, Reach(), {Right.READ, Right.WEBHOOKS, Right.REPLAY}))
    group = re.search(r'name="repair" value="(enable:[0-9a-f]{12})"', (await visitor.get("/")).text)
    assert group is not None
    assert 'value="enable"' in (await visitor.get("/lanes")).text
    await visitor.log_in(add_key(gateway, Reach(), {Right.READ, Right.WEBHOOKS}))
    assert 'value="enable' not in (await visitor.get("/")).text
    assert 'value="enable' not in (await visitor.get("/lanes")).text
    for page, path, fields in (
        ("/", "/problems/repair", {"repair": group[1]}),
        ("/lanes", "/lanes/all", {"action": "enable"}),
        ("/lanes", "/lanes/all", {"action": "enable", "webhook": "loja1/default"}),
    ):
        refused = await visitor.submit(page, path, fields)
        assert refused.status_code == 403
        assert "This key does not have the right &#39;replay&#39;." in refused.text
    assert not gateway.registrations.get("loja1").enabled
