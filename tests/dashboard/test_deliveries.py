"""The pages of deliveries, over HTTP."""

import html
import json
import re
import shlex
from collections.abc import Mapping

import msgspec
import pytest
import trio

from hookgw import DeliveryState, Event, Gateway, Right
from hookgw.testing import Answer, Received, Receiver, answer
from hookgw.web.server import response_memory
from tests.api.test_route_walk import add_key
from tests.dashboard.conftest import Browser, set_webhook
from tests.dashboard.test_streams import watching
from tests.public.records import Reach
from tests.public.web import PAGE
from tests.public.web import AppApplication as Application
from tests.public.webhooks import parse_registration
from tests.support.waits import until

LIST = "/deliveries"


@pytest.fixture
async def loja1(gateway: Gateway, hookgw_receiver: Receiver) -> str:
    """An instance whose first delivery is refused, and whose second one arrives."""
    await gateway.instances.create("loja1", token="key-of-loja1")
    body = {"url": hookgw_receiver.url.replace("//", "//ana:geheim@"), "headers": {"x-token": "verborgen"}}
    change, _ = parse_registration(body, gateway.catalog)
    await gateway.registrations.set("loja1", "default", change)
    hookgw_receiver.will(answer(422, body=b"<b>no</b>"), answer(200))
    for number, kind in enumerate(("MESSAGES_UPSERT", "CONNECTION_UPDATE")):
        await emit(gateway, kind, f"evt_{number}")
    await hookgw_receiver.wait_for(2)
    await until(lambda: not gateway.backlog.of_instance("loja1")[0])
    await gateway.store.flush()
    return "loja1"


async def emit(gateway: Gateway, kind: str, event_id: str, instance: str = "loja1") -> None:
    data = Event.encode({"text": "Olá <b>mundo</b>", "key": {"id": event_id}})
    event = Event(id=event_id, kind=kind, instance=instance, data_json=data, time=gateway.clock.wall())
    await gateway.events.accept([event])


def shown(page: str) -> list[str]:
    """Return the ids of the deliveries in a list."""
    return re.findall(r'class="quiet mono">(dlv_\d+)<', page)


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("", ["dlv_2", "dlv_1"]),
        ("instance=loja1", ["dlv_2", "dlv_1"]),
        ("state=dead", ["dlv_1"]),
        ("instance=loja1&state=dead", ["dlv_1"]),
        ("instance=loja1&state=delivered", ["dlv_2"]),
        ("kind=connection.update", ["dlv_2"]),
        ("instance=loja1&label=default", ["dlv_2", "dlv_1"]),
        ("since=2h", ["dlv_2", "dlv_1"]),
        ("until=2020-01-01T00:00:00Z", []),
        ("until=2h", []),
        ("since=today", ["dlv_2", "dlv_1"]),
        ("until=yesterday 14:00", []),
        ("instance=loja*", ["dlv_2", "dlv_1"]),
        ("text=422", ["dlv_1"]),
        ("text=no</b>", ["dlv_1"]),
        ("text=nothing", []),
        ("instance=loja1&text=dlv_2", ["dlv_2"]),
        ("instance=loja1&text=evt_0", ["dlv_1"]),
    ],
)
async def test_the_filters(browser: Browser, loja1: str, query: str, ids: list[str]) -> None:
    page = (await browser.get(f"{LIST}?{query}")).text
    assert shown(page) == ids
    if not ids:
        assert "No delivery matches these filters" in page


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("state:dead", ["dlv_1"]),
        ("kind:connection.update instance:loja1", ["dlv_2"]),
        ("status:422", ["dlv_1"]),
        ("webhook:default", ["dlv_2", "dlv_1"]),
        ("422", ["dlv_1"]),
        ("mundo", ["dlv_2", "dlv_1"]),
        ("payload:mundo state:dead", ["dlv_1"]),
        ('"mundo</b>" state:delivered', ["dlv_2"]),
        ("since:today", ["dlv_2", "dlv_1"]),
        ("loja1 state:dead", ["dlv_1"]),
        ("tag:acme", ["dlv_2", "dlv_1"]),
        ("tag:tenant=acme", ["dlv_2", "dlv_1"]),
        ("+55 11 98888-7777", ["dlv_3"]),
        ("nothing", []),
    ],
)
async def test_a_search(
    browser: Browser, gateway: Gateway, hookgw_receiver: Receiver, loja1: str, query: str, ids: list[str]
) -> None:
    await gateway.instances.change_tags("loja1", {"tenant": "acme"})
    if "98888" in query:
        data = Event.encode({"key": {"remoteJid": "5511988887777@s.whatsapp.net", "id": "3EB0"}})
        event = Event(
            id="evt_p", kind="MESSAGES_UPSERT", instance=loja1, data_json=data, time=gateway.clock.wall()
        )
        await gateway.events.accept([event])
    page = await browser.get(LIST, params={"q": query})
    assert shown(page.text) == ids, page.text


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("dlv_2", "/deliveries/loja1/dlv_2"),
        ("evt_0", "/deliveries/loja1/dlv_1"),
        ("id:evt_0", "/deliveries/loja1/dlv_1"),
    ],
)
async def test_an_id_of_any_kind_is_found(browser: Browser, loja1: str, query: str, place: str) -> None:
    found = await browser.get("/search", params={"q": query})
    found = await browser.http.get(found.headers["location"])
    assert found.headers["location"] == f"/dashboard{place}"


