"""Every page for every set of rights: no form leads to a route that would refuse the session."""

import re
from collections import Counter

import pytest
import trio

from hookgw import Event, Gateway, Right
from tests.api.conftest import KEY
from tests.api.test_route_walk import FILLED, add_key
from tests.dashboard.conftest import Browser, emit, set_webhook
from tests.public.app import Dashboard
from tests.public.kernel import Forbidden
from tests.public.records import DeliverySelection, JobKind, Reach
from tests.public.site import NEED
from tests.public.web import AppApplication as Application
from tests.public.web import check_need

WEBHOOK = "/instances/loja1/webhooks/default"

_TAGS = re.compile(r"<(form|button|input|select|textarea)\b([^>]*)>")
_ID = re.compile(r' id="([^"]*)"')
_ATTRIBUTE = re.compile(r'(\S+?)="([^"]*)"')


def forms_of(page: str) -> tuple[set[str], set[str], set[str]]:
    """Return the addresses to which a page posts, the ids of its forms, and those that controls name."""
    posts, ids, named = set(), set(), set()
    for tag, rest in _TAGS.findall(page):
        found = dict(_ATTRIBUTE.findall(rest))
        if tag == "form" and found.get("method") == "post":
            posts.add(found["action"])
            ids.add(found.get("id", ""))
        if "formaction" in found:
            posts.add(found["formaction"])
        if "form" in found:
            named.add(found["form"])
    return posts, ids, named


async def pages(app: Application, delivery: str, job_id: str) -> list[str]:
    filled = FILLED | {"instance": "loja1", "label": "default", "path": "none"}
    filled |= {"name": delivery, "event_id": delivery, "job_id": job_id}
    found = []
    for rule in app.routing.url_map.iter_rules():
        is_page = rule.rule.startswith("/dashboard/") and "GET" in (rule.methods or ())
        if is_page and not any(
            part in rule.rule for part in ("/assets/", "/live/", "/enter/", "<path:rest>")
        ):
            found.append(re.sub(r"<(?:\w+:)?(\w+)>", lambda one: filled.get(one[1], "none"), rule.rule))
    return found + [f"/dashboard{WEBHOOK}?tab={tab}" for tab in ("test", "backfill", "settings", "changes")]


@pytest.fixture
async def delivery(gateway: Gateway) -> str:
    """An instance with a webhook that fails, and a delivery that is done."""
    await gateway.instances.create("loja1", integration="simulator", tags={"tenant": "acme"})
    await set_webhook(gateway)
    await emit(gateway)
    await gateway.store.flush()
    await gateway.deliveries.cancel_one("loja1", "evt")
    data = Event.encode({"state": "open"})
    event = Event(
        id="evt2", kind="CONNECTION_UPDATE", instance="loja1", data_json=data, time=gateway.clock.wall()
    )
    await gateway.events.accept([event])
    return "evt"


SESSIONS = {
    "everything": (Reach(), frozenset(Right)),
    "within reach": (Reach(tags=(("tenant", "acme"),)), frozenset(Right)),
    "only reads": (Reach(tags=(("tenant", "acme"),)), frozenset({Right.READ})),
    **{f"not {right}": (Reach(), frozenset(Right) - {right}) for right in Right if right is not Right.READ},
}


async def test_no_form_leads_to_a_refusal(
    app: Application, visitor: Browser, gateway: Gateway, delivery: str, dashboard: Dashboard
) -> None:
    loja1 = gateway.instances.get("loja1")
    job = gateway.jobs.new(JobKind.REPLAY, "loja1", instance_id=loja1.id, replay=DeliverySelection())
    gateway.jobs.start(job, lambda _: trio.sleep_forever, is_stored=False)
    match = app.routing.url_map.bind("localhost").match
    wrong, seen, lacking = set(), set(), set()
    for title, (reach, rights) in SESSIONS.items():
        key = add_key(gateway, reach, rights)
        visitor.http.cookies.clear()
        assert (await visitor.log_in(key)).status_code == 303
        holder = gateway.authenticator.keyring.find(key)
        assert holder is not None
        for path in await pages(app, delivery, job.id):
            page = await visitor.http.get(path)
            if title == "everything" and page.status_code >= 400:
                lacking.add(path)
            if page.status_code != 200 or "text/html" not in page.headers["content-type"]:
                continue
            posts, ids, named = forms_of(page.text)
            twice = {one for one, count in Counter(_ID.findall(page.text)).items() if count > 1}
            wrong |= {f"{title}: {path} has the id {one!r} twice" for one in twice}
            wrong |= {f"{title}: {path} has no form {one!r}" for one in named - ids}
            for address in posts:
                rule, values = match(re.split("[?#]", address)[0], method="POST", return_rule=True)
                seen.add(rule.rule)
                try:
                    check_need(
                        gateway.registry,
                        holder.principal,
                        getattr(app.routing.view_functions[rule.endpoint], NEED),
                        values,
                    )
                except Forbidden:
                    wrong.add(f"{title}: {path} posts to {rule.rule}")
    assert sorted(wrong) == []
    assert len(seen) > 30
    assert lacking == {"/dashboard/deliveries/export", "/dashboard/plugins/none/none"} | {
        "/dashboard/instances/loja1/plugins/none/none"
    }


async def test_what_takes_two_rights_is_shown_to_who_has_both(
    visitor: Browser, gateway: Gateway, delivery: str
) -> None:
    await visitor.log_in(KEY)
    await visitor.submit(WEBHOOK, f"{WEBHOOK}/disable")
    missed = Event(
        id="evt3", kind="CONNECTION_UPDATE", instance="loja1", data_json=b"{}", time=gateway.clock.wall()
    )
    await gateway.events.accept([missed])
    await gateway.store.flush()
    for lacks in ((), (Right.WEBHOOKS,), (Right.REPLAY,)):
        visitor.http.cookies.clear()
        await visitor.log_in(add_key(gateway, Reach(), [one for one in Right if one not in lacks]))
        for path in ("/instances/loja1", "/instances/loja1/webhooks", WEBHOOK, f"{WEBHOOK}?tab=backfill"):
            page = await visitor.get(path)
            assert page.status_code == 200
            assert ("Enable, and send what it missed" in page.text) == (not lacks), (path, lacks)
