"""Portal links, over HTTP."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import trio
from structlog.testing import capture_logs

from hookgw import Gateway, Right
from hookgw.core import browser_sessions
from tests.api.conftest import open_whole_gateway
from tests.api.test_route_walk import add_key
from tests.dashboard.conftest import KEY, Browser, form_token
from tests.public.app import Dashboard
from tests.public.config import AuthSettings, DashboardSettings, ServerSettings, Settings
from tests.public.keys import PORTAL_LIFETIME
from tests.public.records import IDLE_LIMIT, Key, Reach
from tests.public.web import serve
from tests.support.application import create_app

TENANT = {"tags": {"tenant": "acme"}}
RETURN = "https://acme.example:8443/settings?a=1&b=2"


@pytest.fixture
async def gateway(gateway: Gateway) -> Gateway:
    await gateway.instances.create("mine", tags={"tenant": "acme"}, token="the-key-of-mine")
    await gateway.instances.create("theirs", tags={"tenant": "zoo"})
    return gateway


@pytest.fixture
async def caller(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A program with the global key."""
    async with httpx.AsyncClient(base_url=url, headers={"apikey": KEY}, trust_env=False) as http:
        yield http


async def make(caller: httpx.AsyncClient, **body: Any) -> str:
    """Make a link, and return its URL."""
    made = await caller.post("/portal/link", json=body or TENANT)
    assert made.status_code == 201, made.text
    url: str = made.json()["url"]
    return url


async def enter(browser: Browser, url: str) -> httpx.Response:
    """Open a link as people do: its page, and then the button."""
    page, _, token = url.partition("#")
    return await browser.submit(page.partition("/dashboard")[2], "/portal", {"link": token})


async def test_a_link_opens_the_dashboard_with_its_accounts_alone(
    caller: httpx.AsyncClient, visitor: Browser
) -> None:
    entered = await enter(visitor, await make(caller))
    assert (entered.status_code, entered.headers["location"]) == (303, "/dashboard/")
    listed = await visitor.get("/instances")
    assert (listed.status_code, "mine" in listed.text, "theirs" in listed.text) == (200, True, False)
    assert (await visitor.get("/instances/mine")).status_code == 200
    for name in ("theirs", "unknown"):
        assert (await visitor.get(f"/instances/{name}")).status_code == 403


async def test_a_link_has_the_host_of_its_request(caller: httpx.AsyncClient) -> None:
    """Names of containers may have an underscore."""
    caller.headers["host"] = "my_gateway:8080"
    assert (await make(caller)).startswith("http://my_gateway:8080/dashboard/portal#")


async def test_a_link_works_once(caller: httpx.AsyncClient, visitor: Browser) -> None:
    url = await make(caller)
    assert (await enter(visitor, url)).status_code == 303
    visitor.http.cookies.clear()
    again = await enter(visitor, url)
    assert (again.status_code, "set-cookie" in again.headers) == (403, False)
    assert "This link has been used, or has expired." in again.text


async def test_a_second_click_or_tab_of_the_same_browser_gets_in(
    caller: httpx.AsyncClient, visitor: Browser
) -> None:
    url = await make(caller)
    page = await visitor.http.get("/dashboard/portal")
    form = {"form_token": form_token(page.text), "link": url}
    statuses = []

    async def click() -> None:
        statuses.append((await visitor.http.post("/dashboard/portal", data=form)).status_code)

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(click)
    assert statuses == [303, 303]
    await click()
    assert statuses[2] == 303
    assert (await visitor.get("/instances/mine")).status_code == 200
    await visitor.submit("/", "/logout")
    await click()
    assert statuses[3] == 403


async def test_of_many_who_open_it_at_once_one_gets_in(caller: httpx.AsyncClient, url: str) -> None:
    link, statuses = await make(caller), []

    async def open_it() -> None:
        async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
            statuses.append((await enter(Browser(http), link)).status_code)

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(open_it)
    assert sorted(statuses) == [303] + [403] * 7


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_what_only_looks_at_a_link_does_not_use_it_up(
    caller: httpx.AsyncClient, visitor: Browser, method: str
) -> None:
    """Chats and mail programs fetch links to show what is behind them, and never send what follows the #."""
    url = await make(caller)
    for address in (url.partition("#")[0], url.replace("#", "?link=")):
        for _ in range(3):
            looked = await visitor.http.request(method, address)
            assert looked.status_code == 200
            assert url.partition("#")[2] not in looked.text
    assert (await enter(visitor, url)).status_code == 303


