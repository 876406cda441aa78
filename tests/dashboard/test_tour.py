"""The tour: its steps tick themselves, and it can be hidden and shown again."""

import re

from hookgw import Gateway, Right
from hookgw.testing import open_receiver
from tests.dashboard.conftest import Browser, emit, set_webhook
from tests.public.auth import new_key
from tests.public.records import Key, Reach


def ticks(page: str) -> list[bool]:
    return [bool(one) for one in re.findall(r'<li class="step( done)?"', page)]


def next_link(page: str) -> str:
    found = re.search(
        r'aria-current="step">.*?<a class="button primary" href="/dashboard([^"]*)"', page, re.DOTALL
    )
    assert found is not None
    return found[1]


async def test_the_steps_tick_themselves_until_the_first_delivery(browser: Browser, gateway: Gateway) -> None:
    page = (await browser.get("/")).text
    assert ticks(page) == [False] * 5
    assert next_link(page) == "/instances#create"
    await gateway.instances.create("loja1", integration="simulator", options={"rate": 0})
    page = (await browser.get("/")).text
    assert ticks(page) == [True, False, False, False, False]
    assert next_link(page) == "/instances/loja1"
    await gateway.instances.create("loja2")  # its events come over HTTP
    page = (await browser.get("/")).text
    assert ticks(page) == [True, True, False, False, False]
    assert (await browser.http.get(f"/dashboard{next_link(page)}", follow_redirects=True)).status_code == 200
    async with open_receiver() as receiver:
        await set_webhook(gateway, "loja2", receiver.url)
        page = (await browser.get("/")).text
        assert ticks(page) == [True, True, True, False, False]
        assert next_link(page) == "/instances/loja2#emit"
        await emit(gateway, "loja2")
        await receiver.wait_for(1)
    await gateway.store.flush()
    assert ticks((await browser.get("/tour")).text) == [True] * 5
    page = (await browser.get("/")).text
    assert "The first delivery has arrived" in page
    delivery = re.search(r'href="/dashboard(/deliveries/loja2/[^"]+)"', page)
    assert delivery is not None
    assert (await browser.get(delivery[1])).status_code == 200


async def test_it_is_hidden_and_shown_again(browser: Browser) -> None:
    hidden = await browser.submit("/", "/tour/show", {"tour": "hidden"})
    assert hidden.headers["location"] == "/dashboard/"
    assert ticks((await browser.get("/")).text) == []
    page = (await browser.get("/tour")).text
    assert ticks(page) == [False] * 5
    assert 'href="/dashboard/tour">Tour</a>' in page
    await browser.submit("/tour", "/tour/show", {"tour": "shown"})
    assert ticks((await browser.get("/")).text) == [False] * 5


async def test_it_is_for_those_who_can_take_the_steps_on_a_new_gateway(
    visitor: Browser, gateway: Gateway
) -> None:
    key, ring = new_key(), gateway.authenticator.keyring
    ring.add_global(Key(name="reader", hash=ring.hash(key), reach=Reach(), rights=(str(Right.READ),)))
    await visitor.log_in(key)
    page = (await visitor.get("/")).text
    assert ticks(page) == []
    assert "No webhook is set yet" in page
    assert ">Tour</a>" not in page
    visitor.http.cookies.clear()
    await visitor.log_in("the-global-key")
    for number in range(6):
        await gateway.instances.create(f"loja{number}")
    assert ticks((await visitor.get("/")).text) == []
