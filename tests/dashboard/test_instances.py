"""The pages of instances, over HTTP."""

import re

import msgspec
import pytest
import trio
import trustme

from hookgw import ConnectionState, Event, Gateway
from hookgw.testing import Receiver, open_receiver
from tests.dashboard.conftest import Browser, emit, set_webhook
from tests.dashboard.test_streams import watching
from tests.public.config import InstancesSettings, Settings
from tests.public.deliveries import Pull
from tests.public.instances import FoundServer
from tests.public.kernel import MASK, TooManyRequests
from tests.public.records import NO_IDENTITY, RetryOptions, TlsIdentity
from tests.public.store import DeliveryQuery
from tests.public.webhooks import parse_registration
from tests.support.certificates import certificate_of
from tests.support.keys import principal_of
from tests.support.room import Room
from tests.support.waits import until

PAGE = "/instances/loja1"


@pytest.fixture
async def loja1(gateway: Gateway) -> str:
    """An instance with the simulator, which shows a code and never opens."""
    await gateway.instances.create("loja1", integration="simulator", options={"connect_delay": "1d"})
    return "loja1"


async def test_an_instance_is_created(browser: Browser, gateway: Gateway) -> None:
    fields = {"name": "loja1", "integration": "simulator", "option.rate": "0.5", "option.qr_code": "true"}
    created = await browser.submit("/instances", "/new-instance", fields)
    assert created.status_code == 201
    [key] = re.findall(r"<code>(.+?)</code>", created.text)
    assert principal_of(gateway, key) is not None
    instance = gateway.instances.get("loja1")
    assert (instance.integration, instance.options) == ("simulator", {"rate": 0.5})
    assert "cannot be shown again" in created.text


async def test_who_deletes_an_account_is_told_that_it_stays_linked(
    browser: Browser, gateway: Gateway, loja1: str
) -> None:
    await gateway.instances.create("plain")
    told = "The account stays linked at its network: to unlink it, end its session first."
    assert told in (await browser.get(f"{PAGE}/settings")).text
    assert told not in (await browser.get("/instances/plain/settings")).text


async def test_a_wrong_filter_stays_in_its_field(browser: Browser) -> None:
    page = await browser.get("/instances?search=loja&tag=acme")
    assert page.status_code == 400
    assert page.text.count("tag must be NAME=VALUE") == 1
    assert 'value="acme"' in page.text
    assert 'value="loja"' in page.text


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ({"name": "no name"}, 400, "letters (A-Z, a-z), digits"),
        ({"name": "loja1"}, 403, "is already in use"),
        ({"name": "x", "integration": "nope"}, 400, "nope"),
        ({"name": "x", "integration": "simulator", "option.rate": "-1"}, 400, "rate"),
        ({"name": "x", "integration": "simulator", "option.rate": "fast"}, 400, "rate must be a number"),
    ],
)
async def test_what_is_wrong_is_said_beside_the_form(
    browser: Browser, loja1: str, fields: dict[str, object], status: int, text: str
) -> None:
    refused = await browser.submit("/instances", "/new-instance", fields)
    assert refused.status_code == status
    alert = refused.text.partition('role="alert"')[2].partition("</div>")[0]
    assert text in alert
    assert f'value="{fields["name"]}"' in refused.text