async def test_people_without_scripts_paste_the_whole_link(
    caller: httpx.AsyncClient, visitor: Browser
) -> None:
    for pasted in (" {}\n", "{}.", "({})", "{} (15 min)"):
        link = pasted.format(await make(caller))
        assert (await visitor.submit("/portal", "/portal", {"link": link})).status_code == 303


async def test_no_answer_tells_links_apart(
    caller: httpx.AsyncClient, visitor: Browser, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, expired = await make(caller), await make(caller, **TENANT, expires="1m")
    await enter(visitor, used)
    now = gateway.clock.wall()
    monkeypatch.setattr(gateway.clock, "wall", lambda: now + 60)
    answers = set()
    for link in (used, expired, "x#" + "a" * 32, "", "x#ключ"):
        visitor.http.cookies.clear()
        answer = await visitor.submit("/portal", "/portal", {"link": link.partition("#")[2]})
        answers.add((answer.status_code, re.sub(r'form_token" value="\w+"', "", answer.text)))
    [(status, _)] = answers
    assert status == 403


async def test_a_link_is_for_a_while(
    caller: httpx.AsyncClient, visitor: Browser, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = (await caller.post("/portal/link", json=TENANT)).json()
    now = gateway.clock.wall()
    monkeypatch.setattr(gateway.clock, "wall", lambda: now + 15 * 60 - 5)
    assert (await enter(visitor, made["url"])).status_code == 303
    assert made["expiresAt"].endswith("Z")


async def test_a_session_lasts_eight_hours_however_much_it_is_used(
    caller: httpx.AsyncClient, visitor: Browser, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await enter(visitor, await make(caller, **TENANT, expires="7d"))
    start = gateway.clock.wall()
    for hours, status in ((4, 200), (7.9, 200), (8.1, 303)):
        monkeypatch.setattr(gateway.clock, "wall", lambda now=start + hours * 3600: now)
        assert (await visitor.get("/")).status_code == status, hours
    assert IDLE_LIMIT > PORTAL_LIFETIME


async def test_it_ends_with_the_key_that_made_it(
    caller: httpx.AsyncClient, visitor: Browser, gateway: Gateway
) -> None:
    made = (await caller.post("/key/create", json={"name": "links"})).json()["key"]
    maker = {"apikey": made}
    opened = (await caller.post("/portal/link", json=TENANT, headers=maker)).json()["url"]
    waiting = (await caller.post("/portal/link", json=TENANT, headers=maker)).json()["url"]
    await enter(visitor, opened)
    assert (await visitor.get("/")).status_code == 200
    assert (await caller.delete("/key/delete/links")).status_code == 200
    gone = await visitor.get("/")
    assert (gone.status_code, "Max-Age=0" in gone.headers["set-cookie"]) == (303, True)
    visitor.http.cookies.clear()
    assert (await enter(visitor, waiting)).status_code == 403


@pytest.mark.parametrize(
    ("reach", "rights"),
    [
        (Reach(), ("read", "keys")),
        (Reach(tags=(("tenant", "zoo"),)), ("read", "replay", "keys")),
        (Reach(tags=(("plan", "gold"), ("tenant", "acme"))), ("read", "replay", "keys")),
        (Reach(frozenset({"some-id"})), ("read", "replay", "keys")),
    ],
)
async def test_it_ends_when_the_key_can_do_less(
    caller: httpx.AsyncClient, visitor: Browser, gateway: Gateway, reach: Reach, rights: tuple[str, ...]
) -> None:
    made = add_key(gateway, Reach(tags=(("tenant", "acme"),)), ("read", "replay", "keys"))
    asked = {**TENANT, "rights": ["read", "replay"]}
    url = (await caller.post("/portal/link", json=asked, headers={"apikey": made})).json()["url"]
    await enter(visitor, url)
    assert (await visitor.get("/")).status_code == 200
    ring = gateway.authenticator.keyring
    ring.add_global(Key(name="links", hash=ring.hash(made), reach=reach, rights=rights))
    assert (await visitor.get("/")).status_code == 303


async def test_a_link_never_gives_more_than_the_key_has(
    caller: httpx.AsyncClient, visitor: Browser, gateway: Gateway
) -> None:
    made = {"apikey": add_key(gateway, Reach(tags=(("tenant", "acme"),)), ("read", "keys"))}
    for body in (
        {**TENANT, "rights": ["read", "replay"]},
        {"tags": {"tenant": "zoo"}},
        {"instances": ["theirs"]},
        {"instances": ["nobody"]},
    ):
        assert (await caller.post("/portal/link", json=body, headers=made)).status_code == 403, body
    # Other tags narrow it.
    link = await caller.post("/portal/link", json={"tags": {"plan": "gold"}}, headers=made)
    await gateway.instances.change_tags("theirs", {"plan": "gold", "tenant": "zoo"})
    await enter(visitor, link.json()["url"])
    assert (await visitor.get("/instances/theirs")).status_code == 403
    assert (await visitor.get("/instances/mine")).status_code == 403
    await gateway.instances.change_tags("mine", {"plan": "gold", "tenant": "acme"})
    assert (await visitor.get("/instances/mine")).status_code == 200


async def test_a_link_lasts_no_longer_than_its_key(caller: httpx.AsyncClient, gateway: Gateway) -> None:
    made = (await caller.post("/key/create", json={"name": "links", "expiresIn": "2h"})).json()
    link = await caller.post(
        "/portal/link", json={**TENANT, "expires": "1d"}, headers={"apikey": made["key"]}
    )
    assert link.json()["expiresAt"] == made["expiresAt"]


async def test_the_key_of_an_instance_gives_its_own(caller: httpx.AsyncClient, visitor: Browser) -> None:
    own = {"apikey": "the-key-of-mine"}
    for body in ({"instances": ["theirs"]}, {"instances": ["unknown"]}, {"instances": ["mine", "theirs"]}):
        refused = await caller.post("/portal/link", json=body, headers=own)
        assert refused.status_code == 403, body
    # Tags of others give nothing.
    link = await caller.post("/portal/link", json={"tags": {"tenant": "zoo"}}, headers=own)
    await enter(visitor, link.json()["url"])
    listed = await visitor.get("/instances")
    assert ("mine" in listed.text, "theirs" in listed.text) == (False, False)
    for name in ("mine", "theirs"):
        assert (await visitor.get(f"/instances/{name}")).status_code == 403
    visitor.http.cookies.clear()
    link = await caller.post("/portal/link", json={"instances": ["mine"]}, headers=own)
    await enter(visitor, link.json()["url"])
    assert (await visitor.get("/instances/mine")).status_code == 200


async def test_a_link_to_an_instance_does_not_open_a_later_one(
    caller: httpx.AsyncClient, visitor: Browser, gateway: Gateway
) -> None:
    await enter(visitor, await make(caller, instances=["mine"]))
    assert (await visitor.get("/instances/mine")).status_code == 200
    await gateway.instances.delete("mine")
    await gateway.instances.create("mine", tags={"tenant": "acme"})
    assert (await visitor.get("/instances/mine")).status_code == 403


async def test_a_link_to_tags_follows_them(
    caller: httpx.AsyncClient, visitor: Browser, gateway: Gateway
) -> None:
    await enter(visitor, await make(caller))
    await gateway.instances.create("later", tags={"tenant": "acme"})
    assert "later" in (await visitor.get("/instances")).text
    await gateway.instances.change_tags("later", {"tenant": "zoo"})
    assert "later" not in (await visitor.get("/instances")).text
    assert (await visitor.get("/instances/later")).status_code == 403


async def test_a_link_gives_the_rights_that_it_names(caller: httpx.AsyncClient, visitor: Browser) -> None:
    await enter(visitor, await make(caller))  # read
    page = await visitor.get("/instances/mine")
    form = {"form_token": form_token(page.text), "label": "default", "url": "https://a.example/"}
    path = "/dashboard/instances/mine/webhooks"
    assert (await visitor.http.post(path, data=form)).status_code == 403
    await enter(visitor, await make(caller, **TENANT, rights=["read", "webhooks"]))
    form["form_token"] = form_token((await visitor.get("/instances/mine")).text)
    assert (await visitor.http.post(path, data=form)).status_code < 400
    audit = (await caller.get("/audit/list?action=registration")).json()["entries"]
    assert [entry["actor"]["via"] for entry in audit] == ["portal"]


async def test_the_navigation_shows_what_the_rights_allow(
    caller: httpx.AsyncClient, visitor: Browser, dashboard: Dashboard
) -> None:
    await enter(visitor, await make(caller))
    page = (await visitor.get("/")).text
    shown = re.findall(r'href="/dashboard(/[a-z]*)"[^>]*>(?!hookgw)', page.partition("</nav>")[0])
    assert "/system" not in shown
    for path in shown:
        assert (await visitor.get(path)).status_code == 200, path
    for hidden in ("/system", "/portal-link"):
        assert (await visitor.get(hidden)).status_code == 403
    assert "/portal-link" not in (await visitor.get("/instances")).text
    assert "HTTP API" not in page


async def test_the_tour_of_a_customer_shows_no_command_that_needs_a_key(
    caller: httpx.AsyncClient, visitor: Browser
) -> None:
    await enter(visitor, await make(caller, **TENANT, rights=["read", "webhooks", "send"]))
    page = (await visitor.get("/tour")).text
    assert "Register a webhook" in page
    assert "YOUR-KEY" not in page


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "Send tags or instances"),
        ({"tags": {"a": "b"}, "instances": ["x"]}, "and not both"),
        ({"tags": {}}, "tags must have a tag"),
        ({"tags": {"a b": "c"}}, "the name a b must be"),
        ({"instances": []}, "must name an instance"),
        ({"instances": "mine"}, "instances must be"),
        ({"instances": ["x"] * 1001}, "at most 1,000"),
        ({**TENANT, "rights": []}, "must name a right"),
        ({**TENANT, "rights": ["keys"]}, "not 'keys'"),
        ({**TENANT, "rights": ["operate"]}, "not 'operate'"),
        ({**TENANT, "rights": ["reed"]}, "not reed"),
        ({**TENANT, "rights": ["read:crm"]}, "not read:crm"),
        ({**TENANT, "expires": "59s"}, "expires must be"),
        ({**TENANT, "expires": "8d"}, "expires must be"),
        ({**TENANT, "expire": "1m"}, "expire is not a field of a portal link. Did you mean expires?"),
        *(
            ({**TENANT, "returnUrl": url}, "returnUrl must be an http or https URL")
            for url in (
                *("javascript:alert(1)", "//evil.example", "/x", "data:text/html,x", "https:evil.example"),
                *("https://", "https://a b", "https://u@a.example", "https://a.example/\\x", "https://a:0"),
                *("https://a.example/é", "https://a.example/\n", "x" * 2049, "https://[::1"),
            )
        ),
    ],
)
async def test_a_wrong_request_makes_no_link(
    caller: httpx.AsyncClient, body: Mapping[str, Any], sentence: str
) -> None:
    refused = await caller.post("/portal/link", json=body)
    assert refused.status_code == 400
    assert sentence in " ".join(refused.json()["response"]["message"])