async def test_a_search_for_a_name_shows_the_instance(
    browser: Browser, visitor: Browser, gateway: Gateway, loja1: str
) -> None:
    assert (await browser.get("/search?q=loja1")).headers["location"] == "/dashboard/instances/loja1"
    await gateway.instances.create("mine", token="key-of-mine")
    await visitor.log_in("key-of-mine")
    assert (await visitor.get("/search?q=loja1")).headers["location"] == "/dashboard/deliveries?q=loja1"
    for query in ("dlv_1", "evt_0", "id:evt_0"):
        page = await visitor.get(LIST, params={"q": query})
        assert "location" not in page.headers
        assert shown(page.text) == []


@pytest.mark.parametrize(
    ("query", "status_code", "text"),
    [
        ("state:lost", 400, "lost"),
        ("tag:nobody", 404, "nobody"),
        ("id:dlv_99", 404, "dlv_99"),
        ("id:dlv_999999999999999999", 404, "dlv_999999999999999999"),
        ("state:dead state:dead", 400, "twice"),
        ("instance:nope", 404, "nope"),
    ],
)
async def test_a_wrong_search_is_explained(
    browser: Browser, loja1: str, query: str, status_code: int, text: str
) -> None:
    page = await browser.get(LIST, params={"q": query})
    assert page.status_code == status_code
    assert text in page.text.partition('role="alert"')[2].partition("</div>")[0]
    assert f'value="{query}"' in page.text


async def test_a_search_is_completed_from_what_there_is(
    browser: Browser, visitor: Browser, gateway: Gateway, loja1: str
) -> None:
    await gateway.instances.change_tags("loja1", {"tenant": "acme"})
    await gateway.instances.create("mine", token="key-of-mine")
    for query, words in (
        ("sta", ["state:", "status:"]),
        ("x state:de", ["x state:delivered", "x state:dead"]),
        ("lo", ["loja1"]),
        ("instance:", ["instance:loja1", "instance:mine"]),
        ("tag:a", ["tag:acme"]),
        ("webhook:", ["webhook:default"]),
        ("host:127", ["host:127.0.0.1"]),
        ("kind:messages_ups", ["kind:MESSAGES_UPSERT"]),
    ):
        assert (await browser.get("/search/words", params={"q": query})).json() == words
    await visitor.log_in("key-of-mine")
    for query in ("lo", "tag:a", "webhook:", "host:"):
        assert (await visitor.get("/search/words", params={"q": query})).json() == []
    await visitor.log_in(add_key(gateway, Reach(), [Right.READ]))
    for query, words in (("pay", []), ("per", []), ("kin", ["kind:"])):
        assert (await visitor.get("/search/words", params={"q": query})).json() == words


@pytest.mark.parametrize(
    ("query", "status_code", "text"),
    [
        ("state=lost", 400, "lost"),
        ("kind=NOPE", 400, "NOPE"),
        ("since=someday", 400, "From must be a time"),
        ("instance=nope", 404, "nope"),
        ("instance=loja1&label=nope", 404, "nope"),
    ],
)
async def test_a_wrong_filter_is_explained(
    browser: Browser, loja1: str, query: str, status_code: int, text: str
) -> None:
    page = await browser.get(f"{LIST}?{query}")
    assert page.status_code == status_code
    assert text in page.text.partition('role="alert"')[2].partition("</div>")[0]


