"""Live lists while somebody works in them, in a real Chromium."""

import re
import time
from urllib.parse import urlencode

from playwright.sync_api import Page, expect

from tests.browser.test_dashboard import new_name
from tests.support.gateway_process import ReceiverProcess, Server

IS_SEEN = """(one) => {
  const { x, y, width, height } = one.getBoundingClientRect();
  return document.elementFromPoint(x + width / 2, y + height / 2) === one;
}"""


def world(server: Server, receiver: ReceiverProcess, count: int) -> str:
    """An instance with some deliveries."""
    name = new_name()
    server.post("/instance/create", {"instanceName": name}, status=201)
    server.set(name, receiver.url(f"/{name}"))
    emit(server, receiver, name, count)
    return name


def emit(server: Server, receiver: ReceiverProcess, name: str, count: int) -> None:
    for _ in range(count):
        server.emit(name, "CONNECTION_UPDATE", {"instance": name, "state": "open"})
        receiver.next(f"/{name}")
    # The receiver has the last request a moment before its delivery is finished, and can be ticked.
    while server.get(f"/delivery/list/{name}?state=pending")["deliveries"]:
        time.sleep(0.02)


def rows(page: Page) -> list[str]:
    return [text.strip() for text in page.locator("#rows .mono").all_inner_texts()]


def away(page: Page) -> None:
    page.mouse.move(5, 5)


def test_ticks_and_focus_stay_while_new_rows_wait(
    page: Page, server: Server, receiver: ReceiverProcess
) -> None:
    name = world(server, receiver, 3)
    page.goto(f"/dashboard/deliveries?instance={name}")
    expect(page.get_by_role("checkbox")).to_have_count(3)
    before = rows(page)
    second = page.get_by_role("checkbox").nth(1)
    second.focus()
    page.keyboard.press("Space")
    away(page)
    expect(page.get_by_text("1 selected")).to_be_visible()
    emit(server, receiver, name, 2)
    news = page.get_by_role("button", name="2 new")
    expect(news).to_be_visible()
    assert rows(page) == before
    expect(second).to_be_focused()
    expect(second).to_be_checked()
    news.click()
    expect(page.get_by_role("checkbox")).to_have_count(5)
    assert rows(page)[2:] == before
    # The selection has moved down with its row.
    expect(page.get_by_role("checkbox").nth(3)).to_be_checked()
    page.get_by_role("button", name="Untick").click()
    expect(page.get_by_text("1 selected")).to_have_count(0)
    away(page)
    emit(server, receiver, name, 1)
    expect(page.get_by_role("checkbox")).to_have_count(6)
    expect(page.get_by_role("button", name=re.compile("new$"))).to_be_hidden()


def test_new_rows_wait_while_somebody_points_at_the_list(
    page: Page, server: Server, receiver: ReceiverProcess
) -> None:
    name = world(server, receiver, 2)
    page.goto(f"/dashboard/deliveries?instance={name}")
    page.locator("#rows tr").first.hover()
    emit(server, receiver, name, 1)
    expect(page.get_by_role("button", name="1 new")).to_be_visible()
    assert len(rows(page)) == 2
    away(page)
    expect(page.locator("#rows tr")).to_have_count(3)


def test_the_buttons_of_a_list_cover_no_row_at_four_hundred_percent(
    page: Page, server: Server, receiver: ReceiverProcess
) -> None:
    name = world(server, receiver, 4)
    page.set_viewport_size({"width": 320, "height": 256})
    page.goto(f"/dashboard/deliveries?instance={name}")
    boxes = page.locator("#rows").get_by_role("checkbox")
    boxes.first.check()
    for index in range(4):
        boxes.nth(index).focus()
        assert boxes.nth(index).evaluate(IS_SEEN)


def test_a_page_pauses_and_goes_on(page: Page, server: Server, receiver: ReceiverProcess) -> None:
    name = world(server, receiver, 1)
    page.goto(f"/dashboard/deliveries?instance={name}")
    live = page.get_by_role("switch", name="Live")
    expect(live).to_be_checked()
    live.click()
    paused = page.get_by_role("switch", name="Paused")
    expect(paused).not_to_be_checked()
    emit(server, receiver, name, 1)
    page.wait_for_timeout(1500)
    assert len(rows(page)) == 1
    paused.click()
    expect(page.locator("#rows tr")).to_have_count(2)


