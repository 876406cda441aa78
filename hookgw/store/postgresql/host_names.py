"""Lookups of the database's hosts, which end in time.

The system's resolver blocks its thread until it has an answer, and nothing can interrupt it: with silent name
servers for half a minute, and for minutes if a name is tried with each domain of a search list. Meanwhile the
thread of a session could neither answer its callers nor end. So each lookup has a thread of its own.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any

from psycopg import OperationalError
from psycopg.errors import ConnectionTimeout

from hookgw.concurrency.threads import try_to_start


class HostNames:
    """Looks names up, each once at a time. Used by several threads."""

    def __init__(self, getaddrinfo: Callable[..., Sequence[Any]] | None = None) -> None:
        self._getaddrinfo = getaddrinfo or socket.getaddrinfo
        # Until somebody takes the result: that of a slow lookup is for the next attempt to connect.
        self._lookups: dict[str, Future[list[str]]] = {}
        self._lock = threading.Lock()

    def addressed(
        self, given: Mapping[str, Any], within: float, failures: list[OperationalError] | None = None
    ) -> dict[str, str]:
        """Look up the hosts of a connection's parameters.

        Args:
            given: parameters of libpq.
            within: seconds for all lookups together.
            failures: gets why hosts that are left out have no address.

        Returns:
            The parameters that replace some of those, with one host for each address; none if no host is a
            name.

        Raises:
            ConnectionTimeout: no name was answered in time.
            OperationalError: no host has an address.
        """
        hosts = str(given.get("host") or "").split(",")
        names = [] if given.get("hostaddr") else [host for host in hosts if _is_name(host)]
        if not names:
            return {}
        lookups = {host: self._begin(host) for host in names}
        wait(lookups.values(), within)
        ports = str(given.get("port") or "").split(",")
        has_one_port = len(ports) == 1
        found: list[tuple[str, str, str]] = []
        failures = [] if failures is None else failures
        for host, port in zip(hosts, ports * len(hosts) if has_one_port else ports, strict=False):
            try:
                addresses = self._take(host, lookups[host]) if host in lookups else [""]
            except OperationalError as error:
                failures.append(error)
            else:
                found += [(host, address, port) for address in addresses]
        if failures and not found:
            raise failures[-1]
        each = dict(zip(("host", "hostaddr", "port"), map(",".join, zip(*found, strict=True)), strict=True))
        if has_one_port:  # or none, for which the environment may have one
            del each["port"]
        return each

    def _begin(self, host: str) -> Future[list[str]]:
        with self._lock:
            if (lookup := self._lookups.get(host)) is None:
                lookup = Future()
                name = f"lookup of {host}"
                if try_to_start(
                    threading.Thread(target=self._run, args=(host, lookup), name=name, daemon=True)
                ):
                    self._lookups[host] = lookup
                else:
                    lookup.set_exception(OSError("the system refuses a thread"))
            return lookup

    def _run(self, host: str, lookup: Future[list[str]]) -> None:
        try:
            found = self._getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except Exception as error:  # noqa: BLE001 -- it is raised where the result is taken
            lookup.set_exception(error)
        else:
            lookup.set_result(list(dict.fromkeys(str(entry[4][0]) for entry in found)))

    def _take(self, host: str, lookup: Future[list[str]]) -> list[str]:
        if not lookup.done():
            raise ConnectionTimeout(f"the name servers do not answer for {host}")
        with self._lock:
            if self._lookups.get(host) is lookup:
                del self._lookups[host]
        try:
            return lookup.result()
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise OperationalError(f"the host {host} could not be resolved: {reason}") from error


def _is_name(host: str) -> bool:
    if not host or host.startswith(("/", "@")):  # a socket
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False
