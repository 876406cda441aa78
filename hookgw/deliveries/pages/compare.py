"""Two payloads side by side: a delivery's event and what was sent of it, or the events of two deliveries."""

from __future__ import annotations

from typing import NamedTuple

from quart import Response, request

from hookgw.core.access import check_reach
from hookgw.deliveries.pages.delivery import envelope_of
from hookgw.kernel.errors import HookgwError
from hookgw.kernel.language import gettext as _
from hookgw.records.api_keys import Right
from hookgw.records.deliveries import parse_delivery_id
from hookgw.site.differences import compare
from hookgw.site.page_paths import delivery_path, event_path
from hookgw.site.payloads import shown_body
from hookgw.site.site import Page, Site, visitor
from hookgw.store import DeliveryReport
from hookgw.web.request_body import reserve
from hookgw.web.server.response_memory import LIST

LONGEST = 400
"""Characters of the name of a delivery."""


class Payload(NamedTuple):
    """One side. ``path`` is that of its delivery below the dashboard."""

    title: str
    path: str
    content: bytes


class ComparePage(Page):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        site.add("/deliveries/<instance>/<name>/compare", self.show, Right.PAYLOADS)

    async def show(self, instance: str, name: str) -> Response:
        """Compare a delivery with ``with`` of the query: the id of another one, or of an event.

        If it is of another instance, that and a ``/`` stand before it.
        """
        await reserve(LIST)
        asked, error = request.args.get("with", "").strip()[:LONGEST], None
        report = await self._find(instance, name)
        registration = self._gateway.registrations.by_id(report.summary.registration)
        content = envelope_of(self._gateway, registration, report)
        path = delivery_path(report.summary.instance, report.summary.id)
        left = Payload(_("The event as it was accepted"), path, content)
        right = Payload(_("The body as it was sent"), path, report.body or content)
        if asked:
            try:
                other_instance, slash, other_name = asked.rpartition("/")
                left = await self._event_of(other_instance if slash else instance, other_name)
                right = _event_of(report)
            except HookgwError as wrong:
                error = wrong
        shown = [shown_body(one.content) for one in (left, right)]
        found = compare(*(one.text for one in shown))
        return await self._site.render(
            "compare.html",
            left=left,
            right=right,
            found=found,
            is_whole=found.is_whole and all(one.is_whole for one in shown),
            delivery=report.summary,
            has_body=report.body is not None,
            asked=asked,
            path=path,
            error=error,
        )

    async def _event_of(self, instance: str, name: str) -> Payload:
        """Return the event of a delivery, or the event of that id, which may have no delivery."""
        if parse_delivery_id(name) is not None:
            return _event_of(await self._find(instance, name))
        without_global = self._check(instance)
        report = await self._gateway.history.find_event(instance, name, without_global=without_global)
        return Payload(name, event_path(instance, name), report.event.data_json)

    async def _find(self, instance: str, name: str) -> DeliveryReport:
        without_global = self._check(instance)
        return await self._gateway.history.find(instance, name, without_global=without_global)

    def _check(self, instance: str) -> bool:
        """Check that the visitor reaches an instance; return whether what is the operator's is left out."""
        principal = visitor().principal
        check_reach(self._gateway.registry, principal, instance)
        self._gateway.instances.get(instance)
        return not principal.is_global


def _event_of(report: DeliveryReport) -> Payload:
    summary = report.summary
    return Payload(summary.id, delivery_path(summary.instance, summary.id), report.event.data_json)
