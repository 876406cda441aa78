"""Name lookups that cannot starve each other, even if some name servers never answer.

The system's resolver blocks a thread until it has an answer. For a silent name server that takes half a
minute, and nothing can interrupt it. So the threads are divided:

- One lookup per name at a time; concurrent callers wait for the same lookup.
- Names that were fast last time, new names, and names that were slow have separate threads. Slow names,
  however many, delay only each other, and new names delay no known name.
- Of each of the three, an instance gets its share (:mod:`hookgw.fair`): a lookup counts for the one that
  began it, until its thread has an answer.

A caller may be cancelled at any time. The lookup goes on, and its speed is remembered.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from functools import partial
from typing import Any

import outcome
import trio

from hookgw.concurrency.share_line import WaitingClaim, take_in_line
from hookgw.fair import Share

Found = Sequence[tuple[Any, Any, int, str, Any]]
"""The result of ``getaddrinfo``: family, type, protocol, name, and the socket's address."""

Resolve = Callable[..., Awaitable[Found]]
"""The interface of ``trio.socket.getaddrinfo``: called with host, port and ``type=``, and with ``holder=``,
the instance on whose behalf."""

SLOW_LOOKUP = 2.0
"""Seconds from which a lookup is slow."""

# 64 threads together, beside the 40 of Trio's default limiter, which all other blocking calls share.
MAX_FAST_LOOKUPS = 24
"""Concurrent lookups of names that were fast last time."""
MAX_NEW_LOOKUPS = 32
"""Concurrent lookups of names that are not known yet."""
MAX_SLOW_LOOKUPS = 8
"""Concurrent lookups of names that were slow last time, or had no answer."""

RATIO = 3
"""An instance may have this many times the threads that are free: three quarters, if it is the only one."""
RESERVED = 4
"""A quarter of the threads is for instances that have none: a silent name keeps one for half a minute."""

LOOKUP_REFUSED_FOR = 60.0
"""Seconds after a refused thread in which new and slow names have fewer."""

_USUAL = (0, socket.SOCK_STREAM, 0, 0)
"""The options of a lookup for a connection; the resolver shares only those."""

MAX_REMEMBERED_LOOKUPS = 10_000
"""Names of which the speed is remembered; the name that was not asked for longest is forgotten first."""


