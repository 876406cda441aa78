"""``/delivery/pull`` and ``/delivery/ack``: for receivers that fetch their deliveries."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator

import msgspec
from msgspec import UNSET, UnsetType
from quart import Response, request

from hookgw.deliveries import responses
from hookgw.deliveries.pull import Pulled
from hookgw.deliveries.pull_requests import Pull, parse_acknowledgement, parse_pull
from hookgw.kernel.errors import HookgwError
from hookgw.records.api_keys import Right
from hookgw.records.registrations import DEFAULT_LABEL
from hookgw.web.openapi.describe import EVENT_STREAM, JSON, OrEvents, describes, json_body
from hookgw.web.request_body import current_exchange, json_response, read_optional_json, read_parsed
from hookgw.web.route_group import RouteGroup, labelled
from hookgw.web.server.exchange import RequestResponse

_TAG = "Deliveries"
_PULL_BODY = json_body(
    "PullRequest",
    required=False,
    wait_for_the_next={"wait": "30s", "consumer": "n8n-1"},
    with_a_place_of_its_own={"wait": "30s", "after": "c11.11.5e0f1d2c.8d41a07be35c"},
)
_PULLED = OrEvents(
    responses.PulledDeliveries,
    "Server-sent events: the `data` of each is a `PulledDelivery` as JSON, and its `id` the cursor. If an "
    "error ends the stream, the last one has `event: error`, and its `data` is why: `Messages` as JSON. A "
    "line that begins with a colon is none.",
)
_ACK_BODY = json_body(
    "AcknowledgeRequest",
    up_to_a_cursor={"cursor": "c11.11.5e0f1d2c.8d41a07be35c", "consumer": "n8n-1"},
    one_that_failed={"ids": ["dlv_17"], "failed": [{"id": "dlv_18", "reason": "no such customer"}]},
)


class PullRoutes(RouteGroup):
    @labelled("POST", "/delivery/pull/<instance>")
    @describes(_TAG, Right.RECEIVE, {200: _PULLED}, body=_PULL_BODY, errors=(409, 429))
    async def pull(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """Fetch the next deliveries of a webhook whose URL is `pull:`, in order.

        They are leased to the consumer, who acknowledges them with `/delivery/ack`, and who gets them again
        if it asks before. With `accept: text/event-stream`, deliveries come as a stream of events, unless
        `accept` has `application/json`, too: `data` is one of `deliveries`, `id` its cursor; they are
        acknowledged in the same way.
        """
        self._gateway.pulls.find(instance, label)  # 404 comes before any error of the body
        asked = parse_pull(await read_optional_json(self._limit))
        exchange = current_exchange()
        # It waits, which is no work. Pulls limit how many wait of an instance.
        exchange.stop_counting()
        # Generated clients accept both, and can read JSON alone.
        if request.accept_mimetypes.best_match([JSON, EVENT_STREAM]) == EVENT_STREAM:
            # The first look before the response begins, so that errors have their status.
            self._gateway.pulls.find(instance, label)
            response = Response(
                self._events(exchange, instance, label, asked),
                # As the streams of the dashboard.
                headers={"cache-control": "no-store, no-transform", "x-accel-buffering": "no"},
                content_type=f"{EVENT_STREAM}; charset=utf-8",
            )
            response.timeout = None
            return response
        found = await self._gateway.pulls.pull(instance, label, asked, exchange)
        if exchange.check_key is not None:
            exchange.check_key()  # it may have been revoked during the wait
        cursor = found[-1].cursor if found else asked.after
        return json_response(responses.PulledDeliveries([_present(one) for one in found], cursor))

    @labelled("POST", "/delivery/ack/<instance>")
    @describes(_TAG, Right.RECEIVE, {200: responses.Acknowledged}, body=_ACK_BODY, errors=(409,))
    async def acknowledge(self, instance: str, label: str = DEFAULT_LABEL) -> Response:
        """Acknowledge fetched deliveries, or report failures.

        The response comes once it is on disk. A delivery that failed returns to the front of its lane, with
        all behind it: it follows the retry schedule, and becomes a dead letter in the end. Without a lease of
        the deliveries, the status is 409: fetch again.
        """
        self._gateway.pulls.find(instance, label)  # 404 comes before any error of the body
        asked = await read_parsed(self._limit, parse_acknowledgement)
        return json_response(await self._gateway.pulls.acknowledge(instance, label, asked))

    async def _events(
        self, exchange: RequestResponse, instance: str, label: str, asked: Pull
    ) -> AsyncIterator[bytes]:
        def check() -> None:
            if exchange.check_key is not None:
                exchange.check_key()

        try:
            async for found in self._gateway.pulls.stream(instance, label, asked, exchange, check):
                # In one part, so that all of it counts as memory until the client has taken it.
                yield b"".join(map(_event, found)) or b": \n\n"
        except HookgwError as error:
            # The response has begun: the reason comes as an event, and the client connects again.
            ids = [{"id": one.id, "values": one.values} for one in error.messages]
            data = msgspec.json.encode({"message": [*map(str, error.messages)], "errors": ids})
            yield b"event: error\ndata: %b\n\n" % data


def _event(one: Pulled) -> bytes:
    return b"id: %b\ndata: %b\n\n" % (one.cursor.encode(), msgspec.json.encode(_present(one)))


def _present(one: Pulled) -> responses.PulledDelivery:
    try:
        text: str | None = one.body.decode()
        binary: str | UnsetType = UNSET
    except UnicodeDecodeError:  # a plugin may encode anything
        text, binary = None, b64encode(one.body).decode()
    return responses.PulledDelivery(
        id=one.id, headers=one.headers, body=text, body_base64=binary, cursor=one.cursor
    )
