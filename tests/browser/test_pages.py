"""Every page: its accessibility by axe-core, its width, and the pictures of the manual."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import NewPage, log_in
from tests.public.kernel import LANGUAGES
from tests.public.records import bucket_of
from tests.support.gateway_process import ReceiverProcess, Server, serving

PAGES = {
    "login": "/dashboard/login",
    "overview": "/dashboard/",
    "instances": "/dashboard/instances?integration=simulator",
    "instance": "/dashboard/instances/loja-centro",
    "webhook": "/dashboard/instances/loja-centro/webhooks/default",
    "webhook-failing": "/dashboard/instances/loja-centro/webhooks/archive",
    "webhook-backfill": "/dashboard/instances/loja-centro/webhooks/default?tab=backfill",
    "webhook-settings": "/dashboard/instances/loja-centro/webhooks/default?tab=settings",
    "figures": "/dashboard/figures",
    "chats": "/dashboard/instances/loja-centro/chats",
    "chat": "/dashboard/instances/loja-centro/chats?name=551198888777701",
    "webhooks": "/dashboard/instances/loja-centro/webhooks",
    "account-deliveries": "/dashboard/instances/loja-centro/deliveries",
    "connection": "/dashboard/instances/loja-centro/connection",
    "account-keys": "/dashboard/instances/loja-centro/keys",
    "settings": "/dashboard/instances/loja-centro/settings",
    "codes": "/dashboard/codes",
    "deliveries": "/dashboard/deliveries?instance=loja-centro",
    "delivery": "/dashboard/deliveries/loja-centro/evt-1",
    "compare": "/dashboard/deliveries/loja-centro/evt-1/compare",
    "events": "/dashboard/events",
    "event": "/dashboard/events/loja-centro/evt-1",
    "new-instance": "/dashboard/new-instance?integration=simulator",
    "search": "/dashboard/search?q=loja",
    "jobs": "/dashboard/jobs",
    "keys": "/dashboard/keys",
    "portal": "/dashboard/portal",
    "portal-link": "/dashboard/portal-link",
    "alerts": "/dashboard/plugins/alerts/alerts",
    "lanes": "/dashboard/lanes",
    "kinds": "/dashboard/kinds",
    "system": "/dashboard/system",
    "missing": "/dashboard/instances/nope",
}
RESULTS = {
    "cancel": ("/dashboard/instances/loja-centro/webhooks/archive", "Cancel what is pending"),
    "test": ("/dashboard/instances/loja-norte/webhooks/default", "Test now"),
    "secret": ("/dashboard/instances/loja-norte/webhooks/default?tab=settings", "Show the secret"),
}
"""What forms show, by the page and its button."""
OF_MANUAL = {
    "overview": ("/dashboard/", 900),
    "deliveries": ("/dashboard/deliveries", 900),
    "instance": ("/dashboard/instances/loja-centro", 900),
    "webhook": ("/dashboard/instances/loja-centro/webhooks/default", 1180),
}
"""Pictures, by their name: of which page, and how high."""
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A gateway of its own: the pictures show nothing of other tests."""
    with serving(tmp_path_factory.mktemp("pages"), auth={"failed_attempts": 0}) as server:
        yield server


@pytest.fixture(scope="module")
def world(server: Server, receiver: ReceiverProcess) -> None:
    fill(server, receiver)


def fill(server: Server, receiver: ReceiverProcess) -> None:
    """Bring a gateway into use: one webhook works, one fails, and a code is shown."""
    body = {"instanceName": "loja-centro", "integration": "simulator", "connect_delay": "600s"}
    server.post("/instance/create", body, status=201)
    for name in ("loja-norte", "loja-sul"):
        server.post("/instance/create", {"instanceName": name}, status=201)
    server.get("/instance/connect/loja-centro")
    server.set("loja-centro", receiver.url("/crm"), headers={"authorization": "Bearer 8sK3"})
    server.post("/webhook/set/loja-centro/archive", {"url": receiver.url("/status/503")}, status=201)
    server.set("loja-norte", receiver.url("/status/422"))
    for number in range(1, 8):
        data = {
            "key": {
                "remoteJid": f"55119888877{number:02}@s.whatsapp.net",
                "fromMe": False,
                "id": f"A{number}",
            },
            "pushName": "Ana",
            "message": {"conversation": "Do you deliver on Saturdays?"},
            "messageTimestamp": 1_795_204_133 + number,
        }
        server.emit("loja-centro", "MESSAGES_UPSERT", data, id=f"evt-{number}")
    server.emit("loja-norte", "CONNECTION_UPDATE", {"instance": "loja-norte", "state": "open"})
    only_mine = {"pointer": "/data/key/fromMe", "op": "equals", "value": True}
    server.set("loja-sul", receiver.url("/crm"), filter=[only_mine])
    server.emit("loja-sul", "MESSAGES_UPSERT", data)
    for _ in range(7):
        receiver.next("/crm")


OVERFLOWING = """() => [...document.querySelectorAll("button, .button, th, summary, label, nav a")]
  .filter((one) => one.checkVisibility() && !one.closest(".hidden") &&
    (one.scrollWidth > one.clientWidth + 1 || one.getBoundingClientRect().right > innerWidth + 1) &&
    !["inline", "table-cell"].includes(getComputedStyle(one).display))
  .map((one) => one.textContent.trim())"""
"""Finds texts that do not fit into their button, or into the window."""