async def test_an_instance_without_its_connector_says_what_to_do(browser: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("shop", requested_integration="WHATSAPP-BAILEYS")
    for path in ("/instances", "/instances/shop"):
        assert "No connector is set up for WHATSAPP-BAILEYS" in (await browser.get(path)).text


async def test_the_options_of_a_connector_can_be_asked_for(browser: Browser) -> None:
    fields = (await browser.get("/new-instance/options?integration=simulator")).text
    assert 'name="option.rate"' in fields
    assert (await browser.get("/new-instance/options?integration=nope")).text == ""
    # Without JavaScript the page itself has them.
    assert 'name="option.rate"' in (await browser.get("/instances?integration=simulator")).text


async def test_instances_are_filtered_and_sorted(browser: Browser, gateway: Gateway) -> None:
    for name in ("a", "b", "c"):
        await gateway.instances.create(name)
    await set_webhook(gateway, "b")
    data = Event.encode({"state": "open", "wuid": "5511988887777@s.whatsapp.net"})
    event = Event(id="evt", kind="CONNECTION_UPDATE", instance="c", data_json=data, time=gateway.clock.wall())
    await gateway.events.accept([event])
    shown = {}
    for query in (
        "",
        "sort=-name",
        "sort=-webhooks",
        "state=open",
        "search=55+11+98888-7777",
        "state=failing",
    ):
        page = (await browser.get(f"/instances?{query}")).text
        shown[query] = re.findall(r'<tr id="row-(\w+)"', page)
    assert [*shown.values()] == [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"], ["c"], ["c"], []]
    assert (await browser.get("/instances?tag=nonsense")).status_code == 400


async def test_a_webhook_that_hookgw_disabled_fails_until_it_is_enabled(
    browser: Browser, gateway: Gateway
) -> None:
    for name in ("loja1", "other"):
        await gateway.instances.create(name)
    await set_webhook(gateway)
    gone = gateway.registrations.get("loja1")
    await gateway.auto_disable.disable(gone, "The receiver answered 410 Gone.")
    page = (await browser.get("/instances?state=failing")).text
    assert re.findall(r'<tr id="row-(\w+)"', page) == ["loja1"]
    assert "1 failing</span>" in page
    await set_webhook(gateway)
    assert "No instance matches" in (await browser.get("/instances?state=failing")).text


async def test_names_are_searched_and_paged(browser: Browser, gateway: Gateway) -> None:
    for number in range(51):
        await gateway.instances.create(f"shop-{number:02}")
    await gateway.instances.create("Other")
    first = (await browser.get("/instances")).text
    assert ">shop-48</a>" in first
    assert ">shop-49</a>" not in first
    assert ">shop-50</a>" in (await browser.get("/instances?page=2")).text
    found = (await browser.get("/instances?search=OTH")).text
    assert ">Other</a>" in found
    assert "shop-" not in found
    assert "No instance matches" in (await browser.get("/instances?search=<b>")).text


async def test_the_code_is_a_picture(browser: Browser, gateway: Gateway, loja1: str) -> None:
    connected = await browser.submit(PAGE, f"{PAGE}/connect")
    assert connected.headers["location"] == "/dashboard/instances/loja1/connection?done=connecting"
    page = (await browser.get(PAGE)).text
    assert gateway.instances.connection_state("loja1") is ConnectionState.CONNECTING
    assert '<img alt="QR code" src="data:image/svg+xml' in page
    await browser.submit(PAGE, f"{PAGE}/end")
    assert 'alt="QR code"' not in (await browser.get(PAGE)).text


async def test_the_button_to_connect_follows_the_state(
    browser: Browser, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gateway.instances.create("loja1", integration="simulator", options={"connect_delay": "0s"})
    button = '<button form="connect" class="primary">Connect</button>'
    async with watching(browser, "/dashboard/live/instance/loja1") as events:
        assert button in (await events.next())["data"]
        await browser.submit(PAGE, f"{PAGE}/connect")
        while button in (await events.next())["data"]:
            pass
        await browser.submit(PAGE, f"{PAGE}/end")
        while button not in (await events.next())["data"]:
            pass
    monkeypatch.setattr(gateway.connectors, "missing", lambda _: "It is not available.")
    assert ">Connect</button>" not in (await browser.get(PAGE)).text


async def test_from_the_form_to_the_code_is_one_button(
    browser: Browser,
) -> None:
    """The page of a new instance connects it; then it shows the code and asks for the receiver's URL."""
    fields = {"name": "loja1", "integration": "simulator", "option.connect_delay": "1d"}
    fields["option.qr_code"] = "true"
    created = await browser.submit("/instances", "/new-instance", fields)
    assert "/instances/loja1/connect" in created.text
    connected = await browser.submit(PAGE, f"{PAGE}/connect")
    assert connected.headers["location"].startswith(f"/dashboard{PAGE}")
    page = (await browser.get(PAGE)).text
    assert 'alt="QR code"' in page
    assert f'href="/dashboard{PAGE}/webhooks#url"' in page
    assert 'id="url"' in (await browser.get(f"{PAGE}/webhooks")).text
    await browser.submit(PAGE, f"{PAGE}/webhooks", {"url": "http://127.0.0.1:9/", "enabled": "true"})
    assert "#url" not in (await browser.get(PAGE)).text


async def test_without_a_connector_there_is_nothing_to_connect(browser: Browser) -> None:
    created = await browser.submit("/instances", "/new-instance", {"name": "loja1"})
    assert "/instances/loja1/connect" not in created.text


class TestWithAUsualIntegration:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        instances = InstancesSettings(integrations={"WHATSAPP-BAILEYS": "simulator"})
        return msgspec.structs.replace(settings, instances=instances)

    async def test_it_is_chosen_in_the_form(self, browser: Browser) -> None:
        page = (await browser.get("/instances")).text
        assert "<option selected>simulator</option>" in page
        assert 'name="option.rate"' in page
        assert "<option selected>" not in (await browser.get("/instances?integration=")).text


async def test_servers_are_found_by_a_button_for_global_keys(
    browser: Browser, visitor: Browser, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [FoundServer("waha", "http://waha:3000", None, False, "plugins: {options: {}}")]

    async def find() -> list[FoundServer]:
        return found

    monkeypatch.setattr(gateway.server_search, "find", find)
    assert "waha:3000" not in (await browser.get("/instances")).text
    page = (await browser.submit("/instances", "/find-servers")).text
    assert "http://waha:3000" in page
    assert "<code>plugins: {options: {}}</code>" in page
    found.clear()
    assert "None of these answers" in (await browser.submit("/instances", "/find-servers")).text

    created = await gateway.instances.create("loja2")
    await browser.submit("/", "/logout")
    await visitor.log_in(created.key)
    page = (await visitor.get("/instances")).text
    assert "Find servers" not in page
    assert (await visitor.submit("/instances", "/find-servers")).status_code == 403


async def test_a_webhook_is_set_with_its_secret_and_changed(
    browser: Browser, gateway: Gateway, loja1: str
) -> None:
    fields = {
        "url": "http://ana:geheim@127.0.0.1:9/hook",
        "kind": ["MESSAGES_UPSERT", "SEND_MESSAGE"],
        "enabled": "true",
        "headers": "x-token: sesame\n",
        "ordering": "chat",
        "concurrency": "4",
        "timeout": "5s",
        "schedule": "1s, 1m",
        "max_age": "1h",
        "disable_after": "1d",
    }
    made = await browser.submit(PAGE, f"{PAGE}/webhooks", fields)
    registration = gateway.registrations.get("loja1")
    assert made.status_code == 200
    assert registration.secrets[0].value in made.text
    assert registration.events == ("MESSAGES_UPSERT", "SEND_MESSAGE")
    assert (registration.headers, registration.concurrency, registration.timeout) == (
        {"x-token": "sesame"},
        4,
        5,
    )
    assert registration.retry == RetryOptions(schedule=(1, 60), max_age=3600, disable_after=86400)
    own = f"{PAGE}/webhooks/default?tab=settings"
    page = (await browser.get(own)).text
    assert 'value="1s 1m"' in page
    for secret in ("geheim", "sesame", registration.secrets[0].value):
        assert secret not in page
    # What is masked is sent back as it is shown, and keeps its value.
    masked = re.search(r'name="url"[^>]* value="([^"]+)"', page)
    assert masked is not None
    fields |= {"url": masked[1], "headers": "x-token: ********", "kind": [], "own_page": "true"}
    fields |= {"max_age": "2h", "disable_after": ""}
    changed = await browser.submit(own, f"{PAGE}/webhooks", {**fields, "label": "default"})
    assert changed.headers["location"] == f"/dashboard{own}&done=saved"
    again = gateway.registrations.get("loja1")
    assert (again.url, again.headers, again.events) == (registration.url, registration.headers, ())
    assert again.retry == RetryOptions(schedule=(1, 60), max_age=7200)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"url": "ftp://x"}, "url"),
        ({"url": "http://a.test", "headers": "no colon"}, "Headers, line 1"),
        ({"url": "http://a.test", "headers": "a: 1\na: 2"}, "Headers, line 2: this header is there twice"),
        ({"url": "http://a.test", "kind": ["NOPE"]}, "NOPE"),
        ({"url": "http://a.test", "plugins": "{"}, "not JSON"),
        ({"url": "http://a.test", "filter": "["}, "Filter: this is not JSON"),
        ({"url": "http://a.test", "filter": "[" * 50_000}, "Filter: this is nested too deeply"),
        ({"url": "http://a.test", "rate": "fast"}, "a rate such as 20/s"),
        ({"url": "http://a.test", "concurrency": "many"}, "concurrency"),
        ({"url": "http://a.test", "label": "a b"}, "The label"),
    ],
)
async def test_a_wrong_webhook_is_refused_beside_its_form(
    browser: Browser, gateway: Gateway, loja1: str, fields: dict[str, object], text: str
) -> None:
    refused = await browser.submit(PAGE, f"{PAGE}/webhooks", {"enabled": "true", **fields})
    assert refused.status_code == 400
    assert text in refused.text.partition('role="alert"')[2].partition("</div>")[0]
    assert str(fields["url"]) in refused.text
    assert gateway.registrations.of_instance("loja1") == []


