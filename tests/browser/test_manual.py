"""The manual at /docs in a real Chromium: search, languages, copying, calls with one's own key, themes."""

import re
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import NewPage
from tests.support.gateway_process import KEY, Server

PAGES = (
    "/docs",
    "/docs/start",
    "/docs/networks/webhook",
    "/docs/guides/verify",
    "/docs/guarantees",
    "/docs/configuration",
    "/docs/operations/backups",
    "/docs/reference/hooks",
    "/docs/http",
    "/docs/http/registrations",
    "/docs/http/schemas",
)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_every_kind_of_page(new_page: NewPage, width: int, dark: bool) -> None:
    page = new_page(width=width, dark=dark)
    problems = []
    for path in PAGES:
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        page.locator("main details").evaluate_all(
            "all => all.slice(0, 4).forEach(one => { one.open = true })"
        )
        tries = page.get_by_role("button", name="Try it")
        if tries.count():
            tries.first.click()
        found = Axe().run(page).response["violations"]
        problems += [f"{path}: {one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]
        wide = page.evaluate("document.documentElement.scrollWidth")
        problems += [f"{path} is {wide} pixels wide"] if wide > width else []
    assert problems == []


def test_the_search_with_the_keyboard_alone(new_page: NewPage) -> None:
    page = new_page()
    page.goto("/docs/networks/gowa")
    page.keyboard.press("/")
    page.keyboard.type("dril")
    expect(page.locator("#found a").first).to_contain_text("Backups")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#found a").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/docs/operations/backups"))
    page.keyboard.press("/")
    page.keyboard.type("xyzzy plugh")
    expect(page.get_by_role("status")).to_contain_text("Nothing has all of these words")
    page.keyboard.press("Escape")
    expect(page.locator("#found")).to_be_hidden()


def test_examples_have_this_gateways_address_in_each_language(new_page: NewPage, server: Server) -> None:
    page = new_page()
    page.goto("/docs/start")
    example = page.locator(".example").first
    expect(example.locator("pre:visible")).to_contain_text(f"curl -X POST {server.url}/webhook/set/loja1")
    example.get_by_role("button", name="Python").click()
    expect(example.locator("pre:visible")).to_contain_text(f'"{server.url}/webhook/set/loja1"')
    expect(example.locator("pre:visible")).to_contain_text("import httpx")
    # The choice holds for every example, and on the next page.
    page.goto("/docs/guides/outage")
    expect(page.locator(".example").first.locator("pre:visible")).to_contain_text("import httpx")
    page.get_by_role("button", name="JavaScript").first.click()
    expect(page.locator(".example").last.locator("pre:visible")).to_contain_text("await fetch(")


def test_a_copy_is_what_is_shown(new_page: NewPage) -> None:
    page = new_page()
    page.goto("/docs/start")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    block = page.locator(".code", has_text="hookgw listen --port 9000")
    block.get_by_role("button", name="Copy").click()
    expect(block.get_by_role("button")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "hookgw listen --port 9000\n"


@pytest.mark.parametrize("path", ["/docs/start", "/docs/http/registrations"])
def test_a_copy_is_made_over_plain_http_too(new_page: NewPage, path: str) -> None:
    page = new_page()
    page.add_init_script("Object.defineProperty(Navigator.prototype, 'clipboard', { value: undefined })")
    page.goto(path)
    page.locator("details:has(> .inside)").evaluate_all("all => all.forEach(one => { one.open = true })")
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()


def test_paper_is_white(new_page: NewPage) -> None:
    page = new_page(dark=True)
    page.goto("/docs/start")
    page.get_by_label("Theme").select_option("dark")
    page.emulate_media(media="print", color_scheme="dark")
    ground = page.locator("body").evaluate("one => getComputedStyle(one).backgroundColor")
    assert ground == "rgb(255, 255, 255)"


def send(page: Page) -> None:
    page.get_by_role("button", name=re.compile("^Send this")).click()


def test_a_call_is_tried_with_ones_own_key(new_page: NewPage, server: Server) -> None:
    page = new_page()
    page.goto("/docs/start")
    first = page.locator(".example").first
    first.get_by_role("button", name="Try it").click()
    send(page)
    expect(first.locator("output")).to_contain_text("401")
    first.get_by_label(re.compile("^Your key")).fill(KEY)
    first.get_by_label("Body").fill('{"url": "http://127.0.0.1:9/tried"}')
    send(page)
    expect(first.locator("output")).to_contain_text("201")
    assert server.get("/webhook/find/loja1")["url"] == "http://127.0.0.1:9/tried"
    # Nothing keeps the key: not this browser, and not the next page.
    assert KEY not in page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])")
    page.reload()
    page.locator(".example").first.get_by_role("button", name="Try it").click()
    expect(page.get_by_label(re.compile("^Your key"))).to_have_value("")


def test_calls_of_the_reference_are_tried_too(new_page: NewPage) -> None:
    page = new_page()
    page.goto("/docs/http/operation#healthz")
    call = page.locator("details", has=page.locator("#healthz"))
    call.get_by_role("button", name="Try it").click()
    send(page)
    expect(call.locator("output")).to_contain_text('"status": "ok"')


def test_a_theme_is_chosen_and_kept(new_page: NewPage) -> None:
    page = new_page()
    page.goto("/docs")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.get_by_label("Theme").select_option("Dark theme")
    assert page.evaluate(paper) != light
    page.goto("/docs/http")
    assert page.evaluate(paper) != light
    page.get_by_label("Theme").select_option("System theme")
    assert page.evaluate(paper) == light


@pytest.mark.parametrize(
    ("old", "new"),
    [("/docs#webhookSet", "/docs/http#webhookSet"), ("/docs#schema-Kind", "/docs/http/schemas#schema-Kind")],
)
def test_addresses_of_the_former_reference_lead_to_it(new_page: NewPage, old: str, new: str) -> None:
    page = new_page()
    page.goto(old)
    expect(page).to_have_url(re.compile(re.escape(new) + "$"))


def test_without_scripts_everything_can_be_read(new_page: NewPage, server: Server) -> None:
    page = new_page(width=390, scripts=False)
    page.goto("/docs/start")
    expect(page.get_by_text(f"{server.url}/webhook/set/loja1").first).to_be_visible()
    page.locator("summary", has_text="Python").first.click()
    expect(page.get_by_text("import httpx").first).to_be_visible()
    page.get_by_text("Contents").click()
    page.get_by_role("link", name="Alerts", exact=True).click()
    assert urlsplit(page.url).path == "/docs/alerts"


def test_everything_is_loaded_from_the_gateway(new_page: NewPage, server: Server) -> None:
    page = new_page()
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    for path in PAGES:
        page.goto(path)
    assert hosts == {urlsplit(server.url).netloc}
