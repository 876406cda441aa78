"""The page of one delivery: its requests and responses, and their results."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import msgspec
from quart import Response

from hookgw.core.access import check_right
from hookgw.deliveries.edited import Origin
from hookgw.deliveries.pages.deliveries import why_of
from hookgw.deliveries.present import WITHHELD
from hookgw.delivery.envelope import Envelope
from hookgw.kernel.errors import HookgwError, NotFound
from hookgw.kernel.language import gettext as _
from hookgw.kernel.masking import MASK, with_masked_user
from hookgw.kernel.rules import check_url
from hookgw.kernel.target_url import parse_target
from hookgw.records.api_keys import Principal, Right
from hookgw.records.deliveries import Attempt, DeliveryState, LaneState
from hookgw.records.events import path_segment
from hookgw.records.registrations import Registration
from hookgw.records.told_sentences import sentence_text
from hookgw.site.page_paths import delivery_path
from hookgw.site.payloads import MOST, Shown, html_size, json_of, shown_body, shown_curl, shown_json
from hookgw.site.site import Page, Site, visitor
from hookgw.store import DeliveryReport, DeliverySummary
from hookgw.web.auth import check_named
from hookgw.web.forwarding import forward_call
from hookgw.web.lists import first_of
from hookgw.web.needs import within_reach
from hookgw.web.request_body import reserve
from hookgw.web.server.response_memory import LIST
from hookgw.webhooks.lane_responses import present_attempt

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

_ROW = 900
"""Bytes of HTML that an attempt takes beside its texts."""
_SKIPPED_ON = {"overview": "/", "lanes": "/lanes"}
"""The pages beside that of the delivery where one is skipped, by the field ``page`` of the form."""


class SentHeader(NamedTuple):
    """A header of the requests, with its value masked if it may be a secret."""

    name: str
    value: str


class DeliveryPage(Page):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        site.add("/deliveries/<instance>/<name>", self._page, Right.READ)
        site.add("/live/delivery/<instance>/<name>", self.live, Right.READ)
        site.add("/deliveries/<instance>/<name>/<part>.json", self.download, Right.READ)
        site.add(
            "/deliveries/<instance>/<name>/resend",
            self.resend,
            Right.REPLAY,
            "POST",
            page="/deliveries/{instance}/{name}",
        )
        site.add("/deliveries/skip", self.skip, within_reach(Right.REPLAY), "POST", page="/deliveries")

    async def _page(
        self, instance: str, name: str, error: HookgwError | None = None, **shown: Any
    ) -> Response:
        report = await self._find(instance, name)
        registration = self._gateway.registrations.by_id(report.summary.registration)
        event = report.event
        data = curl = sent = None
        if visitor().has(Right.PAYLOADS):
            data = shown_json(event.data_json)
            body = report.body or envelope_of(self._gateway, registration, report)
            sent = shown_body(report.body) if report.body else None
            curl = _curl(registration, report, body) if registration else None
        origin = await self._gateway.deliveries.origin_of(report.summary)
        return await self._site.render(
            "delivery.html",
            delivery=report.summary,
            event=event,
            data=data,
            withheld=WITHHELD,
            registration=registration,
            receiver=with_masked_user(registration.url) if registration else None,
            headers=_headers(registration),
            curl=curl,
            sent=sent,
            origin=origin,
            editor=_editor(origin),
            attempts=await self._attempts(instance, name, visitor().principal),
            path=delivery_path(report.summary.instance, report.summary.id),
            live=f"/live/delivery/{quote(instance)}/{quote(report.summary.id)}",
            error=error,
            **shown,
        )

    async def _find(self, instance: str, name: str) -> DeliveryReport:
        self._gateway.instances.get(instance)
        return await self._gateway.history.find(
            instance, name, without_global=not visitor().principal.is_global
        )

    async def live(self, instance: str, name: str) -> Response:
        await self._find(instance, name)
        principal = visitor().principal
        key = ("delivery", instance, name, principal)
        render = partial(self._attempts, instance, name, principal)
        return self._streams.open(key, render, instance=instance)

    async def _attempts(self, instance: str, name: str, principal: Principal) -> str:
        report = await self._gateway.history.find(instance, name, without_global=not principal.is_global)
        # The answers are the receivers': a thousand of them would be a page of 20 MB.
        size, newest = 0, list[Attempt]()
        for attempt in reversed(report.attempts):
            texts = (
                attempt.answer,
                attempt.error,
                attempt.url,
                attempt.request_head,
                attempt.response_headers,
            )
            size += _ROW + sum(html_size(text) for text in texts if text)
            if newest and size > MOST:
                break
            newest.append(attempt)
        return await self._site.fragment(
            "delivery_attempts.html",
            delivery=report.summary,
            attempts=newest,
            others=len(report.attempts) - len(newest),
            path=delivery_path(report.summary.instance, report.summary.id),
            is_pending=report.summary.state is DeliveryState.PENDING,
            may_replay=principal.rights.has(Right.REPLAY),
            has_webhook=self._gateway.registrations.by_id(report.summary.registration) is not None,
            why=why_of(report.summary) or self._turn(report.summary),
        )

    def _turn(self, delivery: DeliverySummary) -> str | None:
        """Return why a delivery was not tried yet, in sentences."""
        if delivery.state is not DeliveryState.PENDING or delivery.attempts:
            return None
        lanes = self._gateway.dispatcher.lanes(delivery.registration)
        lane = next((one for one in lanes if one.lane == delivery.lane), None)
        if lane is not None and lane.held and lane.head is None:
            return _("It waits: an older transaction in the database holds it back.")
        if lane is None or lane.head == delivery.seq:
            return _("No attempt was made yet.")
        if lane.state is LaneState.PAUSED:
            return _("It waits: the webhook is paused.")
        # In order: earlier deliveries have their turn first.
        error = sentence_text(lane.last_error or "")
        return " ".join(filter(None, [_("It waits for those before it, which go first."), error]))

    async def download(self, instance: str, name: str, part: str) -> Response:
        """Return a whole part of the delivery; the page may show only its beginning."""
        await reserve(LIST)
        report = await self._find(instance, name)
        registration = self._gateway.registrations.by_id(report.summary.registration)
        if part in ("data", "body"):
            check_right(visitor().principal, Right.PAYLOADS)
        if part == "data":
            content = report.event.data_json
        elif part == "body" and registration is not None:
            content = report.body or envelope_of(self._gateway, registration, report)
        elif part == "attempts":
            newest = await first_of(reversed(report.attempts), present_attempt)
            content = msgspec.json.encode(newest)
        else:
            raise NotFound.of("delivery.no_part", "The delivery has no {part!r}.", part=part[:64])
        headers = {"content-disposition": f'attachment; filename="{report.summary.id}-{part}.json"'}
        return Response(content, headers=headers, content_type="application/json")

    async def resend(self, instance: str, name: str) -> Response:
        """Send a delivery again: as it was, with the data of the form, or once to its URL."""
        form = await self._site.form()
        deliveries, without_global = self._gateway.deliveries, not visitor().principal.is_global
        data, url = form.get("data"), form.get("url")
        try:
            if url:
                check_right(visitor().principal, Right.PAYLOADS)  # its owner sees the data
                attempt = await deliveries.send_elsewhere(
                    instance, name, check_url(url, "The URL"), without_global=without_global
                )
                return await self._page(instance, name, attempt=attempt, other_url=url)
            if data:
                check_right(visitor().principal, Right.PAYLOADS)
                check_right(visitor().principal, Right.SEND)
                edited = json_of(data, "The data")
                found = await deliveries.resend_edited(instance, name, edited, without_global=without_global)
                name = found.id
            else:
                await deliveries.resend(instance, name, without_global=without_global)
        except HookgwError as error:
            return await self._page(instance, name, error, edited=data, other_url=url)
        return self._site.redirect(delivery_path(instance, name), done="resent")

    async def skip(self) -> Response:
        """Cancel a delivery that its lane tries in vain, for this page and for lists of lanes."""
        form = await self._site.form()
        instance, _, name = form.get("delivery").partition("/")
        check_named(self._gateway.registry, visitor().principal, Right.REPLAY, instance)
        elsewhere = await forward_call(instance)
        if elsewhere is not None:
            return elsewhere
        await self._gateway.views.cancel_one(instance, name, without_global=not visitor().principal.is_global)
        page = _SKIPPED_ON.get(form.get("page"), delivery_path(instance, name))
        return self._site.back(page, "skipped")


def _headers(registration: Registration | None) -> list[SentHeader]:
    own = [] if registration is None else [SentHeader(name, MASK) for name in registration.headers]
    return [
        SentHeader("content-type", "application/json"),
        SentHeader("webhook-id", _("the id of the delivery, the same in each attempt")),
        SentHeader("webhook-timestamp", _("the time of the attempt")),
        SentHeader("webhook-signature", MASK),
        *own,
    ]


def _editor(origin: Origin | None) -> str:
    """Return who made an edited copy, in a sentence: a person's name is for those who may know operators."""
    actor = None if origin is None else origin.actor
    if actor is None:
        return ""
    if actor.person and visitor().principal.is_global:
        return _("{person} sent it.", person=actor.person)
    return _("It was sent with the key {key}.", key=actor.name)


def envelope_of(gateway: Gateway, registration: Registration | None, report: DeliveryReport) -> bytes:
    """Return the body that hookgw itself makes of an event, without plugins."""
    destination = "" if registration is None else registration.address
    return Envelope(destination, gateway.settings.server.public_url).encode(report.event)


def _curl(registration: Registration, report: DeliveryReport, body: bytes) -> Shown | None:
    """Return a command that sends the same body; a long one, from the downloaded file.

    ``None`` if the receiver fetches, a plugin sends, or the URL is the text of a disabled webhook.

    The receiver refuses it if it checks signatures.
    """
    try:
        target = parse_target(registration.address)
    except ValueError:
        return None
    if registration.by_events:
        target = target.for_kind(path_segment(report.event.kind))
    # curl takes brackets and braces in a URL for several URLs.
    words = [f"curl -g -X POST {shlex.quote(target.url)}", "-H 'content-type: application/json'"]
    words += [f"-H {shlex.quote(f'{name}: {MASK}')}" for name in registration.headers]
    return shown_curl(words, body, f"{report.summary.id}-body.json")
