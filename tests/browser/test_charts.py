"""Charts: the value under the pointer, and the span that somebody chooses in one."""

import time
from importlib.resources import files
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, expect

from tests.public.config import BrandSettings
from tests.public.site import load_brand
from tests.support.gateway_process import ReceiverProcess, Server

SHEET = files("hookgw.site").joinpath("assets/dashboard.css").read_bytes()

# Of each key of a legend: the colour it shows, and that of the bars or the line with its name.
COLOURS_OF_KEYS = """(keys) => keys.map((key) => {
  const [, name] = key.classList, isLine = name.startsWith("p");
  const drawn = document.createElementNS("http://www.w3.org/2000/svg", isLine ? "polyline" : "path");
  drawn.classList.add(name);
  key.closest("figure").querySelector("svg svg").append(drawn);
  const [shown, line] = [getComputedStyle(key, "::before"), getComputedStyle(drawn)];
  const ground = shown.backgroundColor === "rgba(0, 0, 0, 0)" ? "" : shown.backgroundColor;
  return isLine ? [shown.borderTopColor + ground, line.stroke] : [ground, line.fill];
})"""


def wait_counted(server: Server, name: str) -> None:
    """Wait until the figures have a delivery: they are up to ten seconds old."""
    for _ in range(80):
        if server.get(f"/figures/find/{name}?webhook=default")["total"]["delivered"]:
            break
        time.sleep(0.25)


def test_a_chart_says_its_values_and_filters_by_a_span(
    page: Page, server: Server, receiver: ReceiverProcess
) -> None:
    if (left := 300 - time.time() % 300) < 45:  # a step of five minutes must not end during the test
        page.wait_for_timeout(left * 1000)
    server.post("/instance/create", {"instanceName": "charted"}, status=201)
    server.set("charted", receiver.url("/charted"))
    server.emit("charted", "CONNECTION_UPDATE", {"instance": "charted", "state": "open"})
    receiver.next("/charted")
    wait_counted(server, "charted")
    path = "/dashboard/instances/charted/webhooks/default"
    page.goto(f"{path}?span=1h")
    plot = page.locator(".plot").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    step = box["width"] / 12  # of five minutes
    page.mouse.move(box["x"] + 11.5 * step, box["y"] + 20)
    expect(plot.locator(".tip")).to_contain_text("delivered 1")
    page.mouse.move(box["x"] + 9.5 * step, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 11.5 * step, box["y"] + 25, steps=3)
    page.mouse.up()
    expect(page.locator(".chosen").first).to_be_attached()
    expect(page.locator("#rows tr")).to_have_count(1)
    dragged = span_of(page)
    # The same with keys: the last three bars.
    page.goto(f"{path}?span=1h")
    plot.focus()
    for key in ("End", "Shift+ArrowLeft", "Shift+ArrowLeft"):
        page.keyboard.press(key)
    assert plot.get_attribute("role") == "slider"
    page.keyboard.press("Enter")
    expect(page.locator(".chosen").first).to_be_attached()
    assert span_of(page) == dragged
    page.goto(f"{path}?span=1h")
    plot.focus()
    page.keyboard.press("Home")
    expect(plot.locator(".tip")).to_contain_text("delivered 0")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No delivery in this time.")).to_be_visible()
    page.emulate_media(forced_colors="active")
    keys = page.locator(".legend").first.locator(".key")
    colours = keys.evaluate_all(
        "(keys) => keys.map((key) => getComputedStyle(key, '::before').backgroundColor)"
    )
    assert len({*colours}) == 3
    page.emulate_media(forced_colors="none")
    # The table is wider than a phone: it scrolls alone.
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto(f"{path}?span=1h")
    page.get_by_text("The same as a table").click()
    expect(page.get_by_role("columnheader", name="Oldest pending")).to_be_attached()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_brand_leaves_each_key_the_colour_of_its_line(page: Page, server: Server) -> None:
    brand = load_brand(BrandSettings(colour="#a81e1e"), SHEET).assets["brand.css"].content
    page.route("**/dashboard.css", lambda route: route.fulfill(body=SHEET + brand, content_type="text/css"))
    server.post("/instance/create", {"instanceName": "branded"}, status=201)
    server.emit("branded", "CONNECTION_UPDATE", {"instance": "branded", "state": "open"})
    for _ in range(80):
        if server.get("/figures/find/branded")["total"]["accepted"]:
            break
        time.sleep(0.25)
    page.goto("/dashboard/instances/branded?span=1h")
    found: list[list[str]] = page.locator(".legend .key").evaluate_all(COLOURS_OF_KEYS)
    assert len(found) == 10
    assert [key for key, _ in found] == [line for _, line in found]
    assert len({key for key, _ in found[:3]}) == 3  # dead ones are as red as the brand


def test_charts_are_shown_anew_unless_somebody_is_at_work_in_them(
    page: Page, server: Server, receiver: ReceiverProcess
) -> None:
    server.post("/instance/create", {"instanceName": "moving"}, status=201)
    server.set("moving", receiver.url("/moving"))
    page.clock.install()
    page.goto("/dashboard/instances/moving/webhooks/default?span=1h")
    delivered = page.locator("#charts .totals dd").nth(1)
    expect(delivered).to_have_text("0")
    server.emit("moving", "CONNECTION_UPDATE", {"instance": "moving", "state": "open"})
    receiver.next("/moving")
    wait_counted(server, "moving")
    page.locator("#charts").hover()
    page.clock.run_for(90_000)
    expect(delivered).to_have_text("0")
    page.mouse.move(2, 2)
    page.clock.run_for(2_000)
    expect(delivered).to_have_text("1")
    page.get_by_text("The same as a table").click()
    page.mouse.move(2, 2)
    page.locator("body").evaluate("() => document.activeElement.blur()")
    with page.expect_response(lambda answer: "/webhooks/default" in answer.url):
        page.clock.run_for(61_000)
    expect(page.get_by_role("columnheader", name="Oldest pending")).to_be_visible()
    plot = page.locator(".plot").first
    plot.hover()
    expect(plot.locator(".tip")).to_be_visible()


def span_of(page: Page) -> list[str]:
    query = parse_qs(urlsplit(page.url).query)
    return [query["since"][0], query["until"][0]]
