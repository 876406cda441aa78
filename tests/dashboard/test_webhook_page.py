"""The page of a webhook, tab by tab."""

import re

import pytest
import trio

from hookgw import Event, EventKind, Gateway
from hookgw.testing import open_receiver
from hookgw.webhooks.fields import FIELDS
from tests.dashboard.conftest import Browser, emit, set_webhook
from tests.dashboard.test_streams import watching
from tests.public.kernel import Parts
from tests.public.records import Key, LaneState, Reach
from tests.public.store import DeliveryQuery
from tests.public.webhooks import parse_registration

INSTANCE = "/instances/loja1"
PAGE = f"{INSTANCE}/webhooks/default"
FORM = {"label": "default", "own_page": "true", "enabled": "true"}


@pytest.fixture
async def webhook(gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    await set_webhook(gateway)


def main_of(page: str) -> str:
    return page.partition("<main")[2].partition("</main>")[0]


def tabs_of(page: str) -> list[str]:
    menu = page.partition('<nav class="tabs"')[2].partition("</nav>")[0]
    return re.findall(r"webhooks/default(?:\?tab=)?(\w*)", menu)


async def test_the_settings_have_every_field_of_the_table(browser: Browser, webhook: None) -> None:
    page = (await browser.get(f"{PAGE}?tab=settings")).text
    inputs = {*re.findall(r'name="(\w+)"', page)}
    lacking = []
    for field in FIELDS:
        for part in field.kind.table if isinstance(field.kind, Parts) else (field,):
            name = part.form.name if part.form else {"events": "kind"}.get(part.name, part.name)
            lacking += [] if name in inputs else [name]
    assert lacking == []


async def test_who_may_only_read_finds_nothing_to_press(
    browser: Browser, visitor: Browser, gateway: Gateway, webhook: None
) -> None:
    assert tabs_of((await browser.get(PAGE)).text) == ["", "test", "backfill", "settings", "changes"]
    ring = gateway.authenticator.keyring
    ring.add_global(Key(name="reader", hash=ring.hash("reads-alone"), reach=Reach(), rights=("read",)))
    await visitor.log_in("reads-alone")
    assert tabs_of((await visitor.get(PAGE)).text) == ["", "settings", "changes"]
    for tab in ("", "settings", "changes"):
        page = main_of((await visitor.get(f"{PAGE}?tab={tab}")).text)
        texts = {text for text in re.findall(r"<button[^>]*>([^<]*)</button>", page) if text.strip()}
        assert texts <= {"Live", "Show"}
    assert "disabled>" in (await visitor.get(f"{PAGE}?tab=settings")).text


async def test_the_kinds_of_plugins_that_are_gone_stay(
    browser: Browser, gateway: Gateway, webhook: None
) -> None:
    settings = f"{PAGE}?tab=settings"
    stored = gateway.registrations.get("loja1")
    gateway.catalog.add(EventKind(name="MINE_DONE", meaning="Something of mine."))
    change, _ = parse_registration({"url": stored.url, "events": ["MINE_DONE"]}, gateway.catalog)
    await gateway.registrations.set("loja1", "default", change)
    kind = gateway.catalog.get("MINE_DONE")
    assert kind is not None
    gateway.catalog.remove(kind)
    page = (await browser.get(settings)).text
    kinds = re.findall(r'name="kind" type="checkbox" value="(\w+)" checked', page)
    assert kinds == ["MINE_DONE"]
    assert "No plugin adds this kind now." in page
    for more in [], ["MESSAGES_UPSERT"]:
        fields = {**FORM, "url": stored.url, "kind": [*kinds, *more]}
        done = await browser.submit(settings, f"{INSTANCE}/webhooks", fields)
        assert done.status_code == 303, done.text
        assert set(gateway.registrations.get("loja1").events) == {"MINE_DONE", *more}
    refused = await browser.submit(settings, f"{INSTANCE}/webhooks", {**fields, "kind": ["OTHER_DONE"]})
    assert refused.status_code == 400


async def test_the_receiver_may_fetch_instead(browser: Browser, gateway: Gateway, webhook: None) -> None:
    await browser.submit(f"{PAGE}?tab=settings", f"{INSTANCE}/webhooks", {**FORM, "way": "pull", "url": ""})
    assert gateway.registrations.get("loja1").is_pulled
    page = (await browser.get(f"{PAGE}?tab=settings")).text
    assert re.search(r'value="pull" checked', page)
    assert 'name="url" type="url" inputmode="url" autocomplete="off" value=""' in page
    assert "Test now" not in page
    fields = {**FORM, "way": "push", "url": "http://127.0.0.1:9/y"}
    await browser.submit(f"{PAGE}?tab=settings", f"{INSTANCE}/webhooks", fields)
    assert gateway.registrations.get("loja1").url == "http://127.0.0.1:9/y"


async def test_the_secret_is_replaced_or_rotated_for_a_time(
    browser: Browser, gateway: Gateway, webhook: None
) -> None:
    settings, brought = f"{PAGE}?tab=settings", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr"
    fields = {**FORM, "url": "http://127.0.0.1:9/x", "secret": brought}
    assert (await browser.submit(settings, f"{INSTANCE}/webhooks", fields)).status_code == 303
    assert [one.value for one in gateway.registrations.get("loja1").secrets] == [brought]
    await browser.submit(settings, f"{INSTANCE}/webhooks", fields | {"secret": ""})
    assert [one.value for one in gateway.registrations.get("loja1").secrets] == [brought]
    assert brought not in (await browser.get(settings)).text
    await browser.submit(settings, f"{PAGE}/rotate", {"grace": "2h"})
    newest, former = gateway.registrations.get("loja1").secrets
    assert (newest.expires_at, former.value) == (None, brought)
    assert former.expires_at is not None
    assert former.expires_at - gateway.clock.wall() == pytest.approx(7_200, abs=60)
    assert "A former one, which signs until <time" in (await browser.get(settings)).text
    refused = await browser.submit(settings, f"{PAGE}/rotate", {"grace": "soon"})
    assert (refused.status_code, "grace" in refused.text.partition("alert")[2]) == (400, True)


async def test_a_test_begins_with_the_example_of_its_kind(browser: Browser, webhook: None) -> None:
    page = (await browser.get(f"{PAGE}?tab=test&kind=CONNECTION_UPDATE")).text
    assert "<option selected>CONNECTION_UPDATE" in page
    assert '<input type="hidden" name="kind" value="CONNECTION_UPDATE">' in page
    assert "&#34;state&#34;: &#34;" in page
    tried = await browser.submit(PAGE, f"{PAGE}/test", {"kind": "CONNECTION_UPDATE", "data": '{"n": 1}'})
    assert "{&#34;n&#34;: 1}" in tried.text


async def test_a_span_of_the_log_is_counted_and_then_sent(
    browser: Browser, gateway: Gateway, webhook: None
) -> None:
    tab = f"{PAGE}?tab=backfill"
    change, _ = parse_registration({"enabled": False}, gateway.catalog, stored_enabled=True)
    await gateway.registrations.update("loja1", "default", change)
    await emit(gateway)
    change, _ = parse_registration({"enabled": True}, gateway.catalog, stored_enabled=False)
    await gateway.registrations.update("loja1", "default", change)
    for given, text in (
        ({}, "Enter from when on"),
        ({"since": "soon"}, "From must be a time"),
        ({"since": "1h", "until": "2h"}, "Until must be later"),
    ):
        refused = await browser.submit(tab, f"{PAGE}/backfill/span", given)
        assert (refused.status_code, text in refused.text) == (400, True)
    counted = await browser.submit(tab, f"{PAGE}/backfill/span", {"since": "1h"})
    assert "1 event is sent" in counted.text
    assert gateway.backlog.of_instance("loja1")[0] == 0
    fixed = dict(re.findall(r'type="hidden" name="(since|until|confirmed)" value="([^"]+)"', counted.text))
    sent = await browser.submit(tab, f"{PAGE}/backfill/span", fixed)
    assert sent.headers["location"] == f"/dashboard{PAGE}?done=backfilled"
    assert gateway.backlog.of_instance("loja1")[0] == 1


async def test_the_buttons_of_a_state_change_with_it(
    browser: Browser, gateway: Gateway, webhook: None
) -> None:
    async with watching(browser, "/dashboard/live/webhook/loja1/default") as events:
        assert f'formaction="/dashboard{PAGE}/pause"' in (await events.next())["data"]
        await gateway.auto_disable.disable(gateway.registrations.get("loja1"), "Gone.")
        shown = (await events.next())["data"]
    assert f'<button form="order" formaction="/dashboard{PAGE}/enable">Enable</button>' in shown
    assert "/pause" not in shown
    done = await browser.submit(PAGE, f"{PAGE}/enable")
    assert done.headers["location"] == f"/dashboard{PAGE}?done=enabled"


async def test_what_comes_after_the_count_is_not_cancelled(
    browser: Browser, gateway: Gateway, webhook: None
) -> None:
    await gateway.registrations.pause("loja1")
    await emit(gateway)
    counted = (await browser.submit(PAGE, f"{PAGE}/cancel")).text
    assert "1 pending delivery becomes" in counted
    fixed = dict(re.findall(r'type="hidden" name="(until|confirmed)" value="([^"]+)"', counted))
    await gateway.events.accept(
        [
            Event(
                id="later",
                kind="CONNECTION_UPDATE",
                instance="loja1",
                data_json=Event.encode({"state": "open"}),
                time=gateway.clock.wall(),
            )
        ]
    )
    done = await browser.submit(PAGE, f"{PAGE}/cancel", fixed)
    assert done.headers["location"] == f"/dashboard{PAGE}?done=cancelled"
    listed = await gateway.history.list(DeliveryQuery(instance="loja1"))
    assert [(one.event_id, one.state) for one in listed.deliveries] == [("later", "pending"), ("evt", "dead")]


async def test_the_first_in_line_says_what_it_waits_for_and_the_last_answer(
    browser: Browser, gateway: Gateway, webhook: None
) -> None:
    await emit(gateway)
    with trio.fail_after(20):
        [lane] = gateway.dispatcher.lanes(gateway.registrations.get("loja1").id)
        while lane.waiting_until is None:
            await trio.sleep(0.01)
            [lane] = gateway.dispatcher.lanes(lane.registration)
    page = ""
    with trio.fail_after(20):
        while "The next attempt is at <time" not in page:  # the first waits are short: one may be over
            page = main_of((await browser.get(PAGE)).text)
    assert '<b class="mono">dlv_1</b>' in page
    assert re.search(
        r'class="state unreachable">unreachable</span> (?:status \d+, )?attempt \d+ at <time', page
    )
    await gateway.registrations.pause("loja1")
    with trio.fail_after(20):
        while lane.state is not LaneState.PAUSED:
            await trio.sleep(0.01)
            [lane] = gateway.dispatcher.lanes(lane.registration)
    assert "It waits until the webhook is resumed." in (await browser.get(PAGE)).text


async def test_a_chosen_span_filters_the_deliveries_and_stays_in_links(
    browser: Browser, gateway: Gateway, webhook: None
) -> None:
    async with open_receiver() as receiver:
        await set_webhook(gateway, url=receiver.url)
        await emit(gateway)
        await receiver.wait_for(1)
        await gateway.store.flush()
    assert 'id="row-dlv_1"' in (await browser.get(PAGE)).text
    page = (await browser.get(f"{PAGE}?since=2h&until=1h&span=7d")).text
    assert 'id="row-dlv_1"' not in page
    assert "No delivery in this time." in page
    assert 'name="since" value="2h"' in page
    assert "/dashboard/deliveries?instance=loja1&amp;label=default&amp;since=2h&amp;until=1h" in page
    assert re.search(
        r'href="[^"]*default\?since=2h&amp;until=1h&amp;span=7d#figures" aria-current="true"', page
    )
    listed = await gateway.history.list(DeliveryQuery(instance="loja1"))
    assert len(listed.deliveries) == 1
    wrong = await browser.get(f"{PAGE}?since=2h&until=never")
    assert wrong.status_code == 400
    assert 'name="until" value="never"' in wrong.text
    assert 'name="since" value="2h"' in wrong.text
    assert "Until" in wrong.text.partition('role="alert"')[2].partition("</div>")[0]
    assert 'data-live="/dashboard/live/webhook/loja1/default/deliveries?"' in wrong.text


async def test_its_figures_show_how_old_the_oldest_pending_was(
    browser: Browser, gateway: Gateway, webhook: None
) -> None:
    await emit(gateway)
    await gateway.store.flush()
    await gateway.figures.fold()
    page = (await browser.get(PAGE)).text
    assert re.search(r'<path class="oldest" d="M', page)
    assert 'class="key oldest" data-column="11"' in page
    cells = page.partition('<table class="values">')[2]
    assert re.findall("<th>(.*?)</th>", cells)[11] == "Oldest pending"
    assert re.search(r"<td>\d[^<]* m?s</tr>", cells)


async def test_its_changes_are_those_of_the_audit(browser: Browser, gateway: Gateway, webhook: None) -> None:
    change, _ = parse_registration({"url": "http://127.0.0.1:9/other"}, gateway.catalog)
    await gateway.registrations.set("loja1", "other", change)
    change, _ = parse_registration({"rate": "20/s"}, gateway.catalog, stored_enabled=True)
    await gateway.registrations.update("loja1", "default", change)
    page = main_of((await browser.get(f"{PAGE}?tab=changes")).text)
    assert page.count("registration.create") == 1
    assert "<b>rate</b>" in page
    assert "127.0.0.1:9/other" not in page
