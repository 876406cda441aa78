"""Logging in and out, over HTTP."""

import re
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import httpx
import msgspec
import pytest
from structlog.testing import capture_logs

from hookgw import Gateway
from hookgw.core import browser_sessions
from tests.api.conftest import slow_request
from tests.dashboard.conftest import KEY, Browser, form_token, set_webhook
from tests.public.config import AuthSettings, ServerSettings, Settings
from tests.public.records import IDLE_LIMIT
from tests.public.web import AppApplication as Application

LOGIN = "/dashboard/login"


async def test_a_page_without_a_session_leads_to_the_login_and_back(visitor: Browser) -> None:
    asked = await visitor.get("/instances?search=lo")
    assert asked.status_code == 303
    assert asked.headers["location"] == f"{LOGIN}?next=%2Finstances%3Fsearch%3Dlo"
    page = (await visitor.http.get(asked.headers["location"])).text
    entered = await visitor.http.post(
        LOGIN, data={"form_token": form_token(page), "key": KEY, "next": "/instances?search=lo"}
    )
    assert (entered.status_code, entered.headers["location"]) == (303, "/dashboard/instances?search=lo")
    assert (await visitor.get("/instances?search=lo")).status_code == 200


@pytest.mark.parametrize(
    ("form", "page"),
    [
        ("/instances/loja%201/settings", "/instances/loja 1/settings"),
        ("/instances/loja%201/tags", "/instances/loja%201/settings"),
        ("/instances/loja%201/webhooks/default/pause", "/instances/loja%201/webhooks/default"),
        ("/lanes/resume?search=a+b", "/lanes?search=a+b"),
        ("/problems/repair", ""),
    ],
)
async def test_a_form_without_a_session_leads_to_its_page_and_is_not_taken_for_saved(
    visitor: Browser, form: str, page: str
) -> None:
    sent = await visitor.http.post(f"/dashboard{form}", data={"typed": "x"})
    assert sent.status_code == 303
    query = {"next": page} if page else {}
    assert sent.headers["location"] == f"{LOGIN}?{urlencode({**query, 'ended': 'true'})}"
    shown = (await visitor.http.get(sent.headers["location"])).text
    assert "Your session has ended. Nothing was changed." in shown
    assert "If you came with a link, ask for another one." in shown


async def test_the_cookie_is_for_this_site_and_no_script(visitor: Browser) -> None:
    cookies = (await visitor.log_in(KEY)).headers.get_list("set-cookie")
    [session] = [one for one in cookies if one.startswith("hookgw_session_")]
    assert session.partition(";")[2] == " Path=/dashboard; HttpOnly; SameSite=Strict"


@pytest.mark.parametrize("next_page", ["https://evil.example/", "//evil.example", "/\\evil", "/login", "x"])
async def test_after_the_login_comes_no_other_site(visitor: Browser, next_page: str) -> None:
    entered = await visitor.submit("/login", "/login", {"key": KEY, "next": next_page})
    assert entered.headers["location"] == "/dashboard/"


@pytest.mark.parametrize(
    ("key", "status", "text"),
    [("", 400, "Enter a key."), ("wrong", 401, "This key is not valid."), ("ключ\x00", 401, "not valid")],
)
async def test_a_wrong_key_is_refused_in_an_alert(visitor: Browser, key: str, status: int, text: str) -> None:
    refused = await visitor.log_in(key)
    assert refused.status_code == status
    assert 'role="alert"' in refused.text
    assert text in refused.text
    assert (await visitor.get("/")).status_code == 303


class TestWrongKeys:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, auth=AuthSettings(global_key=KEY, failed_attempts=2))

    async def test_wrong_keys_count_with_those_of_the_api(self, visitor: Browser) -> None:
        assert (await visitor.log_in("wrong-1")).status_code == 401
        api = await visitor.http.get("/instance/fetchInstances", headers={"apikey": "wrong-2"})
        assert api.status_code == 401
        refused = await visitor.log_in("wrong-3")
        assert refused.status_code == 429
        assert 'role="alert"' in refused.text