class TestAWebhook:
    @pytest.fixture
    async def page(self, browser: Browser, gateway: Gateway, loja1: str) -> str:
        await browser.submit(PAGE, f"{PAGE}/webhooks", {"url": "http://127.0.0.1:9/x", "enabled": "true"})
        return f"{PAGE}/webhooks/default"

    async def test_pause_and_resume(self, browser: Browser, gateway: Gateway, page: str) -> None:
        await browser.submit(page, f"{page}/pause")
        assert gateway.registrations.get("loja1").is_paused
        assert "paused" in (await browser.get(page)).text
        await browser.submit(page, f"{page}/resume")
        assert not gateway.registrations.get("loja1").is_paused

    async def test_a_test_shows_its_attempt(self, browser: Browser, page: str) -> None:
        tried = await browser.submit(page, f"{page}/test")
        assert 'The test: <span class="state unreachable">' in tried.text
        # A reload goes back to the page, and sends nothing again.
        opened = await browser.get(f"{page}/test")
        assert (opened.status_code, opened.headers["location"]) == (303, f"/dashboard{page}")
        assert "Connection refused" in tried.text

    async def test_a_test_sends_what_was_typed(self, browser: Browser, page: str) -> None:
        given = {"kind": "CALL", "data": '{"n": 1}'}
        tried = await browser.submit(page, f"{page}/test", given)
        assert "The test: " in tried.text
        assert "{&#34;n&#34;: 1}" in tried.text
        wrong = await browser.submit(page, f"{page}/test", given | {"data": "{"})
        assert (wrong.status_code, "The data is not JSON" in wrong.text) == (400, True)
        assert (await browser.submit(page, f"{page}/test", {"kind": "NONE"})).status_code == 400

    async def test_the_secret_is_shown_and_rotated(
        self, browser: Browser, gateway: Gateway, page: str
    ) -> None:
        secret = gateway.registrations.get("loja1").secrets[0].value
        assert secret in (await browser.submit(page, f"{page}/secret")).text
        rotated = await browser.submit(page, f"{page}/rotate")
        newest = gateway.registrations.get("loja1").secrets[0].value
        assert newest != secret
        assert newest in rotated.text

    async def test_delete(self, browser: Browser, gateway: Gateway, page: str) -> None:
        refused = await browser.submit(page, f"{page}/delete")
        assert refused.status_code == 400
        assert gateway.registrations.find("loja1") is not None
        await browser.submit(page, f"{page}/delete", {"confirmed": "true"})
        assert gateway.registrations.find("loja1") is None
        assert (await browser.get(page)).status_code == 404

    async def test_enable_and_disable(self, browser: Browser, gateway: Gateway, page: str) -> None:
        await browser.submit(page, f"{page}/disable")
        assert not gateway.registrations.get("loja1").enabled
        assert "Enable</button>" in (await browser.get(page)).text
        await browser.submit(page, f"{page}/enable")
        assert gateway.registrations.get("loja1").enabled

    @pytest.mark.parametrize("enables_first", [True, False])
    async def test_what_was_missed_is_sent(
        self, browser: Browser, gateway: Gateway, page: str, enables_first: bool
    ) -> None:
        assert "what it missed" not in (await browser.get(page)).text
        await browser.submit(page, f"{page}/disable")
        await emit(gateway)
        shown = (await browser.get(page)).text
        assert "Enable, and send what it missed (1)</button>" in shown
        if enables_first:
            await browser.submit(page, f"{page}/enable")
            shown = (await browser.get(page)).text
            assert ">Send what it missed (1)</button>" in shown
        sent = await browser.submit(page, f"{page}/backfill")
        assert sent.headers["location"].endswith("?done=backfilled")
        assert gateway.registrations.get("loja1").enabled
        assert gateway.backlog.of_instance("loja1")[0] == 1
        assert "what it missed" not in (await browser.get(page)).text
        refused = await browser.submit(page, f"{page}/backfill/cancel")
        assert "No backfill of this webhook is under way." in refused.text

    async def test_a_disabled_webhook_in_the_list_can_be_sent_what_it_missed(
        self, browser: Browser, gateway: Gateway, page: str
    ) -> None:
        button = '<button form="backfill" name="webhook" value="loja1/default"'
        assert button not in (await browser.get(PAGE)).text
        await browser.submit(page, f"{page}/disable")
        await emit(gateway)
        assert button in (await browser.get(PAGE)).text
        sent = await browser.submit(PAGE, "/webhooks/backfill", {"webhook": "loja1/default"})
        assert sent.headers["location"] == f"/dashboard{page}?done=backfilled"
        assert gateway.registrations.get("loja1").enabled
        assert gateway.backlog.of_instance("loja1")[0] == 1

    async def test_pending_deliveries_are_cancelled_after_a_look(
        self, browser: Browser, gateway: Gateway, page: str
    ) -> None:
        await gateway.registrations.pause("loja1")
        await emit(gateway)
        asked = await browser.submit(page, f"{page}/cancel")
        assert "1 pending delivery becomes a dead letter" in asked.text
        assert gateway.backlog.of_instance("loja1")[0] == 1
        done = await browser.submit(page, f"{page}/cancel", {"confirmed": "true"})
        assert done.headers["location"].endswith("?done=cancelled")
        assert gateway.backlog.of_instance("loja1")[0] == 0
        assert "Nothing is pending" in (await browser.submit(page, f"{page}/cancel")).text

    async def test_pending_deliveries_are_cancelled_although_the_clock_was_set_back(
        self, browser: Browser, gateway: Gateway, page: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wall = gateway.clock.wall
        monkeypatch.setattr(gateway.clock, "wall", lambda: wall() - 3600)
        await gateway.registrations.pause("loja1")
        await emit(gateway)
        asked = await browser.submit(page, f"{page}/cancel")
        assert "1 pending delivery becomes a dead letter" in asked.text

    async def test_rate_and_filter(self, browser: Browser, gateway: Gateway, page: str) -> None:
        fields = {"url": "http://127.0.0.1:9/x", "enabled": "true", "own_page": "true", "label": "default"}
        chosen = '[{"pointer": "/data/key/fromMe", "op": "equals", "value": false}]'
        saved = await browser.submit(page, f"{PAGE}/webhooks", {**fields, "rate": "20/s", "filter": chosen})
        assert saved.status_code == 303
        stored = gateway.registrations.get("loja1")
        assert (str(stored.rate), len(stored.filter)) == ("20/s", 1)
        shown = (await browser.get(f"{page}?tab=settings")).text
        assert 'value="20/s"' in shown
        assert "/data/key/fromMe" in shown
        await browser.submit(page, f"{PAGE}/webhooks", {**fields, "rate": "", "filter": ""})
        stored = gateway.registrations.get("loja1")
        assert (stored.rate, stored.filter) == (None, ())

    async def test_a_tls_identity_is_set_kept_and_removed(
        self, browser: Browser, gateway: Gateway, page: str
    ) -> None:
        authority = trustme.CA()
        certificate, key = certificate_of(authority)
        fields = {"url": "https://127.0.0.1:9/x", "enabled": "true", "own_page": "true", "label": "default"}
        tls = {"tls_certificate": certificate, "tls_key": key, "tls_server_name": "receiver.internal"}
        saved = await browser.submit(page, f"{PAGE}/webhooks", {**fields, **tls, "tls_ca": ""})
        assert saved.status_code == 303
        stored = gateway.registrations.get("loja1").tls
        assert stored == TlsIdentity(None, certificate, key, "receiver.internal")
        shown = (await browser.get(f"{page}?tab=settings")).text
        assert certificate.strip() in shown
        assert "PRIVATE KEY-----\n" not in shown
        # As the form sends it back.
        await browser.submit(
            page, f"{PAGE}/webhooks", {**fields, **tls, "tls_key": MASK, "tls_server_name": ""}
        )
        assert gateway.registrations.get("loja1").tls == TlsIdentity(None, certificate, key)
        refused = await browser.submit(page, f"{PAGE}/webhooks", {**fields, "tls_ca": "no"})
        assert "tls.ca contains no PEM certificate" in refused.text
        await browser.submit(page, f"{PAGE}/webhooks", {**fields, **dict.fromkeys(tls, ""), "tls_ca": ""})
        assert gateway.registrations.get("loja1").tls == NO_IDENTITY

    async def test_a_failing_one_says_why_and_since_when(
        self, browser: Browser, gateway: Gateway, page: str
    ) -> None:
        await emit(gateway)
        with trio.fail_after(20):
            webhook = gateway.registrations.get("loja1").id
            await until(lambda: gateway.auto_disable.failing_since(webhook) is not None)
        for where in (page, PAGE):
            shown = (await browser.get(where)).text
            assert "failing</span> " in shown
            assert "of 127.0.0.1: Connection refused." in shown
        assert (await browser.get("/live/webhook/loja1/nope")).status_code == 404


async def test_keys_are_made_and_revoked(browser: Browser, gateway: Gateway, loja1: str) -> None:
    made = await browser.submit(PAGE, f"{PAGE}/keys/create", {"key_name": "n8n", "expires_in": "30d"})
    [key] = re.findall(r"<code>(.+?)</code>", made.text)
    assert principal_of(gateway, key) is not None
    assert "n8n" in (await browser.get(f"{PAGE}/keys")).text
    await browser.submit(PAGE, f"{PAGE}/keys/n8n/revoke")
    assert principal_of(gateway, key) is None
    refused = await browser.submit(PAGE, f"{PAGE}/keys/create", {"key_name": "a b"})
    assert refused.status_code == 400
    assert 'role="alert"' in refused.text
    assert (await browser.submit(PAGE, f"{PAGE}/keys/nope/revoke")).status_code == 404


async def test_the_page_needs_no_history(
    browser: Browser, gateway: Gateway, loja1: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(query: DeliveryQuery) -> None:
        raise TooManyRequests("Too many reads.", retry_after=1)

    monkeypatch.setattr(gateway.history, "list", refuse)
    page = await browser.get(PAGE)
    assert page.status_code == 200
    assert "Too many reads." in page.text


async def test_a_connection_that_cannot_begin_says_why(browser: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("plain")
    for action in ("connect", "restart", "end"):
        refused = await browser.submit("/instances/plain", f"/instances/plain/{action}")
        assert refused.status_code == 409
        assert "no connector" in refused.text.partition('role="alert"')[2].partition("</div>")[0]


async def test_an_example_is_emitted(browser: Browser, gateway: Gateway, loja1: str) -> None:
    async with open_receiver() as receiver:
        await _set(browser, receiver)
        await browser.submit(PAGE, f"{PAGE}/emit", {"kind": "CONNECTION_UPDATE"})
        await receiver.wait_for(1)
        assert receiver.events()[0]["event"] == "CONNECTION_UPDATE"
    assert (await browser.submit(PAGE, f"{PAGE}/emit", {"kind": "NOPE"})).status_code == 400


async def _set(browser: Browser, receiver: Receiver) -> None:
    await browser.submit(PAGE, f"{PAGE}/webhooks", {"url": receiver.url, "enabled": "true"})


async def test_a_text_needs_a_connection(browser: Browser, loja1: str) -> None:
    refused = await browser.submit(PAGE, f"{PAGE}/send", {"number": "5511999999999", "text": "Oi"})
    assert refused.status_code == 409
    assert "not connected" in refused.text.partition('role="alert"')[2]
    assert "Oi" in refused.text


async def test_options_are_changed(browser: Browser, gateway: Gateway, loja1: str) -> None:
    await browser.submit(PAGE, f"{PAGE}/options", {"option.rate": "3", "option.qr_code": "true"})
    assert gateway.instances.get("loja1").options["rate"] == 3
    refused = await browser.submit(PAGE, f"{PAGE}/options", {"option.rate": "-3"})
    assert refused.status_code == 400
    assert 'value="-3"' in refused.text


async def test_a_deletion_is_confirmed_by_the_name(browser: Browser, gateway: Gateway, loja1: str) -> None:
    refused = await browser.submit(PAGE, f"{PAGE}/delete", {"confirmation": "loja2"})
    assert refused.status_code == 400
    assert gateway.instances.find("loja1") is not None
    await browser.submit(PAGE, f"{PAGE}/delete", {"confirmation": "loja1"})
    assert gateway.instances.find("loja1") is None
    assert (await browser.get(PAGE)).status_code == 404


async def test_a_tenant_can_do_nothing_to_another(visitor: Browser, gateway: Gateway, loja1: str) -> None:
    await gateway.instances.create("mine", token="key-of-mine")
    await visitor.log_in("key-of-mine")
    for path in (PAGE, "/live/instance/loja1", f"{PAGE}/webhooks/default"):
        assert (await visitor.get(path)).status_code == 403
    for action in ("connect", "webhooks", "delete", "keys/create", "emit"):
        assert (await visitor.submit("/instances/mine", f"{PAGE}/{action}")).status_code == 403
    assert (await visitor.submit("/instances/mine", "/new-instance", {"name": "x"})).status_code == 403
    assert "Create instance" not in (await visitor.get("/instances")).text


async def test_markup_from_outside_is_text(browser: Browser, gateway: Gateway, loja1: str) -> None:
    evil = '"><script>alert(1)</script>'
    refused = await browser.submit(PAGE, f"{PAGE}/webhooks", {"url": evil, "headers": evil, "label": evil})
    assert "<script>alert" not in refused.text
    assert "<script>alert" not in (await browser.get("/instances", params={"search": evil})).text


async def test_a_webhook_whose_receiver_fetches_says_when_it_did(
    browser: Browser, gateway: Gateway, loja1: str
) -> None:
    change, _ = parse_registration({"url": "pull:"}, gateway.catalog)
    await gateway.registrations.set("loja1", "default", change)
    page = (await browser.get(PAGE)).text
    assert "nobody has fetched since" in page
    await gateway.pulls.pull("loja1", "default", Pull(consumer="n8n-1"), Room())
    own_page = (await browser.get(f"{PAGE}/webhooks/default")).text
    assert re.search(r"last fetched \S+ m?s ago by n8n-1", own_page)
    await emit(gateway, "loja1")
    lanes = (await browser.get("/lanes")).text
    assert "for its receiver to fetch" in lanes
