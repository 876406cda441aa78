"""What people do in the dashboard, in a real Chromium."""

import re
import signal
import time
import uuid
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import NewPage, log_in
from tests.support.gateway_process import ReceiverProcess, Server

EVIL = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
CUSTOMER = "5511988887777"
ARABIC = "محمد عبد الله"
PLACE = """(one, letter) => {
  const walker = document.createTreeWalker(one, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const at = walker.currentNode.data.indexOf(letter);
    if (at < 0) continue;
    const range = document.createRange();
    range.setStart(walker.currentNode, at);
    range.setEnd(walker.currentNode, at + 1);
    const { left, right } = range.getBoundingClientRect();
    return [left, right];
  }
}"""
"""Where a letter of an element is, from its left to its right."""


def message(number: int, author: str, text: str) -> dict[str, Any]:
    """The data of a message that a customer has sent."""
    key = {"remoteJid": f"{CUSTOMER}@s.whatsapp.net", "fromMe": False, "id": f"A{number}"}
    return {"key": key, "pushName": author, "message": {"conversation": text}}


def new_name(prefix: str = "shop") -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def create(page: Page, name: str, integration: str = "", **options: str) -> str:
    """Create an instance with the form, and return its key."""
    page.get_by_role("link", name="Instances").click()
    page.get_by_label("Name").fill(name)
    if integration:
        page.get_by_role("combobox", name="Integration").select_option(integration)
        for option, value in options.items():
            page.get_by_label(option, exact=True).fill(value)
    page.get_by_role("button", name="Create").click()
    key = page.locator("pre code").inner_text()
    page.get_by_role("link", name=f"Continue to {name}").click()
    return key


def open_tab(page: Page, title: str) -> None:
    """Open a tab of the page of an instance or a webhook."""
    page.locator("nav.tabs").get_by_role("link", name=title).click()
    expect(page.locator("nav.tabs [aria-current=page]")).to_have_text(title)


def set_webhook(page: Page, url: str, *kinds: str) -> None:
    open_tab(page, "Webhooks")
    page.get_by_label("URL").fill(url)
    for kind in kinds:
        page.get_by_label(kind, exact=True).check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.")).to_be_visible()


def test_from_the_login_to_the_first_delivery(
    new_page: NewPage, server: Server, receiver: ReceiverProcess
) -> None:
    page, name = new_page(), new_name()
    log_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    create(page, name, "simulator", connect_delay="3s", rate="0")
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    page.get_by_role("button", name="Connect").click()
    expect(page.get_by_role("img", name="QR code")).to_be_visible()
    # The code goes away by itself once the connection is open.
    expect(page.get_by_text("open", exact=True).first).to_be_visible()
    expect(page.get_by_role("img", name="QR code")).to_have_count(0)
    set_webhook(page, receiver.url(f"/{name}"), "MESSAGES_UPSERT")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Deliveries").click()
    page.get_by_label("Instance").fill(name)
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("No delivery matches these filters")).to_be_visible()
    # From outside, while the page is open: it is never reloaded.
    page.evaluate("window.notReloaded = true")
    server.emit(
        name, "MESSAGES_UPSERT", {"key": {"remoteJid": "1@s.whatsapp.net", "fromMe": False, "id": "A"}}
    )
    row = page.get_by_role("row").filter(has_text="MESSAGES_UPSERT")
    expect(row).to_contain_text("delivered")
    assert page.evaluate("window.notReloaded") is True
    assert receiver.next(f"/{name}").json["instance"] == name


def test_a_form_is_sent_once(page: Page) -> None:
    """Of two responses, the browser shows the second, which does not have the key of a new instance."""
    page.goto("/dashboard/instances")
    page.evaluate("""() => {
        window.sent = [];
        addEventListener("submit", (event) => {
            sent.push(!event.defaultPrevented);
            event.preventDefault(); // as if the response took long
        });
    }""")
    page.get_by_label("Name").fill(new_name("once"))
    create = page.get_by_role("button", name="Create")
    create.dblclick()
    assert page.evaluate("sent") == [True, False]
    # Back has brought the page again.
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    create.click()
    assert page.evaluate("sent") == [True, False, True]