async def test_an_unknown_instance_makes_no_link(caller: httpx.AsyncClient) -> None:
    refused = await caller.post("/portal/link", json={"instances": ["mine", "nobody"]})
    assert (refused.status_code, "nobody" in refused.text) == (404, True)


async def test_pages_lead_back_and_nowhere_else(caller: httpx.AsyncClient, visitor: Browser) -> None:
    await enter(visitor, await make(caller, **TENANT, returnUrl=RETURN))
    page = await visitor.get("/")
    assert (
        '<a href="https://acme.example:8443/settings?a=1&amp;b=2" rel="noopener noreferrer" '
        'referrerpolicy="no-referrer">Back to acme.example</a>'
    ) in page.text
    assert page.headers["referrer-policy"] == "same-origin"
    left = await visitor.submit("/", "/logout")
    assert (left.status_code, "Back to acme.example" in left.text) == (200, True)
    assert (await visitor.get("/")).status_code == 303


async def test_neither_log_nor_audit_has_the_token(caller: httpx.AsyncClient, visitor: Browser) -> None:
    with capture_logs() as lines:
        url = await make(caller, **TENANT, returnUrl=RETURN)
        await enter(visitor, url)
        visitor.http.cookies.clear()
        await enter(visitor, url)
    token = url.partition("#")[2]
    audit = await caller.get("/audit/list?action=portal")
    made = [entry["action"] for entry in audit.json()["entries"]]
    assert made == ["portal.open", "portal.link"]
    [opened, linked] = audit.json()["entries"]
    assert linked["details"] == {
        "reach": "tenant=acme",
        "rights": "read",
        "expiresAt": linked["details"]["expiresAt"],
    }
    assert (opened["actor"]["name"], opened["actor"]["via"]) == ("configuration", "portal")
    for text in (str(lines), audit.text):
        assert token not in text


