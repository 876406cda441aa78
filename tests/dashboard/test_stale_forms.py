"""Forms that were opened before somebody else changed what they show."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import pytest

from hookgw import Gateway
from tests.dashboard.conftest import Browser, set_webhook
from tests.public.webhooks import parse_registration

PAGE = "/instances/loja1"
WEBHOOK = {"url": "http://127.0.0.1:9/x", "enabled": "true", "retry.schedule": "1h"}


async def disable(gateway: Gateway) -> None:
    await gateway.auto_disable.disable(gateway.registrations.get("loja1"), "The receiver answered 410 Gone.")


async def set_elsewhere(gateway: Gateway) -> None:
    change, _ = parse_registration({"url": "http://127.0.0.1:9/new"}, gateway.catalog)
    await gateway.registrations.set("loja1", "default", change)


async def tag(gateway: Gateway) -> None:
    await gateway.instances.change_tags("loja1", {"tenant": "acme"})


async def change_settings(gateway: Gateway) -> None:
    await gateway.instances.change_settings("loja1", {"reject_call": True})


async def change_options(gateway: Gateway) -> None:
    await gateway.instances.change_options("loja1", {"rate": 7}, is_operator=True)


class Case(NamedTuple):
    """A form, a change by somebody else, and what is stored."""

    page: str
    action: str
    fields: Mapping[str, str]
    change: Callable[[Gateway], Awaitable[None]]
    stored: Callable[[Gateway], Any]
    refused: tuple[str, str] | None = None


def webhook_of(gateway: Gateway) -> Any:
    found = gateway.registrations.get("loja1")
    return found.url, found.enabled, found.timeout


OWN = {"label": "default", "own_page": "true", **WEBHOOK, "timeout": "7s"}
SETTINGS = f"{PAGE}/webhooks/default?tab=settings"
CASES = {
    "webhook": Case(SETTINGS, f"{PAGE}/webhooks", OWN, set_elsewhere, webhook_of, ("url", "no URL")),
    "disabled": Case(SETTINGS, f"{PAGE}/webhooks", OWN, disable, webhook_of),
    "tab": Case(f"{PAGE}/webhooks", f"{PAGE}/webhooks", WEBHOOK, disable, webhook_of),
    "tags": Case(
        f"{PAGE}/settings",
        f"{PAGE}/tags",
        {"tags": "plan=pro"},
        tag,
        lambda gateway: gateway.instances.get("loja1").tags,
        ("tags", "no tag"),
    ),
    "settings": Case(
        f"{PAGE}/settings",
        f"{PAGE}/settings",
        {"settings.groupsIgnore": "true"},
        change_settings,
        lambda gateway: gateway.instances.get("loja1").settings,
    ),
    "options": Case(
        f"{PAGE}/settings",
        f"{PAGE}/options",
        {"option.rate": "3"},
        change_options,
        lambda gateway: gateway.instances.get("loja1").options,
    ),
}


def seen_in(page: str, action: str) -> dict[str, str]:
    form = page.partition(f'action="/dashboard{action}"')[2].partition("</form>")[0]
    return dict(re.findall(r'name="(form_token|seen)" value="([^"]+)"', form))


@pytest.mark.parametrize("name", CASES)
async def test_a_stale_form_undoes_nothing(browser: Browser, gateway: Gateway, name: str) -> None:
    case = CASES[name]
    await gateway.instances.create("loja1", integration="simulator")
    await set_webhook(gateway)
    opened = seen_in((await browser.get(case.page)).text, case.action)
    assert opened.keys() == {"form_token", "seen"}
    await case.change(gateway)
    stored = case.stored(gateway)

    async def send(**hidden: str) -> Any:
        return await browser.http.post(f"/dashboard{case.action}", data={**case.fields, **hidden})

    if case.refused is not None:  # a form that was refused for another reason is as old as before
        field, value = case.refused
        wrong = await send(**opened, **{field: value})
        assert wrong.status_code == 400
        assert seen_in(wrong.text, case.action) == opened
    refused = await send(**opened)
    assert refused.status_code == 409
    assert "was changed while the form was open" in refused.text
    assert case.stored(gateway) == stored
    for typed in [value for value in case.fields.values() if value in ("7s", "plan=pro", "3")]:
        assert f'value="{typed}"' in refused.text
    # Who saves once more means it.
    again = seen_in(refused.text, case.action)
    assert again["seen"] != opened["seen"]
    assert (await send(**again)).status_code == 303
    assert case.stored(gateway) != stored
    # A program that sends no such field stores what it sends.
    await case.change(gateway)
    assert (await send(form_token=opened["form_token"])).status_code == 303


async def test_what_no_form_shows_makes_none_stale(browser: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    await set_webhook(gateway)
    opened = seen_in((await browser.get(SETTINGS)).text, f"{PAGE}/webhooks")
    await gateway.registrations.pause("loja1")
    await gateway.registrations.rotate_secret("loja1", "default", 60.0)
    saved = await browser.http.post(f"/dashboard{PAGE}/webhooks", data={**OWN, **opened})
    assert saved.status_code == 303
    # The form of the instance's page shows the default webhook: another label is none of its.
    opened = seen_in((await browser.get(f"{PAGE}/webhooks")).text, f"{PAGE}/webhooks")
    other = await browser.http.post(f"/dashboard{PAGE}/webhooks", data={**WEBHOOK, **opened, "label": "crm"})
    assert other.status_code == 200
    assert gateway.registrations.get("loja1", "crm").url == WEBHOOK["url"]
