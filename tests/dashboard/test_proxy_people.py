"""People who sign in at a reverse proxy, over HTTP."""

from collections.abc import Mapping

import httpx
import pytest
from structlog.testing import capture_logs

from hookgw import Gateway
from tests.dashboard.conftest import KEY, Browser, form_token, set_webhook
from tests.public.config import AuthSettings, ServerSettings, Settings, StorageSettings

HEADER = "x-forwarded-user"
ANA, BOB = "ana@acme.example", "bob"
PAGE = {"accept": "text/html"}


@pytest.fixture
def server_settings() -> ServerSettings:
    return ServerSettings(bind=("127.0.0.1:0",), trusted_proxies=("127.0.0.1",))


@pytest.fixture
def users() -> Mapping[str, str]:
    return {ANA: "people", BOB: "others"}


@pytest.fixture
def settings(server_settings: ServerSettings, storage: StorageSettings, users: dict[str, str]) -> Settings:
    return Settings(
        server=server_settings,
        auth=AuthSettings(global_key=KEY, failed_attempts=0, proxy_header="X-Forwarded-User", users=users),
        storage=storage,
    )


@pytest.fixture
async def gateway(gateway: Gateway) -> Gateway:
    for name in ("people", "others"):
        await create_key(gateway, name)
    return gateway


async def create_key(gateway: Gateway, name: str) -> None:
    holder = gateway.keys.holder_of(KEY)
    assert holder is not None
    await gateway.keys.create(None, name, maker=holder)


async def revoke_key(gateway: Gateway, name: str) -> None:
    holder = gateway.keys.holder_of(KEY)
    assert holder is not None
    await gateway.keys.revoke(None, name, by=holder)


def named(person: str) -> dict[str, str]:
    return PAGE | {HEADER: person}


async def test_a_person_needs_no_login(visitor: Browser) -> None:
    page = await visitor.get("/", headers=named(ANA))
    assert page.status_code == 200, page.text
    assert ANA in page.text
    cookie = visitor.session
    # The same session from page to page.
    again = await visitor.get("/instances", headers=named(ANA))
    assert (again.status_code, "set-cookie" in again.headers) == (200, False)
    assert visitor.session == cookie


async def test_the_audit_names_the_person_and_the_key(visitor: Browser, gateway: Gateway) -> None:
    page = await visitor.get("/", headers=named(ANA))
    form = {"form_token": form_token(page.text), "name": "loja1"}
    made = await visitor.http.post("/dashboard/new-instance", data=form, headers=named(ANA))
    assert made.status_code in (201, 303), made.text
    audit = await visitor.http.get("/audit/list?action=instance.create", headers={"apikey": KEY})
    [entry] = audit.json()["entries"]
    actor = {key: entry["actor"][key] for key in ("kind", "name", "via", "person")}
    assert actor == {"kind": "key", "name": "people", "via": "dashboard", "person": ANA}
    system = await visitor.get("/system", headers=named(ANA))
    assert f"{ANA}, key people" in system.text


async def test_the_key_of_an_instance_does_not_see_who_the_operators_are(
    visitor: Browser, gateway: Gateway
) -> None:
    await gateway.instances.create("loja1", token="the-key-of-loja1")
    page = await visitor.get("/instances/loja1", headers=named(ANA))
    form = {"form_token": form_token(page.text), "label": "default", "url": "https://a.example/"}
    await visitor.http.post("/dashboard/instances/loja1/webhooks", data=form, headers=named(ANA))
    own = await visitor.http.get("/audit/list/loja1", headers={"apikey": "the-key-of-loja1"})
    assert "registration.create" in own.text
    assert ANA not in own.text


async def test_a_person_without_a_key_is_refused_with_a_sentence(visitor: Browser) -> None:
    for path in ("/", "/instances", "/system"):
        refused = await visitor.get(path, headers=named("eve"))
        assert refused.status_code == 403
        assert "You are signed in as &#39;eve&#39;" in refused.text
        assert "auth.users" in refused.text
        assert "set-cookie" not in refused.headers
    # Names are exact.
    for name in (ANA.upper(), f"{ANA}.", "ana"):
        assert (await visitor.get("/", headers=named(name))).status_code == 403