def test_a_failing_receiver_and_a_replay(page: Page, server: Server, receiver: ReceiverProcess) -> None:
    name = new_name()
    create(page, name)
    set_webhook(page, receiver.url("/status/422"))
    server.emit(name, "CONNECTION_UPDATE", {"instance": name, "state": "open"})
    page.get_by_role("link", name="Deliveries").click()
    row = page.get_by_role("row").filter(has_text=name)
    expect(row).to_contain_text("dead")
    expect(row).to_contain_text("rejected this payload")
    row.get_by_role("link", name="CONNECTION_UPDATE").click()
    expect(page.get_by_role("main")).to_contain_text("422")
    page.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("status")).to_contain_text("pending again")
    expect(page.get_by_role("row").filter(has_text="status 422")).to_have_count(2)


def test_a_failing_webhook_appears_and_its_deliveries_are_cancelled(page: Page, server: Server) -> None:
    name = new_name()
    create(page, name)
    set_webhook(page, "http://127.0.0.1:9/hook")
    page.locator("p.path").get_by_role("link", name=name).click()
    expect(page.get_by_text("active", exact=True)).to_be_visible()
    page.evaluate("window.notReloaded = true")
    server.emit(name, "CONNECTION_UPDATE", {"instance": name, "state": "open"})
    expect(page.get_by_text("failing", exact=True)).to_be_visible()
    expect(page.get_by_text("of 127.0.0.1: Connection refused.").first).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="CONNECTION_UPDATE")).to_contain_text("pending")
    assert page.evaluate("window.notReloaded") is True
    page.locator("#webhook-default").get_by_role("link", name="default").click()
    page.get_by_role("button", name="Cancel what is pending").click()
    expect(page.get_by_text("1 pending delivery becomes a dead letter")).to_be_visible()
    page.get_by_role("button", name="Cancel them").click()
    expect(page.get_by_role("status")).to_contain_text("dead letters now")
    expect(page.get_by_text("0 deliveries", exact=True)).to_be_visible()


def test_an_event_that_upsets_a_proxy_is_skipped_on_the_overview(
    page: Page, server: Server, receiver: ReceiverProcess
) -> None:
    name = new_name()
    path = f"/proxy/{name}"
    server.set(name, receiver.url(path))
    bad, good = (server.emit(name, "CALL", {"text": text}) for text in ("poison", "hello"))
    problem = page.get_by_role("listitem").filter(has_text=f"Webhook default of {name}")
    expect(problem).to_contain_text("The receiver answered 502 Bad Gateway.")
    problem.get_by_role("button", name="Skip this delivery").click()
    expect(page.get_by_role("status")).to_contain_text("its lane goes on")
    while (arrival := receiver.next(path)).headers["webhook-id"] == bad:
        pass
    assert arrival.headers["webhook-id"] == good
    expect(problem).to_have_count(0)
    page.goto(f"/dashboard/deliveries?instance={name}")
    expect(page.get_by_role("row").filter(has_text="Cancelled")).to_contain_text("502 Bad Gateway")
    page.get_by_role("row").filter(has_text="Cancelled").get_by_role("link", name="CALL").click()
    expect(page.get_by_role("button", name="Replay")).to_be_enabled()


def test_a_refused_address_is_understood_and_repaired(
    page: Page, server: Server, receiver: ReceiverProcess
) -> None:
    name = new_name()
    server.set(name, "http://10.0.0.5/hook", events=["CALL"])
    ids = [server.emit(name, "CALL", {"n": n}) for n in range(3)]
    problem = page.get_by_role("listitem").filter(has_text=f"Webhook default of {name}")
    expect(problem).to_contain_text('To allow it, set delivery.allow_networks: ["10.0.0.5/32"].')
    # To skip the first would help nothing: the next one goes to the same address.
    expect(problem.get_by_role("button", name="Skip this delivery")).to_have_count(0)
    problem.get_by_role("link", name=f"Webhook default of {name}").click()
    expect(page.get_by_text("3 deliveries", exact=True)).to_be_visible()
    open_tab(page, "Settings")
    page.get_by_label("URL").fill(receiver.url(f"/{name}"))
    page.get_by_role("button", name="Save").click()
    open_tab(page, "Overview")
    expect(page.get_by_text("0 deliveries", exact=True)).to_be_visible()
    assert [receiver.next(f"/{name}").headers["webhook-id"] for _ in ids] == ids


