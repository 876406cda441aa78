"""The page of a registration in tabs: how it does, a test, what it missed, its settings, their changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import trio
from quart import Response, request

from hookgw.core.access import check_right
from hookgw.kernel.errors import Conflict, HookgwError, Invalid, StorageUnavailable, TooManyRequests
from hookgw.kernel.signing_keys import Signature, public_key_of
from hookgw.kernel.times import rfc3339
from hookgw.records.api_keys import Right
from hookgw.records.audit import AuditEntry, who
from hookgw.records.events import Event
from hookgw.records.registrations import Registration
from hookgw.records.selection import DeliverySelection
from hookgw.site.field_form import from_form, inputs_of
from hookgw.site.figure_part import asked_span, figure_part
from hookgw.site.moments import parse_moment, reader_zone
from hookgw.site.page_paths import instance_path, webhook_path
from hookgw.site.payloads import json_of, shown_json
from hookgw.site.site import Form, Page, Site, visitor
from hookgw.store import AuditQuery, DeliveryQuery
from hookgw.webhooks.change import enabling, parse_grace
from hookgw.webhooks.fields import GRACE
from hookgw.webhooks.page_values import heads_of, row_of, values_of
from hookgw.webhooks.requests import BackfillRequest

NEWEST = 10
"""Deliveries on the page."""
MOST_CHANGES = 20
"""Changes on the page,"""
MOST_AUDIT_PAGES = 5
"""for which so many pages of the instance's audit are searched."""
COUNT_SECONDS = 5.0
"""For so long it is counted what a backfill would send."""
TABS = {"": None, "test": Right.WEBHOOKS, "backfill": Right.REPLAY, "settings": None, "changes": None}
"""The parts of the page, and the right that each needs beside that to read."""

ListDeliveries = Callable[[DeliveryQuery], Awaitable[Sequence[Any]]]
"""Returns rows for a list of deliveries, which are another slice's."""
Change = Callable[[str, str], Awaitable[object]]
"""Changes the webhook of an instance with a label."""


