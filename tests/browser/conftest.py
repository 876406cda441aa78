"""Fixtures: a gateway, a receiver and a Chromium, each started once for all tests."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, Playwright, expect, sync_playwright

from tests.support.gateway_process import KEY, ReceiverProcess, Server, receiving, serving

expect.set_options(timeout=20_000)  # also where a file runs alone
LOCALE, TIME_ZONE = "en-GB", "Europe/Lisbon"
NewPage = Callable[..., Page]


@pytest.fixture(scope="session")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReceiverProcess]:
    with receiving(tmp_path_factory.mktemp("receiver")) as receiver:
        yield receiver


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("gateway"), auth={"failed_attempts": 0}) as server:
        yield server


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    """Debian's Chromium: Playwright's own build is none of the registries' packages."""
    path = shutil.which(os.environ.get("HOOKGW_CHROMIUM", "chromium"))
    if path is None:
        pytest.skip("Chromium is not installed: run nox -s browser")
    # Root may not use the sandbox; the pages are our own.
    browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def firefox(playwright: Playwright) -> Iterator[Browser]:
    """Debian's Firefox, which Playwright drives over WebDriver BiDi."""
    path = shutil.which("firefox-esr")
    if path is None:
        pytest.skip("Firefox is not installed: run nox -s browser")
    browser = playwright.firefox.launch(executable_path=path, channel="moz-firefox")
    yield browser
    browser.close()


@pytest.fixture
def new_page(chromium: Browser, server: Server) -> Iterator[NewPage]:
    """Opens pages; each has a browser's profile of its own. A script's error fails the test."""
    contexts: list[BrowserContext] = []
    errors: list[str] = []

    def make(*, width: int = 1280, dark: bool = False, scripts: bool = True) -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
            base_url=server.url,
            locale=LOCALE,
            timezone_id=TIME_ZONE,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(f"a dialog: {dialog.message}"))
        page.on("console", lambda line: errors.append(line.text) if "Content Security" in line.text else None)
        return page

    yield make
    for context in contexts:
        for page in context.pages:
            page.unroute_all(behavior="wait")  # a page asks until it is closed, and then nobody answers
            # Chromium never closes a context while a form's answer takes its page.
            while page.url != "about:blank":
                with suppress(Error):  # an answer that comes now interrupts it
                    page.goto("about:blank")
        context.close()
    assert errors == []


def log_in(page: Page, key: str = KEY) -> None:
    """Log in, as people do."""
    page.goto("/dashboard/")
    page.get_by_label("Key").fill(key)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="Log out").wait_for()


@pytest.fixture
def page(new_page: NewPage) -> Page:
    """A page that is logged in with the global key."""
    page = new_page()
    log_in(page)
    return page


@pytest.fixture(scope="session")
def screenshots() -> Path | None:
    """Where the pictures of the manual go, if they are to be taken."""
    folder = os.environ.get("HOOKGW_SCREENSHOTS")
    return Path(folder) if folder else None