async def test_another_person_at_the_same_browser_gets_another_session(
    visitor: Browser, gateway: Gateway
) -> None:
    await visitor.get("/", headers=named(ANA))
    of_ana = visitor.session
    of_bob = await visitor.get("/", headers=named(BOB))
    assert of_bob.status_code == 200
    assert visitor.session != of_ana
    # Ana's session has ended: the browser has lost its cookie.
    again = await visitor.get("/live/overview", headers={HEADER: ANA, "cookie": of_ana})
    assert again.status_code == 303
    assert (await visitor.get("/", headers=named("eve"))).status_code == 403


async def test_the_form_of_another_person_changes_nothing(visitor: Browser) -> None:
    page = await visitor.get("/", headers=named(ANA))
    # Bob's browser has Ana's cookie and her form: neither acts for him, or for her.
    form = {"form_token": form_token(page.text), "name": "loja1"}
    sent = await visitor.http.post("/dashboard/new-instance", data=form, headers=named(BOB))
    assert sent.headers["location"] == "/dashboard/login?next=%2Finstances&ended=true"
    assert "loja1" not in (await visitor.get("/instances", headers=named(BOB))).text


async def test_the_cookie_of_a_person_is_worth_nothing_without_the_header(visitor: Browser) -> None:
    await visitor.get("/", headers=named(ANA))
    for headers in (PAGE, named("")):
        bare = await visitor.get("/", headers=headers)
        assert (bare.status_code, bare.headers["location"]) == (303, "/dashboard/login"), headers


async def test_the_session_of_a_key_is_not_that_of_a_person(visitor: Browser) -> None:
    await visitor.log_in(KEY)
    of_key = visitor.session
    assert (await visitor.get("/", headers=PAGE)).status_code == 200
    assert (await visitor.get("/", headers=named("eve"))).status_code == 403
    assert ANA in (await visitor.get("/", headers=named(ANA))).text
    assert visitor.session != of_key


async def test_a_person_may_log_in_with_a_key(visitor: Browser) -> None:
    visitor.http.headers.update(named("eve"))
    login = await visitor.get("/login")
    assert "Continue as" not in login.text
    assert (await visitor.log_in(KEY)).status_code == 303
    page = await visitor.get("/")
    assert page.status_code == 200
    assert "eve" in page.text
    # The session is Eve's.
    assert (await visitor.get("/", headers=named(BOB))).text.count(BOB) > 0


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([ANA, ANA], "more than one x-forwarded-user header"),
        ([ANA, BOB], "more than one x-forwarded-user header"),
        (["", ANA], "more than one x-forwarded-user header"),
        (["a" * 256], "names nobody"),
        (["a\tb"], "names nobody"),
        ([b"\xff\xfe"], "names nobody"),
    ],
)
async def test_a_header_that_says_nothing_clear_is_refused(
    visitor: Browser, values: list[str | bytes], sentence: str
) -> None:
    raw = [(b"accept", b"text/html")]
    raw += [(HEADER.encode(), one if isinstance(one, bytes) else one.encode()) for one in values]
    refused = await visitor.http.get("/dashboard/", headers=raw)
    assert refused.status_code == 403
    assert sentence in refused.text