def test_paper_has_no_buttons(page: Page) -> None:
    page.get_by_role("link", name="Deliveries").click()
    page.emulate_media(media="print")
    expect(page.get_by_role("heading", level=1)).to_have_text("Deliveries")
    expect(page.get_by_text("Times in")).to_be_visible()
    expect(page.get_by_role("button")).to_have_count(0)
    expect(page.get_by_role("navigation")).to_have_count(0)


def test_paper_is_white_and_has_the_whole_chat(page: Page, server: Server) -> None:
    name = new_name()
    server.post("/instance/create", {"instanceName": name}, status=201)
    for number in range(30):
        server.emit(name, "MESSAGES_UPSERT", message(number, "Ana", "Do you deliver?"))
    page.get_by_role("button", name="Theme: system").click()
    page.get_by_role("button", name="Theme: light").click()
    page.goto(f"/dashboard/instances/{name}/chats?name={CUSTOMER}")
    expect(page.get_by_text("Do you deliver?")).to_have_count(30)
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("h1").evaluate("one => getComputedStyle(one).color") == "rgb(23, 32, 29)"
    chat = page.get_by_role("region", name="Messages with Ana")
    assert chat.evaluate("one => one.scrollHeight <= one.clientHeight")


def test_commands_are_copied(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("link", name="Instances").click()
    page.get_by_label("Name").fill(new_name())
    page.get_by_role("button", name="Create").click()
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("pre code").inner_text()


def test_commands_are_copied_over_plain_http_too(page: Page) -> None:
    page.add_init_script("Object.defineProperty(Navigator.prototype, 'clipboard', { value: undefined })")
    page.get_by_role("link", name="Instances").click()
    page.get_by_label("Name").fill(new_name())
    page.get_by_role("button", name="Create").click()
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    search = page.get_by_role("combobox", name="Search deliveries")
    search.press("Control+v")
    expect(search).to_have_value(page.locator("pre code").inner_text())


def test_what_cannot_be_copied_is_selected(page: Page) -> None:
    page.add_init_script(
        "Object.defineProperty(Navigator.prototype, 'clipboard', "
        "{ value: { writeText: () => Promise.reject(new Error('not allowed')) } });"
        "document.execCommand = () => false;"
    )
    page.goto("/dashboard/kinds")
    page.locator("summary").first.click()
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Selected")).to_be_visible()
    assert page.evaluate("getSelection().toString()") == page.locator("pre code").first.inner_text()


def test_a_long_word_makes_no_page_wider_than_the_window(new_page: NewPage, server: Server) -> None:
    page, name, label = new_page(width=320), "W" * 60 + new_name(), "Q" * 64
    log_in(page)
    server.post("/instance/create", {"instanceName": name}, status=201)
    server.post(f"/webhook/set/{name}/{label}", {"url": "http://127.0.0.1:9/" + "u" * 300}, status=201)
    account = f"/dashboard/instances/{name}"
    paths = [account, *(f"{account}/{tab}" for tab in ("webhooks", "connection", "keys", "settings"))]
    tabs = ("", "test", "backfill", "settings", "changes")
    paths += [f"{account}/webhooks/{label}?tab={tab}" for tab in tabs]
    widths = {}
    for path in paths:
        page.goto(path)
        widths[path] = page.evaluate("document.documentElement.scrollWidth")
    assert {path: width for path, width in widths.items() if width > 320} == {}


def test_a_chat_in_arabic_begins_at_its_right(new_page: NewPage, server: Server) -> None:
    page, name = new_page(width=320), new_name()
    log_in(page)
    server.post("/instance/create", {"instanceName": name}, status=201)
    for number, text in enumerate((f"Hello?\n{ARABIC}!", ARABIC * 5)):
        server.emit(name, "MESSAGES_UPSERT", message(number, ARABIC * 5, text))
    page.goto(f"/dashboard/instances/{name}/chats")
    row = page.locator("#chat-rows a")
    box = row.bounding_box()
    assert box is not None
    # Names and texts that are too long are cut at their end.
    for shown in (row.locator("b"), row.locator(".last")):
        left, right = shown.evaluate(PLACE, ARABIC[0])
        assert box["x"] <= left < right <= box["x"] + box["width"]
    row.click()
    bubble = page.locator(".bubbles p", has_text="Hello")
    assert bubble.evaluate(PLACE, "o")[1] <= bubble.evaluate(PLACE, "?")[0] + 1
    assert bubble.evaluate(PLACE, "!")[1] <= bubble.evaluate(PLACE, ARABIC[-1])[0] + 1


def test_options_are_those_of_the_chosen_integration_or_none(page: Page, server: Server) -> None:
    page.goto("/dashboard/instances")
    choice = page.get_by_role("combobox", name="Integration")
    choice.select_option("waha")
    secret = page.get_by_label("api_key", exact=True)
    # Browsers fill a password in that they know for hookgw itself, unless it is a new one.
    expect(secret).to_have_attribute("autocomplete", "new-password")
    page.context.set_offline(True)
    choice.select_option("matrix")
    expect(secret).to_have_count(0)
    page.context.set_offline(False)
    page.get_by_label("Name").fill(new_name())
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("homeserver")
    expect(page.get_by_label("homeserver (required)")).to_be_visible()


def test_all_deliveries_of_the_list_are_ticked(page: Page, server: Server, receiver: ReceiverProcess) -> None:
    name = new_name()
    server.post("/instance/create", {"instanceName": name}, status=201)
    server.set(name, receiver.url(f"/{name}"))
    for _ in range(2):
        server.emit(name, "CONNECTION_UPDATE", {"instance": name, "state": "open"})
        receiver.next(f"/{name}")
    page.goto(f"/dashboard/deliveries?instance={name}&state=delivered")
    expect(page.get_by_role("checkbox")).to_have_count(2)
    page.get_by_role("button", name="Tick all").click()
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(2)
    page.get_by_role("button", name="Send ticked again").click()
    expect(page.get_by_role("status")).to_be_visible()
    for _ in range(2):
        receiver.next(f"/{name}")


def test_a_refusal_is_an_alert(page: Page) -> None:
    page.get_by_role("link", name="Instances").click()
    page.get_by_label("Name").fill("not a name")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("letters (A-Z, a-z), digits")
    expect(page.get_by_label("Name")).to_have_value("not a name")


def test_after_a_refusal_the_keyboard_is_at_the_form(page: Page, new_page: NewPage) -> None:
    page.get_by_role("link", name="Instances").click()
    page.get_by_label("Name").fill("not a name")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Name")).to_be_focused()
    stranger = new_page()
    stranger.goto("/dashboard/")
    stranger.get_by_label("Key").fill("wrong")
    stranger.keyboard.press("Enter")
    expect(stranger.get_by_role("alert")).to_be_visible()
    expect(stranger.get_by_label("Key")).to_be_focused()


def test_a_tenant_its_logout_and_a_revoked_key(page: Page, new_page: NewPage, server: Server) -> None:
    mine, theirs = new_name("mine"), new_name("theirs")
    key = create(page, mine)
    create(page, theirs)
    tenant = new_page()
    log_in(tenant, key)
    expect(tenant.get_by_role("link", name="System")).to_have_count(0)
    tenant.get_by_role("link", name="Instances").click()
    expect(tenant.get_by_role("link", name=mine)).to_be_visible()
    expect(tenant.get_by_text(theirs)).to_have_count(0)
    tenant.goto(f"/dashboard/instances/{theirs}")
    expect(tenant.get_by_role("alert")).to_contain_text("does not reach that instance")
    tenant.get_by_role("button", name="Log out").click()
    expect(tenant.get_by_role("heading", level=1)).to_have_text("Log in")
    log_in(tenant, key)
    tenant.get_by_role("link", name="Instances").click()
    expect(tenant.get_by_role("link", name=mine)).to_be_visible()
    # The page is open when the key is revoked: it goes to the login by itself.
    other = server.post(f"/key/create/{mine}", {"name": "other"}, status=201)
    assert other["key"]
    assert server.http.delete(f"/key/delete/{mine}/default").status_code == 200
    expect(tenant.get_by_role("heading", level=1)).to_have_text("Log in")


def test_what_comes_from_outside_is_text(page: Page, server: Server, receiver: ReceiverProcess) -> None:
    name = new_name()
    server.post("/instance/create", {"instanceName": name}, status=201)
    server.set(name, receiver.url("/status/422"), headers={"x-evil": "<b>evil</b>"})
    server.emit(name, "MESSAGES_UPSERT", {"key": {"id": EVIL}, "pushName": EVIL, EVIL: EVIL})
    page.goto(f"/dashboard/deliveries?instance={name}")
    page.get_by_role("row").filter(has_text="dead").get_by_role("link").first.click()
    expect(page.get_by_role("main")).to_contain_text("onerror=alert(1)")
    evil = quote(EVIL, safe="")
    for path in (
        f"/dashboard/deliveries?text={evil}",
        f"/dashboard/instances?search={evil}",
        f"/dashboard/login?next={evil}",
        f"/dashboard/deliveries?instance={evil}",
        f"/dashboard/instances/{evil}",
        f"/dashboard/deliveries/{name}/{evil}",
        "/dashboard/system",
    ):
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.locator("img[src=x]").count() == 0
    # A refused login shows nothing of the key.
    page.goto(f"/dashboard/instances/{name}/webhooks")
    page.get_by_label("URL").fill("http://x.example/" + EVIL)
    page.get_by_label("URL").evaluate("field => { field.form.noValidate = true }")
    page.get_by_role("button", name="Save").click()
    assert page.locator("img[src=x]").count() == 0


def test_no_site_can_frame_it_or_send_its_forms(page: Page, server: Server) -> None:
    page.route(
        "http://evil.example/",
        lambda route: route.fulfill(
            content_type="text/html",
            body=f'<iframe src="{server.url}/dashboard/"></iframe>'
            f'<form method="post" action="{server.url}/dashboard/logout"><button>Win</button></form>',
        ),
    )
    page.goto("http://evil.example/")
    expect(page.frame_locator("iframe").get_by_role("heading", name="Overview")).to_have_count(0)
    page.get_by_role("button", name="Win").click()
    page.wait_for_url(re.compile("/dashboard/"))
    page.goto("/dashboard/")
    expect(page.get_by_role("button", name="Log out")).to_be_visible()


def test_everything_but_live_parts_works_without_scripts(
    new_page: NewPage, server: Server, receiver: ReceiverProcess
) -> None:
    page, name = new_page(scripts=False), new_name()
    log_in(page)
    create(page, name)
    set_webhook(page, receiver.url(f"/{name}"))
    server.emit(name, "CONNECTION_UPDATE", {"instance": name, "state": "open"})
    receiver.next(f"/{name}")
    for link in ("Overview", "Instances", "Deliveries", "Lanes", "Event kinds", "System"):
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=link).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(link)
    page.get_by_role("link", name="Deliveries").click()
    expect(page.get_by_role("row").filter(has_text=name)).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")


