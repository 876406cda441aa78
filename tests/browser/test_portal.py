"""A portal link, in a real Chromium."""

from playwright.sync_api import expect

from tests.browser.conftest import NewPage
from tests.browser.test_dashboard import new_name
from tests.support.gateway_process import Server


def make(server: Server, name: str) -> str:
    server.post("/instance/create", {"instanceName": name, "tags": {"tenant": name}}, status=201)
    asked = {"tags": {"tenant": name}, "returnUrl": "https://acme.example/settings"}
    url: str = server.post("/portal/link", asked, status=201)["url"]
    return url


def test_one_press_opens_the_page_of_a_customer(new_page: NewPage, server: Server) -> None:
    page, name, other = new_page(), new_name("acme"), new_name("zoo")
    url = make(server, name)
    make(server, other)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(f"{request.url} {request.headers.get('referer')}"))
    page.goto(url)
    # The secret is in the form alone: not in the address, the history, or what servers have seen.
    expect(page.get_by_role("button", name="Open")).to_be_visible()
    assert page.url.endswith("/dashboard/portal")
    assert not any(url.partition("#")[2] in one for one in sent)
    expect(page.get_by_label("Your link")).to_be_hidden()
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.get_by_role("link", name="Instances").click()
    expect(page.get_by_role("link", name=name)).to_be_visible()
    expect(page.get_by_text(other)).to_have_count(0)
    expect(page.get_by_role("link", name="Back to acme.example")).to_be_visible()
    page.get_by_role("button", name="Leave").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("You have left")
    # A second visit with the same link says why it does not open.
    page.goto("/dashboard/login")
    page.goto(url)
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("alert")).to_contain_text("This link has been used")


def test_without_scripts_the_whole_link_is_pasted(new_page: NewPage, server: Server) -> None:
    page, name = new_page(scripts=False, width=390), new_name("acme")
    url = make(server, name)
    page.goto(url)
    page.get_by_label("Your link").fill(url)
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
