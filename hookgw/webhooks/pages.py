"""The registrations of an instance: listed and set on its page, and each on a separate page."""

from __future__ import annotations

from functools import partial

from quart import Response

from hookgw.core.registry import accept_any
from hookgw.kernel.errors import HookgwError
from hookgw.kernel.schemes import PULL_URL
from hookgw.keys.pages import ShowInstance
from hookgw.records.api_keys import Right
from hookgw.records.instances import check_name
from hookgw.records.registrations import DEFAULT_LABEL
from hookgw.site.field_form import from_form
from hookgw.site.figure_part import Spark, Sparks
from hookgw.site.page_paths import webhook_path
from hookgw.site.seen import unchanged
from hookgw.site.site import Form, Page, Site, visitor
from hookgw.web.auth import check_named
from hookgw.web.forwarding import forward_call
from hookgw.web.needs import within_reach
from hookgw.webhooks.change import parse_registration, unmask_change
from hookgw.webhooks.fields import FIELDS
from hookgw.webhooks.page_values import Row, Values, row_of, shown_of, values_of
from hookgw.webhooks.webhook_page import ListDeliveries, WebhookPage, secret_of


class WebhookForms(Page):
    """Lists and sets registrations. Each has a page of its own, too.

    ``show`` shows the page of the instance again.
    """

    def __init__(self, site: Site, show: ShowInstance, list_deliveries: ListDeliveries) -> None:
        super().__init__(site)
        self._show = show
        self._sparks = Sparks(site.gateway)
        self._own = WebhookPage(site, list_deliveries)
        path = "/instances/<instance>/webhooks"
        site.add(path, self.set_webhook, Right.WEBHOOKS, "POST")
        site.add("/webhooks/backfill", self.backfill_named, within_reach(Right.REPLAY), "POST", page="/")

    def rows(self, instance: str) -> list[Row]:
        """Return the registrations of an instance, sorted by label."""
        return [row_of(self._gateway, one) for one in self._gateway.registrations.of_instance(instance)]

    async def sparks(self, instance: str) -> dict[str, Spark | None]:
        """Return a small chart for each registration of an instance, by label."""
        registrations = self._gateway.registrations.of_instance(instance)
        found = await self._sparks.of([one.id for one in registrations])
        return {one.label: found.get(one.id) for one in registrations}

    def values(self, instance: str, form: Form | None, label: str = DEFAULT_LABEL) -> Values:
        return values_of(self._gateway, instance, form, label)

    async def set_webhook(self, instance: str) -> Response:
        form = await self._site.form()
        gateway = self._gateway
        gateway.instances.get(instance)
        label = form.get("label") or DEFAULT_LABEL
        is_own_page = form.has("own_page")
        try:
            check_name(label, "The label")
            url = PULL_URL if form.get("way") == "pull" else form.get("url")
            old = gateway.registrations.find(instance, label)
            body = {"url": url, "events": form.all("kind"), "enabled": form.has("enabled")}
            change, warnings = parse_registration(body | from_form(FIELDS, form), gateway.catalog)
            change = unmask_change(change, old, gateway.hooks.secret_options)
            # On the instance's page, the form shows the default one; another label replaces that one.
            is_shown = is_own_page or label == DEFAULT_LABEL
            check = unchanged(form, partial(shown_of, gateway, instance)) if is_shown else accept_any
            stored = await gateway.registrations.set(instance, label, change, check=check)
        except HookgwError as error:
            if is_own_page:
                return await self._own.page(instance, label, "settings", form=form, error=error)
            return await self._show(instance, form=form, at="webhook", error=error)
        warnings = [*warnings, *stored.warnings]
        if old is None or warnings:
            # Not a redirect: a new registration shows its secret.
            secret = secret_of(stored.registration)
            return await self._own.page(
                instance, label, "settings", warnings=warnings, shown=secret, is_saved=True
            )
        path = webhook_path(instance, label)
        return self._site.redirect(path, tab="settings", done="saved")

    async def backfill_named(self) -> Response:
        """Send what a webhook that a list shows has missed."""
        instance, _, label = (await self._site.form()).get("webhook").partition("/")
        check_named(self._gateway.registry, visitor().principal, Right.REPLAY, instance, label)
        elsewhere = await forward_call(instance)
        return await self._own.send_missed(instance, label) if elsewhere is None else elsewhere
