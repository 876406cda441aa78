"""Pictures of every page, to look at: each width, theme and language, with no, some and 10,000 rows.

Not for the manual: ``nox -s browser -- --screenshots`` writes them to ``build/screens/``, and people look at
them. Without it, one page of each gateway is shown.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from playwright.sync_api import Browser

from tests.bench.parts import gateway, register
from tests.browser.conftest import LOCALE, TIME_ZONE, log_in
from tests.browser.test_pages import fill
from tests.public.kernel import LANGUAGES
from tests.support.gateway_process import ReceiverProcess, Server, serving

WIDTHS = (1280, 390)
THEMES = ("light", "dark")
LISTS = ("/", "/instances", "/deliveries", "/lanes?idle=true", "/jobs", "/keys", "/codes")
OTHERS = ("/login", "/figures", "/kinds", "/system", "/portal-link", "/tour")
OF_ONE = (
    "",
    "/chats",
    "/webhooks",
    "/deliveries",
    "/connection",
    "/keys",
    "/settings",
    *(f"/webhooks/archive?tab={tab}" for tab in ("", "test", "backfill", "settings", "changes")),
)
PAGES = {
    "none": (*LISTS, "/tour"),
    "some": (
        *LISTS,
        *OTHERS,
        "/events",
        "/deliveries/loja-centro/evt-1",
        *(f"/instances/loja-centro{one}" for one in OF_ONE),
    ),
    "many": (*LISTS, "/instances?page=200", "/instances/bench7"),
}
"""By how many rows the lists have."""
MANY = 10_000


@contextmanager
def opened(rows: str, folder: Path, receiver: ReceiverProcess) -> Iterator[Server]:
    """Run a gateway with so many rows in its lists."""
    if rows == "many":
        trio.run(_fill_many, folder)
    with serving(folder, auth={"failed_attempts": 0}) as server:
        if rows == "some":
            fill(server, receiver)
        yield server


async def _fill_many(folder: Path) -> None:
    async with gateway(folder) as filled:
        await register(filled, ["http://127.0.0.1:9/hook"] * MANY)


@pytest.mark.parametrize("rows", PAGES)
def test_pictures_of_every_page(
    rows: str, chromium: Browser, receiver: ReceiverProcess, tmp_path: Path
) -> None:
    folder = os.environ.get("HOOKGW_SCREENS")
    if folder is None:
        pytest.skip("The pictures are taken with nox -s browser -- --screenshots.")
    languages = os.environ.get("HOOKGW_SCREENS_LANGUAGES", ",".join(LANGUAGES)).split(",")
    with opened(rows, tmp_path, receiver) as server:
        for width in WIDTHS:
            context = chromium.new_context(
                viewport={"width": width, "height": 900},
                base_url=server.url,
                locale=LOCALE,
                timezone_id=TIME_ZONE,
            )
            page = context.new_page()
            log_in(page)
            for language in languages:
                context.add_cookies([{"name": "hookgw_language", "value": language, "url": server.url}])
                for path in PAGES[rows]:
                    page.goto(f"/dashboard{path}")
                    page.wait_for_timeout(150)  # live parts have their final colours
                    for theme in THEMES:
                        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
                        name = re.sub(r"\W+", "-", path).strip("-") or "overview"
                        file = Path(folder, language, f"{theme}-{width}", f"{rows}-{name}.png")
                        page.screenshot(path=file, full_page=True)
            context.close()
