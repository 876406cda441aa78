"""What people come for, from the first page to the end, with the clicks that it takes. One gateway for all.

Two hundred accounts send to one receiver, which is down at first; the webhook of one was disabled, and loses
events.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import NewPage, log_in
from tests.support.gateway_process import ReceiverProcess, Server, receiving, serving
from tests.support.ports import free_port

ACCOUNTS = 200
PATIENCE = 30_000
"""Milliseconds that two hundred attempts may take on a busy machine."""
LOSING = "loja-117"
CUSTOMER = "+55 11 98765-43"
at_both_widths = pytest.mark.parametrize("width", [390, 1280])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"unreachable_first_wait": "1h", "unreachable_max_wait": "1h"}
    folder = tmp_path_factory.mktemp("journeys")
    with serving(folder, auth={"failed_attempts": 0}, delivery=settings) as server:
        yield server


class World(NamedTuple):
    """Two hundred accounts whose receiver is down.

    Attributes:
        port: of the receiver.
        receiver: works all the time.
    """

    server: Server
    port: int
    receiver: ReceiverProcess

    def emit_to_all(self) -> None:
        data = {"state": "open"}
        with ThreadPoolExecutor(8) as pool:
            emits = [
                pool.submit(self.server.emit, name, "CONNECTION_UPDATE", {"instance": name, **data})
                for name in names()
            ]
        for one in emits:
            one.result()


def names() -> list[str]:
    return [f"loja-{number:03}" for number in range(1, ACCOUNTS + 1)]


@pytest.fixture(scope="module")
def world(server: Server, receiver: ReceiverProcess) -> World:
    world = World(server, free_port(), receiver)
    hook = {"url": f"http://127.0.0.1:{world.port}/hook"}
    with ThreadPoolExecutor(8) as pool:
        for made in [pool.submit(server.post, f"/webhook/set/{name}", hook, status=201) for name in names()]:
            made.result()
    # Its receiver has said that it is gone: hookgw has disabled it, and events go by.
    server.post(f"/webhook/set/{LOSING}/crm", {"url": receiver.url("/status/410")}, status=201)
    server.emit(LOSING, "CONNECTION_UPDATE", {"instance": LOSING, "state": "open"})
    receiver.next("/status/410")
    return world


class Hand:
    """Clicks and counts."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = 0
        page.expose_function("clicked", self._count)
        page.add_init_script("addEventListener('pointerdown', () => clicked(), true)")

    def _count(self) -> None:
        self.clicks += 1


@pytest.fixture
def width() -> int:
    return 1280


@pytest.fixture
def hand(new_page: NewPage, width: int) -> Hand:
    """A reader who has logged in and begins at the overview, with the mouse at rest."""
    page = new_page(width=width)
    log_in(page)
    hand = Hand(page)
    page.goto("/dashboard/")
    return hand


