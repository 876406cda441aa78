"""Pages with many instances: what each further instance costs, counted in calls of functions."""

import sys
from types import FrameType

import trio

from hookgw import Gateway
from tests.dashboard.conftest import Browser
from tests.public.records import ConnectionState

FEW, MORE = 55, 105
A_FURTHER_INSTANCE = 4.0
"""Calls. Ten thousand instances are 3 ms then."""
PAGES = (
    "/",
    "/instances",
    "/instances?search=shop-0",
    "/instances?search=5511988887777",
    "/instances?sort=-webhooks",
    "/instances?sort=-pending",
    "/instances?tag=tenant=acme",
    *(f"/instances?state={one}" for one in (*ConnectionState, "failing")),
    "/instances/shop-007",
    "/deliveries",
    "/search/words?q=instance:shop-0",
    "/lanes?idle=true",
    "/system",
)


async def create(gateway: Gateway, first: int, until: int) -> None:
    """Create instances, half of them with a connector."""
    async with trio.open_nursery() as nursery:
        for number in range(first, until):
            integration = "simulator" if number % 2 else ""
            nursery.start_soon(
                lambda name, integration: gateway.instances.create(name, integration=integration),
                f"shop-{number:03}",
                integration,
            )


async def calls_of(browser: Browser, path: str) -> int:
    """Count the calls of functions of hookgw while a page is asked for; it has been shown before."""
    count = 0

    def called(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and "/hookgw/" in frame.f_code.co_filename

    sys.setprofile(called)
    try:
        assert (await browser.get(path)).status_code == 200, path
    finally:
        sys.setprofile(None)
    return count


async def fewest_calls_of(browser: Browser, path: str) -> int:
    """Count three times: what else the gateway does meanwhile is counted, too."""
    return min([await calls_of(browser, path) for _ in range(3)])


async def test_a_page_looks_at_each_further_instance_only_briefly(browser: Browser, gateway: Gateway) -> None:
    await create(gateway, 0, FEW)
    for path in PAGES:
        await browser.get(path)  # templates are compiled once
    few = {path: await fewest_calls_of(browser, path) for path in PAGES}
    await create(gateway, FEW, MORE)
    many = {path: await fewest_calls_of(browser, path) for path in PAGES}
    each = {path: (many[path] - few[path]) / (MORE - FEW) for path in PAGES}
    assert {path: calls for path, calls in each.items() if calls > A_FURTHER_INSTANCE} == {}