async def test_a_form_of_another_site_opens_no_link(caller: httpx.AsyncClient, visitor: Browser) -> None:
    """It would put somebody's browser into a session that another made."""
    token = (await make(caller)).partition("#")[2]
    page = await visitor.get("/portal")
    forms: tuple[tuple[dict[str, str], dict[str, str]], ...] = (
        ({"link": token, "form_token": "0" * 64}, {}),
        ({"link": token, "form_token": form_token(page.text)}, {"sec-fetch-site": "cross-site"}),
        ({"link": token, "form_token": form_token(page.text)}, {"origin": "https://evil.example"}),
    )
    for form, headers in forms:
        refused = await visitor.http.post("/dashboard/portal", data=form, headers=headers)
        assert refused.status_code == 403
    visitor.http.cookies.clear()
    bare = await visitor.http.post("/dashboard/portal", data=forms[1][0])
    assert (bare.status_code, "did not send back the cookie" in bare.text) == (403, True)
    assert (await visitor.submit("/portal", "/portal", {"link": token})).status_code == 303


async def test_the_session_of_a_link_is_no_key_of_the_api(
    caller: httpx.AsyncClient, visitor: Browser
) -> None:
    await enter(visitor, await make(caller, **TENANT, rights=["read", "payloads", "instances"]))
    for path in ("/instance/fetchInstances", "/webhook/find/mine", "/delivery/list"):
        assert (await visitor.http.get(path)).status_code == 401