class SystemResolver:
    """Runs ``getaddrinfo`` in threads, divided fairly. It is a :data:`Resolve`.

    Attributes:
        was_fast: whether each remembered name was fast, the newest last.
        expected: names that count as fast until they are looked up: they were fast before a restart.
    """

    def __init__(self, getaddrinfo: Callable[..., Found] | None = None) -> None:
        self._getaddrinfo = getaddrinfo or socket.getaddrinfo
        self.expected: frozenset[str] = frozenset()
        self._lookups: dict[str, _Lookup] = {}
        self.was_fast: OrderedDict[str, bool] = OrderedDict()
        self._refused_at: float | None = None  # when the system refused a thread last
        self.threads: dict[bool | None, Share[WaitingClaim]] = {
            was_fast: Share(most, RATIO, RESERVED)
            for was_fast, most in (
                (True, MAX_FAST_LOOKUPS),
                (None, MAX_NEW_LOOKUPS),
                (False, MAX_SLOW_LOOKUPS),
            )
        }

    async def __call__(self, host: str, port: int, *, holder: str = "", **options: Any) -> Found:
        """Look up a host. An IP address is parsed at once, without a thread.

        Args:
            holder: the instance on whose behalf; empty for the operator's own names.
            options: further arguments of ``getaddrinfo``, the same for every call.

        Raises:
            OSError, UnicodeError: from ``getaddrinfo``.
            socket.gaierror: also if the system refuses a thread.
        """
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(host)
            return socket.getaddrinfo(host, port, flags=socket.AI_NUMERICHOST, **options)
        lookup = self._lookups.get(host)
        if lookup is None:
            threads = self.threads[self.was_fast.get(host, True if host in self.expected else None)]
            await take_in_line(threads, holder)
            lookup = self._lookups.get(host)
            if lookup is not None:
                # Another task got a thread for this name while this one waited.
                threads.give(holder)
            else:
                # No checkpoint between the check and the start, so a name never has two threads.
                lookup = self._start(host, threads, holder, options)
        await lookup.done.wait()
        # An Outcome can be unwrapped once, but several tasks may wait for it.
        found = copy(lookup.found).unwrap()
        return [(*entry[:4], (entry[4][0], port, *entry[4][2:])) for entry in found]

    def _start(
        self, host: str, threads: Share[WaitingClaim], holder: str, options: dict[str, Any]
    ) -> _Lookup:
        lookup = _Lookup(trio.current_time())
        token = trio.lowlevel.current_trio_token()

        def deliver(found: outcome.Outcome[Found]) -> None:
            # The thread may outlive the whole run; then no task waits for it.
            with contextlib.suppress(trio.RunFinishedError):
                token.run_sync_soon(self._finish, host, lookup, threads, holder, found)

        # Not trio.to_thread.run_sync: when its caller is cancelled, the result of the thread is lost to the
        # other tasks that wait for it.
        try:
            trio.lowlevel.start_thread_soon(
                lambda: self._getaddrinfo(host, 0, **options), deliver, f"lookup of {host}"
            )
        except (RuntimeError, MemoryError) as error:
            # "can't start new thread". Nobody else waits for this lookup yet: each task that waits for a
            # thread for the same name tries it next.
            self._leave_threads()
            threads.give(holder)
            raise socket.gaierror(socket.EAI_AGAIN, f"no thread for the lookup ({error})") from error
        self._lookups[host] = lookup
        return lookup

    def _leave_threads(self) -> None:
        """Limit new and slow names to a part of the threads: fast names need some."""
        self._refused_at = trio.current_time()
        running = len(self._lookups)
        self.threads[None].total = max(1, min(MAX_NEW_LOOKUPS, running // 2))
        self.threads[False].total = max(1, min(MAX_SLOW_LOOKUPS, running // 4))

    def _finish(
        self,
        host: str,
        lookup: _Lookup,
        threads: Share[WaitingClaim],
        holder: str,
        found: outcome.Outcome[Found],
    ) -> None:
        del self._lookups[host]
        lookup.found = found
        lookup.done.set()
        if self._refused_at is not None and trio.current_time() >= self._refused_at + LOOKUP_REFUSED_FOR:
            self._refused_at = None
            self.threads[None].total, self.threads[False].total = MAX_NEW_LOOKUPS, MAX_SLOW_LOOKUPS
            self.threads[None].serve()
            self.threads[False].serve()
        threads.give(holder)
        self.was_fast[host] = trio.current_time() - lookup.started_at < SLOW_LOOKUP
        self.was_fast.move_to_end(host)
        if len(self.was_fast) > MAX_REMEMBERED_LOOKUPS:
            self.was_fast.popitem(last=False)


class LookupsOfTrio(trio.abc.HostnameResolver):
    """Gives Trio's own lookups, as of calls between nodes and of plugins' clients, a resolver's threads.

    Trio makes them in the threads that all other blocking calls share, among them TLS handshakes, and leaves
    one behind for each caller that gave up: with silent name servers, none would be left within a minute.
    """

    def __init__(self, resolver: SystemResolver) -> None:
        self._resolver = resolver

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,  # noqa: A002 -- as getaddrinfo names it
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        if host is not None and isinstance(port, int) and (family, type, proto, flags) == _USUAL:
            return await self._resolver(host.decode("ascii"), port, type=type)
        call = partial(socket.getaddrinfo, host, port, family, type, proto, flags)
        return await trio.to_thread.run_sync(call, abandon_on_cancel=True)

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        return await trio.to_thread.run_sync(socket.getnameinfo, sockaddr, flags, abandon_on_cancel=True)


class _Lookup:
    """One call of ``getaddrinfo``, which any number of tasks may await."""

    def __init__(self, started_at: float) -> None:
        self.started_at = started_at
        self.done = trio.Event()
        self.found: outcome.Outcome[Found]
