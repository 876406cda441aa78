"""The dashboard in Chromium and Firefox, behind each proxy of docs/operations.md.

Everything that must hold there is asked in one journey for each pair, because starting the pair takes most of
the time. An account at its end has each event that hookgw accepted meanwhile.
"""

from __future__ import annotations

import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import log_in
from tests.support.fronts import PROGRAMS, find_program, front
from tests.support.gateway_process import KEY, ReceiverProcess, Server, serving
from tests.support.ports import free_port

FRONTED = {"trusted_proxies": ["127.0.0.1/32"]}
TABS = 5
PATIENCE = 40_000
"""Milliseconds for what a page does by itself; at most 30 s lie between two of its tries."""


@pytest.fixture(params=["chromium", "firefox"])
def browser(request: pytest.FixtureRequest) -> Browser:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Browser)
    return found


@contextmanager
def context_of(browser: Browser, url: str) -> Iterator[BrowserContext]:
    context = browser.new_context(base_url=url, ignore_https_errors=True)
    context.set_default_timeout(20_000)
    yield context
    context.close()


class Producer:
    """Emits events through the proxy, until it is told to stop, and notes those that were accepted."""

    def __init__(self, url: str, instance: str) -> None:
        self.accepted: list[str] = []
        self.refused: set[int] = set()
        self._url, self._instance = url, instance
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Producer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(60)

    def _run(self) -> None:
        body = {"event": "CONNECTION_UPDATE", "data": {"instance": self._instance, "state": "open"}}
        with httpx.Client(base_url=self._url, headers={"apikey": KEY}, verify=False, trust_env=False) as http:
            while not self._stopped.wait(0.02):
                try:
                    answer = http.post(f"/event/emit/{self._instance}", json=body)
                except httpx.TransportError:
                    continue
                if answer.status_code == 202:
                    self.accepted += answer.json()["ids"]
                else:
                    self.refused.add(answer.status_code)


def open_typed_page(context: BrowserContext) -> Page:
    """Open a page with a live part, and begin to fill in a form on it."""
    page = context.new_page()
    page.goto("/dashboard/instances")
    page.get_by_label("Name").fill("half-typed")
    page.evaluate("window.notReloaded = true")
    return page


def is_as_it_was(page: Page) -> bool:
    return bool(page.evaluate("window.notReloaded === true")) and (
        page.get_by_label("Name").input_value() == "half-typed"
    )


@pytest.mark.parametrize("proxy", PROGRAMS)
def test_pages_live_behind_a_proxy_and_through_a_restart(
    browser: Browser, proxy: str, tmp_path: Path, receiver: ReceiverProcess
) -> None:
    if find_program(proxy) is None:
        pytest.skip(f"{PROGRAMS[proxy]} is not installed: run nox -s browser")
    gateway = f"127.0.0.1:{free_port()}"
    server_block = {"bind": [gateway], **FRONTED}
    files = tmp_path / "front"
    files.mkdir()
    tmp_path.chmod(0o755)
    instance = f"shop-{uuid.uuid4().hex[:8]}"
    with ExitStack() as stack:
        first = stack.enter_context(serving(tmp_path, server=server_block))
        first.set(instance, receiver.url(f"/{instance}"))
        url = stack.enter_context(front(proxy, files, gateway))
        context = stack.enter_context(context_of(browser, url))
        page = context.new_page()
        log_in(page)
        assert [one["secure"] for one in context.cookies() if "hookgw_session" in one["name"]] == [True]
        for _ in range(TABS):  # some proxies keep the stream of each of these pages open
            page.goto("/dashboard/instances")
        pages = [open_typed_page(context) for _ in range(TABS)]
        appears_in(pages, first, "early")
        with Producer(url, instance) as producer:
            while len(producer.accepted) < 20:
                time.sleep(0.02)
            first.process.stop(signal.SIGKILL)
            for one in pages[-2:]:
                expect(one.get_by_text("hookgw does not answer.")).to_be_visible(timeout=PATIENCE)
            second = stack.enter_context(serving(tmp_path, server=server_block))
            appears_in(pages, second, "late")
            while not producer.accepted:
                time.sleep(0.02)
        assert all(map(is_as_it_was, pages))
        arrived: set[str] = set()
        while not arrived.issuperset(producer.accepted):
            arrived.add(receiver.next(f"/{instance}").headers["webhook-id"])
        assert producer.refused <= {502, 503, 504}


def appears_in(pages: list[Page], server: Server, name: str) -> None:
    server.post("/instance/create", {"instanceName": name}, status=201)
    for page in pages:
        expect(page.get_by_role("link", name=name, exact=True)).to_be_visible(timeout=PATIENCE)
        assert is_as_it_was(page)