async def test_a_link_needs_the_right_to_make_keys(caller: httpx.AsyncClient, gateway: Gateway) -> None:
    without = {"apikey": add_key(gateway, Reach(), [str(one) for one in Right if one != "keys"])}
    refused = await caller.post("/portal/link", json=TENANT, headers=without)
    assert (refused.status_code, "the right 'keys'" in refused.text) == (403, True)
    assert (await caller.post("/portal/link", json=TENANT, headers={"apikey": "wrong"})).status_code == 401


async def test_a_link_replaces_the_session_that_the_browser_had(
    caller: httpx.AsyncClient, visitor: Browser
) -> None:
    await visitor.log_in(KEY)
    former = visitor.session
    await enter(visitor, await make(caller))
    assert visitor.session != former
    assert (await visitor.get("/", headers={"cookie": former})).status_code == 303


async def test_links_are_made_on_a_page(browser: Browser, url: str) -> None:
    assert 'href="/dashboard/portal-link"' in (await browser.get("/instances")).text
    fields = {"tags": "tenant=acme", "right": ["read", "replay"], "expires": "1h", "return_url": RETURN}
    made = await browser.submit("/portal-link", "/portal-link", fields)
    assert made.status_code == 201
    found = re.search(r"<code>(http\S+#[\w-]+)</code>", made.text)
    assert found is not None
    async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
        other = Browser(http)
        assert (await enter(other, found[1])).status_code == 303
        assert "Back to acme.example" in (await other.get("/")).text
    for wrong, sentence in (
        ({"tags": "tenant"}, "Tags must be NAME=VALUE"),
        ({"instances": "nobody"}, "nobody"),
        ({}, "Send tags or instances"),
    ):
        refused = await browser.submit("/portal-link", "/portal-link", {"expires": "33m", **wrong})
        assert 400 <= refused.status_code < 500
        assert sentence in refused.text
        assert 'value="33m"' in refused.text


