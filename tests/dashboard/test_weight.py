"""What browsers transfer before they paint: the page and its stylesheet. Scripts are modules, and wait."""

import httpx

from hookgw import Gateway
from tests.dashboard.conftest import Browser
from tests.dashboard.test_many import PAGES, create

MOST = 50_000


async def transferred(http: httpx.AsyncClient, path: str) -> int:
    async with http.stream("GET", path) as response:
        assert response.status_code == 200, path
        async for _ in response.aiter_raw():
            pass
        return response.num_bytes_downloaded


async def test_the_first_paint_is_light(browser: Browser, gateway: Gateway) -> None:
    await create(gateway, 0, 60)
    page = (await browser.get("/")).text
    assert page.count('rel="stylesheet"') == 1
    style = page.partition('rel="stylesheet" href="')[2].partition('"')[0]
    blocking = await transferred(browser.http, style)
    assert page.count("<script") == page.count('<script type="module"')
    weights = {
        path: blocking + await transferred(browser.http, f"/dashboard{path}") for path in (*PAGES, "/kinds")
    }
    assert {path: weight for path, weight in weights.items() if weight > MOST} == {}
    assert max(weights.values()) < MOST / 2  # compressed: lists of long rows have room
