"""The page of one delivery: what was sent, what came back, and why."""

from __future__ import annotations

import shlex
from typing import NamedTuple
from urllib.parse import quote

import msgspec
from quart import Response

from hookgw.api.auth import check_access
from hookgw.api.forwarding import forward_form
from hookgw.dashboard.pages.deliveries import why_of
from hookgw.dashboard.site import Site, visitor
from hookgw.dashboard.streams import Streams
from hookgw.delivery.envelope import encode_envelope
from hookgw.models.deliveries import DeliveryState, LaneState
from hookgw.models.errors import HookgwError
from hookgw.models.masking import MASK, with_masked_user
from hookgw.models.registrations import Registration
from hookgw.store import DeliveryReport, DeliverySummary

_SKIPPED_ON = {"overview": "/", "lanes": "/lanes"}
"""The pages beside that of the delivery where one is skipped, by the field ``page`` of the form."""


class SentHeader(NamedTuple):
    """A header of the requests, with its value masked if it may be a secret."""

    name: str
    value: str


class DeliveryPage:
    """``/dashboard/deliveries/<instance>/<delivery>``.

    Args:
        site: the dashboard.
        streams: updates state and attempts.
    """

    def __init__(self, site: Site, streams: Streams) -> None:
        self._site = site
        self._gateway = site.gateway
        self._streams = streams
        site.add("/deliveries/<instance>/<name>", self.show)
        site.add("/live/delivery/<instance>/<name>", self.live)
        site.add(
            "/deliveries/<instance>/<name>/resend",
            self.resend,
            "POST",
            page="/deliveries/{instance}/{name}",
        )
        site.add("/deliveries/skip", self.skip, "POST", page="/deliveries")

    async def show(self, instance: str, name: str) -> Response:
        """Show the delivery."""
        return await self._page(instance, name)

    async def _page(self, instance: str, name: str, error: HookgwError | None = None) -> Response:
        report = await self._find(instance, name)
        registration = self._gateway.registrations.by_id(report.summary.registration)
        event = report.event
        return await self._site.render(
            "delivery.html",
            200 if error is None else error.status,
            delivery=report.summary,
            event=event,
            data=msgspec.json.format(event.data_json).decode(errors="replace"),
            registration=registration,
            receiver=with_masked_user(registration.url) if registration else None,
            headers=_headers(registration),
            curl=None if registration is None else _curl(registration, report),
            attempts=await self._attempts(instance, name),
            path=f"/deliveries/{quote(instance)}/{quote(report.summary.id)}",
            live=f"/live/delivery/{quote(instance)}/{quote(report.summary.id)}",
            alert=error.messages if error else None,
        )

    async def _find(self, instance: str, name: str) -> DeliveryReport:
        self._gateway.instances.get(instance)
        return await self._gateway.history.find(
            instance, name, without_global=not visitor().principal.is_global
        )

    async def live(self, instance: str, name: str) -> Response:
        """Stream state and attempts."""
        without_global = not visitor().principal.is_global
        await self._find(instance, name)

        async def render() -> str:
            return await self._attempts(instance, name, without_global=without_global)

        return self._streams.open(
            visitor().signed_in, ("delivery", instance, name, without_global), render, instance=instance
        )

    async def _attempts(self, instance: str, name: str, *, without_global: bool | None = None) -> str:
        if without_global is None:
            without_global = not visitor().principal.is_global
        report = await self._gateway.history.find(instance, name, without_global=without_global)
        newest = [*reversed(report.attempts)]
        return await self._site.fragment(
            "delivery_attempts.html",
            delivery=report.summary,
            attempts=newest,
            is_pending=report.summary.state is DeliveryState.PENDING,
            why=why_of(report.summary) or self._turn(report.summary),
        )

    def _turn(self, delivery: DeliverySummary) -> str | None:
        """Return why a delivery was not tried yet, in sentences."""
        if delivery.state is not DeliveryState.PENDING or delivery.attempts:
            return None
        lanes = self._gateway.dispatcher.lanes(delivery.registration)
        lane = next((one for one in lanes if one.lane == delivery.lane), None)
        if lane is not None and lane.held and lane.head is None:
            return "It waits: an older transaction in the database holds it back."
        if lane is None or lane.head == delivery.seq:
            return "No attempt was made yet."
        if lane.state is LaneState.PAUSED:
            return "It waits: the webhook is paused."
        # In order: what is before it has its turn first.
        return " ".join(["It waits for those before it, which go first.", *filter(None, [lane.last_error])])

    async def resend(self, instance: str, name: str) -> Response:
        """Send the delivery again."""
        await self._site.form()
        try:
            await self._gateway.deliveries.resend(
                instance, name, without_global=not visitor().principal.is_global
            )
        except HookgwError as error:
            return await self._page(instance, name, error)
        return self._site.redirect(f"/deliveries/{quote(instance)}/{quote(name)}", done="resent")

    async def skip(self) -> Response:
        """Cancel a delivery that its lane tries in vain, for this page and for those that list lanes."""
        form = await self._site.form()
        instance, _, name = form.get("delivery").partition("/")
        check_access(visitor().principal, instance)
        elsewhere = await forward_form(instance)
        if elsewhere is not None:
            return elsewhere
        await self._gateway.views.cancel_one(instance, name, without_global=not visitor().principal.is_global)
        page = _SKIPPED_ON.get(form.get("page"), f"/deliveries/{quote(instance)}/{quote(name)}")
        return self._site.redirect(page, done="skipped")


def _headers(registration: Registration | None) -> list[SentHeader]:
    """Return the headers of the requests to a registration, as it is now."""
    own = [] if registration is None else [SentHeader(name, MASK) for name in registration.headers]
    return [
        SentHeader("content-type", "application/json"),
        SentHeader("webhook-id", "the id of the delivery, the same in each attempt"),
        SentHeader("webhook-timestamp", "the time of the attempt"),
        SentHeader("webhook-signature", MASK),
        *own,
    ]


def _curl(registration: Registration, report: DeliveryReport) -> str:
    """Return a command that sends the same body. The receiver refuses it if it checks signatures."""
    body = encode_envelope(report.event, destination=registration.address, server_url=None)
    words = [f"curl -X POST {shlex.quote(registration.address)}", "-H 'content-type: application/json'"]
    words += [f"-H {shlex.quote(f'{name}: {MASK}')}" for name in registration.headers]
    words.append(f"-d {shlex.quote(body.decode(errors='replace'))}")
    return " \\\n  ".join(words)