async def test_what_is_filtered_is_exported(
    browser: Browser, gateway: Gateway, loja1: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.deliveries.pages.export.STEP", 1)
    lines = (await browser.get(f"{LIST}/export?format=ndjson")).text.splitlines()
    assert [msgspec.json.decode(line)["id"] for line in lines] == ["dlv_2", "dlv_1"]
    table = await browser.get(f"{LIST}/export?state=dead&format=csv")
    assert table.headers["content-disposition"] == 'attachment; filename="deliveries.csv"'
    head, row = table.text.splitlines()
    assert head.startswith("acceptedAt,instance,kind,id,eventId,state,")
    assert ",loja1,MESSAGES_UPSERT,dlv_1,evt_0,dead," in row
    assert "geheim" not in table.text
    # What a tenant names is no formula in a program for tables.
    change, _ = parse_registration({"url": "http://127.0.0.1:9/x"}, gateway.catalog)
    await gateway.registrations.set(loja1, "-1", change)
    await emit(gateway, "MESSAGES_UPSERT", "evt_3")
    assert ",'-1," in (await browser.get(f"{LIST}/export?format=csv")).text
    monkeypatch.setattr("hookgw.deliveries.pages.export.MOST_EXPORTED", 2)
    assert len((await browser.get(f"{LIST}/export?format=ndjson")).text.splitlines()) == 2
    assert (await browser.get(f"{LIST}/export?format=xls")).status_code == 400


async def test_an_empty_list_says_why(browser: Browser) -> None:
    assert "Nothing was sent yet" in (await browser.get(LIST)).text


async def test_the_list_goes_on_with_older_deliveries(browser: Browser, gateway: Gateway, loja1: str) -> None:
    for number in range(60):
        await emit(gateway, "MESSAGES_UPSERT", f"more_{number}")
    first = (await browser.get(f"{LIST}?instance=loja1")).text
    older = re.search(r'rel="next" href="/dashboard([^"]+)"', first)
    assert older is not None
    second = (await browser.get(older[1].replace("&amp;", "&"))).text
    assert [*shown(first), *shown(second)] == [f"dlv_{number}" for number in range(62, 0, -1)]


async def test_a_delivery_shows_what_happened(browser: Browser, loja1: str) -> None:
    page = (await browser.get(f"{LIST}/loja1/dlv_1")).text
    assert "status 422" in page
    assert "&lt;b&gt;no&lt;/b&gt;" in page
    assert "Olá &lt;b&gt;mundo&lt;/b&gt;" in page
    assert "x-token: ********" in page
    for secret in ("geheim", "verborgen"):
        assert secret not in page
    assert (await browser.get(f"{LIST}/loja1/dlv_99")).status_code == 404
    assert (await browser.get(f"{LIST}/loja1/evt_0")).status_code == 200


async def test_the_curl_command_of_a_delivery_sends_the_same_body_to_the_same_place(
    browser: Browser, gateway: Gateway, hookgw_receiver: Receiver, loja1: str
) -> None:
    url = f"{hookgw_receiver.url}hook?a=[1-2]"
    body = {"url": url, "byEvents": True, "headers": {"x-it's": "a"}}
    change, _ = parse_registration(body, gateway.catalog)
    await gateway.registrations.set("loja1", "default", change)
    await emit(gateway, "MESSAGES_UPSERT", "evt_3")
    await hookgw_receiver.wait_for(3)
    await gateway.store.flush()
    page = (await browser.get("/deliveries/loja1/evt_3")).text
    [command] = re.findall(r"<code>(curl .*?)</code>", page, re.DOTALL)
    words = shlex.split(html.unescape(re.sub("<[^>]+>", "", command)))
    assert words[:4] == ["curl", "-g", "-X", "POST"]
    request = hookgw_receiver.requests[-1]
    assert words[4] == f"{hookgw_receiver.url}hook/messages-upsert?a=[1-2]"
    assert "x-it's: ********" in words
    sent = json.loads(words[words.index("--data-raw") + 1])
    assert sent == request.json
    # Nobody posts these, or nobody can.
    for other in {"url": "pull:"}, {"url": "http:// nowhere", "enabled": False}:
        change, _ = parse_registration(other, gateway.catalog)
        await gateway.registrations.set("loja1", "default", change)
        page = (await browser.get("/deliveries/loja1/evt_3")).text
        assert "<code>curl" not in page


async def test_a_delivery_that_was_answered_late_says_so(
    browser: Browser, gateway: Gateway, hookgw_receiver: Receiver
) -> None:
    may_answer = trio.Event()

    async def late(_: Received) -> Answer:
        await may_answer.wait()
        return answer()

    await gateway.instances.create("slow")
    body = {"url": hookgw_receiver.url, "timeout": "1s", "retry": {"schedule": ["1h"]}}
    change, _ = parse_registration(body, gateway.catalog)
    await gateway.registrations.set("slow", "default", change)
    hookgw_receiver.will(late)
    await emit(gateway, "CALL", "evt", "slow")
    webhook = gateway.registrations.get("slow").id
    with trio.fail_after(20):
        await until(lambda: gateway.auto_disable.failing_since(webhook) is not None)
        may_answer.set()
        await until(lambda: not gateway.backlog.of_instance("slow")[0])
    # Its only attempt is unanswered; without the reason, nobody would understand why it is delivered.
    for page in (f"{LIST}/slow/evt", f"{LIST}?instance=slow"):
        assert "Attempt 1 was answered late: status 200" in (await browser.get(page)).text


async def test_a_delivery_that_was_not_tried_says_what_it_waits_for(
    browser: Browser, gateway: Gateway
) -> None:
    await gateway.instances.create("loja2")
    await set_webhook(gateway, "loja2")
    for name in ("first", "second"):
        await emit(gateway, "MESSAGES_UPSERT", name, "loja2")
    with trio.fail_after(20):
        webhook = gateway.registrations.get("loja2").id
        await until(lambda: gateway.auto_disable.failing_since(webhook) is not None)
    page = (await browser.get("/deliveries/loja2/second")).text
    assert "It waits for those before it, which go first. No connection to port 9" in page
    await gateway.registrations.pause("loja2")
    assert "It waits: the webhook is paused." in (await browser.get("/deliveries/loja2/second")).text


async def test_a_delivery_is_replayed(browser: Browser, hookgw_receiver: Receiver, loja1: str) -> None:
    page = f"{LIST}/loja1/dlv_1"
    assert (await browser.submit(page, f"{page}/resend")).headers["location"].endswith("?done=resent")
    await hookgw_receiver.wait_for(3)
    assert hookgw_receiver.ids[0] == hookgw_receiver.ids[2]


async def test_a_delivery_is_sent_with_other_data(
    browser: Browser, hookgw_receiver: Receiver, loja1: str
) -> None:
    page = f"{LIST}/loja1/dlv_1"
    assert "Send as a new event" in (await browser.get(page)).text
    sent = await browser.submit(page, f"{page}/resend", {"data": '\r\n {"n": 1.50}\r\n'})
    assert sent.headers["location"].endswith("?done=resent")
    await hookgw_receiver.wait_for(3)
    assert b'"data":{"n": 1.50}' in hookgw_receiver.requests[2].body
    assert hookgw_receiver.requests[2].header("x-edited-from") == hookgw_receiver.ids[0]
    wrong = await browser.submit(page, f"{page}/resend", {"data": "{no"})
    assert wrong.status_code == 400
    assert "The data is not JSON" in wrong.text
    assert "{no" in wrong.text  # what was typed is still there


async def test_a_delivery_is_sent_once_to_another_url(
    browser: Browser, hookgw_receiver: Receiver, loja1: str
) -> None:
    page = f"{LIST}/loja1/dlv_1"
    tried = await browser.submit(page, f"{page}/resend", {"url": f"{hookgw_receiver.url}elsewhere"})
    assert 'The request: <span class="state delivered">' in tried.text
    assert hookgw_receiver.requests[-1].target == "/elsewhere"
    assert hookgw_receiver.requests[-1].header("webhook-signature") is None
    wrong = await browser.submit(page, f"{page}/resend", {"url": "ftp://x"})
    assert (wrong.status_code, "ftp://x" in wrong.text) == (400, True)


@pytest.mark.parametrize(
    ("shown_on", "back_to"), [("", "/deliveries/loja2/{}"), ("lanes", "/lanes"), ("overview", "/")]
)
async def test_a_delivery_is_skipped(
    browser: Browser, gateway: Gateway, hookgw_receiver: Receiver, shown_on: str, back_to: str
) -> None:
    hookgw_receiver.default = answer(503)
    await gateway.instances.create("loja2")
    await set_webhook(gateway, "loja2", hookgw_receiver.url)
    for name in ("first", "second"):
        await emit(gateway, "MESSAGES_UPSERT", name, "loja2")
    await until(lambda: gateway.auto_disable.failing_since(gateway.registrations.get("loja2").id) is not None)
    first = (await gateway.history.find("loja2", "first")).summary.id
    page = {"": f"{LIST}/loja2/{first}", "lanes": "/lanes", "overview": "/"}[shown_on]
    text = (await browser.get(page)).text
    assert f'name="delivery" value="loja2/{first}"' in text
    assert "Skip this delivery" in text
    fields = {"delivery": f"loja2/{first}", "page": shown_on}
    done = await browser.submit(page, f"{LIST}/skip", fields)
    assert done.headers["location"] == f"/dashboard{back_to.format(first)}?done=skipped"
    found = (await gateway.history.find("loja2", "first")).summary
    assert (found.state, (found.reason or "")[:9]) == (DeliveryState.DEAD, "Cancelled")
    assert "Skip this delivery" not in (await browser.get(f"{LIST}/loja2/{first}")).text
    again = await browser.submit(page, f"{LIST}/skip", fields)
    assert again.status_code == 409
    assert "a dead letter already" in again.text


async def test_several_are_sent_again_the_oldest_first(
    browser: Browser, hookgw_receiver: Receiver, loja1: str
) -> None:
    ticked = {"delivery": ["loja1/dlv_2", "loja1/dlv_1"], "instance": "loja1"}
    sent = await browser.submit(LIST, f"{LIST}/resend", ticked)
    assert sent.headers["location"] == "/dashboard/deliveries?instance=loja1&done=resent"
    await hookgw_receiver.wait_for(4)
    assert hookgw_receiver.ids[2:] == hookgw_receiver.ids[:2]
    nothing = await browser.submit(LIST, f"{LIST}/resend")
    assert nothing.status_code == 400
    unknown = await browser.submit(LIST, f"{LIST}/resend", {"delivery": ["loja1/dlv_77"]})
    assert unknown.status_code == 409
    assert "dlv_77" in unknown.text


async def test_all_that_match_are_counted_before_they_are_sent_again(
    browser: Browser, gateway: Gateway, hookgw_receiver: Receiver, loja1: str
) -> None:
    page = f"{LIST}?instance=loja1"
    asked = {"instance": "loja1", "since": "2h"}
    counted = (await browser.submit(page, f"{LIST}/replay", asked)).text
    assert "finished deliveries</b> of" in counted
    assert re.search(r'<data value="2">2</data> to default of loja1', counted)
    shown = counted.partition('aria-label="Confirm"')[2].partition("</form>")[0]
    fixed = dict(re.findall(r'name="(since|until|instance|kept_\w+)" value="([^"]+)"', shown))
    # What is confirmed is what was counted, and not two hours before then.
    assert fixed["since"].endswith("Z")
    assert fixed["until"].endswith("Z")
    assert fixed["kept_since"] == "2h"
    await emit(gateway, "MESSAGES_UPSERT", "later")
    await hookgw_receiver.wait_for(3)
    done = await browser.submit(page, f"{LIST}/replay", {**fixed, "confirmed": "true"})
    assert done.headers["location"] == "/dashboard/deliveries?instance=loja1&since=2h&done=replayed"
    await hookgw_receiver.wait_for(5)
    assert hookgw_receiver.ids[3:] == hookgw_receiver.ids[:2]
    for name, value, text in (
        ("since", "x", "From"),
        ("label", "nope", "nope"),
        ("state", "pending", "part"),
    ):
        refused = await browser.submit(page, f"{LIST}/replay", {**asked, name: value})
        assert refused.status_code in (400, 404)
        assert text in refused.text.partition('role="alert"')[2]


@pytest.mark.parametrize("action", ["replay", "cancel"])
@pytest.mark.parametrize(
    ("given", "since", "until"),
    [
        ({"since": "1970-01-02 00:00", "until": "now"}, "1970-01-02T00:00:00.000Z", r"2\S+Z"),
        ({"until": "9990-01-02 00:00"}, "", "9990-01-02T00:00:00.000Z"),
        ({"q": 'Since:2h until:"tomorrow 9:00" host:127.0.0.1'}, r"2\S+Z", r"2\S+T09:00:00.000Z"),
        ({"q": "since:1970-01-02 host:127.0.0.1"}, "1970-01-02T00:00:00.000Z", r"2\S+Z"),
    ],
)
async def test_all_that_match_are_fixed_in_time_however_times_are_written(
    browser: Browser, gateway: Gateway, loja1: str, action: str, given: dict[str, str], since: str, until: str
) -> None:
    if action == "cancel":
        await gateway.registrations.pause("loja1")
        await emit(gateway, "MESSAGES_UPSERT", "waits")
    plan = (await browser.submit(LIST, f"{LIST}/{action}", given)).text
    assert "to default of loja1" in plan
    shown = plan.partition('aria-label="Confirm"')[2].partition("</form>")[0]
    fixed = dict(re.findall(r'name="(since|until|q)" value="([^"]+)"', shown))
    assert re.fullmatch(since, fixed.get("since", ""))
    assert re.fullmatch(until, fixed["until"])
    assert fixed.get("q", "") == ("host:127.0.0.1" if "q" in given else "")


async def test_the_buttons_of_a_delivery_change_with_its_state(browser: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("shop")
    await set_webhook(gateway, "shop")
    await gateway.registrations.pause("shop")
    await emit(gateway, "MESSAGES_UPSERT", "waits", "shop")
    async with watching(browser, "/dashboard/live/delivery/shop/waits") as events:
        shown = (await events.next())["data"]
        assert 'formaction="/dashboard/deliveries/skip" name="delivery" value="shop/dlv_' in shown
        assert '<button form="order" disabled>Replay</button>' in shown
        await gateway.deliveries.cancel_one("shop", "waits")
        shown = (await events.next())["data"]
    assert "deliveries/skip" not in shown
    assert '<button form="order" class="primary">Replay</button>' in shown
    done = await browser.submit(f"{LIST}/shop/waits", f"{LIST}/shop/waits/resend")
    assert done.status_code == 303


async def test_all_that_match_are_of_several_instances(
    browser: Browser, gateway: Gateway, hookgw_receiver: Receiver, loja1: str
) -> None:
    await gateway.instances.create("loja2")
    await set_webhook(gateway, "loja2")
    await gateway.registrations.pause("loja2")
    await emit(gateway, "MESSAGES_UPSERT", "waits", "loja2")
    counted = (await browser.submit(LIST, f"{LIST}/cancel", {"state": "pending"})).text
    assert re.search(r'<data value="1">1</data> to default of loja2', counted)
    done = await browser.submit(LIST, f"{LIST}/cancel", {"state": "pending", "confirmed": "true"})
    assert "done=cancel" in done.headers["location"]
    await until(lambda: not gateway.backlog.of_instance("loja2")[0])
    nothing = (await browser.submit(LIST, f"{LIST}/cancel", {"state": "pending"})).text
    assert "No pending delivery matches" in nothing
    counted = (await browser.submit(LIST, f"{LIST}/replay", {"state": "dead"})).text
    assert "dead letters</span>" not in counted
    assert re.search(r'<data value="1">1</data> to default of loja1, <data value="1">', counted)


async def test_a_tenant_sees_and_sends_its_own(visitor: Browser, gateway: Gateway, loja1: str) -> None:
    await gateway.instances.create("mine", token="key-of-mine")
    await visitor.log_in("key-of-mine")
    assert shown((await visitor.get(LIST)).text) == []
    for path in (f"{LIST}?instance=loja1", f"{LIST}/loja1/dlv_1", "/live/delivery/loja1/dlv_1"):
        assert (await visitor.get(path)).status_code == 403
    forms: tuple[tuple[str, Mapping[str, object]], ...] = (
        ("resend", {"delivery": ["loja1/dlv_1"]}),
        ("replay", {"instance": "loja1", "since": "2h"}),
        ("cancel", {"instance": "loja1", "since": "2h"}),
        ("loja1/dlv_1/resend", {}),
        ("skip", {"delivery": "loja1/dlv_1"}),
    )
    for action, fields in forms:
        assert (await visitor.submit(LIST, f"{LIST}/{action}", fields)).status_code == 403
    assert gateway.backlog.of_instance("loja1")[0] == 0


async def test_deliveries_of_a_deleted_instance_stay_in_the_list(
    browser: Browser, gateway: Gateway, loja1: str
) -> None:
    await gateway.instances.delete("loja1")
    page = (await browser.get(LIST)).text
    assert shown(page) == ["dlv_2", "dlv_1"]
    assert "loja1" in page
    assert "/deliveries/loja1" not in page


async def test_a_delivery_that_the_database_holds_back_says_so(
    browser: Browser, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gateway.instances.create("loja2")
    await set_webhook(gateway, "loja2")
    await gateway.registrations.pause("loja2")
    await emit(gateway, "MESSAGES_UPSERT", "first", "loja2")
    # As it is with PostgreSQL: the lane has not heard of it.
    lanes = [
        msgspec.structs.replace(one, backlog=0, held=1, head=None)
        for one in gateway.dispatcher.lanes(gateway.registrations.get("loja2").id)
    ]
    monkeypatch.setattr(gateway.dispatcher, "lanes", lambda _: lanes)
    page = (await browser.get("/deliveries/loja2/first")).text
    assert "It waits: an older transaction in the database holds it back." in page


LONG = {"key": {"id": "evt_long"}, "a": [[[[[[[["<"] * 9]]]]]] * 900]}


class TestLongPayloads:
    """What the page shows of a payload is cut; all of it can be downloaded."""

    @pytest.fixture
    async def path(self, gateway: Gateway, loja1: str, hookgw_receiver: Receiver) -> str:
        hookgw_receiver.will(*[answer(422, body=b"<\"&'" * 1000)] * 20)
        event = Event(
            id="evt_long",
            kind="MESSAGES_UPSERT",
            instance=loja1,
            data_json=Event.encode(LONG),
            time=gateway.clock.wall(),
        )
        await gateway.events.accept([event])
        for number in range(12):
            await hookgw_receiver.wait_for(3 + number)
            await until(lambda: not gateway.backlog.of_instance(loja1)[0])
            await gateway.store.flush()
            if number < 11:
                await gateway.deliveries.resend(loja1, "evt_long")
        return "/deliveries/loja1/dlv_3"

    async def test_the_page_is_cut_and_the_whole_is_a_link(self, browser: Browser, path: str) -> None:
        page = (await browser.get(path)).text
        assert 100_000 < len(page) < PAGE
        attempts = page.count('id="attempt-')
        assert 1 < attempts < 12
        assert re.search(rf'<data value="{12 - attempts}">', page)
        for part in ("data", "body", "attempts"):
            assert f'href="/dashboard{path}/{part}.json"' in page
        assert "--data-binary @dlv_3-body.json" in page

    async def test_the_downloads_have_everything(self, browser: Browser, path: str) -> None:
        data = await browser.get(f"{path}/data.json")
        assert data.json() == LONG
        assert data.headers["content-type"] == "application/json"
        assert data.headers["content-disposition"] == 'attachment; filename="dlv_3-data.json"'
        assert (await browser.get(f"{path}/body.json")).json()["data"] == LONG
        attempts = (await browser.get(f"{path}/attempts.json")).json()
        assert [one["number"] for one in attempts] == list(range(12, 0, -1))
        assert (await browser.get(f"{path}/other.json")).status_code == 404

    async def test_a_tenant_gets_nothing_of_another(
        self, visitor: Browser, gateway: Gateway, path: str
    ) -> None:
        await gateway.instances.create("loja2", token="the-key-of-loja2")
        await visitor.log_in("the-key-of-loja2")
        for part in ("data", "body", "attempts"):
            assert (await visitor.get(f"{path}/{part}.json")).status_code == 403


async def test_pages_wait_for_memory(
    browser: Browser, app: Application, gateway: Gateway, loja1: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_memory, "PATIENCE", 0.01)
    app.response_memory.change("others", 0, gateway.settings.server.response_memory)
    page = await browser.get(LIST)
    assert page.status_code == 503
    assert "server.response_memory" in page.text
    assert page.headers["retry-after"]
    style = re.search(r'href="/dashboard(/assets/[^"]*css[^"]*)"', page.text)
    assert style is not None
    assert (await browser.get(style[1])).status_code == 200
