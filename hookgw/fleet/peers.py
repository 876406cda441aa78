"""How this node reaches the others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from hookgw.auth.fleet_secret import FleetSecret
from hookgw.concurrency.threads import Threads
from hookgw.config.settings import Settings
from hookgw.delivery.http.client_tls import default_ssl_context
from hookgw.fleet.fleet_node import FleetNode
from hookgw.fleet.peer_calls import PeerCalls
from hookgw.kernel.collaborator import Collaborator

PEER_TIMEOUT = httpx.Timeout(120.0, connect=2.0)
"""Of calls to nodes that live. A connector may take a minute; a stream says something every few seconds."""
PEER_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=5.0)


class Peers(Collaborator):
    """The other nodes of a fleet.

    Attributes:
        node: this one.
        secret: signs requests between nodes; ``None`` if this node has no ``fleet.url``, and so is alone.
        http: makes requests to other nodes.
        calls: ends these requests when a node is gone. The gateway runs it.
    """

    node: FleetNode
    secret: FleetSecret | None
    http: httpx.AsyncClient
    calls: PeerCalls


@asynccontextmanager
async def open_peers(settings: Settings, node: FleetNode, threads: Threads) -> AsyncIterator[Peers]:
    """Open the client for requests to other nodes for the length of a block."""
    fleet = settings.fleet
    # No proxy and no address guard: nodes reach each other directly.
    async with httpx.AsyncClient(
        timeout=PEER_TIMEOUT,
        trust_env=False,
        limits=PEER_LIMITS,
        verify=await threads.run(default_ssl_context),
    ) as http:
        secret = FleetSecret(fleet.secret) if fleet.url and fleet.secret else None
        yield Peers(node, secret, http, PeerCalls(node, http, settings.server.base_path))
