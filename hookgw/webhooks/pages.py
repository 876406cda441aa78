"""The registrations of an instance: listed and set on its page, and each on a separate page."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import UNSET
from quart import Response

from hookgw.core.access import check_right
from hookgw.kernel.errors import Conflict, HookgwError, Invalid, NotFound
from hookgw.kernel.fields import Field, Input
from hookgw.kernel.masking import with_masked_user
from hookgw.kernel.signing_keys import Signature, public_key_of
from hookgw.keys.pages import ShowInstance
from hookgw.lanes.fetches import LastFetch
from hookgw.records.api_keys import Right
from hookgw.records.instances import check_name
from hookgw.records.registrations import DEFAULT_GRACE, DEFAULT_LABEL, Registration, RetryOptions
from hookgw.records.selection import DeliverySelection
from hookgw.records.sentences import NO_WEBHOOK
from hookgw.site.field_form import form_values, from_form, inputs_of, into_form
from hookgw.site.payloads import json_of
from hookgw.site.site import Form, Site, visitor
from hookgw.site.streams import Streams
from hookgw.web.auth import check_named
from hookgw.web.forwarding import forward_form
from hookgw.web.needs import within_reach
from hookgw.webhooks.change import RegistrationChange, parse_registration, unmask_change
from hookgw.webhooks.fields import FIELDS, Showing
from hookgw.webhooks.responses import present_registration


class Row(NamedTuple):
    """A registration in the list.

    Attributes:
        url: with masked user and password.
        state: ``active``, ``paused``, ``disabled`` or ``failing``.
        reason: why it is not active.
        since: when it began to fail, in seconds since the epoch; ``None`` unless it does.
        kinds: how many kinds it receives; 0 for all of them.
        fetched: when its receiver fetched last; ``None`` if its deliveries are posted.
    """

    label: str
    url: str
    state: str
    reason: str | None
    since: float | None
    kinds: int
    backlog: int
    fetched: LastFetch | None


class Values(NamedTuple):
    """What is in the fields of the form that sets a registration.

    Attributes:
        inputs: by their names.
        is_special: whether one of the inputs is not as for a new registration.
    """

    label: str
    url: str
    enabled: bool
    kinds: frozenset[str]
    inputs: dict[str, Any]
    is_special: bool
    is_new: bool
    fields: Sequence[tuple[Field, Field, Input]] = tuple(inputs_of(FIELDS))


class WebhookForms:
    """Sets, changes and deletes registrations, and pages of them.

    ``show`` shows the page of the instance again.
    """

    def __init__(self, site: Site, streams: Streams, show: ShowInstance) -> None:
        self._site = site
        self._gateway = site.gateway
        self._streams = streams
        self._show = show
        path = "/instances/<instance>/webhooks"
        site.add(path, self.set_webhook, Right.WEBHOOKS, "POST", page="/instances/{instance}")
        path += "/<label>"
        site.add(path, self.show_webhook, Right.READ)
        site.add("/live/webhook/<instance>/<label>", self.live, Right.READ)
        site.add("/webhooks/backfill", self.backfill_named, within_reach(Right.REPLAY), "POST", page="/")
        for name, view, right in (
            ("enable", self.enable, Right.WEBHOOKS),
            ("disable", self.disable, Right.WEBHOOKS),
            ("pause", self.pause, Right.WEBHOOKS),
            ("resume", self.resume, Right.WEBHOOKS),
            ("cancel", self.cancel, Right.REPLAY),
            ("backfill", self.backfill, Right.REPLAY),
            ("backfill/cancel", self.cancel_backfill, Right.REPLAY),
            ("test", self.test, Right.WEBHOOKS),
            ("rotate", self.rotate, Right.WEBHOOKS),
            ("secret", self.secret, Right.WEBHOOKS),
            ("delete", self.delete_webhook, Right.WEBHOOKS),
        ):
            page = "/instances/{instance}/webhooks/{label}"
            site.add(f"{path}/{name}", view, right, "POST", page=page)

    def rows(self, instance: str) -> list[Row]:
        """Return the registrations of an instance, sorted by label."""
        return [self._row(one) for one in self._gateway.registrations.of_instance(instance)]

    def _row(self, registration: Registration) -> Row:
        gateway, state, reason = self._gateway, "active", None
        since = gateway.auto_disable.failing_since(registration.id)
        if not registration.enabled:
            state, reason = "disabled", registration.disabled_reason
        elif registration.is_paused:
            state = "paused"
        elif since is not None:
            errors = (lane.last_error for lane in gateway.dispatcher.lanes(registration.id))
            state, reason = "failing", next(filter(None, errors), "Attempts fail.")
        return Row(
            registration.label,
            with_masked_user(registration.url),
            state,
            reason,
            since + gateway.clock.wall() - gateway.clock.steady() if since and state == "failing" else None,
            len(registration.events),
            gateway.backlog.of(registration.id)[0],
            gateway.pulls.fetched(registration),
        )

    def values(self, instance: str, form: Form | None, label: str = DEFAULT_LABEL) -> Values:
        """Return the form's values: the entered ones, else the stored ones, else the defaults."""
        new = Registration(id="", instance=instance, url="")
        stored = self._gateway.registrations.find(instance, form.get("label", label) if form else label)
        shown = stored or new
        inputs, blank = self._inputs(shown), self._inputs(new)
        url, enabled, kinds = with_masked_user(shown.url), shown.enabled, frozenset(shown.events)
        if form is not None:
            inputs, label = form_values(FIELDS, form), form.get("label", DEFAULT_LABEL)
            url, enabled, kinds = form.get("url"), form.has("enabled"), frozenset(form.all("kind"))
        return Values(label, url, enabled, kinds, inputs, inputs != blank, stored is None)

    def _inputs(self, registration: Registration) -> dict[str, Any]:
        gateway = self._gateway
        showing = Showing("", gateway.catalog, gateway.hooks.secret_options)
        return into_form(FIELDS, msgspec.to_builtins(present_registration(registration, showing)))

    async def set_webhook(self, instance: str) -> Response:
        form = await self._site.form()
        gateway = self._gateway
        gateway.instances.get(instance)
        label = form.get("label") or DEFAULT_LABEL
        is_own_page = form.has("own_page")
        try:
            check_name(label, "The label")
            body = {"url": form.get("url"), "events": form.all("kind"), "enabled": form.has("enabled")}
            change, warnings = parse_registration(body | from_form(FIELDS, form), gateway.catalog)
            old = gateway.registrations.find(instance, label)
            if old is not None and isinstance(change.retry, RetryOptions):
                # The form has one of the retry rules; the others stay.
                kept = msgspec.structs.replace(old.retry, max_age=change.retry.max_age)
                change = msgspec.structs.replace(change, retry=kept)
            change = unmask_change(change, old, gateway.hooks.secret_options)
            stored = await gateway.registrations.set(instance, label, change)
        except HookgwError as error:
            if is_own_page:
                return await self._page(instance, label, form=form, error=error)
            return await self._show(instance, form=form, at="webhook", error=error)
        warnings = [*warnings, *stored.warnings]
        if old is None or warnings:
            # Not a redirect: a new registration shows its secret.
            return await self._page(
                instance, label, warnings=warnings, shown=_secret_of(stored.registration), is_saved=True
            )
        return self._site.redirect(_path(instance, label), done="saved")

    async def show_webhook(self, instance: str, label: str) -> Response:
        return await self._page(instance, label)

    async def _page(
        self,
        instance: str,
        label: str,
        *,
        form: Form | None = None,
        error: HookgwError | None = None,
        **shown: Any,
    ) -> Response:
        registration = self._gateway.registrations.find(instance, label)
        if registration is None and error is None:
            raise NotFound(NO_WEBHOOK(instance=instance, label=label))
        now = None if registration is None else await self._now(registration)
        backfill, missed = None, None
        if registration is not None:
            backfill = self._gateway.jobs.backfill_of(registration.id)
            if backfill is None:
                missed = await self._gateway.backfills.missed_while_disabled(registration)
        return await self._site.render(
            "webhook.html",
            200 if error is None else error.status,
            instance=instance,
            label=label,
            path=_path(instance, label),
            registration=registration,
            now=now,
            backfill=backfill,
            missed=missed,
            live=f"/live/webhook/{quote(instance)}/{quote(label)}",
            webhook=self.values(instance, form, label),
            kinds=[kind for kind in self._gateway.catalog if not kind.operational],
            alert=error.messages if error else None,
            is_refused=form is not None,
            **shown,
        )

    async def live(self, instance: str, label: str) -> Response:
        self._gateway.registrations.get(instance, label)

        async def render() -> str:
            return await self._now(self._gateway.registrations.get(instance, label))

        return self._streams.open(
            visitor().signed_in, ("webhook", instance, label), render, instance=instance
        )

    async def _now(self, registration: Registration) -> str:
        return await self._site.fragment(
            "webhook_now.html", registration=registration, row=self._row(registration)
        )

    async def enable(self, instance: str, label: str) -> Response:
        await self._site.form()
        change = RegistrationChange(is_set=False, url=UNSET, enabled=True, events=UNSET)
        update = self._gateway.registrations.update(instance, label, change)
        return await self._done(instance, label, "enabled", update)

    async def disable(self, instance: str, label: str) -> Response:
        await self._site.form()
        change = RegistrationChange(is_set=False, url=UNSET, enabled=False, events=UNSET)
        update = self._gateway.registrations.update(instance, label, change)
        return await self._done(instance, label, "disabled", update)

    async def cancel(self, instance: str, label: str) -> Response:
        """Make the pending deliveries dead letters: first show how many, then do it."""
        form = await self._site.form()
        deliveries, asked = self._gateway.deliveries, DeliverySelection(label=label)
        try:
            if not form.has("confirmed"):
                counted = await deliveries.count_cancellable([instance], asked, without_global=True)
                return await self._page(instance, label, cancels=counted.matching)
            job = await deliveries.cancel(instance, asked, without_global=True)
        except HookgwError as error:
            return await self._page(instance, label, error=error)
        if job.error is not None:
            return await self._page(instance, label, error=Conflict(job.error))
        return self._site.redirect(
            _path(instance, label), done="cancelling" if job.is_running else "cancelled"
        )

    async def backfill(self, instance: str, label: str) -> Response:
        await self._site.form()
        return await self._send_missed(instance, label)

    async def backfill_named(self) -> Response:
        """The same of a webhook that a list shows."""
        instance, _, label = (await self._site.form()).get("webhook").partition("/")
        check_named(self._gateway.registry, visitor().principal, Right.REPLAY, instance, label)
        elsewhere = await forward_form(instance)
        return await self._send_missed(instance, label) if elsewhere is None else elsewhere

    async def _send_missed(self, instance: str, label: str) -> Response:
        """Send what a webhook has missed while it was disabled; enable it with that if it still is."""
        gateway = self._gateway
        registration = gateway.registrations.get(instance, label)
        try:
            if registration.enabled:
                is_running = (await gateway.backfills.backfill_missed(instance, label)).is_running
            else:
                check_right(visitor().principal, Right.WEBHOOKS)
                change = RegistrationChange(is_set=False, url=UNSET, enabled=True, events=UNSET)
                stored = await gateway.registrations.update(instance, label, change, backfill=True)
                is_running = stored.job is not None
        except HookgwError as error:
            return await self._page(instance, label, error=error)
        return self._site.redirect(_path(instance, label), done="backfilling" if is_running else "backfilled")

    async def cancel_backfill(self, instance: str, label: str) -> Response:
        await self._site.form()
        return await self._done(
            instance, label, "backfill_ended", self._gateway.backfills.cancel(instance, label)
        )

    async def pause(self, instance: str, label: str) -> Response:
        await self._site.form()
        return await self._done(instance, label, "paused", self._gateway.registrations.pause(instance, label))

    async def resume(self, instance: str, label: str) -> Response:
        await self._site.form()
        return await self._done(
            instance, label, "resumed", self._gateway.registrations.resume(instance, label)
        )

    async def _done(self, instance: str, label: str, notice: str, change: Awaitable[object]) -> Response:
        try:
            await change
        except HookgwError as error:
            return await self._page(instance, label, error=error)
        return self._site.redirect(_path(instance, label), done=notice)

    async def test(self, instance: str, label: str) -> Response:
        form = await self._site.form()
        kind, data = form.get("kind") or None, form.get("data") or None
        try:
            data_json = None if data is None else json_of(data, "The data")
            attempt = await self._gateway.registrations.test(instance, label, kind=kind, data_json=data_json)
        except HookgwError as error:
            return await self._page(instance, label, error=error, test_kind=kind, test_data=data)
        return await self._page(instance, label, attempt=attempt, test_kind=kind, test_data=data)

    async def rotate(self, instance: str, label: str) -> Response:
        await self._site.form()
        registration = await self._gateway.registrations.rotate_secret(instance, label, DEFAULT_GRACE)
        return await self._page(instance, label, shown=_secret_of(registration), is_rotated=True)

    async def secret(self, instance: str, label: str) -> Response:
        await self._site.form()
        return await self._page(
            instance, label, shown=_secret_of(self._gateway.registrations.get(instance, label))
        )

    async def delete_webhook(self, instance: str, label: str) -> Response:
        form = await self._site.form()
        if not form.has("confirmed"):
            return await self._page(
                instance,
                label,
                error=Invalid.of(
                    "webhook.deletion_unconfirmed", "Nothing was deleted: tick the box to confirm."
                ),
            )
        job = await self._gateway.registrations.delete(instance, label)
        notice = "deleting" if job.is_running else "deleted"
        return self._site.redirect(f"/instances/{quote(instance)}", done=notice)


def _path(instance: str, label: str) -> str:
    return f"/instances/{quote(instance)}/webhooks/{quote(label)}"


def _secret_of(registration: Registration) -> str:
    """Return the text with which the receiver verifies: the secret, or the public key."""
    newest = registration.secrets[0]
    return public_key_of(newest.value) if newest.signature is Signature.V1A else newest.value
