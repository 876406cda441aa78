"""The event monitor and the page of an event, over HTTP."""

import json
import re
import shlex

import httpx
import pytest

from hookgw import Event, Gateway
from hookgw.testing import Receiver
from tests.dashboard.conftest import KEY, Browser
from tests.dashboard.test_streams import watching
from tests.public.webhooks import parse_registration
from tests.support.waits import until

DATA = b'{"text":"Ol\xc3\xa1 <b>it\'s</b>"}'


@pytest.fixture
async def shop(gateway: Gateway, hookgw_receiver: Receiver) -> str:
    """Two instances: of loja1, which is returned, one event was delivered; nobody wants the others."""
    for name, tags in (("loja1", {"tenant": "acme"}), ("loja2", {})):
        await gateway.instances.create(name, tags=tags)
    await set_webhook(gateway, "crm", hookgw_receiver.url, events=["MESSAGES_UPSERT"])
    await emit(gateway, "evt_1", "loja1", DATA)
    await emit(gateway, "evt_2", "loja1", b'{"state":"open"}', "CONNECTION_UPDATE")
    await emit(gateway, "evt_3", "loja2", b"[1,2]")
    await hookgw_receiver.wait_for(1)
    await until(lambda: not gateway.backlog.of_instance("loja1")[0])
    await gateway.store.flush()
    return "loja1"


async def set_webhook(gateway: Gateway, label: str, url: str, **more: object) -> None:
    change, _ = parse_registration({"url": url, **more}, gateway.catalog)
    await gateway.registrations.set("loja1", label, change)


async def emit(
    gateway: Gateway, event_id: str, instance: str, data: bytes, kind: str = "MESSAGES_UPSERT"
) -> None:
    await gateway.events.accept([made(gateway, event_id, kind, instance, data)])


def made(gateway: Gateway, event_id: str, kind: str, instance: str, data: bytes) -> Event:
    return Event(id=event_id, kind=kind, instance=instance, data_json=data, time=gateway.clock.wall())


def shown(page: str) -> list[str]:
    return re.findall(r'<li id="row-[^".]*\.(\w+)"', page)


async def test_the_filters_of_the_monitor(shop: str, browser: Browser) -> None:
    for query, ids in (
        ("", ["evt_3", "evt_2", "evt_1"]),
        ("instance=loja1", ["evt_2", "evt_1"]),
        ("instance=loja*&kind=messages.upsert", ["evt_3", "evt_1"]),
        ("tag=acme", ["evt_2", "evt_1"]),
        ("tag=tenant=acme&kind=CONNECTION_UPDATE", ["evt_2"]),
        ("text=Ol%C3%A1", ["evt_1"]),
        ("text=nothing", []),
    ):
        page = await browser.get(f"/events?{query}")
        assert (page.status_code, shown(page.text)) == (200, ids), query
    assert "No event matches these filters" in page.text
    refused = await browser.get("/events?tag=nobody")
    assert (refused.status_code, "No instance has the tag" in refused.text) == (404, True)


async def test_the_monitor_shows_events_as_they_are_accepted_up_to_a_bound(
    shop: str, browser: Browser, gateway: Gateway
) -> None:
    async with watching(browser, "/dashboard/live/events?instance=loja2") as stream:
        assert shown((await stream.next())["data"]) == ["evt_3"]
        await emit(gateway, "evt_4", "loja2", b"{}")
        assert shown((await stream.next())["data"]) == ["evt_4", "evt_3"]
        many = [made(gateway, f"e{n}", "CALL", "loja2", b"{}") for n in range(150)]
        await gateway.events.accept(many)
        assert len(shown((await stream.next())["data"])) == 100


async def test_the_curl_command_of_an_event_emits_its_data_again(
    shop: str, browser: Browser, url: str
) -> None:
    opened = await browser.get(f"/events/{shop}/evt_1/row")
    assert opened.status_code == 200
    assert "<b>it" not in opened.text
    [command] = re.findall(r"<code>(curl .*?)</code>", opened.text, re.DOTALL)
    words = shlex.split(unescaped(command))
    assert words[3] == f"{url}/event/emit/loja1"
    assert "apikey: $HOOKGW_KEY" in words
    body = words[words.index("--data-raw") + 1]
    assert json.loads(body) == {"event": "MESSAGES_UPSERT", "data": json.loads(DATA)}
    assert (await browser.get(f"/events/{shop}/evt_1/emit.json")).text == body
    assert (await browser.get(f"/events/{shop}/evt_1/data.json")).content == DATA
    headers = {"apikey": KEY, "content-type": "application/json"}
    again = await browser.http.post(words[3], content=body, headers=headers)
    assert again.json()["accepted"] == 1