class TestLimits:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, auth=AuthSettings(global_key=KEY, failed_attempts=3))

    async def test_guesses_count_with_wrong_keys(self, caller: httpx.AsyncClient, visitor: Browser) -> None:
        url = await make(caller)
        for _ in range(3):
            assert (await enter(visitor, "x/dashboard/portal#guess")).status_code == 403
        # The right one is refused like a guess, and can be opened later.
        assert (await enter(visitor, url)).status_code == 429

    async def test_few_links_of_a_key_wait(
        self, caller: httpx.AsyncClient, visitor: Browser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(browser_sessions, "MOST_PORTAL_LINKS", 2)
        first = await make(caller)
        await make(caller)
        assert (await caller.post("/portal/link", json=TENANT)).status_code == 429
        await enter(visitor, first)
        await make(caller)

    async def test_calls_at_once_make_no_more(
        self, caller: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(browser_sessions, "MOST_PORTAL_LINKS", 2)
        statuses = []

        async def make_one() -> None:
            statuses.append((await caller.post("/portal/link", json=TENANT)).status_code)

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(make_one)
        assert sorted(statuses) == [201] * 2 + [429] * 6

    async def test_a_key_has_no_more_of_them_by_making_keys(
        self, caller: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(browser_sessions, "MOST_PORTAL_LINKS", 1)
        asked = {"name": "reseller", **TENANT, "rights": ["read", "keys"]}
        reseller = {"apikey": (await caller.post("/key/create", json=asked)).json()["key"]}
        made = await caller.post("/key/create", json={"name": "made"}, headers=reseller)
        assert (await caller.post("/portal/link", json=TENANT, headers=reseller)).status_code == 201
        for key in (reseller, {"apikey": made.json()["key"]}):
            assert (await caller.post("/portal/link", json=TENANT, headers=key)).status_code == 429
        assert (await caller.post("/portal/link", json=TENANT)).status_code == 201  # of an operator's

    async def test_the_sessions_of_one_customer_do_not_end_those_of_another(
        self, caller: httpx.AsyncClient, url: str, visitor: Browser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(browser_sessions, "MOST_SESSIONS", 2)
        await enter(visitor, await make(caller))
        async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
            other = Browser(http)
            cookies = []
            for _ in range(3):
                http.cookies.clear()
                await enter(other, await make(caller, tags={"tenant": "zoo"}))
                cookies.append(other.session)
            http.cookies.clear()
            statuses = [(await other.get("/", headers={"cookie": one})).status_code for one in cookies]
        assert statuses == [303, 200, 200]
        assert (await visitor.get("/")).status_code == 200


@asynccontextmanager
async def served(settings: Settings, base: Path, nursery: trio.Nursery) -> AsyncIterator[Browser]:
    async with open_whole_gateway(settings, base=base) as gateway:
        app = create_app(gateway, Dashboard(gateway).blueprint)
        [url] = await nursery.start(serve, app, ServerSettings(bind=("127.0.0.1:0",)))
        async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
            yield Browser(http)


async def test_links_and_sessions_survive_a_restart_and_used_links_stay_used(
    settings: Settings, tmp_path: Path, nursery: trio.Nursery
) -> None:
    async with served(settings, tmp_path, nursery) as browser:
        made = [
            await browser.http.post("/portal/link", json=TENANT, headers={"apikey": KEY}) for _ in range(2)
        ]
        used, waiting = (one.json()["url"] for one in made)
        assert (await enter(browser, used)).status_code == 303
        cookie = browser.session
    async with served(settings, tmp_path, nursery) as browser:
        assert (await browser.get("/", headers={"cookie": cookie})).status_code == 200
        assert (await enter(browser, used)).status_code == 403
        assert (await enter(browser, waiting)).status_code == 303


class TestAddress:
    @pytest.fixture
    def server_settings(self) -> ServerSettings:
        return ServerSettings(
            bind=("127.0.0.1:0",), public_url="https://hooks.example/base/", base_path="/base"
        )

    async def test_a_link_begins_with_the_public_url(self, url: str, gateway: Gateway) -> None:
        async with httpx.AsyncClient(base_url=url, headers={"apikey": KEY}, trust_env=False) as http:
            made = await http.post("/base/portal/link", json=TENANT)
        assert made.json()["url"].startswith("https://hooks.example/base/dashboard/portal#")


class TestWithoutTheDashboard:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, dashboard=DashboardSettings(enabled=False))

    async def test_there_are_no_links(self, caller: httpx.AsyncClient) -> None:
        refused = await caller.post("/portal/link", json=TENANT)
        assert (refused.status_code, "dashboard.enabled" in refused.text) == (409, True)
