"""The pages of an instance: a tab each for what it is, what it hears and sends, and how it is set up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from quart import Response, request

from hookgw.connectors.whatsapp_numbers import whatsapp_number_of
from hookgw.deliveries.pages.deliveries import Row, row_of
from hookgw.instances.connectors.calls import CALLS
from hookgw.instances.connectors.state_history import StateChanges, read_changes
from hookgw.instances.pages.codes import picture_of
from hookgw.instances.pages.instance_settings import InstanceSettingsTab
from hookgw.instances.pages.tabs import (
    CONNECTION,
    DELIVERIES,
    KEYS,
    OVERVIEW,
    SETTINGS,
    TABS,
    WEBHOOKS,
    Tab,
)
from hookgw.kernel.errors import (
    Conflict,
    HookgwError,
    Invalid,
    NotFound,
    StorageUnavailable,
    TooManyRequests,
)
from hookgw.keys.fields import FIELDS
from hookgw.keys.pages import KeyForms
from hookgw.messages.pages.text_form import send_text
from hookgw.records.api_keys import Right
from hookgw.records.browser_sessions import new_token
from hookgw.records.connectors import ConnectionState
from hookgw.records.events import Event, new_event_id
from hookgw.records.sentences import NO_PAGE
from hookgw.records.tags import tag_texts
from hookgw.site.field_form import inputs_of
from hookgw.site.figure_part import asked_span, figure_part
from hookgw.site.page_paths import instance_path
from hookgw.site.site import Form, Page, Site, visitor
from hookgw.store import DeliveryQuery
from hookgw.webhooks.pages import WebhookForms

NEWEST = 10
"""Deliveries on the first tab."""
DELIVERIES_SHOWN = 50
"""Deliveries on their tab."""
_USUAL_KIND = "MESSAGES_UPSERT"
_PLACES = {
    "connection": CONNECTION,
    "webhook": WEBHOOKS,
    "keys": KEYS,
    "options": SETTINGS,
    "settings": SETTINGS,
    "tags": SETTINGS,
    "delete": SETTINGS,
}
"""The tab with a form, by the form's place. All other forms are on the first tab."""
Render = Callable[..., Awaitable[str]]