class WebhookPage(Page):
    def __init__(self, site: Site, list_deliveries: ListDeliveries) -> None:
        super().__init__(site)
        self._list_deliveries = list_deliveries
        path, page = "/instances/<instance>/webhooks/<label>", "/instances/{instance}/webhooks/{label}"
        registrations = site.gateway.registrations
        site.add(path, self.show, Right.READ)
        site.add("/live/webhook/<instance>/<label>", self.live, Right.READ)
        site.add("/live/webhook/<instance>/<label>/deliveries", self.live_deliveries, Right.READ)
        for name, view, right in (
            ("cancel", self.cancel, Right.REPLAY),
            ("backfill", self.backfill, Right.REPLAY),
            ("backfill/span", self.backfill_span, Right.REPLAY),
            ("test", self.test, Right.WEBHOOKS),
            ("rotate", self.rotate, Right.WEBHOOKS),
            ("secret", self.secret, Right.WEBHOOKS),
            ("delete", self.delete, Right.WEBHOOKS),
        ):
            site.add(f"{path}/{name}", view, right, "POST", page=page)
        for name, change, notice, right in (
            ("enable", partial(registrations.update, change=enabling(True)), "enabled", Right.WEBHOOKS),
            ("disable", partial(registrations.update, change=enabling(False)), "disabled", Right.WEBHOOKS),
            ("pause", registrations.pause, "paused", Right.WEBHOOKS),
            ("resume", registrations.resume, "resumed", Right.WEBHOOKS),
            ("backfill/cancel", site.gateway.backfills.cancel, "backfill_ended", Right.REPLAY),
        ):
            view = partial(self._change, change=change, notice=notice)
            site.add(f"{path}/{name}", view, right, "POST", page=page)

    async def show(self, instance: str, label: str) -> Response:
        tab = request.args.get("tab", "")
        right = TABS.get(tab)
        may_see = tab in TABS and (right is None or visitor().has(right))
        return await self.page(instance, label, tab if may_see else "")

    async def page(
        self,
        instance: str,
        label: str,
        tab: str = "",
        *,
        form: Form | None = None,
        error: HookgwError | None = None,
        **shown: Any,
    ) -> Response:
        """Return the page, perhaps with a refused form. Raise ``NotFound`` if there is no such webhook."""
        gateway = self._gateway
        find = gateway.registrations.get if error is None else gateway.registrations.find
        registration = find(instance, label)
        if registration is not None:
            shown |= await self._of(registration, tab, form, shown)
            error = error or shown.pop("wrong", None)
        else:
            tab = "settings"
        tabs = [name for name, right in TABS.items() if right is None or visitor().has(right)]
        return await self._site.render(
            "webhook.html",
            instance=instance,
            label=label,
            path=webhook_path(instance, label),
            tab=tab,
            tabs=tabs if registration is not None else ["settings"],
            registration=registration,
            webhook=values_of(gateway, instance, form if tab == "settings" else None, label),
            kinds=gateway.catalog.of_instances(),
            error=error,
            is_refused=form is not None and tab == "settings",
            **shown,
        )

    async def _of(
        self, registration: Registration, tab: str, form: Form | None, shown: dict[str, Any]
    ) -> dict[str, Any]:
        """Return what the template needs for a tab."""
        gateway, found = self._gateway, dict[str, Any]()
        found["row"] = row_of(gateway, registration)
        found["backfill"] = gateway.jobs.backfill_of(registration.id)
        found["missed"] = None
        if found["backfill"] is None and tab in ("", "backfill"):
            found["missed"] = await gateway.backfills.missed_while_disabled(registration)
        if tab == "":
            since, until = request.args.get("since", "")[:64], request.args.get("until", "")[:64]
            place = f"{quote(registration.instance)}/{quote(registration.label)}"
            span = urlencode({name: one for name, one in (("since", since), ("until", until)) if one})
            chosen: tuple[float | None, float | None] = None, None
            try:
                chosen = self._span(since, until)
            except Invalid as wrong:  # the page says so, with all deliveries below
                found["wrong"], span = wrong, ""
            path = webhook_path(registration.instance, registration.label)
            series = await gateway.figures.of_webhook(registration.id, asked_span())
            found |= {
                "now": await self._now(registration, may_change=visitor().has(Right.WEBHOOKS)),
                "live": f"/live/webhook/{place}",
                "deliveries": await self._deliveries(registration, *chosen),
                "live_deliveries": f"/live/webhook/{place}/deliveries?{span}",
                "span": span,
                "request_span": {"since": since, "until": until},
                "charts": await figure_part(
                    self._site,
                    series,
                    here=f"{path}?{span}" if span else path,
                    target=f"{path}?span={series.span}",
                    deliveries=f"/deliveries?instance={quote(registration.instance)}"
                    f"&label={quote(registration.label)}",
                    chosen=chosen,
                ),
            }
        elif tab == "test":
            kind = shown.get("test_kind") or request.args.get("kind") or next(iter(registration.events), None)
            example = gateway.catalog.get(kind or "MESSAGES_UPSERT")
            found["test_kind"] = example.name if example else kind
            found["example"] = shown_json(Event.encode(example.example)).text if example else "{}"
        elif tab == "backfill":
            source = form.get if form is not None else request.args.get
            found["asked"] = {name: source(name, "")[:64] for name in ("since", "until")} | {
                "dead": form is not None and form.has("dead")
            }
        elif tab == "settings":
            found["secrets"] = registration.secrets_in_force(gateway.clock.wall())
            found["grace"] = [*inputs_of((GRACE,))]
        else:
            found["changes"] = [(one, who(one.actor)) for one in await self._changes(registration)]
        return found

    def _span(self, since: str, until: str) -> tuple[float | None, float | None]:
        now, zone = self._gateway.clock.steady(), reader_zone()
        return parse_moment(since, "From", now, zone), parse_moment(until, "Until", now, zone)

    async def live(self, instance: str, label: str) -> Response:
        found = self._gateway.registrations.get(instance, label)
        may_change = visitor().has(Right.WEBHOOKS)

        async def render() -> str:
            return await self._now(self._gateway.registrations.get(instance, label), may_change=may_change)

        key = ("webhook", found.id, may_change)
        return self._streams.open(key, render, instance=instance)

    async def _now(self, registration: Registration, *, may_change: bool) -> str:
        return await self._site.fragment(
            "webhook_now.html",
            registration=registration,
            path=webhook_path(registration.instance, registration.label),
            may_change=may_change,
            row=row_of(self._gateway, registration),
            heads=await heads_of(self._gateway, registration),
        )

    async def live_deliveries(self, instance: str, label: str) -> Response:
        found = self._gateway.registrations.get(instance, label)
        chosen = self._span(request.args.get("since", "")[:64], request.args.get("until", "")[:64])

        async def render() -> str:
            registration = self._gateway.registrations.get(instance, label)
            return await self._deliveries(registration, *chosen)

        key = ("webhook's", found.id, chosen)
        return self._streams.open(key, render, instance=instance)

    async def _deliveries(self, registration: Registration, since: float | None, until: float | None) -> str:
        query = DeliveryQuery(
            instance=registration.instance,
            registrations=(registration.id,),
            since=since,
            until=until,
            limit=NEWEST,
        )
        rows, unread = list[Any](), None
        try:
            rows = [*await self._list_deliveries(query)]
        except (TooManyRequests, StorageUnavailable) as error:
            unread = " ".join(error.messages)  # the rest of the page needs no disk
        return await self._site.fragment(
            "webhook_deliveries.html", rows=rows, unread=unread, is_filtered=bool(since or until)
        )

    async def _changes(self, registration: Registration) -> list[AuditEntry]:
        instance = self._gateway.instances.get(registration.instance)
        found, cursor = list[AuditEntry](), None
        for _ in range(MOST_AUDIT_PAGES):
            page = await self._gateway.audit.list(
                AuditQuery(
                    instance=instance.name, instance_id=instance.id, action="registration", cursor=cursor
                )
            )
            found += [one for one in page.entries if one.subject == registration.label]
            cursor = page.cursor
            if cursor is None or len(found) >= MOST_CHANGES:
                break
        return found[:MOST_CHANGES]

    async def _change(self, instance: str, label: str, *, change: Change, notice: str) -> Response:
        await self._site.form()
        try:
            await change(instance, label)
        except HookgwError as error:
            return await self.page(instance, label, error=error)
        return self._site.redirect(webhook_path(instance, label), done=notice)

    async def cancel(self, instance: str, label: str) -> Response:
        """Make the pending deliveries dead letters: first show how many, then do it."""
        form = await self._site.form()
        deliveries = self._gateway.deliveries
        # What comes in while the reader looks at the count has no part in it.
        until = form.get("until") or rfc3339(self._gateway.clock.steady())
        try:
            asked = DeliverySelection(label=label, until=self._span("", until)[1])
            if not form.has("confirmed"):
                counted = await deliveries.count_cancellable([instance], asked, without_global=True)
                return await self.page(instance, label, cancels=counted.matching, until=until)
            job = await deliveries.cancel(instance, asked, without_global=True)
        except HookgwError as error:
            return await self.page(instance, label, error=error)
        if job.error is not None:
            return await self.page(instance, label, error=Conflict(job.error))
        return self._site.redirect(
            webhook_path(instance, label), done="cancelling" if job.is_running else "cancelled"
        )

    async def backfill(self, instance: str, label: str) -> Response:
        await self._site.form()
        return await self.send_missed(instance, label)

    async def send_missed(self, instance: str, label: str) -> Response:
        """Send what a webhook has missed while it was disabled; enable it with that if it still is."""
        gateway = self._gateway
        registration = gateway.registrations.get(instance, label)
        try:
            if registration.enabled:
                is_running = (await gateway.backfills.backfill_missed(instance, label)).is_running
            else:
                check_right(visitor().principal, Right.WEBHOOKS)
                stored = await gateway.registrations.update(instance, label, enabling(True), backfill=True)
                is_running = stored.job is not None
        except HookgwError as error:
            return await self.page(instance, label, error=error)
        return self._site.redirect(
            webhook_path(instance, label), done="backfilling" if is_running else "backfilled"
        )

    async def backfill_span(self, instance: str, label: str) -> Response:
        """Send the events of a span that the webhook has missed: first show how many, then do it."""
        form = await self._site.form()
        backfills = self._gateway.backfills
        registration = self._gateway.registrations.get(instance, label)
        try:
            since, until = self._span(form.get("since"), form.get("until"))
            if since is None:
                raise Invalid.of(
                    "backfill.since_missing",
                    "Enter from when on: everything in the log may be more than a receiver bears.",
                )
            if until is not None and until <= since:
                raise Invalid.of("backfill.until_before_since", "Until must be later than From.")
            asked = BackfillRequest(since=since, until=until, dead=form.has("dead"))
            if not form.has("confirmed"):
                if until is None:  # what comes in while the reader looks at the count is delivered anyway
                    asked = msgspec.structs.replace(asked, until=self._gateway.clock.steady())
                found = None
                with trio.move_on_after(COUNT_SECONDS):
                    found = await backfills.find(registration, asked)
                fixed = {
                    "since": rfc3339(asked.since),
                    "until": rfc3339(asked.until or 0),
                    "dead": asked.dead,
                }
                return await self.page(
                    instance, label, "backfill", form=form, counts=True, found=found, fixed=fixed
                )
            job = await backfills.backfill(instance, label, asked)
        except HookgwError as error:
            return await self.page(instance, label, "backfill", form=form, error=error)
        return self._site.redirect(
            webhook_path(instance, label), done="backfilling" if job.is_running else "backfilled"
        )

    async def test(self, instance: str, label: str) -> Response:
        form = await self._site.form()
        kind, data = form.get("kind") or None, form.get("data") or None
        try:
            data_json = None if data is None else json_of(data, "The data")
            attempt = await self._gateway.registrations.test(instance, label, kind=kind, data_json=data_json)
        except HookgwError as error:
            return await self.page(instance, label, "test", error=error, test_kind=kind, test_data=data)
        return await self.page(instance, label, "test", attempt=attempt, test_kind=kind, test_data=data)

    async def rotate(self, instance: str, label: str) -> Response:
        form = await self._site.form()
        try:
            grace = parse_grace(from_form((GRACE,), form))
            registration = await self._gateway.registrations.rotate_secret(instance, label, grace)
        except Invalid as error:
            return await self.page(instance, label, "settings", error=error)
        return await self.page(instance, label, "settings", shown=secret_of(registration), is_rotated=True)

    async def secret(self, instance: str, label: str) -> Response:
        await self._site.form()
        registration = self._gateway.registrations.get(instance, label)
        return await self.page(instance, label, "settings", shown=secret_of(registration))

    async def delete(self, instance: str, label: str) -> Response:
        form = await self._site.form()
        if not form.has("confirmed"):
            error = Invalid.of(
                "webhook.deletion_unconfirmed", "Nothing was deleted: tick the box to confirm."
            )
            return await self.page(instance, label, "settings", error=error)
        job = await self._gateway.registrations.delete(instance, label)
        notice = "deleting" if job.is_running else "deleted"
        return self._site.redirect(instance_path(instance, "webhooks"), done=notice)


def secret_of(registration: Registration) -> str:
    """Return the text with which the receiver verifies: the secret, or the public key."""
    newest = registration.secrets[0]
    return public_key_of(newest.value) if newest.signature is Signature.V1A else newest.value
