"""The page of an instance: its connection, and the actions on it."""

from __future__ import annotations

from collections.abc import Awaitable
from urllib.parse import quote

import segno
from quart import Response

from hookgw.deliveries.pages.deliveries import row_of
from hookgw.instances.connectors.calls import CALLS
from hookgw.kernel.errors import (
    Conflict,
    Forbidden,
    HookgwError,
    Invalid,
    StorageUnavailable,
    TooManyRequests,
)
from hookgw.keys.fields import FIELDS
from hookgw.keys.pages import KeyForms
from hookgw.messages.requests import parse_text_message
from hookgw.records.api_keys import Right
from hookgw.records.connectors import ConnectionState
from hookgw.records.events import Event, new_event_id
from hookgw.records.tags import tag_texts
from hookgw.site.field_form import inputs_of
from hookgw.site.option_form import option_fields, read_options
from hookgw.site.site import Form, Site, visitor
from hookgw.site.streams import Streams
from hookgw.store import DeliveryQuery
from hookgw.webhooks.pages import WebhookForms

NEWEST = 10
"""Deliveries on the page."""
_USUAL_KIND = "MESSAGES_UPSERT"


class InstancePage:
    def __init__(self, site: Site, streams: Streams) -> None:
        self._site = site
        self._gateway = site.gateway
        self._streams = streams
        self._webhooks = WebhookForms(site, streams, self.page)
        self._keys = KeyForms(site, self.page)
        path = "/instances/<instance>"
        site.add(path, self.show, Right.READ)
        site.add("/live/instance/<instance>", self.live, Right.READ)
        for name, view, right in (
            ("connect", self.connect, Right.CONNECT),
            ("restart", self.restart, Right.CONNECT),
            ("end", self.end_connection, Right.CONNECT),
            ("options", self.change_options, Right.CONNECT),
            ("emit", self.emit, Right.SEND),
            ("send", self.send, Right.SEND),
            ("delete", self.delete, Right.INSTANCES),
        ):
            site.add(f"{path}/{name}", view, right, "POST", page="/instances/{instance}")

    async def show(self, instance: str) -> Response:
        return await self.page(instance)

    async def page(
        self, instance: str, *, form: Form | None = None, at: str = "", error: HookgwError | None = None
    ) -> Response:
        """Return the page, perhaps with a form that was refused; ``at`` is its place in the template.

        Raise ``NotFound`` if there is no such instance.
        """
        gateway = self._gateway
        found = gateway.instances.get(instance)
        calls = gateway.instances.capabilities(instance)
        schema = gateway.instances.options_schema(found) if found.integration else None
        options = option_fields(
            schema, gateway.instances.masked_options(found), form if at == "options" else None
        )
        kinds = [kind for kind in gateway.catalog if not kind.operational]
        return await self._site.render(
            "instance.html",
            200 if error is None else error.status,
            instance=found,
            path=f"/instances/{quote(instance)}",
            now=await self._now(
                instance,
                without_global=not visitor().principal.is_global,
                may_connect=visitor().has(Right.CONNECT),
            ),
            is_open=gateway.instances.connection_state(instance) is ConnectionState.OPEN,
            has_calls=bool(found.integration),
            may_send="sendText" in calls,
            options=await self._site.fragment("option_fields.html", fields=options) if options else "",
            has_webhooks=bool(gateway.registrations.of_instance(instance)),
            webhook=self._webhooks.values(instance, form if at == "webhook" else None),
            keys=self._keys.rows(instance),
            key_inputs=[*inputs_of(FIELDS)],
            kinds=kinds,
            plugin_pages=[page for page in gateway.hooks.dashboard_pages() if page.of_instance],
            usual_kind=_USUAL_KIND,
            form=form,
            at=at,
            alert=error.messages if error else None,
        )

    async def live(self, instance: str) -> Response:
        self._gateway.instances.get(instance)
        without_global = not visitor().principal.is_global
        may_connect = visitor().has(Right.CONNECT)

        async def render() -> str:
            return await self._now(instance, without_global=without_global, may_connect=may_connect)

        key = ("instance", instance, without_global, may_connect)
        return self._streams.open(visitor().signed_in, key, render, instance=instance)

    async def _now(self, instance: str, *, without_global: bool, may_connect: bool) -> str:
        instances = self._gateway.instances
        found = instances.get(instance)
        # Who scans the code connects an account, and who has the URL sends events as the network does.
        code = instances.qr_code(instance) if may_connect else None
        picture = None
        if code is not None:
            # White around and below the code, whatever the page's colours: scanners need the contrast.
            picture = segno.make(code.code, micro=False).svg_data_uri(
                scale=6, border=4, dark="#000", light="#fff"
            )
        calls = instances.capabilities(instance)
        deliveries, size = self._gateway.backlog.of_instance(instance)
        newest, unread = [], None
        try:
            query = DeliveryQuery(instance=instance, limit=NEWEST, without_global=without_global)
            newest = (await self._gateway.history.list(query)).deliveries
        except (TooManyRequests, StorageUnavailable) as error:
            unread = " ".join(error.messages)  # the rest of the page needs no disk
        return await self._site.fragment(
            "instance_now.html",
            instance=instance,
            path=f"/instances/{quote(instance)}",
            account=instances.account(instance),
            ingest_url=instances.ingest_url(found) if may_connect else None,
            lacks=[call for call in CALLS if call not in calls] if found.integration else [],
            webhooks=self._webhooks.rows(instance),
            rows=[row_of(self._gateway, one) for one in newest],
            unread=unread,
            integration=found.integration,
            tags=tag_texts(found.tags),
            state=instances.connection_state(instance),
            reason=instances.close_reason(instance),
            picture=picture,
            pairing_code=code.pairing_code if code else None,
            backlog=deliveries,
            size=size,
        )

    async def connect(self, instance: str) -> Response:
        await self._site.form()
        return await self._changed(instance, "connecting", self._gateway.instances.connect(instance))

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
        return self._site.redirect(f"/instances/{quote(instance)}", done=notice)

    async def change_options(self, instance: str) -> Response:
        form = await self._site.form()
        instances = self._gateway.instances
        try:
            schema = instances.options_schema(instances.get(instance))
            change = read_options(form, schema, for_change=True)
            await instances.change_options(instance, change, is_operator=visitor().principal.is_operator)
        except (Conflict, Forbidden, Invalid) as error:
            return await self.page(instance, form=form, at="options", error=error)
        return self._site.redirect(f"/instances/{quote(instance)}", done="saved")

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
        return self._site.redirect(f"/instances/{quote(instance)}", done="emitted")

    async def send(self, instance: str) -> Response:
        form = await self._site.form()
        try:
            self._gateway.messages.require(instance, "sendText")
            message = parse_text_message({"number": form.get("number"), "text": form.text("text")})
            await self._gateway.messages.send(instance, message)
        except HookgwError as error:
            return await self.page(instance, form=form, at="send", error=error)
        return self._site.redirect(f"/instances/{quote(instance)}", done="sent")

    async def delete(self, instance: str) -> Response:
        """Delete the instance, if its name was entered."""
        form = await self._site.form()
        self._gateway.instances.get(instance)
        if form.get("confirmation") != instance:
            error = Invalid.of(
                "instance.deletion_unconfirmed",
                "Nothing was deleted: enter {instance} to confirm.",
                instance=instance,
            )
            return await self.page(instance, form=form, at="delete", error=error)
        job = await self._gateway.instances.delete(instance)
        return self._site.redirect("/instances", done="deleting" if job.is_running else "deleted")
