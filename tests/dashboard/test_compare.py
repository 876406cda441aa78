"""Payloads side by side, edited copies, and requests and answers as they were, over HTTP."""

import re

import pytest

from hookgw import Event, Gateway
from hookgw.testing import Receiver, answer
from tests.dashboard.conftest import KEY, Browser
from tests.public.webhooks import parse_registration
from tests.support.waits import until


@pytest.fixture
async def delivery(gateway: Gateway, hookgw_receiver: Receiver) -> str:
    """The page of a delivery that is refused."""
    await gateway.instances.create("loja1")
    body = {"url": hookgw_receiver.url, "headers": {"x-token": "verborgen"}}
    change, _ = parse_registration(body, gateway.catalog)
    await gateway.registrations.set("loja1", "default", change)
    hookgw_receiver.will(answer(422, body=b"no verborgen", headers={"x-why": "because"}), answer(200))
    await emit(gateway, "evt_1", b'{"text":"one","n":1.50}')
    await settled(gateway, hookgw_receiver, 1)
    return "/deliveries/loja1/dlv_1"


async def emit(gateway: Gateway, event_id: str, data: bytes) -> None:
    now = gateway.clock.wall()
    event = Event(id=event_id, kind="MESSAGES_UPSERT", instance="loja1", data_json=data, time=now)
    await gateway.events.accept([event])


async def settled(gateway: Gateway, hookgw_receiver: Receiver, count: int) -> None:
    await hookgw_receiver.wait_for(count)
    await until(lambda: not gateway.backlog.of_instance("loja1")[0])
    await gateway.store.flush()


async def test_a_failed_attempt_shows_what_was_sent_and_answered(
    browser: Browser, hookgw_receiver: Receiver, delivery: str
) -> None:
    page = (await browser.get(delivery)).text
    [request] = hookgw_receiver.requests
    assert "POST / HTTP/1.1\nhost: 127.0.0.1" in page
    assert f"webhook-id: {request.header('webhook-id')}" in page
    assert "x-token: ********" in page
    assert "webhook-signature: ********" in page
    assert "x-why: because\n" in page
    assert "no ********" in page
    assert "verborgen" not in page
    assert (await browser.get(f"{delivery}/body.json")).content == request.body
    found = await browser.http.get("/delivery/find/loja1/dlv_1", headers={"apikey": KEY})
    [attempt] = found.json()["attempts"]
    assert attempt["requestHead"].startswith("POST / HTTP/1.1\n")
    assert "x-why: because" in attempt["responseHeaders"]


async def test_an_edited_copy_says_of_what_and_whose_it_is(
    browser: Browser, gateway: Gateway, hookgw_receiver: Receiver, delivery: str
) -> None:
    wrong = await browser.submit(delivery, f"{delivery}/resend", {"data": '{"a":1,"a":2}'})
    assert (wrong.status_code, "(JSON)" in wrong.text) == (400, True)
    sent = await browser.submit(delivery, f"{delivery}/resend", {"data": '{"text":"two","n":1.50}'})
    await settled(gateway, hookgw_receiver, 2)
    copy = sent.headers["location"].partition("?")[0].removeprefix("/dashboard")
    page = (await browser.get(copy)).text
    assert "This is an edited copy of dlv_1." in page
    assert "It was sent with the key configuration." in page
    compared = (await browser.get(f"{copy}/compare?with=dlv_1")).text
    assert "1 line differs." in compared
    marks = r'<(del|ins)><span class="mark">(.)</span><code>\s*&#34;text&#34;: (.*?)</code>'
    assert re.findall(marks, compared) == [("del", "−", "&#34;one&#34;,"), ("ins", "+", "&#34;two&#34;,")]
    # The original is as it was.
    original = (await browser.get(delivery)).text
    assert "edited copy" not in original
    assert "one" in original
    headers = {"apikey": KEY}
    found = await browser.http.get(f"/delivery/find/loja1/{copy.rpartition('/')[2]}", headers=headers)
    assert found.json()["event"]["editedFrom"] == "evt_1"


async def test_an_event_is_compared_with_what_was_sent_of_it(
    browser: Browser, gateway: Gateway, hookgw_receiver: Receiver, delivery: str
) -> None:
    page = (await browser.get(f"{delivery}/compare")).text
    assert "Both are the same." in page
    assert "only once an attempt has failed" not in page
    await emit(gateway, "evt_2", b'{"text":"two"}')
    await settled(gateway, hookgw_receiver, 2)
    page = (await browser.get("/deliveries/loja1/dlv_2/compare")).text
    assert "only once an attempt has failed" in page
    missing = await browser.get(f"{delivery}/compare?with=dlv_99")
    assert (missing.status_code, "has no delivery" in missing.text) == (404, True)


async def test_nobody_compares_with_what_they_may_not_see(
    visitor: Browser, gateway: Gateway, delivery: str
) -> None:
    await gateway.instances.create("loja2", token="key-of-loja2")
    await visitor.log_in("key-of-loja2")
    now = gateway.clock.wall()
    change, _ = parse_registration({"url": "http://127.0.0.1:9/x"}, gateway.catalog)
    await gateway.registrations.set("loja2", "default", change)
    event = Event(id="mine", kind="CALL", instance="loja2", data_json=b"{}", time=now)
    await gateway.events.accept([event])
    for name in ("loja1/dlv_1", "nobody/dlv_1", "loja1/evt_1"):
        refused = await visitor.get(f"/deliveries/loja2/mine/compare?with={name}")
        assert (refused.status_code, "does not reach that instance" in refused.text) == (403, True)
    assert (await visitor.get(f"{delivery}/compare")).status_code == 403
