"""Delivers to RabbitMQ: ``amqp://`` and ``amqps://`` URLs, with publisher confirms.

It needs ``pip install hookgw[rabbitmq]``. docs/destinations.md describes the URLs and the options of a
registration::

    {"url": "amqp://user:password@broker.example/vhost", "plugins": {"rabbitmq": {"exchange": "events"}}}

An example of ``hookgw_destinations`` with connections that outlast an attempt, which ``hookgw_run`` keeps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import trio

from hookgw import OutgoingDelivery, Registration, Response, hookimpl

from .options import check_registration

if TYPE_CHECKING:
    from .connections import Connections

NEEDED = "pamqp is not installed. Install hookgw with its extra: pip install 'hookgw[rabbitmq]'."


class _State:
    """What :func:`hookgw_run` makes. Without a first delivery, it imports and keeps nothing."""

    connections: Connections | None = None
    wanted: trio.Event | None = None
    ready: trio.Event


async def send(outgoing: OutgoingDelivery) -> Response:
    if _State.wanted is None:
        raise ConnectionError("The connections to brokers are starting.")
    try:
        from .publish import publish
    except ImportError:
        raise ConnectionError(NEEDED) from None
    _State.wanted.set()
    await _State.ready.wait()
    if _State.connections is None:
        raise ConnectionError("The connections to brokers are ending.")
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
    """Keep the connections, from the first delivery to the end."""
    _State.wanted, _State.ready = trio.Event(), trio.Event()
    try:
        await _State.wanted.wait()
        from .connections import Connections  # the sender has found its package

        _State.connections = Connections()
        _State.ready.set()
        await _State.connections.run()
    finally:
        _State.connections = _State.wanted = None
        _State.ready.set()