def test_a_keyboard_is_enough(new_page: NewPage) -> None:
    from tests.support.gateway_process import KEY

    page = new_page()
    page.goto("/dashboard/")
    page.keyboard.type(KEY)  # the field has the focus
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def count_streams(page: Page) -> None:
    """Let the next pages note each of their streams."""
    page.add_init_script(
        "window.streams = []; const Usual = EventSource;"
        "window.EventSource = class extends Usual { constructor(url) { super(url); streams.push(this); } };"
    )


def open_streams(page: Page) -> int:
    found = page.evaluate("streams.filter((one) => one.readyState !== EventSource.CLOSED).length")
    assert isinstance(found, int)
    return found


def wait_for_stream(page: Page, number: int) -> None:
    """Wait until the page's stream of this number is open."""
    deadline = time.monotonic() + 20
    # The policy of the pages forbids what Playwright's wait_for_function does if it has to wait.
    while not page.evaluate(
        "(n) => streams.length === n && streams[n - 1].readyState === EventSource.OPEN", number
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def set_hidden(page: Page, *, hidden: bool) -> None:
    page.evaluate(
        "(hidden) => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
        "document.dispatchEvent(new Event('visibilitychange')); }",
        hidden,
    )


def test_a_hidden_tab_gives_its_stream_back_within_fifteen_seconds(page: Page) -> None:
    count_streams(page)
    page.clock.install()
    page.goto("/dashboard/instances")
    wait_for_stream(page, 1)
    set_hidden(page, hidden=True)
    assert open_streams(page) == 1
    page.clock.fast_forward("00:15")
    assert open_streams(page) == 0
    set_hidden(page, hidden=False)
    wait_for_stream(page, 2)
    # A glance at another tab costs nothing.
    set_hidden(page, hidden=True)
    set_hidden(page, hidden=False)
    page.clock.fast_forward("00:15")
    assert open_streams(page) == 1


def test_what_is_typed_outlives_the_session(page: Page, new_page: NewPage, server: Server) -> None:
    name = new_name()
    key = create(page, name)
    tenant = new_page()
    log_in(tenant, key)
    tenant.goto(f"/dashboard/instances/{name}/webhooks")
    tenant.get_by_label("URL").fill("https://receiver.example/hook")
    assert server.http.delete(f"/key/delete/{name}/default").status_code == 200
    expect(tenant.get_by_text("Your session has ended")).to_be_visible()
    expect(tenant.get_by_label("URL")).to_have_value("https://receiver.example/hook")
    tenant.get_by_role("link", name="Open the page again.").click()
    expect(tenant.get_by_role("heading", level=1)).to_have_text("Log in")


def test_a_page_says_when_nothing_comes_from_a_frozen_hookgw(page: Page, server: Server) -> None:
    page.clock.install()
    with page.expect_response("**/dashboard/live/**"):
        page.goto("/dashboard/instances")
    missing = page.get_by_text("hookgw does not answer.")
    server.process.popen.send_signal(signal.SIGSTOP)
    try:
        with page.expect_request("**/dashboard/live/**"):
            page.clock.fast_forward("00:38")
        expect(missing).to_be_visible()
    finally:
        server.process.popen.send_signal(signal.SIGCONT)
    page.clock.fast_forward("00:38")
    expect(missing).to_be_hidden()


def test_a_page_outlives_the_error_page_of_a_proxy(page: Page) -> None:
    """While hookgw restarts, a proxy answers 502 with a page of its own."""
    page.clock.install()
    bad_gateway = "**/dashboard/live/**"
    page.route(bad_gateway, lambda route: route.fulfill(status=502, body="<h1>Bad Gateway</h1>"))
    page.goto("/dashboard/instances")
    page.evaluate("window.notReloaded = true")
    page.route("**/dashboard/instances", lambda route: route.fulfill(status=502, body="<h1>Bad Gateway</h1>"))
    missing = page.get_by_text("hookgw does not answer.")
    for _ in range(8):  # more tries than a page had before it reloaded
        with page.expect_response("**/dashboard/instances"):
            page.clock.fast_forward("00:31")
    expect(missing).to_be_visible()
    page.unroute(bad_gateway)
    page.clock.fast_forward("00:31")
    expect(missing).to_be_hidden()
    assert page.evaluate("window.notReloaded") is True


@pytest.mark.parametrize(
    ("status", "place"),
    [(401, None), (403, None), (302, "http://sso.invalid/login")],
    ids=["401", "403", "another-host"],
)
def test_a_page_says_that_a_proxy_wants_its_reader_to_sign_in(
    chromium: Browser, server: Server, status: int, place: str | None
) -> None:
    """The session at the proxy has ended, while that at hookgw goes on."""
    # Not new_page: the browser reports that the page's policy keeps it from another host.
    with chromium.new_context(base_url=server.url) as context:
        page = context.new_page()
        log_in(page)
        page.clock.install()
        page.goto("/dashboard/instances")
        page.get_by_label("Name").fill("half-typed")
        headers = {"location": place} if place else None
        asked = "**/dashboard/live/**", "**/dashboard/instances"
        for pattern in asked:
            page.route(pattern, lambda route: route.fulfill(status=status, headers=headers, body="Sign in"))
        set_hidden(page, hidden=True)
        page.clock.fast_forward("00:15")
        set_hidden(page, hidden=False)
        told = page.get_by_text("A proxy answers in the place of hookgw")
        expect(told).to_be_visible()
        expect(page.get_by_role("link", name="another tab")).to_have_attribute("target", "_blank")
        for pattern in asked:
            page.unroute(pattern)
        page.clock.fast_forward("00:31")
        expect(told).to_be_hidden()
        expect(page.get_by_label("Name")).to_have_value("half-typed")