BROKEN_WORDS = r"""() => [...document.querySelectorAll("table:not(.list) td[data-label]")].flatMap((cell) => {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), found = [];
  for (let text = texts.nextNode(); text; text = texts.nextNode())
    for (const word of text.data.matchAll(/(?<![/.\p{L}])\p{L}{2,14}(?![^\s,])/gu)) {
      const range = new Range();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((one) => one.top)).size > 1) found.push(word[0]);
    }
  return found;
})"""
"""Finds words that go on in the next line of their cell; parts of URLs may."""


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_fit_into_their_buttons(new_page: NewPage, server: Server, language: str) -> None:
    page = new_page(width=320)
    log_in(page)
    page.context.add_cookies([{"name": "hookgw_language", "value": language, "url": server.url}])
    problems = []
    for name, path in PAGES.items():
        show(page, path)
        page.locator("details").evaluate_all("all => all.slice(0, 6).forEach(one => { one.open = true })")
        problems += [f"{name}: {text}" for text in page.evaluate(OVERFLOWING)]
        for width in (993, 721, 320):  # each layout where it is narrowest
            page.set_viewport_size({"width": width, "height": 900})
            wide = page.evaluate("document.documentElement.scrollWidth")
            problems += [f"{name} is {wide} pixels wide at {width}"] if wide > width else []
            problems += [f"{name} breaks {word} at {width}" for word in page.evaluate(BROKEN_WORDS)]
    assert problems == []
    assert page.locator("html").get_attribute("lang") == language.replace("_", "-")


@pytest.mark.usefixtures("world")
def test_the_language_is_switched_on_the_page(new_page: NewPage) -> None:
    page = new_page()
    log_in(page)
    show(page, "/dashboard/deliveries?state=dead")
    page.get_by_role("button", name="Português").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Entregas")
    assert page.url.endswith("/dashboard/deliveries?state=dead")
    # What scripts write, too, and a number as the language has it.
    expect(page.locator("[data-look=theme]")).to_have_text("Tema: sistema")
    page.get_by_role("button", name="English").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Deliveries")


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
def test_every_page(new_page: NewPage, width: int, dark: bool) -> None:
    page = new_page(width=width, dark=dark)
    log_in(page)
    # Only colours differ in the dark, and each width has all rules once.
    rules = None if (width == 320) is dark else {"runOnly": ["color-contrast", "link-in-text-block"]}
    problems = []
    for name, path in PAGES.items():
        show(page, path)
        problems += faults(page, name, width, rules)
    for name, (path, button) in RESULTS.items():
        page.goto(path)
        page.get_by_role("button", name=button).click()
        problems += faults(page, name, width, rules)
    assert problems == []


def faults(page: Page, name: str, width: int, rules: dict[str, Any] | None = None) -> list[str]:
    """Return what is wrong with a page, with what it hides opened."""
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    page.locator("details").evaluate_all("all => all.slice(0, 6).forEach(one => { one.open = true })")
    found = Axe().run(page, options=rules).response["violations"]
    problems = [f"{name}: {one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}" for one in found]
    wide = page.evaluate("document.documentElement.scrollWidth")
    return [*problems, f"{name} is {wide} pixels wide"] if wide > width else problems


@pytest.mark.usefixtures("world")
def test_a_tenants_pages(new_page: NewPage, server: Server) -> None:
    key = server.post("/key/create/loja-centro", {"name": "tenant"}, status=201)["key"]
    page = new_page(width=320, dark=True)
    log_in(page, key)
    for path in ("/", "/instances", "/deliveries", "/lanes"):
        show(page, f"/dashboard{path}")
        assert faults(page, path, 320) == []


def show(page: Page, path: str) -> None:
    page.goto(path)
    # Live parts are connected by then, and have their final colours.
    page.wait_for_timeout(200)


@pytest.mark.usefixtures("world")
def test_pictures_of_the_manual(new_page: NewPage, server: Server, screenshots: Path | None) -> None:
    if screenshots is None:
        pytest.skip("The pictures are taken with nox -s browser -- --screenshots.")
    page = new_page(width=1120)
    log_in(page)
    page.get_by_role("button", name="Hide").click()
    for name, (path, height) in OF_MANUAL.items():
        if name == "instance":
            happened_before(server.folder / "hookgw.db", server.get("/webhook/find/loja-centro")["id"])
            page.wait_for_timeout(12_000)  # figures are up to ten seconds old
        page.set_viewport_size({"width": 1120, "height": height})
        show(page, path)
        page.wait_for_timeout(1500)
        page.screenshot(path=ROOT / screenshots / f"{name}.png")


def happened_before(data_file: Path, registration: str) -> None:
    """Count deliveries of the last day, as if the gateway had been there: charts have something to show."""
    random = Random(7)
    now = time.time()
    with closing(sqlite3.connect(data_file, timeout=10)) as connection, connection:
        numbers = dict(connection.execute("SELECT name, number FROM names"))
        instance, webhook = numbers["@loja-centro"], numbers[registration]
        for minutes in range(30, 24 * 60, 10):
            at = now - minutes * 60
            hour = time.gmtime(at).tm_hour
            events = random.randint(2, 6) + 3 * max(0, 9 - abs(hour - 14))
            # Entries as hookgw/store/figure_news.py has them: accepted, delivered, refused with 503.
            news = [[0, webhook, instance, events, -1, -1]]
            # An hour and a half in which the receiver was slow, and refused some.
            is_slow = 300 <= minutes < 390
            for _ in range(events):
                took = random.lognormvariate(-2.2, 0.35) * (4 if is_slow else 1)
                news.append([4, webhook, instance, 0, bucket_of(took), bucket_of(took + 0.01)])
                if is_slow and random.random() < 0.3:
                    news.append([3, webhook, instance, 503, bucket_of(0.05), -1])
            entries = json.dumps([int(at), news])
            connection.execute("INSERT INTO figure_news (entries) VALUES (?)", [entries])
