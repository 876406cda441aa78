"""Publishes one delivery."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from pamqp import commands

from hookgw import OutgoingDelivery, Response

from .connection import Message, NoChannelLeft
from .connections import Connections
from .options import options_of

_PERSISTENT = 2
# As properties of the message, or of no use to a consumer.
_NOT_HEADERS = frozenset({"content-type", "user-agent"})


async def publish(outgoing: OutgoingDelivery, connections: Connections) -> Response:
    """Publish a delivery, and return what the broker said of it; 200 once it has confirmed it.

    Raises:
        OSError: the broker cannot be reached, or takes no messages now.
    """
    headers = outgoing.headers
    exchange, routing_key = options_of(outgoing.registration).filled(
        outgoing.event.instance, headers.get("x-event-type", outgoing.event.kind)
    )
    properties = commands.Basic.Properties(
        content_type=headers.get("content-type"),
        headers={name: value for name, value in headers.items() if name not in _NOT_HEADERS},
        delivery_mode=_PERSISTENT,
        message_id=headers["webhook-id"],
        timestamp=datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC),
        message_type=headers.get("x-event-type"),
        app_id="hookgw",
    )
    while True:
        connection = await connections.get(outgoing)
        message = Message(outgoing.registration.id, exchange, routing_key, properties, outgoing.body)
        with suppress(NoChannelLeft):
            return await connection.publish(message)