def press_until(page: Page, key: str, target: Locator, most: int = 12) -> None:
    """Press a key until something has the focus."""
    for _ in range(most):
        if target.evaluate("one => one === document.activeElement"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{most} times {key} do not lead to it")


@at_both_widths
def test_the_webhook_that_loses_events_is_on_the_first_screen(world: World, hand: Hand) -> None:
    world.emit_to_all()
    hand.page.goto("/dashboard/")
    first = hand.page.locator("#problem-rows > li").first
    expect(first.get_by_role("heading")).to_contain_text("answers 410")
    expect(first).to_contain_text("missed")
    expect(first.get_by_role("link", name=f"Webhook crm of {LOSING}")).to_be_in_viewport(ratio=1)
    expect(first.get_by_role("button", name="Enable, and send what it missed")).to_be_in_viewport(ratio=1)
    assert hand.clicks == 0


@at_both_widths
def test_a_receiver_that_was_down_for_two_hundred_accounts_is_repaired(
    world: World, hand: Hand, tmp_path: Path
) -> None:
    world.emit_to_all()
    hand.page.goto("/dashboard/")
    problem = hand.page.locator("#problem-rows > li").filter(has_text="refuses connections")
    expect(problem).to_contain_text("200 webhooks", timeout=PATIENCE)
    with receiving(tmp_path, world.port) as back:
        problem.get_by_role("button", name="Try all").click()
        expect(hand.page.get_by_role("status").filter(has_text="tried")).to_be_visible()
        for _ in range(ACCOUNTS):
            back.next("/hook")
        # The mouse still points at it, so it stays there, and shows that it is over.
        present = hand.page.locator("#problem-rows > li:not([data-gone])")
        expect(present.filter(has_text="refuses")).to_have_count(0, timeout=PATIENCE)
    assert hand.clicks <= 3


def test_a_receiver_is_repaired_with_the_keyboard(world: World, hand: Hand, tmp_path: Path) -> None:
    world.emit_to_all()
    hand.page.goto("/dashboard/")
    problem = hand.page.locator("#problem-rows > li").filter(has_text="refuses connections")
    expect(problem).to_contain_text("200 webhooks", timeout=PATIENCE)
    with receiving(tmp_path, world.port) as back:
        press_until(hand.page, "j", problem.get_by_text("Show all"))
        press_until(hand.page, "Shift+Tab", problem.get_by_role("button", name="Try all"))
        hand.page.keyboard.press("Enter")
        for _ in range(ACCOUNTS):
            back.next("/hook")
    assert hand.clicks == 0


def lose_a_message(world: World, number: str) -> str:
    """A customer's message dies, and the receiver is mended then; return the path where it should arrive."""
    name = f"suporte-{number}"
    world.server.set(name, world.receiver.url("/status/422"))
    data = {
        "key": {"remoteJid": f"{number}@s.whatsapp.net", "fromMe": False, "id": f"3EB0{number}"},
        "message": {"conversation": "Where is my order?"},
    }
    world.server.emit(name, "MESSAGES_UPSERT", data)
    world.receiver.next("/status/422")
    world.server.set(name, world.receiver.url(f"/{name}"))
    return f"/{name}"


@at_both_widths
def test_a_lost_message_is_found_by_the_phone_number_and_sent_again(
    world: World, hand: Hand, width: int
) -> None:
    path = lose_a_message(world, f"5511987654{width}")
    page = hand.page
    page.get_by_role("combobox", name="Search deliveries").click()
    page.keyboard.type(f"+55 11 98765-4{width}")
    page.keyboard.press("Enter")
    expect(page.locator("#rows > tr")).to_have_count(1)
    page.locator("#rows").get_by_role("link").click()
    page.get_by_role("button", name="Replay").click()
    world.receiver.next(path)
    assert hand.clicks <= 4


def test_a_lost_message_is_found_and_sent_again_with_the_keyboard(world: World, hand: Hand) -> None:
    path = lose_a_message(world, "5511912345678")
    page = hand.page
    page.keyboard.press("/")
    page.keyboard.type("+55 11 91234-5678")
    page.keyboard.press("Enter")
    expect(page.locator("#rows > tr")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    replay = page.get_by_role("button", name="Replay")
    expect(replay).to_be_visible()
    press_until(page, "Tab", replay, most=25)
    page.keyboard.press("Enter")
    world.receiver.next(path)
    assert hand.clicks == 0


@at_both_widths
def test_a_portal_link_for_a_customer(world: World, hand: Hand, new_page: NewPage, width: int) -> None:
    tenant = f"acme{width}"
    world.server.post("/instance/create", {"instanceName": tenant, "tags": {"tenant": tenant}}, status=201)
    page = hand.page
    page.get_by_role("link", name="Instances", exact=True).click()
    page.get_by_role("link", name="Portal link").click()
    page.get_by_label("Accounts with these tags").click()
    page.keyboard.type(f"tenant={tenant}")
    page.get_by_role("button", name="Make the link").click()
    link = page.locator("#made ~ .copyable code").inner_text()
    assert hand.clicks <= 4
    theirs = new_page(width=width)
    theirs.goto(link)
    theirs.get_by_role("button", name="Open").click()
    theirs.get_by_role("link", name="Instances", exact=True).click()
    expect(theirs.locator("#rows > tr")).to_have_count(1)
    expect(theirs.get_by_role("link", name=tenant)).to_be_visible()


@at_both_widths
def test_five_codes_are_scanned_one_after_the_other(world: World, hand: Hand, width: int) -> None:
    page, server = hand.page, world.server
    accounts = {f"codes-{width}-{number}" for number in range(5)}
    for name in accounts:
        body = {"instanceName": name, "integration": "simulator", "connect_delay": "1h", "rate": 0}
        server.post("/instance/create", body, status=201)
        server.get(f"/instance/connect/{name}")
    page.get_by_role("link", name="Instances", exact=True).click()
    page.get_by_role("link", name="Scan 5 codes").click()
    scanned = set()
    for left in range(5, 0, -1):
        expect(page.get_by_text(f"1 of {left}" if left < 5 else "of 5")).to_be_visible()
        expect(page.get_by_role("img", name="QR code")).to_be_in_viewport(ratio=1)
        name = page.locator("#code-of").inner_text()
        scanned.add(name)
        scan(server, name)
        expect(page.locator("#code-of").get_by_text(name, exact=True)).to_have_count(0)
        expect(page.get_by_role("status").filter(has_text="is connected")).to_be_visible()
    assert scanned == accounts
    expect(page.get_by_text("No account waits for a scan.")).to_be_visible()
    assert hand.clicks <= 2


def scan(server: Server, name: str) -> None:
    """Scan the code of a simulated account: it opens."""
    answer = server.http.patch(f"/instance/options/{name}", json={"connect_delay": "10ms"})
    assert answer.status_code == 200, answer.text