class InstancePage(Page):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._webhooks = WebhookForms(site, self.page, self._rows)
        self._keys = KeyForms(site, self.page)
        self._settings = InstanceSettingsTab(site, self.page)
        path = "/instances/<instance>"
        for tab in (OVERVIEW, WEBHOOKS, DELIVERIES, CONNECTION, KEYS, SETTINGS):  # chats: another slice's
            site.add(f"{path}/{tab.name}" if tab.name else path, partial(self._page, tab=tab), tab.right)
        site.add("/live/instance/<instance>", self.live, Right.READ)
        for name, view, right, tab in (
            ("connect", self.connect, Right.CONNECT, CONNECTION),
            ("restart", self.restart, Right.CONNECT, CONNECTION),
            ("end", self.end_connection, Right.CONNECT, CONNECTION),
            ("emit", self.emit, Right.SEND, OVERVIEW),
            ("send", self.send, Right.SEND, OVERVIEW),
        ):
            page = "/instances/{instance}" + (f"/{tab.name}" if tab.name else "")
            site.add(f"{path}/{name}", view, right, "POST", page=page)
        # What a tab shows that can change by itself.
        self._live: dict[Tab, Render] = {
            OVERVIEW: self._now,
            WEBHOOKS: self._webhooks_now,
            DELIVERIES: self._deliveries_now,
            CONNECTION: self._connection_now,
        }

    async def page(
        self, instance: str, *, form: Form | None = None, at: str = "", error: HookgwError | None = None
    ) -> Response:
        """Return the tab with a form that was refused; ``at`` is the form's place in the template.

        Raise ``NotFound`` if there is no such instance.
        """
        return await self._page(instance, _PLACES.get(at, OVERVIEW), form=form, at=at, error=error)

    async def _page(
        self,
        instance: str,
        tab: Tab,
        *,
        form: Form | None = None,
        at: str = "",
        error: HookgwError | None = None,
    ) -> Response:
        instances = self._gateway.instances
        found = instances.get(instance)
        values: dict[str, Any] = {
            "instance": found,
            "path": instance_path(instance),
            "tab": tab,
            "tabs": TABS,
            "is_open": instances.connection_state(instance) is ConnectionState.OPEN,
            "has_calls": self._gateway.connectors.missing(found) is None,
            "form": form,
            "at": at,
        }
        cursor = request.args.get("cursor") or None
        if tab in self._live:
            values["now"] = await self._renderer(tab, instance)(cursor=cursor)
            query = "" if tab is OVERVIEW else "?" + urlencode({"tab": tab.name})
            values["live"] = None if cursor else f"/live/instance/{quote(instance)}{query}"
        if tab is OVERVIEW:
            pages = self._gateway.hooks.dashboard_pages()
            values |= {
                "may_send": "sendText" in self._gateway.instances.capabilities(instance),
                "kinds": self._gateway.catalog.of_instances(),
                "usual_kind": _USUAL_KIND,
                "once": new_token(),
                "plugin_pages": [page for page in pages if page.of_instance and visitor().has(page.right)],
            }
            values["charts"] = await figure_part(
                self._site,
                await self._gateway.figures.of_instance(instance, asked_span()),
                here=instance_path(instance),
                target=f"/deliveries?{urlencode({'instance': instance})}",
            )
        elif tab is WEBHOOKS:
            values["has_webhooks"] = bool(self._gateway.registrations.of_instance(instance))
            values["webhook"] = self._webhooks.values(instance, form if at == "webhook" else None)
            values["kinds"] = self._gateway.catalog.of_instances()
        elif tab is KEYS:
            values |= {"keys": self._keys.rows(instance), "key_inputs": [*inputs_of(FIELDS)]}
        elif tab is SETTINGS:
            values |= await self._settings.values(found, form, at)
        name = f"instance_{tab.name}.html" if tab.name else "instance.html"
        return await self._site.render(name, error=error, **values)

    async def live(self, instance: str) -> Response:
        found = self._gateway.instances.get(instance)
        name = request.args.get("tab", "")
        tab = next((one for one in self._live if one.name == name), None)
        if tab is None:
            raise NotFound(NO_PAGE(name=name[:64]))
        render = self._renderer(tab, instance)
        key = ("instance", found.id, tab.name, *render.args, *render.keywords.values())
        return self._streams.open(key, render, instance=instance)

    def _renderer(self, tab: Tab, instance: str) -> partial[Awaitable[str]]:
        """Return what renders the live part of a tab, as far as the visitor may see it."""
        return partial(
            self._live[tab],
            instance,
            without_global=not visitor().principal.is_global,
            may_connect=visitor().has(Right.CONNECT),
            may_set=visitor().has(Right.WEBHOOKS),
            may_enable=visitor().has(Right.REPLAY) and visitor().has(Right.WEBHOOKS),
        )

    async def _now(
        self,
        instance: str,
        *,
        without_global: bool,
        may_connect: bool,
        may_set: bool,
        may_enable: bool,
        **_: object,
    ) -> str:
        found = self._gateway.instances.get(instance)
        return await self._site.fragment(
            "instance_now.html",
            webhooks=self._webhooks.rows(instance),
            sparks=await self._webhooks.sparks(instance),
            may_enable=may_enable,
            may_connect=may_connect and self._gateway.connectors.missing(found) is None,
            **self._connection(instance, may_connect, may_set),
            **await self._newest(instance, NEWEST, without_global),
        )

    def _connection(self, instance: str, may_connect: bool, may_set: bool) -> dict[str, Any]:
        instances = self._gateway.instances
        found, calls = instances.get(instance), instances.capabilities(instance)
        # Who scans the code connects an account, and who has the URL sends events as the network does.
        code = instances.qr_code(instance) if may_connect else None
        deliveries, size = self._gateway.backlog.of_instance(instance)
        return {
            "instance": instance,
            "path": instance_path(instance),
            "account": instances.account(instance),
            "ingest_url": instances.ingest_url(found) if may_connect else None,
            "lacks": [call for call in CALLS if call not in calls] if found.integration else [],
            "integration": found.integration,
            "tags": tag_texts(found.tags),
            "state": instances.connection_state(instance),
            "reason": instances.close_reason(instance),
            "picture": None if code is None else picture_of(code.code),
            "pairing_code": code.pairing_code if code else None,
            "lacks_webhook": may_set and not self._gateway.registrations.of_instance(instance),
            "backlog": deliveries,
            "size": size,
        }

    async def _newest(self, instance: str, most: int, without_global: bool) -> dict[str, Any]:
        try:
            query = DeliveryQuery(instance=instance, limit=most, without_global=without_global)
            return {"rows": await self._rows(query), "unread": None}
        except (TooManyRequests, StorageUnavailable) as error:
            return {"rows": [], "unread": " ".join(error.messages)}  # the rest of the page needs no disk

    async def _rows(self, query: DeliveryQuery) -> list[Row]:
        page = await self._gateway.history.list(query)
        return [row_of(self._gateway, one) for one in page.deliveries]

    async def _webhooks_now(self, instance: str, *, may_enable: bool, **_: object) -> str:
        return await self._site.fragment(
            "instance_webhooks_now.html",
            instance=instance,
            path=instance_path(instance),
            webhooks=self._webhooks.rows(instance),
            sparks=await self._webhooks.sparks(instance),
            may_enable=may_enable,
        )

    async def _deliveries_now(self, instance: str, *, without_global: bool, **_: object) -> str:
        shown = await self._newest(instance, DELIVERIES_SHOWN, without_global)
        return await self._site.fragment(
            "instance_deliveries_now.html", instance=instance, path=instance_path(instance), **shown
        )

    async def _connection_now(
        self, instance: str, *, may_connect: bool, may_set: bool, cursor: str | None = None, **_: object
    ) -> str:
        shown = self._connection(instance, may_connect, may_set)
        found, unread = StateChanges([], None), None
        try:
            found = await read_changes(self._gateway.history, instance, cursor)
        except (TooManyRequests, StorageUnavailable) as error:
            unread = " ".join(error.messages)
        newest = found.changes[0] if found.changes and cursor is None else None
        return await self._site.fragment(
            "instance_connection_now.html",
            may_connect=may_connect,
            since=newest.at if newest is not None and newest.state is shown["state"] else None,
            changes=found.changes,
            older=urlencode({"cursor": found.cursor}) if found.cursor else None,
            is_older=cursor is not None,
            unread=unread,
            **shown,
        )

    async def connect(self, instance: str) -> Response:
        form = await self._site.form()
        number = form.get("pairing_number")
        try:
            pairing_number = whatsapp_number_of(number) if number else None
        except Invalid as error:
            return await self.page(instance, form=form, at="connection", error=error)
        connected = self._gateway.instances.connect(instance, pairing_number=pairing_number)
        return await self._changed(instance, "connecting", connected)

    async def restart(self, instance: str) -> Response:
        await self._site.form()
        return await self._changed(instance, "connecting", self._gateway.instances.restart(instance))

    async def end_connection(self, instance: str) -> Response:
        await self._site.form()
        return await self._changed(instance, "ended", self._gateway.instances.logout(instance))

    async def _changed(self, instance: str, notice: str, change: Awaitable[object]) -> Response:
        try:
            await change
        except (Conflict, Invalid) as error:
            return await self.page(instance, at="connection", error=error)
        return self._site.redirect(CONNECTION.path(instance), done=notice)

    async def emit(self, instance: str) -> Response:
        form = await self._site.form()
        gateway = self._gateway
        gateway.instances.get(instance)
        try:
            kind = gateway.catalog.resolve(form.get("kind"), "The kind")
            now = gateway.clock.wall()
            event = Event(
                id=new_event_id(now),
                kind=kind.name,
                instance=instance,
                data_json=Event.encode(kind.example),
                time=now,
            )
            await gateway.events.accept([event])
        except HookgwError as error:
            return await self.page(instance, form=form, at="emit", error=error)
        return self._site.redirect(instance_path(instance), done="emitted")

    async def send(self, instance: str) -> Response:
        form = await self._site.form()
        try:
            await send_text(self._gateway, instance, form.get("number"), form)
        except HookgwError as error:
            return await self.page(instance, form=form, at="send", error=error)
        return self._site.redirect(instance_path(instance), done="sent")
