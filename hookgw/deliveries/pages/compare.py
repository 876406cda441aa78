"""Two payloads side by side: a delivery's event and what was sent of it, or the events of two deliveries."""

from __future__ import annotations

from typing import NamedTuple

from quart import Response, request

from hookgw.core.access import check_reach
from hookgw.deliveries.pages.deliveries import path_of
from hookgw.deliveries.pages.delivery import envelope_of
from hookgw.kernel.errors import HookgwError
from hookgw.kernel.language import gettext as _
from hookgw.records.api_keys import Right
from hookgw.site.differences import compare
from hookgw.site.payloads import shown_body
from hookgw.site.site import Site, visitor
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


class ComparePage:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._gateway = site.gateway
        site.add("/deliveries/<instance>/<name>/compare", self.show, Right.PAYLOADS)

    async def show(self, instance: str, name: str) -> Response:
        """Compare a delivery with ``with`` of the query: another one's id, after its instance and a ``/``."""
        await reserve(LIST)
        asked, error = request.args.get("with", "").strip()[:LONGEST], None
        report = await self._find(instance, name)
        left = self._as_accepted(report)
        right = Payload(_("The body as it was sent"), left.path, report.body or left.content)
        if asked:
            try:
                other_instance, slash, other_name = asked.rpartition("/")
                other = await self._find(other_instance if slash else instance, other_name)
                left, right = _event_of(other), _event_of(report)
            except HookgwError as wrong:
                error = wrong
        shown = [shown_body(one.content) for one in (left, right)]
        found = compare(*(one.text for one in shown))
        return await self._site.render(
            "compare.html",
            200 if error is None else error.status,
            left=left,
            right=right,
            found=found,
            is_whole=found.is_whole and all(one.is_whole for one in shown),
            delivery=report.summary,
            instance=instance,
            has_body=report.body is not None,
            asked=asked,
            path=path_of(report.summary),
            alert=error.messages if error else None,
        )

    async def _find(self, instance: str, name: str) -> DeliveryReport:
        principal = visitor().principal
        check_reach(self._gateway.registry, principal, instance)
        self._gateway.instances.get(instance)
        return await self._gateway.history.find(instance, name, without_global=not principal.is_global)

    def _as_accepted(self, report: DeliveryReport) -> Payload:
        registration = self._gateway.registrations.by_id(report.summary.registration)
        content = envelope_of(self._gateway, registration, report)
        return Payload(_("The event as it was accepted"), path_of(report.summary), content)


def _event_of(report: DeliveryReport) -> Payload:
    return Payload(report.summary.id, path_of(report.summary), report.event.data_json)
