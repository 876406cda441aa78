import re
from html import unescape
from types import SimpleNamespace
from typing import Any

import trio

from hookgw import Event, Gateway
from hookgw.testing import answer, open_receiver
from tests.dashboard.conftest import Browser, emit, set_webhook
from tests.public.records import Sparkline
from tests.public.site import SPARK_SECONDS, Sparks


async def test_a_small_chart_outlasts_a_call_that_puts_old_ones_away() -> None:
    """It grows old while its page waits for another one, and a second page comes."""
    now, asked, goes_on = [0.0], trio.Event(), trio.Event()

    async def sparklines(names: list[str]) -> dict[str, Sparkline]:
        if "slow" in names:
            asked.set()
            await goes_on.wait()
        return {name: Sparkline((1,), (0,)) for name in names}

    gateway: Any = SimpleNamespace(
        clock=SimpleNamespace(steady=lambda: now[0]), figures=SimpleNamespace(sparklines=sparklines)
    )
    sparks, found = Sparks(gateway), dict[str, object]()

    async def read() -> None:
        found.update(await sparks.of(["old", "slow"]))

    await sparks.of(["old"])
    now[0] = SPARK_SECONDS - 1
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await asked.wait()
            now[0] += 2
            await sparks.of(["other"])
            goes_on.set()
    assert sorted(found) == ["old", "slow"]
    assert None not in found.values()


async def test_a_cause_of_failures_leads_to_the_deliveries_of_the_tag(
    browser: Browser, gateway: Gateway
) -> None:
    await gateway.instances.create("loja1", tags={"tenant": "acme"})
    async with open_receiver(answers=[answer(422)]) as receiver:
        await set_webhook(gateway, url=receiver.url)
        await emit(gateway)
        await receiver.wait_for(1)
        other = Event(id="evt2", kind="CALL", instance="loja1", data_json=b"{}", time=gateway.clock.wall())
        await gateway.events.accept([other])
        await receiver.wait_for(2)
    await gateway.store.flush()
    await gateway.figures.fold()
    page = (await browser.get("/figures?tag=tenant=acme")).text
    [address] = re.findall(r'href="/dashboard([^"]*status%3A422)"', page)
    listed = (await browser.get(unescape(address))).text
    assert re.findall(r'<tr id="row-(\w+)"', listed) == ["dlv_1"]
