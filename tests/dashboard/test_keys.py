"""The page of keys, and pages for keys with a reach and rights."""

import re
from typing import Any

import httpx
import pytest
import trio

from hookgw import Event, Gateway, Right
from tests.dashboard.conftest import Browser
from tests.public.core import OUT_OF_REACH
from tests.public.records import Key, Reach
from tests.public.site import NEED
from tests.public.web import AppApplication as Application
from tests.public.web import Need, Scope
from tests.public.webhooks import parse_registration
from tests.support.keys import principal_of

KEY = "the-key-of-acme"
FILLED = {
    "name": "e-1",
    "label": "default",
    "part": "attempts",
    "key_name": "nope",
    "plugin": "x",
    "path": "y",
}


@pytest.fixture
async def instances(gateway: Gateway) -> None:
    for name, tenant in (("acme1", "acme"), ("acme2", "acme"), ("other1", "other")):
        await gateway.instances.create(name, tags={"tenant": tenant})
        event = Event(id="e-1", kind="MESSAGES_UPSERT", instance=name, data_json=b'{"secret":1}', time=0.0)
        change, _ = parse_registration({"url": "http://127.0.0.1:9/hook"}, gateway.catalog)
        await gateway.registrations.set(name, "default", change)
        await gateway.events.accept([event])


def add(gateway: Gateway, *rights: str, key: str = KEY) -> None:
    ring = gateway.authenticator.keyring
    reach = Reach(tags=(("tenant", "acme"),))
    ring.add_global(Key(name="acme", hash=ring.hash(key), reach=reach, rights=rights or None))


async def test_a_key_leaves_the_tags_of_its_reach_as_they_are(
    visitor: Browser, gateway: Gateway, instances: None
) -> None:
    add(gateway)
    await visitor.log_in(KEY)
    page, path = "/instances/acme1/settings", "/instances/acme1/tags"
    refused = await visitor.submit(page, path, {"tags": "tenant=other"})
    assert "This key does not reach instances with another tenant than acme." in refused.text
    await visitor.submit(page, path, {"tags": "plan=gold"})
    assert gateway.instances.get("acme1").tags == {"plan": "gold", "tenant": "acme"}


async def test_keys_are_made_shown_and_revoked(browser: Browser, gateway: Gateway, instances: None) -> None:
    made = await browser.submit(
        "/keys",
        "/keys/create",
        {
            "key_name": "acme",
            "tags": "tenant=acme",
            "can": ["read", "receive"],
            "label": "crm",
            "expires_in": "90d",
        },
    )
    assert made.status_code == 201
    [key] = re.findall(r"<code>(.+?)</code>", made.text)
    principal = principal_of(gateway, key)
    assert principal is not None
    assert principal.rights.words == ("read", "receive:crm")
    assert principal.reach == Reach(tags=(("tenant", "acme"),))
    shown = (await browser.get("/keys")).text
    for text in ("tenant=acme", "read, receive:crm", "configuration"):
        assert text in shown
    assert key not in shown
    await browser.submit("/keys", "/keys/acme/revoke")
    assert principal_of(gateway, key) is None
    for wrong in ({"tags": "tenant"}, {"instances": "nope"}, {"tags": "a=b", "instances": "acme1"}):
        refused = await browser.submit("/keys", "/keys/create", {"key_name": "x", **wrong})
        assert refused.status_code in (400, 404)
        assert 'role="alert"' in refused.text


async def test_a_key_makes_only_lesser_ones_on_the_page(
    visitor: Browser, gateway: Gateway, instances: None
) -> None:
    add(gateway, "read", "keys")
    await visitor.log_in(KEY)
    page = (await visitor.get("/keys")).text
    assert "configuration" not in page
    assert 'value="send"' not in page
    refused = await visitor.submit("/keys", "/keys/create", {"key_name": "x", "can": "send"})
    assert refused.status_code == 403
    made = await visitor.submit("/keys", "/keys/create", {"key_name": "x"})
    [key] = re.findall(r"<code>(.+?)</code>", made.text)
    principal = principal_of(gateway, key)
    assert principal is not None
    assert principal.reach == Reach(tags=(("tenant", "acme"),))


async def test_pages_show_what_is_within_reach(visitor: Browser, gateway: Gateway, instances: None) -> None:
    add(gateway, "read")
    await visitor.log_in(KEY)
    for path in ("/", "/instances", "/deliveries", "/lanes"):
        shown = await visitor.get(path)
        assert shown.status_code == 200, path
        assert "other1" not in shown.text, path
    assert "acme1" in (await visitor.get("/instances")).text
    assert "acme2" in (await visitor.get("/deliveries")).text
    for name in ("other1", "nobody"):
        refused = await visitor.get(f"/deliveries?instance={name}")
        assert (refused.status_code, OUT_OF_REACH in refused.text) == (403, True)
    page = (await visitor.get("/deliveries/acme1/e-1")).text
    assert "secret" not in page
    assert "does not have the right" in page
    assert (await visitor.get("/deliveries/acme1/e-1/data.json")).status_code == 403
    assert (await visitor.get("/deliveries/acme1/e-1/body.json")).status_code == 403
    assert (await visitor.get("/deliveries/acme1/e-1/attempts.json")).status_code == 200
    instance = (await visitor.get("/instances/acme1")).text
    for action in ("/webhooks", "/emit", "/keys/create", "/delete", "/options"):
        assert f'action="/dashboard/instances/acme1{action}"' not in instance
    for chosen in ("acme1/dlv_1", "other1/dlv_3"):
        refused = await visitor.submit("/", "/deliveries/resend", {"delivery": chosen})
        assert refused.status_code == 403


