"""All HTTP that leaves the gateway: one guard, one dialer, and their clients."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

import structlog
import trio

from hookgw.concurrency.hub import NO_HUB, Hub
from hookgw.concurrency.threads import SYSTEM_THREADS, Threads
from hookgw.config.proxy_url import parse_proxy
from hookgw.config.settings import DeliverySettings
from hookgw.delivery.http.address_guard import AddressGuard
from hookgw.delivery.http.answer_memory import AnswerMemory
from hookgw.delivery.http.client_tls import ClientContexts, read_ca_file
from hookgw.delivery.http.connector_client import ConnectorClients
from hookgw.delivery.http.deadlines import Deadlines
from hookgw.delivery.http.dialer import Dialer
from hookgw.delivery.http.errors import Blocked, DeliveryError, Phase, ResolveFailed, TlsFailed
from hookgw.delivery.http.happy_eyeballs import Connect
from hookgw.delivery.http.own_addresses import OwnAddresses
from hookgw.delivery.http.plugin_client import MAX_PLUGIN_ANSWER, guarded_client
from hookgw.delivery.http.pools import ConnectionPools, PooledTransport
from hookgw.delivery.http.resolver import LookupsOfTrio, Resolve, SystemResolver
from hookgw.delivery.http.stream import TlsStream
from hookgw.delivery.http.transport import LaneTransport
from hookgw.kernel.target_url import Origin, parse_destination
from hookgw.records.registrations import Registration
from hookgw.records.tls_identity import NO_IDENTITY, TlsIdentity

logger = structlog.get_logger("hookgw.outbound")

_EVERYWHERE = ("0.0.0.0/0", "::/0")
_LEAST_REQUESTS = 16

URL_CHECK_TIMEOUT = 2.0
"""Seconds for looking up the host of a URL that is being registered."""


class Reach(NamedTuple):
    """How far a connection to a receiver came.

    Attributes:
        addresses: how many addresses its host has; 0 if that is not known.
        certificate_expires: the end of its certificate, in seconds since the epoch; ``None`` without TLS.
        why: why it ended, in a sentence; empty if nothing is wrong.
        failed: in which phase; ``None`` if nothing is wrong, or if the address guard refuses the host.
    """

    addresses: int = 0
    certificate_expires: float | None = None
    why: str = ""
    failed: Phase | None = None


class OutboundHttp:
    """Makes the connections of lanes and plugins. Every one of them passes the address guard.

    Args:
        descriptors: how many connections lanes may have in all.
        connector_requests: how many long polls connectors may have in progress in all; of other requests they
            may have half as many.
        connect: opens the connection to a vetted address, instead of the system.
        hub: watches the connections of lanes.

    Raises:
        StartError: ``ca_file`` cannot be read, or has no certificate.

    Attributes:
        http: the client for plugins, usable until :meth:`run` ends. Do not close it.
        pools: the connections of lanes, for exchanges while :meth:`run` is running. The client and
            :meth:`transport` do not count towards their limits.
        names: the system's resolver, unless another one was given.
        own_addresses: on which the gateway listens; the guard refuses them.
    """

    def __init__(
        self,
        settings: DeliverySettings,
        resolve: Resolve | None = None,
        *,
        descriptors: int = 2**20,
        connector_requests: int = 100,
        connect: Connect | None = None,
        threads: Threads = SYSTEM_THREADS,
        hub: Hub = NO_HUB,
    ) -> None:
        self.own_addresses = OwnAddresses()
        guard = AddressGuard(
            settings.allow_networks,
            refused_ports=settings.refused_ports,
            is_own_address=self.own_addresses.includes,
        )
        # One for all dialers: otherwise, each had as many threads.
        resolve = resolve or SystemResolver()
        self.has_proxy = settings.proxy is not None
        self.names = resolve if isinstance(resolve, SystemResolver) else None
        dialer = partial(
            Dialer,
            connect_timeout=settings.connect_timeout,
            resolve=resolve,
            connect=connect,
            proxy=parse_proxy(settings.proxy) if settings.proxy else None,
        )
        self._guard = guard
        self._dialer = dialer(guard)
        # For the servers that the operator lists by scheme, host and port. Even there hookgw does not call
        # itself.
        self._servers_dialer = dialer(
            AddressGuard(_EVERYWHERE, refused_ports=(), is_own_address=self.own_addresses.includes)
        )
        self._contexts = ClientContexts(read_ca_file(settings.ca_file), threads)
        self._timeout = settings.timeout
        self._connector_requests = connector_requests
        self._connector_clients: list[ConnectorClients] = []
        self._deadlines = Deadlines()
        self._max_answer = settings.max_answer
        self._connection_age = settings.connection_age or math.inf
        self._answers = AnswerMemory(settings.answer_memory)
        self.pools = ConnectionPools(
            partial(
                PooledTransport,
                self._dialer,
                max_answer=settings.max_answer,
                deadlines=self._deadlines,
                connection_age=self._connection_age,
                ssl_context=self._contexts,
                hub=hub,
            ),
            host_connections=settings.host_connections,
            descriptors=descriptors,
            idle=settings.lane_idle,
            answers=self._answers,
        )
        # Without `deadlines`: plugins may still make requests when run() has ended and nothing enforces them.
        self.http = guarded_client(
            partial(LaneTransport, self._dialer, max_answer=MAX_PLUGIN_ANSWER, ssl_context=self._contexts),
            timeout=settings.timeout,
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Enforce the deadlines of exchanges and close idle connections until cancelled, then close all.

        Start this with ``nursery.start`` before the first exchange, and cancel it after the last one.
        """
        if self.names is not None:
            # For the rest of the run, also for another gateway in it.
            trio.socket.set_custom_hostname_resolver(LookupsOfTrio(self.names))
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._deadlines.run)
                nursery.start_soon(self.pools.run)
                # Now and in a thread: the first delivery over TLS would block the loop for as long as this
                # takes, up to 100 ms.
                nursery.start_soon(self._contexts.get)
                task_status.started()
        finally:
            # Closing has a checkpoint, which would raise at once in a cancelled task.
            with trio.move_on_after(1, shield=True):
                await self.http.aclose()
                for clients in self._connector_clients:
                    await clients.aclose()

    def connector_clients(self, servers: Mapping[str, Iterable[Origin]]) -> dict[str, ConnectorClients]:
        """Make the HTTP clients of each plugin's connectors, usable until :meth:`run` ends. Do not close
        them.

        Args:
            servers: by plugin, the servers that the operator lists for its connectors. Only that plugin's
                clients may reach them at an address that is otherwise refused.
        """
        clients = {
            plugin: ConnectorClients(
                plugin,
                self._dialer,
                list(listed),
                self._servers_dialer,
                self._answers,
                timeout=self._timeout,
                connection_age=self._connection_age,
                ssl_context=self._contexts,
                max_requests=max(_LEAST_REQUESTS, self._connector_requests // 2 // len(servers)),
                max_polls=max(_LEAST_REQUESTS, self._connector_requests // len(servers)),
            )
            for plugin, listed in servers.items()
        }
        self._connector_clients += clients.values()
        return clients

    def transport(self, tls: TlsIdentity | None = None) -> LaneTransport:
        """Make a connection outside the pools, which opens with the first exchange. The caller closes it.

        Exchanges on it raise ``RuntimeError`` while :meth:`run` is not running.
        """
        return LaneTransport(
            self._dialer,
            max_answer=self._max_answer,
            deadlines=self._deadlines,
            ssl_context=self._contexts,
            tls=tls,
        )

    async def warnings(self, registration: Registration) -> list[str]:
        """Return why the address guard, or OpenSSL, would refuse deliveries to a registration now.

        The sentences start with the name of the field. There are none for a disabled registration or an
        unknown host. The lookup takes at most :data:`URL_CHECK_TIMEOUT` seconds.
        """
        if not registration.enabled or registration.is_pulled:
            return []
        target = parse_destination(registration.url)
        try:
            if target.scheme == "https" and registration.tls != NO_IDENTITY:
                await self._contexts.get(registration.tls, registration.instance)
        except TlsFailed as refusal:  # such as a key that is too short for the system's policy
            return [f"tls: {refusal.message}"]
        with trio.move_on_after(URL_CHECK_TIMEOUT):
            try:
                await self._dialer.vet(target.host, target.port, registration.instance, target.scheme)
            except Blocked as refusal:
                # The words of an attempt, and only if the guard refuses: a tenant learns no more about the
                # addresses of a name than an attempt would show.
                return [f"url: {refusal.message}"]
            except ResolveFailed:
                # The name may exist later; the attempts will tell.
                pass
        return []

    async def examine(self, registration: Registration) -> Reach:
        """Look a registration's host up, check its addresses, connect, do the TLS handshake, and close.

        The receiver speaks HTTP. A failure has the words of an attempt: a tenant learns no more than that
        would show.
        """
        target, holder, addresses = parse_destination(registration.url), registration.instance, 0
        limit = self._dialer.connect_timeout
        identity = registration.tls if target.scheme == "https" else NO_IDENTITY
        transport = self.transport(identity if identity != NO_IDENTITY else None)
        transport.looks_up_for = holder
        try:
            with trio.fail_after(limit):
                addresses = len(await self._dialer.vet(target.host, target.port, holder))
            stream = await transport.connect(target, tls=target.scheme == "https")
        except trio.TooSlowError:
            why = f"Looking up {target.host} took longer than {limit:g} s."
            return Reach(failed=Phase.RESOLVE, why=why)
        except DeliveryError as error:
            is_refused = isinstance(error, Blocked)
            return Reach(addresses, failed=None if is_refused else error.phase, why=error.message)
        finally:
            transport.close_nowait()
        expires = stream.certificate_expires() if isinstance(stream, TlsStream) else None
        stream.close_nowait()
        return Reach(addresses, certificate_expires=expires)

    def known_refusal(self, registration: Registration) -> str | None:
        """Return why the settings refuse a registration's address, if that is known without a lookup.

        It is the text of an attempt, with the setting; ``None`` for a disabled registration, or for a name on
        an allowed port.
        """
        if not registration.enabled or registration.is_pulled:
            return None
        target = parse_destination(registration.url)
        refusal = self._guard.known_refusal(target.host, target.port, target.scheme)
        return refusal and f"The host {target.host} is blocked. {refusal}"

    async def log_refused_urls(self, registrations: Iterable[Registration]) -> None:
        """Log the :meth:`warnings` of registrations that come from the configuration, not the API."""
        for registration in registrations:
            for reason in await self.warnings(registration):
                logger.warning("URL in the configuration is refused", label=registration.label, reason=reason)