def test_ticks_survive_paging_and_are_sent_together(
    page: Page, server: Server, receiver: ReceiverProcess
) -> None:
    name = world(server, receiver, 55)
    page.goto(f"/dashboard/deliveries?instance={name}")
    page.get_by_role("button", name="Tick all").click()
    expect(page.get_by_text("50 selected")).to_be_visible()
    page.get_by_role("checkbox").first.press("Enter")  # sends nothing: only the buttons do
    page.get_by_role("link", name="Older").click()
    page.get_by_role("checkbox").first.check()
    expect(page.get_by_text("51 selected")).to_be_visible()
    page.get_by_role("link", name="Newest").click()
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(50)
    page.get_by_role("button", name="Send ticked again").click()
    expect(page.get_by_role("status")).to_be_visible()
    for _ in range(51):
        receiver.next(f"/{name}")
    expect(page.get_by_text("selected")).to_have_count(0)
    # That is over: what is ticked now outlives a reload, which says nothing again.
    page.get_by_role("checkbox").first.check()
    page.reload()
    expect(page.get_by_text("1 selected")).to_be_visible()
    expect(page.get_by_role("status")).to_have_count(0)


def test_all_that_match_are_a_selection(page: Page, server: Server, receiver: ReceiverProcess) -> None:
    name = world(server, receiver, 3)
    page.goto(f"/dashboard/deliveries?instance={name}&state=delivered")
    expect(page.get_by_role("button", name="Send again…")).to_have_count(0)
    page.goto(f"/dashboard/deliveries?instance={name}&since=today")
    page.get_by_role("button", name="Send again…").click()
    expect(page.get_by_role("form", name="Confirm")).to_contain_text("3 finished deliveries of 1 instance")
    page.get_by_role("button", name="Send them again").click()
    expect(page.get_by_text("The replay has begun.")).to_be_visible()
    for _ in range(3):
        receiver.next(f"/{name}")


def test_times_are_entered_as_they_are_shown(page: Page, server: Server, receiver: ReceiverProcess) -> None:
    """The browser is in Lisbon."""
    name = world(server, receiver, 1)
    page.goto(f"/dashboard/deliveries?instance={name}")
    expect(page.get_by_text("Times are in Europe/Lisbon")).to_be_visible()
    shown = page.locator("#rows time").get_attribute("title") or ""
    assert "UTC)" in shown
    for clock, count in (("2000-01-01 00:00", 1), ("2100-01-01 00:00", 0)):
        page.get_by_label("From", exact=True).fill(clock)
        page.get_by_role("button", name="Filter", exact=True).click()
        expect(page.locator("#rows tr")).to_have_count(count)


def test_a_lost_message_is_found_with_the_keyboard(
    page: Page, server: Server, receiver: ReceiverProcess
) -> None:
    """By the phone number: four keys and the number; then it is sent again."""
    name, number = new_name(), "5511977776666"
    server.post("/instance/create", {"instanceName": name}, status=201)
    server.set(name, receiver.url(f"/{name}"))
    data = {"key": {"remoteJid": f"{number}@s.whatsapp.net", "fromMe": False, "id": "3EB0"}}
    server.emit(name, "MESSAGES_UPSERT", data)
    receiver.next(f"/{name}")
    page.goto("/dashboard/")
    page.keyboard.press("/")
    expect(page.get_by_role("combobox", name="Search deliveries")).to_be_focused()
    page.keyboard.type("+55 11 97777-6666")
    page.keyboard.press("Enter")
    expect(page.locator("#rows tr")).to_have_count(1)
    page.locator("#rows").get_by_role("link").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("MESSAGES_UPSERT")
    page.get_by_role("button", name="Replay").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("The delivery is pending again.")).to_be_visible()
    receiver.next(f"/{name}")


def test_the_search_is_completed(page: Page, server: Server) -> None:
    name = new_name("completed")
    server.post("/instance/create", {"instanceName": name}, status=201)
    page.goto("/dashboard/")
    page.get_by_role("combobox", name="Search deliveries").fill("state:dead instance:completed")
    expect(page.locator(f'#find-words option[value="state:dead instance:{name}"]')).to_have_count(1)


def test_one_dead_receiver_is_repaired_in_two_clicks(page: Page, server: Server) -> None:
    names = [new_name("dead") for _ in range(3)]
    for name in names:
        server.post("/instance/create", {"instanceName": name}, status=201)
        server.set(name, "http://127.0.0.1:2/hook")
        server.emit(name, "CONNECTION_UPDATE", {"instance": name, "state": "open"})
    page.goto("/dashboard/")
    problem = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name="127.0.0.1:2 refuses"))
    expect(problem).to_contain_text("3 webhooks")
    problem.get_by_role("button", name="Pause all").click()
    expect(page.get_by_text("Paused: deliveries wait")).to_be_visible()
    page.goto("/dashboard/lanes?state=paused")
    for name in names:
        expect(page.get_by_role("link", name=f"{name} / default")).to_be_visible()