async def test_the_form_token_is_that_of_the_session(visitor: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    await set_webhook(gateway)
    page = await visitor.get("/instances/loja1", headers=named(ANA))
    path = "/dashboard/instances/loja1/webhooks/default/pause"
    forged = await visitor.http.post(path, data={"form_token": "0" * 64}, headers=named(ANA))
    assert (forged.status_code, "The form has expired" in forged.text) == (403, True)
    form = {"form_token": form_token(page.text)}
    elsewhere = named(ANA) | {"sec-fetch-site": "cross-site"}
    assert (await visitor.http.post(path, data=form, headers=elsewhere)).status_code == 403
    # A request without the cookie begins no session: another site can send it.
    visitor.http.cookies.clear()
    bare = await visitor.http.post(path, data=form, headers=named(ANA))
    assert (bare.status_code, "set-cookie" in bare.headers) == (303, False)


async def test_a_stream_begins_no_session(visitor: Browser) -> None:
    bare = await visitor.get("/live/overview", headers={HEADER: ANA, "accept": "text/event-stream"})
    assert (bare.status_code, "set-cookie" in bare.headers) == (303, False)


async def test_the_header_is_no_key_of_the_api(visitor: Browser) -> None:
    """A browser sends it with requests that other sites make it send."""
    assert (await visitor.http.get("/instance/fetchInstances", headers=named(ANA))).status_code == 401


async def test_the_end_of_the_key_is_the_end_of_the_session(visitor: Browser, gateway: Gateway) -> None:
    assert (await visitor.get("/", headers=named(ANA))).status_code == 200
    former = visitor.session
    await revoke_key(gateway, "people")
    gone = await visitor.get("/", headers=named(ANA))
    assert gone.status_code == 403
    assert "the key &#39;people&#39;, which does not exist or has expired" in gone.text
    # Another key of that name is another key.
    await create_key(gateway, "people")
    assert (await visitor.get("/", headers=named(ANA))).status_code == 200
    assert visitor.session != former


async def test_a_logout_lasts_until_the_person_comes_back(visitor: Browser) -> None:
    visitor.http.headers.update(named(ANA))
    left = await visitor.submit("/", "/logout")
    assert left.headers["location"] == "/dashboard/login?done=logged_out"
    page = await visitor.http.get(left.headers["location"])
    assert f"Continue as {ANA}" in page.text
    assert (await visitor.get("/")).status_code == 200


STRANGERS = ServerSettings(bind=("127.0.0.1:0",), trusted_proxies=("192.0.2.0/24",))
stranger = pytest.mark.parametrize("server_settings", [STRANGERS])
"""Whoever is no trusted proxy names nobody."""


@stranger
async def test_its_header_is_ignored_and_logged(visitor: Browser) -> None:
    with capture_logs() as lines:
        pages = [await visitor.get("/", headers=named(ANA)) for _ in range(3)]
    assert {page.headers["location"] for page in pages} == {"/dashboard/login"}
    [line] = [line for line in lines if "names people" in line["event"]]
    assert (line["log_level"], line["header"], line["peer"]) == ("warning", HEADER, "127.0.0.1")
    assert ANA not in str(line)


@stranger
async def test_its_header_does_no_harm_to_a_session(visitor: Browser) -> None:
    assert (await visitor.log_in(KEY)).status_code == 303
    assert (await visitor.get("/", headers=named("eve"))).status_code == 200


@stranger
async def test_an_address_in_x_forwarded_for_is_no_peer(visitor: Browser) -> None:
    refused = await visitor.get("/", headers=named(ANA) | {"x-forwarded-for": "192.0.2.1"})
    assert refused.status_code == 303


class TestBehindTwoProxies:
    @pytest.fixture
    def server_settings(self) -> ServerSettings:
        return ServerSettings(bind=("127.0.0.1:0",), trusted_proxies=("127.0.0.1", "192.0.2.0/24"))

    async def test_the_peer_is_what_is_trusted_not_the_client(self, visitor: Browser) -> None:
        page = await visitor.get("/", headers=named(ANA) | {"x-forwarded-for": "203.0.113.7, 192.0.2.1"})
        assert page.status_code == 200


class TestWithoutTheSetting:
    @pytest.fixture
    def settings(self, server_settings: ServerSettings, storage: StorageSettings) -> Settings:
        return Settings(server=server_settings, auth=AuthSettings(global_key=KEY), storage=storage)

    async def test_no_header_names_anybody(self, visitor: Browser) -> None:
        assert (await visitor.get("/", headers=named(ANA))).headers["location"] == "/dashboard/login"


async def test_a_person_has_sessions_of_their_own(
    visitor: Browser, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another person with the same key does not end them."""
    monkeypatch.setattr("hookgw.core.browser_sessions.MOST_SESSIONS", 2)
    assert (await visitor.get("/", headers=named(ANA))).status_code == 200
    kept = visitor.session
    async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
        other = Browser(http)
        for _ in range(3):
            http.cookies.clear()
            assert (await other.get("/", headers=named(BOB))).status_code == 200
    assert (await visitor.get("/", headers={HEADER: ANA, "cookie": kept})).status_code == 200