async def test_an_event_is_sent_again_to_a_webhook_that_had_it_and_to_one_that_had_not(
    shop: str, browser: Browser, gateway: Gateway, hookgw_receiver: Receiver
) -> None:
    await set_webhook(gateway, "other", f"{hookgw_receiver.url}other", events=["CALL"])
    page = f"/events/{shop}/evt_1"
    assert "dlv_1" in (await browser.get(page)).text
    # Twice to one that had none: the second time it is the same copy, again.
    for count, label in enumerate(("crm", "other", "other"), start=2):
        sent = await browser.submit(page, f"{page}/send", {"label": label})
        assert sent.status_code == 303, sent.text
        await hookgw_receiver.wait_for(min(count, 3))
        await gateway.store.flush()
    by_path = {request.path: request for request in hookgw_receiver.requests}
    assert by_path["/"].header("webhook-id") == "evt_1"
    copy = by_path["/other"]
    assert (copy.header("x-edited-from"), copy.json["data"]) == ("evt_1", json.loads(DATA))


async def test_an_event_that_nobody_wanted_is_sent_once_to_a_url(
    shop: str, browser: Browser, hookgw_receiver: Receiver
) -> None:
    page = "/events/loja2/evt_3"
    assert "No webhook wanted it" in (await browser.get(page)).text
    sent = await browser.submit(page, f"{page}/send", {"url": f"{hookgw_receiver.url}inspect"})
    assert sent.status_code == 200
    assert hookgw_receiver.requests[-1].path == "/inspect"
    assert "webhook-signature" not in dict(hookgw_receiver.requests[-1].headers)
    wrong = await browser.submit(page, f"{page}/send", {"label": "nobody"})
    assert (wrong.status_code, "has no webhook" in wrong.text) == (404, True)


async def test_the_copy_of_an_event_that_nobody_wanted_leads_to_it(
    shop: str, browser: Browser, gateway: Gateway
) -> None:
    page = f"/events/{shop}/evt_2"
    sent = await browser.submit(page, f"{page}/send", {"label": "crm"})
    await gateway.store.flush()
    copy = (await browser.http.get(sent.headers["location"])).text
    assert "This is an edited copy of the event evt_2." in copy
    for title in ("Open the original", "Compare both"):
        [address] = re.findall(rf'<a href="/dashboard([^"]*)">{title}</a>', copy)
        assert (await browser.get(address)).status_code == 200, title
    assert "Both are the same." in (await browser.get(address)).text


async def test_without_the_right_to_see_data_the_monitor_shows_none(
    shop: str, visitor: Browser, gateway: Gateway, url: str
) -> None:
    async with httpx.AsyncClient(base_url=url, trust_env=False, headers={"apikey": KEY}) as http:
        made = await http.post("/key/create", json={"name": "reader", "rights": ["read", "replay", "send"]})
    await visitor.log_in(made.json()["key"])
    for path in ("/events", f"/events/{shop}/evt_1", f"/events/{shop}/evt_1/row"):
        page = await visitor.get(path)
        assert page.status_code == 200
        assert not any(one in page.text for one in ("Olá", "/send", 'name="text"')), path
    assert shown((await visitor.get("/events")).text) == ["evt_3", "evt_2", "evt_1"]
    for path in ("/events?text=Ol", "/live/events?text=Ol", f"/events/{shop}/evt_1/data.json"):
        assert (await visitor.get(path)).status_code == 403, path
    sent = await visitor.submit("/deliveries", f"/events/{shop}/evt_1/send", {"label": "crm"})
    assert sent.status_code == 403


def unescaped(text: str) -> str:
    for one, character in (("&lt;", "<"), ("&gt;", ">"), ("&#39;", "'"), ("&#34;", '"'), ("&amp;", "&")):
        text = text.replace(one, character)
    return text