async def test_actions_that_name_an_instance_in_the_form_are_checked(
    visitor: Browser, gateway: Gateway, instances: None
) -> None:
    add(gateway, "read", "replay", "webhooks")
    await visitor.log_in(KEY)
    for action, fields in (
        ("/deliveries/skip", {"delivery": "{}/dlv_1"}),
        ("/deliveries/resend", {"delivery": ["acme1/dlv_1", "{}/dlv_3"]}),
        ("/deliveries/replay", {"instance": "{}", "replay_since": "1h"}),
        ("/lanes/resume", {"webhook": "{}/default"}),
    ):
        for name in ("other1", "nobody"):
            filled = {
                key: [one.format(name) for one in value] if isinstance(value, list) else value.format(name)
                for key, value in fields.items()
            }
            refused = await visitor.submit("/", action, filled)
            assert (refused.status_code, OUT_OF_REACH in refused.text) == (403, True), (action, name)


def pages(app: Application) -> list[tuple[str, str, Need]]:
    """Return the method, the path and the need of every page and form."""
    found = []
    for rule in app.routing.url_map.iter_rules():
        need = getattr(app.routing.view_functions[rule.endpoint], NEED, None)
        if need is not None:
            path = re.sub(
                r"<(?:\w+:)?(\w+)>", lambda name: FILLED.get(name[1], "{instance}"), rule.rule
            ).removeprefix("/dashboard")
            method = "POST" if "POST" in (rule.methods or ()) else "GET"
            found.append((method, path, need))
    return found


@pytest.mark.parametrize("right", list(Right))
async def test_every_page_needs_its_right_and_its_reach(
    right: Right, app: Application, visitor: Browser, gateway: Gateway, instances: None
) -> None:
    add(gateway, *(str(one) for one in Right if one is not right))
    add(gateway, right, key="only-this-right-of-acme")
    walked = [one for one in pages(app) if one[2].right is right]
    assert len(pages(app)) > 50
    lacks = f"This key does not have the right &#39;{right}&#39;."
    await visitor.log_in(KEY)
    for method, path, need in walked:
        for name in ("acme1", "other1", "nobody"):
            response = await call(visitor, method, path.format(instance=name))
            assert response.status_code == 403, path
            assert lacks in response.text or need.scope is Scope.EVERYTHING, path
    await visitor.log_in("only-this-right-of-acme")
    for method, path, need in walked:
        if need.scope is Scope.INSTANCE:
            refused = [
                await call(visitor, method, path.format(instance=name)) for name in ("other1", "nobody")
            ]
            for one in refused:
                assert (one.status_code, OUT_OF_REACH in one.text) == (403, True), path
        if need.scope is Scope.EVERYTHING:
            assert (await call(visitor, method, path)).status_code == 403
        elif method == "GET" and "/live/" not in path:
            assert (await call(visitor, method, path.format(instance="acme1"))).status_code in (
                200,
                303,
                400,
                404,
            ), path


async def call(browser: Browser, method: str, path: str) -> httpx.Response:
    if method == "GET":
        return await browser.get(path)
    return await browser.submit("/kinds", path)


async def test_a_stream_ends_when_its_instance_leaves_the_reach(
    visitor: Browser, gateway: Gateway, instances: None
) -> None:
    add(gateway, "read")
    await visitor.log_in(KEY)
    for path, name in (("/live/instance/acme1", "acme1"), ("/live/deliveries?instance=acme2", "acme2")):
        seen = ""
        with trio.fail_after(20):
            async with visitor.http.stream("GET", f"/dashboard{path}") as stream:
                async for text in stream.aiter_text():
                    seen += text
                    if "data:" in text and "ended" not in text:
                        await gateway.instances.change_tags(name, {})
        assert seen.rstrip().endswith("event: ended\ndata:")


async def test_what_was_rendered_while_an_instance_left_the_reach_is_not_sent(
    visitor: Browser, gateway: Gateway, instances: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(gateway, "read")
    await visitor.log_in(KEY)
    list_deliveries = gateway.store.list_deliveries

    async def slowly(*given: Any) -> Any:
        await gateway.instances.change_tags("acme1", {})
        return await list_deliveries(*given)

    monkeypatch.setattr(gateway.store, "list_deliveries", slowly)
    with trio.fail_after(20):
        seen = (await visitor.http.get("/dashboard/live/instance/acme1")).text
    assert seen.rstrip().endswith("event: ended\ndata:")
    assert seen.count("data:") == 1


async def test_a_list_that_is_open_follows_the_tags_and_ends_with_its_key(
    visitor: Browser, gateway: Gateway, instances: None
) -> None:
    add(gateway, "read")
    await visitor.log_in(KEY)
    seen, ring = "", gateway.authenticator.keyring
    holder = ring.find(KEY)
    assert holder is not None
    with trio.fail_after(20):
        async with visitor.http.stream("GET", "/dashboard/live/instances", timeout=20) as stream:
            async for text in stream.aiter_text():
                seen += text
                if "acme1" in text:
                    await gateway.instances.change_tags("acme1", {"tenant": "other"})
                elif "acme2" in text:
                    ring.remove(None, [holder.key])
    assert "other1" not in seen
    assert seen.rstrip().endswith("event: ended\ndata:")
