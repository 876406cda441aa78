"""Delivers to RabbitMQ: ``amqp://`` and ``amqps://`` URLs, with publisher confirms.

It needs ``pip install hookgw[rabbitmq]``. docs/destinations.md describes the URLs and the options of a
registration::

    {"url": "amqp://user:password@broker.example/vhost", "plugins": {"rabbitmq": {"exchange": "events"}}}

An example of ``hookgw_destinations`` with connections that outlast an attempt, which ``hookgw_run`` keeps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from hookgw import OutgoingDelivery, Registration, Response, hookimpl

from .options import check_registration

if TYPE_CHECKING:
    from .connections import Connections

NEEDED = "pamqp is not installed. Install hookgw with its extra: pip install 'hookgw[rabbitmq]'."


class _State:
    connections: Connections | None = None


async def send(outgoing: OutgoingDelivery) -> Response:
    try:
        from .publish import publish
    except ImportError:
        raise ConnectionError(NEEDED) from None
    if _State.connections is None:
        raise ConnectionError("The connections to brokers are starting.")
    return await publish(outgoing, _State.connections)


@hookimpl
def hookgw_destinations() -> dict[str, Callable[[OutgoingDelivery], Awaitable[Response]]]:
    """Send to brokers, in plain text and over TLS."""
    return {"amqp": send, "amqps": send}


@hookimpl
def hookgw_check_registration(options: dict[str, Any], registration: Registration) -> None:
    """Check the exchange and the routing key of a registration."""
    check_registration(options, registration)


@hookimpl
async def hookgw_run() -> None:
    """Keep the connections, until the end."""
    try:
        from .connections import Connections
    except ImportError:
        return
    connections = Connections()
    _State.connections = connections
    try:
        await connections.run()
    finally:
        _State.connections = None
