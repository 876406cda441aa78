"""The event monitor: what is accepted, live; and the page of an event, from which it is sent again."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from quart import Response, request

from hookgw.core.access import check_right
from hookgw.deliveries.pages.deliveries import row_of
from hookgw.deliveries.pages.suggestions import tagged
from hookgw.deliveries.present import WITHHELD
from hookgw.deliveries.requests import parse_list
from hookgw.deliveries.selection import instances_of, one_or_several
from hookgw.kernel.errors import Forbidden, HookgwError, Invalid, NotFound
from hookgw.kernel.language import N_
from hookgw.kernel.rules import check_url
from hookgw.records.api_keys import Principal, Right
from hookgw.records.events import Event
from hookgw.records.instances import name_before_retirement
from hookgw.site.addresses import address_for_programs
from hookgw.site.page_paths import delivery_path, event_path
from hookgw.site.payloads import MOST, Shown, shown_curl, shown_json
from hookgw.site.site import NavEntry, Page, Site, visitor
from hookgw.store import EventQuery, LoggedEvent
from hookgw.web.needs import within_reach
from hookgw.web.request_body import reserve
from hookgw.web.server.response_memory import LIST

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

PAGE = 100
"""Events on the page: the newest ones. A browser keeps no more of them."""
LONGEST = 200
"""Characters of a field."""
PREVIEW = 160
"""Bytes of a payload that a row shows."""
MOST_OPENED = 16 * 1024
"""Bytes of HTML of a payload that a row opens to."""


class Filters(NamedTuple):
    """The form above the list, as it was entered."""

    instance: str = ""
    tag: str = ""
    kind: str = ""
    text: str = ""

    def given(self) -> dict[str, str]:
        return {name: value for name, value in self._asdict().items() if value}

    def query(self, **more: str) -> str:
        return urlencode(self.given() | more)


class Row(NamedTuple):
    """An event in the list.

    Attributes:
        key: names its row on the page.
        instance: the name that people know, also of a deleted instance.
        path: of its page below the dashboard; empty if the instance was deleted.
        preview: the beginning of its payload, in one line; empty for who may not see it.
    """

    event: Event
    accepted_at: float
    key: str
    instance: str
    path: str
    preview: str


class EventsPage(Page):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        site.nav.append(NavEntry(N_("Events"), "/events"))
        site.add("/events", self.show, within_reach(Right.READ))
        site.add("/live/events", self.live, within_reach(Right.READ))
        site.add("/events/<instance>/<event_id>", self.event, Right.READ)
        site.add("/events/<instance>/<event_id>/row", self.opened, Right.READ)
        site.add("/events/<instance>/<event_id>/<part>.json", self.download, Right.READ)
        site.add(
            "/events/<instance>/<event_id>/send",
            self.send,
            Right.REPLAY,
            "POST",
            page="/events/{instance}/{event_id}",
        )

    async def show(self) -> Response:
        filters, principal, error, table = _asked(), visitor().principal, None, ""
        cursor = request.args.get("cursor") or None
        try:
            table = await self._table(filters, cursor, principal)
        except (Forbidden, Invalid, NotFound) as wrong:
            error = wrong
        return await self._site.render(
            "events.html",
            filters=filters,
            table=table,
            live=None if cursor or error else f"/live/events?{filters.query()}",
            kinds=self._gateway.catalog.stored(),
            names_instances=principal.instance is None,
            error=error,
        )

    async def live(self) -> Response:
        """Stream the list. Each stream holds one rendering, however slowly its browser reads."""
        filters, principal = _asked(), visitor().principal
        self._query(filters, principal)  # refused here, not once a second
        return self._streams.open(
            ("events", filters, principal),
            partial(self._table, filters, None, principal),
            within=None if "*" in filters.instance else filters.instance or None,
        )

    def _query(self, filters: Filters, principal: Principal) -> EventQuery | None:
        """Return the query of the log that filters ask for; ``None`` if it is for no instance."""
        gateway = self._gateway
        if filters.text:  # matches tell what is in the data
            check_right(principal, Right.PAYLOADS)
        tags = [filters.tag] if "=" in filters.tag else ()
        given = {"instances": filters.instance, "kind": filters.kind}
        selection = parse_list(given, gateway.catalog, now=gateway.clock.steady(), over_all=True, tags=tags)
        names = instances_of(gateway.registry, principal, selection)
        if filters.tag and not tags:
            names = tagged(gateway.registry, principal, filters.tag, selection)
        if names == ():
            return None
        instance, among = one_or_several(names)
        return EventQuery(
            instance=instance,
            among=among,
            kinds=selection.kinds,
            text=filters.text or None,
            limit=PAGE,
        )

    async def _table(self, filters: Filters, cursor: str | None, principal: Principal) -> str:
        query = self._query(filters, principal)
        found, older = [], None
        if query is not None:
            query = msgspec.structs.replace(query, cursor=cursor)
            page = await self._gateway.history.list_events(query, is_tenant=not principal.is_global)
            found, older = page.events, page.cursor
        return await self._site.fragment(
            "events_list.html",
            rows=[self._row(one, shows_data=principal.rights.has(Right.PAYLOADS)) for one in found],
            older=f"/events?{filters.query(cursor=older)}" if older else None,
            first=f"/events?{filters.query()}" if cursor else None,
            is_filtered=bool(filters.given()),
            names_instances=principal.instance is None,
        )

    def _row(self, logged: LoggedEvent, *, shows_data: bool) -> Row:
        event = logged.event
        exists = self._gateway.instances.find(event.instance) is not None
        preview = " ".join(event.data_json[:PREVIEW].decode(errors="replace").split())
        return Row(
            event,
            logged.accepted_at,
            f"{event.instance}.{event.id}",
            name_before_retirement(event.instance),
            event_path(event.instance, event.id) if exists else "",
            preview + ("…" if len(event.data_json) > PREVIEW else "") if shows_data else "",
        )

    async def opened(self, instance: str, event_id: str) -> Response:
        """Return what the row of an event opens to."""
        await reserve(LIST)
        report = await self._gateway.history.find_event(
            instance, event_id, without_global=not visitor().principal.is_global
        )
        event, shows_data = report.event, visitor().has(Right.PAYLOADS)
        text = await self._site.fragment(
            "event_opened.html",
            data=shown_json(event.data_json, MOST_OPENED) if shows_data else None,
            curl=_curl(self._gateway, event, MOST_OPENED) if shows_data else None,
            withheld=WITHHELD,
            path=event_path(instance, event_id),
        )
        return Response(text, content_type="text/html; charset=utf-8")

    async def event(self, instance: str, event_id: str) -> Response:
        return await self._event(instance, event_id)

    async def _event(
        self, instance: str, event_id: str, error: HookgwError | None = None, **shown: Any
    ) -> Response:
        gateway, principal = self._gateway, visitor().principal
        gateway.instances.get(instance)
        await reserve(LIST)
        report = await gateway.history.find_event(instance, event_id, without_global=not principal.is_global)
        shows_data = principal.rights.has(Right.PAYLOADS)
        return await self._site.render(
            "event.html",
            event=report.event,
            accepted_at=report.accepted_at,
            data=shown_json(report.event.data_json) if shows_data else None,
            curl=_curl(gateway, report.event, MOST) if shows_data else None,
            withheld=WITHHELD,
            rows=[row_of(gateway, one) for one in report.deliveries],
            webhooks=[one for one in gateway.registrations.of_instance(instance) if one.enabled],
            path=event_path(instance, event_id),
            error=error,
            **shown,
        )

    async def download(self, instance: str, event_id: str, part: str) -> Response:
        """Return the whole data, or the body of the call that emits it again."""
        if part not in ("data", "emit"):
            raise NotFound.of("event.no_part", "The event has no {part!r}.", part=part[:64])
        await reserve(LIST)
        report = await self._gateway.history.find_event(
            instance, event_id, without_global=not visitor().principal.is_global
        )
        check_right(visitor().principal, Right.PAYLOADS)
        headers = {"content-disposition": f'attachment; filename="{event_id}-{part}.json"'}
        content = report.event.data_json if part == "data" else _emit_body(report.event)
        return Response(content, headers=headers, content_type="application/json")

    async def send(self, instance: str, event_id: str) -> Response:
        """Send the event again: to a webhook of its instance, or once to a URL."""
        form = await self._site.form()
        check_right(visitor().principal, Right.PAYLOADS)  # its owner sees the data
        deliveries, without_global = self._gateway.deliveries, not visitor().principal.is_global
        url = form.get("url")
        try:
            if url:
                attempt = await deliveries.send_event_elsewhere(
                    instance, event_id, check_url(url, "The URL"), without_global=without_global
                )
                return await self._event(instance, event_id, attempt=attempt, other_url=url)
            check_right(visitor().principal, Right.SEND)
            sent = await deliveries.send_event(
                instance, event_id, form.get("label"), without_global=without_global
            )
        except HookgwError as error:
            return await self._event(instance, event_id, error, other_url=url)
        return self._site.redirect(delivery_path(instance, sent.id), done="resent")


def _asked() -> Filters:
    return Filters(**{name: request.args.get(name, "").strip()[:LONGEST] for name in Filters._fields})


def _emit_body(event: Event) -> bytes:
    # Without the id: with it, the event would be known already.
    return b'{"event": "%b", "data": %b}' % (event.kind.encode(), event.data_json)


def _curl(gateway: Gateway, event: Event, most: int) -> Shown:
    """Return a command that emits an event like this one, as a new event; a long one, from a file."""
    address = address_for_programs(gateway.settings.server)
    words = [
        f"curl -X POST {shlex.quote(f'{address}/event/emit/{quote(event.instance)}')}",
        '-H "apikey: $HOOKGW_KEY"',
        "-H 'content-type: application/json'",
    ]
    return shown_curl(words, _emit_body(event), f"{event.id}-emit.json", most)