def test_enter_mutes_the_problem_whose_field_has_the_focus(page: Page, server: Server) -> None:
    for port in (2, 3):
        name = new_name("muted")
        server.post("/instance/create", {"instanceName": name}, status=201)
        server.set(name, f"http://127.0.0.1:{port}/hook")
        server.emit(name, "CONNECTION_UPDATE", {"instance": name, "state": "open"})
    page.goto("/dashboard/")
    expect(page.get_by_role("heading", name="127.0.0.1:2 refuses")).to_be_visible()
    expect(page.get_by_role("heading", name="127.0.0.1:3 refuses")).to_be_visible()
    problem = page.locator("#problem-rows > li").last
    title = problem.get_by_role("heading").inner_text()
    problem.locator("summary", has_text="Mute").click()
    until = problem.get_by_label("Until")
    until.fill("when it works")
    problem.get_by_label("Reason").fill("It moves.")
    with page.expect_response("**/live/overview*"):  # which leaves the fields alone
        until.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(until).to_have_value("when it works")
    expect(problem.get_by_label("Reason")).to_have_value("It moves.")
    until.fill("1h")
    until.press("Enter")
    expect(page.get_by_role("status")).to_be_visible()
    page.get_by_text("1 muted").click()
    expect(page.locator("#muted-rows")).to_contain_text(title)
    page.get_by_role("button", name=f"Show again: {title}").click()


def test_columns_are_chosen(page: Page, server: Server) -> None:
    server.post("/instance/create", {"instanceName": new_name()}, status=201)
    page.goto("/dashboard/instances")
    page.get_by_text("Columns").click()
    page.get_by_label("Tags").check()
    page.get_by_label("Last event").uncheck()
    page.get_by_role("button", name="Show these").click()
    expect(page.get_by_role("columnheader", name="Tags")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Last event")).to_have_count(0)
    page.goto("/dashboard/instances")
    expect(page.get_by_role("columnheader", name="Tags")).to_be_visible()


def test_lists_show_states_at_any_width(page: Page, server: Server, receiver: ReceiverProcess) -> None:
    name = new_name("wide")
    server.post("/instance/create", {"instanceName": name, "integration": "simulator"}, status=201)
    server.set(name, receiver.url(f"/{name}"))
    emit(server, receiver, name, 1)
    columns = ("integration", "account", "tags", "last", "day", "webhooks", "pending")
    problems = []
    for path in (
        "/deliveries?",
        "/lanes?idle=true&",
        "/instances?",
        f"/instances?{urlencode({'column': columns}, doseq=True)}&",
    ):
        search = "instance" if path == "/deliveries?" else "search"
        page.goto(f"/dashboard{path}{search}={name[:-1]}{'*' if search == 'instance' else ''}")
        expect(page.locator("#rows .state").first).to_be_attached()
        for width in (721, 900, 993, 1024, 1200, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            cut = page.locator("#rows .c-state .state").evaluate_all(
                "all => all.some(one => one.getBoundingClientRect().right"
                " > one.closest('td').getBoundingClientRect().right)"
            )
            wide = page.evaluate("document.documentElement.scrollWidth")
            problems += [f"{path}: {width}: {wide}"] if cut or wide > width else []
    assert problems == []


def test_keys_are_listed_and_work(page: Page, server: Server, receiver: ReceiverProcess) -> None:
    name = world(server, receiver, 2)
    page.goto("/dashboard/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("d")
    expect(page.get_by_role("heading", level=1)).to_have_text("Deliveries")
    page.goto(f"/dashboard/deliveries?instance={name}")
    expect(page.get_by_role("checkbox")).to_have_count(2)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_role("checkbox").nth(1)).to_be_checked()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("CONNECTION_UPDATE")


def test_a_theme_is_chosen_and_kept(page: Page) -> None:
    page.goto("/dashboard/")
    page.keyboard.press("t")
    page.keyboard.press("t")
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    page.get_by_role("button", name="Rows: comfortable").click()
    page.reload()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert page.locator("html").get_attribute("data-density") == "compact"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 20, 19)"
    # Whoever wants no single keys switches them off.
    page.get_by_role("button", name="Shortcuts").click()
    page.get_by_label("Shortcuts are on").uncheck()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("d")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