async def test_a_form_of_another_site_is_refused(browser: Browser) -> None:
    token = form_token((await browser.get("/")).text)
    for headers in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ):
        refused = await browser.http.post("/dashboard/logout", data={"form_token": token}, headers=headers)
        assert refused.status_code == 403, headers
    own = {"origin": str(browser.http.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}
    assert (await browser.http.post("/dashboard/logout", data={"form_token": token}, headers=own)).is_redirect


@pytest.mark.parametrize("token", ["", "0" * 64, "ä"])
async def test_a_form_without_its_token_changes_nothing(browser: Browser, token: str) -> None:
    refused = await browser.http.post("/dashboard/logout", data={"form_token": token})
    assert refused.status_code == 403
    assert "nothing was changed" in refused.text
    assert (await browser.get("/")).status_code == 200


async def test_no_form_works_without_its_token_or_from_another_site(
    browser: Browser, app: Application, gateway: Gateway
) -> None:
    await gateway.instances.create("loja1")
    await set_webhook(gateway)
    page = (await browser.get("/instances/loja1")).text
    names = {"instance": "loja1", "label": "default", "name": "x", "key_name": "default"}
    names |= {"event_id": "x", "job_id": "x"}
    names |= {"language": "en", "plugin": "none", "path": "none"}
    tried = 0
    for rule in app.routing.url_map.iter_rules():
        # A plugin's page is looked for before its form is read.
        if (
            rule.rule.startswith("/dashboard/")
            and "POST" in (rule.methods or ())
            and "<plugin>" not in rule.rule
        ):
            path = re.sub(r"<(\w+)>", lambda found: names[found[1]], rule.rule)
            # The language is no secret and no right; its form has no fields.
            if path not in ("/dashboard/login", "/dashboard/portal", "/dashboard/language/en"):
                forged = await browser.http.post(path, data={"form_token": "0" * 64})
                assert (forged.status_code, "The form has expired" in forged.text) == (403, True), path
                elsewhere = {"sec-fetch-site": "cross-site"}
                data = {"form_token": form_token(page)}
                forged = await browser.http.post(path, data=data, headers=elsewhere)
                assert (forged.status_code, "by another site" in forged.text) == (403, True), path
                tried += 1
    assert tried > 20


async def test_the_token_of_another_session_is_refused(browser: Browser, url: str) -> None:
    async with httpx.AsyncClient(base_url=url, trust_env=False, verify=False) as http:
        other = Browser(http)
        await other.log_in(KEY)
        foreign = form_token((await other.get("/")).text)
    refused = await browser.http.post("/dashboard/logout", data={"form_token": foreign})
    assert refused.status_code == 403


async def test_a_cookie_that_did_not_come_back_is_explained(visitor: Browser) -> None:
    token = form_token((await visitor.get("/login")).text)
    visitor.http.cookies.clear()
    refused = await visitor.http.post(LOGIN, data={"form_token": token, "key": KEY})
    assert refused.status_code == 403
    assert "did not send back the cookie" in refused.text
    assert "server.base_path" in refused.text


async def test_cookies_may_come_in_several_lines(browser: Browser, url: str) -> None:
    lines = [("cookie", "hookgw_look=dark"), ("cookie", browser.session), ("cookie", "other=1")]
    async with httpx.AsyncClient(base_url=url) as http:
        page = await http.get("/dashboard/instances", headers=lines)
    assert page.status_code == 200


async def test_a_login_ends_the_session_whose_cookie_it_replaces(browser: Browser, url: str) -> None:
    former = browser.session
    async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
        other = Browser(http)
        await other.log_in(KEY)
        await browser.log_in(KEY)
        assert browser.session != former
        assert (await browser.get("/")).status_code == 200
        assert (await browser.get("/", headers={"cookie": former})).status_code == 303
        # Another browser has the same key, and keeps its session.
        assert (await other.get("/")).status_code == 200


FRONT = ServerSettings(bind=("127.0.0.1:0",), trusted_proxies=("127.0.0.1",))


class TestBehindAProxy:
    """The proxy talks plain HTTP to hookgw, with a host and a scheme of its own."""

    @pytest.fixture
    def server_settings(self) -> ServerSettings:
        return FRONT

    async def test_the_host_that_the_proxy_reports_is_the_dashboards(self, visitor: Browser) -> None:
        visitor.http.headers.update({"x-forwarded-host": "gw.lan:8000", "origin": "http://gw.lan:8000"})
        assert (await visitor.log_in(KEY)).status_code == 303
        visitor.http.headers["origin"] = "http://evil.example"
        refused = await visitor.log_in(KEY)
        assert refused.status_code == 403
        assert "gw.lan:8000" in refused.text
        assert "evil.example" in refused.text

    @pytest.mark.parametrize(
        ("said", "is_secure"),
        [("https", True), ("HTTPS", True), ("https, http", True), ("http", False), ("", False)],
    )
    async def test_the_scheme_that_the_proxy_reports_decides_on_secure(
        self, visitor: Browser, said: str, is_secure: bool
    ) -> None:
        page = await visitor.get("/login", headers={"x-forwarded-proto": said})
        assert page.headers["set-cookie"].endswith("; Secure") is is_secure

    async def test_a_host_that_the_proxy_only_repeats_leaves_the_headers_as_they_are(
        self, app: Application
    ) -> None:
        """What was noted about a head holds as long as its headers are the same."""
        for said, is_same in ((b"gw.lan:8000", True), (b"other.lan", False)):
            headers = [(b"host", b"gw.lan:8000"), (b"x-forwarded-host", said)]
            scope: dict[str, Any] = {"client": ("127.0.0.1", 4711), "headers": headers}
            notes = {"key": "known"}
            exchange: Any = SimpleNamespace(scope=scope, notes=notes, client_host="127.0.0.1")
            app.believe_proxy(exchange)
            assert (scope["headers"] is headers) is (exchange.notes is notes) is is_same
            assert dict(scope["headers"])[b"host"] == said

    @pytest.mark.parametrize("host", ["gw.lan:8000", "my_gateway:8000"])
    async def test_the_address_for_programs_is_that_of_the_proxy(self, visitor: Browser, host: str) -> None:
        await visitor.log_in(KEY)
        page = await visitor.get("/", headers={"x-forwarded-host": host})
        assert f"http://{host}/event/emit" in page.text

    async def test_a_host_that_is_none_is_ignored(self, visitor: Browser) -> None:
        await visitor.log_in(KEY)
        page = await visitor.get("/", headers={"x-forwarded-host": "a/b?c"})
        assert f"{visitor.http.base_url}/event/emit" in page.text


async def test_a_stranger_cannot_claim_a_host_or_a_scheme(visitor: Browser) -> None:
    said = {"x-forwarded-host": "evil.example", "x-forwarded-proto": "https"}
    page = await visitor.get("/login", headers=said)
    assert not page.headers["set-cookie"].endswith("; Secure")
    form = {"form_token": form_token(page.text), "key": KEY}
    refused = await visitor.http.post(LOGIN, data=form, headers=said | {"origin": "http://evil.example"})
    assert refused.status_code == 403


class TestAUrlInANetworkOfContainers:
    @pytest.fixture
    def server_settings(self) -> ServerSettings:
        return ServerSettings(bind=("127.0.0.1:0",), public_url="http://hookgw:8080")

    async def test_the_address_for_programs_is_that_of_the_browser(self, visitor: Browser) -> None:
        await visitor.log_in(KEY)
        page = await visitor.get("/")
        assert f"{visitor.http.base_url}/event/emit" in page.text


class TestAnHttpsUrlForTheWorld:
    @pytest.fixture
    def server_settings(self) -> ServerSettings:
        return ServerSettings(bind=("127.0.0.1:0",), public_url="https://hooks.example")

    async def test_people_inside_log_in_over_plain_http(self, visitor: Browser) -> None:
        entered = await visitor.log_in(KEY)
        assert entered.status_code == 303
        assert not any(one.endswith("Secure") for one in entered.headers.get_list("set-cookie"))
        assert "https://hooks.example/event/emit" in (await visitor.get("/")).text


async def test_logout_ends_the_session(browser: Browser, gateway: Gateway) -> None:
    cookie = browser.session
    left = await browser.submit("/", "/logout")
    assert left.headers["location"] == f"{LOGIN}?done=logged_out"
    assert "You are logged out." in (await browser.http.get(left.headers["location"])).text
    with pytest.raises(KeyError):
        assert browser.session
    again = await browser.get("/", headers={"cookie": cookie})
    assert again.status_code == 303


async def test_a_revoked_key_ends_its_sessions_at_once(visitor: Browser, gateway: Gateway) -> None:
    holder = gateway.keys.holder_of(KEY)
    assert holder is not None
    _, key = await gateway.keys.create(None, "people", expires_at=None, maker=holder)
    await visitor.log_in(key)
    assert (await visitor.get("/")).status_code == 200
    await gateway.keys.revoke(None, "people", by=holder)
    gone = await visitor.get("/")
    assert gone.status_code == 303
    assert "Max-Age=0" in gone.headers["set-cookie"]


async def test_a_session_ends_after_twelve_hours_without_use(
    browser: Browser, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = gateway.clock.wall()
    for hours, status in ((6, 200), (17.9, 200), (29.9, 303)):
        monkeypatch.setattr(gateway.clock, "wall", lambda now=start + hours * 3600: now)
        assert (await browser.get("/")).status_code == status, hours
    assert IDLE_LIMIT == 12 * 3600


async def test_a_tenant_sees_no_other_instance(visitor: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("mine", token="key-of-mine")
    await gateway.instances.create("theirs", token="key-of-theirs")
    await visitor.log_in("key-of-mine")
    listed = (await visitor.get("/instances")).text
    assert "mine" in listed
    assert "theirs" not in listed


async def test_a_link_logs_in_once(visitor: Browser, gateway: Gateway) -> None:
    token = gateway.sessions.issue_link(lambda: gateway.keys.holder_of(KEY))
    entered = await visitor.get(f"/enter/{token}")
    assert (entered.status_code, entered.headers["location"]) == (303, "/dashboard/")
    assert (await visitor.get("/")).status_code == 200
    again = await visitor.get(f"/enter/{token}")
    assert again.status_code == 401
    assert "has been used or has expired" in again.text


@pytest.mark.parametrize("server_settings", [FRONT])
async def test_a_link_works_only_on_the_machine_of_hookgw(visitor: Browser, gateway: Gateway) -> None:
    token = gateway.sessions.issue_link(lambda: gateway.keys.holder_of(KEY))
    elsewhere = await visitor.get(f"/enter/{token}", headers={"x-forwarded-for": "192.0.2.1"})
    assert elsewhere.status_code == 403
    assert "only on the machine that runs hookgw" in elsewhere.text
    # The refusal has not used it up.
    assert (await visitor.get(f"/enter/{token}")).status_code == 303


async def test_pages_load_and_send_nothing_elsewhere(browser: Browser) -> None:
    page = await browser.get("/")
    policy = page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["cache-control"] == "no-store"


async def test_assets_are_kept_by_browsers(visitor: Browser) -> None:
    page = (await visitor.get("/login")).text
    address = page.split('rel="stylesheet" href="')[1].split('"')[0]
    sheet = await visitor.http.get(address)
    assert sheet.headers["content-type"] == "text/css; charset=utf-8"
    assert "immutable" in sheet.headers["cache-control"]
    # A page of another version gets the file that there is; a browser does not keep it.
    other = await visitor.http.get(re.sub("/[0-9a-f]{12}/", "/000000000000/", address))
    assert (other.content, other.headers["cache-control"]) == (sheet.content, "no-store")
    assert (await visitor.get("/assets/000000000000/site.py")).status_code == 404


async def test_a_browser_at_the_root_is_sent_here(visitor: Browser) -> None:
    page = await visitor.http.get("/", headers={"accept": "text/html"})
    assert page.headers["location"] == "dashboard/"
    assert (await visitor.http.get("/")).json()["name"] == "hookgw"


async def test_a_former_tenant_cannot_finish_a_form_for_a_later_instance(
    visitor: Browser, gateway: Gateway
) -> None:
    former = await gateway.instances.create("loja1")
    await visitor.log_in(former.key)
    token = form_token((await visitor.get("/instances/loja1")).text)
    form = urlencode({"form_token": token, "label": "default", "url": "https://attacker.example/take"})
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "cookie": "; ".join(f"{name}={value}" for name, value in visitor.http.cookies.items()),
    }
    path = "/dashboard/instances/loja1/webhooks"
    async with slow_request(visitor.http, path, form, **headers) as slow:
        await gateway.instances.delete("loja1")
        await gateway.instances.create("loja1")
        status, response = await slow.finish()
    assert (status, "location: /dashboard/login" in response) == (303, True)
    assert gateway.registrations.of_instance("loja1") == []


async def test_a_long_form_may_arrive_while_the_use_of_its_session_is_stored(
    visitor: Browser, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_sessions, "NOTE_USE_EVERY", 0)
    await gateway.instances.create("loja1", token="the-key-of-loja1")
    await visitor.log_in("the-key-of-loja1")
    with capture_logs() as lines:
        left = await visitor.submit("/", "/logout", {"text": "x" * 20_000})
        await visitor.get("/login")  # on the same connection: the first exchange has ended
    assert left.status_code == 303
    assert [line for line in lines if line["log_level"] == "error"] == []


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/webhook/find/shop"), ("POST", "/webhook/set/shop"), ("DELETE", "/instance/delete/shop")],
)
async def test_a_call_below_the_dashboard_is_told_where_the_api_is(
    visitor: Browser, method: str, path: str
) -> None:
    """It would get the login, with 200 after a redirect."""
    called = await visitor.http.request(method, f"/dashboard{path}", headers={"apikey": KEY})
    assert called.status_code == 404
    [message] = called.json()["response"]["message"]
    assert message.startswith(f"No such route: /dashboard{path}. ")
    assert message.endswith(f" The HTTP API is not below /dashboard: use {path}.")


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/dashboard/webhook/find/shop", {}),
        ("/dashboard/instances", {"apikey": KEY}),
        ("/dashboard/instances/shop/none", {"authorization": "Bearer of-the-proxy"}),
    ],
)
async def test_a_browser_is_sent_to_the_login_also_where_a_proxy_adds_a_key(
    visitor: Browser, path: str, headers: dict[str, str]
) -> None:
    sent = await visitor.http.get(path, headers=headers)
    assert sent.status_code == 303
    assert sent.headers["location"].startswith("/dashboard/login")


@pytest.mark.parametrize("path", ["/dashboard", "/dashboard/", "/dashboard/instances", "/dashboard//x"])
async def test_nobody_is_told_to_use_a_path_that_the_api_does_not_have(visitor: Browser, path: str) -> None:
    refused = await visitor.http.post(path, headers={"apikey": KEY})
    assert refused.status_code in {404, 405}
    assert "HTTP API" not in refused.text
